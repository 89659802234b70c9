//! GETATTR (9): RFC 8881 §18.7.

use weft_nfs::{
    Attrs, Bitmap, Failure, NfsStat, OpOk,
    ops::{GetattrArgs, GetattrOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::Inode;

use super::{
    attrs,
    attrs::{Facts, SET_ONLY, needs_server_attrs, needs_space, tells_occupied},
};
use crate::server::Mds;

/// What an entry of a list takes in memory until the reply is sent, bytes, without a long name.
const ACE_BYTES: usize = 64;

/// RFC 8881 §18.7. Attributes not supported are left out (§18.7.3).
pub(super) async fn getattr(mds: &Mds, c: &mut Compound<Mds>, a: &GetattrArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    // §5.5: set-only attributes cannot be read.
    if !a.request.and(&SET_ONLY).is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    let occupied = tells_occupied(&a.request);
    let asks = inode.unsettled || occupied && inode.occupies_unknown();
    let inode = if asks && needs_server_attrs(&a.request) {
        let client = c.client()?;
        let looked = mds.files.look(&mut c.deps, client, vec![inode], occupied).await.pop();
        looked.ok_or(NfsStat::SERVERFAULT)??
    } else {
        inode
    };
    let attrs = attributes(mds, c, &inode, &a.request).await?;
    Ok(OpOk::Getattr(GetattrOk { attrs: Box::new(attrs) }))
}

/// The attributes of an inode whose truth is known already.
pub(super) async fn attributes(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    wanted: &Bitmap,
) -> Result<Attrs, Failure> {
    let facts = facts(mds, c, wanted).await?;
    let listed = attrs::lists(wanted);
    if let Some(acl) = inode.acl.as_ref().filter(|_| listed) {
        // `acl` and `dacl`.
        c.reserve_reply(2 * (acl.entries().len() * ACE_BYTES) as u64).await?;
    }
    mds.names.learn(std::iter::once(inode), listed).await;
    Ok(attrs::values(inode, mds.files.handle(inode.no).to_wire(), wanted, &facts))
}

/// What attributes depend on beside the inode; space is asked for only when wanted.
pub(super) async fn facts<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    wanted: &Bitmap,
) -> Result<Facts<'a>, Failure> {
    let mut facts = Facts {
        fsid: mds.files.fsid(),
        lease_s: mds.core.lease_s,
        minorversion: c.minorversion,
        space: (0, 0, 0),
        files_used: 0,
        threshold: &mds.admin.threshold,
        names: &mds.names,
    };
    if needs_space(wanted) {
        let unit_bytes = mds.files.striping().unit_bytes;
        let space = mds.files.data_servers().space(unit_bytes).await;
        facts.space = (space.total, space.free, space.available);
        // How many inodes there are is a statistic: nobody waits for its durability.
        facts.files_used =
            mds.files.volume().stats().unconfirmed().map_err(|_| NfsStat::IO)?.inodes;
    }
    Ok(facts)
}
