//! Whole files to the server: under a temporary name, and in their place with all their bytes.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::{FileExt, FileTypeExt, PermissionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use weft_nfs::{
    AttrNo, Attrs, Bitmap, Component, FileHandle, FileType, NfsStat, OpArgs, OpNum, Opaque,
    Stateid, ops::SetattrArgs,
};

use super::{
    client::{Client, STAT_ATTRS},
    error::{At, FsError},
    extents::is_sparse,
    file::{CUT, File},
    naming::Naming,
    path::names_of,
    pieces::{PieceSender, Pieces},
    replacing::{Kept, require_writable_there},
    transfer::{Progress, adding_up},
    unfinished::Temporary,
};
use crate::{
    error::ClientError,
    io::{FileIo, Source},
    limits,
    node::OpenOptions,
};

/// Bytes taken from a stream at a time.
const STREAM_BYTES: usize = 4 << 20;
/// Permissions of a file that is written by a stream, and those that one has kept.
const PERMISSIONS: u32 = 0o1777;

/// A file on its way to the server.
pub struct Upload {
    content: Content,
    mode: u32,
    in_place: bool,
    naming: Naming,
    finally: Option<Attrs>,
    owner_refused: Arc<AtomicBool>,
    progress: Progress,
}

enum Content {
    File(Arc<fs::File>, u64),
    Sparse(Arc<fs::File>, u64),
    Bytes(Bytes),
    Pieces(Pieces),
    There(Arc<File>),
    Stream(Option<Box<dyn Read + Send>>),
}

impl Upload {
    /// A local file. Up to [`limits::EAGER_BYTES`] are what a read up to its end gives now,
    /// whatever size it tells: files of `/proc` and `/sys` tell none, or another one. Of a larger
    /// file as many bytes are put as it has now; the put fails if they become fewer meanwhile.
    ///
    /// # Errors
    /// It cannot be read, or is no regular file.
    pub fn file(local: impl AsRef<Path>) -> Result<Upload, FsError> {
        let local = local.as_ref();
        // Asked before it is opened, too: opening a device may already do something.
        refuse_special(&fs::metadata(local).at(local)?).at(local)?;
        // The name may be a fifo's by now, whose open would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(local, flags, Mode::empty()).map_err(io::Error::from);
        Upload::open_file(file.at(local)?.into()).at(local)
    }

    /// An open local file, as [`Upload::file`].
    ///
    /// # Errors
    /// The file cannot be read, or is no regular file.
    pub fn open_file(file: fs::File) -> Result<Upload, ClientError> {
        let metadata = file.metadata()?;
        refuse_special(&metadata)?;
        if metadata.len() == 0 {
            // Some files that the kernel makes up wait for what is read from them.
            rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(io::Error::from)?;
        }
        let content = match metadata.len() {
            // Files that the kernel makes up when they are read tell no size.
            0 if file.read_at(&mut [0], 0)? > 0 => Content::Stream(Some(Box::new(file))),
            size if size <= limits::EAGER_BYTES as u64 => match read_small(&file, size)? {
                Some(bytes) => Content::Bytes(bytes),
                None => Content::Stream(Some(Box::new(file))),
            },
            size if is_sparse(&metadata) => Content::Sparse(Arc::new(file), size),
            size => Content::File(Arc::new(file), size),
        };
        Ok(Upload::of(content, metadata.permissions().mode() & 0o777))
    }

    /// These bytes; the mode is that of a new file.
    pub fn bytes(bytes: Bytes, mode: u32) -> Upload {
        Upload::of(Content::Bytes(bytes), mode)
    }

    /// A file of this size that is given in pieces, and where they are given in.
    pub fn pieces(size: u64, mode: u32) -> (PieceSender, Upload) {
        let (sender, pieces) = Pieces::of(size);
        (sender, Upload::of(Content::Pieces(pieces), mode))
    }

    /// What an open file of the same server has, opened by the client that puts it: the server
    /// copies it itself, and no byte comes here. [`super::is_copy_declined`] says of a failure that
    /// the server does no such thing.
    pub fn copied_there(source: Arc<File>, mode: u32) -> Upload {
        Upload::of(Content::There(source), mode)
    }

