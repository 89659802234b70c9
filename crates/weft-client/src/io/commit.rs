//! What was written and is not durable yet, and making it so: RFC 8881 §18.3, §13.7.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use tokio::{
    sync::{MutexGuard, RwLockWriteGuard},
    task::JoinSet,
};

use super::{
    FileIo, dirty::RoundNo, layout::LayoutState, server_queues::Target, source::Source,
    write::Outgoing,
};
use crate::{error::ClientError, limits};

/// The right to settle a file. One at a time: who finds nothing dirty then knows that nobody
/// else is still waiting for the answer that makes it so. Taken before everything else.
pub(super) struct Round<'a> {
    _only_one: MutexGuard<'a, ()>,
}

/// The right to write lost data again: nobody else writes to the file meanwhile.
pub(super) struct Quiet<'a> {
    round: Round<'a>,
    _no_writes: RwLockWriteGuard<'a, ()>,
}

impl<'a> Quiet<'a> {
    pub(super) fn round(&self) -> &Round<'a> {
        &self.round
    }
}

impl FileIo {
    async fn round(&self) -> Round<'_> {
        Round { _only_one: self.file.rounds.lock().await }
    }

    async fn hush<'a>(&'a self, round: Round<'a>) -> Quiet<'a> {
        Quiet { round, _no_writes: self.file.writing.write().await }
    }

    /// Waits for the right to settle and for all writes under way. Who asks must not be writing.
    pub(super) async fn quiet(&self) -> Quiet<'_> {
        self.hush(self.round().await).await
    }

    /// Makes everything written to the file durable and visible: COMMIT on every server written
    /// to, then LAYOUTCOMMIT. Calls at the same time settle one after another; one that is dropped
    /// before it ends leaves what it has not heard of to the next.
    ///
    /// # Errors
    /// A server's refusal; [`ClientError::NotCommitted`] when data servers lost what was
    /// written [`limits::REWRITES_MAX`] times in a row; what is not durable stays remembered.
    /// Once for each open for writing, the failure of a LAYOUTCOMMIT whose layout is gone.
    pub async fn commit(&self) -> Result<(), ClientError> {
        self.flush().await?;
        self.commit_sent().await
    }

    /// The same of what has left for the servers.
    pub(super) async fn commit_sent(&self) -> Result<(), ClientError> {
        self.settle().await?;
        if !self.writable() {
            return Ok(());
        }
        let (count, failure) = self.file.failure_after(self.failures_seen.load(Ordering::Acquire));
        self.failures_seen.fetch_max(count, Ordering::AcqRel);
        failure.map_or(Ok(()), Err)
    }

    pub(super) async fn settle(&self) -> Result<(), ClientError> {
        let mut round = self.round().await;
        for _ in 0..=limits::REWRITES_MAX {
            let lost = {
                let state = self.file.gate.read().await;
                let Some(lost) = self.commit_round(&round).await? else {
                    return match &*state {
                        LayoutState::Held(held) => self.layoutcommit(held).await,
                        _ => Ok(()),
                    };
                };
                lost
            };
            tracing::warn!("a server lost uncommitted data: again");
            let quiet = self.hush(round).await;
            self.rewrite_all(&quiet, lost).await?;
            round = quiet.round;
        }
        Err(ClientError::NotCommitted)
    }

    /// One COMMIT for each target with dirty pieces, all at once. Tells the round if pieces were
    /// lost by it, or their server cannot be asked.
    pub(super) async fn commit_round(&self, _: &Round<'_>) -> Result<Option<RoundNo>, ClientError> {
        let (round, targets) = {
            let mut dirty = self.file.lock_dirty();
            let targets: HashSet<Target> = dirty.pieces().map(|p| p.target.clone()).collect();
            (dirty.begin_round(), targets)
        };
        let mut commits = JoinSet::new();
        for target in targets {
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
        let mut dirty = self.file.lock_dirty();
        dirty.settle(round, |p| confirmed.get(&p.target) == Some(&p.verifier));
        failed.map(|()| dirty.next_lost(round, 0).map(|_| round))
    }

    /// Writes again what a round has lost. What cannot be written stays dirty: nothing is
    /// forgotten before it is durable.
    pub(super) async fn rewrite_all(
        &self,
        quiet: &Quiet<'_>,
        lost: RoundNo,
    ) -> Result<(), ClientError> {
        let mut from = 0;
        loop {
            let Some(piece) = self.file.lock_dirty().next_lost(lost, from) else { return Ok(()) };
            from = piece.file_offset.saturating_add(1);
            let source = Source::of(&piece.payload);
            let outgoing = Outgoing {
                by: &piece.by,
                start: piece.file_offset,
                ranges: &[(piece.file_offset, piece.len())],
                source: &source,
                worth_layout: self.is_worth_layout(&piece.by, piece.end()),
            };
            let left = self.write_striped(&outgoing).await?;
            // Boxed: going around may end in giving up a layout, which may end here.
            Box::pin(self.go_around(quiet, &outgoing, left)).await?;
        }
    }
}
