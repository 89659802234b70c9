//! REMOVE (28): RFC 8881 §18.25.

use weft_nfs::{
    OpOk,
    ops::{RemoveArgs, RemoveOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::volume::{Expect, Remove};

use super::lookup::{checked_name, current_directory};
use crate::{server::Mds, translate::change_info};

/// RFC 8881 §18.25. The reply waits for the intent to delete the objects, not for the data
/// servers (design D18), unless the configuration wants that. A file that is open keeps its inode
/// until the last CLOSE.
pub(super) async fn remove(mds: &Mds, c: &mut Compound<Mds>, a: &RemoveArgs) -> OpResult {
    mds.protocol.refuse_in_grace()?;
    let dir = current_directory(mds, c)?;
    let name = checked_name(&a.target)?;
    let cred = mds.credential(c);
    mds.files.volume().admit().await;
    let what = Remove { dir, name, expect: None, keep_orphan: true };
    // Who may not remove it makes nobody give anything back.
    let found =
        c.deps.see(mds.files.volume().dry_run().remove(&what, &cred, mds.files.wall()))?.inode;
    let _undelegated = mds.clients.delegations.take_back_all(c.client()?, [found.no, dir]).await?;
    // It and no other that comes under the name meanwhile: that may be open, or delegated.
    let keep_orphan = mds.protocol.state().is_open(mds.files.key(found.no));
    let what = Remove { expect: Some(Expect::Inode(found.no)), keep_orphan, ..what };
    let removed = c.deps.see(mds.files.volume().remove(&what, &cred, mds.files.wall()))?;
    mds.files.removed(&c.deps, removed.delete).await;
    if found.is_directory() {
        mds.protocol.state().delegations_forget(mds.files.key(found.no));
    }
    if keep_orphan && removed.last_link {
        mds.clients.delegations.nameless(mds.files.key(found.no));
    }
    // It may have been closed since it was looked at.
    if keep_orphan && removed.last_link && !mds.protocol.state().is_open(mds.files.key(found.no)) {
        mds.files.release(found.no);
    }
    Ok(OpOk::Remove(RemoveOk { change: change_info(removed.dir_change) }))
}
