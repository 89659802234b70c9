//! CLOSE (4) and OPEN_DOWNGRADE (21): RFC 8881 §18.2, §18.18.

use weft_nfs::{
    NfsStat, OpOk,
    ops::{CloseArgs, OpenDowngradeArgs, StateidOk},
    share,
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};

use crate::server::Mds;

/// RFC 8881 §18.2. The last CLOSE of an unlinked file lets it go, and the last one of a client its
/// read layout (§18.43.3).
pub(super) async fn close(mds: &Mds, c: &mut Compound<Mds>, a: &CloseArgs) -> OpResult {
    let file = c.handle()?;
    let stateid = c.stateid(a.open_stateid)?;
    let client = c.client()?;
    let closed = mds.protocol.state().close(client, &stateid, file.key()).map_err(refused)?;
    mds.clients.notify_lock_waiters();
    if closed.last_open_of_file {
        mds.files.closed(file.ino);
    }
    c.current_stateid = Some(closed.stateid);
    Ok(OpOk::Close(StateidOk { stateid: closed.stateid }))
}

/// RFC 8881 §18.18.
pub(super) fn open_downgrade(mds: &Mds, c: &mut Compound<Mds>, a: &OpenDowngradeArgs) -> OpResult {
    let access = a.share_access & share::ACCESS_MASK;
    if access == 0 || a.share_deny > share::DENY_BOTH {
        return Err(NfsStat::INVAL.into());
    }
    let file = c.handle()?.key();
    let stateid = c.stateid(a.open_stateid)?;
    let client = c.client()?;
    let downgraded =
        mds.protocol.state().open_downgrade(client, &stateid, file, access, a.share_deny);
    let stateid = downgraded.map_err(refused)?;
    c.current_stateid = Some(stateid);
    Ok(OpOk::OpenDowngrade(StateidOk { stateid }))
}
