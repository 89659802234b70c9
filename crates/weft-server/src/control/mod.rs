//! The control program: how a metadata server asks and tells its data servers what clients
//! cannot (design D11): sizes, truncation, removal, fencing, space, counters.
//!
//! Both sides prove that they know the cluster secret before anything else is answered: HELLO
//! exchanges nonces and brings the data server's proof, PROVE brings the caller's. The bytes
//! after that are as safe as the network; what they can do is limited to this program.

mod client;
pub mod codec;
mod proof;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use client::{Admission, ControlError, ControlLink, Expected};
pub use service::Service;
