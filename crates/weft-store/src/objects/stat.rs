//! What is told of an object.

/// Attributes of an object; those of a missing one are all zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectStat {
    /// Local size in bytes.
    pub size: u64,
    /// Last modification, seconds.
    pub mtime_s: i64,
    /// Last modification, nanoseconds within the second.
    pub mtime_ns: u32,
    /// Bytes of disk in use.
    pub blocks_bytes: u64,
    /// Writes since the object was last opened: two equal numbers with equal times mean that
    /// nothing was written between. Starts at 0 again after the object left the cache.
    pub writes: u64,
    /// Something was written, or tried, that no sync of this process has made durable.
    pub unsynced: bool,
}
