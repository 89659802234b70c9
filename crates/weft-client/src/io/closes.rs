//! CLOSEs that nobody waits for: those of a moment go together.

use std::sync::Arc;

use weft_nfs::{FileHandle, OpArgs, ops::PutfhArgs};

use crate::{error::ClientError, limits, session::Session, sync::Mutex};

/// A CLOSE (RFC 8881 §18.2), in the name of who opened the file.
pub(super) struct LateClose {
    pub(super) mds: Session,
    pub(super) fh: FileHandle,
    pub(super) close: OpArgs,
}

/// CLOSEs that have to be sent yet, of opens under which nothing is under way and all is durable.
/// Files stay open for [`limits::CLOSE_LATER`] so, as far as the server is concerned.
#[derive(Default)]
pub struct Closes {
    waiting: Mutex<Vec<LateClose>>,
    /// Held by the one task that sends them.
    sending: tokio::sync::Mutex<()>,
}

impl Closes {
    /// Sends one with those that come until then; not if too many wait already.
    pub(super) fn send_later(self: &Arc<Self>, one: LateClose) -> bool {
        let is_first = {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= limits::CLOSES_WAITING_MAX {
                return false;
            }
            waiting.push(one);
            waiting.len() == 1
        };
        if is_first {
            let me = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(limits::CLOSE_LATER).await;
                me.send_all().await;
            });
        }
        true
    }

    /// Sends those that wait; on return they were answered, and those that somebody was sending.
    pub(crate) async fn send_all(&self) {
        let _only_one = self.sending.lock().await;
        loop {
            let mut all = std::mem::take(&mut *self.waiting.lock());
            if all.is_empty() {
                return;
            }
            while let Some(first) = all.first() {
                let caller = first.mds.caller();
                let same = all.iter().take_while(|one| one.mds.caller() == caller).count();
                let together = all.drain(..same.min(limits::FILES_PER_COMPOUND)).collect();
                send(together).await;
            }
        }
    }
}

/// Sends CLOSEs of one user. One that the server refuses does not keep the others open.
async fn send(mut rest: Vec<LateClose>) {
    while let Some(first) = rest.first() {
        let ops = rest.iter().flat_map(|one| {
            [OpArgs::Putfh(PutfhArgs { object: one.fh.clone() }), one.close.clone()]
        });
        let outcome = match first.mds.compound_outcome(ops.collect()).await {
            Ok(outcome) => outcome,
            // The server forgets them with this client.
            Err(e) => return tracing::warn!(count = rest.len(), "files not closed: {e}"),
        };
        let closed = outcome.done.len() / 2;
        let Some(refused) = rest.get(closed) else { return };
        if let Some(failed) = outcome.failed {
            let e = ClientError::Nfs { op: failed.op, status: failed.failure.status };
            if !e.is_lost_state() {
                tracing::warn!(fh = ?refused.fh, "close failed: {e}");
            }
        }
        rest.drain(..=closed);
    }
}
