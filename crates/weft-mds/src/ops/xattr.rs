//! GETXATTR (72), SETXATTR (73), LISTXATTRS (74), REMOVEXATTR (75): RFC 8276 §8.4.

use weft_nfs::{
    Component, Failure, NfsStat, OpOk,
    ops::{
        GetxattrArgs, GetxattrOk, ListxattrsArgs, ListxattrsOk, RemovexattrArgs, SetxattrArgs,
        SetxattrOption, XattrChanged, XattrValue,
    },
};
use weft_server::compound::{Compound, OpResult};
use weft_store::{
    types::{Kind, LAYOUT_XATTR, LayoutChoice},
    volume::{Volume, XATTR_NAME_BYTES_MAX, XattrEntry, XattrHow},
};

use crate::{server::Mds, translate::change_info};

/// LISTXATTRS4resok without names: cookie, count, eof.
const LIST_FIXED_BYTES: usize = 16;

/// A key as the store takes it. Slashes mean nothing in it (§8.1: not interpreted).
///
/// # Errors
/// INVAL for an empty one, NAMETOOLONG; `nul` for one with a NUL: BADCHAR is no status of GETXATTR
/// (§8.4.5).
fn checked_key(key: &Component, nul: NfsStat) -> Result<&[u8], Failure> {
    let bytes = key.0.as_ref();
    if bytes.is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    if bytes.len() > XATTR_NAME_BYTES_MAX {
        return Err(NfsStat::NAMETOOLONG.into());
    }
    if bytes.contains(&0) { Err(nul.into()) } else { Ok(bytes) }
}

/// RFC 8276 §8.4.1.
pub(super) async fn getxattr(mds: &Mds, c: &mut Compound<Mds>, a: &GetxattrArgs) -> OpResult {
    let handle = c.handle()?;
    let key = checked_key(&a.name, NfsStat::INVAL)?;
    let cred = mds.credential(c);
    let value = c.deps.see(mds.files.volume().xattr_get(handle.ino, key, &cred))?;
    c.reserve_reply(value.len() as u64).await?;
    Ok(OpOk::Getxattr(GetxattrOk { value: XattrValue(value) }))
}

/// RFC 8276 §8.4.2.
pub(super) async fn setxattr(mds: &Mds, c: &mut Compound<Mds>, a: &SetxattrArgs) -> OpResult {
    let handle = c.handle()?;
    let key = checked_key(&a.key, NfsStat::BADCHAR)?;
    let how = match a.option {
        SetxattrOption::EITHER => XattrHow::Either,
        SetxattrOption::CREATE => XattrHow::Create,
        SetxattrOption::REPLACE => XattrHow::Replace,
        _ => return Err(NfsStat::INVAL.into()),
    };
    if key == LAYOUT_XATTR {
        check_layout(mds, &a.value.0)?;
    }
    let cred = mds.credential(c);
    let set = |volume: &Volume| {
        volume.xattr_set(handle.ino, (key, &a.value.0), how, &cred, mds.files.wall())
    };
    // Who may not set it makes nobody give anything back.
    c.deps.see(set(&mds.files.volume().dry_run()))?;
    let _undelegated = mds.clients.delegations.take_back(c.client()?, handle.key(), false).await?;
    mds.files.volume().admit().await;
    let set = set(mds.files.volume());
    Ok(OpOk::Setxattr(XattrChanged { info: change_info(c.deps.see(set)?) }))
}

/// What a directory chooses for its files is to be a layout, of data servers that there are. Whose
/// directory it is decides the volume.
///
/// # Errors
/// INVAL.
fn check_layout(mds: &Mds, value: &[u8]) -> Result<(), Failure> {
    let text = std::str::from_utf8(value).map_err(|_| NfsStat::INVAL)?;
    let choice: LayoutChoice = text.parse().map_err(|why| {
        tracing::info!(%why, "no layout");
        NfsStat::INVAL
    })?;
    let unknown = mds.files.unknown_servers(&choice);
    if !unknown.is_empty() {
        tracing::info!(?unknown, "no layout: data servers that there are not");
        return Err(NfsStat::INVAL.into());
    }
    if !mds.files.has_servers_for(&choice) {
        tracing::info!(%choice, "no layout: more copies than data servers");
        return Err(NfsStat::INVAL.into());
    }
    Ok(())
}

/// RFC 8276 §8.4.3. Objects that cannot have extended attributes have none.
pub(super) fn listxattrs(mds: &Mds, c: &mut Compound<Mds>, a: &ListxattrsArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let maxcount = usize::try_from(a.maxcount).unwrap_or(usize::MAX);
    let room = maxcount.checked_sub(LIST_FIXED_BYTES).ok_or(NfsStat::TOOSMALL)?;
    let cred = mds.credential(c);
    let all = match inode.kind {
        Kind::File | Kind::Directory => {
            c.deps.see(mds.files.volume().xattr_list(inode.no, a.cookie, &cred))?
        }
        _ => Vec::new(),
    };
    let fitting = fitting(&all, room);
    if fitting == 0 && !all.is_empty() {
        return Err(NfsStat::TOOSMALL.into());
    }
    let cookie = all[..fitting].last().map_or(a.cookie, |last| last.cookie);
    let eof = fitting == all.len();
    let names = all.into_iter().take(fitting).map(|entry| Component(entry.name)).collect();
    Ok(OpOk::Listxattrs(ListxattrsOk { cookie, names, eof }))
}

/// How many names, from the first, take at most `room` bytes of XDR.
fn fitting(entries: &[XattrEntry], room: usize) -> usize {
    let mut left = room;
    entries
        .iter()
        .take_while(|entry| {
            let len = 4 + entry.name.len().next_multiple_of(4);
            let fits = len <= left;
            left = left.saturating_sub(len);
            fits
        })
        .count()
}

/// RFC 8276 §8.4.4.
pub(super) async fn removexattr(mds: &Mds, c: &mut Compound<Mds>, a: &RemovexattrArgs) -> OpResult {
    let handle = c.handle()?;
    let key = checked_key(&a.name, NfsStat::BADCHAR)?;
    let cred = mds.credential(c);
    c.deps.see(mds.files.volume().dry_run().xattr_remove(
        handle.ino,
        key,
        &cred,
        mds.files.wall(),
    ))?;
    let _undelegated = mds.clients.delegations.take_back(c.client()?, handle.key(), false).await?;
    mds.files.volume().admit().await;
    let removed = mds.files.volume().xattr_remove(handle.ino, key, &cred, mds.files.wall());
    Ok(OpOk::Removexattr(XattrChanged { info: change_info(c.deps.see(removed)?) }))
}
