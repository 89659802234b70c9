//! What clients hold.

mod courtesy;
pub(in crate::mds) mod delegations;
mod layout_recall;
mod lock_notices;
