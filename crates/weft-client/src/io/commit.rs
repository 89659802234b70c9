//! What was written and is not durable yet, and making it so: RFC 8881 §18.3, §13.7.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::task::JoinSet;
use weft_nfs::Verifier;
use weft_xdr::Payload;

use super::{
    FileIo,
    lanes::Target,
    layout::LayoutState,
    source::{Source, held_bytes},
};
use crate::{error::ClientError, limits};

/// A piece written UNSTABLE: kept, so that it can be written again.
#[derive(Debug, Clone)]
pub(super) struct Unsettled {
    pub(super) file_offset: u64,
    pub(super) payload: Payload,
    pub(super) target: Target,
    pub(super) verifier: Verifier,
}

/// The pieces of a file that wait for a COMMIT, oldest first. Bounded by
/// [`limits::DIRTY_PIECES_MAX`] and [`limits::DIRTY_BYTES_MAX`]: a write beyond commits first.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pieces: VecDeque<Unsettled>,
    bytes: usize,
}

impl Dirty {
    pub(super) fn push(&mut self, piece: Unsettled) {
        self.bytes += held_bytes(&piece.payload);
        self.pieces.push_back(piece);
    }

    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= limits::DIRTY_PIECES_MAX || self.bytes >= limits::DIRTY_BYTES_MAX
    }

    fn take(&mut self) -> VecDeque<Unsettled> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    /// Before what was written since, so that writing again keeps the order.
    fn put_back(&mut self, mut older: VecDeque<Unsettled>) {
        self.bytes += older.iter().map(|p| held_bytes(&p.payload)).sum::<usize>();
        older.append(&mut self.pieces);
        self.pieces = older;
    }
}

/// The right to settle a file. One at a time: who finds nothing dirty then knows that nobody
/// else is still waiting for the answer that makes it so. Taken before the gate.
pub(super) type Round<'a> = tokio::sync::MutexGuard<'a, ()>;

/// Pieces taken to be settled. Those not confirmed when it is dropped, be it because a caller
/// lost patience, are dirty again.
#[must_use]
pub(super) struct Untold<'a> {
    file: &'a FileIo,
    pieces: VecDeque<Unsettled>,
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        self.file.lock_dirty().put_back(std::mem::take(&mut self.pieces));
    }
}

impl FileIo {
    /// Waits for the right to settle.
    pub(super) async fn round(&self) -> Round<'_> {
        self.rounds.lock().await
    }

    /// Makes everything written durable and visible: COMMIT on every server written to, then
    /// LAYOUTCOMMIT. Calls at the same time settle one after another; one that is dropped before
    /// it ends leaves what it has not heard of to the next.
    ///
    /// # Errors
    /// A server's refusal; [`ClientError::NotCommitted`] when data servers lost what was
    /// written [`limits::REWRITES_MAX`] times in a row. What is not durable stays remembered.
    pub async fn commit(&self) -> Result<(), ClientError> {
        let round = self.round().await;
        for _ in 0..=limits::REWRITES_MAX {
            let lost = {
                let state = self.gate.read().await;
                let lost = self.commit_round(&round).await?;
                if lost.pieces.is_empty() {
                    return match &*state {
                        LayoutState::Held(held) => self.layoutcommit(held).await,
                        _ => Ok(()),
                    };
                }
                lost
            };
            tracing::warn!(pieces = lost.pieces.len(), "a server lost uncommitted data: again");
            self.rewrite_all(&round, lost).await?;
        }
        Err(ClientError::NotCommitted)
    }

    /// One COMMIT for each target with dirty pieces, all at once. Returns the pieces that were
    /// lost, or whose server cannot be asked.
    pub(super) async fn commit_round(&self, _: &Round<'_>) -> Result<Untold<'_>, ClientError> {
        let taken = self.lock_dirty().take();
        let mut untold = Untold { file: self, pieces: taken };
        let targets: HashSet<&Target> = untold.pieces.iter().map(|p| &p.target).collect();
        let mut commits = JoinSet::new();
        for target in targets.into_iter().cloned() {
            let cluster = self.cluster.clone();
            commits.spawn(async move {
                let verifier = match &target {
                    Target::Mds(fh) => cluster.mds.commit(fh).await,
                    Target::Ds(ds) => match cluster.servers.session(&ds.server).await {
                        Ok(session) => session.commit(&ds.fh).await,
                        Err(e) => Err(e),
                    },
                };
                (target, verifier)
            });
        }
        let mut confirmed = HashMap::new();
        let mut failed = Ok(());
        for (target, verifier) in commits.join_all().await {
            match (verifier, &target) {
                (Ok(v), _) => drop(confirmed.insert(target, v)),
                (Err(e), Target::Ds(ds)) if super::write::is_curable(&e) => {
                    tracing::warn!("COMMIT failed on a data server: {e}");
                    if matches!(e, ClientError::Unreachable { .. }) {
                        self.cluster.servers.avoid(&ds.server);
                    }
                }
                (Err(e), _) => failed = Err(e),
            }
        }
        untold.pieces.retain(|p| confirmed.get(&p.target) != Some(&p.verifier));
        failed.map(|()| untold)
    }

    /// Writes lost pieces again. What cannot be written stays dirty: nothing is forgotten before
    /// it is durable.
    pub(super) async fn rewrite_all(
        &self,
        round: &Round<'_>,
        mut lost: Untold<'_>,
    ) -> Result<(), ClientError> {
        while let Some(piece) = lost.pieces.front() {
            let source = Source::of(&piece.payload);
            let range = (piece.file_offset, piece.payload.len() as u64);
            let written = self.write_striped(range, &source).await?;
            // Boxed: going around may end in giving up a layout, which may end here.
            Box::pin(self.go_around(round, range.0, written, &source)).await?;
            lost.pieces.pop_front();
        }
        Ok(())
    }
}
