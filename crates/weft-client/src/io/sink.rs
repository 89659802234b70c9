//! Where bytes that were read go.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::{Bytes, BytesMut};
use weft_io::{Destination, MemoryRegion};

use super::fetching::Fetching;
use crate::{boxed::Boxed, sync::Mutex};

/// Takes what was read, piece by piece, in any order. What is never given is zeros, of which
/// [`ReadSink::absent`] tells.
///
/// **Never known behind it**: servers and layouts, in how many requests the bytes came, and whether
/// from the cache. A piece may come again after a failure.
pub trait ReadSink: Send + Sync + 'static {
    /// Data at a file offset: a slice of the receive buffer.
    fn take(&self, offset: u64, data: Bytes) -> Boxed<'_, io::Result<()>>;

    /// What data may be put into at their file offsets, past [`ReadSink::take`].
    fn destination(&self) -> Option<Arc<Destination>> {
        None
    }

    /// Hears of bytes that were put there.
    fn placed(&self, _bytes: u64) {}

    /// The servers have nothing for so many bytes from a file offset on: a sink that is not zeros
    /// to begin with makes them zeros.
    ///
    /// # Errors
    /// It cannot take them.
    fn absent(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// It was taken at once.
fn taken() -> Boxed<'static, io::Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// Pieces in memory by file offset.
#[derive(Default)]
pub(super) struct MemorySink(Mutex<BTreeMap<u64, Bytes>>);

impl ReadSink for MemorySink {
    fn take(&self, offset: u64, data: Bytes) -> Boxed<'_, io::Result<()>> {
        self.0.lock().insert(offset, data);
        taken()
    }
}

impl MemorySink {
    /// `len` bytes from file offset `start` on; those never given are zeros.
    pub(super) fn join(&self, start: u64, len: usize) -> Bytes {
        let pieces = std::mem::take(&mut *self.0.lock());
        if let (1, Some(only)) = (pieces.len(), pieces.get(&start))
            && only.len() == len
        {
            return only.clone();
        }
        let mut out = BytesMut::zeroed(len);
        for (offset, data) in pieces {
            let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
            if let Some(to) = at.checked_add(data.len()).and_then(|end| out.get_mut(at..end)) {
                to.copy_from_slice(&data);
            }
        }
        out.freeze()
    }
}

/// Memory of the caller's, whose first byte is that of file offset `start`.
pub(super) struct RegionSink {
    region: Arc<MemoryRegion>,
    start: u64,
    destination: Arc<Destination>,
}

impl RegionSink {
    pub(super) fn new(region: Arc<MemoryRegion>, start: u64) -> RegionSink {
        let destination = Arc::new(Destination::memory(region.clone(), start));
        RegionSink { region, start, destination }
    }
}

impl ReadSink for RegionSink {
    fn take(&self, offset: u64, data: Bytes) -> Boxed<'_, io::Result<()>> {
        Box::pin(self.destination.write(data, offset))
    }

    fn destination(&self) -> Option<Arc<Destination>> {
        Some(self.destination.clone())
    }

    fn absent(&self, offset: u64, len: u64) -> io::Result<()> {
        let at = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.region.zero(at, usize::try_from(len).unwrap_or(usize::MAX))
    }
}

/// Nobody wants it.
pub(super) struct Nowhere;

impl ReadSink for Nowhere {
    fn take(&self, _offset: u64, _data: Bytes) -> Boxed<'_, io::Result<()>> {
        taken()
    }
}

/// What comes from servers, kept in the file's cache, and given to a sink as far as that wants it.
pub(super) struct Keeping {
    pub(super) sink: Arc<dyn ReadSink>,
    /// First byte that the sink wants, and the one behind its last.
    pub(super) wanted: (u64, u64),
    pub(super) fetching: Fetching,
}

impl ReadSink for Keeping {
    fn take(&self, offset: u64, data: Bytes) -> Boxed<'_, io::Result<()>> {
        self.fetching.keep(offset, &data);
        let end = offset.saturating_add(data.len() as u64);
        let (from, to) = (self.wanted.0.max(offset), self.wanted.1.min(end));
        if from >= to {
            return taken();
        }
        let at = |offset_in: u64| usize::try_from(offset_in - offset).unwrap_or(data.len());
        self.sink.take(from, data.slice(at(from)..at(to)))
    }

    fn absent(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fetching.keep_zeros(offset, len);
        let end = offset.saturating_add(len);
        let (from, to) = (self.wanted.0.max(offset), self.wanted.1.min(end));
        match from < to {
            true => self.sink.absent(from, to - from),
            false => Ok(()),
        }
    }
}
