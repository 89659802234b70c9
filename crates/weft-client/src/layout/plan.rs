//! What a layout driver makes of a layout.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use weft_nfs::{DeviceId, FileHandle, LayoutType, Stateid, ops::LayoutSegment};
use weft_stripe::Distribution;

/// A data server's addresses, in the device's order: several ways to one server.
pub type DataServerAddrs = Arc<[SocketAddr]>;

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

/// One layout type's knowledge (P4.1).
pub trait LayoutDriver: Send + Sync + 'static {
    /// The type it understands.
    fn layout_type(&self) -> LayoutType;

    /// Which device a layout refers to.
    ///
    /// # Errors
    /// [`LayoutError`] for a body that cannot be read.
    fn device(&self, segment: &LayoutSegment) -> Result<DeviceId, LayoutError>;

    /// Layout and device together.
    ///
    /// # Errors
    /// [`LayoutError`] for bodies that cannot be read or do not fit each other. `mds_fh` is used
    /// where a layout carries no filehandles of its own.
    fn plan(
        &self,
        segment: &LayoutSegment,
        device: &Bytes,
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError>;
}
