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
mod op_num;
mod op_rows;
mod operations;
pub mod ops;
mod program;
mod status;

pub use acl::{ACES_MAX, Ace, AceType, Acl, Acl41, ace_flag, ace_mask, acl_support};
pub use attr::{AttrNo, Attrs, Bitmap};
pub use basic::*;
pub use compound::{
    COMPOUND_OPS_MAX, CompoundArgsHeader, CompoundReply, Failure, FailureBody, OpReply,
    encode_compound_header,
};
pub use op_num::OpNum;
pub use operations::{OpArgs, OpOk, Repeatable};
pub use program::{NFS_PROGRAM, NFS_V4, PROC_COMPOUND, PROC_NULL, TAG_BYTES_MAX};
pub use status::NfsStat;
