//! COPY (60), OFFLOAD_CANCEL (66), OFFLOAD_STATUS (67): RFC 7862 §15.2, §15.8, §15.9.

use std::time::{Duration, Instant};

use weft_nfs::{
    Failure, NfsStat, OpOk, StableHow, Stateid, Verifier,
    ops::{
        CopyArgs, CopyOk, CopyRequirements, OffloadCancelArgs, OffloadStatusArgs, OffloadStatusOk,
        WriteResponse,
    },
};
use weft_state::IoAccess;
use weft_store::types::{Inode, Placement};

use super::data_access::{may_access, may_write, regular_file};
use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::MAX_FILE_BYTES, copying::Copy, refused},
};

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
    may_access(mds, c, &source, &src_stateid, IoAccess::Read)?;
    let dst_stateid = c.stateid(a.dst_stateid)?;
    let _undelegated = may_write(mds, c, &destination, &dst_stateid).await?;
    mds.volume.admit().await;
    let source = mds.refresh_attrs(c, source).await?;
    let len = length(a, source.size)?;
    // How far the destination reaches says which of the source's holes matter.
    let destination = mds.refresh_attrs(c, destination).await?;
    make_way(mds, c, a, (&source, destination), len).await?;
    let copy = Copy {
        source: source.no,
        destination: to.ino,
        from: a.src_offset,
        to: a.dst_offset,
        len,
        drop_privileges: mds.credential(c).uid != 0,
    };
    if len > COPY_BYTES_MAX
        && !a.synchronous
        && let Some(id) = offload(mds, c, copy)?
    {
        return Ok(answer(Some(id), 0, StableHow::UNSTABLE, Verifier::default()));
    }
    let now = Copy { len: len.min(COPY_BYTES_MAX), ..copy };
    let (copied, verifier) = mds.copy(&now, |_| true).await?;
    c.depend(copied.lsn);
    Ok(answer(None, copied.len, StableHow::FILE_SYNC, verifier))
}

/// The destination goes to its data servers unless the copy is one within the volume.
async fn make_way(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &CopyArgs,
    (source, destination): (&Inode, Inode),
    len: u64,
) -> Result<(), Failure> {
    if stays_small(mds, source, &destination, a.dst_offset + len) {
        return Ok(());
    }
    place_beside(mds, c, (source, a.src_offset), (destination, a.dst_offset)).await
}

/// Whether the volume can copy alone, and the destination can stay there.
fn stays_small(mds: &Mds, source: &Inode, destination: &Inode, end: u64) -> bool {
    let are_here = source.stuffed && destination.stuffed && !destination.is_moving();
    are_here && mds.may_stuff() && mds.is_small(end)
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

/// The file on its data servers; one that was never written gets its stripes where they can copy to
/// them themselves.
pub(super) async fn place_beside(
    mds: &Mds,
    c: &mut Compound<Mds>,
    (source, from): (&Inode, u64),
    (destination, to): (Inode, u64),
) -> Result<(), Failure> {
    if destination.placement.is_some() && !destination.stuffed {
        return mds.placement_durable(c).await;
    }
    let beside = mds.striped(source).and_then(|s| s.first_index_beside(from, to));
    let there = source.placement.filter(|there| mds.places_on(there.device));
    let wish = there
        .zip(beside)
        .map(|(there, first_stripe_index)| Placement { first_stripe_index, ..there });
    mds.on_data_servers_at(c, destination, wish).await.map(drop)
}

/// Begins a copy that goes on after the reply; none if the client cannot be told of its end, or
/// too many are under way.
fn offload(mds: &Mds, c: &Compound<Mds>, copy: Copy) -> Result<Option<Stateid>, Failure> {
    let client = c.client()?;
    if !mds.core.sessions().has_back_channel(client) {
        return Ok(None);
    }
    let destination = mds.handle(copy.destination).key();
    let begun = mds.offloads().begin(client, destination);
    if let Some(id) = begun {
        // Nobody gets a delegation meanwhile, even if the client closes the file (RFC 8881 §10.4).
        mds.state().begin_change(destination);
        tokio::spawn(Mds::copy_offloaded(mds.me.clone(), client, id, copy));
    }
    Ok(begun)
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
    let progress = mds.offloads().status(client, file, &stateid).map_err(refused)?;
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
    mds.offloads().cancel(client, file, &stateid).map_err(refused)?;
    let deadline = Instant::now() + STOP_PATIENCE;
    while mds.offloads().is_known(&stateid) {
        if Instant::now() > deadline {
            return Err(NfsStat::DELAY.into());
        }
        tokio::time::sleep(STOP_LOOK).await;
    }
    Ok(OpOk::OffloadCancel)
}
