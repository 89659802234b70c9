//! What every NFS server here has, whatever its role: sessions, clock, counters, connections.

use std::sync::{Mutex, MutexGuard};

use weft_state::{Identity, SessionLimits, Sessions};

use crate::{clock::Clock, counters::Counters, rpc::Connections};

/// Shared parts of a metadata or data server.
#[derive(Debug)]
pub struct Core {
    sessions: Mutex<Sessions>,
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
}
