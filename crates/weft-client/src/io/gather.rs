//! Small writes of a file, gathered until they leave together: [`super::IoPolicy`].

mod runs;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};

use super::{FileIo, open::Open, source::Source, write::Outgoing};
use crate::{error::ClientError, limits};
use runs::{Frozen, Runs};

/// The small writes of a file that have not left yet.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Whether there may be some: most files never have any.
    some: AtomicBool,
    buffer: Mutex<Buffer>,
}

/// Held while it is being emptied, so that nothing newer leaves before what is older.
#[derive(Debug, Default)]
struct Buffer {
    /// Under which open they were written.
    by: Option<Arc<Open>>,
    runs: Runs,
    /// What is leaving, or could not: nothing else is taken before it has left.
    leaving: Option<Arc<Frozen>>,
}

impl Buffer {
    fn takes(&self, by: &Arc<Open>, bytes: usize, limit_bytes: usize) -> bool {
        let same = self.by.as_ref().is_none_or(|old| Arc::ptr_eq(old, by));
        same && self.leaving.is_none() && self.runs.has_room(bytes, limit_bytes)
    }

    fn overlaps(&self, from: u64, end: u64) -> bool {
        self.leaving.is_some() || self.runs.overlaps(from, end)
    }

    /// What is to leave now.
    fn freeze(&mut self) -> Option<Arc<Frozen>> {
        if self.leaving.is_none() && !self.runs.is_empty() {
            self.leaving = Some(Arc::new(std::mem::take(&mut self.runs).freeze()));
        }
        self.leaving.clone()
    }
}

impl Gathered {
    /// The buffer, if there may be something in it.
    async fn used(&self) -> Option<MutexGuard<'_, Buffer>> {
        if !self.some.load(Ordering::Acquire) {
            return None;
        }
        Some(self.buffer.lock().await)
    }

    fn clear(&self, buffer: &mut Buffer) {
        *buffer = Buffer::default();
        self.some.store(false, Ordering::Release);
    }

    /// Gives up what was written under an open.
    pub(super) async fn forget(&self, by: &Arc<Open>) {
        let Some(mut buffer) = self.used().await else { return };
        if buffer.by.as_ref().is_some_and(|open| Arc::ptr_eq(open, by)) {
            self.clear(&mut buffer);
        }
    }
}

impl FileIo {
    /// The bytes of a write that is to be gathered.
    pub(super) fn gathers(&self, len: u64, source: &Source) -> Option<Bytes> {
        let small = len < u64::from(self.cluster.policy.gather_below) && self.writable();
        source.as_bytes().filter(|data| small && data.len() as u64 == len).cloned()
    }

    /// Takes a small write; what was gathered before leaves first if there is no room.
    pub(super) async fn gather(&self, offset: u64, data: &Bytes) -> Result<(), ClientError> {
        let limit_bytes = self.cluster.policy.gather_bytes as usize;
        let gathered = &self.file.gathered;
        let mut buffer = gathered.buffer.lock().await;
        if !buffer.takes(&self.open, data.len(), limit_bytes) {
            self.empty(&mut buffer).await?;
        }
        buffer.by = Some(self.open.clone());
        buffer.runs.add(offset, data);
        gathered.some.store(true, Ordering::Release);
        self.size.fetch_max(offset.saturating_add(data.len() as u64), Ordering::AcqRel);
        Ok(())
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// [`ClientError`]; what could not be sent stays gathered.
    pub async fn flush(&self) -> Result<(), ClientError> {
        let Some(mut buffer) = self.file.gathered.used().await else { return Ok(()) };
        self.empty(&mut buffer).await
    }

    /// The same if it has something of a range that is about to be written.
    pub(super) async fn flush_overlapping(&self, from: u64, end: u64) -> Result<(), ClientError> {
        let Some(mut buffer) = self.file.gathered.used().await else { return Ok(()) };
        if !buffer.overlaps(from, end) {
            return Ok(());
        }
        self.empty(&mut buffer).await
    }

    async fn empty(&self, buffer: &mut Buffer) -> Result<(), ClientError> {
        let (Some(leaving), Some(by)) = (buffer.freeze(), buffer.by.clone()) else {
            return Ok(());
        };
        let ranges: Vec<(u64, u64)> = leaving.iter().map(|(at, r)| (*at, r.len() as u64)).collect();
        let below = u64::from(self.cluster.policy.gather_below);
        let end =
            leaving.last_key_value().map_or(0, |(at, run)| at.saturating_add(run.len() as u64));
        let many = ranges.len() > limits::MDS_RUNS_MAX;
        let grown = ranges.iter().any(|(_, len)| *len >= below);
        let outgoing = Outgoing {
            by: &by,
            start: 0,
            ranges: &ranges,
            source: &Source::runs(leaving),
            worth_layout: (many || grown) && self.is_worth_layout(&by, end),
        };
        self.send(&outgoing).await?;
        self.file.gathered.clear(buffer);
        let is_full = self.file.lock_dirty().is_full();
        if is_full {
            self.settle().await?;
        }
        Ok(())
    }
}
