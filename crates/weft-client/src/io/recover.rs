//! What is done when servers fail or forget: a loop of steps, each of which says which comes next.
//!
//! A write that a data server did not take goes through the metadata server, and the layout is
//! settled and returned. What a server lost before its COMMIT is written again, which may find the
//! next failed data server. All of that happens while nobody else writes to the file.

use std::sync::Arc;

use weft_nfs::OpArgs;

use super::{
    data_path::DataPath,
    dirty::{RoundNo, Unsettled},
    guards::{Round, WritesBlocked},
    held::LayoutState,
    source::Source,
    write::{Failed, Left, Outgoing},
};
use crate::{error::ClientError, limits};

/// Pieces that a round of COMMITs did not confirm, from a file offset on.
#[derive(Debug, Clone, Copy)]
struct Lost {
    round: RoundNo,
    from: u64,
}

/// What is to be done next.
enum Step {
    /// Settle the layout, if one is held, return it, and leave this in its place.
    ReturnLayout(LayoutState),
    /// Write the next lost piece again. What cannot be written stays dirty: nothing is forgotten
    /// before it is durable.
    Rewrite(Lost),
}

/// How writing a lost piece again ended.
enum Rewritten {
    /// It was the last: there is no other one.
    NothingLeft,
    /// It is written.
    One,
    /// A data server failed; how the way through the metadata server ended.
    WentAround(Result<(), ClientError>),
}

impl DataPath {
    /// Writes all ranges, through the layout as far as there is one and it works.
    pub(super) async fn send(&self, outgoing: &Outgoing<'_>) -> Result<(), ClientError> {
        let left = {
            let _writing = self.file.guards.write().await;
            match self.write_striped(outgoing).await? {
                Left::All => {
                    self.write_through_mds(outgoing, outgoing.ranges).await?;
                    Left::Nothing
                }
                left => left,
            }
        };
        if let Left::Failed(failed) = left {
            let blocked = self.file.guards.quiesce().await;
            let written = self.go_around(blocked.round(), outgoing, &failed).await;
            let returned = self.recover(&blocked, Step::ReturnLayout(LayoutState::avoid())).await;
            written.and(returned)?;
        }
        self.grow_to(outgoing.span().1);
        Ok(())
    }

    /// Makes what has left for the servers durable and visible: COMMIT on every server written
    /// to, then LAYOUTCOMMIT.
    pub(super) async fn settle(&self) -> Result<(), ClientError> {
        self.settle_in(self.file.guards.round().await).await
    }

