//! The data server: READ, WRITE and COMMIT on objects, for whoever holds a sealed filehandle.
//!
//! The filehandle is the authority (design D5): it says which object, which stripe units, what
//! may be done and since which fence epoch; stateids are not looked at, because they are the
//! metadata server's. There is no grace period and nothing to reclaim. Linux stalls for 15 s
//! after DELAY or GRACE from a data server (`filelayout_async_handle_error`): neither is
//! answered here.
//!
//! Clients of the same host have descriptors of objects for the same filehandles
//! ([`serve_locally`], ADR 32).
//!
//! A metadata server asks it and tells it what clients cannot by the control program
//! ([`control::Service`]). **Invariants of absence:** a data server calls nobody. It has no client
//! of NFS or RPC among its dependencies, and knows no volume and no metadata server.

mod births;
pub mod control;
mod data;
mod disk;
mod grant;
mod local;
mod server;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use local::{serve_locally, socket_name};
pub use server::DataServer;
