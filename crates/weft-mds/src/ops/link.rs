//! LINK (11): RFC 8881 §18.9.

use weft_nfs::{
    OpOk,
    ops::{LinkArgs, LinkOk},
};
use weft_server::compound::{Compound, OpResult};

use super::lookup::{checked_name, directory_not_symlink};
use crate::{server::Mds, translate::change_info};

/// RFC 8881 §18.9: the saved object gets a name in the current directory.
pub(super) async fn link(mds: &Mds, c: &mut Compound<Mds>, a: &LinkArgs) -> OpResult {
    let object = c.saved_handle()?.ino;
    let dir = directory_not_symlink(mds, c)?;
    let name = checked_name(&a.newname)?;
    let cred = mds.credential(c);
    mds.files.volume().admit().await;
    // Who may not link makes nobody give anything back.
    c.deps.see(mds.files.volume().dry_run().link(object, dir, name, &cred, mds.files.wall()))?;
    let _undelegated = mds.clients.delegations.take_back_all(c.client()?, [object, dir]).await?;
    let linked = c.deps.see(mds.files.volume().link(object, dir, name, &cred, mds.files.wall()))?;
    Ok(OpOk::Link(LinkOk { change: change_info(linked.dir_change) }))
}
