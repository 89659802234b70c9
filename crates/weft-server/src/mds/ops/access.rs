//! ACCESS (3): RFC 8881 §18.1.

use weft_nfs::{
    OpOk, access,
    ops::{AccessArgs, AccessOk},
};
use weft_store::types::{Inode, Rwx};

use crate::{
    compound::{Compound, OpResult},
    mds::Mds,
};

/// RFC 8881 §18.1. Rights not known here (xattr ones) are left out of `supported`.
pub(super) fn access(mds: &Mds, c: &mut Compound<Mds>, a: &AccessArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let allowed = inode.allowed(&mds.credential(c));
    let supported = a.access & meaningful(&inode);
    let granted = supported & granted(&inode, allowed);
    Ok(OpOk::Access(AccessOk { supported, access: granted }))
}

fn meaningful(inode: &Inode) -> u32 {
    let common = access::READ | access::MODIFY | access::EXTEND;
    if inode.is_directory() {
        common | access::LOOKUP | access::DELETE
    } else {
        common | access::EXECUTE
    }
}

fn granted(inode: &Inode, allowed: Rwx) -> u32 {
    let mut out = 0;
    if allowed.contains(Rwx::READ) {
        out |= access::READ;
    }
    if allowed.contains(Rwx::WRITE) {
        out |= access::MODIFY | access::EXTEND;
        if inode.is_directory() {
            out |= access::DELETE;
        }
    }
    if allowed.contains(Rwx::EXECUTE) {
        out |= if inode.is_directory() { access::LOOKUP } else { access::EXECUTE };
    }
    out
}
