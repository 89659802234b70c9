//! What a file knows of its layout.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use weft_nfs::{IoMode, LayoutType, NfsStat, OpNum, Stateid};

use super::server_queues::Target;
use crate::{
    error::ClientError,
    layout::{
        ExportedLayout, LayoutSource,
        plan::{IoFailure, LayoutDriver, Plan},
    },
    limits,
    local::LocalHold,
    sync::Mutex,
};

/// Whether a layout is held, and if not, whether to ask for one.
#[derive(Debug)]
pub(super) enum LayoutState {
    /// The next I/O that is worth a layout asks for one.
    None,
    /// I/O goes through this one.
    Held(Arc<Held>),
    /// Reads go through this one of another client, of which the metadata server knows nothing
    /// here: it is never returned, and nothing is written by it.
    Imported(Arc<Imported>),
    /// Through the metadata server until then.
    Avoid(Instant),
}

impl LayoutState {
    /// Through the metadata server for a while.
    pub(super) fn avoid() -> LayoutState {
        LayoutState::Avoid(Instant::now() + limits::LAYOUT_AVOID)
    }

    /// The layout, if one is held.
    pub(super) fn held(&self) -> Option<&Arc<Held>> {
        if let LayoutState::Held(held) = self { Some(held) } else { None }
    }

    /// Whether there is no reason to ask for a layout.
    pub(super) fn serves(&self, iomode: IoMode) -> bool {
        match self {
            LayoutState::Held(held) => held.serves(iomode),
            LayoutState::Imported(_) => iomode == IoMode::READ,
            LayoutState::Avoid(until) => Instant::now() < *until,
            LayoutState::None => false,
        }
    }
}

/// A layout that another client was granted.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) exported: ExportedLayout,
    pub(super) plan: Plan,
    /// Closes its descriptors with it.
    pub(super) _local: Option<LocalHold>,
}

/// A layout that was granted. It covers the whole file, which is all we ask for.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) plan: Arc<Plan>,
    /// What the plan was made of.
    pub(super) source: LayoutSource,
    driver: Arc<dyn LayoutDriver>,
    pub(super) stateid: Stateid,
    /// How often the server had forgotten us when it was granted.
    pub(super) losses: u64,
    /// After the server gave no write layout beside this one for reading: when to ask again.
    ask_again: Mutex<Option<Instant>>,
    written: Mutex<Written>,
    failures: Failures,
    /// Data servers that the metadata server was told of.
    reported: Mutex<HashSet<SocketAddr>>,
    /// Reads through it so far.
    reads: AtomicU32,
    /// Closes the descriptors of its objects with it.
    _local: Option<LocalHold>,
}

/// What was written through a layout.
#[derive(Debug, Default)]
struct Written {
    /// The range since the last LAYOUTCOMMIT: its first byte, and the one behind its last.
    untold: Option<(u64, u64)>,
    /// LAYOUTCOMMITs that are under way.
    being_told: u32,
}

impl Written {
    fn note(&mut self, offset: u64, end: u64) {
        let (from, to) = self.untold.unwrap_or((offset, end));
        self.untold = Some((from.min(offset), to.max(end)));
    }
}

/// What a LAYOUTGET granted.
pub(super) struct Granted {
    pub(super) plan: Plan,
    pub(super) source: LayoutSource,
    pub(super) driver: Arc<dyn LayoutDriver>,
    pub(super) stateid: Stateid,
    pub(super) local: Option<LocalHold>,
}

impl Held {
    pub(super) fn new(granted: Granted, losses: u64) -> Held {
        Held {
            plan: Arc::new(granted.plan),
            source: granted.source,
            driver: granted.driver,
            stateid: granted.stateid,
            losses,
            ask_again: Mutex::new(None),
            written: Mutex::default(),
            failures: Failures::default(),
            reported: Mutex::default(),
            reads: AtomicU32::new(0),
            _local: granted.local,
        }
    }

    /// Its type.
    pub(super) fn layout_type(&self) -> LayoutType {
        self.driver.layout_type()
    }

    /// What data servers have failed to do under it.
    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Data servers that could not be reached under it, each once, with the first range asked for:
    /// what a LAYOUTERROR says. Types of layouts that tell it with their return tell it there.
    pub(super) fn take_unreached(&self) -> Vec<IoFailure> {
        if self.driver.returns_failures() {
            return Vec::new();
        }
        let (unreached, mut reported) = (self.failures.unreached.lock(), self.reported.lock());
        let new = unreached.iter().filter(|(addr, _)| reported.insert(*addr));
        new.map(|(_, failure)| *failure).collect()
    }

