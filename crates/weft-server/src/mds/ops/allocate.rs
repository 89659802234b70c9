//! ALLOCATE (59) and DEALLOCATE (62): RFC 7862 §15.1, §15.4.

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{AllocateArgs, DeallocateArgs},
};
use weft_store::types::InodeNo;

use super::{
    data_access::{changed, end_of, may_write, regular_file},
    setattr::quiesce,
};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, data_server_failure},
};

/// RFC 7862 §15.1. The space is reserved on the data servers, each for its own stripe units; the
/// file grows to the end of the range once all of it is.
pub(super) async fn allocate(mds: &Mds, c: &mut Compound<Mds>, a: &AllocateArgs) -> OpResult {
    let end = end_of(a.offset, a.length)?;
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    mds.volume.admit().await;
    let _writing = mds.files.begin_write(&inode).ok_or(NfsStat::DELAY)?;
    let inode = mds.with_fresh_epoch(inode).await?;
    let (inode, striped) = mds.on_data_servers(c, inode).await?;
    let reserved = mds.data_servers.allocate(&striped, a.offset, end).await;
    reserved.map_err(data_server_failure)?;
    changed(mds, c, &inode, end)?;
    Ok(OpOk::Allocate)
}

/// RFC 7862 §15.4. As with a truncation nobody else may be writing: what the hole swallows must
/// have been there before.
pub(super) async fn deallocate(mds: &Mds, c: &mut Compound<Mds>, a: &DeallocateArgs) -> OpResult {
    end_of(a.offset, a.length)?;
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    mds.volume.admit().await;
    let inode = if inode.stuffed { mds.on_data_servers(c, inode).await?.0 } else { inode };
    if !mds.files.lock().try_begin_truncation(&inode) {
        return Err(NfsStat::DELAY.into());
    }
    let punched = match quiesce(mds, c, inode.no).await {
        Ok(()) => punch(mds, c, inode.no, a).await,
        Err(busy) => Err(busy),
    };
    mds.files.lock().end_truncation(inode.no);
    punched?;
    Ok(OpOk::Deallocate)
}

async fn punch(
    mds: &Mds,
    c: &mut Compound<Mds>,
    ino: InodeNo,
    a: &DeallocateArgs,
) -> Result<(), Failure> {
    // Its placement and epoch may be others by now.
    let inode = c.see(mds.volume.inode(ino))?;
    let Some(striped) = mds.striped(&inode) else { return Ok(()) };
    let punched = mds.data_servers.punch(&striped, a.offset, a.length).await;
    mds.note_outcome(&inode, &punched);
    // Some of it may be gone even so.
    changed(mds, c, &inode, 0)?;
    punched.map_err(data_server_failure)
}
