//! Giving an inode one more name.

use super::inode_changes::{take_cookie, touch, touch_entries};
use crate::types::{ChangeInfo, Credential, Inode, InodeNo, Rwx, StoreError, Timestamp};
use crate::volume::check;
use crate::volume::codec::Dirent;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

/// A link that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The inode with its new link count.
    pub inode: Inode,
    /// The directory's change attribute.
    pub dir_change: ChangeInfo,
}

impl Volume {
    /// Makes `name` in `dir` another name of `ino`.
    ///
    /// **Errors.** NameTooLong, BadName; Stale (`ino` has no name left), IsDirectory (`ino`),
    /// NotDirectory (`dir`); Access; Exists; TooManyLinks.
    pub fn link(
        &self,
        ino: InodeNo,
        dir: InodeNo,
        name: &[u8],
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<Linked, StoreError>> {
        self.run(|tx| {
            check::name(name)?;
            let (inode, parent) = linkable(tx, ino, dir, name, cred)?;
            Ok(link(tx, inode, parent, name, now))
        })
    }
}

fn linkable(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    dir: InodeNo,
    name: &[u8],
    cred: &Credential,
) -> Result<(Inode, Inode), StoreError> {
    let inode = tx.inode(ino)?;
    if inode.is_directory() {
        return Err(StoreError::IsDirectory);
    }
    let parent = tx.directory(dir)?;
    check::require(&parent, cred, Rwx::EXECUTE)?;
    if tx.dirent(dir, name)?.is_some() {
        return Err(StoreError::Exists);
    }
    check::may_add(&parent, inode.kind, cred)?;
    if inode.nlink == 0 {
        return Err(StoreError::Stale);
    }
    check::linkable(&inode)?;
    Ok((inode, parent))
}

fn link(
    tx: &mut Tx<'_>,
    mut inode: Inode,
    mut parent: Inode,
    name: &[u8],
    now: Timestamp,
) -> Linked {
    inode.nlink += 1;
    touch(&mut inode, now);
    let entry = Dirent { ino: inode.no, cookie: take_cookie(&mut parent), kind: inode.kind };
    parent.entries += 1;
    let dir_change = touch_entries(&mut parent, now);
    tx.put_inode(&inode);
    tx.put_entry(parent.no, name, &entry);
    tx.put_inode(&parent);
    Linked { inode, dir_change }
}
