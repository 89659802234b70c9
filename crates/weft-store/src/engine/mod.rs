//! The engine contract (design D15): an ordered map of bytes with atomic, durable, fenced batches.
//!
//! An engine is asked for very little, so that many can keep the promise: [`Engine::commit`]
//! returns after the batch is on stable storage, as a whole or not at all. Grouping many mutations
//! into one batch is the volume's work, not the engine's.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

mod directory;
mod fjall;
mod memory;
mod redb;

pub use self::directory::{AckedFile, DirectoryLock};
pub use self::fjall::FjallEngine;
pub use self::memory::MemoryEngine;
pub use self::redb::RedbEngine;

/// What a scan calls for each pair of key and value, in key order; `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An ordered map of bytes to bytes that outlives the process.
///
/// **Invariants.** A batch becomes visible and durable as a whole. After a commit failed with
/// anything but [`EngineError::Fenced`] the state on disk is unknown: the caller must stop and
/// reopen, never try again. Readers may run beside one committer.
pub trait Engine: Send + Sync {
    /// The value of `key`, copied out.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// Visits every pair within `range`, ascending.
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError>;

    /// Applies `batch` and makes it durable (one `fdatasync`); refused with
    /// [`EngineError::Fenced`], nothing written, unless `fence_epoch` is the current epoch.
    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError>;

    /// The current epoch: 0 until somebody acquired ownership.
    fn epoch(&self) -> Result<u64, EngineError>;

    /// Takes ownership: durably advances the epoch, so that every former owner's commits are
    /// refused, and returns it.
    fn acquire(&self) -> Result<u64, EngineError>;
}

/// Keys from `from` (included) up to `until` (excluded; absent: to the end).
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// First key that may be visited.
    pub from: &'a [u8],
    /// First key beyond the range.
    pub until: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Whether the range can hold no key; some maps refuse to look at a backward range.
    pub fn is_empty(&self) -> bool {
        self.until.is_some_and(|until| until <= self.from)
    }
}

/// Writes that become durable together; the last write of a key wins.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    writes: BTreeMap<Bytes, Option<Bytes>>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.writes.insert(key.into(), Some(value.into()));
    }

    /// Removes `key`, which need not exist.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.writes.insert(key.into(), None);
    }

    /// Sets (`Some`) or removes (`None`) `key`.
    pub fn write(&mut self, key: Bytes, value: Option<Bytes>) {
        self.writes.insert(key, value);
    }

    /// The writes in key order; `None` removes.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.writes.iter().map(|(key, value)| (key, value.as_ref()))
    }

    /// Number of keys written.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl IntoIterator for Batch {
    type Item = (Bytes, Option<Bytes>);
    type IntoIter = std::collections::btree_map::IntoIter<Bytes, Option<Bytes>>;

    fn into_iter(self) -> Self::IntoIter {
        self.writes.into_iter()
    }
}

/// Why an engine could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Another owner acquired the engine; nothing was written.
    #[error("fenced: epoch {held} is stale, the current one is {current}")]
    Fenced {
        /// Epoch of the refused commit.
        held: u64,
        /// Epoch of the present owner.
        current: u64,
    },
    /// Another process has the directory open.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// What was read cannot be right; never repaired silently.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The engine or the file system below it failed.
    #[error("{0}")]
    Io(String),
}

/// The embedded engines a volume directory can be made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Log-structured; the default.
    #[default]
    Fjall,
    /// Copy-on-write B+tree.
    Redb,
}

impl EngineKind {
    /// Every kind, for suites that must hold for all.
    pub const ALL: [EngineKind; 2] = [EngineKind::Fjall, EngineKind::Redb];

    /// The name in configuration, and of the engine's entry in a volume directory.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Fjall => "fjall",
            EngineKind::Redb => "redb",
        }
    }
}

impl std::str::FromStr for EngineKind {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| EngineError::Io(format!("no engine is called {name:?}")))
    }
}

/// The engine that a directory was made with; `None` if there is none.
pub fn kind_of(directory: &Path) -> Option<EngineKind> {
    EngineKind::ALL.into_iter().find(|kind| directory.join(kind.name()).exists())
}

/// Opens (or makes) the engine of `kind` inside `directory`, which the caller holds locked.
///
/// **Errors.** [`EngineError::Io`] if the directory was made with another engine: data written by
/// one is never mistaken for an empty volume by the other.
pub fn open(
    kind: EngineKind,
    directory: &Path,
    cache_bytes: u64,
) -> Result<Arc<dyn Engine>, EngineError> {
    for other in EngineKind::ALL.into_iter().filter(|other| *other != kind) {
        if directory.join(other.name()).exists() {
            let (at, made, asked) = (directory.display(), other.name(), kind.name());
            return Err(EngineError::Io(format!("{at} was made with {made}, not {asked}")));
        }
    }
    let path = directory.join(kind.name());
    Ok(match kind {
        EngineKind::Fjall => Arc::new(FjallEngine::open(&path, cache_bytes)?),
        EngineKind::Redb => Arc::new(RedbEngine::open(&path, cache_bytes)?),
    })
}
