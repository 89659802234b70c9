//! READLINK (27): RFC 8881 §18.24.

use weft_nfs::{NfsStat, OpOk, ops::ReadlinkOk};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::Kind;

use crate::server::Mds;

/// RFC 8881 §18.24. Other objects than symbolic links: WRONG_TYPE.
pub(super) fn readlink(mds: &Mds, c: &mut Compound<Mds>) -> OpResult {
    let inode = mds.current_inode(c)?;
    match inode.kind {
        Kind::Symlink => Ok(OpOk::Readlink(ReadlinkOk { link: inode.target })),
        _ => Err(NfsStat::WRONG_TYPE.into()),
    }
}
