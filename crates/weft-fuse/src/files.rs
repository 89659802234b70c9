//! Open files: their bytes.

use std::sync::Arc;

use bytes::Bytes;
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use weft_client::{
    io::{FileIo, Source},
    node::{Nodes, OpenOptions},
};
use weft_nfs::{Attrs, Component};

use crate::{
    errno::OrErrno,
    slots::OpenFile,
    tree::{Creation, Tree},
};

/// Files from this size on, in bytes, are read past the kernel's page cache: a copy less, and no
/// memory twice. Smaller ones stay there for who reads them again.
const DIRECT_FROM_BYTES: u64 = 4 << 20;

/// Flags of `open(2)` that matter here: `include/uapi/asm-generic/fcntl.h`.
const O_EXCL: i32 = 0o200;
const O_TRUNC: i32 = 0o1000;
const O_DIRECT: i32 = 0o40000;

/// What a program's flags want.
pub fn options_of(flags: i32) -> OpenOptions {
    let (read, write) = match OpenFlags(flags).acc_mode() {
        OpenAccMode::O_RDONLY => (true, false),
        OpenAccMode::O_WRONLY => (false, true),
        OpenAccMode::O_RDWR => (true, true),
    };
    OpenOptions { read, write, truncate: flags & O_TRUNC != 0, ..OpenOptions::default() }
}

impl Tree {
    /// Opens a file; its number, and how the kernel is to treat it.
    pub async fn open(
        &self,
        nodes: &Nodes,
        ino: u64,
        flags: i32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let fh = self.inodes.handle(ino)?;
        // What others of this client have written to it must be seen by this open.
        for io in self.inodes.opens(ino) {
            io.flush().await.or_errno()?;
        }
        let mut options = options_of(flags);
        let truncate = std::mem::take(&mut options.truncate);
        let opened = nodes.open_node(&fh, options).await;
        let (attrs, io) = opened.or_errno()?;
        if truncate {
            let cut = io.truncate(0).await.or_errno();
            if let Err(e) = cut {
                let _ = io.close().await; // the failure to cut is what the program hears of
                return Err(e);
            }
            self.inodes.opens(ino).iter().for_each(|other| other.set_size(0));
        }
        Ok(self.keep(ino, (io, nodes), &attrs, flags))
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
            ..options_of(flags)
        };
        let (node, io) = nodes.open(&dir, name, options).await.or_errno()?;
        let attr = match self.told(&node) {
            Ok(attr) => attr,
            Err(e) => {
                let _ = io.close().await; // as above
                return Err(e);
            }
        };
        let (number, how) = self.keep(attr.ino.0, (io, nodes), &node.attrs, flags);
        Ok((attr, number, how))
    }

    fn keep(
        &self,
        ino: u64,
        (io, nodes): (Arc<FileIo>, &Nodes),
        attrs: &Attrs,
        flags: i32,
    ) -> (u64, FopenFlags) {
        self.inodes.opened(ino, &io);
        let is_writable = options_of(flags).write;
        let is_cached = self.inodes.is_cached(ino, attrs.change);
        let is_large = attrs.size.unwrap_or(0) >= DIRECT_FROM_BYTES;
        let mut how = FopenFlags::empty();
        if flags & O_DIRECT != 0 || self.goes_direct() && (is_writable || is_large) {
            how |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        } else if is_cached {
            how |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        let open = OpenFile { io, nodes: nodes.clone(), is_writable };
        (self.files.insert(Arc::new(open)), how)
    }

    pub async fn read(&self, number: u64, offset: u64, len: u32) -> Result<Bytes, Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        open.io.read(offset, len as usize).await.or_errno()
    }

    pub async fn write(&self, number: u64, offset: u64, data: Bytes) -> Result<(), Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        let len = data.len() as u64;
        open.io.write(offset, len, &Source::bytes(data)).await.or_errno()
    }

    /// What was written through an open is durable and visible: at `close(2)` and `fsync(2)`.
    pub async fn commit(&self, number: u64) -> Result<(), Errno> {
        let open = self.files.get(number).ok_or(Errno::EBADF)?;
        if !open.is_writable {
            return Ok(());
        }
        open.io.commit().await.or_errno()
    }

    /// The kernel lets go of an open. Whoever wrote has heard of what failed, at `close(2)`.
    pub async fn release(&self, number: u64) {
        let Some(open) = self.files.remove(number) else { return };
        if let Err(e) = open.io.close().await {
            tracing::warn!(fh = ?open.io.fh(), "close failed: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's flags as options.
    #[test]
    fn flags_of_open() {
        let (read_only, write_only, both) = (0, 1, 2);
        assert!(options_of(read_only).read && !options_of(read_only).write);
        assert!(!options_of(write_only).read && options_of(write_only).write);
        assert!(options_of(both).read && options_of(both | O_TRUNC).truncate);
        assert!(!options_of(both | O_EXCL).truncate);
    }
}
