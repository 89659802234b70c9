//! Holes, reserved space, and copies that the servers make.

use fuser::Errno;
use weft_nfs::ops::DataContent;

use crate::{errno::OrErrno, tree::Tree};

/// Words of `lseek(2)`, `include/uapi/linux/fs.h`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
/// Flags of `fallocate(2)`, `include/uapi/linux/falloc.h`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
/// Most bytes of one copy: programs go on where it ended, and can be interrupted there.
const COPY_BYTES_MAX: u64 = 32 << 20;

/// A place in an open file.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub ino: u64,
    /// The open.
    pub file: u64,
    pub offset: u64,
}

impl Tree {
    /// Where data, or a hole, begin: the kernel does the other words of `lseek(2)` itself.
    pub async fn seek(
        &self,
        (ino, file): (u64, u64),
        offset: i64,
        whence: i32,
    ) -> Result<i64, Errno> {
        let open = self.files.get(file).ok_or(Errno::EBADF)?;
        let what = match whence {
            SEEK_DATA => DataContent::DATA,
            SEEK_HOLE => DataContent::HOLE,
            _ => return Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        if self.inodes.may_have_mapped_writes(ino) {
            // The kernel sends what was written through mappings: its `fuse_lseek` does not.
            self.forget_pages(ino).await;
        }
        let found = open.nodes.seek(&open.io, offset, what).await.or_errno()?;
        i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
    }

    /// `fallocate(2)`: reserves space and makes holes. The protocol can neither reserve space
    /// beyond the end nor do the rest of what that call is for.
    pub async fn allocate(&self, place: Place, length: u64, mode: i32) -> Result<(), Errno> {
        let open = self.usable(place.file)?;
        let offset = place.offset;
        offset.checked_add(length).ok_or(Errno::EFBIG)?;
        const HOLE: i32 = PUNCH_HOLE | KEEP_SIZE;
        let changed = match mode {
            0 => open.nodes.allocate(&open.io, offset, length).await,
            HOLE => {
                self.written(place.ino);
                open.nodes.deallocate(&open.io, offset, length).await
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        self.written(place.ino);
        self.set_id_may_be_gone(place.ino).await;
        changed.or_errno()
    }

    /// `copy_file_range(2)` between two files; within one the kernel copies.
    pub async fn copy(&self, from: Place, to: Place, len: u64) -> Result<u32, Errno> {
        if from.ino == to.ino {
            return Err(Errno::EOPNOTSUPP);
        }
        let (source, target) = (self.usable(from.file)?, self.usable(to.file)?);
        source.io.commit_for_others().await.or_errno()?;
        let size = source.io.fetch_size().await.or_errno()?;
        let len = len.min(COPY_BYTES_MAX).min(size.saturating_sub(from.offset));
        if len == 0 {
            return Ok(0);
        }
        let nodes = &target.nodes;
        let (source, target) = ((&source.io, from.offset), (&target.io, to.offset));
        let copied = nodes.copy(source, target, len).await;
        self.written(to.ino);
        self.set_id_may_be_gone(to.ino).await;
        let copied = copied.or_errno()?;
        u32::try_from(copied).map_err(|_| Errno::EIO)
    }
}
