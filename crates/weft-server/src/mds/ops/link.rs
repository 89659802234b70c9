//! LINK (11): RFC 8881 §18.9.

use weft_nfs::{
    OpOk,
    ops::{LinkArgs, LinkOk},
};

use super::lookup::{checked_name, directory_not_symlink};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, translate::change_info},
};

/// RFC 8881 §18.9: the saved object gets a name in the current directory.
pub(super) async fn link(mds: &Mds, c: &mut Compound<Mds>, a: &LinkArgs) -> OpResult {
    let object = c.saved_handle()?.ino;
    let dir = directory_not_symlink(mds, c)?;
    let name = checked_name(&a.newname)?;
    let cred = mds.credential(c);
    mds.volume.admit().await;
    // Who may not link makes nobody give anything back.
    c.see(mds.volume.dry_run().link(object, dir, name, &cred, mds.wall()))?;
    let _undelegated = mds.undelegated(c, mds.handle(object).key(), false).await?;
    let linked = c.see(mds.volume.link(object, dir, name, &cred, mds.wall()))?;
    Ok(OpOk::Link(LinkOk { change: change_info(linked.dir_change) }))
}