    /// Bytes up to the end of a stream; the mode is that of a new file.
    pub fn stream(from: impl Read + Send + 'static, mode: u32) -> Upload {
        Upload::of(Content::Stream(Some(Box::new(from))), mode)
    }

    fn of(content: Content, mode: u32) -> Upload {
        let (naming, progress) = (Naming::Given, Arc::new(|_| {}));
        let owner_refused = Arc::default();
        Upload { content, mode, in_place: false, naming, finally: None, owner_refused, progress }
    }

    /// How the name came about that it goes to.
    pub fn named(self, naming: Naming) -> Upload {
        Upload { naming, ..self }
    }

    /// Attributes that are set when all bytes are there, before the file gets its name. An owner
    /// that we may not give it is left out.
    pub fn finally(self, attrs: Attrs) -> Upload {
        Upload { finally: Some(attrs), ..self }
    }

    /// Is set if an owner or group of [`Upload::finally`] was left out, as the server refused it.
    pub fn telling_of_owner(self, owner_refused: Arc<AtomicBool>) -> Upload {
        Upload { owner_refused, ..self }
    }

    /// Writes into the file that is there, which keeps its links and its owner. If that fails, what
    /// was there is lost.
    pub fn in_place(self) -> Upload {
        Upload { in_place: true, ..self }
    }

    /// Tells how many bytes have arrived.
    pub fn with_progress(self, progress: Progress) -> Upload {
        Upload { progress, ..self }
    }

    /// The same, whose file has this mode if it is new.
    pub fn with_mode(self, mode: u32) -> Upload {
        Upload { mode, ..self }
    }

    /// All of it, if that is little.
    fn whole(&self) -> Option<Bytes> {
        match &self.content {
            Content::Bytes(bytes) if bytes.len() <= limits::EAGER_BYTES => Some(bytes.clone()),
            _ => None,
        }
    }
}

/// Reads a small file up to its end; none if that is too far away. A file that is as long as it
/// tells is read by one call.
fn read_small(file: &fs::File, size: u64) -> io::Result<Option<Bytes>> {
    let told = usize::try_from(size).unwrap_or(limits::EAGER_BYTES);
    let (mut data, mut len) = (vec![0; told + 1], 0);
    loop {
        let read = file.read_at(&mut data[len..], len as u64)?;
        len += read;
        if read == 0 || len == told {
            data.truncate(len);
            return Ok(Some(data.into()));
        }
        if len > limits::EAGER_BYTES {
            return Ok(None);
        }
        if len == data.len() {
            data.resize(limits::EAGER_BYTES + 1, 0);
        }
    }
}

fn refuse_special(metadata: &fs::Metadata) -> Result<(), ClientError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(ClientError::Invalid(match kind {
        kind if kind.is_dir() => "is a directory",
        kind if kind.is_fifo() => "is a fifo, not a regular file",
        kind if kind.is_socket() => "is a socket, not a regular file",
        _ => "is a device, not a regular file",
    }))
}

/// Where an upload goes.
struct Target {
    dirs: Vec<Component>,
    name: Component,
    /// Of the file that is there.
    old: Option<Attrs>,
}

impl Target {
    fn path(&self) -> Vec<Component> {
        let mut path = self.dirs.clone();
        path.push(self.name.clone());
        path
    }

    /// What the new file gets: of the old one, what decides about who may do what.
    fn kept(&self, mode: u32) -> Kept {
        let old = self.old.as_ref();
        let mode = old.and_then(|old| old.mode).map_or(mode, |mode| mode & PERMISSIONS);
        Kept { mode, acl: old.and_then(|old| old.acl.clone()), owner: self.owner() }
    }

