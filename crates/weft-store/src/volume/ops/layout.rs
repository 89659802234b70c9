//! The layout that a directory chose for its files, as an extended attribute (P1.3, ADR 37): of a
//! directory what was set or inherited, of a file what is or will be. Only directories list it, so
//! that who copies files with all their attributes does not fail.

use std::sync::Arc;

use bytes::Bytes;

use super::inode_changes::touch;
use crate::types::{ChangeInfo, Credential, Inode, LayoutChoice, StoreError, Timestamp};
use crate::volume::tx::Tx;
use crate::volume::{codec, keys};

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

/// Whether the name is listed.
pub(super) fn is_listed(inode: &Inode) -> bool {
    inode.is_directory() && inode.layout.is_some()
}

/// A directory that the caller may choose for.
///
/// # Errors
/// Permission for who is not its owner; Invalid for a file.
pub(super) fn own_directory(inode: Inode, cred: &Credential) -> Result<Inode, StoreError> {
    if !cred.is_superuser() && cred.uid != inode.uid {
        return Err(StoreError::Permission);
    }
    if inode.is_directory() { Ok(inode) } else { Err(StoreError::Invalid) }
}

/// Sets it.
///
/// # Errors
/// Invalid for a text that says no layout.
pub(super) fn set(
    tx: &mut Tx<'_>,
    mut dir: Inode,
    value: &[u8],
    now: Timestamp,
) -> Result<ChangeInfo, StoreError> {
    let text = std::str::from_utf8(value).map_err(|_| StoreError::Invalid)?;
    let choice: LayoutChoice = text.parse().map_err(|_| StoreError::Invalid)?;
    dir.layout = Some(Arc::new(choice));
    Ok(keep(tx, dir, now))
}

/// Takes it away: new files are spread as the volume has it.
///
/// # Errors
/// NoXattr.
pub(super) fn remove(
    tx: &mut Tx<'_>,
    mut dir: Inode,
    now: Timestamp,
) -> Result<ChangeInfo, StoreError> {
    dir.layout.take().ok_or(StoreError::NoXattr)?;
    Ok(keep(tx, dir, now))
}

fn keep(tx: &mut Tx<'_>, mut dir: Inode, now: Timestamp) -> ChangeInfo {
    let before = dir.change;
    touch(&mut dir, now);
    tx.put_inode(&dir);
    ChangeInfo { before, after: dir.change }
}
