//! A handle on an open volume: the one order of its operations, and the wait for the disk.

use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::JoinHandle;

use super::codec::Identity;
use super::commit::{Opened, Shared, State};
use super::config::VolumeConfig;
use super::fetched::{Fetched, Missing};
use super::open::{self, Purpose};
use super::readers::Reading;
use super::seen::Seen;
use super::tx::{Below, Tx};
use crate::engine::{Engine, EngineError, MemoryEngine, Snapshot};
use crate::reserve::Disk;
use crate::types::{Lsn, StoreError};

/// Figures of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Inodes in use, root and orphans included.
    pub inodes: u64,
    /// LSN of the last mutation.
    pub lsn: Lsn,
    /// LSN of the last durable mutation.
    pub durable: Lsn,
    /// Bytes of changes that are kept apart: until they are durable, and nobody reads who began to
    /// before they were.
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
    /// The commit thread, and the one that watches the disk.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.get_mut().map(std::mem::take).unwrap_or_default() {
            // A panic of the commit thread was already turned into a poisoned volume.
            let _ = thread.join();
        }
    }
}

impl Volume {
    /// Makes a volume in `directory`, and the directory if need be. One whose making was
    /// interrupted is made anew.
    ///
    /// **Errors.** [`EngineError::VolumeExists`] if there is one; [`EngineError::InUse`] if another
    /// process has it; [`EngineError::Io`].
    pub fn make(directory: &Path, config: &VolumeConfig) -> Result<Self, EngineError> {
        Self::start(open::directory(directory, config, Purpose::Make)?, config)
    }

