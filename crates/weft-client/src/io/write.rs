//! WRITE of file ranges: one try of each piece, at the data servers or at the metadata server.

use std::sync::Arc;

use tokio::task::JoinSet;
use weft_nfs::{
    Attrs, Bitmap, FileHandle, IoMode, OpNum, StableHow, Stateid, Verifier, ops::WriteArgs,
};
use weft_xdr::Payload;

use super::{
    attrs::attrs_wanted,
    cluster::Cluster,
    data_path::DataPath,
    held::{Failures, Held, LayoutState},
    mark::Mark,
    open::{Asked, Open},
    server_queues::{self, Piece, ServerQueue, Target, Targets},
    shared_file::SharedFile,
    source::{Pieces, rest_of},
};
use crate::{
    cache::{Arrived, SendingNo},
    error::ClientError,
    joined,
    layout::plan::Purpose,
    limits,
    session::Session,
    sync::Mutex,
};

/// File ranges that did not reach their data server: offset and length.
pub(super) type Failed = Vec<(u64, u64)>;

/// What leaves together: a sending of the file's cache.
pub(super) struct Outgoing {
    pub(super) no: SendingNo,
    /// Under which open.
    pub(super) by: Arc<Open>,
    pub(super) pieces: Pieces,
    /// File offsets and lengths of the pieces.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Whether to ask for a layout if none is held.
    pub(super) worth_layout: bool,
    /// The file is made durable right after it.
    pub(super) then_durable: bool,
    /// What the metadata server has told of the file with all of it written, asked then.
    pub(super) told: Mutex<Option<(Asked, Attrs)>>,
}

impl Outgoing {
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
    pub(super) async fn write_striped(&self, outgoing: &Outgoing) -> Result<Left, ClientError> {
        let Outgoing { by, worth_layout, .. } = outgoing;
        if let LayoutState::Held(held) = &*self.access(by, IoMode::RW, *worth_layout).await
            && held.iomode() == IoMode::RW
        {
            let io_bytes = self.mds.io_bytes_max().1;
            let ranges = &outgoing.ranges;
            let queues =
                server_queues::striped_queues(&held.plan, Purpose::Write, ranges, io_bytes);
            let failed = self.write_queues(outgoing, queues, Some(held)).await?;
            return Ok(if failed.is_empty() { Left::Nothing } else { Left::Failed(failed) });
        }
        Ok(Left::All)
    }

    /// Writes ranges through the metadata server.
    pub(super) async fn write_at_mds(
        &self,
        outgoing: &Outgoing,
        ranges: &[(u64, u64)],
    ) -> Result<(), ClientError> {
        let io_bytes = self.mds.io_bytes_max().1;
        let queues = server_queues::mds_queue(self.fh(), ranges, io_bytes);
        self.write_queues(outgoing, queues, None).await.map(drop)
    }

    /// Writes all pieces. Those a data server could not take are returned; other failures end it.
    async fn write_queues(
        &self,
        outgoing: &Outgoing,
        queues: Vec<ServerQueue>,
        held: Option<&Arc<Held>>,
    ) -> Result<Failed, ClientError> {
        let stable = outgoing.stability(&queues);
        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            by: outgoing.by.clone(),
            stateid: outgoing.by.io_stateid(),
            stable,
            asks: self.asks(stable, held),
            told: Mutex::default(),
            file: self.file.clone(),
            fh: self.fh().clone(),
            no: outgoing.no,
            pieces: outgoing.pieces.clone(),
            held: held.cloned(),
            failed: Mutex::default(),
            failures: Failures::default(),
        });
        let work = {
            let shared = shared.clone();
            move |targets, piece| shared.clone().write_piece(targets, piece)
        };
        let ran = server_queues::run(queues, work).await;
        if let Some(held) = held {
            held.failures().extend(&shared.failures);
        }
        ran?;
        let told = shared.told.lock().take();
        *outgoing.told.lock() = shared.asks.zip(told);
        Ok(std::mem::take(&mut *shared.failed.lock()))
    }

    /// Whether the metadata server is asked, now, what the file is after that: if it takes all of
    /// it in one durable piece, and nobody else changes the file.
    fn asks(&self, stable: StableHow, held: Option<&Arc<Held>>) -> Option<Asked> {
        let is_last = stable == StableHow::FILE_SYNC && held.is_none();
        let asked = Asked { losses: self.mds.losses(), moment: self.cluster.files.moment() };
        (is_last && self.held_delegation().is_some()).then_some(asked)
    }
}

