//! What operations change of an inode in the same way: its times and its change counter, and a
//! directory's counts of what is in it.

use crate::types::{ChangeInfo, Inode, InodeNo, StoreError, Timestamp};
use crate::volume::check::DEPTH_MAX;
use crate::volume::tx::Tx;

/// Something about the inode changed at `now`.
pub(super) fn touch(inode: &mut Inode, now: Timestamp) {
    inode.ctime = now;
    inode.change += 1;
}

/// The entries of a directory changed at `now`.
pub(super) fn touch_entries(dir: &mut Inode, now: Timestamp) -> ChangeInfo {
    let before = dir.change;
    dir.mtime = now;
    touch(dir, now);
    ChangeInfo { before, after: dir.change }
}

/// A directory whose entries stayed as they were.
pub(super) fn untouched(dir: &Inode) -> ChangeInfo {
    ChangeInfo { before: dir.change, after: dir.change }
}

/// The next cookie of a directory, used up.
pub(super) fn take_cookie(dir: &mut Inode) -> u64 {
    let cookie = dir.next_cookie;
    dir.next_cookie += 1;
    cookie
}

/// An entry less; its directory lost a subdirectory if `was_directory`.
pub(super) fn forget_entry(dir: &mut Inode, was_directory: bool) -> Result<(), StoreError> {
    let links = u32::from(was_directory);
    let counts = (dir.entries.checked_sub(1), dir.nlink.checked_sub(links));
    let (Some(entries), Some(nlink)) = counts else {
        return Err(StoreError::Corrupt("directory counts"));
    };
    (dir.entries, dir.nlink) = (entries, nlink);
    Ok(())
}

/// Whether `dir` is `ancestor` or below it. Bounded: a chain deeper than
/// [`DEPTH_MAX`] is refused as [`StoreError::Invalid`].
pub(super) fn is_below(
    tx: &mut Tx<'_>,
    dir: &Inode,
    ancestor: InodeNo,
) -> Result<bool, StoreError> {
    let (mut at, mut above) = (dir.no, dir.parent);
    for _ in 0..DEPTH_MAX {
        if at == ancestor {
            return Ok(true);
        }
        if at == InodeNo::ROOT {
            return Ok(false);
        }
        at = above;
        above = tx.parent(at)?;
    }
    Err(StoreError::Invalid)
}
