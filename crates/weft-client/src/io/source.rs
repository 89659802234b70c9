//! Where written bytes come from.

use std::{collections::BTreeMap, fs::File, sync::Arc};

use bytes::Bytes;
use weft_xdr::{FileRange, Payload};

/// Told the number of bytes of every piece that arrived.
pub type PieceReport = Arc<dyn Fn(u64) + Send + Sync>;

/// Bytes to write, cut into parts without copying.
#[derive(Clone)]
pub struct Source {
    all: All,
    report: Option<PieceReport>,
}

#[derive(Clone)]
enum All {
    Whole(Payload),
    /// Runs of bytes by their distance from the start.
    Runs(Arc<BTreeMap<u64, Bytes>>),
}

impl Source {
    /// Bytes in memory.
    pub fn bytes(bytes: Bytes) -> Source {
        Source { all: All::Whole(Payload::Bytes(bytes)), report: None }
    }

    /// Runs of bytes in memory, by their distance from the start.
    pub(super) fn runs(runs: Arc<BTreeMap<u64, Bytes>>) -> Source {
        Source { all: All::Runs(runs), report: None }
    }

    /// The bytes, if they are one run in memory.
    pub(super) fn as_bytes(&self) -> Option<&Bytes> {
        match &self.all {
            All::Whole(Payload::Bytes(bytes)) => Some(bytes),
            All::Whole(Payload::File(_)) | All::Runs(_) => None,
        }
    }

    /// A local file from its start; its bytes go from the page cache to the socket.
    pub fn file(file: Arc<File>) -> Source {
        let all = All::Whole(Payload::File(FileRange { file, offset: 0, len: 0 }));
        Source { all, report: None }
    }

    /// Reports what has arrived.
    #[must_use]
    pub fn with_report(self, report: PieceReport) -> Source {
        Source { report: Some(report), ..self }
    }

    pub(super) fn of(payload: &Payload) -> Source {
        Source { all: All::Whole(payload.clone()), report: None }
    }

    /// The part at `at` bytes from the start.
    pub(super) fn part(&self, at: u64, len: u32) -> Payload {
        match &self.all {
            All::Whole(Payload::Bytes(bytes)) => Payload::Bytes(part_of(bytes, at, len)),
            All::Whole(Payload::File(f)) => Payload::File(FileRange {
                file: f.file.clone(),
                offset: f.offset.saturating_add(at),
                len: len as usize,
            }),
            All::Runs(runs) => {
                let run = runs.range(..=at).next_back();
                Payload::Bytes(
                    run.map_or_else(Bytes::new, |(start, run)| part_of(run, at - start, len)),
                )
            }
        }
    }

    pub(super) fn arrived(&self, len: u32) {
        if let Some(report) = &self.report {
            report(len.into());
        }
    }
}

fn part_of(bytes: &Bytes, at: u64, len: u32) -> Bytes {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let to = from.saturating_add(len as usize).min(bytes.len());
    bytes.slice(from..to)
}

/// The same payload without its first bytes.
pub(super) fn rest_of(payload: &Payload, skip: u32) -> Payload {
    match payload {
        Payload::Bytes(b) => Payload::Bytes(b.slice(b.len().min(skip as usize)..)),
        Payload::File(f) => Payload::File(FileRange {
            file: f.file.clone(),
            offset: f.offset.saturating_add(skip.into()),
            len: f.len.saturating_sub(skip as usize),
        }),
    }
}

/// A part of a payload to be kept for itself: without the memory of the rest.
pub(super) fn kept_part(payload: &Payload, at: u64, len: u64) -> Payload {
    let (at, len) = (usize::try_from(at).unwrap_or(usize::MAX), usize::try_from(len));
    let len = len.unwrap_or(usize::MAX);
    match payload {
        Payload::Bytes(b) => {
            let from = at.min(b.len());
            let to = from.saturating_add(len).min(b.len());
            Payload::Bytes(Bytes::copy_from_slice(&b[from..to]))
        }
        Payload::File(f) => Payload::File(FileRange {
            file: f.file.clone(),
            offset: f.offset.saturating_add(at as u64),
            len: len.min(f.len.saturating_sub(at)),
        }),
    }
}

/// Bytes of memory a payload keeps alive.
pub(super) fn held_bytes(payload: &Payload) -> usize {
    match payload {
        Payload::Bytes(b) => b.len(),
        Payload::File(_) => 0,
    }
}
