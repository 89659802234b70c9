//! What is done when servers fail or forget.
//!
//! A write that a data server did not take goes through the metadata server, and the layout is
//! settled and returned. What a server lost before its COMMIT is dirty again, and sent like
//! anything else that is: newer data are never overtaken, because the cache sends no byte twice at
//! once.

use std::sync::Arc;

use weft_nfs::OpArgs;

use super::{
    data_path::DataPath,
    guards::Round,
    held::LayoutState,
    write::{Failed, Left, Outgoing},
};
use crate::{boxed::Boxed, error::ClientError};

impl DataPath {
    /// Writes all that is to leave, through the layout as far as there is one and it works.
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Result<(), ClientError> {
        let left = {
            let _sending = self.file.guards.send().await;
            match self.write_striped(outgoing).await? {
                Left::All => {
                    self.write_through_mds(outgoing, &outgoing.ranges).await?;
                    Left::Nothing
                }
                left => left,
            }
        };
        let Left::Failed(failed) = left else { return Ok(()) };
        self.report_unreached().await;
        let quiet = self.file.guards.quiesce().await;
        let written = self.go_around(quiet.round(), outgoing, &failed).await;
        let returned = self.drop_layout(quiet.round(), LayoutState::avoid()).await;
        written.and(returned.map(drop))
    }

    /// One try to make what is at the servers durable and visible: COMMIT on every server written
    /// to, then LAYOUTCOMMIT. Whether something was lost, which has to be sent again first.
    pub(super) fn settle_once(&self) -> Boxed<'_, Result<bool, ClientError>> {
        Box::pin(async move {
            let round = self.file.guards.round().await;
            let state = self.file.layout.read().await;
            let held = state.held().map(Arc::as_ref);
            if self.commit_round(&round, held).await? {
                tracing::warn!("a server lost uncommitted data: again");
                return Ok(true);
            }
            match held {
                Some(held) => self.layoutcommit(held).await.map(|()| false),
                None => Ok(false),
            }
        })
    }

    /// Settles and returns the layout, if one is held. Whether something was lost, which is dirty
    /// again.
    pub(super) fn return_layout(&self, next: LayoutState) -> Boxed<'_, Result<bool, ClientError>> {
        Box::pin(async move {
            let quiet = self.file.guards.quiesce().await;
            self.drop_layout(quiet.round(), next).await
        })
    }

    /// Settles the file and returns its layout for an open that is the only one, and closes that:
    /// in one request, where nothing goes wrong. Whether all of that was done.
    ///
    /// # Errors
    /// Those of [`Self::settle_once`].
    pub(super) fn end(&self, close: OpArgs) -> Boxed<'_, Result<bool, ClientError>> {
        Box::pin(async move {
            let quiet = self.file.guards.quiesce().await;
            let held = self.held().await;
            let has_lost = self.commit_round(quiet.round(), held.as_deref()).await?;
            if has_lost || self.file.look(|cache| cache.ranges.is_unsent(0, u64::MAX)) {
                return Ok(false);
            }
            let mut state = self.file.layout.write().await;
            Ok(self.end_with_layout(&mut state, close).await)
        })
    }

    /// Writes through the metadata server what data servers could not take. The layout is returned
    /// after that, not before: while it is held, the server knows that a write may still be on its
    /// way to a data server, and fences it. What the data servers hold is committed first, because
    /// the fence refuses our COMMITs too.
    async fn go_around(
        &self,
        round: &Round<'_>,
        outgoing: &Outgoing,
        failed: &Failed,
    ) -> Result<(), ClientError> {
        tracing::warn!(ranges = failed.len(), "data server failed: through the MDS instead");
        let held = self.held().await;
        if let Err(e) = self.commit_round(round, held.as_deref()).await {
            // What is not committed is asked for again with the layout's return.
            tracing::debug!("COMMIT before the indirect path: {e}");
        }
        self.write_through_mds(outgoing, failed).await
    }

    /// COMMIT, LAYOUTCOMMIT and LAYOUTRETURN of the layout, if one is held. Whether data servers
    /// lost data of it.
    async fn drop_layout(&self, round: &Round<'_>, next: LayoutState) -> Result<bool, ClientError> {
        let mut state = self.file.layout.write().await;
        let Some(held) = state.held().cloned() else {
            if let LayoutState::Imported(_) = &*state {
                *state = next;
            }
            return Ok(false);
        };
        // Before the layout goes, what the data servers hold is made durable; what cannot be is
        // written again, another way.
        let lost = self.commit_round(round, Some(&held)).await;
        // With the layout goes the chance to say it again: whoever wrote must hear of it, though
        // it may be a recall that brought this about.
        let told = self.layoutcommit(&held).await.map_err(|e| self.file.failed(e));
        // It goes back, whoever waits for that.
        *state = next;
        let returned =
            self.layoutreturn(held.layout_type(), held.stateid, held.return_body()).await;
        let lost = lost?;
        told.and(returned).map(|()| lost)
    }

    /// The indirect path of writing, over opens that the server has lost.
    async fn write_through_mds(
        &self,
        outgoing: &Outgoing,
        ranges: &[(u64, u64)],
    ) -> Result<(), ClientError> {
        self.reopening(&outgoing.by, || self.write_at_mds(outgoing, ranges)).await
    }
}
