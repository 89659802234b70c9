//! The small writes of a file that have not left yet.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{Mutex, MutexGuard};

use super::runs::{Frozen, Runs};
use crate::io::open::Open;

/// The small writes of a file that have not left yet.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Whether there may be some: most files never have any.
    some: AtomicBool,
    buffer: Mutex<Buffer>,
}

/// Held while it is being emptied, so that nothing newer leaves before what is older.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Under which open they were written.
    by: Option<Arc<Open>>,
    runs: Runs,
    /// What is leaving, or could not: nothing else is taken before it has left.
    leaving: Option<Arc<Frozen>>,
}

impl Buffer {
    /// Whether a write of `bytes` bytes may join what is there.
    pub(super) fn has_room_for(&self, by: &Arc<Open>, bytes: usize, limit_bytes: usize) -> bool {
        let same = self.by.as_ref().is_none_or(|old| Arc::ptr_eq(old, by));
        same && self.leaving.is_none() && self.runs.has_room(bytes, limit_bytes)
    }

    /// Whether it may have bytes of this range.
    pub(super) fn overlaps(&self, from: u64, end: u64) -> bool {
        self.leaving.is_some() || self.runs.overlaps(from, end)
    }

    /// What is to leave now, and the open it was written under.
    pub(super) fn freeze(&mut self) -> Option<(Arc<Open>, Arc<Frozen>)> {
        if self.leaving.is_none() && !self.runs.is_empty() {
            self.leaving = Some(Arc::new(std::mem::take(&mut self.runs).freeze()));
        }
        self.by.clone().zip(self.leaving.clone())
    }
}

impl Gathered {
    /// The buffer.
    pub(super) async fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().await
    }

    /// The buffer, if there may be something in it.
    pub(super) async fn used(&self) -> Option<MutexGuard<'_, Buffer>> {
        if !self.some.load(Ordering::Acquire) {
            return None;
        }
        Some(self.buffer.lock().await)
    }

    /// Notes a write under an open.
    pub(super) fn add(&self, buffer: &mut Buffer, by: &Arc<Open>, offset: u64, data: &[u8]) {
        buffer.by = Some(by.clone());
        buffer.runs.add(offset, data);
        self.some.store(true, Ordering::Release);
    }

    /// Nothing is left in the buffer.
    pub(super) fn clear(&self, buffer: &mut Buffer) {
        *buffer = Buffer::default();
        self.some.store(false, Ordering::Release);
    }

    /// Gives up what was written under an open.
    pub async fn forget(&self, by: &Arc<Open>) {
        let Some(mut buffer) = self.used().await else { return };
        if buffer.by.as_ref().is_some_and(|open| Arc::ptr_eq(open, by)) {
            self.clear(&mut buffer);
        }
    }
}
