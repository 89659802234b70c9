//! What a layout driver makes of a layout.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use weft_layout::NetAddr;
use weft_nfs::{DeviceId, FileHandle, LayoutType, NfsStat, OpNum, Stateid, ops::LayoutSegment};
use weft_stripe::Distribution;

/// A data server's addresses, in the device's order: several ways to one server.
pub type DataServerAddrs = Arc<[SocketAddr]>;

/// Those of a data server that we can connect to. Addresses of transports that are not ours are
/// other ways to the same server.
pub(super) fn tcp_addrs(addrs: &[NetAddr]) -> Result<DataServerAddrs, LayoutError> {
    let ours: DataServerAddrs =
        addrs.iter().filter_map(|addr| SocketAddr::try_from(addr).ok()).collect();
    match ours.is_empty() {
        true => Err(LayoutError::new("a data server without a TCP address")),
        false => Ok(ours),
    }
}

/// A layout or device that cannot be used. Its file goes through the metadata server instead.
#[derive(Debug, Clone, thiserror::Error)]
#[error("unusable layout: {why}")]
pub struct LayoutError {
    /// What is wrong with it.
    pub why: Arc<str>,
}

impl LayoutError {
    /// With this reason.
    pub fn new(why: impl std::fmt::Display) -> LayoutError {
        LayoutError { why: why.to_string().into() }
    }
}

/// A place where the bytes of one stripe index are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StripeTarget {
    /// The device it came from.
    pub device: DeviceId,
    /// The data server, by its addresses (several paths to one server).
    pub server: DataServerAddrs,
    /// The minor version of NFSv4 to speak with it; the client's own if absent.
    pub minorversion: Option<u32>,
    /// The object on it.
    pub fh: FileHandle,
    /// What I/O carries there; the stateid of the open if absent.
    pub stateid: Option<Stateid>,
}

/// All places where the bytes of one stripe index are, the best one to read from first. There is
/// at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    best: StripeTarget,
    others: Vec<StripeTarget>,
}

impl Replicas {
    /// The only place.
    pub fn one(target: StripeTarget) -> Replicas {
        Replicas { best: target, others: Vec::new() }
    }

    /// Several, in the order in which they are to be tried for reading; none of no places.
    pub fn best_first(targets: Vec<StripeTarget>) -> Option<Replicas> {
        let mut targets = targets.into_iter();
        Some(Replicas { best: targets.next()?, others: targets.collect() })
    }

    /// The best one to read from.
    pub fn best(&self) -> &StripeTarget {
        &self.best
    }

    /// The same, each changed by itself.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&StripeTarget) -> StripeTarget) -> Replicas {
        let best = change(&self.best);
        Replicas { best, others: self.others.iter().map(change).collect() }
    }

    /// All of them, the best one first.
    pub fn all(&self) -> impl Iterator<Item = &StripeTarget> {
        std::iter::once(&self.best).chain(&self.others)
    }
}

/// What I/O through a layout has to heed, beside where the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoRules {
    /// Servers carry what is written to one replica to the others: it is written to the best one
    /// alone.
    pub writes_one: bool,
    /// A layout for writing is not to be read through.
    pub is_only_for_writing: bool,
    /// COMMIT is asked of the metadata server, not of those that were written to (RFC 8881 §13.7).
    pub commits_at_mds: bool,
    /// Bytes of the largest READ.
    pub read_bytes_max: u32,
    /// Bytes of the largest WRITE.
    pub write_bytes_max: u32,
}

impl Default for IoRules {
    /// Nothing to heed.
    fn default() -> Self {
        IoRules {
            writes_one: false,
            is_only_for_writing: false,
            commits_at_mds: false,
            read_bytes_max: u32::MAX,
            write_bytes_max: u32::MAX,
        }
    }
}

/// What is to be done with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// What a driver makes of a layout: everything needed to move bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How file offsets map to stripe indexes and object offsets.
    pub distribution: Distribution,
    /// Bytes in a stripe unit.
    pub stripe_unit_bytes: u64,
    /// By stripe index.
    pub stripes: Vec<Replicas>,
    /// What else to heed.
    pub rules: IoRules,
}

impl Plan {
    /// Whether every stripe index has its place: a plan of which that is not true would lose bytes.
    pub fn is_whole(&self) -> bool {
        self.stripes.len() == self.distribution.stripe_count() as usize
    }

    /// The places that have to do with a request for a stripe index. A READ goes to one after
    /// another until one has given the bytes, a WRITE to all of them. None for an index that the
    /// plan does not have.
    pub fn targets(&self, stripe_index: u32, purpose: Purpose) -> Vec<&StripeTarget> {
        let Some(replicas) = self.stripes.get(stripe_index as usize) else { return Vec::new() };
        match purpose {
            Purpose::Write if self.rules.writes_one => vec![replicas.best()],
            Purpose::Read | Purpose::Write => replicas.all().collect(),
        }
    }

    /// The devices of all places, each once, in the order of the stripes.
    pub fn devices(&self) -> Vec<DeviceId> {
        let mut seen = HashSet::new();
        let all = self.stripes.iter().flat_map(|replicas| replicas.all().map(|t| t.device));
        all.filter(|device| seen.insert(*device)).collect()
    }

    /// Bytes of the largest request.
    pub fn io_bytes_max(&self, purpose: Purpose) -> u32 {
        match purpose {
            Purpose::Read => self.rules.read_bytes_max,
            Purpose::Write => self.rules.write_bytes_max,
        }
    }
}

/// I/O that a data server has failed to do under a layout, for the server that granted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoFailure {
    /// The device.
    pub device: DeviceId,
    /// What it was asked for.
    pub op: OpNum,
    /// What it answered; NXIO if it could not be reached.
    pub status: NfsStat,
    /// First byte of the file concerned.
    pub from: u64,
    /// The one behind the last.
    pub end: u64,
}

/// One layout type's knowledge (P4.1): it turns opaque bodies into plans, and what has failed into
/// an opaque body. Several drivers live side by side in a client.
///
/// **Never known behind it**: sessions and sockets, what time it is, which requests are under way,
/// what was written and is not durable yet. A driver does no I/O and keeps nothing of a file: for
/// the same bodies it makes the same plan, and to be asked twice does no harm.
pub trait LayoutDriver: std::fmt::Debug + Send + Sync + 'static {
    /// The type it understands.
    fn layout_type(&self) -> LayoutType;

    /// Which devices a layout refers to, each once. More than
    /// [`limits::LAYOUT_DEVICES_MAX`](crate::limits::LAYOUT_DEVICES_MAX) are not asked for.
    ///
    /// # Errors
    /// [`LayoutError`] for a body that cannot be read.
    fn devices(&self, segment: &LayoutSegment) -> Result<Vec<DeviceId>, LayoutError>;

    /// Layout and devices together. The devices are those that [`LayoutDriver::devices`] has named.
    /// The plan must have as many stripes as its distribution, or it is refused.
    ///
    /// # Errors
    /// [`LayoutError`] for bodies that cannot be read or do not fit each other. `mds_fh` is used
    /// where a layout carries no filehandles of its own.
    fn plan(
        &self,
        segment: &LayoutSegment,
        devices: &[(DeviceId, Bytes)],
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError>;

    /// True if [`LayoutDriver::return_body`] reports failures.
    fn returns_failures(&self) -> bool {
        false
    }

    /// The body of the LAYOUTRETURN of a layout, which tells what has failed under it. Types that
    /// tell nothing have an empty one.
    fn return_body(&self, _stateid: Stateid, _failures: &[IoFailure]) -> Bytes {
        Bytes::new()
    }
}
