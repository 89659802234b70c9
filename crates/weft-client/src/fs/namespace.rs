//! Names and attributes.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, Component, FileHandle, FileType, NfsStat, OpArgs, OpNum, Stateid, ops::*,
};

use super::{
    client::{Client, STAT_ATTRS},
    dir::ReadDir,
    error::{At, FsError},
    path::{names_of, split_last},
};
use crate::{error::ClientError, node::Node};

impl Client {
    /// Attributes of a file; a link at the end of the path is described itself.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<Attrs, FsError> {
        Ok(self.resolve(path.as_ref(), false).await?.attrs)
    }

    /// What a path leads to, through links, for who goes on by handle.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn node(&self, path: impl AsRef<Path>) -> Result<Node, FsError> {
        let found = self.resolve(path.as_ref(), true).await?;
        Ok(Node { fh: found.fh, attrs: found.attrs })
    }

    /// Attributes of what a path leads to, through links.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn stat_followed(&self, path: impl AsRef<Path>) -> Result<Attrs, FsError> {
        Ok(self.resolve(path.as_ref(), true).await?.attrs)
    }

    /// A directory's entries with their attributes. An entry whose attributes the server cannot
    /// tell has none but `rdattr_error`, which says why.
    ///
    /// # Errors
    /// [`FsError`]; NOTDIR for anything else.
    pub async fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir, FsError> {
        let request = STAT_ATTRS.or(&Bitmap::of(&[AttrNo::RDATTR_ERROR]));
        self.read_dir_for(path.as_ref(), request).await
    }

    /// A directory's names, without attributes: whoever wants those asks for each with
    /// [`Client::stat`]. What one-pass listings (P3.5) are measured against.
    ///
    /// # Errors
    /// [`FsError`]; NOTDIR for anything else.
    pub async fn read_names(&self, path: impl AsRef<Path>) -> Result<ReadDir, FsError> {
        self.read_dir_for(path.as_ref(), Bitmap::default()).await
    }

    /// The entries of a directory that is known by its handle, each with its own
    /// (`Attrs::filehandle`), if the server can tell it; `path` is for messages. Whoever goes on by
    /// handles is led nowhere else, whatever becomes of names meanwhile. Nothing is asked before
    /// the first entry is.
    pub fn read_dir_at(&self, dir: FileHandle, path: impl Into<PathBuf>) -> ReadDir {
        let asked = Bitmap::of(&[AttrNo::RDATTR_ERROR, AttrNo::FILEHANDLE]);
        ReadDir::new(self.nodes.clone(), dir, path.into(), STAT_ATTRS.or(&asked))
    }

    /// The entries of a directory found by its names from the root.
    pub(super) async fn read_dir_of(&self, dirs: Vec<Component>) -> Result<ReadDir, ClientError> {
        let dir = self.resolve_names(dirs, true).await?;
        Ok(ReadDir::new(self.nodes.clone(), dir.fh, PathBuf::new(), STAT_ATTRS))
    }

    async fn read_dir_for(&self, path: &Path, request: Bitmap) -> Result<ReadDir, FsError> {
        let dir = self.resolve(path, true).await?;
        if dir.attrs.file_type != Some(FileType::DIR) {
            let op = OpNum::READDIR;
            return Err(ClientError::Nfs { op, status: NfsStat::NOTDIR }).at(path);
        }
        Ok(ReadDir::new(self.nodes.clone(), dir.fh, path.to_path_buf(), request))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn mkdir(&self, path: impl AsRef<Path>, mode: u32) -> Result<(), FsError> {
        self.create(path.as_ref(), CreateType::Directory, Some(mode)).await
    }

    /// Makes a directory and those above it; existing ones are fine.
    ///
    /// # Errors
    /// [`FsError`]; NOTDIR if something else is in the way.
    pub async fn mkdir_all(&self, path: impl AsRef<Path>, mode: u32) -> Result<(), FsError> {
        let path = path.as_ref();
        let mut at = PathBuf::from("/");
        for name in names_of(path) {
            at.push(std::ffi::OsStr::from_bytes(&name.0));
            match self.mkdir(&at, mode).await {
                Ok(()) => {}
                Err(e) if e.error.status() == Some(NfsStat::EXIST) => {}
                Err(e) => return Err(e),
            }
        }
        if self.stat_followed(path).await?.file_type == Some(FileType::DIR) {
            return Ok(());
        }
        let op = OpNum::CREATE;
        Err(ClientError::Nfs { op, status: NfsStat::NOTDIR }).at(path)
    }

    /// Makes a symbolic link at `path` that says `target`.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn symlink(
        &self,
        target: impl AsRef<Path>,
        path: impl AsRef<Path>,
    ) -> Result<(), FsError> {
        let target = Bytes::copy_from_slice(target.as_ref().as_os_str().as_bytes());
        self.create(path.as_ref(), CreateType::Link(target), None).await
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn readlink(&self, path: impl AsRef<Path>) -> Result<PathBuf, FsError> {
        let path = path.as_ref();
        let link = self.resolve(path, false).await?;
        let said = self.nodes.readlink(&link.fh).await.at(path)?;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&said)))
    }

    /// Removes a file, a link, or an empty directory.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<(), FsError> {
        let path = path.as_ref();
        let (dirs, target) = split_last(path)?;
        let remove = OpArgs::Remove(RemoveArgs { target });
        self.in_directory(dirs, vec![remove]).await.map(drop).at(path)
    }

    /// Gives a file another name; what has that name already is replaced, if it may be.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn rename(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<(), FsError> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (source, oldname) = self.resolve_parent(from).await?;
        let (target, newname) = self.resolve_parent(to).await?;
        self.nodes.rename((&source, oldname), (&target, newname), None).await.map(drop).at(from)
    }

    /// Sets a file's size.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn truncate(&self, path: impl AsRef<Path>, size: u64) -> Result<(), FsError> {
        let attrs = Attrs { size: Some(size), ..Attrs::default() };
        self.set_attrs(path, attrs).await
    }

    /// Sets attributes of what a path leads to.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn set_attrs(&self, path: impl AsRef<Path>, attrs: Attrs) -> Result<(), FsError> {
        let path = path.as_ref();
        let file = self.resolve(path, true).await?;
        self.nodes.setattr(&file.fh, Stateid::ANONYMOUS, attrs).await.map(drop).at(path)
    }

    async fn create(
        &self,
        path: &Path,
        objtype: CreateType,
        mode: Option<u32>,
    ) -> Result<(), FsError> {
        let (dirs, name) = split_last(path)?;
        let attrs = Attrs { mode, ..Attrs::default() };
        let create = OpArgs::Create(CreateArgs { objtype, name, attrs: Box::new(attrs) });
        self.in_directory(dirs, vec![create]).await.map(drop).at(path)
    }
}
