//! ACCESS (3): RFC 8881 §18.1, RFC 8276 §8.5.

use weft_nfs::{
    OpOk, access,
    ops::{AccessArgs, AccessOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::{Credential, Inode, Kind, MODE_STICKY, Rwx};

use crate::server::Mds;

/// RFC 8881 §18.1. Rights not known here are left out of `supported`.
pub(super) fn access(mds: &Mds, c: &mut Compound<Mds>, a: &AccessArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let cred = mds.credential(c);
    let mut supported = a.access & meaningful(&inode);
    // RFC 8276 extends 4.2 alone.
    if c.minorversion < 2 {
        supported &= !XATTR_RIGHTS;
    }
    let mut granted = granted(&inode, &cred);
    if c.view.writable().is_err() {
        granted &= !CHANGES;
    }
    Ok(OpOk::Access(AccessOk { supported, access: supported & granted }))
}

/// Rights that nobody has where nothing may be changed.
const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE | access::XAWRITE;
const XATTR_RIGHTS: u32 = access::XAREAD | access::XAWRITE | access::XALIST;

fn meaningful(inode: &Inode) -> u32 {
    let common = access::READ | access::MODIFY | access::EXTEND;
    match inode.kind {
        Kind::Directory => common | access::LOOKUP | access::DELETE | XATTR_RIGHTS,
        Kind::File => common | access::EXECUTE | XATTR_RIGHTS,
        _ => common | access::EXECUTE,
    }
}

fn granted(inode: &Inode, cred: &Credential) -> u32 {
    let allowed = inode.allowed(cred);
    let mut out = 0;
    if allowed.contains(Rwx::READ) {
        out |= access::READ | access::XAREAD | access::XALIST;
    }
    if allowed.contains(Rwx::WRITE) {
        out |= access::MODIFY | access::EXTEND;
        if inode.is_directory() {
            out |= access::DELETE;
        }
        if may_change_xattrs(inode, cred) {
            out |= access::XAWRITE;
        }
    }
    if allowed.contains(Rwx::EXECUTE) {
        out |= if inode.is_directory() { access::LOOKUP } else { access::EXECUTE };
    }
    out
}

/// Extended attributes of a sticky directory are its owner's to change.
fn may_change_xattrs(inode: &Inode, cred: &Credential) -> bool {
    let owner = cred.is_superuser() || cred.uid == inode.uid;
    owner || !inode.is_directory() || inode.mode & MODE_STICKY == 0
}
