//! What administrators ask.

pub(in crate::mds) mod device_reports;
mod report;
pub(in crate::mds) mod threshold;
