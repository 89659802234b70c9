//! Taking layouts back: CB_LAYOUTRECALL (RFC 8881 §20.3, §12.5.5), revocation when a client does
//! not answer, and the end of a client.

use std::{sync::Arc, time::Duration};

use weft_nfs::{
    ClientId, FileHandle, IoMode, LayoutType, NfsStat, Stateid,
    callback::{
        CB_PROC_COMPOUND, CB_VERSION, CbCompoundHeader, CbLayoutrecallArgs, CbOp, CbReply,
        LayoutRecall,
    },
    seq4_status,
};
use weft_state::{Callback, FileKey, Overdue};
use weft_store::types::InodeNo;
use weft_xdr::{
    Decode, Encode, Writer,
    rpc::{AuthFlavor, CallHeader, OpaqueAuth},
};

use crate::mds::{Handle, Mds, files::FenceCause};
use crate::rpc::CallbackError;

/// How long one callback may take before it is sent again or given up.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before a recall is repeated.
const RECALL_PAUSE: Duration = Duration::from_millis(200);

impl Mds {
    /// Recalls the write layouts that others than `except` hold on a file; whether any is out.
    pub(in crate::mds) fn recall_writers(&self, file: FileKey, except: Option<ClientId>) -> bool {
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
        // Until it is returned, or overdue: then `background` revokes the layout. Also after OK:
        // Linux keeps a layout while there is something to commit, and commits once for each
        // recall it gets (`initiate_file_draining`). A write that was under way then ends later,
        // and its writer waits for a layout that is granted only after the return.
        while let Some(now) = self.recall_out(client, file, stateid) {
            let op = layout_recall(Handle::of(file).to_wire(), now);
            match self.call_back(client, &op).await {
                Ok(NfsStat::OK) => {}
                Ok(NfsStat::NOMATCHING_LAYOUT) => {
                    return self.has_none(client, file, stateid).await;
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
        let out = self.state().recall_stateid(client, file);
        out.filter(|now| now.other == begun.other)
    }

    /// The client says that it has no such layout, and no LAYOUTRETURN follows (Linux:
    /// `pnfs_layout_mark_request`). The recall may also have overtaken the reply that grants the
    /// layout: what it was given is made worthless before it is forgotten.
    async fn has_none(&self, client: ClientId, file: FileKey, stateid: Stateid) {
        if self.recall_out(client, file, stateid).is_none() {
            return; // returned while the recall was on its way
        }
        let ino = InodeNo(file.object);
        self.suspect_handles_of(client, ino, FenceCause::Revoked);
        if let Err(status) = self.fence(ino).await {
            tracing::warn!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
            return;
        }
        let mut state = self.state();
        let out = state.recall_stateid(client, file);
        if out.is_some_and(|now| now.other == stateid.other) {
            state.recall_done(client, file);
        }
    }

    /// One callback operation behind its CB_SEQUENCE; the operation's status. Runs to its end
    /// even if nobody waits for it any more, since it holds a slot of the back channel.
    pub(in crate::mds) async fn call_back(
        &self,
        client: ClientId,
        op: &CbOp,
    ) -> Result<NfsStat, CallbackError> {
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
    /// working, durably, before anyone else relies on it. If that cannot be now, the layout stays
    /// until it can.
    pub(in crate::mds) async fn revoke(&self, layout: Overdue) {
        let Overdue { client, file, rw, .. } = layout;
        let ino = InodeNo(file.object);
        if rw {
            self.suspect_handles_of(client, ino, FenceCause::Revoked);
            if let Err(status) = self.fence(ino).await {
                tracing::warn!(ino = ino.0, %status, "cannot fence: the layout stays until it can");
                return;
            }
        }
        if !self.state().layout_revoke(&layout) {
            return;
        }
        tracing::warn!(client = client.0, ino = ino.0, "layout revoked");
        // Told once: the stateid is unknown from now on, so there is nothing to free.
        let flag = seq4_status::RECALLABLE_STATE_REVOKED;
        self.core.sessions().status_flag_once(client, flag);
    }

    /// Ends everything a client held: opens, locks, layouts, copies, its record. Its files
    /// are fenced in the background; nobody takes them for quiet before.
    pub(in crate::mds) fn drop_client_state(&self, client: ClientId) {
        // First: whoever is granted what this client held depends on its record being gone.
        self.forget_client_record(client);
        self.offloads().drop_client(client);
        let dropped = {
            let mut files = self.files.lock();
            let dropped = self.state().drop_client(client);
            for file in &dropped.rw_layouts {
                files.suspect_revoked(InodeNo(file.object));
            }
            files.forget_client(client);
            dropped
        };
        self.fence.notify_one();
        for file in dropped.closed {
            self.clear_extending(InodeNo(file.object));
            self.last_close(InodeNo(file.object));
        }
    }

    /// A removed file is gone from the volume: nobody can return its layouts any more, and its data
    /// servers refuse their handles with its objects. Under the lock of grants, of which each sees
    /// that the file is gone or is seen here.
    pub(in crate::mds) fn forget_layouts(&self, ino: InodeNo) {
        let _grants = self.files.lock();
        self.state().layouts_forget(self.handle(ino).key());
    }

    /// The last open of a file is gone: an unlinked one goes now.
    pub(in crate::mds) fn last_close(&self, ino: InodeNo) {
        let released = self.volume.release_orphan(ino, self.wall());
        match released.value {
            Ok(Some(intent)) => {
                self.forget_layouts(intent.ino);
                self.reap.notify_one();
            }
            Ok(None) => {}
            Err(e) => tracing::error!(ino = ino.0, error = %e, "cannot release an unlinked file"),
        }
    }
}

/// CB_LAYOUTRECALL of all that a client has of a file.
fn layout_recall(fh: FileHandle, stateid: Stateid) -> CbOp {
    CbOp::Layoutrecall(CbLayoutrecallArgs {
        layout_type: LayoutType::NFSV4_1_FILES,
        iomode: IoMode::ANY,
        changed: false,
        recall: LayoutRecall::File { fh, offset: 0, length: u64::MAX, stateid },
    })
}
