//! Reading directories.

use std::{collections::VecDeque, path::PathBuf};

use weft_nfs::{
    Bitmap, FileHandle, NfsStat, OpArgs, OpNum, OpOk, Verifier, ops::DirEntry, ops::ReaddirArgs,
};

use super::error::{At, FsError};
use crate::{
    error::{ClientError, ProtocolError},
    limits,
    session::Session,
};

/// The entries of a directory, fetched a page at a time. Memory is bounded by a page.
#[derive(Debug)]
pub struct ReadDir {
    mds: Session,
    fh: FileHandle,
    path: PathBuf,
    request: Bitmap,
    page: VecDeque<DirEntry>,
    cookie: u64,
    cookieverf: Verifier,
    eof: bool,
}

impl ReadDir {
    pub(super) fn new(mds: Session, fh: FileHandle, path: PathBuf, request: Bitmap) -> ReadDir {
        ReadDir {
            mds,
            fh,
            path,
            request,
            page: VecDeque::new(),
            cookie: 0,
            cookieverf: Verifier::default(),
            eof: false,
        }
    }

    /// The next entry; none at the end.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn next(&mut self) -> Result<Option<DirEntry>, FsError> {
        while self.page.is_empty() && !self.eof {
            self.fetch().await.at(&self.path)?;
        }
        Ok(self.page.pop_front())
    }

    async fn fetch(&mut self) -> Result<(), ClientError> {
        let args = ReaddirArgs {
            cookie: self.cookie,
            cookieverf: self.cookieverf,
            dircount: limits::READDIR_BYTES / 4,
            maxcount: limits::READDIR_BYTES,
            attr_request: self.request,
        };
        let page = match self.mds.on_file(&self.fh, OpArgs::Readdir(args)).await {
            Ok(OpOk::Readdir(page)) => page,
            Ok(_) => return Err(ClientError::unexpected(OpNum::READDIR)),
            // The server cannot go on where we are (§18.23.3): from the start, skipping nothing,
            // would repeat entries, so the caller hears of it.
            Err(e) => return Err(e),
        };
        self.eof = page.eof;
        self.cookieverf = page.cookieverf;
        match page.entries.last() {
            Some(last) if last.cookie == self.cookie => {
                return Err(ProtocolError::ReaddirStuck.into());
            }
            Some(last) => self.cookie = last.cookie,
            None if !page.eof => {
                let op = OpNum::READDIR;
                return Err(ClientError::Nfs { op, status: NfsStat::TOOSMALL });
            }
            None => {}
        }
        self.page = page.entries.into();
        Ok(())
    }
}
