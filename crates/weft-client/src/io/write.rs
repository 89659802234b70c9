//! WRITE of file ranges: one try of each piece, at the data servers or at the metadata server.

use std::sync::Arc;

use tokio::task::JoinSet;
use weft_nfs::{FileHandle, IoMode, OpNum, StableHow, Stateid, Verifier};
use weft_xdr::Payload;

use super::{
    cluster::Cluster,
    data_path::DataPath,
    dirty::{Mark, Unsettled},
    held::{Failures, LayoutState},
    open::Open,
    server_queues::{self, Piece, ServerQueue, Target, Targets},
    source::{Source, rest_of},
};
use crate::{error::ClientError, joined, layout::plan::Purpose, session::Session, sync::Mutex};

/// File ranges that did not reach their data server: offset and length.
pub(super) type Failed = Vec<(u64, u64)>;

/// Ranges to be written from one source.
pub(super) struct Outgoing<'a> {
    /// Under which open.
    pub(super) by: &'a Arc<Open>,
    /// File offset of the source's first byte.
    pub(super) start: u64,
    /// File offsets and lengths.
    pub(super) ranges: &'a [(u64, u64)],
    pub(super) source: &'a Source,
    /// Whether to ask for a layout if none is held.
    pub(super) worth_layout: bool,
    /// The file is made durable right after it.
    pub(super) then_durable: bool,
}

impl Outgoing<'_> {
    /// The first byte of all, and the one behind the last.
    pub(super) fn span(&self) -> (u64, u64) {
        let from = self.ranges.iter().map(|(at, _)| *at).min().unwrap_or(self.start);
        let end = self.ranges.iter().map(|(at, len)| at.saturating_add(*len)).max();
        (from, end.unwrap_or(self.start))
    }

    /// How its pieces are to be written. A single one is durable at once: COMMIT would be another
    /// request for the same sync. Several share that of a COMMIT.
    fn stability(&self, queues: &[ServerQueue]) -> StableHow {
        match self.then_durable && server_queues::only_piece(queues).is_some() {
            true => StableHow::FILE_SYNC,
            false => StableHow::UNSTABLE,
        }
    }
}

/// What is left after writing through the layout.
pub(super) enum Left {
    /// All of it was written.
    Nothing,
    /// There is no layout to write through.
    All,
    /// What data servers could not take.
    Failed(Failed),
}

impl DataPath {
    /// Writes through the layout, if there is one. Says what is left to be written.
    pub(super) async fn write_striped(&self, outgoing: &Outgoing<'_>) -> Result<Left, ClientError> {
        let by = outgoing.by;
        if let LayoutState::Held(held) = &*self.access(by, IoMode::RW, outgoing.worth_layout).await
            && held.iomode == IoMode::RW
        {
            let io_bytes = self.mds.io_bytes_max().1;
            let queues = server_queues::striped_queues(
                &held.plan,
                Purpose::Write,
                outgoing.ranges,
                io_bytes,
            );
            let failed = self.write_queues(outgoing, queues, held.failures()).await?;
            let (from, end) = outgoing.span();
            held.note_written(from, end);
            return Ok(if failed.is_empty() { Left::Nothing } else { Left::Failed(failed) });
        }
        Ok(Left::All)
    }

    /// Writes ranges through the metadata server.
    pub(super) async fn write_at_mds(
        &self,
        outgoing: &Outgoing<'_>,
        ranges: &[(u64, u64)],
    ) -> Result<(), ClientError> {
        let io_bytes = self.mds.io_bytes_max().1;
        let queues = server_queues::mds_queue(self.fh(), ranges, io_bytes);
        self.write_queues(outgoing, queues, &Failures::default()).await.map(drop)
    }

    /// Writes all pieces. Those a data server could not take are returned; other failures end it.
    async fn write_queues(
        &self,
        outgoing: &Outgoing<'_>,
        queues: Vec<ServerQueue>,
        failures: &Failures,
    ) -> Result<Failed, ClientError> {
        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            by: outgoing.by.clone(),
            stateid: outgoing.by.io_stateid(),
            stable: outgoing.stability(&queues),
            start: outgoing.start,
            source: outgoing.source.clone(),
            outcome: Mutex::new(Outcome::default()),
            failures: Failures::default(),
        });
        let work = {
            let shared = shared.clone();
            move |targets, piece| shared.clone().write_piece(targets, piece)
        };
        let ran = server_queues::run(queues, work).await;
        failures.extend(&shared.failures);
        let outcome = std::mem::take(&mut *shared.outcome.lock());
        let mut dirty = self.file.lock_dirty();
        for written in outcome.written {
            match written {
                Written::Waits(piece) => dirty.push(piece),
                Written::Durable(offset, len) => dirty.overwrite(offset, len),
            }
        }
        ran.map(|()| outcome.failed)
    }
}

