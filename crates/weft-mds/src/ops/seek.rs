//! SEEK (69): RFC 7862 §15.11.

use weft_nfs::{
    NfsStat, OpOk,
    ops::{DataContent, SeekArgs, SeekOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::Content;

use super::data_access::{may_read, regular_file};
use crate::server::Mds;

/// RFC 7862 §15.11. Every file ends in a hole that does not count into its size.
pub(super) async fn seek(mds: &Mds, c: &mut Compound<Mds>, a: &SeekArgs) -> OpResult {
    let what = match a.what {
        DataContent::DATA => Content::Data,
        DataContent::HOLE => Content::Hole,
        _ => return Err(NfsStat::UNION_NOTSUPP.into()),
    };
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    let inode = may_read(mds, c, inode, &stateid).await?;
    let inode = mds.files.refresh(&mut c.deps, inode).await?;
    // §15.11.3: beyond the end there is nothing to find, as lseek(2) has it at the end too.
    if a.offset >= inode.size {
        return Err(NfsStat::NXIO.into());
    }
    let (inode, found) = mds.files.seek(&mut c.deps, inode, what, a.offset).await?;
    let ok = match found {
        Some(offset) => SeekOk { eof: false, offset },
        None => SeekOk { eof: true, offset: inode.size },
    };
    Ok(OpOk::Seek(ok))
}
