//! READ (25): RFC 8881 §18.22, on the indirect path (design D6).

use bytes::Bytes;
use weft_nfs::{
    OpOk,
    ops::{ReadArgs, ReadOk},
};
use weft_state::IoAccess;
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
    let inode = mds.settled(c, inode).await?;
    let available = inode.size.saturating_sub(a.offset);
    let len = u64::from(a.count).min(available).min(MAX_IO_BYTES);
    c.reserve_reply(len).await?;
    let data = match mds.striped(&inode) {
        Some(file) if len > 0 => {
            mds.data_servers.read(&file, a.offset, len).await.map_err(data_server_failure)?
        }
        _ => Bytes::from(vec![0; usize::try_from(len).unwrap_or(0)]),
    };
    mds.core.counters.read(data.len());
    let eof = a.offset.saturating_add(len) >= inode.size;
    Ok(OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }))
}
