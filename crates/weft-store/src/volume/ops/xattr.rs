//! Extended attributes: names and values that applications keep with a file or directory.
//!
//! The names of one inode are one record, in the order they were made; each value is a record of
//! its own. The inode says whether there are any, so that inodes without cost nothing.

use bytes::Bytes;

use super::inode_changes::touch;
use super::layout;
use crate::types::{
    ChangeInfo, Credential, Inode, InodeNo, Kind, LAYOUT_XATTR, StoreError, Timestamp,
};
use crate::volume::codec::XattrName;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;
use crate::volume::{codec, keys};

/// Longest name of an extended attribute, in bytes.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute, in bytes (as Linux).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Most bytes that the values of one inode take together.
pub const XATTR_VALUES_BYTES_MAX: usize = 1 << 20;
/// Most bytes that the names of one inode take together, each with `NAME_OVERHEAD_BYTES`.
pub const XATTR_NAMES_BYTES_MAX: usize = 64 << 10;
/// What a name takes in the list of a Linux program beyond itself ("user." and the NUL): a list
/// that does not fit 64 KiB could never be read there.
const NAME_OVERHEAD_BYTES: usize = 6;
/// Cookie of the name of the layout, which is listed first: those of others begin at 2.
const LAYOUT_COOKIE: u64 = 1;

/// Whether an extended attribute must be there before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrHow {
    /// It does not matter.
    Either,
    /// It must not.
    Create,
    /// The attribute must exist.
    Replace,
}

/// One name of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrEntry {
    /// Where to go on after this name; ascending, never 0, never used again in this inode.
    pub cookie: u64,
    /// Name of the attribute.
    pub name: Bytes,
}

impl Volume {
    /// The value of an extended attribute.
    ///
    /// **Errors.** NameTooLong, BadName; Stale, WrongType; Access without read permission; NoXattr.
    pub fn xattr_get(
        &self,
        ino: InodeNo,
        name: &[u8],
        cred: &Credential,
    ) -> Seen<Result<Bytes, StoreError>> {
        self.run(|tx| {
            checked_name(name)?;
            let inode = holder(tx, ino)?;
            readable(&inode, cred)?;
            if name == LAYOUT_XATTR {
                return layout::words(tx, &inode);
            }
            if !inode.has_xattrs {
                return Err(StoreError::NoXattr);
            }
            let raw = tx.get(keys::xattr_value(ino, name))?.ok_or(StoreError::NoXattr)?;
            codec::decode_opaque("extended attribute", &raw)
        })
    }

    /// Sets an extended attribute; the same value again is a change as well.
    ///
    /// That of the layout is no application's ([`LAYOUT_XATTR`]): it is the owner's to set, of
    /// directories, and what it says is checked.
    ///
    /// **Errors.** NameTooLong, BadName, XattrTooBig (the value); Stale, WrongType; Invalid (a
    /// layout); Access without write permission; Permission (a sticky directory of somebody else, a
    /// layout by another than the owner); Exists, NoXattr (`how`); XattrTooBig (with the others of
    /// the inode).
    pub fn xattr_set(
        &self,
        ino: InodeNo,
        (name, value): (&[u8], &[u8]),
        how: XattrHow,
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<ChangeInfo, StoreError>> {
        self.run(|tx| {
            checked_name(name)?;
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(StoreError::XattrTooBig);
            }
            if name == LAYOUT_XATTR {
                let dir = layout::own_directory(holder(tx, ino)?, cred)?;
                as_expected(dir.layout.is_some(), how)?;
                return layout::set(tx, dir, value, now);
            }
            let inode = changeable(tx, ino, cred)?;
            set(tx, inode, (name, value), how, now)
        })
    }

    /// The names of an inode's extended attributes whose cookies are above `after` (0: all), in the
    /// order they were made.
    ///
    /// **Errors.** Stale; Access without read permission.
    pub fn xattr_list(
        &self,
        ino: InodeNo,
        after: u64,
        cred: &Credential,
    ) -> Seen<Result<Vec<XattrEntry>, StoreError>> {
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            readable(&inode, cred)?;
            let layout = layout::is_listed(&inode).then_some(XattrEntry {
                cookie: LAYOUT_COOKIE,
                name: Bytes::from_static(LAYOUT_XATTR),
            });
            let own = names(tx, &inode)?.into_iter();
            let own = own.map(|XattrName { cookie, name, .. }| XattrEntry { cookie, name });
            Ok(layout.into_iter().chain(own).filter(|entry| entry.cookie > after).collect())
        })
    }

    /// Removes an extended attribute.
    ///
    /// **Errors.** NameTooLong, BadName; Stale, WrongType; Invalid (the layout of a file); Access
    /// without write permission; Permission (a sticky directory of somebody else, a layout by
    /// another than the owner); NoXattr.
    pub fn xattr_remove(
        &self,
        ino: InodeNo,
        name: &[u8],
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<ChangeInfo, StoreError>> {
        self.run(|tx| {
            checked_name(name)?;
            if name == LAYOUT_XATTR {
                let dir = layout::own_directory(holder(tx, ino)?, cred)?;
                return layout::remove(tx, dir, now);
            }
            let inode = changeable(tx, ino, cred)?;
            let mut names = names(tx, &inode)?;
            let at = names.iter().position(|n| n.name == name).ok_or(StoreError::NoXattr)?;
            names.remove(at);
            tx.delete(keys::xattr_value(ino, name));
            Ok(keep(tx, inode, &names, now))
        })
    }
}

