//! SEEK (69): RFC 7862 §15.11.

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{DataContent, SeekArgs, SeekOk},
};
use weft_state::IoAccess;
use weft_store::{
    types::{Content, Inode},
    volume::StuffedSeek,
};

use super::data_access::{may_access, regular_file};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, data_server_failure},
};

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
    may_access(mds, c, &inode, &stateid, IoAccess::Read)?;
    let inode = mds.refresh_attrs(c, inode).await?;
    // §15.11.3: beyond the end there is nothing to find, as lseek(2) has it at the end too.
    if a.offset >= inode.size {
        return Err(NfsStat::NXIO.into());
    }
    let (inode, found) = find(mds, c, inode, what, a.offset).await?;
    let ok = match found {
        Some(offset) => SeekOk { eof: false, offset },
        None => SeekOk { eof: true, offset: inode.size },
    };
    Ok(OpOk::Seek(ok))
}

/// What was found, and the inode it belongs to.
async fn find(
    mds: &Mds,
    c: &mut Compound<Mds>,
    mut inode: Inode,
    what: Content,
    offset: u64,
) -> Result<(Inode, Option<u64>), Failure> {
    if inode.stuffed {
        match c.see(mds.volume.seek_stuffed(inode.no, what, offset))? {
            Some(StuffedSeek { inode, found }) => return Ok((inode, found)),
            // It has left for its data servers since.
            None => inode = c.see(mds.volume.inode(inode.no))?,
        }
    }
    let found = match mds.striped(&inode) {
        Some(file) => {
            let found = mds.data_servers.seek(&file, what, offset, inode.size).await;
            found.map_err(data_server_failure)?
        }
        // Nothing was ever written.
        None => (what == Content::Hole).then_some(offset),
    };
    Ok((inode, found))
}
