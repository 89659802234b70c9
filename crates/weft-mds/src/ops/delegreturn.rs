//! DELEGRETURN (8): RFC 8881 §18.6.

use weft_nfs::{OpOk, ops::DelegreturnArgs};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};

use crate::server::Mds;

/// RFC 8881 §18.6.
pub(super) fn delegreturn(mds: &Mds, c: &Compound<Mds>, a: &DelegreturnArgs) -> OpResult {
    let file = c.handle()?.key();
    let stateid = c.stateid(a.deleg_stateid)?;
    let client = c.client()?;
    mds.protocol.state().delegation_return(client, &stateid, file).map_err(refused)?;
    Ok(OpOk::Delegreturn)
}
