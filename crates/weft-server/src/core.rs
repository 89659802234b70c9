//! What every NFS server here has, whatever its role: sessions, clock, counters, connections.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, timeout_at},
};
use weft_state::{Identity, InSession, SessionLimits, Sessions, Underway};

use crate::{clock::Clock, counters::Counters, rpc::Connections};

/// How long what ends a session, or begins another incarnation of a client, waits for requests that
/// are under way: less than clients wait for such an answer, and connections without a session are
/// kept.
pub(crate) const FENCE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many wait at once, each with a name for all that it waits for.
const FENCE_WAITERS_MAX: usize = 64;

/// Shared parts of a metadata or data server.
#[derive(Debug)]
pub struct Core {
    sessions: Mutex<Sessions>,
    /// A request of a session has ended.
    ended: Notify,
    /// Room for those that wait for that.
    waiters: Semaphore,
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
            waiters: Semaphore::new(FENCE_WAITERS_MAX),
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

    /// Waits until requests have ended, if there is room for one more that waits; whether they
    /// have.
    pub(crate) async fn have_ended(&self, requests: &Underway, until: Instant) -> bool {
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
        if let Ok(_place) = self.waiters.try_acquire() {
            let _in_time = timeout_at(until, all_ended).await;
        }
        // A session may have gone with its requests, of which nobody is told.
        self.sessions().have_ended(requests)
    }
}
