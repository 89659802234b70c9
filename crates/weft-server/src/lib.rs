//! The servers: RPC service, COMPOUND dispatch, the metadata server, the data server and the
//! control program between them.
//!
//! A request flows `socket → record → RPC call → COMPOUND → slot → operation → state | store →
//! results → socket`. Handlers see a [`compound::Compound`], never sockets, XDR or clocks.
//!
//! **Invariants of absence.** A wire type never reaches the disk; a disk type never reaches the
//! wire (`mds::translate` is the only place that knows both).

pub mod admin;
pub mod clock;
pub mod compound;
pub mod config;
pub mod control;
pub mod core;
pub mod counters;
pub mod data_servers;
pub mod ds;
pub mod identity;
pub mod mds;
pub mod network;
pub mod op_table;
pub mod refusal;
pub mod report;
pub mod rpc;
pub mod size;
pub mod start;
pub mod striped;
