//! LOOKUP (15) and LOOKUPP (16): RFC 8881 §18.13, §18.14.

use weft_nfs::{Failure, NfsStat, OpOk, ops::LookupArgs};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::{InodeNo, Kind};

use super::attrs::MAX_NAME_BYTES;
use crate::server::Mds;

/// A component as the store takes it.
///
/// # Errors
/// INVAL for an empty one, NAMETOOLONG, BADNAME for "." and "..", BADCHAR for what no name may
/// contain (RFC 8881 §14.5, §15.1.7).
pub(super) fn checked_name(name: &weft_nfs::Component) -> Result<&[u8], Failure> {
    let bytes = name.0.as_ref();
    if bytes.is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    if bytes.len() > MAX_NAME_BYTES as usize {
        return Err(NfsStat::NAMETOOLONG.into());
    }
    if bytes == b"." || bytes == b".." {
        return Err(NfsStat::BADNAME.into());
    }
    if bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(NfsStat::BADCHAR.into());
    }
    Ok(bytes)
}

/// The number of the current filehandle, which must be a directory.
///
/// # Errors
/// NOFILEHANDLE, STALE, NOTDIR.
pub(super) fn current_directory(mds: &Mds, c: &mut Compound<Mds>) -> Result<InodeNo, Failure> {
    let inode = mds.current_inode(c)?;
    if inode.is_directory() { Ok(inode.no) } else { Err(NfsStat::NOTDIR.into()) }
}

/// The same for operations that tell a symbolic link apart (RFC 8881 §15.2).
///
/// # Errors
/// NOFILEHANDLE, STALE, NOTDIR, SYMLINK.
pub(super) fn directory_not_symlink(mds: &Mds, c: &mut Compound<Mds>) -> Result<InodeNo, Failure> {
    let inode = mds.current_inode(c)?;
    match inode.kind {
        Kind::Directory => Ok(inode.no),
        Kind::Symlink => Err(NfsStat::SYMLINK.into()),
        _ => Err(NfsStat::NOTDIR.into()),
    }
}

/// RFC 8881 §18.13.
pub(super) fn lookup(mds: &Mds, c: &mut Compound<Mds>, a: &LookupArgs) -> OpResult {
    let dir = directory_not_symlink(mds, c)?;
    let name = checked_name(&a.name)?;
    let cred = mds.credential(c);
    let found = c.deps.see(mds.files.volume().lookup(dir, name, &cred))?;
    c.set_current(mds.files.handle(found.no));
    Ok(OpOk::Lookup)
}

/// RFC 8881 §18.14. The root has no parent: NOENT.
pub(super) fn lookupp(mds: &Mds, c: &mut Compound<Mds>) -> OpResult {
    let dir = directory_not_symlink(mds, c)?;
    if dir == InodeNo::ROOT {
        return Err(NfsStat::NOENT.into());
    }
    let cred = mds.credential(c);
    let parent = c.deps.see(mds.files.volume().parent(dir, &cred))?;
    c.set_current(mds.files.handle(parent.no));
    Ok(OpOk::Lookupp)
}
