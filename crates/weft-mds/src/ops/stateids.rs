//! TEST_STATEID (55) and FREE_STATEID (45): RFC 8881 §18.48, §18.38.

use weft_nfs::{
    OpOk,
    ops::{FreeStateidArgs, TestStateidArgs, TestStateidOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};

use crate::server::Mds;

/// RFC 8881 §18.48.
pub(super) fn test_stateid(mds: &Mds, c: &Compound<Mds>, a: &TestStateidArgs) -> OpResult {
    let client = c.client()?;
    let state = mds.protocol.state();
    let status_codes = a.stateids.iter().map(|s| state.test_stateid(client, s)).collect();
    Ok(OpOk::TestStateid(TestStateidOk { status_codes }))
}

/// RFC 8881 §18.38.
pub(super) fn free_stateid(mds: &Mds, c: &Compound<Mds>, a: &FreeStateidArgs) -> OpResult {
    let client = c.client()?;
    let stateid = c.stateid(a.stateid)?;
    mds.protocol.state().free_stateid(client, &stateid).map_err(refused)?;
    mds.clients.delegations.note_revoked(client);
    Ok(OpOk::FreeStateid)
}
