//! ALLOCATE (59) and DEALLOCATE (62): RFC 7862 §15.1, §15.4.

use weft_nfs::{
    OpOk,
    ops::{AllocateArgs, DeallocateArgs},
};
use weft_server::compound::{Compound, OpResult};

use super::data_access::{end_of, may_write, regular_file, writer};
use crate::server::Mds;

/// RFC 7862 §15.1. The space is reserved on the data servers; the file grows to the end of the
/// range once all of it is.
pub(super) async fn allocate(mds: &Mds, c: &mut Compound<Mds>, a: &AllocateArgs) -> OpResult {
    let end = end_of(a.offset, a.length)?;
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    let by = writer(mds, c, &inode)?;
    mds.files.allocate(&mut c.deps, inode, by, (a.offset, end)).await?;
    Ok(OpOk::Allocate)
}

/// RFC 7862 §15.4. As with a truncation nobody else may be writing: what the hole swallows must
/// have been there before. The size is known before the hole is made, or the client comes again:
/// Linux 7.2 takes the end of the hole for that of the file until it is told the size behind it in
/// the same COMPOUND, and under a delegation it does not ask again.
pub(super) async fn deallocate(mds: &Mds, c: &mut Compound<Mds>, a: &DeallocateArgs) -> OpResult {
    end_of(a.offset, a.length)?;
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    let by = writer(mds, c, &inode)?;
    let admitted = mds.files.admit().await;
    let inode = match inode.stuffed {
        true => mds.files.on_data_servers(&mut c.deps, inode).await?,
        false => inode,
    };
    // A file that nobody writes is settled by this, so that no data server is asked again.
    let inode = mds.files.refresh(&mut c.deps, inode).await?;
    let quiesced = mds.clients.quiesce(&admitted, by.client, &inode).await?;
    let inode = c.deps.see(mds.files.volume().inode(inode.no))?;
    mds.files.refresh(&mut c.deps, inode).await?;
    mds.files.punch(&mut c.deps, quiesced, by, (a.offset, a.length)).await?;
    Ok(OpOk::Deallocate)
}
