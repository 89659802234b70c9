//! CLONE (71): RFC 7862 §15.13, where the file systems of the data servers can share blocks.

use weft_nfs::{Failure, NfsStat, OpOk, ops::CloneArgs};
use weft_state::IoAccess;
use weft_store::types::{Inode, InodeNo};

use super::{
    copy::{place_beside, saved_stateid},
    data_access::{changed, may_access, may_write, regular_file},
    setattr::quiesce,
};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::MAX_FILE_BYTES, data_server_failure},
};

/// Offsets and lengths must be multiples of it: the block of the file systems that can share
/// (§15.13.3; `clone_blksize`).
const BLOCK_BYTES: u64 = 4096;

/// RFC 7862 §15.13. Nobody writes to the destination meanwhile; readers may see one data server's
/// part before another's.
///
/// NOTSUPP where blocks cannot be shared, XDEV where the stripes do not line up: clients copy then.
pub(super) async fn clone(mds: &Mds, c: &mut Compound<Mds>, a: &CloneArgs) -> OpResult {
    let (from, to) = (c.saved_handle()?, c.handle()?);
    let (source, destination) = (regular_file(mds, c, &from)?, regular_file(mds, c, &to)?);
    let src_stateid = saved_stateid(c, a.src_stateid)?;
    may_access(mds, c, &source, &src_stateid, IoAccess::Read)?;
    let dst_stateid = c.stateid(a.dst_stateid)?;
    let _undelegated = may_write(mds, c, &destination, &dst_stateid).await?;
    mds.volume.admit().await;
    let source = mds.refresh_attrs(c, source).await?;
    let destination = mds.refresh_attrs(c, destination).await?;
    let len = length(a, &source, &destination)?;
    if len == 0 {
        return Ok(OpOk::Clone);
    }
    let source = if source.stuffed { mds.on_data_servers(c, source).await?.0 } else { source };
    place_beside(mds, c, (&source, a.src_offset), (destination, a.dst_offset)).await?;
    let destination = c.see(mds.volume.inode(to.ino))?;
    if !mds.files.lock().try_begin_truncation(&destination) {
        return Err(NfsStat::DELAY.into());
    }
    let shared = match quiesce(mds, c, to.ino).await {
        Ok(()) => share(mds, c, &source, to.ino, a, len).await,
        Err(busy) => Err(busy),
    };
    mds.files.lock().end_truncation(to.ino);
    shared?;
    Ok(OpOk::Clone)
}

/// §15.13.3: how much is cloned; a count of 0 means to the end of the source.
fn length(a: &CloneArgs, source: &Inode, destination: &Inode) -> Result<u64, Failure> {
    let left = source.size.checked_sub(a.src_offset).filter(|left| a.count <= *left);
    let left = left.ok_or(NfsStat::INVAL)?;
    let len = if a.count == 0 { left } else { a.count };
    let end = a.dst_offset.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES);
    let end = end.ok_or(NfsStat::FBIG)?;
    // Part of a block only where both files end.
    let whole = len.is_multiple_of(BLOCK_BYTES) || (len == left && end >= destination.size);
    let aligned = |offset: u64| offset.is_multiple_of(BLOCK_BYTES);
    if !whole || !aligned(a.src_offset) || !aligned(a.dst_offset) {
        return Err(NfsStat::INVAL.into());
    }
    let apart = a.src_offset.abs_diff(a.dst_offset) >= len;
    if source.no == destination.no && !apart {
        return Err(NfsStat::INVAL.into());
    }
    Ok(len)
}

async fn share(
    mds: &Mds,
    c: &mut Compound<Mds>,
    source: &Inode,
    ino: InodeNo,
    a: &CloneArgs,
    len: u64,
) -> Result<(), Failure> {
    let (from, to) = (a.src_offset, a.dst_offset);
    mds.mark_extending(ino, to + len).await?;
    // Its placement and epoch may be others by now.
    let inode = c.see(mds.volume.inode(ino))?;
    let target = mds.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
    let shared = match mds.striped(source) {
        Some(origin) if origin.lines_up(from, &target, to) => {
            mds.data_servers.clone_range(&origin, from, &target, to, len).await
        }
        Some(_) => return Err(NfsStat::XDEV.into()),
        // A source that was never written is one hole.
        None => mds.data_servers.punch(&target, to, len).await,
    };
    mds.note_outcome(&inode, &shared);
    // After a failure some data servers may have done their part.
    let end = if shared.is_ok() { to + len } else { 0 };
    changed(mds, c, &inode, end)?;
    shared.map_err(data_server_failure)
}
