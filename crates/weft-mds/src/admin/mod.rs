//! What administrators ask and set: the state of the cluster and of its clients, where a file's
//! bytes are, what clients say of devices, the write threshold; and the end of a client.

mod backup;
mod check;
mod client_names;
mod clients;
mod device_reports;
mod fallbacks;
mod health;
mod report;
mod threshold;
mod unreached;

pub(crate) use device_reports::log as log_device_error;
pub(crate) use report::Admin;
pub(crate) use threshold::Threshold;
