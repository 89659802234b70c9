//! Copies within one cluster that its servers make themselves: CLONE and COPY of RFC 7862. No byte
//! of the file comes here.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_nfs::{NfsStat, OpNum};

use super::{client::Client, file::File, transfer::Progress};
use crate::{error::ClientError, limits};

/// What the server was found not to do: it is asked no more.
#[derive(Debug, Default)]
pub(super) struct Declined {
    clone: AtomicBool,
    copy: AtomicBool,
}

/// Whether a server says by this that it copies nothing itself: the bytes have to go through the
/// client.
pub fn is_copy_declined(e: &ClientError) -> bool {
    matches!(e, ClientError::Nfs { op: OpNum::COPY, status } if is_never(*status))
}

/// Of an operation that the server does not have, or has for nobody.
fn is_never(status: NfsStat) -> bool {
    matches!(status, NfsStat::NOTSUPP | NfsStat::OP_ILLEGAL | NfsStat::OFFLOAD_NO_REQS)
}

impl Client {
    /// Whether files of another client's server can be copied to this one's without the bytes
    /// coming here: it is the same server, speaks NFSv4.2, and has not declined so far.
    pub fn may_copy_from(&self, source: &Client) -> bool {
        self.session().minorversion() >= 2
            && self.session().server() == source.session().server()
            && !self.declined.copy.load(Ordering::Relaxed)
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
        let mut unknown = 0;
        while copied < size {
            progress(copied);
            let (source, target) = ((&**from.io(), copied), (&**to.io(), copied));
            match self.nodes.copy(source, target, size - copied).await {
                Ok(0) => return Err(ClientError::Invalid("the server does not go on copying")),
                Ok(count) => copied = copied.saturating_add(count),
                // The target is ours alone: once more does no harm.
                Err(ClientError::OutcomeUnknown { .. }) if unknown < limits::REOPENS_MAX => {
                    unknown += 1;
                }
                Err(e) => {
                    if is_copy_declined(&e) {
                        self.declined.copy.store(true, Ordering::Relaxed);
                    }
                    from.require_uncut().await?;
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
        if size == 0 || self.declined.clone.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match self.nodes.clone_whole(from.io(), to.io(), size).await {
            Ok(()) => Ok(true),
            Err(e) => {
                let Some(status) = e.status() else { return Err(e) };
                tracing::debug!("not cloned: {e}");
                if is_never(status) {
                    self.declined.clone.store(true, Ordering::Relaxed);
                }
                Ok(false)
            }
        }
    }
}
