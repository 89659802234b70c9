//! Reading inodes: by number, by name, and upwards.

use crate::types::{Credential, Inode, InodeNo, Rwx, StoreError};
use crate::volume::check;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

impl Volume {
    /// The inode `ino`.
    ///
    /// **Errors.** [`StoreError::Stale`] if it is gone.
    pub fn inode(&self, ino: InodeNo) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| tx.inode(ino))
    }

    /// Whether the inode `ino` is there. It is not read.
    ///
    /// **Errors.** [`StoreError::Stale`] if it is gone.
    pub fn exists(&self, ino: InodeNo) -> Seen<Result<(), StoreError>> {
        self.run(|tx| tx.exists(ino))
    }

    /// The inode `name` points to in `dir`.
    ///
    /// **Errors.** Stale, NotDirectory, NameTooLong, BadName; Access without search permission;
    /// NotFound.
    pub fn lookup(
        &self,
        dir: InodeNo,
        name: &[u8],
        cred: &Credential,
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| lookup(tx, dir, name, cred))
    }

    /// The directory above `dir`; the root is above itself.
    ///
    /// **Errors.** Stale, NotDirectory; Access without search permission.
    pub fn parent(&self, dir: InodeNo, cred: &Credential) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let inode = tx.directory(dir)?;
            check::require(&inode, cred, Rwx::EXECUTE)?;
            tx.directory(inode.parent)
        })
    }
}

fn lookup(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    name: &[u8],
    cred: &Credential,
) -> Result<Inode, StoreError> {
    check::name(name)?;
    let parent = tx.directory(dir)?;
    check::require(&parent, cred, Rwx::EXECUTE)?;
    let entry = tx.dirent(dir, name)?.ok_or(StoreError::NotFound)?;
    tx.entry_inode(entry.ino)
}
