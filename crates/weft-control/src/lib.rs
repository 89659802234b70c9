//! The control program: how a metadata server asks and tells its data servers what clients
//! cannot (design D11): sizes, truncation, removal, fencing, space, counters.
//!
//! It runs over a [`channel`] that only those can make who know the cluster's secret, and on which
//! nobody else can read, change, repeat or leave out anything. Here are that channel and the
//! program's messages. Who sends them is `weft-mds`, who answers `weft-ds`.
//! **Invariants of absence:** no sockets, no files, no clocks.

pub mod channel;
pub mod codec;
mod messages;

pub use messages::ControlMessages;
