//! A volume: one namespace, one executor, one log of mutations (design D13, D14).
//!
//! Every call is answered at once from memory over the engine, together with the greatest LSN the
//! answer depends on ([`Seen`]). Nothing may be told to a client before [`Volume::durable`]
//! returned for it, errors and negative answers included: a name that looks absent may only *look*
//! so because of a removal that a crash would undo.
//!
//! ```
//! # use weft_store::types::{Credential, InodeNo, Timestamp};
//! # use weft_store::volume::{New, Volume, VolumeConfig};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! # let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
//! let root = Credential::superuser();
//! let now = Timestamp::default();
//! let seen = volume.create(InodeNo::ROOT, b"a", &New::file(0o644), &root, now);
//! let made = volume.confirm(seen).await.unwrap(); // on disk from here on
//! assert_eq!(made.inode.mode, 0o644);
//! # });
//! ```

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use self::commit::Shared;
use self::tx::Tx;
use crate::engine::{Engine, EngineError, EngineKind, MemoryEngine};
use crate::types::{Lsn, StoreError, Timestamp};

mod check;
mod codec;
mod commit;
mod fsck;
mod keys;
mod open;
mod ops;
mod tx;

pub use self::check::{DEPTH_MAX, FILE_BYTES_MAX, LINKS_MAX, NAME_BYTES_MAX, TARGET_BYTES_MAX};
pub use self::codec::Identity;
pub use self::commit::CommitPolicy;
pub use self::fsck::Checked;
pub use self::ops::create::{Created, Exclusivity, New, NewFileData};
pub use self::ops::link::Linked;
pub use self::ops::placement::{Settle, SettleSize};
pub use self::ops::readdir::DirEntry;
pub use self::ops::remove::{Expect, Remove, Removed};
pub use self::ops::rename::{Rename, Renamed};
pub use self::ops::setattr::{AttrSet, Authority, SetAttr, SetMode, SetTime};
pub use self::ops::stuffed::{STUFFED_BYTES_MAX, StuffedExtent, StuffedSeek, StuffedWrite};
pub use self::ops::xattr::{
    XATTR_NAME_BYTES_MAX, XATTR_NAMES_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XATTR_VALUES_BYTES_MAX,
    XattrEntry, XattrHow,
};

/// How to open a volume, and how to make it if it is not there.
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
}

impl VolumeConfig {
    fn engine_cache_bytes(&self) -> u64 {
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
        }
    }
}

/// What a new volume is made as.
#[derive(Clone, Copy, Debug)]
pub struct Format {
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
        let (uuid, fsid, now) = ([0; 16], (1, 1), Timestamp::default());
        Self { uuid, fsid, root_mode: 0o755, root_uid: 0, root_gid: 0, now }
    }
}

/// An answer, and the LSN that must be durable before anything that follows from the answer may
/// be told to a client: see [`Volume::confirm`] and [`Seen::unconfirmed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an answer must not be sent before its lsn is durable"]
pub struct Seen<T> {
    /// The answer itself; see [`Seen::unconfirmed`].
    pub value: T,
    /// Greatest LSN it depends on; 0 if only on what is durable.
    pub lsn: Lsn,
}

impl<T> Seen<T> {
    /// The answer, without a wait for its LSN. Right in three cases only:
    ///
    /// - No client learns anything from it: checks, reports, the decision what to do next in the
    ///   background.
    /// - What follows from it is a mutation of the same volume, whose own LSN is greater and is
    ///   waited for.
    /// - The LSN was taken before, for a reply that waits for it.
    pub fn unconfirmed(self) -> T {
        self.value
    }
}

/// Figures of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Inodes in use, root and orphans included.
    pub inodes: u64,
    /// LSN of the last mutation.
    pub lsn: Lsn,
    /// LSN of the last durable mutation.
    pub durable: Lsn,
    /// Bytes waiting to become durable.
    pub pending_bytes: usize,
    /// Syncs since the volume was opened.
    pub batches: u64,
    /// Mutations made durable by them.
    pub mutations: u64,
}

/// A handle on an open volume; clones share it, and the last one dropped commits and closes it.
#[derive(Clone)]
pub struct Volume {
    inner: Arc<Inner>,
    dry_run: bool,
}

struct Inner {
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
        let committer = self.committer.get_mut().ok().and_then(Option::take);
        if let Some(committer) = committer {
            // A panic there was already turned into a poisoned volume.
            let _ = committer.join();
        }
    }
}

impl Volume {
    /// Opens the volume in `directory`, making both if need be. Blocks while the engine recovers.
    ///
    /// **Errors.** [`EngineError::InUse`] if another process has it; [`EngineError::Corrupt`] if
    /// the engine recovered less than was acknowledged; [`EngineError::Io`].
    pub fn open(directory: &Path, config: &VolumeConfig) -> Result<Self, EngineError> {
        Self::start(open::directory(directory, config)?, config)
    }

