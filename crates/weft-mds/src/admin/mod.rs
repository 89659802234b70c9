//! What administrators ask and set: the state of the cluster, where a file's bytes are, what
//! clients say of devices, and the write threshold.

mod backup;
mod device_reports;
mod report;
mod threshold;

pub(crate) use device_reports::log as log_device_error;
pub(crate) use report::Admin;
pub(crate) use threshold::Threshold;
