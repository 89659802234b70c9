//! Open files: their bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use fuser::{Errno, FopenFlags};
use weft_client::{
    io::{FileIo, Source},
    node::{Nodes, OpenOptions, OpenedName, OpenedNode},
};
use weft_nfs::{Attrs, Component};

use crate::{
    errno::OrErrno,
    names::{count_unsent, flush},
    opening::{Found, Held, O_DIRECT, O_EXCL, O_TRUNC, options_of},
    retries::Thread,
    slots::OpenFile,
    space::Place,
    tree::{Creation, Tree},
};

/// Files from this size on, in bytes, are read past the kernel's page cache: a copy less, and no
/// memory twice. Smaller ones stay there for who reads them again.
const DIRECT_FROM_BYTES: u64 = 4 << 20;

impl Tree {
    /// Opens a file for a thread; its number, and how the kernel is to treat it. What the kernel
    /// believes of its size and times is no older than this, when it hears of it.
    ///
    /// # Errors
    /// ESTALE where the kernel has followed a name that was listed a moment ago, or that others
    /// have given to another file since: it looks that up then, and opens what has the name now.
    pub async fn open(
        &self,
        (nodes, thread): (&Nodes, Thread),
        ino: u64,
        flags: i32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let opened = match self.retries.what(thread, ino, Instant::now()) {
            // It has been opened as it was looked up.
            Some(Found::File(held)) if held.serves(flags) => {
                let Held { io, attrs, asked_at, .. } = *held;
                Ok(self.keep((ino, asked_at), (io, nodes), &attrs, flags))
            }
            None if self.inodes.is_from_list(ino, self.valid) => return Err(Errno::ESTALE),
            _ => self.open_number(nodes, ino, flags).await,
        };
        self.retries.end(thread);
        opened
    }

    async fn open_number(
        &self,
        nodes: &Nodes,
        ino: u64,
        flags: i32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let fh = self.inodes.handle(ino)?;
        // What others of this client have written to it is told to this open.
        flush(&self.inodes.opens(ino)).await;
        let asked_at = Instant::now();
        let opened = nodes.open_node(&fh, options_of(flags)).await;
        let OpenedNode { mut attrs, was_asked, io } = opened.or_errno()?;
        count_unsent(&mut attrs, std::slice::from_ref(&io));
        let is_news = was_asked && self.inodes.is_news(ino, attrs.change);
        if was_asked {
            self.inodes.has_changed(ino, attrs.change, asked_at);
            self.recently_told(ino, &attrs);
        }
        self.forget_if_written(ino, asked_at);
        if is_news {
            self.forget_attributes(ino).await;
        }
        Ok(self.keep((ino, asked_at), (io, nodes), &attrs, flags))
    }

    /// Makes and opens a file.
    pub async fn create_file(
        &self,
        nodes: &Nodes,
        (parent, name): (u64, Component),
        creation: Creation,
        flags: i32,
    ) -> Result<(fuser::FileAttr, u64, FopenFlags), Errno> {
        let dir = self.inodes.handle(parent)?;
        let options = OpenOptions {
            create: Some(creation.mode & 0o7777),
            umask: Some(creation.umask),
            exclusive: flags & O_EXCL != 0,
            truncate: flags & O_TRUNC != 0,
            ..options_of(flags)
        };
        let asked_at = Instant::now();
        let opened = nodes.open(&dir, name.clone(), options).await;
        let OpenedName { mut node, io, change } = self.in_dir(parent, opened)?;
        count_unsent(&mut node.attrs, std::slice::from_ref(&io));
        self.dir_told(parent, change);
        let attr = match self.told(&node, (parent, &name)) {
            Ok(attr) => attr,
            Err(e) => {
                let _ = io.close().await; // what failed first is what the program hears of
                return Err(e);
            }
        };
        // The kernel does not believe them with the name, and asks for them next.
        self.recently_told(attr.ino.0, &node.attrs);
        self.forget_if_written(attr.ino.0, asked_at);
        let opened = (attr.ino.0, asked_at);
        let (number, how) = self.keep(opened, (io, nodes), &node.attrs, flags);
        Ok((attr, number, how))
    }

