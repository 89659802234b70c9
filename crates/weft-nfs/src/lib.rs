//! NFSv4.1 (RFC 8881) and NFSv4.2 (RFC 7862, xattrs RFC 8276) as types: arguments, results,
//! attributes and callbacks, with their XDR in both directions (servers decode arguments and
//! encode results; clients do the reverse).
//!
//! **Invariants of absence.** No I/O, no clock, no policy: a type here says what is on the wire,
//! never what the answer should be. Layout bodies are opaque (see `weft-layout`).

mod acl;
pub mod attr;
mod basic;
pub mod callback;
mod compound;
mod op_args;
mod operations;
pub mod ops;
mod status;

pub use acl::{ACES_MAX, Ace, AceType, Acl, Acl41, ace_flag, ace_mask, acl_support};
pub use attr::{AttrNo, Attrs, Bitmap};
pub use basic::*;
pub use compound::{
    COMPOUND_OPS_MAX, CompoundArgsHeader, CompoundReply, Failure, FailureBody, OpReply,
    encode_compound_header,
};
pub use operations::{OpArgs, OpNum, OpOk, Repeatable};
pub use status::NfsStat;

/// RPC program number of NFS.
pub const NFS_PROGRAM: u32 = 100_003;
/// The NFS version whose minor versions we speak.
pub const NFS_V4: u32 = 4;
/// Procedure NULL.
pub const PROC_NULL: u32 = 0;
/// Procedure COMPOUND.
pub const PROC_COMPOUND: u32 = 1;
/// Longest COMPOUND tag accepted. The tag is echoed, so it is a way to make us send bytes.
pub const TAG_BYTES_MAX: usize = 1024;
