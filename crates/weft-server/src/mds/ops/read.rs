//! READ (25): RFC 8881 §18.22: from the volume while the file is small (design D17), else on the
//! indirect path (D6).

use bytes::Bytes;
use weft_nfs::{
    Failure, OpOk,
    ops::{ReadArgs, ReadOk},
};
use weft_state::IoAccess;
use weft_store::types::Inode;
use weft_xdr::Payload;

use super::data_access::may_access;
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::MAX_IO_BYTES, data_server_failure},
};

/// RFC 8881 §18.22. Holes, and files that were never written, read as zeros.
pub(super) async fn read(mds: &Mds, c: &mut Compound<Mds>, a: &ReadArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    let stateid = c.stateid(a.stateid)?;
    may_access(mds, c, &inode, &stateid, IoAccess::Read)?;
    let inode = mds.refresh_attrs(c, inode).await?;
    let available = inode.size.saturating_sub(a.offset);
    let len = u64::from(a.count).min(available).min(MAX_IO_BYTES);
    c.reserve_reply(len).await?;
    let (inode, data) = bytes(mds, c, inode, a.offset, len).await?;
    mds.core.counters.read(data.len());
    let eof = a.offset.saturating_add(data.len() as u64) >= inode.size;
    Ok(OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }))
}

/// The bytes, and the inode they belong to.
async fn bytes(
    mds: &Mds,
    c: &mut Compound<Mds>,
    mut inode: Inode,
    offset: u64,
    len: u64,
) -> Result<(Inode, Bytes), Failure> {
    if inode.stuffed {
        match c.see(mds.volume.read_stuffed(inode.no, offset, len))? {
            Some(found) => return Ok(found),
            // It has left for its data servers since.
            None => inode = c.see(mds.volume.inode(inode.no))?,
        }
    }
    let data = match mds.striped(&inode) {
        Some(file) if len > 0 => {
            mds.data_servers.read(&file, offset, len).await.map_err(data_server_failure)?
        }
        _ => Bytes::from(vec![0; usize::try_from(len).unwrap_or(0)]),
    };
    Ok((inode, data))
}
