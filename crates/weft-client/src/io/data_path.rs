//! What the steps of an I/O work on: one open, the file behind it, and the servers.

use std::sync::Arc;

use tokio::task::AbortHandle;
use weft_nfs::{FileHandle, Stateid};

use super::{
    cluster::Cluster,
    delegated::HeldNow,
    memory::Pressure,
    open::{Open, Opened},
    shared_file::SharedFile,
};
use crate::{session::Session, sync::Mutex};

/// The way of the data of one open of a file. Each verb of it stands in a file of its own, which
/// calls only those below it: wire calls, one try each (`size`, `layout`, `write`, `read`,
/// `commit`), then `reopen`, then `recover`, then `cached` and `write_back`.
pub(super) struct DataPath {
    pub(super) cluster: Arc<Cluster>,
    /// The metadata server, for the user whose open it is.
    pub(super) mds: Session,
    pub(super) open: Arc<Open>,
    pub(super) file: Arc<SharedFile>,
    /// What is read ahead.
    pub(super) ahead: Mutex<Vec<AbortHandle>>,
}

impl DataPath {
    pub(super) fn new(cluster: Arc<Cluster>, opened: Opened) -> DataPath {
        let file = cluster.files.join(&opened.fh);
        file.opened(&opened);
        let mds = cluster.mds.acting_for(opened.caller.clone());
        let open = Open::new(opened, mds, cluster.closes.clone());
        DataPath::of(cluster, Arc::new(open), file)
    }

    /// The way of another open of a file.
    pub(super) fn of(cluster: Arc<Cluster>, open: Arc<Open>, file: Arc<SharedFile>) -> DataPath {
        let mds = open.mds.clone();
        DataPath { cluster, mds, open, file, ahead: Mutex::default() }
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

    /// Whether the file, with this end at least, is one of those whose data the metadata server
    /// wants to see on data servers.
    pub(super) fn is_worth_layout(&self, by: &Open, end: u64) -> bool {
        end.max(self.file.size()) >= by.opened.thresholds.write_size
    }

    /// The delegation of the file, if one is held.
    pub(super) fn held_delegation(&self) -> Option<HeldNow> {
        self.cluster.delegated.held(&self.mds, self.fh())
    }

    /// Whether it is known where the file ends, and no other client can change that now.
    pub(super) fn knows_size(&self) -> bool {
        self.file.known_size().is_some() && self.held_delegation().is_some()
    }

    /// What the memory of all files asks of whoever writes to this one.
    pub(super) fn pressure(&self) -> Pressure {
        self.cluster.files.memory.pressure(self.file.id())
    }
}
