//! CLONE (71): RFC 7862 §15.13.

use weft_nfs::{Failure, NfsStat, OpOk, ops::CloneArgs};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::Inode;

use super::{
    attrs::MAX_FILE_BYTES,
    copy::{make_way, saved_stateid},
    data_access::{may_read, may_write, regular_file, writer},
};
use crate::{
    files::{CLONE_BLOCK_BYTES, CloneRange},
    server::Mds,
};

/// RFC 7862 §15.13. Nobody writes to the destination meanwhile; readers may see one part before
/// another. What data servers cannot share is copied.
///
/// NOTSUPP where none of them can share anything: clients copy then (Linux for as long as it is
/// mounted: `nfs42_proc_clone`). XDEV while that is not known.
pub(super) async fn clone(mds: &Mds, c: &mut Compound<Mds>, a: &CloneArgs) -> OpResult {
    let (from, to) = (c.saved_handle()?, c.handle()?);
    let (source, destination) = (regular_file(mds, c, &from)?, regular_file(mds, c, &to)?);
    let src_stateid = saved_stateid(c, a.src_stateid)?;
    let source = may_read(mds, c, source, &src_stateid).await?;
    let dst_stateid = c.stateid(a.dst_stateid)?;
    let _undelegated = may_write(mds, c, &destination, &dst_stateid).await?;
    let by = writer(mds, c, &destination)?;
    let admitted = mds.files.admit().await;
    let source = mds.files.refresh(&mut c.deps, source).await?;
    let destination = mds.files.refresh(&mut c.deps, destination).await?;
    let len = length(a, &source, &destination)?;
    // Rare and large, as the rest: not a part of every request's memory.
    match Box::pin(mds.files.share_blocks()).await {
        Some(true) => {}
        Some(false) => return Err(NfsStat::NOTSUPP.into()),
        // Nobody waits for a data server that his files may not be on: he copies this time.
        None => return Err(NfsStat::XDEV.into()),
    }
    if len == 0 {
        return Ok(OpOk::Clone);
    }
    let beside = (&source, a.src_offset);
    make_way(mds, c, beside, (destination, a.dst_offset), len).await?;
    let destination = c.deps.see(mds.files.volume().inode(to.ino))?;
    let quiesced = mds.clients.quiesce(&admitted, by.client, &destination).await?;
    let range = CloneRange { source: source.no, from: a.src_offset, to: a.dst_offset, len };
    Box::pin(mds.files.clone_range(&mut c.deps, quiesced, by, range)).await?;
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
    let whole = len.is_multiple_of(CLONE_BLOCK_BYTES) || (len == left && end >= destination.size);
    let aligned = |offset: u64| offset.is_multiple_of(CLONE_BLOCK_BYTES);
    if !whole || !aligned(a.src_offset) || !aligned(a.dst_offset) {
        return Err(NfsStat::INVAL.into());
    }
    let apart = a.src_offset.abs_diff(a.dst_offset) >= len;
    if source.no == destination.no && !apart {
        return Err(NfsStat::INVAL.into());
    }
    Ok(len)
}
