//! What is in a directory: READDIR.

use weft_nfs::{
    Bitmap, FileHandle, NfsStat, OpArgs, OpNum, OpOk, Verifier,
    ops::{ReaddirArgs, ReaddirOk},
};

use super::Nodes;
use crate::{
    error::{ClientError, ProtocolError},
    limits,
};

impl Nodes {
    /// The entries of a directory behind a cookie; 0 is before the first one (RFC 8881 §18.23).
    ///
    /// # Errors
    /// NOT_SAME or BAD_COOKIE if the server cannot go on there; a server that does not move on
    /// breaks the protocol; [`ClientError`].
    pub async fn readdir(
        &self,
        dir: &FileHandle,
        (cookie, cookieverf): (u64, Verifier),
        attr_request: Bitmap,
    ) -> Result<ReaddirOk, ClientError> {
        let args = ReaddirArgs {
            cookie,
            cookieverf,
            dircount: limits::READDIR_BYTES / 4,
            maxcount: limits::READDIR_BYTES,
            attr_request,
        };
        let OpOk::Readdir(page) = self.mds.on_file(dir, OpArgs::Readdir(args)).await? else {
            return Err(ClientError::unexpected(OpNum::READDIR));
        };
        match page.entries.last() {
            Some(last) if last.cookie == cookie => Err(ProtocolError::ReaddirStuck.into()),
            None if !page.eof => {
                Err(ClientError::Nfs { op: OpNum::READDIR, status: NfsStat::TOOSMALL })
            }
            Some(_) | None => Ok(page),
        }
    }
}
