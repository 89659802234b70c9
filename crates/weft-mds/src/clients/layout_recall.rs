//! Taking layouts back: CB_LAYOUTRECALL (RFC 8881 §20.3, §12.5.5), and revocation when a client
//! does not answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use weft_nfs::{
    ClientId, FileHandle, IoMode, NfsStat, Stateid,
    callback::{CbLayoutrecallArgs, CbOp, LayoutRecall},
    seq4_status,
};
use weft_server::core::Core;
use weft_state::{FileKey, LayoutInfo, Overdue};
use weft_store::types::InodeNo;

use super::callback::Callbacks;
use crate::{
    files::{FileService, LayoutKind},
    handle::Handle,
    protocol_state::ProtocolState,
};

/// Pause before a recall is repeated.
const RECALL_PAUSE: Duration = Duration::from_millis(200);

/// How long whoever needs layouts back waits for those that hold them; less with a short lease,
/// since the client that waits does not renew.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Takes layouts back.
pub(crate) struct LayoutRecalls {
    core: Arc<Core>,
    protocol: Arc<ProtocolState>,
    files: Arc<FileService>,
    callbacks: Arc<Callbacks>,
    /// Who was waited for in vain, and when.
    silent: Mutex<HashMap<ClientId, Instant>>,
}

impl LayoutRecalls {
    /// From the clients of this server.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        callbacks: &Arc<Callbacks>,
    ) -> Self {
        LayoutRecalls {
            core: core.clone(),
            protocol: protocol.clone(),
            files: files.clone(),
            callbacks: callbacks.clone(),
            silent: Mutex::default(),
        }
    }

    /// Recalls the write layouts that others than `except` hold on a file; whether any is out.
    pub(crate) fn recall_writers(
        self: &Arc<Self>,
        file: FileKey,
        except: Option<ClientId>,
    ) -> bool {
        let holders = self.protocol.state().layouts_on(file);
        let mut any = false;
        for holder in holders.into_iter().filter(|h| h.rw && Some(h.client) != except) {
            any = true;
            self.recall_from(holder.client, file);
        }
        any
    }

    /// When somebody who begins to wait for layouts now gives up.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + PATIENCE.min(self.lease() / 4)
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.core.lease_s.into())
    }

    /// Ends the handles of a file of which the volume knows that they are to end: on success no
    /// data server accepts one. Who uses them is asked first to give them back, and waited for a
    /// while, until `at_most` if that is sooner. Linux needs that: when data servers refuse it
    /// several requests at once (`filelayout_async_handle_error`), the later answers end the layout
    /// that it got since, and who waits for that one may be left waiting for ever
    /// (`NFS_LAYOUT_DRAIN`).
    ///
    /// # Errors
    /// They may still work: a data server cannot be told now, and is told in the background.
    pub(crate) async fn end_handles(
        self: &Arc<Self>,
        ino: InodeNo,
        at_most: Option<Instant>,
    ) -> Result<(), NfsStat> {
        let file = self.files.key(ino);
        if !self.files.owes_end(ino)? || self.protocol.state().layouts_on(file).is_empty() {
            return self.files.end_owed(ino).await;
        }
        let deadline = at_most.into_iter().fold(self.deadline(), Instant::min);
        let recalls = self.clone();
        // Goes on if whoever asked for it goes.
        let ended = tokio::spawn(async move {
            recalls.take_back(file, deadline).await;
            recalls.files.end_owed(ino).await
        });
        ended.await.unwrap_or(Err(NfsStat::SERVERFAULT))
    }

    /// Recalls the layouts that are out on a file, to read ones too, and waits until those are
    /// back, or for the deadline. Who was waited for in vain is not waited for once more, of
    /// whatever file, for the time of a lease.
    async fn take_back(self: &Arc<Self>, file: FileKey, deadline: Instant) {
        let held = self.protocol.state().layouts_on(file);
        let answers = |client| self.core.sessions().has_back_channel(client);
        let mut held: Vec<_> = held.into_iter().filter(|h| answers(h.client)).collect();
        held.iter().for_each(|holder| self.recall_from(holder.client, file));
        held.retain(|holder| !self.is_silent(holder.client));
        let is_out = |h: &LayoutInfo| self.recall_out(h.client, file, h.stateid).is_some();
        while held.iter().any(is_out) {
            if Instant::now() > deadline {
                held.retain(is_out);
                return held.into_iter().for_each(|holder| self.was_silent(holder.client));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn is_silent(&self, client: ClientId) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(&client).is_some_and(|since| since.elapsed() < self.lease())
    }

    fn was_silent(&self, client: ClientId) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|_, since| since.elapsed() < self.lease());
        silent.insert(client, Instant::now());
    }

    /// Recalls what a client holds of a file, unless that is being done.
    fn recall_from(self: &Arc<Self>, client: ClientId, file: FileKey) {
        let begun = self.protocol.state().recall_begin(self.core.clock.now(), client, file);
        if let Some(stateid) = begun {
            tokio::spawn(self.clone().recall(client, file, stateid));
        }
    }

    async fn recall(self: Arc<Self>, client: ClientId, file: FileKey, stateid: Stateid) {
        // Until it is returned, or overdue: then `background` revokes the layout. Also after OK:
        // Linux keeps a layout while there is something to commit, and commits once for each
        // recall it gets (`initiate_file_draining`). A write that was under way then ends later,
        // and its writer waits for a layout that is granted only after the return.
        while let Some(now) = self.recall_out(client, file, stateid) {
            let op = layout_recall(self.files.layout(), Handle::of(file).to_wire(), now);
            match self.callbacks.call(client, &op).await {
                Ok(NfsStat::OK) => {}
                Ok(NfsStat::NOMATCHING_LAYOUT) => {
                    if self.has_none(client, file, stateid).await {
                        return;
                    }
                }
                Ok(status) => tracing::debug!(client = client.0, %status, "layout recall"),
                Err(e) => tracing::debug!(client = client.0, error = %e, "layout recall"),
            }
            tokio::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// The stateid of a recall that began with this one, if it is out still: what the client
    /// returned of the layout in parts has moved it on.
    fn recall_out(&self, client: ClientId, file: FileKey, begun: Stateid) -> Option<Stateid> {
        let out = self.protocol.state().recall_stateid(client, file);
        out.filter(|now| now.other == begun.other)
    }

    /// The client says that it has no such layout, and no LAYOUTRETURN follows (Linux:
    /// `pnfs_layout_mark_request`). The recall may also have overtaken the reply that grants the
    /// layout: what it was given to write with is made worthless before it is forgotten. Whether
    /// that is done; if not (others' handles became suspect meanwhile, a data server is away) it is
    /// tried again.
    async fn has_none(&self, client: ClientId, file: FileKey, stateid: Stateid) -> bool {
        if self.recall_out(client, file, stateid).is_none() {
            return true; // returned while the recall was on its way
        }
        let ino = InodeNo(file.object);
        let held = self.protocol.state().layouts_on(file);
        let writes = held.iter().any(|layout| layout.client == client && layout.rw);
        if writes && let Err(status) = self.files.revoke_handles(client, ino).await {
            tracing::debug!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
            return false;
        }
        let mut state = self.protocol.state();
        let out = state.recall_stateid(client, file);
        if out.is_some_and(|now| now.other == stateid.other) {
            state.recall_done(client, file);
        }
        true
    }

    /// Takes a layout away from a client that did not return it: its data-server handles stop
    /// working, durably, before anyone else relies on it. If that cannot be now, the layout stays
    /// until it can.
    pub(crate) async fn revoke(&self, layout: Overdue) {
        let Overdue { client, file, rw, .. } = layout;
        let ino = InodeNo(file.object);
        if rw && let Err(status) = self.files.revoke_handles(client, ino).await {
            tracing::warn!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
            return;
        }
        if !self.protocol.state().layout_revoke(&layout) {
            return;
        }
        tracing::warn!(client = client.0, ino = ino.0, "layout revoked");
        // Told once: the stateid is unknown from now on, so there is nothing to free.
        let flag = seq4_status::RECALLABLE_STATE_REVOKED;
        self.core.sessions().status_flag_once(client, flag);
    }
}

/// CB_LAYOUTRECALL of all that a client has of a file.
fn layout_recall(layout: LayoutKind, fh: FileHandle, stateid: Stateid) -> CbOp {
    CbOp::Layoutrecall(CbLayoutrecallArgs {
        layout_type: layout.wire(),
        iomode: IoMode::ANY,
        changed: false,
        recall: LayoutRecall::File { fh, offset: 0, length: u64::MAX, stateid },
    })
}