    fn keep(
        &self,
        (ino, sized_at): (u64, Instant),
        (io, nodes): (Arc<FileIo>, &Nodes),
        attrs: &Attrs,
        flags: i32,
    ) -> (u64, FopenFlags) {
        let OpenOptions { read, write: is_writable, .. } = options_of(flags);
        self.inodes.opened(ino, &io, read && is_writable);
        let is_cached = self.inodes.is_cached(ino, attrs.change, Instant::now());
        let is_large = attrs.size.unwrap_or(0) >= DIRECT_FROM_BYTES;
        let mut how = FopenFlags::empty();
        if flags & O_DIRECT != 0 || self.goes_direct() && (is_writable || is_large) {
            how |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        } else if is_cached {
            how |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        let has_lost_lock = AtomicBool::new(false);
        let is_direct = how.contains(FopenFlags::FOPEN_DIRECT_IO);
        let nodes = nodes.clone();
        let open = OpenFile { io, nodes, is_writable, is_direct, sized_at, has_lost_lock };
        (self.files.insert(Arc::new(open)), how)
    }

    /// An open to read and write through.
    pub fn usable(&self, number: u64) -> Result<Arc<OpenFile>, Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        if open.has_lost_lock.load(Ordering::Acquire) { Err(Errno::EIO) } else { Ok(open) }
    }

    pub async fn read(&self, place: Place, len: u32) -> Result<Bytes, Errno> {
        let open = self.usable(place.file)?;
        let len = match self.known_size(place.ino, &open) {
            Some(size) => size.saturating_sub(place.offset).min(len.into()),
            None => len.into(),
        };
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        open.io.read(place.offset, len).await.or_errno()
    }

    /// How long a file is, if that was told lately and nothing was written here since: then a read
    /// up to its end need not ask whether there is more by now.
    fn known_size(&self, ino: u64, open: &OpenFile) -> Option<u64> {
        let is_known = open.sized_at.elapsed() < self.valid
            && self.inodes.is_unwritten_since(ino, open.sized_at);
        is_known.then(|| open.io.known_size()).flatten()
    }

    /// Writes at an offset, or, to append past the kernel's cache, at the end of the file now: the
    /// kernel takes the end that it was told last, also under a lock.
    pub async fn write(&self, place: Place, data: Bytes, appends: bool) -> Result<(), Errno> {
        let open = self.usable(place.file)?;
        self.written(place.ino);
        let len = data.len() as u64;
        let offset = match appends && open.is_direct {
            true => open.io.end().await.or_errno()?,
            false => place.offset,
        };
        let written = open.io.write(offset, len, &Source::bytes(data)).await.or_errno();
        self.written(place.ino);
        written
    }

    /// A file is being written, or was just now: what is known of it is outdated.
    pub fn written(&self, ino: u64) {
        self.inodes.note_written(ino, Instant::now());
        self.recent.forget(ino);
    }

    /// What was written through an open is durable and visible: at `close(2)`.
    pub async fn flush(&self, number: u64) -> Result<(), Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        if !open.is_writable {
            return Ok(());
        }
        open.io.commit().await.or_errno()
    }

    /// `fsync(2)` is of the file: who only reads it makes durable what others have written here.
    pub async fn fsync(&self, number: u64) -> Result<(), Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        match open.is_writable {
            true => open.io.commit().await.or_errno(),
            false => open.io.commit_for_others().await.or_errno(),
        }
    }

    /// The kernel lets go of an open. Whoever wrote has heard of what failed, at `close(2)`, but
    /// for what was written by a mapping after that. The kernel does not wait for this, nor does
    /// `umount`: [`Tree::close_all`] does.
    pub async fn release(&self, ino: u64, number: u64) {
        let _under_way = self.releasing.read().await;
        self.unlock_through(ino, number).await;
        let Some(open) = self.files.remove(number) else { return };
        if let Err(e) = open.io.close_soon().await {
            tracing::warn!(fh = ?open.io.fh(), "close failed: {e}");
        }
    }

    /// Closes all files, those included that the kernel has let go of already.
    pub async fn close_all(&self) {
        drop(self.releasing.write().await);
        for open in self.files.take_all() {
            if let Err(e) = open.io.close().await {
                tracing::warn!(fh = ?open.io.fh(), "close failed: {e}");
            }
        }
    }
}
