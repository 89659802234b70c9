//! Our client library against servers of ours, through real sockets. One program: what the client
//! and the servers are made of is compiled for it once.

#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
#[path = "../support/mod.rs"]
mod support;

mod cache;
mod delegations;
mod examples;
mod local;
mod users;