/// What the workers of one write share.
struct Shared {
    cluster: Arc<Cluster>,
    by: Arc<Open>,
    stateid: Stateid,
    stable: StableHow,
    /// Whether attributes are asked for, and when.
    asks: Option<Asked>,
    told: Mutex<Option<Attrs>>,
    file: Arc<SharedFile>,
    /// The file at the metadata server.
    fh: FileHandle,
    no: SendingNo,
    pieces: Pieces,
    /// The layout that it goes through.
    held: Option<Arc<Held>>,
    failed: Mutex<Failed>,
    failures: Failures,
}

impl Shared {
    /// Writes a piece to all of its targets, side by side. One that does not take it has the whole
    /// piece go around.
    async fn write_piece(
        self: Arc<Self>,
        targets: Targets,
        piece: Piece,
    ) -> Result<(), ClientError> {
        let payload = self.pieces.part(piece.file_offset, piece.len);
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
                Ok(Some(verifier)) => {
                    marks.push(Mark { target: self.committer(target), verifier });
                }
                Err(e) if self.cluster.can_go_around(&target, &e) => {
                    tracing::debug!(?target, "WRITE failed on a data server: {e}");
                    self.failures.note(&target, OpNum::WRITE, piece.range(), &e);
                    is_everywhere = false;
                }
                Err(e) => return Err(e),
            }
        }
        if !is_everywhere {
            self.failed.lock().push((file_offset, len));
            return Ok(());
        }
        self.by.arrived(len);
        // First: whoever finds nothing on its way any more has to tell the metadata server of it.
        if let Some(held) = &self.held {
            held.note_written(file_offset, file_offset.saturating_add(len));
        }
        let arrived = match marks.is_empty() {
            true => Arrived::Durable,
            false => Arrived::Unstable(marks.into()),
        };
        self.file.cache(|cache| cache.ranges.arrived(self.no, file_offset, len, &arrived));
        Ok(())
    }

    /// The server that is asked to COMMIT what a target has taken.
    fn committer(&self, target: Target) -> Target {
        match &self.held {
            Some(held) if held.plan.rules.commits_at_mds => Target::Mds(self.fh.clone()),
            _ => target,
        }
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
                let request = self.asks.map(|_| attrs_wanted());
                let written = write_all(&session, target.fh(), how, &piece, (&payload, request));
                written.await.map(|(unstable, attrs)| {
                    *self.told.lock() = attrs;
                    unstable
                })
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
/// confirmed by COMMIT, or none if the data are durable, and the attributes after that, as far as
/// they are asked for.
async fn write_all(
    session: &Session,
    fh: &FileHandle,
    (stateid, stable): (Stateid, StableHow),
    piece: &Piece,
    (payload, request): (&Payload, Option<Bitmap>),
) -> Result<(Option<Verifier>, Option<Attrs>), ClientError> {
    let mut done = 0;
    let mut attrs = None;
    let mut first = None;
    let mut unstable = None;
    let mut restarts = 0;
    while done < piece.len {
        let at = piece.object_offset + u64::from(done);
        let part = if done == 0 { payload.clone() } else { rest_of(payload, done) };
        let write = WriteArgs { stateid, offset: at, stable, data: part };
        let (ok, told) = session.write_asking(fh, write, request).await?;
        attrs = told;
        done += ok.count;
        if ok.committed == StableHow::UNSTABLE {
            unstable = Some(ok.verifier);
        }
        if *first.get_or_insert(ok.verifier) != ok.verifier {
            // The server restarted within the piece: from the start, with one verifier.
            (done, first, unstable) = (0, None, None);
            restarts += 1;
            if restarts > limits::REWRITES_MAX {
                return Err(ClientError::NotCommitted);
            }
        }
    }
    Ok((unstable, attrs))
}
