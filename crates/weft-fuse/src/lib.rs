//! A Weft file system in a directory of this machine, through the kernel's FUSE, without a module
//! and, where `fusermount3` is there, without root.
//!
//! From the bottom: `errno`, `attr`, `callers` and `inodes` say in the kernel's words what the
//! client library says, `slots` keeps what is open, `locks` what is locked
//! and `unlocking` the releases of locks in progress,
//! `recent` what the server told unasked, and `notices` what the kernel has yet to
//! hear, which `telling` tells it; `tree` is what is mounted, of which
//! `names`, `files`, `space`, `locking`, `listing` and `xattrs` answer each request with a call of
//! [`weft_client::node::Nodes`] in its caller's name; `filesystem` hands requests to tasks and
//! answers back; [`Mount`] mounts all that and serves it, and [`Ending`] takes it away.
//!
//! **Invariants of absence.** Nothing here knows a layout, a session or the wire: what is not in
//! the library's calls is not done here. No request of the kernel makes it panic.

mod attr;
mod callers;
mod ending;
mod errno;
mod files;
mod filesystem;
mod inodes;
mod listing;
mod lock_ranges;
mod lock_waits;
mod locking;
mod locks;
mod mount;
mod names;
mod notices;
mod opening;
mod recent;
mod retries;
mod signals;
mod slots;
mod space;
mod telling;
mod tree;
mod unlocking;
mod xattrs;

pub use ending::{Ending, Unsaved};
pub use mount::{Mount, MountError, MountOptions};
