//! The protocol's state as the rooms of a metadata server share it.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use weft_nfs::{Failure, NfsStat};
use weft_state::{FileKey, Grace, Offloads, State, StateLimits};

/// Opens, locks, delegations and layouts; grace; copies that go on after their reply. Each table
/// is behind a lock of its own, held for a few calls at most and never across an await.
///
/// Lock order: the records of files, then these, then the volume.
#[derive(Debug)]
pub(crate) struct ProtocolState {
    state: Mutex<State>,
    grace: Mutex<Grace>,
    offloads: Mutex<Offloads>,
    given_back: [Notify; GIVEN_BACK],
}

/// Files share so many ways of hearing that a delegation came back.
const GIVEN_BACK: usize = 64;

impl ProtocolState {
    /// The state of an instance that starts with this grace.
    pub(crate) fn new(instance: u32, limits: StateLimits, grace: Grace) -> Self {
        ProtocolState {
            state: Mutex::new(State::new(instance, limits)),
            grace: Mutex::new(grace),
            offloads: Mutex::new(Offloads::new(instance)),
            given_back: [const { Notify::const_new() }; GIVEN_BACK],
        }
    }

    /// Tells those who wait that a delegation on this file, or on one that shares the way, came
    /// back.
    pub(crate) fn given_back(&self, file: FileKey) -> &Notify {
        let way = usize::try_from(file.object % GIVEN_BACK as u64).unwrap_or(0);
        &self.given_back[way]
    }

    /// Opens, locks, delegations and layouts.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("state lock")
    }

    /// Who may reclaim, and until when.
    pub(crate) fn grace(&self) -> MutexGuard<'_, Grace> {
        self.grace.lock().expect("grace lock")
    }

    /// Copies that go on after their reply.
    pub(crate) fn offloads(&self) -> MutexGuard<'_, Offloads> {
        self.offloads.lock().expect("offloads lock")
    }

    /// Refuses what must wait for the end of grace (RFC 8881 §8.4.2).
    ///
    /// # Errors
    /// GRACE.
    pub(crate) fn refuse_in_grace(&self) -> Result<(), Failure> {
        if self.grace().is_on() { Err(NfsStat::GRACE.into()) } else { Ok(()) }
    }

    /// Whether a panic poisoned the lock of grace.
    #[cfg(test)]
    pub(crate) fn grace_is_poisoned(&self) -> bool {
        self.grace.is_poisoned()
    }
}
