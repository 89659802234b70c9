//! The layout that a directory chose for its files, as an extended attribute (P1.3, ADR 37): of a
//! directory what was set or inherited, of a file what is or will be. Only directories list it, so
//! that who copies files with all their attributes does not fail.

use std::sync::Arc;

use bytes::Bytes;

use super::inode_changes::touch;
use super::xattr::{XattrEntry, XattrHow};
use crate::types::{
    ChangeInfo, Credential, Inode, Kind, LAYOUT_XATTR, LayoutChoice, StoreError, Timestamp,
};
use crate::volume::tx::Tx;
use crate::volume::{codec, keys};

/// Cookie of its name: those of others begin at 2.
const COOKIE: u64 = 1;

/// The value of the attribute.
///
/// # Errors
/// NoXattr where nothing was chosen and no place is known.
pub(super) fn words(tx: &mut Tx<'_>, inode: &Inode) -> Result<Bytes, StoreError> {
    let text = match (&inode.placement, &inode.layout) {
        (Some(place), _) => {
            let missing = StoreError::Corrupt("device of a file");
            let raw = tx.get(keys::device(place.device))?.ok_or(missing)?;
            let device = codec::decode_device(place.device, &raw)?;
            LayoutChoice::of_place(place, &device).to_string()
        }
        (None, Some(layout)) => layout.to_string(),
        (None, None) => return Err(StoreError::NoXattr),
    };
    Ok(text.into())
}

/// The name, where it is listed.
pub(super) fn listed(inode: &Inode) -> Option<XattrEntry> {
    let name = Bytes::from_static(LAYOUT_XATTR);
    (inode.is_directory() && inode.layout.is_some()).then_some(XattrEntry { cookie: COOKIE, name })
}

/// Sets it.
///
/// # Errors
/// Permission for who is not the owner; Invalid for a file, or a text that says no layout; Exists,
/// NoXattr (`how`).
pub(super) fn set(
    tx: &mut Tx<'_>,
    mut dir: Inode,
    (value, how): (&[u8], XattrHow),
    cred: &Credential,
    now: Timestamp,
) -> Result<ChangeInfo, StoreError> {
    require_own_directory(&dir, cred)?;
    let text = std::str::from_utf8(value).map_err(|_| StoreError::Invalid)?;
    let choice: LayoutChoice = text.parse().map_err(|_| StoreError::Invalid)?;
    match (how, dir.layout.is_some()) {
        (XattrHow::Create, true) => return Err(StoreError::Exists),
        (XattrHow::Replace, false) => return Err(StoreError::NoXattr),
        _ => {}
    }
    dir.layout = Some(Arc::new(choice));
    Ok(keep(tx, dir, now))
}

/// Takes it away: new files are spread as the volume has it.
///
/// # Errors
/// Permission for who is not the owner; Invalid for a file; NoXattr.
pub(super) fn remove(
    tx: &mut Tx<'_>,
    mut dir: Inode,
    cred: &Credential,
    now: Timestamp,
) -> Result<ChangeInfo, StoreError> {
    require_own_directory(&dir, cred)?;
    dir.layout.take().ok_or(StoreError::NoXattr)?;
    Ok(keep(tx, dir, now))
}

fn require_own_directory(inode: &Inode, cred: &Credential) -> Result<(), StoreError> {
    if !cred.is_superuser() && cred.uid != inode.uid {
        return Err(StoreError::Permission);
    }
    if inode.kind == Kind::Directory { Ok(()) } else { Err(StoreError::Invalid) }
}

fn keep(tx: &mut Tx<'_>, mut dir: Inode, now: Timestamp) -> ChangeInfo {
    let before = dir.change;
    touch(&mut dir, now);
    tx.put_inode(&dir);
    ChangeInfo { before, after: dir.change }
}