    /// Opens the volume in `directory`; what it was made as stays. Blocks while the engine
    /// recovers.
    ///
    /// **Errors.** [`EngineError::NoVolume`] if there is none; [`EngineError::InUse`] if another
    /// process has it; [`EngineError::Corrupt`] if the engine recovered less than was acknowledged;
    /// [`EngineError::Io`].
    pub fn open(directory: &Path, config: &VolumeConfig) -> Result<Self, EngineError> {
        Self::start(open::directory(directory, config, Purpose::Open)?, config)
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

    fn start(opened: Opened, config: &VolumeConfig) -> Result<Self, EngineError> {
        let record_cache_bytes = config.cache_bytes - config.engine_cache_bytes();
        let shared = Arc::new(Shared::new(opened, config.commit, record_cache_bytes));
        let mut threads = Vec::new();
        let worker = Arc::clone(&shared);
        threads.push(spawn("weft-commit", move || worker.run())?);
        if let Some(reserve) = shared.reserve.clone() {
            reserve.be_patient();
            threads.push(spawn("weft-room", move || reserve.watch())?);
        }
        let inner = Arc::new(Inner { shared, threads: Mutex::new(threads) });
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
        let shared = &self.inner.shared;
        if lsn <= shared.durable.borrow().lsn {
            return Ok(());
        }
        if shared.commits_here {
            // With what those do who are ready to go on: one commit for all of them.
            after_others().await;
            if shared.durable.borrow().lsn < lsn {
                shared.commit_here();
            }
        }
        shared.wants(lsn);
        let mut progress = shared.durable.subscribe();
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

    /// Waits while more than [`super::CommitPolicy::pending_bytes_max`] bytes of changes are kept
    /// apart, see [`Stats::pending_bytes`]: call it before starting work that writes. Returns at
    /// once when the volume stopped, for the call that follows to say so.
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

    /// Whether the volume's disk has room for more names, attributes and small files. Without it
    /// what is asked for is still done, on the reserve, which is kept for removals and for clients
    /// that finish their work: refuse the rest before.
    pub fn has_room(&self) -> bool {
        !self.inner.shared.reserve.as_ref().is_some_and(|reserve| reserve.is_scarce())
    }

    /// The volume's disk, where only what may be used for growth is available; `None` in memory,
    /// or if the disk does not tell.
    pub fn space(&self) -> Option<Disk> {
        self.inner.shared.reserve.as_ref()?.space().ok()
    }

    /// Waits until the volume has stopped after a failed commit, which may be never; why it did.
    pub async fn stopped(&self) -> StoreError {
        let mut stopped = self.inner.shared.stopped.subscribe();
        let why = stopped.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| StoreError::Poisoned("the volume closed".into()))
    }

    /// The last durable mutation.
    pub fn durable_lsn(&self) -> Lsn {
        self.inner.shared.durable.borrow().lsn
    }

    /// What the volume is.
    pub fn identity(&self) -> Identity {
        self.inner.shared.identity
    }

    /// The engine's records as they are now, unless the volume has stopped: what is on the disk is
    /// not known then.
    pub(super) fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        drop(self.inner.shared.state()?);
        Ok(self.inner.shared.engine.snapshot()?)
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
    ///
    /// What it needs and is not in memory is read without the volume's lock, so that only this
    /// thread waits for the disk; then the operation is done again from its beginning. It must
    /// leave no trace but its result and its writes.
    pub(super) fn run<T>(
        &self,
        operation: impl Fn(&mut Tx<'_>) -> Result<T, StoreError>,
    ) -> Seen<Result<T, StoreError>> {
        let shared = &self.inner.shared;
        let mut reader = Reader::new(shared);
        loop {
            let mut state = match shared.state() {
                Ok(state) => state,
                Err(stopped) => return Seen { value: Err(stopped), lsn: Lsn(0) },
            };
            let below = Below::Fetched(&reader.fetched);
            let missing = match self.once(&mut state, below, &operation) {
                Ok((seen, wake)) => {
                    drop(state);
                    if wake {
                        shared.wake();
                    }
                    return seen;
                }
                Err(missing) => missing,
            };
            reader.reading.get_or_insert_with(|| state.readers.begin());
            drop(state);
            if let Err(error) = reader.fetched.read(&*shared.engine, missing) {
                return Seen { value: Err(error.into()), lsn: Lsn(0) };
            }
        }
    }

    /// Reads so much that it goes through the engine itself. Nobody else gets anything done
    /// meanwhile: for a volume that no server has open.
    pub(super) fn read_alone<T>(
        &self,
        operation: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut guard = self.inner.shared.state()?;
        let state = &mut *guard;
        let engine = Below::Engine(&*self.inner.shared.engine);
        operation(&mut Tx::new(engine, &state.overlay, &mut state.cache, state.counters))
    }

    /// Runs an operation on what is in memory: its answer, and whether the commit thread is to be
    /// woken; or what must be read before it can be done.
    fn once<T>(
        &self,
        state: &mut State,
        below: Below<'_>,
        operation: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>,
    ) -> Result<(Seen<Result<T, StoreError>>, bool), Missing> {
        let mut tx = Tx::new(below, &state.overlay, &mut state.cache, state.counters);
        let value = operation(&mut tx);
        let mut effect = tx.finish();
        if let Some(missing) = effect.missing.take() {
            return Err(missing);
        }
        if value.is_err() || self.dry_run || effect.writes.is_empty() {
            return Ok((Seen { value, lsn: effect.seen }, false));
        }
        let (lsn, wake) = self.inner.shared.enqueue(state, effect);
        Ok((Seen { value, lsn }, wake))
    }
}

/// An operation that reads the engine, if it has begun to. It has ended when this is dropped, with
/// all that it read.
struct Reader<'a> {
    shared: &'a Shared,
    fetched: Fetched,
    reading: Option<Reading>,
    /// The thread was panicking before.
    unwinding: bool,
}

impl<'a> Reader<'a> {
    fn new(shared: &'a Shared) -> Self {
        let (fetched, unwinding) = (Fetched::default(), std::thread::panicking());
        Self { shared, fetched, reading: None, unwinding }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(reading) = self.reading.take() {
            self.shared.has_read(reading);
        }
        if std::thread::panicking() && !self.unwinding {
            self.shared.stop("an operation panicked");
        }
    }
}

/// Lets the tasks go first that are ready on this thread. Without looking for new events before, as
/// Tokio's `yield_now` does: a system call.
async fn after_others() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, EngineError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(run);
    spawned.map_err(|e| EngineError::Io(format!("thread {name}: {e}")))
}
