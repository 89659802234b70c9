//! The control program: how a metadata server asks and tells its data servers what clients
//! cannot (design D11): sizes, truncation, removal, fencing, space, counters.
//!
//! Both sides prove that they know the cluster secret before anything else is answered: HELLO
//! exchanges nonces and brings the data server's proof, PROVE brings the caller's. The bytes
//! after that are as safe as the network; what they can do is limited to this program.
//!
//! Here are its messages, and the proofs. Who sends them is `weft-mds`, who answers `weft-ds`.
//! **Invariants of absence:** no sockets, no files, no clocks.

pub mod codec;
mod messages;
pub mod proof;

pub use messages::ControlMessages;
