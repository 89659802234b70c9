//! The metadata server's protocol through a real socket: one module per family of operations,
//! one test per status that its RFC section allows and a client can reach.

#[path = "../support/mod.rs"]
mod support;

mod acl;
mod attributes;
mod away;
mod births;
mod changes;
mod clients;
mod commits;
mod copy42;
mod creation;
mod crowd;
mod data42;
mod delegations;
mod dir_delegations;
mod distributions;
mod ended_handles;
mod export;
mod exported_layouts;
mod fence_ops;
mod flexfiles;
mod gather;
mod handles;
mod hostile;
mod io;
mod layouts;
mod limits;
mod listing;
mod locks;
mod lost;
mod namespace;
mod open;
mod permission;
mod replaced;
mod replicated;
mod restart;
mod sequences;
mod sessions;
mod set_ids;
mod shares;
mod silent;
mod small_files;
mod write_delegations;
mod xattr;
