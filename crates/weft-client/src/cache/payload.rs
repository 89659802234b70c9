//! Bytes that are not written to any more, in memory or elsewhere.

use bytes::Bytes;

use super::span::{narrow, wide};

/// A run of bytes that does not change: in memory, or a range of a local file.
///
/// **Never known behind it**: whose bytes they are, where in a file, and whether servers have them.
pub(crate) trait Payload: Clone {
    /// Bytes in memory.
    fn of(bytes: Bytes) -> Self;

    fn len(&self) -> u64;

    /// The part between two distances from the start, without copying.
    #[must_use]
    fn slice(&self, from: u64, to: u64) -> Self;

    /// The bytes, if they are in memory.
    fn bytes(&self) -> Option<&Bytes>;

    /// Bytes of memory that it takes.
    fn held_bytes(&self) -> u64 {
        self.bytes().map_or(0, |b| wide(b.len()))
    }
}

impl Payload for Bytes {
    fn of(bytes: Bytes) -> Bytes {
        bytes
    }

    fn len(&self) -> u64 {
        wide(Bytes::len(self))
    }

    fn slice(&self, from: u64, to: u64) -> Bytes {
        let to = narrow(to).min(Bytes::len(self));
        Bytes::slice(self, narrow(from).min(to)..to)
    }

    fn bytes(&self) -> Option<&Bytes> {
        Some(self)
    }
}
