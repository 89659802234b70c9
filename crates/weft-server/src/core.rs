//! What every NFS server here has, whatever its role: sessions, clock, counters, connections.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::Notify;
use weft_state::{Identity, InSession, SessionLimits, Sessions, Underway};

use crate::{clock::Clock, counters::Counters, rpc::Connections};

/// Shared parts of a metadata or data server.
#[derive(Debug)]
pub struct Core {
    sessions: Mutex<Sessions>,
    /// A request of a session has ended.
    ended: Notify,
    /// Time.
    pub clock: Clock,
    /// What was done.
    pub counters: Counters,
    /// Where clients are called back.
    pub connections: Connections,
    /// Lease time, seconds.
    pub lease_s: u32,
}

impl Core {
    /// A server of this identity with no clients.
    pub fn new(identity: Identity, limits: SessionLimits, lease_s: u32) -> Self {
        Core {
            sessions: Mutex::new(Sessions::new(identity, limits, u64::from(lease_s) * 1000)),
            ended: Notify::new(),
            clock: Clock::default(),
            counters: Counters::default(),
            connections: Connections::default(),
            lease_s,
        }
    }

    /// The clients and sessions. Held for one call into them, never across an await.
    ///
    /// # Panics
    /// After a panic inside `weft-state`: its invariants are gone.
    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("session table lock")
    }

    /// Ends a request that SEQUENCE admitted; see [`Sessions::complete`].
    pub(crate) fn complete(&self, done: &InSession, reply: Option<Bytes>) {
        self.sessions().complete(done, reply);
        self.ended.notify_waiters();
    }

    /// Waits until requests have ended, for a lease at most; whether they have.
    pub(crate) async fn have_ended(&self, requests: &Underway) -> bool {
        let all_ended = async {
            loop {
                let mut next = pin!(self.ended.notified());
                next.as_mut().enable();
                if self.sessions().have_ended(requests) {
                    return;
                }
                next.await;
            }
        };
        let lease = Duration::from_secs(u64::from(self.lease_s));
        tokio::time::timeout(lease, all_ended).await.is_ok()
    }
}
