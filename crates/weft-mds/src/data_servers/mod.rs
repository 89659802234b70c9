//! The metadata server's view of its data servers: what they hold, what they are told to do, and
//! the way to their bytes for clients that go through the metadata server.
//!
//! Requests are batched by server and run on all servers at once. A server that is down is
//! waited for two seconds after it went; from then on requests to it fail at once, until the
//! background task has it back.

mod addresses;
mod admission;
mod cluster;
mod copies;
mod copy;
mod each;
mod error;
mod gather;
mod holes;
mod indirect;
mod objects;
mod record;
mod registry;
mod room;
mod search;
mod server;
mod space;
mod spec;
#[cfg(test)]
mod tests;
mod turns;
mod unconfigured;

pub use crate::control_address::{ControlAddress, DATA_SERVER_PORT};
pub use addresses::AnnouncedAddress;
pub use cluster::DataServers;
pub use copies::Compared;
pub use copy::{Between, Shared};
pub use error::DataServerError;
pub use objects::{Away, DataServerAttrs, FileObjects};
pub use record::recorded_uuid;
pub use registry::DataServerRegistry;
pub(crate) use room::{Candidate, Standing};
pub use space::ClusterSpace;
pub use spec::DataServerSpec;
pub use unconfigured::{Stranded, Unconfigured, require_configured};
