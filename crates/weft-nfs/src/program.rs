//! The RPC program: its numbers, and the limit of what identifies a COMPOUND.

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
