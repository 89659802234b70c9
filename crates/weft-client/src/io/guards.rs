//! The rights a task must hold to change what a file has here, to send it, or to settle the file.

use std::sync::Arc;

use tokio::sync::{
    Mutex, MutexGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Whoever changes a file, settles it, and sends what was written. Taken in the order of the
/// fields.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// Held for reading by whoever puts written data into the cache, for writing by whoever needs
    /// an end of that: a commit, which else might go on for ever, or a truncation.
    entering: Arc<RwLock<()>>,
    settling: Mutex<()>,
    /// Held for reading by whoever sends through a layout, for writing by whoever returns it.
    sending: RwLock<()>,
}

/// The right to settle a file. One task at a time has it: if it finds nothing dirty, nobody else
/// is still waiting for the answer that makes it so. Taken before everything else.
pub(super) struct Round<'a> {
    _only_one: MutexGuard<'a, ()>,
}

/// The right to settle, while nothing is being sent.
pub(super) struct Quiet<'a> {
    round: Round<'a>,
    _no_sending: RwLockWriteGuard<'a, ()>,
}

impl<'a> Quiet<'a> {
    pub(super) fn round(&self) -> &Round<'a> {
        &self.round
    }
}

impl Guards {
    /// Held while written data are put into the cache.
    pub(super) async fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.entering.read().await
    }

    /// Nobody puts written data into the cache while it is held, by whomever.
    pub(super) async fn hold_writers(&self) -> OwnedRwLockWriteGuard<()> {
        self.entering.clone().write_owned().await
    }

    /// Waits for the right to settle.
    pub(super) async fn round(&self) -> Round<'_> {
        Round { _only_one: self.settling.lock().await }
    }

    /// Waits for the right to settle and for all that is being sent; what comes later waits. The
    /// caller must not be sending.
    pub(super) async fn quiesce(&self) -> Quiet<'_> {
        let round = self.round().await;
        Quiet { round, _no_sending: self.sending.write().await }
    }

    /// Held while sending.
    pub(super) async fn send(&self) -> RwLockReadGuard<'_, ()> {
        self.sending.read().await
    }
}
