//! What every operation asks before it changes anything: is the name good, may this user do it.

use crate::types::{Acl, Credential, Inode, Kind, Rwx, StoreError, Timestamp};

/// Longest name of an entry, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symlink, in bytes (one page, as Linux).
pub const TARGET_BYTES_MAX: usize = 4096;
/// Largest file size in bytes: offsets are signed in every client.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Most names an inode may have: NFS counts them in 32 bits, some clients in 31.
pub const LINKS_MAX: u32 = i32::MAX as u32;
/// Deepest directory that another may be moved below. Bounds the search for a cycle, during which
/// nobody else gets anything done: less than half a millisecond. A path of Linux (4096 bytes) goes
/// deeper only with names of less than four letters.
pub const DEPTH_MAX: usize = 1000;

/// A name that can be an entry: 1..=255 bytes, no slash or NUL, neither "." nor "..".
pub(super) fn name(name: &[u8]) -> Result<(), StoreError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(StoreError::NameTooLong);
    }
    let dots = name == b"." || name == b"..";
    if name.is_empty() || dots || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(StoreError::BadName);
    }
    Ok(())
}

pub(super) fn size(size: u64) -> Result<(), StoreError> {
    if size > FILE_BYTES_MAX { Err(StoreError::TooBig) } else { Ok(()) }
}

pub(super) fn time(time: Timestamp) -> Result<(), StoreError> {
    if time.is_valid() { Ok(()) } else { Err(StoreError::Invalid) }
}

/// Mode or list must allow `wanted`.
pub(super) fn require(inode: &Inode, cred: &Credential, wanted: Rwx) -> Result<(), StoreError> {
    if inode.allowed(cred).contains(wanted) { Ok(()) } else { Err(StoreError::Access) }
}

/// Adding an entry for something of this kind.
pub(super) fn may_add(dir: &Inode, kind: Kind, cred: &Credential) -> Result<(), StoreError> {
    let may = dir.rights(cred).may_add(kind == Kind::Directory);
    if may { Ok(()) } else { Err(StoreError::Access) }
}

/// Removing an entry.
pub(super) fn may_remove(dir: &Inode, victim: &Inode, cred: &Credential) -> Result<(), StoreError> {
    dir.rights(cred).remove(victim.rights(cred))
}

/// A list that something of this kind can have: symbolic links have none, and only what is made in
/// a directory inherits.
pub(super) fn acl(acl: &Acl, kind: Kind) -> Result<(), StoreError> {
    match kind {
        Kind::Symlink => Err(StoreError::NoAcl),
        Kind::Directory => Ok(()),
        _ if acl.speaks_of_inheritance() => Err(StoreError::Invalid),
        _ => Ok(()),
    }
}

/// One more name must be countable.
pub(super) fn linkable(inode: &Inode) -> Result<(), StoreError> {
    if inode.nlink >= LINKS_MAX { Err(StoreError::TooManyLinks) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SetIdLoss;

    #[test]
    fn names_are_checked_on_both_sides_of_each_limit() {
        // 255 bytes and any byte but slash and NUL are a name; 256 bytes and the rest are not.
        assert_eq!(name(&[b'x'; 255]), Ok(()));
        assert_eq!(name(&[b'x'; 256]), Err(StoreError::NameTooLong));
        for good in [&b"..."[..], b".a", b"\xff\xfe", b" ", b"a\nb"] {
            assert_eq!(name(good), Ok(()), "{good:?}");
        }
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(name(bad), Err(StoreError::BadName), "{bad:?}");
        }
    }

    #[test]
    fn set_id_bits_go_as_linux_takes_them() {
        // Linux since 6.2: set-user-id goes; set-group-id where it is a privilege, and where
        // somebody else than a member of the group, or the superuser, writes.
        for (mode, by_member, by_stranger) in [
            (0o6755, 0o755, 0o755),
            (0o6745, 0o2745, 0o745),
            (0o2666, 0o2666, 0o666),
            (0o1777, 0o1777, 0o1777),
        ] {
            assert_eq!(SetIdLoss::Nothing.of(mode), mode);
            assert_eq!(SetIdLoss::Privileges.of(mode), by_member);
            assert_eq!(SetIdLoss::All.of(mode), by_stranger);
        }
    }
}
