//! What was written and is not durable yet, and making it so: RFC 8881 §18.3, §13.7.

use std::collections::HashMap;

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

/// The pieces of a file that wait for a COMMIT. Bounded by [`limits::DIRTY_PIECES_MAX`] and
/// [`limits::DIRTY_BYTES_MAX`]: a write beyond commits first.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pieces: Vec<Unsettled>,
    bytes: usize,
}

impl Dirty {
    pub(super) fn push(&mut self, piece: Unsettled) {
        self.bytes += held_bytes(&piece.payload);
        self.pieces.push(piece);
    }

    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= limits::DIRTY_PIECES_MAX || self.bytes >= limits::DIRTY_BYTES_MAX
    }

    fn take(&mut self) -> Vec<Unsettled> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }
}

impl FileIo {
    /// Makes everything written durable and visible: COMMIT on every server written to, then
    /// LAYOUTCOMMIT.
    ///
    /// # Errors
    /// A server's refusal; [`ClientError::NotCommitted`] when data servers lost what was
    /// written [`limits::REWRITES_MAX`] times in a row. What is not durable stays remembered.
    pub async fn commit(&self) -> Result<(), ClientError> {
        for _ in 0..=limits::REWRITES_MAX {
            let unsettled = {
                let state = self.gate.read().await;
                let unsettled = self.commit_round().await?;
                if unsettled.is_empty() {
                    return match &*state {
                        LayoutState::Held(held) => self.layoutcommit(held).await,
                        _ => Ok(()),
                    };
                }
                unsettled
            };
            tracing::warn!(pieces = unsettled.len(), "a server lost uncommitted data: again");
            self.rewrite_all(unsettled).await?;
        }
        Err(ClientError::NotCommitted)
    }

    /// One COMMIT for each target with dirty pieces, all at once. Returns the pieces that were
    /// lost, or whose server cannot be asked.
    pub(super) async fn commit_round(&self) -> Result<Vec<Unsettled>, ClientError> {
        let mut by_target: HashMap<Target, Vec<Unsettled>> = HashMap::new();
        for piece in self.lock_dirty().take() {
            by_target.entry(piece.target.clone()).or_default().push(piece);
        }
        let mut commits = JoinSet::new();
        for (target, pieces) in by_target {
            let cluster = self.cluster.clone();
            commits.spawn(async move {
                let verifier = match &target {
                    Target::Mds(fh) => cluster.mds.commit(fh).await,
                    Target::Ds(ds) => match cluster.servers.session(&ds.server).await {
                        Ok(session) => session.commit(&ds.fh).await,
                        Err(e) => Err(e),
                    },
                };
                (target, pieces, verifier)
            });
        }
        let mut lost = Vec::new();
        let mut failed = Ok(());
        for (target, pieces, verifier) in commits.join_all().await {
            match (verifier, &target) {
                (Ok(v), _) => lost.extend(pieces.into_iter().filter(|p| p.verifier != v)),
                (Err(e), Target::Ds(ds)) if super::write::is_curable(&e) => {
                    tracing::warn!("COMMIT failed on a data server: {e}");
                    if matches!(e, ClientError::Unreachable { .. }) {
                        self.cluster.servers.avoid(&ds.server);
                    }
                    lost.extend(pieces);
                }
                (Err(e), _) => {
                    let mut dirty = self.lock_dirty();
                    pieces.into_iter().for_each(|p| dirty.push(p));
                    failed = Err(e);
                }
            }
        }
        if failed.is_err() {
            let mut dirty = self.lock_dirty();
            lost.drain(..).for_each(|p| dirty.push(p));
        }
        failed.map(|()| lost)
    }

    /// Writes lost pieces again. What cannot be written stays dirty: nothing is forgotten before
    /// it is durable.
    pub(super) async fn rewrite_all(&self, pieces: Vec<Unsettled>) -> Result<(), ClientError> {
        let mut result = Ok(());
        for piece in pieces {
            if result.is_ok() {
                let source = Source::of(&piece.payload);
                let len = piece.payload.len() as u64;
                // Boxed: a write may end in giving up a layout, which may end here.
                result = Box::pin(self.write_range(piece.file_offset, len, &source)).await;
            }
            if result.is_err() {
                self.lock_dirty().push(piece);
            }
        }
        result
    }
}
