//! A metadata server and its data servers in the test's own process, on loopback, and clients
//! with full control over every byte: a raw connection ([`Wire`]), and a typed one ([`Client`])
//! whose sessions are set up by hand.

#![allow(dead_code, reason = "a test binary uses what it needs of this")]

mod args;
mod client;
mod cluster;
mod compound;
mod files;
mod layout;
mod reply;
mod valve;
mod wire;

pub use args::*;
pub use client::{Client, ClientOptions, channel, create_session, exchange, exchange_id, two};
pub use cluster::{Cluster, Options, eventually, open_export};
pub use compound::Compound;
#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
pub use files::{File, contents, fill, pattern};
#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
pub use layout::{files_layout, layout_handle, on_data_server};
pub use reply::Reply;
#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
pub use valve::Valve;
#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
pub use wire::{Callback, Wire, compound_args, nfs_call, user, user_with_groups};

/// How long anything may take before a test fails.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
