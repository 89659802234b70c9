//! Taking a name away, and with the last one the inode.

use super::inode_changes::{forget_entry, touch, touch_entries};
use super::{intents, stuffed, xattr};
use crate::types::{
    ChangeInfo, Credential, Inode, InodeNo, Intent, IntentKind, Kind, Rwx, StoreError, Timestamp,
};
use crate::volume::codec::Dirent;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;
use crate::volume::{check, codec, keys};

/// Which name to take away.
#[derive(Clone, Copy, Debug)]
pub struct Remove<'a> {
    /// Directory that the name is in.
    pub dir: InodeNo,
    /// Name to take away.
    pub name: &'a [u8],
    /// Refuse unless it is of this sort; absent: whatever it is.
    pub expect: Option<Expect>,
    /// The file is open: keep its inode as an orphan when this was its last name.
    pub keep_orphan: bool,
}

/// What a removal insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// As rmdir: else NotDirectory.
    Directory,
    /// As unlink: else IsDirectory.
    NonDirectory,
    /// This very inode: else Replaced.
    Inode(InodeNo),
    /// This very inode, and nothing has happened to it: else Replaced.
    Same {
        /// Inode number.
        ino: InodeNo,
        /// Its change attribute.
        change: u64,
        /// Whether it was given out for writing.
        unsettled: bool,
    },
}

/// A removal that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The inode as it was left, its link count 0 if that was the last name.
    pub inode: Inode,
    /// The directory's change attribute.
    pub dir_change: ChangeInfo,
    /// Whether the inode has no name any more.
    pub last_link: bool,
    /// Objects to delete, if the inode is gone and had any.
    pub delete: Option<Intent>,
}

impl Volume {
    /// Removes a name; a directory must be empty.
    ///
    /// **Errors.** NameTooLong, BadName; Stale, NotDirectory; Access; NotFound; Permission
    /// (sticky directory); NotDirectory, IsDirectory or Replaced against `expect`; NotEmpty.
    pub fn remove(
        &self,
        what: &Remove<'_>,
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<Removed, StoreError>> {
        self.run(|tx| {
            let (parent, entry, inode) = removable(tx, what, cred)?;
            remove(tx, what, parent, (entry, inode), now)
        })
    }

    /// An orphan was closed for the last time: its inode goes. Returns the objects to delete, if it
    /// had any. If there is no orphan of that number, nothing happens.
    pub fn release_orphan(
        &self,
        ino: InodeNo,
        now: Timestamp,
    ) -> Seen<Result<Option<Intent>, StoreError>> {
        self.run(|tx| {
            if tx.get(keys::orphan(ino))?.is_none() {
                return Ok(None);
            }
            let mut inode = tx.inode(ino)?;
            tx.delete(keys::orphan(ino));
            // As if its last name went only now.
            inode.nlink = 1;
            drop_link(tx, &mut inode, false, now)
        })
    }
}

fn removable(
    tx: &mut Tx<'_>,
    what: &Remove<'_>,
    cred: &Credential,
) -> Result<(Inode, Dirent, Inode), StoreError> {
    check::name(what.name)?;
    let parent = tx.directory(what.dir)?;
    check::require(&parent, cred, Rwx::EXECUTE)?;
    let entry = tx.dirent(what.dir, what.name)?.ok_or(StoreError::NotFound)?;
    let inode = tx.entry_inode(entry.ino)?;
    check::may_remove(&parent, &inode, cred)?;
    match what.expect {
        Some(Expect::Directory) if !inode.is_directory() => return Err(StoreError::NotDirectory),
        Some(Expect::NonDirectory) if inode.is_directory() => return Err(StoreError::IsDirectory),
        Some(Expect::Inode(no)) if inode.no != no => return Err(StoreError::Replaced),
        Some(Expect::Same { ino, change, unsettled })
            if (inode.no, inode.change, inode.unsettled) != (ino, change, unsettled) =>
        {
            return Err(StoreError::Replaced);
        }
        Some(_) | None => {}
    }
    if inode.entries > 0 {
        return Err(StoreError::NotEmpty);
    }
    Ok((parent, entry, inode))
}

fn remove(
    tx: &mut Tx<'_>,
    what: &Remove<'_>,
    mut parent: Inode,
    (entry, mut inode): (Dirent, Inode),
    now: Timestamp,
) -> Result<Removed, StoreError> {
    forget_entry(&mut parent, inode.is_directory())?;
    let dir_change = touch_entries(&mut parent, now);
    tx.delete_entry(what.dir, what.name, &entry);
    tx.put_inode(&parent);
    let delete = drop_link(tx, &mut inode, what.keep_orphan, now)?;
    let last_link = inode.nlink == 0;
    Ok(Removed { inode, dir_change, last_link, delete })
}

/// One name less; with the last one the inode goes, or becomes an orphan if it is an open file.
pub(super) fn drop_link(
    tx: &mut Tx<'_>,
    inode: &mut Inode,
    keep_orphan: bool,
    now: Timestamp,
) -> Result<Option<Intent>, StoreError> {
    let links = if inode.is_directory() { Some(0) } else { inode.nlink.checked_sub(1) };
    inode.nlink = links.ok_or(StoreError::Corrupt("link count"))?;
    touch(inode, now);
    if inode.nlink > 0 {
        tx.put_inode(inode);
        return Ok(None);
    }
    if keep_orphan && inode.kind == Kind::File {
        tx.put(keys::orphan(inode.no), codec::encode_presence());
        tx.put_inode(inode);
        return Ok(None);
    }
    xattr::forget(tx, inode)?;
    stuffed::forget(tx, inode);
    tx.delete_inode(inode.no);
    Ok(intents::record(tx, inode, IntentKind::Delete))
}