/// Any bytes but NUL: a slash means nothing here.
fn checked_name(name: &[u8]) -> Result<(), StoreError> {
    if name.len() > XATTR_NAME_BYTES_MAX {
        return Err(StoreError::NameTooLong);
    }
    if name.is_empty() || name.contains(&0) { Err(StoreError::BadName) } else { Ok(()) }
}

/// An inode that can have extended attributes: a file or a directory.
fn holder(tx: &mut Tx<'_>, ino: InodeNo) -> Result<Inode, StoreError> {
    let inode = tx.inode(ino)?;
    match inode.kind {
        Kind::File | Kind::Directory => Ok(inode),
        _ => Err(StoreError::WrongType),
    }
}

/// One whose extended attributes `cred` may change. What everybody may write to is still the
/// owner's where the sticky bit says so.
fn changeable(tx: &mut Tx<'_>, ino: InodeNo, cred: &Credential) -> Result<Inode, StoreError> {
    let inode = holder(tx, ino)?;
    inode.rights(cred).change_xattrs().map(|()| inode)
}

fn readable(inode: &Inode, cred: &Credential) -> Result<(), StoreError> {
    if inode.rights(cred).may_read_xattrs() { Ok(()) } else { Err(StoreError::Access) }
}

fn names(tx: &mut Tx<'_>, inode: &Inode) -> Result<Vec<XattrName>, StoreError> {
    if !inode.has_xattrs {
        return Ok(Vec::new());
    }
    let missing = StoreError::Corrupt("extended attribute names");
    let raw = tx.get(keys::xattr_names(inode.no))?.ok_or(missing)?;
    codec::decode_xattr_names(&raw)
}

fn set(
    tx: &mut Tx<'_>,
    inode: Inode,
    (name, value): (&[u8], &[u8]),
    how: XattrHow,
    now: Timestamp,
) -> Result<ChangeInfo, StoreError> {
    let mut names = names(tx, &inode)?;
    let key = keys::xattr_value(inode.no, name);
    let encoded = codec::encode_opaque(value);
    let value_bytes = u32::try_from(value.len()).map_err(|_| StoreError::XattrTooBig)?;
    as_expected(names.iter().any(|n| n.name == name), how)?;
    match names.iter_mut().find(|n| n.name == name) {
        Some(there) => there.value_bytes = value_bytes,
        // The change attribute moves with every new name, so it numbers them, from 2 on.
        None => names.push(XattrName {
            cookie: inode.change + 1,
            value_bytes,
            name: Bytes::copy_from_slice(name),
        }),
    }
    let values: usize = names.iter().map(|n| n.value_bytes as usize).sum();
    let listed: usize = names.iter().map(|n| n.name.len() + NAME_OVERHEAD_BYTES).sum();
    if values > XATTR_VALUES_BYTES_MAX || listed > XATTR_NAMES_BYTES_MAX {
        return Err(StoreError::XattrTooBig);
    }
    tx.put(key, encoded);
    Ok(keep(tx, inode, &names, now))
}

/// Whether one that is there, or not, may be set.
fn as_expected(is_there: bool, how: XattrHow) -> Result<(), StoreError> {
    match (is_there, how) {
        (true, XattrHow::Create) => Err(StoreError::Exists),
        (false, XattrHow::Replace) => Err(StoreError::NoXattr),
        _ => Ok(()),
    }
}

/// Writes the names and the inode that has them.
fn keep(tx: &mut Tx<'_>, mut inode: Inode, names: &[XattrName], now: Timestamp) -> ChangeInfo {
    let before = inode.change;
    touch(&mut inode, now);
    inode.has_xattrs = !names.is_empty();
    let key = keys::xattr_names(inode.no);
    if inode.has_xattrs {
        tx.put(key, codec::encode_xattr_names(names));
    } else {
        tx.delete(key);
    }
    tx.put_inode(&inode);
    ChangeInfo { before, after: inode.change }
}

/// The inode goes, and its extended attributes with it.
pub(super) fn forget(tx: &mut Tx<'_>, inode: &Inode) -> Result<(), StoreError> {
    if !inode.has_xattrs {
        return Ok(());
    }
    for name in names(tx, inode)? {
        tx.delete(keys::xattr_value(inode.no, &name.name));
    }
    tx.delete(keys::xattr_names(inode.no));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_on_both_sides_of_each_limit() {
        // Slashes and dots are fine, NUL and nothing are not; 255 bytes are, 256 are not.
        for good in [&b"a"[..], b"a/b", b".", b"..", b"\xff", &[b'x'; 255]] {
            assert_eq!(checked_name(good), Ok(()), "{good:?}");
        }
        assert_eq!(checked_name(&[b'x'; 256]), Err(StoreError::NameTooLong));
        for bad in [&b""[..], b"a\0"] {
            assert_eq!(checked_name(bad), Err(StoreError::BadName), "{bad:?}");
        }
    }
}
