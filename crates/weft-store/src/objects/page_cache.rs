//! What of an object goes through the page cache, and what past it (`O_DIRECT`).
//!
//! The page cache is for what somebody will look at again. What is written is seldom read at once:
//! a stream of it drives everything else out, and costs several times the processor time that the
//! disk needs for the bytes themselves. What is read may be read by many at the same time, by all
//! processes of a program that starts say, and the disk is asked once.
//!
//! The two ways see the same bytes on the file systems that are named here, and the tests hold them
//! to it. A write past the cache has the kernel drop the pages it covers, before and after, also
//! those that are on their way to a socket (`invalidate_inode_pages2_range`); it holds the inode's
//! lock until the disk has answered, so that nobody writes to those pages meanwhile; and a read
//! past the cache has what is not on the disk yet written first.

use std::{fs::File, os::unix::fs::MetadataExt, path::Path, sync::atomic::AtomicU64};

use weft_io::PAGE_BYTES;

use super::files::{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, file_system};

/// A smaller read or write is not worth it, bytes.
const PAST_BYTES_MIN: usize = 256 << 10;
/// An object that has less than this, bytes, is kept in the cache, however small the memory.
const STREAM_BYTES_MIN: u64 = 16 << 20;
/// One that has less than this part of the memory is kept in the cache.
const MEMORY_SHARE: u64 = 256;

/// What of the objects is kept in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// All but large writes to objects that are large for the machine's memory.
    Auto {
        /// Memory of the machine, bytes.
        memory_bytes: u64,
    },
    /// Everything.
    Keep,
    /// All but large reads and writes.
    Direct,
}

impl CachePolicy {
    /// Whether a write of so many bytes to an object that has `stored` of them goes past the cache.
    fn passes(self, stored: u64, len: usize) -> bool {
        let large = len >= PAST_BYTES_MIN;
        match self {
            CachePolicy::Keep => false,
            CachePolicy::Direct => large,
            CachePolicy::Auto { memory_bytes } => {
                large && stored >= (memory_bytes / MEMORY_SHARE).max(STREAM_BYTES_MIN)
            }
        }
    }
}

/// What goes past the cache of the file system below.
#[derive(Debug)]
pub(super) struct PastCache {
    pub(super) policy: CachePolicy,
    /// Bytes that were written there.
    pub(super) written: AtomicU64,
}

impl PastCache {
    /// For a directory: nothing goes past the cache of a file system that was not tried, and unless
    /// it is asked for, nothing to a disk that turns, or does not say that it does not: such a one
    /// wants to be told of much at a time, which the cache does.
    pub(super) fn new(dir: &Path, policy: CachePolicy) -> std::io::Result<PastCache> {
        let tried = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC].contains(&file_system(dir)?);
        let suits = match policy {
            CachePolicy::Auto { .. } => is_solid(std::fs::metadata(dir)?.dev()),
            CachePolicy::Keep | CachePolicy::Direct => true,
        };
        let policy = if tried && suits { policy } else { CachePolicy::Keep };
        Ok(PastCache { policy, written: AtomicU64::new(0) })
    }

    /// Whether a read of an object goes past the cache.
    pub(super) fn suits_read(&self, offset: u64, len: usize) -> bool {
        self.policy == CachePolicy::Direct && is_aligned(offset) && len >= PAST_BYTES_MIN
    }

    /// Whether a write to an object goes past the cache.
    pub(super) fn suits_write(&self, file: &File, offset: u64, data: &[u8]) -> bool {
        if self.policy == CachePolicy::Keep {
            return false;
        }
        let in_pages = data.as_ptr().align_offset(PAGE_BYTES) == 0
            && data.len().is_multiple_of(PAGE_BYTES)
            && is_aligned(offset);
        // A file that cannot tell is not worth an exception: whoever uses it learns why.
        let stored = || file.metadata().map_or(0, |m| m.blocks().saturating_mul(512));
        in_pages && self.policy.passes(stored(), data.len())
    }
}

/// Whether a device says that it does not turn (sysfs, `queue/rotational`). A partition's disk
/// says it.
fn is_solid(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = format!("/sys/dev/block/{major}:{minor}");
    let says = |queue: &str| std::fs::read_to_string(format!("{device}/{queue}/rotational")).ok();
    let turns = says("queue").or_else(|| says("../queue"));
    turns.is_some_and(|turns| turns.trim() == "0")
}

fn is_aligned(offset: u64) -> bool {
    offset.is_multiple_of(PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// What passes: large writes, and unless all of them should, those to objects that are large
    /// for the memory.
    #[test]
    fn what_passes() {
        let auto = CachePolicy::Auto { memory_bytes: 64 * GIB };
        let large = PAST_BYTES_MIN;
        for (policy, stored, len, passes) in [
            (CachePolicy::Keep, u64::MAX, usize::MAX, false),
            (CachePolicy::Direct, 0, large, true),
            (CachePolicy::Direct, 0, large - 1, false),
            (auto, GIB / 4, large, true),
            (auto, GIB / 4, large - 1, false),
            (auto, GIB / 4 - 1, large, false),
            (CachePolicy::Auto { memory_bytes: 0 }, 16 << 20, large, true),
            (CachePolicy::Auto { memory_bytes: 0 }, (16 << 20) - 1, large, false),
        ] {
            assert_eq!(policy.passes(stored, len), passes, "{policy:?} {stored} {len}");
        }
    }
}
