//! Opening again what the server has forgotten.

use weft_nfs::{OpNum, OpOk, ops::OpenClaim};

use super::{data_path::DataPath, held::LayoutState, open::Open};
use crate::error::ClientError;

impl DataPath {
    /// Makes a request that relies on an open. Whenever the server has lost that state the file is
    /// opened again, and the request made again: [`crate::limits::REOPENS_MAX`] times until
    /// one is answered.
    pub(super) async fn reopening<T, F>(
        &self,
        open: &Open,
        request: impl Fn() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut was_lost = false;
        loop {
            match request().await {
                Err(e) if e.is_lost_state() => {
                    let losses = self.mds.losses();
                    tracing::warn!(losses, "open lost, opening again: {e}");
                    self.reopen(open).await?;
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
    pub(super) async fn reopen(&self, open: &Open) -> Result<(), ClientError> {
        open.count_reopen()?;
        let mut state = self.file.layout.write().await;
        let args = open.opening(OpenClaim::Fh);
        let before = self.mds.losses();
        match self.mds.on_file(self.fh(), args).await? {
            OpOk::Open(ok) => open.opened_again(ok.stateid, before),
            _ => return Err(ClientError::unexpected(OpNum::OPEN)),
        }
        let losses = self.mds.losses();
        if state.held().is_none_or(|held| held.losses != losses) {
            *state = LayoutState::None;
        }
        Ok(())
    }
}