    /// Counts one more read through it: whether there were so many that descriptors of its objects
    /// are worth asking for, however small the reads.
    pub(super) fn count_read(&self) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed) >= limits::DESCRIPTOR_READS
    }

    /// What its LAYOUTRETURN says.
    pub(super) fn return_body(&self) -> Bytes {
        self.driver.return_body(self.stateid, &self.failures.kinds.lock())
    }

    /// What it may be used for.
    pub(super) fn iomode(&self) -> IoMode {
        self.source.segment.iomode
    }

    /// Whether it is to be used for this, be it because the server gives nothing better.
    fn serves(&self, iomode: IoMode) -> bool {
        self.iomode() == IoMode::RW
            || iomode == IoMode::READ
            || self.ask_again.lock().is_some_and(|at| Instant::now() < at)
    }

    /// It serves for everything until then.
    pub(super) fn ask_again_at(&self, at: Instant) {
        *self.ask_again.lock() = Some(at);
    }

    /// Notes that this range was written.
    pub(super) fn note_written(&self, offset: u64, end: u64) {
        self.written.lock().note(offset, end);
    }

    /// Whether the metadata server has yet to be told of something, or to answer that it was.
    pub(super) fn has_untold(&self) -> bool {
        let written = self.written.lock();
        written.untold.is_some() || written.being_told > 0
    }

    /// What the metadata server has not been told of yet.
    pub(super) fn take_written(&self) -> Option<Untold<'_>> {
        let mut written = self.written.lock();
        let range = written.untold.take()?;
        written.being_told += 1;
        Some(Untold { held: self, range, acknowledged: false })
    }
}

/// What data servers have failed to do, each kind of failure once with the range that it spans: as
/// many kinds as one LAYOUTRETURN has room for ([`limits::IO_FAILURES_MAX`]). And the first failure
/// to reach each data server, as many.
#[derive(Debug, Default)]
pub(super) struct Failures {
    kinds: Mutex<Vec<IoFailure>>,
    unreached: Mutex<Vec<(SocketAddr, IoFailure)>>,
}

impl Failures {
    /// Notes one, unless it was the metadata server.
    pub(super) fn note(&self, target: &Target, op: OpNum, range: (u64, u64), e: &ClientError) {
        let Target::Ds(ds) = target else { return };
        let status = match e {
            ClientError::Nfs { status, .. } => *status,
            ClientError::Unreachable { .. } => NfsStat::NXIO,
            _ => NfsStat::IO,
        };
        let (from, end) = range;
        let failure = IoFailure { device: ds.device, op, status, from, end };
        self.add(failure);
        if let (NfsStat::NXIO, Some(addr)) = (status, ds.server.first()) {
            self.add_unreached(*addr, failure);
        }
    }

    fn add_unreached(&self, addr: SocketAddr, failure: IoFailure) {
        let mut all = self.unreached.lock();
        if all.len() < limits::IO_FAILURES_MAX && all.iter().all(|(known, _)| *known != addr) {
            all.push((addr, failure));
        }
    }

    /// Notes these, too.
    pub(super) fn extend(&self, others: &Failures) {
        std::mem::take(&mut *others.kinds.lock()).into_iter().for_each(|f| self.add(f));
        let unreached = std::mem::take(&mut *others.unreached.lock());
        unreached.into_iter().for_each(|(addr, failure)| self.add_unreached(addr, failure));
    }

    fn add(&self, new: IoFailure) {
        let kind = |f: &IoFailure| (f.device, f.op, f.status);
        let mut all = self.kinds.lock();
        if let Some(known) = all.iter_mut().find(|f| kind(f) == kind(&new)) {
            (known.from, known.end) = (known.from.min(new.from), known.end.max(new.end));
        } else if all.len() < limits::IO_FAILURES_MAX {
            all.push(new);
        }
    }
}

/// A range the metadata server is being told of. Dropped before it is acknowledged, the range is
/// noted again.
pub(super) struct Untold<'a> {
    held: &'a Held,
    /// Its first byte, and the one behind its last.
    pub(super) range: (u64, u64),
    acknowledged: bool,
}

impl Untold<'_> {
    pub(super) fn acknowledged(mut self) {
        self.acknowledged = true;
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        let mut written = self.held.written.lock();
        written.being_told -= 1;
        if !self.acknowledged {
            written.note(self.range.0, self.range.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::{DeviceId, FileHandle};

    use super::*;
    use crate::layout::StripeTarget;

    fn target(device: u8) -> Target {
        Target::Ds(StripeTarget {
            device: DeviceId([device; 16]),
            server: Vec::new().into(),
            minorversion: None,
            fh: FileHandle(Bytes::new()),
            stateid: None,
        })
    }

    /// Failures of a kind are one with the range of all; what could not be reached is NXIO, and the
    /// metadata server is not reported to itself. No more kinds are kept than are told of.
    #[test]
    fn failures_are_kept_by_kind() {
        let unreachable =
            ClientError::Unreachable { addr: ([127, 0, 0, 1], 1).into(), why: "gone".into() };
        let (all, some) = (Failures::default(), Failures::default());
        all.note(&target(1), OpNum::WRITE, (20, 30), &unreachable);
        some.note(&target(1), OpNum::WRITE, (5, 10), &unreachable);
        some.note(&target(1), OpNum::READ, (0, 1), &ClientError::Closed);
        some.note(&Target::Mds(FileHandle(Bytes::new())), OpNum::READ, (0, 1), &unreachable);
        all.extend(&some);
        let seen = |f: &IoFailure| (f.op, f.status, f.from, f.end);
        let kinds: Vec<_> = all.kinds.lock().iter().map(seen).collect();
        let want = [(OpNum::WRITE, NfsStat::NXIO, 5, 30), (OpNum::READ, NfsStat::IO, 0, 1)];
        assert_eq!(kinds, want);
        for device in 2..u8::MAX {
            all.note(&target(device), OpNum::READ, (0, 1), &unreachable);
        }
        assert_eq!(all.kinds.lock().len(), limits::IO_FAILURES_MAX);
    }
}
