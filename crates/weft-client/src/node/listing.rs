//! What is in a directory: READDIR.

use weft_nfs::{
    Bitmap, FileHandle, NfsStat, OpArgs, OpNum, OpOk, Verifier,
    ops::{DirEntry, ReaddirArgs},
};

use super::Nodes;
use crate::{
    error::{ClientError, ProtocolError},
    limits,
};

/// A part of a directory's entries.
#[derive(Debug, Clone)]
pub struct Page {
    /// In the directory's order. Each has the cookie of where the next page begins behind it.
    pub entries: Vec<DirEntry>,
    /// To be given back with the cookies.
    pub cookieverf: Verifier,
    /// Whether the directory ends here.
    pub eof: bool,
}

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
    ) -> Result<Page, ClientError> {
        let args = ReaddirArgs {
            cookie,
            cookieverf,
            dircount: limits::READDIR_BYTES / 4,
            maxcount: limits::READDIR_BYTES,
            attr_request,
        };
        let Some(OpOk::Readdir(page)) = self.on_node(dir, [OpArgs::Readdir(args)]).await?.pop()
        else {
            return Err(ClientError::unexpected(OpNum::READDIR));
        };
        match page.entries.last() {
            Some(last) if last.cookie == cookie => Err(ProtocolError::ReaddirStuck.into()),
            None if !page.eof => {
                Err(ClientError::Nfs { op: OpNum::READDIR, status: NfsStat::TOOSMALL })
            }
            Some(_) | None => {
                Ok(Page { entries: page.entries, cookieverf: page.cookieverf, eof: page.eof })
            }
        }
    }
}
