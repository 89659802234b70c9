//! What an engine promises, what it is asked with, and why it may refuse.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use bytes::Bytes;

/// What a scan calls for each pair of key and value, in key order; `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An ordered map of bytes to bytes that outlives the process.
///
/// **Invariants.** A batch becomes visible and durable as a whole. An engine on a full disk waits
/// for room ([`crate::reserve::Reserve`]) and loses nothing. After a commit failed with anything
/// but [`EngineError::Fenced`] the state on disk is unknown: the caller must stop and reopen, never
/// try again. Readers may run beside one committer.
pub trait Engine: Send + Sync {
    /// The value of `key`, copied out.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// Visits every pair within `range`, ascending.
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError>;

    /// The map as it is now, for a reader that takes its time: commits go on beside it and do not
    /// change it. It holds whole batches only, all of them durable.
    ///
    /// **Cost.** What is replaced or removed meanwhile keeps its place on the disk until the
    /// snapshot is dropped.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError>;

    /// Applies `batch` and makes it durable (one `fdatasync`); refused with
    /// [`EngineError::Fenced`], nothing written, unless `fence_epoch` is the current epoch.
    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError>;

    /// Whether [`Self::commit_now`] does what it is asked for as a rule: nothing here is on a disk.
    fn commits_now(&self) -> bool {
        false
    }

    /// [`Self::commit`] on a thread that must not wait, but for what is in memory: `false` if there
    /// is something to wait for (another commit, a snapshot, room, tables to be merged). Nothing is
    /// promised then, and part of the batch may be written: commit it, before anything else.
    ///
    /// **Errors.** Those of [`Self::commit`].
    fn commit_now(&self, _batch: &Batch, _fence_epoch: u64) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// The current epoch: 0 until somebody acquired ownership.
    fn epoch(&self) -> Result<u64, EngineError>;

    /// Takes ownership: durably advances the epoch, so that every former owner's commits are
    /// refused, and returns it.
    fn acquire(&self) -> Result<u64, EngineError>;
}

/// The map of an [`Engine`] as it was at one moment.
pub trait Snapshot: Send {
    /// Visits every pair within `range`, ascending.
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError>;
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

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|(key, value)| key.len() + value.map_or(0, Bytes::len)).sum::<usize>()
            as u64
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
    /// The disk is full, and there was no waiting for room: the engine was being opened or closed.
    #[error("{}: no space left on its disk; make room and start again", .0.display())]
    Full(PathBuf),
    /// There is no volume in the directory.
    #[error("{}: there is no volume here", .0.display())]
    NoVolume(PathBuf),
    /// There is a volume in the directory already.
    #[error("{}: there is a volume here already", .0.display())]
    VolumeExists(PathBuf),
    /// The volume was made by another version of this program; nothing was changed.
    #[error(
        "it has volume format {found}, and this program reads format {read} only: use the version \
         of weft that made it"
    )]
    OtherFormat {
        /// The format that it has.
        found: u32,
        /// The format that would do.
        read: u32,
    },
    /// What was read cannot be right; never repaired silently.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The engine or the file system below it failed.
    #[error("{0}")]
    Io(String),
}
