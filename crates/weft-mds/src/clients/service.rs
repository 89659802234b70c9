//! What clients hold, and how it is taken from them.

use std::sync::Arc;
use weft_server::core::Core;

use super::{
    callback::Callbacks,
    delegations::Delegations,
    layout_recall::LayoutRecalls,
    lock_notices,
    records::{ClientRecords, Known},
};
use crate::{files::FileService, protocol_state::ProtocolState};

/// The clients of a metadata server.
pub(crate) struct Clients {
    pub(super) core: Arc<Core>,
    pub(super) protocol: Arc<ProtocolState>,
    pub(super) files: Arc<FileService>,
    pub(super) callbacks: Arc<Callbacks>,
    /// Who may reclaim after the next restart.
    pub(crate) records: ClientRecords,
    /// Layouts, and how they are taken back.
    pub(crate) layouts: Arc<LayoutRecalls>,
    /// Delegations, and how they are taken back.
    pub(crate) delegations: Arc<Delegations>,
}

impl Clients {
    /// The clients of a server, of which these may reclaim.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        known: Vec<Known>,
    ) -> Arc<Self> {
        let callbacks = Arc::new(Callbacks::new(core.clone()));
        Arc::new(Clients {
            records: ClientRecords::new(files.volume().clone(), known),
            layouts: Arc::new(LayoutRecalls::new(core, protocol, files, &callbacks)),
            delegations: Arc::new(Delegations::new(core, protocol, files, &callbacks)),
            core: core.clone(),
            protocol: protocol.clone(),
            files: files.clone(),
            callbacks,
        })
    }

    /// Where the bytes of their files are.
    pub(crate) fn files(&self) -> &Arc<FileService> {
        &self.files
    }

    /// Tells those who wait for locks that have been given up since the last time.
    pub(crate) fn notify_lock_waiters(&self) {
        lock_notices::send(&self.protocol, &self.callbacks);
    }
}
