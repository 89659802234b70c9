//! Copies within one cluster that its servers make themselves: CLONE and COPY of RFC 7862. No byte
//! of the file comes here.

use super::{client::Client, declined::is_copy_declined, file::File, transfer::Progress};
use crate::error::ClientError;

impl Client {
    /// Whether files of another client's server can be copied to this one's without the bytes
    /// coming here: it is the same server, speaks NFSv4.2, and has not declined so far.
    pub fn may_copy_from(&self, source: &Client) -> bool {
        self.session().minorversion() >= 2
            && self.session().server() == source.session().server()
            && !self.declined.copies()
    }

    /// Copies a file of this server into a new one: their blocks are shared if the servers can do
    /// that, holes stay holes.
    pub(super) async fn copy_there(
        &self,
        from: &File,
        to: &File,
        progress: &Progress,
    ) -> Result<u64, ClientError> {
        let size = from.size();
        let mut copied = if self.clone_there(from, to, size).await? { size } else { 0 };
        while copied < size {
            progress(copied);
            let (source, target) = ((from.io(), copied), (to.io(), copied));
            match self.nodes.copy(source, target, size - copied).await {
                Ok(0) => {
                    from.require_uncut().await?;
                    return Err(ClientError::Invalid("the server does not go on copying"));
                }
                Ok(count) => copied = copied.saturating_add(count),
                Err(e) => {
                    self.declined.hear(&e);
                    if !is_copy_declined(&e) {
                        from.require_uncut().await?;
                    }
                    return Err(e);
                }
            }
        }
        from.require_uncut().await?;
        progress(size);
        Ok(size)
    }

    /// Whether the new file has got the blocks of the other one. What cannot be shared is copied.
    async fn clone_there(&self, from: &File, to: &File, size: u64) -> Result<bool, ClientError> {
        if size == 0 || self.declined.clones() {
            return Ok(false);
        }
        match self.nodes.clone_whole(from.io(), to.io(), size).await {
            Ok(()) => Ok(true),
            Err(e @ ClientError::Nfs { .. }) => {
                tracing::debug!("not cloned: {e}");
                self.declined.hear(&e);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}
