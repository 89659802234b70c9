//! CLOSEs that nobody waits for: those of a moment go together.

use std::sync::Arc;

use tokio::runtime::Handle;
use weft_nfs::{FileHandle, OpArgs};

use crate::{
    error::ClientError,
    limits,
    session::{Kept, Session},
    sync::Mutex,
};

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
        self.add(one, limits::CLOSES_WAITING_MAX)
    }

    /// The same of an open that nobody has any more, who could send it: there are as many of them
    /// as there were opens.
    pub(super) fn send_for_nobody(self: &Arc<Self>, one: LateClose) {
        // Nobody hears of it without a runtime: then the client has ended, or soon does.
        if Handle::try_current().is_ok() {
            self.add(one, usize::MAX);
        }
    }

    fn add(self: &Arc<Self>, one: LateClose, max: usize) -> bool {
        let is_first = {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= max {
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
    /// Who comes meanwhile waits for others of his own moment.
    pub(crate) async fn send_all(&self) {
        let _only_one = self.sending.lock().await;
        let mut all = std::mem::take(&mut *self.waiting.lock());
        while let Some(first) = all.first() {
            let mds = first.mds.clone();
            let (same, others) = all.into_iter().partition(|one| one.mds.caller() == mds.caller());
            all = others;
            send(&mds, same).await;
        }
    }
}

/// Sends CLOSEs of one user. One that the server refuses does not keep the others open.
async fn send(mds: &Session, all: Vec<LateClose>) {
    let all: Vec<_> = all.into_iter().map(|one| (one.fh, one.close)).collect();
    let mut kept = Kept::default();
    for closed in mds.on_each_file(&all).await {
        match closed {
            // A client that is closed has left its files to the server.
            Err(ClientError::Closed) => {}
            Err(e) if !e.is_lost_state() => kept.note(e),
            _ => {}
        }
    }
    kept.warn("files not closed");
}
