//! Where written bytes come from.

use std::{collections::BTreeMap, fs::File, sync::Arc};

use bytes::Bytes;
use weft_xdr::{FileRange, Payload};

use crate::cache;

/// Told the number of bytes of every piece that arrived.
pub type PieceReport = Arc<dyn Fn(u64) + Send + Sync>;

/// Bytes to write.
#[derive(Clone)]
pub enum Source {
    /// In memory.
    Bytes(Bytes),
    /// A local file from its start; its bytes go from the page cache to the socket. It must not
    /// change until they are durable.
    File(Arc<File>),
}

impl Source {
    /// Bytes in memory.
    pub fn bytes(bytes: Bytes) -> Source {
        Source::Bytes(bytes)
    }

    /// A local file from its start.
    pub fn file(file: Arc<File>) -> Source {
        Source::File(file)
    }

    /// The first `len` bytes; none if there are not so many in memory, or they are no number here.
    pub(super) fn payload(&self, len: u64) -> Option<Payload> {
        let len = usize::try_from(len).ok()?;
        match self {
            Source::Bytes(bytes) if bytes.len() < len => None,
            Source::Bytes(bytes) => Some(Payload::Bytes(bytes.slice(..len))),
            Source::File(file) => {
                Some(Payload::File(FileRange { file: file.clone(), offset: 0, len }))
            }
        }
    }
}

/// What leaves together, by file offset; cut into parts without copying.
#[derive(Clone)]
pub(super) struct Pieces(Arc<BTreeMap<u64, Payload>>);

impl Pieces {
    pub(super) fn new(pieces: Vec<(u64, Payload)>) -> Pieces {
        Pieces(Arc::new(pieces.into_iter().collect()))
    }

    /// File offsets and lengths.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|(at, piece)| (*at, piece.len() as u64)).collect()
    }

    /// A range within one piece.
    pub(super) fn part(&self, offset: u64, len: u32) -> Payload {
        let piece = self.0.range(..=offset).next_back();
        piece.map_or(Payload::Bytes(Bytes::new()), |(at, piece)| {
            let from = offset - at;
            cache::Payload::slice(piece, from, from.saturating_add(len.into()))
        })
    }
}

/// The same payload without its first bytes.
pub(super) fn rest_of(payload: &Payload, skip: u32) -> Payload {
    cache::Payload::slice(payload, skip.into(), payload.len() as u64)
}

impl cache::Payload for Payload {
    fn of(bytes: Bytes) -> Payload {
        Payload::Bytes(bytes)
    }

    fn len(&self) -> u64 {
        Payload::len(self) as u64
    }

    fn slice(&self, from: u64, to: u64) -> Payload {
        let end = usize::try_from(to).unwrap_or(usize::MAX).min(Payload::len(self));
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(end);
        match self {
            Payload::Bytes(bytes) => Payload::Bytes(bytes.slice(start..end)),
            Payload::File(f) => Payload::File(FileRange {
                file: f.file.clone(),
                offset: f.offset.saturating_add(start as u64),
                len: end - start,
            }),
        }
    }

    fn bytes(&self) -> Option<&Bytes> {
        match self {
            Payload::Bytes(bytes) => Some(bytes),
            Payload::File(_) => None,
        }
    }
}
