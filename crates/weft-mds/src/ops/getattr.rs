//! GETATTR (9): RFC 8881 §18.7.

use weft_nfs::{
    Attrs, Bitmap, Failure, NfsStat, OpNum, OpOk,
    ops::{GetattrArgs, GetattrOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_state::LetsGo;
use weft_store::types::Inode;

use super::{
    attrs,
    attrs::{Facts, MAX_FILE_BYTES, SET_ONLY, needs_server_attrs, needs_space, tells_occupied},
};
use crate::{
    clients::{Purpose, Told},
    files::{Looker, WriterTold},
    server::Mds,
};

/// What an entry of a list takes in memory until the reply is sent, bytes, without a long name.
const ACE_BYTES: usize = 64;

/// RFC 8881 §18.7. Attributes not supported are left out (§18.7.3).
pub(super) async fn getattr(mds: &Mds, c: &mut Compound<Mds>, a: &GetattrArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    // §5.5: set-only attributes cannot be read.
    if !a.request.and(&SET_ONLY).is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    // Who has just said that it wrote is writing still, as far as we know. What the data servers
    // say now may be old when the answer is there, and Linux takes the attributes that come with
    // LAYOUTCOMMIT for newer than any (`nfs_post_op_update_inode_force_wcc`): the file would get
    // shorter for it, and what it cached behind that be cleared. It asks when it wants to know.
    if c.committed_writes && needs_server_attrs(&a.request) {
        return Err(NfsStat::DELAY.into());
    }
    let inode = match needs_server_attrs(&a.request) {
        true => known_to_others(mds, c, inode, tells_occupied(&a.request)).await?,
        false => inode,
    };
    let attrs = attributes(mds, c, &inode, &a.request).await?;
    Ok(OpOk::Getattr(GetattrOk { attrs: Box::new(attrs) }))
}

/// The file as whoever writes it has it: the data servers, and the client that it is delegated to.
async fn known_to_others(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    occupied: bool,
) -> Result<Inode, Failure> {
    let (client, (inode, told)) = (c.client()?, ask_writer(mds, c, inode, Purpose::Look).await?);
    let lets_go = match c.next.map(|next| next.op) {
        Some(OpNum::CLOSE) => LetsGo::Open,
        Some(OpNum::DELEGRETURN) => LetsGo::Delegation,
        _ => LetsGo::Nothing,
    };
    if lets_go == LetsGo::Delegation {
        mds.protocol.state().delegation_returning(client, mds.files.key(inode.no));
    }
    let asks = inode.unsettled || occupied && inode.occupies_unknown();
    let inode = if asks {
        let looker = Looker { client, lets_go, occupied };
        let looked = mds.files.look(&mut c.deps, looker, vec![inode]).await.pop();
        looked.ok_or(NfsStat::SERVERFAULT)??
    } else {
        inode
    };
    heard_of(mds, c, inode, told)
}

/// Asks the client that a file is delegated to for what only it knows; what it says is true of the
/// file as it is returned, once that is refreshed.
pub(super) async fn ask_writer(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    purpose: Purpose,
) -> Result<(Inode, Option<WriterTold>), Failure> {
    match mds.clients.delegations.ask_writer(c.client()?, inode.no, purpose).await? {
        Told::Nothing => Ok((inode, None)),
        Told::GaveBack => Ok((c.deps.see(mds.files.volume().inode(inode.no))?, None)),
        Told::Writer(told) => Ok((c.deps.see(mds.files.volume().inode(inode.no))?, Some(told))),
    }
}

/// The file with what its writer said, if it did: that is true, as far as it can be.
pub(super) fn heard_of(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    told: Option<WriterTold>,
) -> Result<Inode, Failure> {
    let Some(told) = told else { return Ok(inode) };
    let told = WriterTold { size: told.size.min(MAX_FILE_BYTES), ..told };
    mds.files.heard(&mut c.deps, inode, &told)
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
        layout: mds.files.layout(),
        names: &mds.names,
        instead_of_opens: mds.export().delegated.writes,
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
