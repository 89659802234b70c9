//! READ (25): RFC 8881 §18.22: from the volume while the file is small (design D17), else on the
//! indirect path (design D6).

use weft_nfs::{
    OpOk,
    ops::{ReadArgs, ReadOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_xdr::Payload;

use super::{attrs::MAX_IO_BYTES, data_access::may_read};
use crate::server::Mds;

/// RFC 8881 §18.22. Holes, and files that were never written, read as zeros.
pub(super) async fn read(mds: &Mds, c: &mut Compound<Mds>, a: &ReadArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    let stateid = c.stateid(a.stateid)?;
    let inode = may_read(mds, c, inode, &stateid).await?;
    let inode = mds.files.refresh(&mut c.deps, inode).await?;
    let available = inode.size.saturating_sub(a.offset);
    let len = u64::from(a.count).min(available).min(MAX_IO_BYTES);
    mds.admin.note_io(c.client().ok(), &inode, (a.offset, len));
    c.reserve_reply(len).await?;
    let (inode, data) = mds.files.read(&mut c.deps, inode, a.offset, len).await?;
    mds.core.counters.read(data.len());
    let eof = a.offset.saturating_add(data.len() as u64) >= inode.size;
    Ok(OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }))
}
