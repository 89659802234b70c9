//! LAYOUTRETURN (51): RFC 8881 §18.44; of flexfiles RFC 8435 §9.

use weft_layout::FlexReturn;
use weft_nfs::{
    IoMode, NfsStat, OpOk, Stateid,
    ops::{Body, LayoutReturn, LayoutreturnArgs, LayoutreturnOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::DeviceId;

use super::layoutreport::{note_error, note_statistics};
use crate::{files::LayoutKind, handle::Handle, server::Mds};

/// RFC 8881 §18.44. When the last write layout of a file comes back, the data servers are asked
/// for the last time, and its size and times are settled (design D8).
pub(super) async fn layoutreturn(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &LayoutreturnArgs,
) -> OpResult {
    if a.layout_type != mds.files.layout().wire() {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    if ![IoMode::READ, IoMode::RW, IoMode::ANY].contains(&a.iomode) {
        return Err(NfsStat::INVAL.into());
    }
    if a.reclaim {
        // §18.44.3: returns of layouts from before a restart; none survives one here.
        return Err(NfsStat::NO_GRACE.into());
    }
    match &a.layoutreturn {
        LayoutReturn::File { stateid, body, .. } => {
            let told = told(mds.files.layout(), body)?;
            let returned = return_one(mds, c, *stateid, a.iomode).await?;
            for error in told.io_errors.iter().flat_map(|e| &e.errors.0) {
                note_error(mds, c, error, None)?;
            }
            for stats in &told.io_stats {
                note_statistics(mds, DeviceId(stats.device.0), (stats.read, stats.write));
            }
            Ok(returned)
        }
        LayoutReturn::Fsid => {
            let volume = c.handle()?.volume;
            return_many(mds, c, Some(volume)).await
        }
        LayoutReturn::All => return_many(mds, c, None).await,
    }
}

/// What a client says of its I/O when it returns a layout: nothing with a files layout, whose body
/// is empty (RFC 8881 §13.6). With flexfiles an empty body says nothing either.
fn told(layout: LayoutKind, body: &Body) -> Result<FlexReturn, NfsStat> {
    match layout {
        LayoutKind::FlexFiles if !body.0.is_empty() => {
            weft_xdr::from_bytes(body.0.clone()).map_err(|_| NfsStat::BADXDR)
        }
        LayoutKind::Files | LayoutKind::FlexFiles => Ok(FlexReturn::default()),
    }
}

async fn return_one(
    mds: &Mds,
    c: &mut Compound<Mds>,
    stateid: Stateid,
    iomode: IoMode,
) -> OpResult {
    // §15.2: of what is no file, directories alone have a status of their own.
    let inode = mds.current_file(c).map_err(|f| match f.status {
        NfsStat::SYMLINK => NfsStat::WRONG_TYPE.into(),
        _ => f,
    })?;
    let (client, stateid) = (c.client()?, c.stateid(stateid)?);
    let key = mds.files.key(inode.no);
    let returned =
        mds.protocol.state().layout_return(client, key, &stateid, iomode).map_err(refused)?;
    if returned.had_rw {
        mds.files.layout_returned(&mut c.deps, client, inode.no).await;
    }
    c.current_stateid = returned.remaining;
    Ok(OpOk::Layoutreturn(LayoutreturnOk { stateid: returned.remaining }))
}

async fn return_many(mds: &Mds, c: &mut Compound<Mds>, volume: Option<u32>) -> OpResult {
    let client = c.client()?;
    let returned = mds.protocol.state().layout_return_all(client, volume);
    for (key, had_rw) in returned {
        if had_rw {
            mds.files.layout_returned(&mut c.deps, client, Handle::of(key).ino).await;
        }
    }
    Ok(OpOk::Layoutreturn(LayoutreturnOk { stateid: None }))
}
