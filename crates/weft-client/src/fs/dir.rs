//! Reading directories.

use std::{collections::VecDeque, path::PathBuf};

use weft_nfs::{Bitmap, FileHandle, Verifier, ops::DirEntry};

use super::error::{At, FsError};
use crate::{error::ClientError, node::Nodes};

/// The entries of a directory, fetched a page at a time. Memory is bounded by a page.
#[derive(Debug)]
pub struct ReadDir {
    nodes: Nodes,
    fh: FileHandle,
    path: PathBuf,
    request: Bitmap,
    page: VecDeque<DirEntry>,
    cookie: u64,
    cookieverf: Verifier,
    eof: bool,
}

impl ReadDir {
    pub(super) fn new(nodes: Nodes, fh: FileHandle, path: PathBuf, request: Bitmap) -> ReadDir {
        ReadDir {
            nodes,
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
        // Where the server cannot go on (§18.23.3) the caller hears of it: from the start, entries
        // would come twice.
        let behind = (self.cookie, self.cookieverf);
        let page = self.nodes.readdir(&self.fh, behind, self.request).await?;
        self.eof = page.eof;
        self.cookieverf = page.cookieverf;
        self.cookie = page.entries.last().map_or(self.cookie, |last| last.cookie);
        self.page = page.entries.into();
        Ok(())
    }
}