    /// The owner of the old one, if it is not ours, and as far as we are the superuser, who may
    /// give files away.
    fn owner(&self) -> Option<Attrs> {
        let old = self.old.as_ref().filter(|_| rustix::process::geteuid().is_root())?;
        let (owner, owner_group) = (old.owner.clone(), old.owner_group.clone());
        let is_root = |id: &Option<Opaque>| id.as_ref().is_none_or(|id| &id.0[..] == b"0");
        let ours = is_root(&owner) && is_root(&owner_group);
        (!ours).then(|| Attrs { owner, owner_group, ..Attrs::default() })
    }
}

impl Client {
    /// Copies a local file to the server; returns its size. As [`Client::put`].
    ///
    /// # Errors
    /// [`FsError`]; what was there before is as it was.
    pub async fn put_file(
        &self,
        local: impl AsRef<Path>,
        remote: impl AsRef<Path>,
        progress: Progress,
    ) -> Result<u64, FsError> {
        self.put(Upload::file(local)?.with_progress(progress), remote).await
    }

    /// Puts a file at a path; returns its size. On return the data are durable on every data
    /// server and visible to others. A file that is there is replaced by the whole new one, which
    /// gets its mode and access control list, and its owner if we are the superuser; other hard
    /// links to it keep the old one. A link at the end of the path is followed.
    ///
    /// # Errors
    /// [`FsError`]; what was there before is as it was, unless the upload is in place.
    /// [`ClientError::ListNotKept`] if only an upload in place keeps its list.
    pub async fn put(&self, upload: Upload, remote: impl AsRef<Path>) -> Result<u64, FsError> {
        let remote = remote.as_ref();
        let target = self.target_of(names_of(remote), upload.naming).await.at(remote)?;
        let put = match upload.in_place {
            true => self.put_in_place(upload, &target).await,
            false => self.put_beside(upload, &target).await,
        };
        put.at(remote)
    }

    /// What is at the path an upload goes to.
    async fn target_of(
        &self,
        mut names: Vec<Component>,
        naming: Naming,
    ) -> Result<Target, ClientError> {
        let isdir = ClientError::Nfs { op: OpNum::OPEN, status: NfsStat::ISDIR };
        if naming == Naming::New {
            let name = names.pop().ok_or(isdir)?;
            return Ok(Target { dirs: names, name, old: None });
        }
        let request = STAT_ATTRS.or(&Bitmap::of(&[AttrNo::ACL]));
        let mut found = match self.resolve_asking(names.clone(), false, request).await {
            Ok(found) => Some(found),
            Err(e) if e.status() == Some(NfsStat::NOENT) => None,
            Err(e) => return Err(e),
        };
        if let Some(link) = found.take_if(|f| f.attrs.file_type == Some(FileType::LNK))
            && naming == Naming::Given
        {
            found = Some(self.resolve_asking(link.names, true, request).await?);
        }
        let (mut path, old) = match found {
            Some(found) => (found.names, Some(found.attrs)),
            None => (names, None),
        };
        let name = path.pop().ok_or(isdir.clone())?;
        if let Some(old) = &old {
            match old.file_type {
                Some(FileType::REG) => {}
                Some(FileType::DIR) => return Err(isdir),
                _ => return Err(ClientError::Invalid("is not a regular file")),
            }
            require_writable_there(old)?;
        }
        Ok(Target { dirs: path, name, old })
    }

    async fn put_in_place(&self, upload: Upload, target: &Target) -> Result<u64, ClientError> {
        let Upload { content, mode, finally, owner_refused, progress, .. } = upload;
        let options = OpenOptions::replace(mode);
        let file = self.opened(self.open_names(target.path(), options, None, false).await?);
        let fh = file.io().fh().clone();
        let sent = self.send(&file, content, progress).await;
        let closed = file.close_io().await;
        let size = sent.and_then(|size| closed.map(|()| size))?;
        self.set_finally(&fh, finally, &owner_refused).await.map(|()| size)
    }

