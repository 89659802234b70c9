//! A file's place on either side of a copy.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use weft_io::LocalDir;

use super::folder::Folder;

/// A file's place on either side of a copy.
#[derive(Clone)]
pub(super) struct Spot {
    /// The whole path. On this machine only paths that were given are used as such.
    pub(super) path: PathBuf,
    /// The local directory of a name that nobody has given.
    folder: Option<Arc<Folder>>,
}

impl Spot {
    /// A path that the user named.
    pub(super) fn given(path: impl Into<PathBuf>) -> Spot {
        Spot { path: path.into(), folder: None }
    }

    /// A path whose last name is in this open directory.
    pub(super) fn in_folder(path: &Path, (folder, name): (&Arc<Folder>, &OsStr)) -> Spot {
        debug_assert_eq!(path.file_name(), Some(name), "the path of that name");
        Spot { path: path.to_path_buf(), folder: Some(folder.clone()) }
    }

    /// A name in a directory of a copy, which is local if there is a folder.
    pub(super) fn below(dir: &Path, folder: Option<&Arc<Folder>>, name: &OsStr) -> Spot {
        Spot { path: dir.join(name), folder: folder.cloned() }
    }

    /// The folder of a name on this machine that nobody has given.
    pub(super) fn folder(&self) -> Option<&Arc<Folder>> {
        self.folder.as_ref()
    }

    /// The open directory and the name there; none of a path that was given.
    ///
    /// # Errors
    /// The directory can no longer be opened.
    pub(super) fn entry(&self) -> io::Result<Option<(Arc<LocalDir>, &OsStr)>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let name = self.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Some((folder.dir()?, name)))
    }
}
