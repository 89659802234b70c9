//! LAYOUTGET (50): RFC 8881 §18.43; layout stateid §12.5.3; files layout §13.

use weft_nfs::{
    Failure, IoMode, LayoutType, NfsStat, OpOk, Stateid,
    ops::{Body, LayoutSegment, LayoutgetArgs, LayoutgetOk},
};

use bytes::Bytes;
use weft_store::types::{Inode, InodeNo, Kind};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, refused},
};

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
    mds.refuse_in_grace()?;
    // §12.5.3 stateid: open, lock or layout
    let (client, key) = (c.client()?, mds.handle(inode.no).key());
    let stateid = c.stateid(a.stateid)?;
    mds.state().layout_check(client, key, &stateid, a.iomode).map_err(refused)?;
    if goes_through_here(mds, c, &inode, a.iomode) {
        return Err(NfsStat::LAYOUTUNAVAILABLE.into());
    }
    // An unfinished truncation comes before new writes, and so does the end of older handles.
    if refused_now(mds, &inode).is_err() {
        mds.fence(inode.no).await.map_err(|_| NfsStat::LAYOUTTRYLATER)?;
        refused_now(mds, &inode)?;
    }
    // decide
    let (inode, striped) = mds.on_data_servers(c, inode).await.map_err(not_there)?;
    mds.data_servers.meet(&striped).await.map_err(|_| NfsStat::LAYOUTTRYLATER)?;
    // record, answer
    let (stateid, body) = grant(mds, c, a, inode.no, &stateid)?;
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
    let is_watched = writes && inode.is_privileged() && mds.credential(c).uid != 0;
    // Linux asks with every OPEN, before it knows what it will do; `mdsthreshold` told it where to
    // go.
    let is_small = inode.stuffed && (c.opened || reads && mds.is_small(inode.size));
    is_watched || is_small
}

/// Why there is no layout of a file that cannot be brought to its data servers. I/O goes through
/// here then: what is read is here, and who writes is told what is wrong.
fn not_there(f: Failure) -> Failure {
    match f.status {
        NfsStat::NOSPC => NfsStat::LAYOUTUNAVAILABLE.into(),
        NfsStat::DELAY => NfsStat::LAYOUTTRYLATER.into(),
        _ => f,
    }
}

/// Records the layout, in one critical section with the last look at what could forbid it: a
/// truncation or a recall may have begun since the first, or the epoch have been raised.
fn grant(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &LayoutgetArgs,
    ino: InodeNo,
    stateid: &Stateid,
) -> Result<(Stateid, Bytes), Failure> {
    let (client, key) = (c.client()?, mds.handle(ino).key());
    let mut files = mds.files.lock();
    let inode = c.see(mds.volume.inode(ino))?;
    if files.refuses_grants(&inode) {
        return Err(NfsStat::LAYOUTTRYLATER.into());
    }
    let striped = mds.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
    let body = mds.layout_body(&inode, &striped, a.iomode)?;
    let allowed = usize::try_from(a.maxcount).unwrap_or(usize::MAX);
    if AROUND_BODY_BYTES + body.len().next_multiple_of(4) > allowed {
        return Err(NfsStat::TOOSMALL.into());
    }
    let mut state = mds.state();
    let holder = state.layout_check(client, key, stateid, a.iomode).map_err(refused)?;
    if a.iomode == IoMode::RW {
        c.see(mds.volume.mark_unsettled(ino))?;
        files.grant(client, &inode);
    }
    Ok((state.layout_granted(&holder, a.iomode), body))
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

/// Nothing is granted while a truncation is under way, or handles that were taken away from
/// somebody may still work.
fn refused_now(mds: &Mds, inode: &Inode) -> Result<(), NfsStat> {
    let refuses = mds.files.lock().refuses_grants(inode);
    if refuses { Err(NfsStat::LAYOUTTRYLATER) } else { Ok(()) }
}