    async fn put_beside(&self, upload: Upload, target: &Target) -> Result<u64, ClientError> {
        let kept = target.kept(upload.mode);
        let temporary = self.temporary(&target.dirs, &target.name);
        if kept.comes_with_open()
            && let Some(data) = upload.whole()
        {
            let size = data.len() as u64;
            let content = (data, upload.finally.as_ref());
            if self.put_eagerly_beside(&temporary, (&target.name, &kept), content).await {
                self.keep(&temporary);
                (upload.progress)(size);
                return Ok(size);
            }
        }
        let put = self.put_usually(upload, target, &temporary, &kept).await;
        match &put {
            Ok(_) => self.keep(&temporary),
            Err(_) => self.discard(temporary.path()).await,
        }
        put
    }

    /// Open, write, close, rename.
    async fn put_usually(
        &self,
        upload: Upload,
        target: &Target,
        temporary: &Temporary<'_>,
        kept: &Kept,
    ) -> Result<u64, ClientError> {
        let Upload { content, progress, naming, finally, owner_refused, .. } = upload;
        let (opened, attrs) = self.open_temporary(temporary, kept).await?;
        let file = self.opened((opened, attrs.clone()));
        let fh = file.io().fh().clone();
        let sent = async {
            self.set_kept(&file, kept, &attrs).await?;
            self.send(&file, content, progress).await
        };
        let sent = sent.await;
        let closed = file.close_io().await;
        let size = sent.and_then(|size| closed.map(|()| size))?;
        self.set_finally(&fh, finally, &owner_refused).await?;
        self.rename_over(temporary, target, &fh).await?;
        if naming != Naming::New {
            self.remove_old(&target.dirs, &target.name, &attrs).await;
        }
        Ok(size)
    }

    /// Makes the temporary file. What has its name already goes: a dead client of ours may have
    /// left it, or somebody else made it, whose file would get the name that is ours to give.
    async fn open_temporary(
        &self,
        temporary: &Temporary<'_>,
        kept: &Kept,
    ) -> Result<(Arc<FileIo>, Attrs), ClientError> {
        let new = OpenOptions { read: false, exclusive: true, ..OpenOptions::replace(kept.mode) };
        let open = || self.open_names(temporary.path(), new, kept.acl.clone(), false);
        let opened = match open().await {
            Err(e) if e.status() == Some(NfsStat::EXIST) => {
                self.remove_scratch(temporary.path()).await.map_err(|_| e)?;
                open().await
            }
            opened => opened,
        };
        let (opened, mut attrs) = opened.map_err(|e| kept.refusal(e))?;
        if kept.acl.is_some() {
            // Not with the OPEN, whose answer the server has to remember: a list may be too long.
            // Where it is not told it is set once more.
            let told = self.nodes.getattr(opened.fh(), Bitmap::of(&[AttrNo::ACL])).await;
            attrs.acl = told.ok().and_then(|attrs| attrs.acl);
        }
        Ok((opened, attrs))
    }

    /// A new file may have another mode or list, by its directory; and who gets a file may lose
    /// bits of it. A superuser whom the server takes for somebody else keeps the file, as any user
    /// does. A list is always set with the mode, which would change it.
    async fn set_kept(&self, file: &File, kept: &Kept, has: &Attrs) -> Result<(), ClientError> {
        let same_list = kept.acl.is_none() || kept.acl == has.acl;
        let mut is_right = has.mode.is_none_or(|has| has & PERMISSIONS == kept.mode) && same_list;
        let owner = kept.owner.as_ref();
        let others = |o: &&Attrs| (&o.owner, &o.owner_group) != (&has.owner, &has.owner_group);
        if let Some(owner) = owner.filter(others) {
            match self.set_on(file, owner.clone()).await {
                Err(e) if is_refused(&e) => {}
                set => {
                    set?;
                    is_right = false;
                }
            }
        }
        if is_right {
            return Ok(());
        }
        let set = Attrs { mode: Some(kept.mode), acl: kept.acl.clone(), ..Attrs::default() };
        self.set_on(file, set).await.map_err(|e| kept.refusal(e))
    }

