//! DELEGRETURN (8): RFC 8881 §18.6.

use weft_nfs::{OpOk, ops::DelegreturnArgs};

use crate::{
    compound::{Compound, OpResult},
    mds::server::Mds,
    refusal::refused,
};

/// RFC 8881 §18.6.
pub(super) fn delegreturn(mds: &Mds, c: &Compound<Mds>, a: &DelegreturnArgs) -> OpResult {
    let file = c.handle()?.key();
    let stateid = c.stateid(a.deleg_stateid)?;
    let client = c.client()?;
    mds.protocol.state().delegation_return(client, &stateid, file).map_err(refused)?;
    Ok(OpOk::Delegreturn)
}
