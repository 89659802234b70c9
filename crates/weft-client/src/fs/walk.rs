//! The walk through a tree: entries as they come, a page of each directory on the way down in
//! memory.
//!
//! It goes by handles, from the top on: names are for whoever is told of them. Who owns part of the
//! tree and gives its names to something else meanwhile leads nobody there, and links that are
//! found are not followed.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use weft_nfs::{Attrs, FileHandle, FileType, NfsStat, OpNum, ops::DirEntry};

use super::{
    client::Client,
    dir::ReadDir,
    error::{At, FsError},
};
use crate::{error::ClientError, limits::WALK_DEPTH_MAX, node::Node};

/// A step of a walk.
#[derive(Debug, Clone)]
pub enum Step {
    /// Something is there.
    Entry {
        /// By which names it was found, from the path that the walk began with.
        path: PathBuf,
        /// What it is: the same for whoever acts on it by its handle.
        node: Box<Node>,
        /// Directories above it in this walk.
        depth: usize,
    },
    /// All below a directory was seen that could be.
    Left {
        /// The directory.
        path: PathBuf,
        /// Directories above it in this walk.
        depth: usize,
    },
}

/// A walk that is under way.
pub struct Walk {
    client: Client,
    first: Option<(PathBuf, Node)>,
    /// What is entered next.
    enters: Option<(PathBuf, FileHandle)>,
    levels: Vec<Level>,
    depth_max: usize,
}

/// A directory on the way down.
struct Level {
    path: PathBuf,
    fh: FileHandle,
    /// None when nothing more can be seen of it.
    entries: Option<ReadDir>,
}

impl Client {
    /// A walk from a path on, no deeper than so many levels below it, and than
    /// [`WALK_DEPTH_MAX`]. A link at the end of the path is followed if that is wanted.
    ///
    /// # Errors
    /// [`FsError`]: nothing is there.
    pub async fn walk_tree(
        &self,
        path: impl AsRef<Path>,
        follow: bool,
        depth_max: usize,
    ) -> Result<Walk, FsError> {
        let path = path.as_ref();
        let found = self.resolve(path, follow).await?;
        let top = Node { fh: found.fh, attrs: found.attrs };
        let first = Some((path.to_path_buf(), top));
        Ok(Walk { client: self.clone(), first, enters: None, levels: Vec::new(), depth_max })
    }
}

impl Walk {
    /// The next step; none at the end. Each directory that is entered, or should have been, is left
    /// after what is in it.
    ///
    /// # Errors
    /// [`FsError`]: something cannot be seen; the walk goes on beside it.
    pub async fn next(&mut self) -> Result<Option<Step>, FsError> {
        if let Some((path, node)) = self.first.take() {
            return Ok(Some(self.found(path, node)));
        }
        if let Some((path, fh)) = self.enters.take() {
            self.enter(path, fh)?;
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        let next = match &mut level.entries {
            Some(entries) => entries.next().await,
            None => Ok(None),
        };
        match next {
            Ok(Some(entry)) => {
                let path = level.path.join(OsStr::from_bytes(&entry.name.0));
                let dir = level.fh.clone();
                let node = self.node_of(&dir, entry).await.at(&path)?;
                Ok(Some(self.found(path, node)))
            }
            Ok(None) => {
                let path = self.levels.pop().map(|level| level.path).unwrap_or_default();
                Ok(Some(Step::Left { path, depth: self.levels.len() }))
            }
            Err(e) => {
                level.entries = None;
                Err(e)
            }
        }
    }

    fn enter(&mut self, path: PathBuf, fh: FileHandle) -> Result<(), FsError> {
        let is_too_deep = self.levels.len() >= WALK_DEPTH_MAX;
        let entries = self.client.read_dir_at(fh.clone(), path.clone());
        let entries = (!is_too_deep).then_some(entries);
        self.levels.push(Level { path: path.clone(), fh, entries });
        match is_too_deep {
            true => Err(ClientError::Invalid("below 1024 directories: not looked into")).at(&path),
            false => Ok(()),
        }
    }

    /// What an entry is. One that comes without a handle, as servers may have it that cannot tell
    /// it in READDIR, is what has the name now.
    async fn node_of(&self, dir: &FileHandle, entry: DirEntry) -> Result<Node, ClientError> {
        let Attrs { rdattr_error, filehandle, .. } = &entry.attrs;
        if let Some(status) = rdattr_error.filter(|status| *status != NfsStat::OK) {
            return Err(ClientError::Nfs { op: OpNum::GETATTR, status });
        }
        match filehandle.clone() {
            Some(fh) => Ok(Node { fh, attrs: entry.attrs }),
            None => self.client.nodes.lookup(dir, entry.name).await,
        }
    }

    fn found(&mut self, path: PathBuf, node: Node) -> Step {
        let depth = self.levels.len();
        if node.attrs.file_type == Some(FileType::DIR) && depth < self.depth_max {
            self.enters = Some((path.clone(), node.fh.clone()));
        }
        Step::Entry { path, node: Box::new(node), depth }
    }
}
