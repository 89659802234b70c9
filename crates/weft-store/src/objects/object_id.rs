//! How an object is called.

/// The name of an object: unique in a cluster for ever, because inode numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// Number of the volume that the file is in.
    pub volume: u32,
    /// The file's inode number.
    pub object: u64,
}