    /// Sets what comes last. Who may not give files away keeps this one.
    async fn set_finally(
        &self,
        fh: &FileHandle,
        attrs: Option<Attrs>,
        owner_refused: &AtomicBool,
    ) -> Result<(), ClientError> {
        let set = |attrs| self.nodes.setattr(fh, Stateid::ANONYMOUS, attrs);
        let mut kept_owner = true;
        for mut attrs in attrs.into_iter().flat_map(in_turn) {
            let gives_away = attrs.owner.is_some() || attrs.owner_group.is_some();
            if !kept_owner {
                // Set-id bits are for the owner that it did not get.
                attrs.mode = attrs.mode.map(|mode| mode & PERMISSIONS);
            }
            match set(attrs).await {
                Err(e) if is_refused(&e) && gives_away => {
                    kept_owner = false;
                    owner_refused.store(true, Ordering::Release);
                }
                done => done.map(drop)?,
            }
        }
        Ok(())
    }

    async fn set_on(&self, file: &File, attrs: Attrs) -> Result<(), ClientError> {
        let (stateid, attrs) = (file.io().io_stateid(), Box::new(attrs));
        let set = OpArgs::Setattr(SetattrArgs { stateid, attrs });
        self.nodes.change_attrs(file.io().fh(), set).await.map(drop)
    }

    /// Gives the file its own name.
    async fn rename_over(
        &self,
        temporary: &Temporary<'_>,
        target: &Target,
        file: &FileHandle,
    ) -> Result<(), ClientError> {
        let dir = self.resolve_names(target.dirs.clone(), true).await?.fh;
        let (from, to) = ((&dir, temporary.name.clone()), (&dir, target.name.clone()));
        self.nodes.rename(from, to, Some(file)).await.map(drop)
    }

    /// Sends all of it; how much that was.
    async fn send(
        &self,
        file: &File,
        content: Content,
        progress: Progress,
    ) -> Result<u64, ClientError> {
        match content {
            Content::File(local, size) => {
                file.io().report_to(adding_up(progress));
                let written = file.io().write_whole(size, &Source::file(local.clone())).await;
                if written.is_err() && local.metadata()?.len() < size {
                    return Err(CUT);
                }
                written.map(|()| size)
            }
            Content::Sparse(local, size) => {
                Pieces::of_sparse(local, size).send(file, progress).await
            }
            Content::Pieces(pieces) => pieces.send(file, progress).await,
            Content::There(source) => self.copy_there(&source, file, &progress).await,
            Content::Bytes(bytes) => {
                let size = bytes.len() as u64;
                file.io().write_whole(size, &Source::bytes(bytes)).await?;
                progress(size);
                Ok(size)
            }
            Content::Stream(mut stream) => {
                let mut offset = 0;
                loop {
                    let data = next_of(&mut stream).await?;
                    let len = data.len() as u64;
                    if len == 0 {
                        return Ok(offset);
                    }
                    file.io().write(offset, len, &Source::bytes(data)).await?;
                    offset += len;
                    progress(offset);
                }
            }
        }
    }
}

/// What is set first, and what then: a new owner takes set-id bits away.
pub(super) fn in_turn(attrs: Attrs) -> Vec<Attrs> {
    let (owner, owner_group) = (attrs.owner.clone(), attrs.owner_group.clone());
    let gives_away = owner.is_some() || owner_group.is_some();
    let rest = Attrs { owner: None, owner_group: None, ..attrs };
    let away = gives_away.then(|| Attrs { owner, owner_group, ..Attrs::default() });
    away.into_iter().chain([rest]).collect()
}

fn is_refused(e: &ClientError) -> bool {
    matches!(e.status(), Some(NfsStat::PERM | NfsStat::ACCESS))
}

/// What comes next of a stream, which is waited for in a thread where that is allowed.
async fn next_of(stream: &mut Option<Box<dyn Read + Send>>) -> Result<Bytes, ClientError> {
    let Some(mut taken) = stream.take() else { return Ok(Bytes::new()) };
    let read = tokio::task::spawn_blocking(move || {
        let mut data = Vec::new();
        let read = taken.by_ref().take(STREAM_BYTES as u64).read_to_end(&mut data);
        (read.map(|_| Bytes::from(data)), taken)
    });
    let (data, taken) = read.await.map_err(io::Error::other)?;
    *stream = Some(taken);
    Ok(data?)
}
