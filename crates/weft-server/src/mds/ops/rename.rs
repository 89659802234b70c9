//! RENAME (29): RFC 8881 §18.26.

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{RenameArgs, RenameOk},
};
use weft_store::{
    types::{InodeNo, StoreError},
    volume::{Rename, Renamed},
};

use super::lookup::{checked_name, current_directory};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, delegations::Undelegated, translate::change_info},
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
    mds.volume.admit().await;
    // §10.4.4: the source and what it replaces.
    let _source = undelegated(mds, c, from_dir, from_name).await?;
    let _target = undelegated(mds, c, to_dir, to_name).await?;
    let cred = mds.credential(c);
    let replaced = mds.volume.lookup(to_dir, to_name, &cred);
    let keep_orphan = replaced.value.is_ok_and(|i| mds.state().is_open(mds.handle(i.no).key()));
    let what = Rename { from_dir, from_name, to_dir, to_name, keep_orphan };
    let renamed = carried_out(mds, c, &what)?;
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

/// Takes back others' delegations on what a name leads to, if to anything.
async fn undelegated<'a>(
    mds: &'a Mds,
    c: &Compound<Mds>,
    dir: InodeNo,
    name: &[u8],
) -> Result<Option<Undelegated<'a>>, Failure> {
    let found = mds.volume.lookup(dir, name, &mds.credential(c)).value;
    let Ok(inode) = found else { return Ok(None) };
    mds.undelegated(c, mds.handle(inode.no).key(), false).await.map(Some)
}

fn carried_out(mds: &Mds, c: &mut Compound<Mds>, what: &Rename<'_>) -> Result<Renamed, Failure> {
    let seen = mds.volume.rename(what, &mds.credential(c), mds.wall());
    match seen.value {
        // §18.26.3: a target of the other sort is EXIST, not a wrong type.
        Err(StoreError::IsDirectory | StoreError::NotDirectory) => {
            c.depend(seen.lsn.0);
            Err(NfsStat::EXIST.into())
        }
        _ => c.see(seen),
    }
}
