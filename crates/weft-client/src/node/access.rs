//! What the caller may do with a node: ACCESS.

use weft_nfs::{FileHandle, OpArgs, OpNum, OpOk, ops::AccessArgs};

use super::Nodes;
use crate::error::ClientError;

/// What a server says of rights: bits of [`weft_nfs::access`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Rights that it can tell about.
    pub supported: u32,
    /// Those of them that the caller has.
    pub granted: u32,
}

impl Nodes {
    /// Which of these rights the caller has (RFC 8881 §18.1).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn access(&self, fh: &FileHandle, access: u32) -> Result<Access, ClientError> {
        match self.mds.on_file(fh, OpArgs::Access(AccessArgs { access })).await? {
            OpOk::Access(ok) => Ok(Access { supported: ok.supported, granted: ok.access }),
            _ => Err(ClientError::unexpected(OpNum::ACCESS)),
        }
    }
}
