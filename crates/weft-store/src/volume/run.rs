//! What is kept of a run of a volume.

use crate::types::{Lsn, Run};

/// A run of a volume, and where it found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRun {
    /// Which.
    pub run: Run,
    /// The last mutation of the run before.
    pub found_lsn: Lsn,
    /// The next inode number after the run before.
    pub found_next: u64,
}
