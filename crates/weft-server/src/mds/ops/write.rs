//! WRITE (38): RFC 8881 §18.32: to the volume while the file is small (design D17), else on the
//! indirect path (D6).

use std::time::Duration;

use bytes::Bytes;
use weft_nfs::{
    Failure, NfsStat, OpOk, StableHow, Verifier,
    ops::{WriteArgs, WriteOk},
};
use weft_store::{types::Inode, volume::StuffedWrite};
use weft_xdr::Payload;

use super::data_access::{changed, may_write};
use crate::{
    compound::{Compound, OpResult},
    data_servers::DataServerError,
    mds::{Mds, attrs::MAX_FILE_BYTES, data_server_failure, files::FenceCause},
};

/// How often a write is sent whose handles are outranked each time, before the client is told to
/// come again.
const FENCED_TRIES_MAX: u32 = 4;
/// How often, and after which pause, a newer epoch is looked for.
const EPOCH_LOOKS: u32 = 5;
const EPOCH_LOOK: Duration = Duration::from_millis(5);

/// RFC 8881 §18.32.
pub(super) async fn write(mds: &Mds, c: &mut Compound<Mds>, a: &WriteArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    if a.stable > StableHow::FILE_SYNC {
        return Err(NfsStat::INVAL.into());
    }
    let Payload::Bytes(data) = &a.data else { return Err(NfsStat::SERVERFAULT.into()) };
    let count = u32::try_from(data.len()).map_err(|_| NfsStat::INVAL)?;
    let end = a.offset.checked_add(u64::from(count)).filter(|e| *e <= MAX_FILE_BYTES);
    let end = end.ok_or(NfsStat::FBIG)?;
    mds.volume.admit().await;
    // One that finds no room in the volume goes on with the file on its data servers.
    if inode.stuffed && mds.may_stuff() && stuff(mds, c, &inode, a.offset, data)? {
        mds.core.counters.wrote(data.len());
        let (committed, writeverf) = (StableHow::FILE_SYNC, Verifier::default());
        return Ok(OpOk::Write(WriteOk { count, committed, writeverf }));
    }
    let _writing = mds.files.begin_write(&inode).ok_or(NfsStat::DELAY)?;
    let (inode, _) = mds.on_data_servers(c, inode).await?;
    mds.mark_extending(inode.no, end).await?;
    let (committed, writeverf) = send(mds, c, &inode, a, data).await?;
    mds.core.counters.wrote(data.len());
    if count > 0 {
        changed(mds, c, &inode, end)?;
    }
    Ok(OpOk::Write(WriteOk { count, committed, writeverf }))
}

/// Writes to the data servers; again with newer handles if others outranked these meanwhile.
async fn send(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    a: &WriteArgs,
    data: &Bytes,
) -> Result<(StableHow, Verifier), Failure> {
    let now = c.see(mds.volume.inode(inode.no))?;
    let mut inode = fence_late_writes(mds, c, now).await?;
    for _ in 0..FENCED_TRIES_MAX {
        let striped = mds.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let written = mds.data_servers.write(&striped, a.offset, data.clone(), a.stable).await;
        mds.note_outcome(&inode, &written);
        if !matches!(written, Err(DataServerError::Fenced { .. })) {
            return written.map_err(data_server_failure);
        }
        inode = with_newer_epoch(mds, c, &inode).await?;
    }
    Err(NfsStat::DELAY.into())
}

/// The file with a newer epoch than it had: with the same one a write could be followed by what it
/// must outrank.
///
/// # Errors
/// DELAY when whoever has to raise it takes long.
async fn with_newer_epoch(
    mds: &Mds,
    c: &mut Compound<Mds>,
    before: &Inode,
) -> Result<Inode, Failure> {
    for _ in 0..EPOCH_LOOKS {
        let now = c.see(mds.volume.inode(before.no))?;
        let now = fence_late_writes(mds, c, now).await?;
        if now.fence_epoch > before.fence_epoch {
            return Ok(now);
        }
        tokio::time::sleep(EPOCH_LOOK).await;
    }
    Err(NfsStat::DELAY.into())
}

/// Writes to a small file, durably once the reply is sent: its bytes and its inode are one commit,
/// which the reply waits for anyway. Whether it could stay small.
fn stuff(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    offset: u64,
    data: &[u8],
) -> Result<bool, Failure> {
    let limit = mds.small_files.stuffing_limit_bytes;
    let drop_privileges = mds.credential(c).uid != 0;
    let write = StuffedWrite { offset, data, limit, drop_privileges };
    Ok(c.see(mds.volume.write_stuffed(inode.no, &write, mds.wall()))?.is_some())
}

/// A client that was given handles to write with and yet writes here has given up on a data
/// server, where its first attempt may still be queued: that one must not land on top of this one
/// ("ghost write"). Nor may a write of our own that a data server did not answer, or one of a
/// client that lost its layout. So this one goes out with a newer handle than all of those.
async fn fence_late_writes(mds: &Mds, c: &Compound<Mds>, inode: Inode) -> Result<Inode, Failure> {
    let client = c.client()?;
    let late = mds.files.lock().may_write_late(client, &inode);
    if late {
        mds.suspect_handles_of(client, inode.no, FenceCause::LateWrite);
    }
    Ok(mds.with_fresh_epoch(inode).await?)
}
