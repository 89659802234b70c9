//! The operations, one file each: the public call, its arguments and result, and the pure function
//! that does it. Refusals come first, in the order a POSIX kernel gives them; writes come last.

pub(super) mod accounts;
mod bounds;
pub(super) mod create;
mod inode_changes;
pub(super) mod intents;
pub(super) mod layout;
pub(super) mod link;
pub(super) mod lookup;
pub(super) mod placement;
pub(super) mod readdir;
pub(super) mod records;
pub(super) mod remove;
pub(super) mod rename;
pub(super) mod reserved;
pub(super) mod rules;
pub(super) mod runs;
pub(super) mod setattr;
pub(super) mod stuffed;
pub(super) mod xattr;
