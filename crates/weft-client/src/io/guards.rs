//! The rights a task must hold to settle a file, or to write lost data again.

use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Whoever settles a file, and whoever writes to it. Taken in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Guards {
    settling: Mutex<()>,
    /// Held for reading by whoever writes, for writing by whoever writes lost data again: older
    /// data never overtake newer ones.
    writing: RwLock<()>,
}

/// The right to settle a file. One task at a time has it: if it finds nothing dirty, nobody else
/// is still waiting for the answer that makes it so. Taken before everything else.
pub(super) struct Round<'a> {
    _only_one: MutexGuard<'a, ()>,
}

/// The right to write lost data again: nobody else writes to the file meanwhile.
pub(super) struct WritesBlocked<'a> {
    round: Round<'a>,
    _no_writes: RwLockWriteGuard<'a, ()>,
}

impl<'a> WritesBlocked<'a> {
    pub(super) fn round(&self) -> &Round<'a> {
        &self.round
    }

    /// Lets others write, and keeps the right to settle.
    pub(super) fn into_round(self) -> Round<'a> {
        self.round
    }
}

impl Guards {
    /// Waits for the right to settle.
    pub(super) async fn round(&self) -> Round<'_> {
        Round { _only_one: self.settling.lock().await }
    }

    /// Waits for all writes under way; those that come later wait.
    pub(super) async fn block_writes<'a>(&'a self, round: Round<'a>) -> WritesBlocked<'a> {
        WritesBlocked { round, _no_writes: self.writing.write().await }
    }

    /// Waits for the right to settle and for all writes under way. The caller must not be writing.
    pub(super) async fn quiesce(&self) -> WritesBlocked<'_> {
        self.block_writes(self.round().await).await
    }

    /// Held while writing.
    pub(super) async fn write(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().await
    }
}
