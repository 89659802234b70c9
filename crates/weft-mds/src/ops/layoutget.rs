//! LAYOUTGET (50): RFC 8881 §18.43; layout stateid §12.5.3; files layout §13.

use weft_nfs::{
    Failure, IoMode, LayoutType, NfsStat, OpOk,
    ops::{Body, LayoutSegment, LayoutgetArgs, LayoutgetOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::{Inode, Kind};

use crate::{files::LayoutWanted, server::Mds};

/// Bytes of `LAYOUTGET4resok` around one layout body: return-on-close, stateid, array count,
/// offset, length, mode, type, body length.
const AROUND_BODY_BYTES: usize = 4 + 16 + 4 + 8 + 8 + 4 + 4 + 4;

/// RFC 8881 §18.43. Always the whole file in one segment (design D3).
pub(super) async fn layoutget(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutgetArgs) -> OpResult {
    // §18.43.3 arguments
    check_arguments(a)?;
    // current filehandle: a regular file
    let inode = mds.current_inode(c)?;
    if inode.kind != Kind::File {
        return Err(NfsStat::WRONG_TYPE.into());
    }
    mds.protocol.refuse_in_grace()?;
    // §12.5.3 stateid: open, lock or layout
    let (client, key) = (c.client()?, mds.files.key(inode.no));
    let stateid = c.stateid(a.stateid)?;
    mds.protocol.state().layout_check(client, key, &stateid, a.iomode).map_err(refused)?;
    if goes_through_here(mds, c, &inode, a.iomode) {
        return Err(NfsStat::LAYOUTUNAVAILABLE.into());
    }
    // decide
    let ino = inode.no;
    mds.files.ready_for_layout(&mut c.deps, inode, a.iomode).await?;
    // record, answer
    let allowed = usize::try_from(a.maxcount).unwrap_or(usize::MAX);
    let body_bytes_max = allowed.checked_sub(AROUND_BODY_BYTES).ok_or(NfsStat::TOOSMALL)?;
    let wanted = LayoutWanted { client, ino, stateid, iomode: a.iomode, body_bytes_max };
    let (stateid, body) = mds.files.grant_layout(&mut c.deps, &wanted)?;
    c.current_stateid = Some(stateid);
    let segment = LayoutSegment {
        offset: 0,
        length: u64::MAX,
        iomode: a.iomode,
        layout_type: LayoutType::NFSV4_1_FILES,
        body: Body(body),
    };
    Ok(OpOk::Layoutget(LayoutgetOk { return_on_close: true, stateid, layout: vec![segment] }))
}

/// Whether the file is not to be had by a layout now (§18.43.4).
fn goes_through_here(mds: &Mds, c: &Compound<Mds>, inode: &Inode, iomode: IoMode) -> bool {
    let (reads, writes) = (iomode == IoMode::READ, iomode == IoMode::RW);
    // Data servers do not know who writes, and Linux sends no LAYOUTCOMMIT after a stable write: as
    // long as there are set-id bits for a write to take away, it goes through here.
    let is_watched = writes && inode.is_privileged() && !mds.credential(c).is_superuser();
    // Linux asks with every OPEN, before it knows what it will do; `mdsthreshold` told it where to
    // go.
    let is_small = inode.stuffed && (c.opened || reads && mds.files.is_small(inode.size));
    is_watched || is_small
}

/// §18.43.3: a type and a mode there are; no empty range, none beyond 2^64, and not less than the
/// minimum.
fn check_arguments(a: &LayoutgetArgs) -> Result<(), Failure> {
    let overflows = a.length != u64::MAX && a.offset.checked_add(a.length).is_none();
    let min_overflows = a.minlength != u64::MAX && a.offset.checked_add(a.minlength).is_none();
    if a.length == 0 || a.length < a.minlength || overflows || min_overflows {
        return Err(NfsStat::INVAL.into());
    }
    if a.layout_type != LayoutType::NFSV4_1_FILES {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    if a.iomode != IoMode::READ && a.iomode != IoMode::RW {
        return Err(NfsStat::BADIOMODE.into());
    }
    Ok(())
}
