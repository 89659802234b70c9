//! SETATTR (34): RFC 8881 §18.30.

use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{SetattrArgs, SetattrOk},
};
use weft_state::IoAccess;
use weft_store::{
    types::{Credential, Inode, Intent},
    volume::{Authority, SetAttr},
};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::settings, data_server_failure, refused},
};

/// RFC 8881 §18.30.
pub(super) async fn setattr(mds: &Mds, c: &mut Compound<Mds>, a: &SetattrArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let settings = settings(&a.attrs, c.minorversion)?;
    // RFC 8275 §5: for operations that create something only.
    if a.attrs.mode_umask.is_some() {
        return Err(NfsStat::INVAL.into());
    }
    let mut authority = Authority::ByPermission;
    if settings.set.size.is_some() {
        mds.refuse_in_grace(c)?;
        authority = size_authority(mds, c, &inode, a.stateid)?;
    }
    let cred = mds.credential(c);
    mds.volume.admit().await;
    apply(mds, c, inode, &settings.set, authority, &cred).await?;
    Ok(OpOk::Setattr(SetattrOk { attrsset: settings.mask }))
}

/// A change of size is a write (§18.30.3): an open for writing allows it, whatever the mode says
/// now; without one the mode decides, and denials of others count.
fn size_authority(
    mds: &Mds,
    c: &Compound<Mds>,
    inode: &Inode,
    stateid: Stateid,
) -> Result<Authority, Failure> {
    let stateid = c.stateid(stateid)?;
    let client = c.client()?;
    let file = mds.handle(inode.no).key();
    mds.state().check_io(client, &stateid, file, IoAccess::Write).map_err(refused)?;
    Ok(if stateid.is_special() { Authority::ByPermission } else { Authority::ByOpenForWrite })
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
    set: &SetAttr,
    authority: Authority,
    cred: &Credential,
) -> Result<Inode, Failure> {
    if set.size.is_none() {
        // A modification time that is set now must not lose against an earlier write that the
        // data servers have yet to tell of.
        let inode = if set.mtime.is_some() { mds.settled(c, inode).await? } else { inode };
        let done = mds.volume.setattr(inode.no, set, authority, cred, mds.wall());
        return Ok(c.see(done)?.inode);
    }
    let client = c.client()?;
    if mds.recall_writers(mds.handle(inode.no).key(), Some(client)) || mds.is_truncating(inode.no) {
        return Err(NfsStat::DELAY.into());
    }
    let inode = mds.settled(c, inode).await?;
    mds.truncation_begins(inode.no);
    let seen = mds.volume.setattr(inode.no, set, authority, cred, mds.wall());
    let lsn = seen.lsn;
    match c.see(seen) {
        Ok(done) => match done.truncate {
            Some(intent) => {
                // The intent comes first: a crash in the middle finds it and goes on.
                mds.volume.durable(lsn).await.map_err(|_| NfsStat::IO)?;
                truncate(mds, c, done.inode, intent, set.size.unwrap_or(0)).await
            }
            None => {
                mds.truncation_ends(inode.no);
                Ok(done.inode)
            }
        },
        Err(refusal) => {
            mds.truncation_ends(inode.no);
            Err(refusal)
        }
    }
}

async fn truncate(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    intent: Intent,
    size: u64,
) -> Result<Inode, Failure> {
    let cut = match mds.striped(&inode) {
        Some(file) => mds.data_servers.truncate(&file, size).await,
        None => Ok(()),
    };
    if let Err(e) = cut {
        // The reaper goes on with it, and until then nobody writes to the file.
        mds.abandon_truncation(intent);
        return Err(data_server_failure(e));
    }
    // Complete before the reply: afterwards the intent would cut what the client writes next.
    let completed = c.see(mds.volume.complete_intent(intent.id));
    mds.note_own_change(&inode).await;
    mds.truncation_ends(inode.no);
    completed.map(|()| inode)
}
