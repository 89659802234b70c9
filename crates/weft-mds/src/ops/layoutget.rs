//! LAYOUTGET (50): RFC 8881 §18.43; layout stateid §12.5.3; files layout §13.

use weft_layout::Rights;
use weft_nfs::{
    ClientId, Failure, IoMode, LayoutType, NfsStat, OpOk, Stateid,
    ops::{Body, LayoutSegment, LayoutgetArgs, LayoutgetOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_state::{FileAsked, SmallFile};
use weft_store::types::{Inode, Kind};

use super::data_access::may_read_opened;
use crate::{
    files::{LayoutWanted, Ownership},
    server::Mds,
};

/// Bytes of `LAYOUTGET4resok` around one layout body: return-on-close, stateid, array count,
/// offset, length, mode, type, body length.
const AROUND_BODY_BYTES: usize = 4 + 16 + 4 + 8 + 8 + 4 + 4 + 4;

/// RFC 8881 §18.43. Always the whole file in one segment (design D3).
pub(super) async fn layoutget(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutgetArgs) -> OpResult {
    // §18.43.3 arguments
    check_arguments(a, mds.files.layout().wire())?;
    // current filehandle: a regular file
    let inode = mds.current_inode(c)?;
    if inode.kind != Kind::File {
        return Err(NfsStat::WRONG_TYPE.into());
    }
    mds.protocol.refuse_in_grace()?;
    // §12.5.3 stateid: open, lock or layout
    let (client, key) = (c.client()?, mds.files.key(inode.no));
    let stateid = c.stateid(a.stateid)?;
    let holder = mds.protocol.state().layout_check(client, key, &stateid, a.iomode);
    let may_read = holder.map_err(refused)?.reads || may_read_opened(mds, c, &inode);
    let rights = rights(a.iomode, may_read)?;
    let inode = mds.files.to_be_read(&mut c.deps, inode, a.iomode).await?;
    if goes_through_here(mds, c, &inode, a.iomode) {
        return Err(NfsStat::LAYOUTUNAVAILABLE.into());
    }
    stays_small(mds, &inode, a.iomode, (client, &stateid))?;
    // decide
    let (ino, judged) = (inode.no, Ownership::from(&inode));
    mds.files.ready_for_layout(&mut c.deps, inode, (client, a.iomode)).await?;
    // record, answer
    let allowed = usize::try_from(a.maxcount).unwrap_or(usize::MAX);
    let body_bytes_max = allowed.checked_sub(AROUND_BODY_BYTES).ok_or(NfsStat::TOOSMALL)?;
    let iomode = a.iomode;
    let wanted = LayoutWanted { client, ino, stateid, iomode, rights, judged, body_bytes_max };
    let (stateid, body) = mds.files.grant_layout(&mut c.deps, &wanted)?;
    c.current_stateid = Some(stateid);
    mds.admin.fallbacks.granted(client);
    let segment = LayoutSegment {
        offset: 0,
        length: u64::MAX,
        iomode: a.iomode,
        layout_type: a.layout_type,
        body: Body(body),
    };
    Ok(OpOk::Layoutget(LayoutgetOk { return_on_close: true, stateid, layout: vec![segment] }))
}

/// What the handles of a layout allow. Data servers do not know who reads, so that nobody who may
/// not read gets a handle that does. Linux reads by a layout for writing too; it never does so for
/// an open that is only for writing (`nfs_want_read_modify_write`), and what a data server refuses
/// it sends to us (`filelayout_async_handle_error`).
///
/// # Errors
/// ACCESS if it is to read and may not.
fn rights(iomode: IoMode, may_read: bool) -> Result<Rights, NfsStat> {
    match (iomode == IoMode::RW, may_read) {
        (true, true) => Ok(Rights::READ_WRITE),
        (true, false) => Ok(Rights::WRITE),
        (false, true) => Ok(Rights::READ),
        (false, false) => Err(NfsStat::ACCESS),
    }
}

/// Whether the file is not to be had by a layout now (§18.43.4).
fn goes_through_here(mds: &Mds, c: &Compound<Mds>, inode: &Inode, iomode: IoMode) -> bool {
    let (reads, writes) = (iomode == IoMode::READ, iomode == IoMode::RW);
    // Data servers do not know who writes, and Linux sends no LAYOUTCOMMIT after a stable write: as
    // long as there are set-id bits for a write to take away, it goes through here.
    let is_watched = writes && inode.is_privileged() && !mds.credential(c).is_superuser();
    let may_not = writes && c.view.writable().is_err();
    // Linux asks with every OPEN, before it knows what it will do; `mdsthreshold` told it where to
    // go. Many an open to write writes nothing, and a write layout that comes back is a question to
    // each data server of the file: it asks again when it writes.
    let with_open = c.opened && (inode.stuffed || writes);
    let is_small = inode.stuffed && reads && mds.files.is_small(inode.size);
    is_watched || may_not || with_open || is_small || !mds.files.can_be_told(inode, writes)
}

/// Whether a small file is better written here for now, by a client that has it delegated. Who
/// opens a file by itself was not told from where on it is worth a layout (`mdsthreshold` comes
/// with OPEN), and asks for one at each write. BADLAYOUT is an answer about now (§18.43.3: the
/// server cannot satisfy `loga_minlength`). LAYOUTUNAVAILABLE keeps Linux from asking again for two
/// minutes, whatever it writes: that is said of a file that is written over and over, and does not
/// grow. Who is told what: [`weft_state::State::small_file`].
///
/// It does not leave for an open that is younger than the delegation. Linux that writes while it
/// gives a file back finds no open to ask with (`pnfs_update_layout`), recovers it as if it had
/// been lost, and takes its locks for lost, so that it fails what it writes with them. If that was
/// on its way to data servers it takes those for dead (`filelayout_async_handle_error`), and sends
/// all it writes to any file here for two minutes. Each `-shm` of SQLite is removed like that.
///
/// # Errors
/// BADLAYOUT if it is; LAYOUTUNAVAILABLE if it is likely to be for a while.
fn stays_small(
    mds: &Mds,
    inode: &Inode,
    iomode: IoMode,
    (client, stateid): (ClientId, &Stateid),
) -> Result<(), NfsStat> {
    let is_here = inode.stuffed || inode.placement.is_none();
    if iomode != IoMode::RW || !is_here || !mds.files.is_small(inode.size) {
        return Ok(());
    }
    let asked = FileAsked { size: inode.size, change: inode.change };
    match mds.protocol.state().small_file(client, mds.files.key(inode.no), stateid, asked) {
        SmallFile::Leaves => Ok(()),
        SmallFile::Stays => Err(NfsStat::BADLAYOUT),
        SmallFile::StaysForAWhile => Err(NfsStat::LAYOUTUNAVAILABLE),
    }
}

/// §18.43.3: a type and a mode there are; no empty range, none beyond 2^64, and not less than the
/// minimum.
fn check_arguments(a: &LayoutgetArgs, given: LayoutType) -> Result<(), Failure> {
    let overflows = a.length != u64::MAX && a.offset.checked_add(a.length).is_none();
    let min_overflows = a.minlength != u64::MAX && a.offset.checked_add(a.minlength).is_none();
    if a.length == 0 || a.length < a.minlength || overflows || min_overflows {
        return Err(NfsStat::INVAL.into());
    }
    if a.layout_type != given {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    if a.iomode != IoMode::READ && a.iomode != IoMode::RW {
        return Err(NfsStat::BADIOMODE.into());
    }
    Ok(())
}
