//! Opening again what the server has forgotten.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;
use weft_nfs::{OpNum, OpOk, ops::OpenClaim};

use super::{data_path::DataPath, held::LayoutState, open::Open};
use crate::{boxed::Spawned, error::ClientError};

impl DataPath {
    /// Makes a request that relies on an open. Whenever the server has lost that state the file is
    /// opened again, and the request made again: [`crate::limits::REOPENS_MAX`] times until
    /// one is answered.
    pub(super) async fn reopening<T, F>(
        &self,
        open: &Arc<Open>,
        request: impl Fn() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut was_lost = false;
        loop {
            let asked_with = *open.lock_stateid();
            match request().await {
                Err(e) if e.is_lost_state() => {
                    let telling = open.telling().await;
                    // Reclaimed while the request was under way, or opened again for another one.
                    if *open.lock_stateid() != asked_with {
                        continue;
                    }
                    let losses = self.mds.losses();
                    tracing::warn!(losses, "open lost, opening again: {e}");
                    self.tell_of(open, OpenClaim::Fh, telling).await?;
                    was_lost = true;
                }
                other => {
                    if was_lost && other.is_ok() {
                        open.is_kept();
                    }
                    return other;
                }
            }
        }
    }

    /// Opens the file again by its handle, after the server has lost our state (RFC 8881 §8.4.2).
    /// A layout of before the loss went with it.
    pub(super) async fn reopen(&self, open: &Arc<Open>) -> Result<(), ClientError> {
        let telling = open.telling().await;
        self.tell_of(open, OpenClaim::Fh, telling).await
    }

    /// Tells the server of an open that relies on a delegation, if this is one: before the
    /// delegation goes back (§10.4.4), and for what needs an open.
    pub(super) async fn tell_if_alone(&self, claim: OpenClaim) -> Result<(), ClientError> {
        if !self.open.is_alone() {
            return Ok(());
        }
        let telling = self.open.telling().await;
        if !self.open.is_alone() {
            return Ok(());
        }
        self.tell_of(&self.open, claim, telling).await
    }

    /// From now on an open relies on the delegation whose stateid it has; not if that is wanted
    /// back.
    pub(super) async fn rely_on_delegation(&self) -> bool {
        let _telling = self.open.telling().await;
        let is_held = self.cluster.delegated.join(self.fh(), &self.open.opened.stateid);
        self.open.set_alone(is_held);
        is_held
    }

    /// The open ends; whether the server does not know of it, and never will.
    pub(super) async fn end_alone(&self) -> bool {
        if !self.open.is_alone() {
            return false;
        }
        let _telling = self.open.telling().await;
        self.leave_delegation(&self.open)
    }

    /// An open does not rely on a delegation any more; whether it did.
    pub(super) fn leave_delegation(&self, open: &Open) -> bool {
        let was_alone = open.set_alone(false);
        if was_alone {
            self.cluster.delegated.leave(self.fh());
        }
        was_alone
    }

    /// Tells the server of an open, whoever waits for that: what it opens is known then.
    fn tell_of(
        &self,
        open: &Arc<Open>,
        claim: OpenClaim,
        telling: OwnedMutexGuard<()>,
    ) -> Spawned<()> {
        let path = DataPath::of(self.cluster.clone(), open.clone(), self.file.clone());
        Spawned::new(async move {
            let _telling = telling;
            path.open.count_reopen()?;
            let mut state = path.file.layout.write().await;
            let args = path.open.opening(claim);
            let before = path.mds.losses();
            match path.mds.on_file(path.fh(), args).await? {
                OpOk::Open(ok) => path.open.opened_again((ok.stateid, ok.rflags), before),
                _ => return Err(ClientError::unexpected(OpNum::OPEN)),
            }
            path.leave_delegation(&path.open);
            let losses = path.mds.losses();
            if state.held().is_none_or(|held| held.losses != losses) {
                *state = LayoutState::None;
            }
            Ok(())
        })
    }
}
