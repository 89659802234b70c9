//! LAYOUTCOMMIT (49): RFC 8881 §18.42.

use weft_nfs::{
    Failure, LayoutType, NfsStat, OpOk,
    ops::{LayoutcommitArgs, LayoutcommitOk},
};
use weft_store::volume::{Settle, SettleSize};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, attrs::MAX_FILE_BYTES, refused, translate::from_nfs_time},
};

/// RFC 8881 §18.42: the client says how far it wrote. The file grows, never shrinks, by it.
pub(super) fn layoutcommit(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutcommitArgs) -> OpResult {
    if a.layout_type != LayoutType::NFSV4_1_FILES {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    if a.length != u64::MAX && a.offset.checked_add(a.length).is_none() {
        return Err(NfsStat::INVAL.into());
    }
    let inode = mds.current_file(c)?;
    let client = c.client()?;
    if a.reclaim {
        // §18.42.3: only for layouts of before a restart, and those are gone; the client's data
        // is on the data servers, where it is found anyway.
        return Err(NfsStat::NO_GRACE.into());
    }
    let stateid = c.stateid(a.stateid)?;
    let key = mds.handle(inode.no).key();
    let checked = mds.state().layout_commit_check(client, key, &stateid).map_err(refused);
    checked.map_err(|f| if f.status == NfsStat::BAD_STATEID { no_layout() } else { f })?;
    let end = match a.last_write_offset {
        Some(last) => last.checked_add(1).filter(|e| *e <= MAX_FILE_BYTES).ok_or(NfsStat::INVAL)?,
        None => 0,
    };
    let now = mds.wall();
    let given = a.time_modify.map(from_nfs_time).transpose()?;
    let learned = Settle {
        size: SettleSize::AtLeast(end),
        // §18.42.3: never later than the server's clock, never earlier than what is known.
        mtime: Some(given.filter(|t| *t <= now && *t >= inode.mtime).unwrap_or(now)),
        settled: false,
        touched: true,
        drop_privileges: mds.credential(c).uid != 0,
    };
    let settled = c.see(mds.volume.settle(inode.no, &learned, now))?;
    let newsize = (settled.size != inode.size).then_some(settled.size);
    Ok(OpOk::Layoutcommit(LayoutcommitOk { newsize }))
}

/// A layout that is not there any more: revoked, or of before a restart. Nothing is lost by it,
/// since the file is still marked unsettled and its data servers tell its size (design D8). Linux
/// takes BADLAYOUT for that, and BAD_STATEID for an I/O error (nfs4_layoutcommit_done).
fn no_layout() -> Failure {
    NfsStat::BADLAYOUT.into()
}
