//! Open files.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use weft_nfs::{Acl, Attrs, Component, FileType, NfsStat, OpNum};

use super::{
    client::Client,
    error::{At, FsError},
    path::names_of,
};
use crate::{
    boxed::Spawned,
    error::ClientError,
    io::{FileIo, LayoutInfo, MemoryRegion, Source, attrs_wanted},
    layout::ExportedLayout,
    node::{OpenOptions, open_asking},
};

/// Of a file that is shorter than it was.
pub(super) const CUT: ClientError = ClientError::Invalid("it became shorter while it was copied");

/// An open file.
pub struct File {
    io: Arc<FileIo>,
    path: PathBuf,
    attrs: Box<Attrs>,
    closed: AtomicBool,
}

impl Client {
    /// Opens a file, making it if the options say so.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn open(
        &self,
        path: impl AsRef<Path>,
        options: OpenOptions,
    ) -> Result<File, FsError> {
        let path = path.as_ref();
        self.open_at(path, names_of(path), options, true).await
    }

    /// Opens a file for reading by a layout that [`File::export_layout`] gave somebody: its data
    /// servers are read without the metadata server being asked for a layout or their addresses.
    ///
    /// The open itself is asked for, so that the file may only be opened by who may read it, and
    /// shows what others have closed before. When the data servers no longer take the layout this
    /// client asks for its own, and whoever reads notices nothing.
    ///
    /// **Import bytes only from whom you trust with the file**: they name the servers that its data
    /// are asked of, and whatever those answer is believed.
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] for bytes that are no exported layout, or of another file,
    /// cluster or type than can be read here; before anything is asked of a server, if the bytes
    /// show it. [`ClientError::Invalid`] unless the options are for reading alone.
    pub async fn open_with_layout(
        &self,
        path: impl AsRef<Path>,
        options: OpenOptions,
        layout: &Bytes,
    ) -> Result<File, FsError> {
        let path = path.as_ref();
        let reads_alone = options.read && !options.write && options.create.is_none();
        if !reads_alone || options.truncate {
            let why = "a layout of another client is only for reading";
            return Err(ClientError::Invalid(why)).at(path);
        }
        let exported = ExportedLayout::from_bytes(layout);
        let exported = exported.map_err(ClientError::from).at(path)?;
        let file = self.open(path, options).await?;
        if let Err(e) = file.io.import_layout(&exported).await {
            file.close().await?;
            return Err(e).at(path);
        }
        Ok(file)
    }

    /// The same, with the path's names; who uses it only once wants no delegation.
    pub(super) async fn open_at(
        &self,
        path: &Path,
        names: Vec<Component>,
        options: OpenOptions,
        is_delegated: bool,
    ) -> Result<File, FsError> {
        let open = |names| self.open_names(names, options, None, is_delegated);
        let opened = match open(names.clone()).await {
            // The last name is a link: what it leads to is meant.
            Err(e) if e.status() == Some(NfsStat::SYMLINK) => {
                let target = self.resolve_names(names, true).await.at(path)?;
                open(target.names).await
            }
            other => other,
        };
        let mut file = self.opened(opened.at(path)?);
        file.path = path.to_path_buf();
        if options.truncate && options.create.is_none() {
            file.truncate(0).await?;
        }
        Ok(file)
    }

    /// A file that is open at the server.
    pub(super) fn opened(&self, (io, attrs): (Arc<FileIo>, Attrs)) -> File {
        File { io, path: PathBuf::new(), attrs: Box::new(attrs), closed: AtomicBool::new(false) }
    }

    /// Opens a file; a new one gets this list. Who uses it only once wants no delegation.
    pub(super) async fn open_names(
        &self,
        names: Vec<Component>,
        options: OpenOptions,
        acl: Option<Acl>,
        is_delegated: bool,
    ) -> Result<(Arc<FileIo>, Attrs), ClientError> {
        // What it opens is closed, and what it empties is emptied here too, whoever waits for it.
        let me = self.clone();
        let open = async move { me.open_names_now(names, options, acl, is_delegated).await };
        Spawned::new(open).await
    }

    async fn open_names_now(
        &self,
        mut names: Vec<Component>,
        options: OpenOptions,
        acl: Option<Acl>,
        is_delegated: bool,
    ) -> Result<(Arc<FileIo>, Attrs), ClientError> {
        let isdir = ClientError::Nfs { op: OpNum::OPEN, status: NfsStat::ISDIR };
        let name = names.pop().ok_or(isdir)?;
        let nodes = &self.nodes;
        let open = |owner| options.open(name, owner, acl);
        let (open, opening) = nodes.begin_open(options, is_delegated, open);
        let done = self.in_directory(names, open_asking(open, attrs_wanted()).into()).await?;
        nodes.opened_by(done.into_iter(), opening).await
    }
}

