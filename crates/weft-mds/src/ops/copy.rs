//! COPY (60), OFFLOAD_CANCEL (66), OFFLOAD_STATUS (67): RFC 7862 §15.2, §15.8, §15.9.

use std::time::{Duration, Instant};

use weft_nfs::{
    Failure, NfsStat, OpOk, StableHow, Stateid, Verifier,
    ops::{
        CopyArgs, CopyOk, CopyRequirements, OffloadCancelArgs, OffloadStatusArgs, OffloadStatusOk,
        WriteResponse,
    },
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::Inode;

use super::{
    attrs::MAX_FILE_BYTES,
    data_access::{may_read, may_write, regular_file, writer},
};
use crate::{files::Copy, server::Mds};

/// Most bytes that are copied before the reply: a second or two of work, well within what
/// clients wait. More goes on after the reply if it may, and is a short copy if not.
const COPY_BYTES_MAX: u64 = 32 << 20;

/// RFC 7862 §15.2, within this server. Steps follow one another in the file's order, so the
/// copy is consecutive to the byte it says it reached.
pub(super) async fn copy(mds: &Mds, c: &mut Compound<Mds>, a: &CopyArgs) -> OpResult {
    // §4.5: from other servers nothing is copied.
    if !a.source_server.0.is_empty() {
        return Err(NfsStat::NOTSUPP.into());
    }
    let (from, to) = (c.saved_handle()?, c.handle()?);
    let (source, destination) = (regular_file(mds, c, &from)?, regular_file(mds, c, &to)?);
    if source.no == destination.no {
        return Err(NfsStat::INVAL.into());
    }
    let src_stateid = saved_stateid(c, a.src_stateid)?;
    let source = may_read(mds, c, source, &src_stateid).await?;
    let dst_stateid = c.stateid(a.dst_stateid)?;
    let _undelegated = may_write(mds, c, &destination, &dst_stateid).await?;
    let by = writer(mds, c, &destination)?;
    mds.files.admit().await;
    let source = mds.files.refresh(&mut c.deps, source).await?;
    let len = length(a, source.size)?;
    // How far the destination reaches says which of the source's holes matter.
    let destination = mds.files.refresh(&mut c.deps, destination).await?;
    make_way(mds, c, (&source, a.src_offset), (destination, a.dst_offset), len).await?;
    let (from, to, destination) = (a.src_offset, a.dst_offset, to.ino);
    let set_id_loss = by.set_id_loss;
    let copy = Copy { source: source.no, destination, from, to, len, set_id_loss };
    if len > COPY_BYTES_MAX
        && !a.synchronous
        && let Some(id) = mds.clients.offload(by.client, copy)
    {
        return Ok(answer(Some(id), 0, StableHow::UNSTABLE, Verifier::default()));
    }
    let now = Copy { len: len.min(COPY_BYTES_MAX), ..copy };
    // Rare and large: not a part of every request's memory.
    let copied = Box::pin(mds.files.copy(&mut c.deps, &now, |_| true));
    let (copied, verifier) = copied.await?;
    Ok(answer(None, copied, StableHow::FILE_SYNC, verifier))
}

/// The destination goes to its data servers unless the copy is one within the volume. The offsets
/// are those of the first bytes.
pub(super) async fn make_way(
    mds: &Mds,
    c: &mut Compound<Mds>,
    (source, from): (&Inode, u64),
    (destination, to): (Inode, u64),
    len: u64,
) -> Result<(), Failure> {
    if mds.files.copies_in_volume(source, &destination, to + len) {
        return Ok(());
    }
    // Once in the life of a file, as the rest of a copy: not a part of every request's memory.
    let (source, destination) = ((source, from), (destination, to));
    Box::pin(mds.files.place_beside(&mut c.deps, source, destination)).await
}

/// The "current" stateid of the source is the saved one, which goes with its filehandle.
pub(super) fn saved_stateid(c: &Compound<Mds>, given: Stateid) -> Result<Stateid, Failure> {
    if given == Stateid::CURRENT {
        c.saved_stateid.ok_or(NfsStat::BAD_STATEID.into())
    } else {
        Ok(given)
    }
}

/// §15.2.3: how much is copied; a count of 0 means to the end of the source.
fn length(a: &CopyArgs, source_size: u64) -> Result<u64, Failure> {
    let left = source_size.checked_sub(a.src_offset).filter(|left| a.count <= *left);
    let left = left.ok_or(NfsStat::INVAL)?;
    let len = if a.count == 0 { left } else { a.count };
    a.dst_offset.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES).ok_or(NfsStat::FBIG)?;
    Ok(len)
}

fn answer(
    callback_id: Option<Stateid>,
    count: u64,
    committed: StableHow,
    writeverf: Verifier,
) -> OpOk {
    let synchronous = callback_id.is_none();
    OpOk::Copy(CopyOk {
        response: WriteResponse { callback_id, count, committed, writeverf },
        requirements: CopyRequirements { consecutive: true, synchronous },
    })
}

/// RFC 7862 §15.9.
pub(super) fn offload_status(mds: &Mds, c: &Compound<Mds>, a: &OffloadStatusArgs) -> OpResult {
    let (client, file) = (c.client()?, c.handle()?.key());
    let stateid = c.stateid(a.stateid)?;
    let progress = mds.protocol.offloads().status(client, file, &stateid).map_err(refused)?;
    Ok(OpOk::OffloadStatus(OffloadStatusOk { count: progress.copied, complete: progress.ended }))
}

/// How long a cancelled copy is waited for.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked at.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// RFC 7862 §15.8. After success nothing more is written.
///
/// DELAY if the copy does not stop soon: asked again, it is waited for again.
pub(super) async fn offload_cancel(
    mds: &Mds,
    c: &Compound<Mds>,
    a: &OffloadCancelArgs,
) -> OpResult {
    let (client, file) = (c.client()?, c.handle()?.key());
    let stateid = c.stateid(a.stateid)?;
    mds.protocol.offloads().cancel(client, file, &stateid).map_err(refused)?;
    let deadline = Instant::now() + STOP_PATIENCE;
    while mds.protocol.offloads().is_known(&stateid) {
        if Instant::now() > deadline {
            return Err(NfsStat::DELAY.into());
        }
        tokio::time::sleep(STOP_LOOK).await;
    }
    Ok(OpOk::OffloadCancel)
}
