//! LAYOUTCOMMIT (49): RFC 8881 §18.42.

use weft_nfs::{
    Failure, NfsStat, OpOk,
    ops::{LayoutcommitArgs, LayoutcommitOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::{
    types::Inode,
    volume::{Settle, SettleSize},
};

use super::attrs::MAX_FILE_BYTES;
use crate::{server::Mds, translate::from_nfs_time};

/// RFC 8881 §18.42: the client says that it wrote. The file grows, never shrinks, by it.
pub(super) async fn layoutcommit(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &LayoutcommitArgs,
) -> OpResult {
    if a.layout_type != mds.files.layout().wire() {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    if a.length != u64::MAX && a.offset.checked_add(a.length).is_none() {
        return Err(NfsStat::INVAL.into());
    }
    let inode = laid_out(mds, c, a)?;
    if let Some(last) = a.last_write_offset {
        last.checked_add(1).filter(|e| *e <= MAX_FILE_BYTES).ok_or(NfsStat::INVAL)?;
    }
    a.time_modify.map(from_nfs_time).transpose()?;
    take_set_ids(mds, c, &inode)?;
    let (client, key) = (c.client()?, mds.files.key(inode.no));
    let news = |last| mds.protocol.state().note_written(client, key, last);
    c.committed_writes = a.last_write_offset.is_some_and(news);
    // The data servers know how far the client wrote, and when: its own word may be from before a
    // truncation, or from before it set the times (design D8).
    let newsize = match mds.files.refresh(&mut c.deps, inode.clone()).await {
        Ok(settled) => (settled.size != inode.size).then_some(settled.size),
        Err(f) => {
            // The file stays unsettled, and whoever looks at it next asks again.
            tracing::info!(ino = inode.no.0, status = %f.status, "size not known yet");
            None
        }
    };
    Ok(OpOk::Layoutcommit(LayoutcommitOk { newsize }))
}

/// The current file, which the client has, or had, a write layout on.
fn laid_out(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutcommitArgs) -> Result<Inode, Failure> {
    let inode = mds.current_file(c).map_err(|f| match f.status {
        NfsStat::WRONG_TYPE => no_layout(),
        _ => f,
    })?;
    if a.reclaim {
        // §18.42.3: only for layouts of before a restart, and those are gone; the client's data
        // is on the data servers, where it is found anyway.
        return Err(NfsStat::NO_GRACE.into());
    }
    let (client, key) = (c.client()?, mds.files.key(inode.no));
    let stateid = c.stateid(a.stateid).map_err(|_| no_layout())?;
    let checked = mds.protocol.state().layout_commit_check(client, key, &stateid).map_err(refused);
    checked.map_err(|f| if f.status == NfsStat::BAD_STATEID { no_layout() } else { f })?;
    Ok(inode)
}

/// Set-id bits do not survive a write by somebody who takes them away.
fn take_set_ids(mds: &Mds, c: &mut Compound<Mds>, inode: &Inode) -> Result<(), Failure> {
    let cred = mds.credential(c);
    if !inode.loses_set_ids(&cred) {
        return Ok(());
    }
    let learned = Settle {
        size: SettleSize::AtLeast(0),
        mtime: None,
        settled: false,
        touched: true,
        occupied: None,
        set_id_loss: inode.set_id_loss(&cred),
    };
    c.deps.see(mds.files.volume().settle(inode.no, &learned, mds.files.wall())).map(drop)
}

/// A layout that is not there (§15.2 has no BAD_STATEID for LAYOUTCOMMIT), or not any more:
/// revoked, or of before a restart. Nothing is lost by it, since the file is still marked
/// unsettled and its data servers tell its size (design D8). Linux takes BADLAYOUT for that, and
/// BAD_STATEID for an I/O error (nfs4_layoutcommit_done).
fn no_layout() -> Failure {
    NfsStat::BADLAYOUT.into()
}
