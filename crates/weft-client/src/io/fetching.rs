//! Ranges of a file that are on their way from servers into its cache.

use std::sync::Arc;

use bytes::Bytes;

use super::shared_file::SharedFile;
use crate::cache::Fetch;

/// Reads of a file whose answers are kept. Whatever becomes of them, the cache hears of their end.
pub(super) struct Fetching {
    file: Arc<SharedFile>,
    /// With their first byte, and the one behind their last; in order.
    fetches: Vec<(u64, u64, Fetch)>,
}

impl Fetching {
    /// Reads that were begun in the file's cache.
    pub(super) fn new(file: &Arc<SharedFile>, fetches: Vec<(u64, u64, Fetch)>) -> Fetching {
        Fetching { file: file.clone(), fetches }
    }

    /// Offsets and lengths.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        self.fetches.iter().map(|(from, end, _)| (*from, end - from)).collect()
    }

    /// Keeps what came.
    pub(super) fn keep(&self, offset: u64, data: &Bytes) {
        let Some(fetch) = self.of(offset) else { return };
        self.file.cache(|cache| cache.ranges.fetched(fetch, offset, data));
        // Who waits for a part of it need not wait for the rest.
        self.file.ended.notify_waiters();
    }

    /// The same of zeros.
    pub(super) fn keep_zeros(&self, offset: u64, len: u64) {
        let Some(fetch) = self.of(offset) else { return };
        self.file.cache(|cache| cache.ranges.fetched_zeros(fetch, offset, len));
        self.file.ended.notify_waiters();
    }

    fn of(&self, offset: u64) -> Option<Fetch> {
        let behind = self.fetches.partition_point(|(from, _, _)| *from <= offset);
        let (_, end, fetch) = self.fetches.get(behind.checked_sub(1)?)?;
        (offset < *end).then_some(*fetch)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.file.cache(|cache| {
            self.fetches.iter().for_each(|(_, _, fetch)| cache.ranges.end_fetch(*fetch));
        });
        self.file.has_ended();
    }
}
