//! What the steps of an I/O work on: one open, the file behind it, and the servers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use weft_nfs::{FileHandle, Stateid};

use super::{
    cluster::Cluster,
    open::{Open, Opened},
    shared_file::SharedFile,
};
use crate::session::Session;

/// The way of the data of one open of a file. Each verb of it stands in a file of its own, which
/// calls only those below it: wire calls, one try each (`size`, `layout`, `write`, `read`,
/// `commit`), then `reopen`, then `recover`, then `gather`.
pub(super) struct DataPath {
    pub(super) cluster: Arc<Cluster>,
    /// The metadata server, for the user whose open it is.
    pub(super) mds: Session,
    pub(super) open: Arc<Open>,
    pub(super) file: Arc<SharedFile>,
    /// End of the file as far as we know: grows with our writes, refreshed before reads at it.
    size: AtomicU64,
}

impl DataPath {
    pub(super) fn new(cluster: Arc<Cluster>, opened: Opened) -> DataPath {
        DataPath {
            size: AtomicU64::new(opened.size),
            file: cluster.files.join(&opened.fh),
            mds: cluster.mds.acting_for(opened.caller.clone()),
            open: Arc::new(Open::new(opened)),
            cluster,
        }
    }

    pub(super) fn fh(&self) -> &FileHandle {
        &self.open.opened.fh
    }

    pub(super) fn io_stateid(&self) -> Stateid {
        self.open.io_stateid()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.open.is_writable()
    }

    /// The end of the file as far as this client knows.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Notes a size set or learnt elsewhere.
    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// Notes that the file reaches at least this far.
    pub(super) fn grow_to(&self, end: u64) {
        self.size.fetch_max(end, Ordering::AcqRel);
    }

    /// Whether the file, with this end at least, is one of those whose data the metadata server
    /// wants to see on data servers.
    pub(super) fn is_worth_layout(&self, by: &Open, end: u64) -> bool {
        end.max(self.size()) >= by.opened.thresholds.write_size
    }
}
