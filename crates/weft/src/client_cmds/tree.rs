//! The walk through a remote tree: entries as they come, a page of each directory on the way down
//! in memory. Links below are not followed.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use weft_client::fs::ReadDir;
use weft_nfs::{Attrs, FileType, NfsStat};

use super::connect::Remote;

/// Directories above one another.
const DEPTH_MAX: usize = 1024;

/// A step of a walk.
pub(super) enum Step {
    /// Something is there.
    Entry { path: PathBuf, attrs: Box<Attrs>, depth: usize },
    /// All below a directory was seen.
    Left { path: PathBuf, depth: usize },
}

/// A walk that is under way.
pub(super) struct Walk<'a> {
    remote: &'a Remote,
    first: Option<(PathBuf, Attrs)>,
    /// What is entered next.
    enters: Option<PathBuf>,
    /// What is not entered though it was wanted.
    too_deep: Option<PathBuf>,
    levels: Vec<(ReadDir, PathBuf)>,
    depth_max: usize,
}

impl<'a> Walk<'a> {
    /// From a path on, which may be a link; no deeper than so many levels below it.
    ///
    /// # Errors
    /// Nothing is there.
    pub(super) async fn from(
        remote: &'a Remote,
        path: &Path,
        depth_max: usize,
    ) -> Result<Walk<'a>, String> {
        let attrs = remote.client.stat_followed(path).await.map_err(|e| remote.failed(&e))?;
        let first = Some((path.to_path_buf(), attrs));
        Ok(Walk { remote, first, enters: None, too_deep: None, levels: Vec::new(), depth_max })
    }

    /// The next step; none at the end.
    ///
    /// # Errors
    /// Something cannot be seen; the walk goes on beside it.
    pub(super) async fn next(&mut self) -> Result<Option<Step>, String> {
        if let Some((path, attrs)) = self.first.take() {
            return Ok(Some(self.found(path, attrs, 0)));
        }
        if let Some(path) = self.too_deep.take() {
            let path = self.remote.show(&path);
            return Err(format!("{path}: below {DEPTH_MAX} directories: not looked into"));
        }
        if let Some(path) = self.enters.take() {
            let entries = self.remote.client.read_dir(&path).await;
            self.levels.push((entries.map_err(|e| self.remote.failed(&e))?, path));
        }
        let depth = self.levels.len();
        let Some((entries, dir)) = self.levels.last_mut() else { return Ok(None) };
        match entries.next().await {
            Ok(Some(entry)) => {
                let path = dir.join(OsStr::from_bytes(&entry.name.0));
                if let Some(why) = entry.attrs.rdattr_error.filter(|s| *s != NfsStat::OK) {
                    let path = self.remote.show(&path);
                    return Err(format!("{path}: the server cannot tell its attributes ({why})"));
                }
                Ok(Some(self.found(path, entry.attrs, depth)))
            }
            end => {
                let left = self.levels.pop().map(|(_, path)| path).unwrap_or_default();
                end.map_err(|e| self.remote.failed(&e))?;
                Ok(Some(Step::Left { path: left, depth: depth - 1 }))
            }
        }
    }

    fn found(&mut self, path: PathBuf, attrs: Attrs, depth: usize) -> Step {
        if attrs.file_type == Some(FileType::DIR) && depth < self.depth_max {
            let next = if depth < DEPTH_MAX { &mut self.enters } else { &mut self.too_deep };
            *next = Some(path.clone());
        }
        Step::Entry { path, attrs: Box::new(attrs), depth }
    }
}