    /// Opens the volume an engine holds, making it if the engine is empty. Takes the engine over
    /// from any former owner; it is not checked for lost acknowledgements.
    pub fn with_engine(
        engine: Arc<dyn Engine>,
        config: &VolumeConfig,
    ) -> Result<Self, EngineError> {
        Self::start(open::engine(engine, config)?, config)
    }

    /// A volume in memory, for tests.
    pub fn in_memory(config: &VolumeConfig) -> Result<Self, EngineError> {
        Self::with_engine(Arc::new(MemoryEngine::new()), config)
    }

    fn start(opened: commit::Opened, config: &VolumeConfig) -> Result<Self, EngineError> {
        let record_cache_bytes = config.cache_bytes - config.engine_cache_bytes();
        let shared = Arc::new(Shared::new(opened, config.commit, record_cache_bytes));
        let worker = Arc::clone(&shared);
        let committer = std::thread::Builder::new().name("weft-commit".into());
        let committer = committer.spawn(move || worker.run());
        let committer = committer.map_err(|e| EngineError::Io(format!("commit thread: {e}")))?;
        let inner = Arc::new(Inner { shared, committer: Mutex::new(Some(committer)) });
        Ok(Self { inner, dry_run: false })
    }

    /// The same volume, but every operation only says what it would do now: refusals and results
    /// are those of the real one, and nothing changes. For what must be done before an operation,
    /// and only if its caller may do the operation.
    pub fn dry_run(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), dry_run: true }
    }

    /// Waits until everything up to `lsn` is on stable storage; at once when it already is.
    ///
    /// **Errors.** [`StoreError::Poisoned`] if a commit failed before `lsn` was reached.
    pub async fn durable(&self, lsn: Lsn) -> Result<(), StoreError> {
        if lsn <= self.inner.shared.durable.borrow().lsn {
            return Ok(());
        }
        let mut progress = self.inner.shared.durable.subscribe();
        let reached = progress.wait_for(|at| at.lsn >= lsn || at.poisoned.is_some()).await;
        let at = reached.map_err(|_| StoreError::Poisoned("the volume closed".into()))?;
        match &at.poisoned {
            Some(error) if at.lsn < lsn => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The answer, once everything it depends on is durable.
    pub async fn confirm<T>(&self, seen: Seen<Result<T, StoreError>>) -> Result<T, StoreError> {
        self.durable(seen.lsn).await?;
        seen.value
    }

    /// Waits while more than [`CommitPolicy::pending_bytes_max`] bytes are not yet durable: call it
    /// before starting work that writes. Returns at once when the volume stopped, for the call
    /// that follows to say so.
    pub async fn admit(&self) {
        let shared = &self.inner.shared;
        let within =
            || shared.pending_bytes.load(Ordering::Relaxed) <= shared.policy.pending_bytes_max;
        if within() {
            return;
        }
        let mut progress = shared.durable.subscribe();
        // The sender lives as long as this handle, so the wait ends by its condition alone.
        let _ = progress.wait_for(|at| within() || at.poisoned.is_some()).await;
    }

    /// What the volume is.
    pub fn identity(&self) -> Identity {
        self.inner.shared.identity
    }

    /// How the volume is doing.
    pub fn stats(&self) -> Seen<Result<Stats, StoreError>> {
        let shared = &self.inner.shared;
        self.run(|tx| {
            Ok(Stats {
                inodes: tx.inodes(),
                lsn: Lsn(tx.lsn().0 - 1),
                durable: shared.durable.borrow().lsn,
                pending_bytes: shared.pending_bytes.load(Ordering::Relaxed),
                batches: shared.batches.load(Ordering::Relaxed),
                mutations: shared.mutations.load(Ordering::Relaxed),
            })
        })
    }

    /// Runs one operation: the next in the one order of this volume. What it wrote takes effect,
    /// as a whole, if it succeeded.
    fn run<T>(
        &self,
        operation: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>,
    ) -> Seen<Result<T, StoreError>> {
        let shared = &self.inner.shared;
        let mut guard = match shared.state() {
            Ok(guard) => guard,
            Err(stopped) => return Seen { value: Err(stopped), lsn: Lsn(0) },
        };
        let state = &mut *guard;
        let engine = &*shared.engine;
        let mut tx = Tx::new(engine, &state.overlay, &mut state.cache, state.counters);
        let value = operation(&mut tx);
        let effect = tx.finish();
        if value.is_err() || self.dry_run || effect.writes.is_empty() {
            return Seen { value, lsn: effect.seen };
        }
        let (lsn, wake) = shared.enqueue(state, effect);
        drop(guard);
        if wake {
            shared.wake();
        }
        Seen { value, lsn }
    }
}
