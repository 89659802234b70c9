//! CLONE (71): RFC 7862 §15.13, where the file systems of the data servers can share blocks.

use weft_nfs::{Failure, NfsStat, OpOk, ops::CloneArgs};
use weft_server::compound::{Compound, OpResult};
use weft_state::IoAccess;
use weft_store::types::Inode;

use super::{
    attrs::MAX_FILE_BYTES,
    copy::saved_stateid,
    data_access::{may_access, may_write, regular_file, writer},
};
use crate::{files::CloneRange, server::Mds};

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
    let by = writer(mds, c, &destination)?;
    let admitted = mds.files.admit().await;
    let source = mds.files.refresh(&mut c.deps, source).await?;
    let destination = mds.files.refresh(&mut c.deps, destination).await?;
    let len = length(a, &source, &destination)?;
    if len == 0 {
        return Ok(OpOk::Clone);
    }
    let source = match source.stuffed {
        true => mds.files.on_data_servers(&mut c.deps, source).await?,
        false => source,
    };
    let beside = (&source, a.src_offset);
    mds.files.place_beside(&mut c.deps, beside, (destination, a.dst_offset)).await?;
    let destination = c.deps.see(mds.files.volume().inode(to.ino))?;
    let quiesced = mds.clients.quiesce(&admitted, by.client, &destination).await?;
    let range = CloneRange { source, from: a.src_offset, to: a.dst_offset, len };
    // Rare and large: not a part of every request's memory.
    Box::pin(mds.files.clone_range(&mut c.deps, quiesced, by, &range)).await?;
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
