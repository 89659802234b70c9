//! RENAME (29): RFC 8881 §18.26.

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{RenameArgs, RenameOk},
};
use weft_store::{types::StoreError, volume::Rename};

use super::lookup::{checked_name, current_directory};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, translate::change_info},
};

/// RFC 8881 §18.26: from the saved to the current directory. A replaced file that is open keeps
/// its inode until the last CLOSE.
pub(super) async fn rename(mds: &Mds, c: &mut Compound<Mds>, a: &RenameArgs) -> OpResult {
    mds.refuse_in_grace()?;
    let from_dir = c.saved_handle()?.ino;
    if !c.see(mds.volume.inode(from_dir))?.is_directory() {
        return Err(NfsStat::NOTDIR.into());
    }
    let to_dir = current_directory(mds, c)?;
    let (from_name, to_name) = (checked_name(&a.oldname)?, checked_name(&a.newname)?);
    let cred = mds.credential(c);
    mds.volume.admit().await;
    // §10.4.4: the source and what it replaces.
    let source = mds.volume.lookup(from_dir, from_name, &cred).value.ok();
    let _source = match source {
        Some(inode) => Some(mds.undelegated(c, mds.handle(inode.no).key(), false).await?),
        None => None,
    };
    let target = mds.volume.lookup(to_dir, to_name, &cred).value.ok();
    let _target = match target {
        Some(inode) => Some(mds.undelegated(c, mds.handle(inode.no).key(), false).await?),
        None => None,
    };
    let replaced = mds.volume.lookup(to_dir, to_name, &cred);
    let keep_orphan = replaced.value.is_ok_and(|i| mds.state().is_open(mds.handle(i.no).key()));
    let what = Rename { from_dir, from_name, to_dir, to_name, keep_orphan };
    let seen = mds.volume.rename(&what, &cred, mds.wall());
    let renamed = match seen.value {
        // §18.26.3: a target of the other sort is EXIST, not a wrong type.
        Err(StoreError::IsDirectory | StoreError::NotDirectory) => {
            c.depend(seen.lsn.0);
            return Err(Failure::from(NfsStat::EXIST));
        }
        _ => c.see(seen)?,
    };
    if renamed.delete.is_some() {
        mds.reap.notify_one();
    }
    // It may have been closed since it was looked at.
    if let Some(gone) = renamed.replaced.as_ref().filter(|i| keep_orphan && i.nlink == 0)
        && !mds.state().is_open(mds.handle(gone.no).key())
    {
        mds.last_close(gone.no);
    }
    Ok(OpOk::Rename(RenameOk {
        source: change_info(renamed.from_change),
        target: change_info(renamed.to_change),
    }))
}