    async fn settle_in<'a>(&'a self, mut round: Round<'a>) -> Result<(), ClientError> {
        for _ in 0..=limits::REWRITES_MAX {
            let lost = {
                let state = self.file.layout.read().await;
                let held = state.held().map(Arc::as_ref);
                let Some(lost) = self.commit_round(&round, held).await? else {
                    return match &*state {
                        LayoutState::Held(held) => self.layoutcommit(held).await,
                        _ => Ok(()),
                    };
                };
                lost
            };
            let blocked = self.file.guards.block_writes(round).await;
            self.write_again(&blocked, lost).await?;
            round = blocked.into_round();
        }
        Err(ClientError::NotCommitted)
    }

    /// Writes what a server lost of a round.
    async fn write_again(
        &self,
        blocked: &WritesBlocked<'_>,
        round: RoundNo,
    ) -> Result<(), ClientError> {
        tracing::warn!("a server lost uncommitted data: again");
        self.recover(blocked, Step::Rewrite(Lost { round, from: 0 })).await
    }

    /// Settles and returns the layout, if one is held; the next I/O may fetch a new one.
    pub(super) async fn return_layout(&self) -> Result<(), ClientError> {
        let blocked = self.file.guards.quiesce().await;
        self.recover(&blocked, Step::ReturnLayout(LayoutState::None)).await
    }

    /// The same, and stays with the metadata server for a while.
    pub(super) async fn give_up_layout(&self) -> Result<(), ClientError> {
        let blocked = self.file.guards.quiesce().await;
        self.recover(&blocked, Step::ReturnLayout(LayoutState::avoid())).await
    }

    /// Settles the file and returns its layout for an open that is the only one, and closes that:
    /// in one request, where nothing goes wrong. Whether it is closed, too.
    ///
    /// # Errors
    /// Those of [`Self::settle`] and [`Self::return_layout`].
    pub(super) async fn end(&self, close: OpArgs) -> Result<bool, ClientError> {
        let blocked = self.file.guards.quiesce().await;
        let held = self.held().await;
        if let Some(lost) = self.commit_round(blocked.round(), held.as_deref()).await? {
            self.write_again(&blocked, lost).await?;
            self.settle_in(blocked.into_round()).await?;
            return Ok(false);
        }
        let closed = {
            let mut state = self.file.layout.write().await;
            self.end_with_layout(&mut state, close).await
        };
        if !closed {
            self.recover(&blocked, Step::ReturnLayout(LayoutState::None)).await?;
        }
        Ok(closed)
    }

    /// Takes one step after another until nothing is left to be done. After the first failure of
    /// going around or returning a layout, what that layout's servers lost is written again all
    /// the same; then the failure is returned.
    async fn recover(
        &self,
        blocked: &WritesBlocked<'_>,
        mut step: Step,
    ) -> Result<(), ClientError> {
        let mut outcome = Ok(());
        let mut unfinished = None;
        loop {
            step = match step {
                Step::ReturnLayout(next) => {
                    let (lost, returned) = self.drop_layout(blocked.round(), next).await;
                    outcome = outcome.and(returned);
                    match (lost, unfinished.take()) {
                        // A newer round knows of all that an older one does.
                        (Some(round), _) => Step::Rewrite(Lost { round, from: 0 }),
                        (None, Some(older)) if outcome.is_ok() => Step::Rewrite(older),
                        (None, _) => return outcome,
                    }
                }
                Step::Rewrite(mut lost) => match self.rewrite_next(blocked, &mut lost).await {
                    Ok(Rewritten::NothingLeft) => return outcome,
                    Ok(Rewritten::One) => Step::Rewrite(lost),
                    Ok(Rewritten::WentAround(written)) => {
                        outcome = outcome.and(written);
                        unfinished = Some(lost);
                        Step::ReturnLayout(LayoutState::avoid())
                    }
                    Err(e) => return outcome.and(Err(e)),
                },
            };
        }
    }

    /// Writes through the metadata server what data servers could not take. The layout is returned
    /// after that, not before: while it is held, the server knows that a write may still be on its
    /// way to a data server, and fences it. What the data servers hold is committed first, because
    /// the fence refuses our COMMITs too.
    async fn go_around(
        &self,
        round: &Round<'_>,
        outgoing: &Outgoing<'_>,
        failed: &Failed,
    ) -> Result<(), ClientError> {
        tracing::warn!(ranges = failed.len(), "data server failed: through the MDS instead");
        let held = self.held().await;
        if let Err(e) = self.commit_round(round, held.as_deref()).await {
            // What is not committed is dirty still, and asked for again with the layout's return.
            tracing::debug!("COMMIT before the indirect path: {e}");
        }
        self.write_through_mds(outgoing, failed).await
    }

    /// COMMIT, LAYOUTCOMMIT and LAYOUTRETURN of the layout, if one is held. The round, if data
    /// servers lost data of it, and whether all of that succeeded.
    async fn drop_layout(
        &self,
        round: &Round<'_>,
        next: LayoutState,
    ) -> (Option<RoundNo>, Result<(), ClientError>) {
        let mut state = self.file.layout.write().await;
        let Some(held) = state.held().cloned() else { return (None, Ok(())) };
        // Before the layout goes, what the data servers hold is made durable; what cannot be is
        // written again, another way.
        let lost = self.commit_round(round, Some(&held)).await;
        // With the layout goes the chance to say it again: whoever wrote must hear of it, though
        // it may be a recall that brought this about.
        let told = self.layoutcommit(&held).await.map_err(|e| self.file.failed(e));
        let returned =
            self.layoutreturn(held.layout_type(), held.stateid, held.return_body()).await;
        *state = next;
        match lost {
            Ok(lost) => (lost, told.and(returned)),
            Err(e) => (None, Err(e)),
        }
    }

    /// Writes the next lost piece again, and moves behind it.
    async fn rewrite_next(
        &self,
        blocked: &WritesBlocked<'_>,
        lost: &mut Lost,
    ) -> Result<Rewritten, ClientError> {
        let next = self.file.lock_dirty().next_lost(lost.round, lost.from);
        let Some(piece) = next else { return Ok(Rewritten::NothingLeft) };
        lost.from = piece.file_offset.saturating_add(1);
        let Unsettled { by, file_offset: start, payload, .. } = &piece;
        let outgoing = Outgoing {
            by,
            start: *start,
            ranges: &[(*start, piece.len())],
            source: &Source::of(payload),
            worth_layout: self.is_worth_layout(by, piece.end()),
            then_durable: false,
        };
        match self.write_striped(&outgoing).await? {
            Left::Nothing => {}
            Left::All => self.write_through_mds(&outgoing, outgoing.ranges).await?,
            Left::Failed(failed) => {
                let written = self.go_around(blocked.round(), &outgoing, &failed).await;
                return Ok(Rewritten::WentAround(written));
            }
        }
        Ok(Rewritten::One)
    }

    /// The indirect path of writing, over opens that the server has lost.
    async fn write_through_mds(
        &self,
        outgoing: &Outgoing<'_>,
        ranges: &[(u64, u64)],
    ) -> Result<(), ClientError> {
        self.reopening(outgoing.by, || self.write_at_mds(outgoing, ranges)).await
    }
}
