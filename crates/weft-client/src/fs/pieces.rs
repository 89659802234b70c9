//! Content that comes in pieces: what has holes, and what another cluster has.

use std::{fs, io, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    extents::next_local_data,
    file::{CUT, File},
    transfer::Progress,
};
use crate::{error::ClientError, io::Source, joined};

/// Bytes of a piece that we cut ourselves.
pub const PIECE_BYTES: usize = 4 << 20;
/// Pieces that wait to be written: with those being written, the memory of a copy.
const WAITING_MAX: usize = 2;
/// Pieces being written at a time.
const WRITTEN_AT_A_TIME: usize = 4;

/// A part of a file, and where it belongs; none is the end.
type Piece = io::Result<Option<(u64, Bytes)>>;

/// Where the pieces of a file are given in: in any order, the end (`None`) last, or why no more
/// comes. What no piece covers is a hole.
pub type PieceSender = mpsc::Sender<Piece>;

/// The pieces of a file, and its size.
pub(super) struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    size: u64,
}

impl Pieces {
    /// Pieces of a file of this size, and where they are given in.
    pub(super) fn of(size: u64) -> (PieceSender, Pieces) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (sender, Pieces { receiver, size })
    }

    /// Those of a local file.
    pub(super) fn of_sparse(file: Arc<fs::File>, size: u64) -> Pieces {
        let (sender, pieces) = Pieces::of(size);
        tokio::task::spawn_blocking(move || {
            let given = give_data(&file, size, &sender);
            // Whoever receives it may have gone.
            let _ = sender.blocking_send(given.map(|()| None));
        });
        pieces
    }

    /// Writes all of them, and what is a hole at the end; returns the size.
    pub(super) async fn send(mut self, to: &File, report: Progress) -> Result<u64, ClientError> {
        let (mut writes, mut end, mut arrived) = (JoinSet::new(), 0, 0);
        let mut count = |bytes: u64| {
            arrived += bytes;
            report(arrived);
        };
        loop {
            let piece = self.receiver.recv().await;
            let piece = piece.ok_or(ClientError::Invalid("its source went away in the middle"))?;
            let Some((offset, data)) = piece? else { break };
            let len = data.len() as u64;
            let beyond = ClientError::Invalid("it grew while it was copied");
            let piece_end = offset.checked_add(len).filter(|end| *end <= self.size);
            end = end.max(piece_end.ok_or(beyond)?);
            if writes.len() >= WRITTEN_AT_A_TIME
                && let Some(written) = joined::next(&mut writes).await
            {
                count(written??);
            }
            let io = to.io().clone();
            writes.spawn(async move {
                let written = io.write(offset, len, &Source::bytes(data)).await;
                written.map(|()| len)
            });
        }
        while let Some(written) = joined::next(&mut writes).await {
            count(written??);
        }
        if end < self.size {
            to.io().truncate(self.size).await?;
        }
        report(self.size);
        Ok(self.size)
    }
}

/// Reads what is no hole of a local file.
fn give_data(file: &fs::File, size: u64, to: &PieceSender) -> io::Result<()> {
    let mut at = 0;
    while let Some((start, end)) = next_local_data(file, at)? {
        let end = end.min(size);
        at = start;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let mut data = vec![0; len];
            if let Err(e) = file.read_exact_at(&mut data, at) {
                return Err(if e.kind() == io::ErrorKind::UnexpectedEof { shorter() } else { e });
            }
            if to.blocking_send(Ok(Some((at, data.into())))).is_err() {
                return Ok(());
            }
            at += len as u64;
        }
        if at >= size {
            break;
        }
    }
    // What was cut off is no hole.
    match file.metadata()?.len() < size {
        true => Err(shorter()),
        false => Ok(()),
    }
}

fn shorter() -> io::Error {
    io::Error::other(CUT)
}
