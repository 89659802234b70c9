//! RENAME (29): RFC 8881 §18.26.

use std::collections::BTreeSet;

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{RenameArgs, RenameOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::{
    types::StoreError,
    volume::{Rename, Renamed, Seen},
};

use super::lookup::{checked_name, current_directory};
use crate::{server::Mds, translate::change_info};

/// RFC 8881 §18.26: from the saved to the current directory. A replaced file that is open keeps
/// its inode until the last CLOSE.
pub(super) async fn rename(mds: &Mds, c: &mut Compound<Mds>, a: &RenameArgs) -> OpResult {
    mds.protocol.refuse_in_grace()?;
    let from_dir = c.saved_handle()?.ino;
    if !c.deps.see(mds.files.volume().inode(from_dir))?.is_directory() {
        return Err(NfsStat::NOTDIR.into());
    }
    let to_dir = current_directory(mds, c)?;
    let (from_name, to_name) = (checked_name(&a.oldname)?, checked_name(&a.newname)?);
    mds.files.volume().admit().await;
    let what = Rename { from_dir, from_name, to_dir, to_name, expect: None, keep_orphan: true };
    let (renamed, kept) = carried_out(mds, c, what).await?;
    mds.files.removed(&c.deps, renamed.delete.clone()).await;
    if let Some(gone) = renamed.replaced.as_ref().filter(|inode| inode.is_directory()) {
        mds.protocol.state().delegations_forget(mds.files.key(gone.no));
    }
    if let Some(gone) = renamed.replaced.as_ref().filter(|i| kept && i.nlink == 0) {
        let file = mds.files.key(gone.no);
        mds.clients.delegations.nameless(file);
        // It may have been closed since it was looked at.
        if !mds.protocol.state().is_open(file) {
            mds.files.release(gone.no);
        }
    }
    Ok(OpOk::Rename(RenameOk {
        source: change_info(renamed.from_change),
        target: change_info(renamed.to_change),
    }))
}

/// Renames once others have given back their delegations of the source and of what it replaces
/// (§10.4.4). Also whether what it replaced was kept for those who have it open.
async fn carried_out(
    mds: &Mds,
    c: &mut Compound<Mds>,
    what: Rename<'_>,
) -> Result<(Renamed, bool), Failure> {
    let cred = mds.credential(c);
    // Who may not rename makes nobody give anything back.
    let plan = outcome(c, mds.files.volume().dry_run().rename(&what, &cred, mds.files.wall()))?;
    let target = plan.replaced.as_ref().map(|inode| inode.no);
    // Two names of one inode: nothing happens.
    let changes = plan.from_change.before != plan.from_change.after;
    let concerned = [Some(plan.moved), target, Some(what.from_dir), Some(what.to_dir)];
    let concerned: BTreeSet<_> = concerned.into_iter().flatten().filter(|_| changes).collect();
    let _undelegated = mds.clients.delegations.take_back_all(c.client()?, concerned).await?;
    // These and no others that come under the names meanwhile: those may be open, or delegated.
    let keep_orphan = target.is_some_and(|ino| mds.protocol.state().is_open(mds.files.key(ino)));
    let what = Rename { expect: Some((plan.moved, target)), keep_orphan, ..what };
    let renamed = outcome(c, mds.files.volume().rename(&what, &cred, mds.files.wall()))?;
    Ok((renamed, keep_orphan))
}

/// §18.26.3: a target of the other sort is EXIST, not a wrong type.
fn outcome(
    c: &mut Compound<Mds>,
    seen: Seen<Result<Renamed, StoreError>>,
) -> Result<Renamed, Failure> {
    if let Err(StoreError::IsDirectory | StoreError::NotDirectory) = seen.value {
        c.deps.depend(seen.lsn);
        return Err(NfsStat::EXIST.into());
    }
    c.deps.see(seen)
}