impl File {
    /// Attributes at open.
    pub fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.attrs.file_type == Some(FileType::REG)
    }

    /// The path it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the file as far as we know.
    pub fn size(&self) -> u64 {
        self.io.size()
    }

    /// A file that others have cut since it was opened is not what was to be copied: what was read
    /// behind its end, servers filled with zeros.
    ///
    /// # Errors
    /// It became shorter; its size cannot be asked for.
    pub(super) async fn require_uncut(&self) -> Result<(), ClientError> {
        match self.io.fetch_size().await? < self.attrs.size.unwrap_or(0) {
            true => Err(CUT),
            false => Ok(()),
        }
    }

    /// The data path, for callers that need more than whole buffers.
    pub fn io(&self) -> &Arc<FileIo> {
        &self.io
    }

    /// Reads at most `len` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, FsError> {
        self.io.read(offset, len).await.at(&self.path)
    }

    /// [`FileIo::read_memory`]: into the caller's memory, without a copy of ours.
    ///
    /// # Errors
    /// [`FsError`]; part of the memory may have been written.
    pub async fn read_memory(
        &self,
        offset: u64,
        memory: Arc<MemoryRegion>,
    ) -> Result<usize, FsError> {
        let read = self.io.read_memory(offset, memory).await.at(&self.path)?;
        usize::try_from(read).map_err(|_| ClientError::Invalid("too long")).at(&self.path)
    }

    /// Writes all of it. Durable after [`File::commit`] or [`File::close`].
    ///
    /// # Errors
    /// [`FsError`]; part of it may have been written.
    pub async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), FsError> {
        let len = data.len() as u64;
        self.io.write(offset, len, &Source::bytes(data)).await.at(&self.path)
    }

    /// Makes everything written durable and visible to others.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn commit(&self) -> Result<(), FsError> {
        self.io.commit().await.at(&self.path)
    }

    /// Sets the size. What was written before is committed first.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn truncate(&self, size: u64) -> Result<(), FsError> {
        self.io.truncate(size).await.at(&self.path)
    }

    /// What the file's layout says.
    ///
    /// # Errors
    /// [`FsError`] when the server gives none.
    pub async fn layout_info(&self) -> Result<LayoutInfo, FsError> {
        self.io.layout_info().await.at(&self.path)
    }

    /// The layout to read the file by, as bytes for other clients (P4.7): one process of a job asks
    /// for it, and all others open the file with [`Client::open_with_layout`]. The file must be
    /// open for reading alone; a layout to write by is never exported, since nobody but its holder
    /// can tell the metadata server what was written.
    ///
    /// **The bytes are as good as the file**: whoever has them can read it from Weft's data
    /// servers, whatever its mode says, as whoever holds a layout can. That ends when a right to
    /// the file is taken away (chmod, chown, a list, new rules of the export), when it is removed,
    /// and when an administrator ends this client while it has the layout (`weft clients evict`);
    /// not when this client closes the file.
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] if the server gives none, as for small files, which are with
    /// the metadata server, or if this client has the file open for writing, too.
    pub async fn export_layout(&self) -> Result<Bytes, FsError> {
        let exported = self.io.export_layout().await.at(&self.path)?;
        exported.to_bytes().map_err(ClientError::from).at(&self.path)
    }

    /// Commits, returns the layout and closes. Only after this (or [`File::commit`]) has
    /// succeeded are the data safe.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn close(self) -> Result<(), FsError> {
        let path = self.path.clone();
        self.close_io().await.at(&path)
    }

    /// The same, for whoever knows the path.
    pub(super) async fn close_io(self) -> Result<(), ClientError> {
        self.closed.store(true, Ordering::Release);
        self.io.close().await
    }
}

impl Drop for File {
    /// A file that nobody closed is closed in the background, so that the server can forget it;
    /// whether its data were safe nobody will know.
    fn drop(&mut self) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (io, path) = (self.io.clone(), self.path.clone());
            runtime.spawn(async move {
                let closed = io.close().await;
                // A client that is closed has left its files to the server.
                if let Err(e) = closed.as_ref()
                    && !matches!(e, ClientError::Closed)
                {
                    tracing::warn!(path = %path.display(), "close failed: {e}");
                }
            });
        }
    }
}
