//! DELEGRETURN (8): RFC 8881 §18.6.

use weft_nfs::{OpOk, ops::DelegreturnArgs};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};

use crate::server::Mds;

/// RFC 8881 §18.6. With the last one of an unlinked file that is not open it is let go.
pub(super) fn delegreturn(mds: &Mds, c: &Compound<Mds>, a: &DelegreturnArgs) -> OpResult {
    let handle = c.handle()?;
    let stateid = c.stateid(a.deleg_stateid)?;
    let client = c.client()?;
    let returned = mds.protocol.state().delegation_return(client, &stateid, handle.key());
    if returned.map_err(refused)? {
        mds.files.closed(handle.ino);
    }
    mds.protocol.given_back(handle.key()).notify_waiters();
    Ok(OpOk::Delegreturn)
}
