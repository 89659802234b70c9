//! What clients hold, and how it is taken from them.

use std::sync::Arc;
use weft_server::core::Core;
use weft_store::types::StoreError;

use super::{
    callback::Callbacks,
    delegations::Delegations,
    layout_recall::LayoutRecalls,
    lock_notices,
    records::{ClientRecords, Known},
    sweep::{Rules, Sweep},
};
use crate::{files::FileService, protocol_state::ProtocolState};

/// The clients of a metadata server.
pub(crate) struct Clients {
    pub(super) core: Arc<Core>,
    pub(super) protocol: Arc<ProtocolState>,
    pub(super) files: Arc<FileService>,
    pub(super) callbacks: Arc<Callbacks>,
    /// Who may reclaim after the next restart.
    pub(crate) records: Arc<ClientRecords>,
    /// Layouts, and how they are taken back.
    pub(crate) layouts: Arc<LayoutRecalls>,
    /// Delegations, and how they are taken back.
    pub(crate) delegations: Arc<Delegations>,
    /// The end of handles that former rules gave out.
    pub(crate) sweep: Sweep,
}

impl Clients {
    /// The clients of a server, of which these may reclaim, and for whom these rules hold.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        known: Vec<Known>,
        rules: Rules,
    ) -> Result<Arc<Self>, StoreError> {
        let callbacks = Arc::new(Callbacks::new(core.clone()));
        let layouts = Arc::new(LayoutRecalls::new(core, protocol, files, &callbacks));
        let records = Arc::new(ClientRecords::new(files.volume().clone(), known));
        let all = (&layouts, &records);
        Ok(Arc::new(Clients {
            delegations: Arc::new(Delegations::new(core, protocol, files, &callbacks, all)),
            records,
            sweep: Sweep::new(protocol, files, &layouts, rules)?,
            layouts,
            core: core.clone(),
            protocol: protocol.clone(),
            files: files.clone(),
            callbacks,
        }))
    }

    /// New rules for clients hold. If any may do less by them, all handles that were given out end
    /// soon, of whatever file and to whomever; who still may gets new ones.
    pub(crate) fn new_rules(&self, rules: Rules, restrict: bool) {
        self.sweep.begin(rules, restrict);
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
