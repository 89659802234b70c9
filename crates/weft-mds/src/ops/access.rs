//! ACCESS (3): RFC 8881 §18.1, RFC 8276 §8.5.

use weft_nfs::{
    OpOk, access,
    ops::{AccessArgs, AccessOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::{Credential, Inode, Kind, Rwx};

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

/// Of a directory: changing entries is removing and adding, extending it adding anything (§18.1.3).
fn granted(inode: &Inode, cred: &Credential) -> u32 {
    let rights = inode.rights(cred);
    let (is_dir, allowed) = (inode.is_directory(), rights.rwx());
    let writes = allowed.contains(Rwx::WRITE);
    let of = |may, right| if may { right } else { 0 };
    of(allowed.contains(Rwx::READ), access::READ)
        | of(writes && (!is_dir || rights.may_remove()), access::MODIFY)
        | of(writes, access::EXTEND)
        | of(is_dir && rights.may_remove(), access::DELETE)
        | of(!is_dir && allowed.contains(Rwx::EXECUTE), access::EXECUTE)
        | of(is_dir && allowed.contains(Rwx::EXECUTE), access::LOOKUP)
        | of(rights.may_read_xattrs(), access::XAREAD | access::XALIST)
        | of(rights.change_xattrs().is_ok(), access::XAWRITE)
}