/// What the workers of one write share.
struct Shared {
    cluster: Arc<Cluster>,
    by: Arc<Open>,
    stateid: Stateid,
    stable: StableHow,
    /// File offset of the source's first byte.
    start: u64,
    source: Source,
    outcome: Mutex<Outcome>,
    failures: Failures,
}

#[derive(Default)]
struct Outcome {
    written: Vec<Written>,
    failed: Failed,
}

/// A piece that reached all of its targets.
enum Written {
    /// It waits for a COMMIT.
    Waits(Unsettled),
    /// File offset and length of what is durable already.
    Durable(u64, u64),
}

impl Shared {
    /// Writes a piece to all of its targets, side by side. One that does not take it has the whole
    /// piece go around.
    async fn write_piece(
        self: Arc<Self>,
        targets: Targets,
        piece: Piece,
    ) -> Result<(), ClientError> {
        let payload = self.source.part(piece.file_offset - self.start, piece.len);
        let tries = match &*targets {
            [only] => vec![self.clone().write_to(only.clone(), piece, payload.clone()).await],
            several => self.write_to_each(several, piece, &payload).await?,
        };
        let (file_offset, len) = (piece.file_offset, piece.len.into());
        let mut marks = Vec::with_capacity(tries.len());
        let mut is_everywhere = !tries.is_empty();
        for (target, written) in tries {
            match written {
                Ok(None) => {}
                Ok(Some(verifier)) => marks.push(Mark { target, verifier }),
                Err(e) if self.cluster.can_go_around(&target, &e) => {
                    tracing::debug!(?target, "WRITE failed on a data server: {e}");
                    self.failures.note(&target, OpNum::WRITE, piece.range(), &e);
                    is_everywhere = false;
                }
                Err(e) => return Err(e),
            }
        }
        if !is_everywhere {
            self.outcome.lock().failed.push((file_offset, len));
            return Ok(());
        }
        self.source.arrived(piece.len);
        self.outcome.lock().written.push(match marks.is_empty() {
            true => Written::Durable(file_offset, len),
            false => {
                let (marks, by) = (marks.into(), self.by.clone());
                Written::Waits(Unsettled { file_offset, payload, marks, by })
            }
        });
        Ok(())
    }

    async fn write_to_each(
        self: &Arc<Self>,
        targets: &[Target],
        piece: Piece,
        payload: &Payload,
    ) -> Result<Vec<Try>, ClientError> {
        let mut writes = JoinSet::new();
        for target in targets {
            writes.spawn(self.clone().write_to(target.clone(), piece, payload.clone()));
        }
        let mut tries = Vec::with_capacity(targets.len());
        while let Some(tried) = joined::next(&mut writes).await {
            tries.push(tried?);
        }
        Ok(tries)
    }

    async fn write_to(self: Arc<Self>, target: Target, piece: Piece, payload: Payload) -> Try {
        let written = match self.cluster.session(&target, &self.by.opened.caller).await {
            Ok(session) => {
                let how = (target.stateid(self.stateid), self.stable);
                write_all(&session, target.fh(), how, &piece, &payload).await
            }
            Err(e) => Err(e),
        };
        (target, written)
    }
}

/// How writing a piece to one target ended: the verifier to be confirmed by COMMIT, or none if the
/// data are durable.
type Try = (Target, Result<Option<Verifier>, ClientError>);

/// Writes a whole piece, however short the server's writes are. Returns the verifier to be
/// confirmed by COMMIT, or none if the data are durable.
async fn write_all(
    session: &Session,
    fh: &FileHandle,
    (stateid, stable): (Stateid, StableHow),
    piece: &Piece,
    payload: &Payload,
) -> Result<Option<Verifier>, ClientError> {
    let mut done = 0;
    let mut first = None;
    let mut unstable = None;
    while done < piece.len {
        let at = piece.object_offset + u64::from(done);
        let part = if done == 0 { payload.clone() } else { rest_of(payload, done) };
        let ok = session.write(fh, stateid, at, part, stable).await?;
        done += ok.count;
        if ok.committed == StableHow::UNSTABLE {
            unstable = Some(ok.verifier);
        }
        if *first.get_or_insert(ok.verifier) != ok.verifier {
            // The server restarted within the piece: from the start, with one verifier.
            (done, first, unstable) = (0, None, None);
        }
    }
    Ok(unstable)
}
