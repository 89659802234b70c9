//! Entries of a directory, one after another.

use std::path::PathBuf;

use weft_nfs::ops::DirEntry;

use super::runtime::Ours;
use crate::fs::{self, FsError, error::At};

/// [`fs::ReadDir`] as an iterator; after a failure it ends.
#[derive(Debug)]
pub struct ReadDir {
    entries: Ours<fs::ReadDir>,
    path: PathBuf,
    failed: bool,
}

impl ReadDir {
    pub(super) fn new(entries: Ours<fs::ReadDir>, path: PathBuf) -> ReadDir {
        ReadDir { entries, path, failed: false }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, FsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.entries.wait_mut(async |entries| entries.next().await).at(&self.path);
        let next = next.and_then(|next| next).transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
