//! Taking layouts back: CB_LAYOUTRECALL (RFC 8881 §20.3, §12.5.5), revocation with fencing when
//! a client does not answer (design D5), and the end of a client.

use std::{
    collections::HashSet,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use weft_nfs::{
    ClientId, IoMode, LayoutType, NFS_PROGRAM, NfsStat, Stateid,
    callback::{
        CB_PROC_COMPOUND, CB_VERSION, CbCompoundHeader, CbLayoutrecallArgs, CbOp, CbReply,
        LayoutRecall,
    },
    seq4_status,
};
use weft_state::{Callback, FileKey};
use weft_store::types::{Inode, InodeNo, StoreError};
use weft_xdr::{
    Decode, Encode, Writer,
    rpc::{AuthFlavor, CallHeader, OpaqueAuth},
};

use super::{Handle, Mds};
use crate::rpc::CallbackError;

/// How long one callback may take before it is sent again or given up.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(5);
/// Clients' handles remembered for writing late; beyond that the memory starts anew.
const HANDLES_REMEMBERED_MAX: usize = 65_536;
/// Pause before a recall is repeated after DELAY.
const RECALL_PAUSE: Duration = Duration::from_millis(200);

impl Mds {
    /// Recalls the write layouts that others than `except` hold on a file; whether any is out.
    pub(super) fn recall_writers(&self, file: FileKey, except: Option<ClientId>) -> bool {
        let holders = self.state().layouts_on(file);
        let mut any = false;
        for holder in holders.into_iter().filter(|h| h.rw && Some(h.client) != except) {
            any = true;
            let begun = self.state().recall_begin(self.core.clock.now(), holder.client, file);
            if let (Some(stateid), Some(me)) = (begun, self.me.upgrade()) {
                tokio::spawn(me.recall(holder.client, file, stateid));
            }
        }
        any
    }

    async fn recall(self: Arc<Self>, client: ClientId, file: FileKey, stateid: Stateid) {
        let op = CbOp::Layoutrecall(CbLayoutrecallArgs {
            layout_type: LayoutType::NFSV4_1_FILES,
            iomode: IoMode::ANY,
            changed: false,
            recall: LayoutRecall::File {
                fh: Handle::of(file).to_wire(),
                offset: 0,
                length: u64::MAX,
                stateid,
            },
        });
        // Until it is answered, returned, or overdue: then `background` revokes the layout.
        while self.state().recall_stateid(client, file) == Some(stateid) {
            match self.call_back(client, &op).await {
                // The client will send LAYOUTRETURN when its I/O has drained.
                Ok(NfsStat::OK) => return,
                Ok(NfsStat::NOMATCHING_LAYOUT) => {
                    return self.has_none(client, file, stateid).await;
                }
                Ok(status) => tracing::debug!(client = client.0, %status, "layout recall"),
                Err(e) => tracing::debug!(client = client.0, error = %e, "layout recall"),
            }
            tokio::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// The client says that it has no such layout, and no LAYOUTRETURN follows (Linux:
    /// `pnfs_layout_mark_request`). The recall may also have overtaken the reply that grants the
    /// layout: what it was given is made worthless before it is forgotten.
    async fn has_none(&self, client: ClientId, file: FileKey, stateid: Stateid) {
        let ino = InodeNo(file.object);
        if let Err(status) = self.fence(ino).await {
            tracing::warn!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
            return;
        }
        let mut state = self.state();
        if state.recall_stateid(client, file) == Some(stateid) {
            state.recall_done(client, file);
        }
    }

    /// One callback operation behind its CB_SEQUENCE; the operation's status. Runs to its end
    /// even if nobody waits for it any more, since it holds a slot of the back channel.
    async fn call_back(&self, client: ClientId, op: &CbOp) -> Result<NfsStat, CallbackError> {
        let begun = self.core.sessions().callback_begin(client);
        let callback = begun.ok_or(CallbackError::Closed)?;
        let reply = self.send_callback(&callback, op).await;
        let mut sessions = self.core.sessions();
        let Ok(reply) = reply else {
            sessions.callback_end(&callback, false);
            return reply.map(|r| r.status);
        };
        let mut results = reply.results.iter();
        match results.next().map(|(_, status, _)| *status) {
            Some(NfsStat::OK | NfsStat::RETRY_UNCACHED_REP) => {
                sessions.callback_end(&callback, true);
            }
            // CB_SEQUENCE itself was refused: its sequence id was not used up.
            Some(status) => {
                sessions.callback_refused(&callback);
                return Ok(status);
            }
            None => {
                sessions.callback_end(&callback, false);
                return Ok(reply.status);
            }
        }
        Ok(results.next().map_or(NfsStat::SERVERFAULT, |(_, status, _)| *status))
    }

    async fn send_callback(&self, cb: &Callback, op: &CbOp) -> Result<CbReply, CallbackError> {
        let conn = self.core.connections.find(cb.conn).ok_or(CallbackError::Closed)?;
        let credential = match &cb.sec {
            weft_nfs::ops::CallbackSec::Sys(sys) => {
                OpaqueAuth { flavor: AuthFlavor::SYS, body: weft_xdr::to_bytes(sys) }
            }
            weft_nfs::ops::CallbackSec::None | weft_nfs::ops::CallbackSec::Gss => OpaqueAuth::NONE,
        };
        let header = CallHeader {
            program: cb.cb_program,
            version: CB_VERSION,
            procedure: CB_PROC_COMPOUND,
            credential,
            verifier: OpaqueAuth::NONE,
        };
        debug_assert_ne!(
            cb.cb_program, NFS_PROGRAM,
            "a callback program is in the transient range"
        );
        let mut w = Writer::new();
        let head = CbCompoundHeader {
            tag: weft_nfs::Opaque::default(),
            minorversion: cb.minorversion,
            callback_ident: 0,
            count: 2,
        };
        head.encode(&mut w);
        CbOp::Sequence(cb.sequence).encode(&mut w);
        op.encode(&mut w);
        let mut results = conn.call_back(&header, w.into_segments(), CALLBACK_TIMEOUT).await?;
        CbReply::decode(&mut results)
            .map_err(|_| CallbackError::Refused(weft_xdr::rpc::Reply::GarbageArgs))
    }

    /// Takes a layout away from a client that did not return it: its data-server handles stop
    /// working, durably, before anyone else relies on it.
    pub(super) async fn revoke(&self, client: ClientId, file: FileKey, rw: bool) {
        let ino = InodeNo(file.object);
        if rw && let Err(status) = self.fence_or_resend(ino).await {
            tracing::warn!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
            self.lock_unfenced().insert(ino);
            return;
        }
        self.lock_unfenced().remove(&ino);
        tracing::warn!(client = client.0, ino = ino.0, "layout revoked");
        self.state().layout_revoke(client, file);
        // Told once: the stateid is unknown from now on, so there is nothing to free.
        let flag = seq4_status::RECALLABLE_STATE_REVOKED;
        self.core.sessions().status_flag_once(client, flag);
    }

    /// Makes every data-server handle of the file issued so far worthless (design D5).
    ///
    /// # Errors
    /// The store or a data server failed: handles may still work.
    pub(super) async fn fence(&self, ino: InodeNo) -> Result<(), NfsStat> {
        let bumped = self.volume.bump_epoch(ino);
        match bumped.value {
            // The file is gone, and its objects with it.
            Err(StoreError::Stale) => return Ok(()),
            Err(e) => return Err(super::translate::status(&e)),
            Ok(_) => {}
        }
        self.volume.durable(bumped.lsn).await.map_err(|e| super::translate::status(&e))?;
        self.send_fence(ino).await
    }

    /// Tells the data servers of a file its epoch.
    async fn send_fence(&self, ino: InodeNo) -> Result<(), NfsStat> {
        let inode = match self.volume.inode(ino).value {
            Err(StoreError::Stale) => return Ok(()),
            inode => inode.map_err(|e| super::translate::status(&e))?,
        };
        let Some(striped) = self.striped(&inode) else { return Ok(()) };
        let fenced = self.data_servers.fence(&striped).await;
        fenced.map_err(|e| super::translate::data_server_status(&e))
    }

    /// Fences, or only tells again what could not be told: another epoch would take working
    /// handles from everybody else.
    async fn fence_or_resend(&self, ino: InodeNo) -> Result<(), NfsStat> {
        if self.is_unfenced(ino) { self.send_fence(ino).await } else { self.fence(ino).await }
    }

    fn lock_unfenced(&self) -> MutexGuard<'_, HashSet<InodeNo>> {
        self.unfenced.lock().expect("unfenced lock")
    }

    /// Whether handles that were taken away may still work: nothing may rely on the file being
    /// quiet.
    pub(super) fn is_unfenced(&self, ino: InodeNo) -> bool {
        self.lock_unfenced().contains(&ino)
    }

    /// Whether something that the client sent to data servers itself may still be carried out
    /// there: it was given handles to write with that have not been fenced since.
    pub(super) fn may_write_late(&self, client: ClientId, inode: &Inode) -> bool {
        let handles = self.handles_out.lock().expect("handles lock");
        handles.get(&(client, inode.no)) == Some(&inode.fence_epoch)
    }

    /// Notes that the client is being given such handles.
    pub(super) fn gives_handles(&self, client: ClientId, inode: &Inode) {
        let mut handles = self.handles_out.lock().expect("handles lock");
        if handles.len() >= HANDLES_REMEMBERED_MAX {
            handles.clear();
        }
        handles.insert((client, inode.no), inode.fence_epoch);
    }

    /// Notes a write of ours that a data server may still carry out some day.
    pub(super) fn suspect(&self, ino: InodeNo) {
        self.suspects.lock().expect("suspects lock").insert(ino);
    }

    /// Whether there is such a write.
    pub(super) fn is_suspect(&self, ino: InodeNo) -> bool {
        self.suspects.lock().expect("suspects lock").contains(&ino)
    }

    /// Notes that it cannot happen any more.
    pub(super) fn is_fenced(&self, ino: InodeNo) {
        self.suspects.lock().expect("suspects lock").remove(&ino);
    }

    /// Ends everything a client held: opens, locks, layouts, its record.
    pub(super) async fn drop_client_state(&self, client: ClientId) {
        let dropped = {
            let _gate = self.layout_gate.lock().expect("layout gate");
            let dropped = self.state().drop_client(client);
            // From here on nobody takes these files for quiet.
            let files = dropped.rw_layouts.iter().map(|f| InodeNo(f.object));
            self.lock_unfenced().extend(files);
            dropped
        };
        self.handles_out.lock().expect("handles lock").retain(|(c, _), _| *c != client);
        for file in dropped.rw_layouts {
            let ino = InodeNo(file.object);
            match self.fence(ino).await {
                Ok(()) => drop(self.lock_unfenced().remove(&ino)),
                Err(status) => {
                    tracing::warn!(ino = ino.0, %status, "a dead client's file is not fenced yet");
                }
            }
        }
        for file in dropped.closed {
            self.last_close(InodeNo(file.object)).await;
        }
        let mut records = self.client_records.lock().expect("client records lock");
        records.retain(|_, id| *id != client.0);
        if let Err(e) = self.volume.client_remove(client.0).value {
            tracing::error!(error = %e, "cannot remove a client record");
        }
    }

    /// Fences that a data server could not be told of are tried again until it was.
    pub(super) async fn fence_again(&self) {
        let waiting: Vec<_> = self.lock_unfenced().iter().copied().collect();
        for ino in waiting {
            if self.send_fence(ino).await.is_ok() {
                self.lock_unfenced().remove(&ino);
            }
        }
    }

    /// The last open of a file is gone: an unlinked one goes now.
    pub(super) async fn last_close(&self, ino: InodeNo) {
        let released = self.volume.release_orphan(ino, self.wall());
        match released.value {
            Ok(_) => self.reap.notify_one(),
            Err(e) => tracing::error!(ino = ino.0, error = %e, "cannot release an unlinked file"),
        }
    }
}
