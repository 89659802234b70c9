//! SETATTR (34): RFC 8881 §18.30.

use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;
use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{SetattrArgs, SetattrOk},
};
use weft_state::IoAccess;
use weft_store::{
    types::{Credential, Inode, InodeNo, Intent, Kind, StoreError},
    volume::{AttrSet, Authority, SetAttr},
};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::On, data_server_failure},
};

/// RFC 8881 §18.30.
pub(super) async fn setattr(mds: &Mds, c: &mut Compound<Mds>, a: &SetattrArgs) -> OpResult {
    let inode = mds.current_inode(c)?;
    let settings = mds.settings(&a.attrs, On::Existing, c.minorversion).await?;
    let mut writer = None;
    if settings.set.size.is_some() {
        if inode.kind != Kind::File {
            return Err(NfsStat::WRONG_TYPE.into());
        }
        mds.refuse_in_grace()?;
        writer = Some(c.stateid(a.stateid)?);
    }
    let authority = writer.map_or(Authority::ByPermission, size_authority);
    let cred = mds.credential(c);
    // Who may not set them makes nobody give anything back, layouts included.
    let trial = mds.volume.dry_run();
    let trial = trial.setattr(inode.no, &settings.set, authority, &cred, mds.wall());
    if trial.value != Err(StoreError::Moving) {
        c.see(trial)?;
    }
    if let Some(stateid) = writer {
        mds.check_io(c, &stateid, mds.handle(inode.no).key(), IoAccess::Write)?;
    }
    let truncate = settings.set.size == Some(0);
    let _undelegated = mds.undelegated(c, mds.handle(inode.no).key(), truncate).await?;
    mds.volume.admit().await;
    apply(mds, c, inode, &settings.set, authority, &cred).await?;
    Ok(OpOk::Setattr(SetattrOk { attrsset: settings.mask }))
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
    set: &SetAttr,
    authority: Authority,
    cred: &Credential,
) -> Result<Inode, Failure> {
    if set.size.is_none() {
        return apply_here(mds, c, inode, set, cred).await;
    }
    let ino = inode.no;
    // A move to data servers that was begun is finished first, unless nothing of it is to stay.
    let arrives = inode.is_moving() && set.size != Some(0);
    let inode = if arrives { mds.on_data_servers(c, inode).await?.0 } else { inode };
    let _still = closed(mds, c, &inode).await?;
    let seen = mds.volume.setattr(ino, set, authority, cred, mds.wall());
    let lsn = seen.lsn;
    match c.see(seen) {
        Ok(AttrSet { inode, truncate: Some(intent) }) => {
            // The intent comes first: a crash in the middle finds it and goes on.
            mds.volume.durable(lsn).await.map_err(|_| NfsStat::IO)?;
            truncate(mds, inode, intent, set.size.unwrap_or(0)).await
        }
        done => {
            mds.files.lock().end_truncation(ino);
            Ok(done?.inode)
        }
    }
}

/// The file is closed to writers from here on, until the truncation is said to end.
///
/// # Errors
/// DELAY while others truncate it, or those of [`quiesce_and_hold`].
async fn closed(
    mds: &Mds,
    c: &Compound<Mds>,
    inode: &Inode,
) -> Result<Option<OwnedMutexGuard<()>>, Failure> {
    if !mds.files.lock().try_begin_truncation(inode) {
        return Err(NfsStat::DELAY.into());
    }
    // From here on nobody begins to write; now for those who have, and for what was given up: it
    // must not land behind the cut.
    let still = quiesce_and_hold(mds, c, inode).await;
    if still.is_err() {
        mds.files.lock().end_truncation(inode.no);
    }
    still
}

/// [`quiesce`], and a file whose bytes are in the volume is not moved as long as the result
/// lives.
async fn quiesce_and_hold(
    mds: &Mds,
    c: &Compound<Mds>,
    inode: &Inode,
) -> Result<Option<OwnedMutexGuard<()>>, Failure> {
    quiesce(mds, c, inode.no).await?;
    if !inode.stuffed {
        return Ok(None);
    }
    let still = mds.lock_migration(inode.no).await?;
    // A move may have been given up since.
    mds.fence(inode.no).await?;
    Ok(Some(still))
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
    let inode = if set.mtime.is_some() { mds.refresh_attrs(c, inode).await? } else { inode };
    let done = mds.volume.setattr(inode.no, set, Authority::ByPermission, cred, mds.wall());
    let inode = c.see(done)?.inode;
    if set.mode.is_some() && inode.is_privileged() {
        // The next write must be seen: `layoutget`.
        mds.recall_writers(mds.handle(inode.no).key(), None);
    }
    Ok(inode)
}

/// How long a truncation waits for others' layouts before the client is told to come again; less
/// with a short lease, since the client that waits does not renew.
const QUIESCE_PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks.
const QUIESCE_LOOK: Duration = Duration::from_millis(10);

/// Waits until no other client holds a write layout (they are recalled), no indirect write is
/// under way, and handles that were taken away or given up are worthless.
///
/// # Errors
/// DELAY when that takes too long: the client asks again.
pub(super) async fn quiesce(mds: &Mds, c: &Compound<Mds>, ino: InodeNo) -> Result<(), Failure> {
    let client = c.client()?;
    let file = mds.handle(ino).key();
    let lease = Duration::from_secs(mds.core.lease_s.into());
    let deadline = Instant::now() + QUIESCE_PATIENCE.min(lease / 4);
    while mds.recall_writers(file, Some(client)) || mds.files.lock().has_writers(ino) {
        if Instant::now() > deadline {
            return Err(NfsStat::DELAY.into());
        }
        tokio::time::sleep(QUIESCE_LOOK).await;
    }
    mds.fence(ino).await.map_err(Failure::from)
}

async fn truncate(mds: &Mds, inode: Inode, intent: Intent, size: u64) -> Result<Inode, Failure> {
    let cut = match mds.striped(&inode) {
        Some(file) => mds.data_servers.truncate(&file, size).await,
        None => Ok(()),
    };
    if let Err(e) = cut {
        // The reaper goes on with it, and until then nobody writes to the file.
        mds.abandon_truncation(intent);
        return Err(data_server_failure(e));
    }
    // Gone for good before anybody writes again: found after a crash, the intent would cut that.
    let completed = mds.volume.confirm(mds.volume.complete_intent(intent.id)).await;
    completed.map_err(|_| NfsStat::IO)?;
    mds.note_own_change(&inode).await;
    mds.files.lock().end_truncation(inode.no);
    Ok(inode)
}
