//! SETATTR (34): RFC 8881 §18.30.

use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{SetattrArgs, SetattrOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_state::IoAccess;
use weft_store::{
    types::{Credential, Inode, Kind, StoreError},
    volume::{AttrSet, Authority, SetAttr},
};

use super::attrs::{On, settings};
use crate::server::Mds;

/// RFC 8881 §18.30.
pub(super) async fn setattr(mds: &Mds, c: &mut Compound<Mds>, a: &SetattrArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let settings = settings(&mds.names, &a.attrs, On::Existing, c.minorversion).await?;
    let mut writer = None;
    if settings.set.size.is_some() {
        if inode.kind != Kind::File {
            return Err(NfsStat::WRONG_TYPE.into());
        }
        mds.protocol.refuse_in_grace()?;
        writer = Some(c.stateid(a.stateid)?);
    }
    let authority = writer.map_or(Authority::ByPermission, size_authority);
    let cred = mds.credential(c);
    // Who may not set them makes nobody give anything back, layouts included.
    let after = tried(mds, c, &inode, (&settings.set, authority), &cred)?;
    if let Some(stateid) = writer {
        let (holder, file) = ((c.client()?, &stateid), mds.files.key(inode.no));
        mds.clients.check_io(&mut c.deps, holder, file, IoAccess::Write)?;
        mds.protocol.state().note_resized_by(holder.0, &stateid);
    }
    let truncate = settings.set.size == Some(0);
    let (client, file) = (c.client()?, mds.files.key(inode.no));
    if settings.set.size.is_some() {
        mds.files.require_confirmed(client, &inode)?;
    }
    let delegations = &mds.clients.delegations;
    if hides_mode(&settings.set, after.as_ref()) {
        delegations.take_back_own(client, file).await?;
    }
    // Who sets nothing changes nothing.
    let _undelegated = match settings.set == SetAttr::default() {
        true => delegations.changing(file),
        false => delegations.take_back(client, file, truncate).await?,
    };
    // Whoever was delegated it may have brought what it wrote.
    let inode = c.deps.see(mds.files.volume().inode(inode.no))?;
    apply(mds, c, inode, (&settings.set, authority), &cred).await?;
    Ok(OpOk::Setattr(SetattrOk { attrsset: settings.mask }))
}

/// What would become of the inode; `None` if that is not known, since its bytes are being moved.
fn tried(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    (set, authority): (&SetAttr, Authority),
    cred: &Credential,
) -> Result<Option<Inode>, Failure> {
    let trial = mds.files.volume().dry_run();
    let trial = trial.setattr(inode.no, set, authority, cred, mds.files.wall());
    match trial.value {
        Err(StoreError::Moving) => Ok(None),
        _ => Ok(Some(c.deps.see(trial)?.inode)),
    }
}

/// Whether the mode will be what a client does not look at that has the file to itself (Linux):
/// what follows from a list, and, until it has written, set-id bits that others lose by writing.
fn hides_mode(set: &SetAttr, after: Option<&Inode>) -> bool {
    let is_privileged = after.is_none_or(Inode::is_privileged);
    set.acl.is_some() || set.mode.is_some() && is_privileged
}

/// A change of size is a write (§18.30.3): an open for writing allows it, whatever the mode says
/// now; without one the mode decides, and denials of others count.
fn size_authority(stateid: Stateid) -> Authority {
    if stateid.is_special() { Authority::ByPermission } else { Authority::ByOpenForWrite }
}

/// Sets attributes; a change of size also reaches the data servers before the reply.
///
/// # Errors
/// DELAY while others still hold write layouts (they are being recalled) or a data server cannot
/// be reached.
pub(super) async fn apply(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    (set, authority): (&SetAttr, Authority),
    cred: &Credential,
) -> Result<Inode, Failure> {
    match set.size {
        // Rare and large: not a part of every request's memory.
        Some(size) => Box::pin(resize(mds, c, (inode, size), (set, authority), cred)).await,
        None => {
            mds.files.volume().admit().await;
            apply_here(mds, c, inode, set, cred).await
        }
    }
}

/// Sets attributes, a size among them.
async fn resize(
    mds: &Mds,
    c: &mut Compound<Mds>,
    (inode, size): (Inode, u64),
    (set, authority): (&SetAttr, Authority),
    cred: &Credential,
) -> Result<Inode, Failure> {
    let admitted = mds.files.admit().await;
    let inode = mds.files.before_set_size(&mut c.deps, inode, size).await?;
    // From here on nobody begins to write; those who have are waited for, and so is what was given
    // up: it must not land behind the cut.
    let quiesced = mds.clients.quiesce(&admitted, c.client()?, &inode).await?;
    let still = mds.files.hold_still(quiesced, &inode).await?;
    let cut = mds.files.set_size(&mut c.deps, still, (set, authority), cred).await;
    if set.changes_protection() {
        // Also if the data servers could not be told of the size yet: the mode is set.
        mds.clients.layouts.end_handles(inode.no, None).await?;
    }
    cut
}

/// Sets attributes that data servers know nothing of.
async fn apply_here(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    set: &SetAttr,
    cred: &Credential,
) -> Result<Inode, Failure> {
    // A modification time that is set now must not lose against an earlier write that the data
    // servers have yet to tell of.
    let inode =
        if set.mtime.is_some() { mds.files.refresh(&mut c.deps, inode).await? } else { inode };
    let done =
        mds.files.volume().setattr(inode.no, set, Authority::ByPermission, cred, mds.files.wall());
    let AttrSet { inode, ends_handles, .. } = c.deps.see(done)?;
    if ends_handles {
        // Who may not read or write any more did so by his handles until now.
        mds.clients.layouts.end_handles(inode.no, None).await?;
    }
    if set.mode.is_some() && inode.is_privileged() {
        // The next write must be seen: `layoutget`.
        mds.clients.layouts.recall_writers(mds.files.key(inode.no), None);
    }
    Ok(inode)
}
