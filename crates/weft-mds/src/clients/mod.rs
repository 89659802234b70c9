//! The clients of a metadata server: what they hold, and how it is taken back (callbacks), given
//! up (courtesy, expiry) and reclaimed (grace).
//!
//! It knows opens, locks, delegations, layouts, sessions and grace, and asks the file service to
//! end handles. It never knows where the bytes of files are, nor a COMPOUND.

mod callback;
mod courtesy;
mod delegations;
mod layout_recall;
mod lock_notices;
mod offload;
mod quiesce;
mod reclaim;
mod record;
mod records;
mod service;
mod sweep;
mod writers;

pub(crate) use delegations::{Opened, Undelegated};
pub(crate) use records::{known, reclaimers};
pub(crate) use service::Clients;
pub(crate) use writers::{Purpose, Told};
