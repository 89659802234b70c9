//! Writing.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use weft_nfs::{FileHandle, IoMode, NfsStat, StableHow, Stateid, Verifier};
use weft_xdr::Payload;

use super::{
    Cluster, FileIo,
    commit::Quiet,
    dirty::Unsettled,
    layout::LayoutState,
    open::Open,
    server_queues::{self, Piece, Target},
    source::{Source, rest_of},
};
use crate::{error::ClientError, rpc::RpcError, session::Session};

/// File ranges that did not reach their data server: offset and length.
type Failed = Vec<(u64, u64)>;

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
}

impl Outgoing<'_> {
    /// The first byte of all, and the one behind the last.
    fn span(&self) -> (u64, u64) {
        let from = self.ranges.iter().map(|(at, _)| *at).min().unwrap_or(self.start);
        let end = self.ranges.iter().map(|(at, len)| at.saturating_add(*len)).max();
        (from, end.unwrap_or(self.start))
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

impl FileIo {
    /// Writes a range. On return the data are at the servers, or gathered if the policy says so
    /// ([`super::IoPolicy`]), not necessarily durable: [`FileIo::commit`] makes them so.
    ///
    /// # Errors
    /// [`ClientError`]; part of the range may have been written. With a policy that gathers, that
    /// of an earlier write that only now left; then nothing of this one was taken.
    pub async fn write(&self, offset: u64, len: u64, source: &Source) -> Result<(), ClientError> {
        let end = offset.checked_add(len).ok_or(ClientError::Invalid("beyond the largest file"))?;
        if len == 0 {
            return Ok(());
        }
        if let Some(data) = self.gathers(len, source) {
            return self.gather(offset, &data).await;
        }
        self.flush_overlapping(offset, end).await?;
        self.send(&Outgoing {
            by: &self.open,
            start: offset,
            ranges: &[(offset, len)],
            source,
            worth_layout: self.is_worth_layout(&self.open, end),
        })
        .await?;
        let is_full = self.file.lock_dirty().is_full();
        if is_full {
            self.commit_sent().await?;
        }
        Ok(())
    }

    /// Whether the file, with this end at least, is one of those whose data the metadata server
    /// wants to see on data servers.
    pub(super) fn is_worth_layout(&self, by: &Open, end: u64) -> bool {
        end.max(self.size()) >= by.opened.thresholds.write_size
    }

    /// Writes all ranges, through the layout as far as there is one and it works.
    pub(super) async fn send(&self, outgoing: &Outgoing<'_>) -> Result<(), ClientError> {
        let left = {
            let _writing = self.file.writing.read().await;
            match self.write_striped(outgoing).await? {
                Left::All => {
                    self.write_through_mds(outgoing, outgoing.ranges).await?;
                    Left::Nothing
                }
                left => left,
            }
        };
        if let Left::Failed(_) = &left {
            self.go_around(&self.quiet().await, outgoing, left).await?;
        }
        self.size.fetch_max(outgoing.span().1, Ordering::AcqRel);
        Ok(())
    }

    /// Writes through the layout, if there is one. Says what is left to be written.
    pub(super) async fn write_striped(&self, outgoing: &Outgoing<'_>) -> Result<Left, ClientError> {
        let by = outgoing.by;
        if let LayoutState::Held(held) = &*self.access(by, IoMode::RW, outgoing.worth_layout).await
            && held.iomode == IoMode::RW
        {
            let io_bytes = self.cluster.mds.io_bytes_max().1;
            let queues = server_queues::striped_queues(&held.plan, outgoing.ranges, io_bytes);
            let failed = self.write_queues(outgoing, queues).await?;
            let (from, end) = outgoing.span();
            held.note_written(from, end);
            return Ok(if failed.is_empty() { Left::Nothing } else { Left::Failed(failed) });
        }
        Ok(Left::All)
    }

    /// Writes through the metadata server what is left. If a data server failed, the layout is
    /// returned after that, not before: while it is held, the server knows that a write may
    /// still be on its way to a data server, and fences it. What the data servers hold is
    /// committed first, because the fence refuses our COMMITs too.
    pub(super) async fn go_around(
        &self,
        quiet: &Quiet<'_>,
        outgoing: &Outgoing<'_>,
        left: Left,
    ) -> Result<(), ClientError> {
        let failed = match left {
            Left::Nothing => return Ok(()),
            Left::All => return self.write_through_mds(outgoing, outgoing.ranges).await,
            Left::Failed(failed) => failed,
        };
        tracing::warn!(ranges = failed.len(), "data server failed: through the MDS instead");
        if let Err(e) = self.commit_round(quiet.round()).await {
            // What is not committed is dirty still, and asked for again below.
            tracing::debug!("COMMIT before the indirect path: {e}");
        }
        let written = self.write_through_mds(outgoing, &failed).await;
        written.and(self.give_up_layout(quiet).await)
    }

    /// The indirect path; the open is renewed if the server has dropped it.
    async fn write_through_mds(
        &self,
        outgoing: &Outgoing<'_>,
        ranges: &[(u64, u64)],
    ) -> Result<(), ClientError> {
        let losses = self.cluster.mds.losses();
        loop {
            let io_bytes = self.cluster.mds.io_bytes_max().1;
            let queues = server_queues::mds_queue(self.fh(), ranges, io_bytes)?;
            match self.write_queues(outgoing, queues).await {
                Ok(_) => return Ok(()),
                Err(e) if e.is_lost_state() => {
                    tracing::warn!(losses, "open lost, opening again: {e}");
                    self.reopen(outgoing.by).await?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes all pieces. Those a data server could not take are returned; other failures end it.
    async fn write_queues(
        &self,
        outgoing: &Outgoing<'_>,
        queues: Vec<server_queues::ServerQueue>,
    ) -> Result<Failed, ClientError> {
        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            by: outgoing.by.clone(),
            stateid: outgoing.by.io_stateid(),
            start: outgoing.start,
            source: outgoing.source.clone(),
            outcome: Mutex::new(Outcome::default()),
        });
        let work = {
            let shared = shared.clone();
            move |target, piece| shared.clone().write_piece(target, piece)
        };
        let ran = server_queues::run(queues, work).await;
        let outcome =
            std::mem::take(&mut *shared.outcome.lock().unwrap_or_else(PoisonError::into_inner));
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
    /// File offset of the source's first byte.
    start: u64,
    source: Source,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    written: Vec<Written>,
    failed: Failed,
}

/// A piece that reached its server.
enum Written {
    /// It waits for a COMMIT.
    Waits(Unsettled),
    /// File offset and length of what is durable already.
    Durable(u64, u64),
}

impl Shared {
    async fn write_piece(self: Arc<Self>, target: Target, piece: Piece) -> Result<(), ClientError> {
        let payload = self.source.part(piece.file_offset - self.start, piece.len);
        let written = match &target {
            Target::Mds(fh) => {
                write_all(&self.cluster.mds, fh, self.stateid, &piece, &payload).await
            }
            Target::Ds(ds) => match self.cluster.servers.session(&ds.server).await {
                Ok(session) => write_all(&session, &ds.fh, self.stateid, &piece, &payload).await,
                Err(e) => Err(e),
            },
        };
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (written, &target) {
            (Ok(unstable), _) => {
                self.source.arrived(piece.len);
                let file_offset = piece.file_offset;
                outcome.written.push(match unstable {
                    None => Written::Durable(file_offset, piece.len.into()),
                    Some(verifier) => {
                        let by = self.by.clone();
                        Written::Waits(Unsettled { file_offset, payload, target, verifier, by })
                    }
                });
            }
            (Err(e), Target::Ds(ds)) if is_curable(&e) => {
                tracing::debug!(server = ?ds.server, "WRITE failed on a data server: {e}");
                if matches!(e, ClientError::Unreachable { .. }) {
                    self.cluster.servers.avoid(&ds.server);
                }
                outcome.failed.push((piece.file_offset, piece.len.into()));
            }
            (Err(e), _) => return Err(e),
        }
        Ok(())
    }
}

/// Writes a whole piece, however short the server's writes are. Returns the verifier to be
/// confirmed by COMMIT, or none if the data are durable.
async fn write_all(
    session: &Session,
    fh: &FileHandle,
    stateid: Stateid,
    piece: &Piece,
    payload: &Payload,
) -> Result<Option<Verifier>, ClientError> {
    let mut done = 0;
    let mut first = None;
    let mut unstable = None;
    while done < piece.len {
        let at = piece.object_offset + u64::from(done);
        let part = if done == 0 { payload.clone() } else { rest_of(payload, done) };
        let ok = session.write(fh, stateid, at, part, StableHow::UNSTABLE).await?;
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

/// Whether the metadata server may do better than the data server that said this.
pub(super) fn is_curable(e: &ClientError) -> bool {
    match e {
        ClientError::Nfs { status, .. } => {
            !matches!(*status, NfsStat::NOSPC | NfsStat::DQUOT | NfsStat::FBIG | NfsStat::ROFS)
        }
        ClientError::Rpc(RpcError::Source(_)) => false,
        ClientError::Rpc(_)
        | ClientError::Unreachable { .. }
        | ClientError::Protocol(_)
        | ClientError::Decode(_)
        | ClientError::OutcomeUnknown { .. } => true,
        ClientError::Layout(_)
        | ClientError::Closed
        | ClientError::Local(_)
        | ClientError::Invalid(_)
        | ClientError::NotCommitted => false,
    }
}
