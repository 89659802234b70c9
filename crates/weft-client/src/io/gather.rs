//! Small writes of a file, gathered until they leave together: [`super::IoPolicy`].

pub(super) mod buffer;
mod runs;

use bytes::Bytes;

use super::{data_path::DataPath, source::Source, write::Outgoing};
use crate::{error::ClientError, limits};
use buffer::Buffer;

impl DataPath {
    /// The bytes of a write that is to be gathered.
    pub(super) fn gathers(&self, len: u64, source: &Source) -> Option<Bytes> {
        let small = len < u64::from(self.cluster.policy.gather_below) && self.is_writable();
        source.as_bytes().filter(|data| small && data.len() as u64 == len).cloned()
    }

    /// Takes a small write; what was gathered before leaves first if there is no room.
    pub(super) async fn gather(&self, offset: u64, data: &Bytes) -> Result<(), ClientError> {
        let limit_bytes = self.cluster.policy.gather_bytes as usize;
        let gathered = &self.file.gathered;
        let mut buffer = gathered.lock().await;
        if !buffer.has_room_for(&self.open, data.len(), limit_bytes) {
            self.empty(&mut buffer).await?;
        }
        gathered.add(&mut buffer, &self.open, offset, data);
        self.grow_to(offset.saturating_add(data.len() as u64));
        Ok(())
    }

    /// Sends what was gathered. What could not be sent stays gathered.
    pub(super) async fn flush(&self) -> Result<(), ClientError> {
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
        let Some((by, leaving)) = buffer.freeze() else { return Ok(()) };
        let ranges: Vec<(u64, u64)> = leaving.iter().map(|(at, r)| (*at, r.len() as u64)).collect();
        let below = u64::from(self.cluster.policy.gather_below);
        let end = ranges.last().map_or(0, |(at, len)| at.saturating_add(*len));
        let many = ranges.len() > limits::MDS_RUNS_MAX;
        let grown = ranges.iter().any(|(_, len)| *len >= below);
        let outgoing = Outgoing {
            by: &by,
            start: 0,
            ranges: &ranges,
            source: &Source::runs(leaving),
            worth_layout: (many || grown) && self.is_worth_layout(&by, end),
            then_durable: false,
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
