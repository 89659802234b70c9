//! What a volume is opened and made with.

use super::commit::CommitPolicy;
use crate::engine::EngineKind;
use crate::types::Timestamp;

/// How to open a volume, or how to make one.
#[derive(Clone, Debug)]
pub struct VolumeConfig {
    /// Which engine keeps it.
    pub engine: EngineKind,
    /// What a new volume is made as; an existing one keeps what it was made as.
    pub format: Format,
    /// When commits are synced.
    pub commit: CommitPolicy,
    /// Memory for caches in bytes: a quarter for the engine's blocks, the rest for records. What
    /// is asked for again and again is found among the records; a long listing fills the blocks.
    pub cache_bytes: u64,
    /// Most bytes of its disk that it keeps allocated for when the disk is full; 0: none.
    pub reserve_bytes: u64,
}

impl VolumeConfig {
    /// The engine's part of the memory for caches.
    pub(super) fn engine_cache_bytes(&self) -> u64 {
        self.cache_bytes / 4
    }
}

impl Default for VolumeConfig {
    fn default() -> Self {
        Self {
            engine: EngineKind::default(),
            format: Format::default(),
            commit: CommitPolicy::default(),
            cache_bytes: 128 << 20,
            reserve_bytes: 0,
        }
    }
}

/// What a new volume is made as.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its number in the names of objects and in filehandles: random, not 0.
    pub number: u32,
    /// Its unique name; the caller's random number.
    pub uuid: [u8; 16],
    /// Its file system id, major and minor.
    pub fsid: (u64, u64),
    /// Mode of the root directory.
    pub root_mode: u16,
    /// Owner of the root directory.
    pub root_uid: u32,
    /// Group of the root directory.
    pub root_gid: u32,
    /// Time of its making.
    pub now: Timestamp,
}

impl Default for Format {
    fn default() -> Self {
        let (number, uuid, fsid, now) = (1, [0; 16], (1, 1), Timestamp::default());
        Self { number, uuid, fsid, root_mode: 0o755, root_uid: 0, root_gid: 0, now }
    }
}
