//! The service that metadata and data servers are built on: RPC on sockets, COMPOUND, the table of
//! operations, and what every NFS server here has.
//!
//! A request flows `socket → record → RPC call → COMPOUND → slot → operation → results → socket`.
//! A role ([`compound::Role`]) executes the operations. Handlers see a [`compound::Compound`],
//! never sockets, XDR or clocks.
//!
//! **Invariants of absence.** No volume, no objects, no file system: nothing of `weft-store`.

pub mod clock;
pub mod compound;
pub mod core;
pub mod counters;
pub mod identity;
pub mod op_table;
pub mod refusal;
pub mod report;
pub mod rpc;
