//! ONC RPC (RFC 5531) over one TCP connection, for any program: many calls in flight, one way out
//! (`outbox`), one task that receives, and calls coming the other way (NFS back channel).
//!
//! Replies are matched by transaction id. Nothing is retransmitted here: when the connection
//! ends, every call in flight fails with [`RpcError::Lost`] and the caller, which knows what a
//! repetition means, decides.

mod call_table;
mod connection;
mod credential;
mod dial;
mod direct_placement;
pub(crate) mod error;
mod message;
mod outbox;
mod receiver;
#[cfg(test)]
mod tests;

pub use connection::{ConnectOptions, Connection, Watch};
pub use credential::Credential;
pub(crate) use credential::machine_name;
pub use direct_placement::{Answer, DirectPlacement, FindPayload, Placed};
pub use error::RpcError;
pub use message::IncomingCall;
