//! What the tasks of a session share.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::Notify;
use weft_nfs::{NFS_PROGRAM, NFS_V4};

use super::options::{Reclaims, SessionOptions};
use crate::{
    core::{Core, Step},
    error::ClientError,
    limits,
    rpc::{Connection, Watch},
    sync::{Mutex, MutexGuard},
    waiting::{Requested, WaitReason, Waiting},
};

/// A session's state and its connection.
pub(super) struct Inner {
    pub(super) addr: SocketAddr,
    pub(super) options: SessionOptions,
    pub(super) core: Mutex<Core>,
    pub(super) link: Mutex<Option<Link>>,
    /// Held by the one task that is (re-)establishing the session; the others wait their turn
    /// and find it done, or given up: when and why. This is the one lock held across awaits, and
    /// that is its purpose.
    pub(super) establishing: tokio::sync::Mutex<Option<GivenUp>>,
    pub(super) slot_freed: Notify,
    pub(super) closed: AtomicBool,
    /// Both ends of the last connection had one address.
    pub(super) on_this_host: AtomicBool,
    /// Who reclaims something.
    pub(super) reclaims: Mutex<Vec<Weak<dyn Reclaims>>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// The end of an attempt to establish the session.
#[derive(Debug)]
pub(super) struct GivenUp {
    pub(super) at: Instant,
    pub(super) why: Arc<str>,
    /// The server hangs: others who wait do not try one after another.
    pub(super) hangs: bool,
}

/// A connection and its number, so that whoever finds it broken breaks no newer one.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) number: u64,
}

impl Inner {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Tells whoever wants to know what is waited for.
    pub(super) fn tell(&self, why: WaitReason) {
        self.tell_of(why, None);
    }

    /// The same of an operation that the server has asked to send again.
    pub(super) fn tell_of(&self, why: WaitReason, request: Option<Requested>) {
        if let Some(on_wait) = &self.options.on_wait {
            on_wait(&Waiting { server: self.addr, role: self.options.role, why, request });
        }
    }

    /// Waits for an answer, and tells of it whenever none has come for a while; `seen` changes
    /// with every sign of life.
    pub(super) async fn answered<T>(
        &self,
        answer: impl Future<Output = T>,
        seen: impl Fn() -> u64,
        request: Option<Requested>,
    ) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            let before = seen();
            tokio::select! {
                answer = &mut answer => return answer,
                () = tokio::time::sleep(limits::QUIET_MAX) => {}
            }
            if seen() == before {
                self.tell_of(WaitReason::NoAnswer, request.clone());
            }
        }
    }

    /// Returns when there is a connection, and the server answers nothing on it, not even a ping.
    /// A server that is being connected to is waited for with the session's patience.
    pub(super) async fn silent(&self) {
        let (silence, answer) = (limits::READ_SILENCE_MAX, limits::READ_PING_LIMIT);
        loop {
            let Some(link) = self.live_link() else {
                tokio::time::sleep(silence).await;
                continue;
            };
            let silent = link.connection.silent(NFS_PROGRAM, NFS_V4, Watch { silence, answer });
            tokio::select! {
                () = silent => return,
                () = link.connection.ended() => {}
            }
        }
    }

    pub(super) fn current_link(&self) -> Option<Link> {
        self.link.lock().clone()
    }

    pub(super) fn set_link(&self, link: Option<Link>) {
        *self.link.lock() = link;
    }

    pub(super) fn check_open(&self) -> Result<(), ClientError> {
        if self.closed.load(Ordering::Acquire) { Err(ClientError::Closed) } else { Ok(()) }
    }

    /// A connection that has not ended.
    pub(super) fn live_link(&self) -> Option<Link> {
        self.current_link().filter(|link| !link.connection.is_closed())
    }

    /// A connection over which requests may be sent, and nothing else is to be done first.
    pub(super) fn usable_link(&self) -> Option<Link> {
        let link = self.live_link()?;
        (self.core().step() == Step::Ready).then_some(link)
    }
}
