//! The default engine: fjall, a log-structured merge tree (about 200 bytes written a durable
//! operation). Its own concurrent sync is slow, which is why grouping is the volume's work.

use std::fs::File;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock, TryLockError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::contract::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};
use super::journal_room;
use crate::reserve::{self, Reserve};

/// Key of the epoch in the keyspace `fence`.
const EPOCH_KEY: &[u8] = b"epoch";

/// Bytes written that are kept in memory before they become a table. Their index costs about as
/// much again, and a full one stays until it is written out: with 16 MiB a server that made a
/// million files measured 130 MiB less than with fjall's 64, at the same rate.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// Bytes a pair costs in memory beyond its key and value.
const PAIR_OVERHEAD_BYTES: usize = 64;

/// Bytes of journals that are kept; a start reads them all, so this bounds how long it takes: with
/// fjall's 512 MiB a volume of a million files took 5 s of processor time to open.
const JOURNALS_BYTES: u64 = 128 << 20;

/// Threads that write out memtables and merge tables. With more than one, fjall's first leaves
/// merging to the others and spins while they do it: a processor lost for all that time. With one,
/// nobody takes fjall's own requests to seal a memtable while it merges, each commit makes one, and
/// a thread that finds its queue full of them waits for itself: so we seal them ([`Order`]).
const WORKERS: usize = 1;

/// Memtables that wait to be written out. With four, fjall holds commits back until there are less,
/// and would do so for ever if its worker has met a full disk and ended: so we never let it come so
/// far.
const SEALED_MAX: usize = 3;

/// Tables that were not merged yet. With as many, fjall has whoever commits wait.
const UNMERGED_MAX: usize = 20;

/// How often one that waits for fjall's worker, or for a lock of its directory, asks again.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// How long an engine that was closed may still hold the lock of its directory.
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// Failures of fjall's worker with room on the disk that are forgiven: the room may have come back
/// before we looked. More are a failing disk.
const FAILURES_WITH_ROOM_MAX: u32 = 3;

/// An [`Engine`] over one fjall database.
///
/// After an error fjall takes no more commits. Where the error was a full disk, the engine makes or
/// awaits room, opens the database again and repeats the batch: a batch is written as a whole or
/// not at all, and writing it a second time changes nothing. Readers wait while it is opened.
pub struct FjallEngine {
    path: PathBuf,
    cache_bytes: u64,
    reserve: Arc<Reserve>,
    /// Kept allocated behind the journal's end.
    ahead_bytes: u64,
    /// There is no disk to wait for.
    in_memory: bool,
    /// Absent when it could not be opened again.
    open: RwLock<Option<Open>>,
    /// Held over every commit, so that an acquisition falls between commits.
    order: Mutex<Order>,
    /// Each snapshot has one, too.
    snapshots: Arc<()>,
}

/// An open database.
struct Open {
    database: Database,
    map: Keyspace,
    fence: Keyspace,
}

/// What the order of commits depends on.
struct Order {
    /// The current epoch.
    epoch: u64,
    /// Approximate size of the memtable in bytes.
    in_memory_bytes: u64,
    /// Who does not wait met a full disk, after which fjall says that its worker failed.
    was_full: bool,
    /// How often the worker failed though there was room.
    failures_with_room: u32,
    /// Bytes written since space was allocated for the journal.
    since_allocated_bytes: u64,
    /// Journals there were then: with another number there is a new one.
    journals: usize,
}

/// Why fjall did not do what it was asked.
enum Refusal {
    /// There was no room.
    Full,
    /// Its worker has failed, which says only in a log why.
    WorkerFailed,
    /// An engine that was just closed has not let go of the directory.
    Locked,
    /// Anything else.
    Failed(EngineError),
}

impl FjallEngine {
    /// Opens (or makes) the database at `path` with a block cache of `cache_bytes`. On a full disk
    /// it lives on the reserve.
    ///
    /// **Errors.** [`EngineError::Corrupt`] also where fjall's recovery panics on a damaged
    /// journal; [`EngineError::Full`].
    pub fn open(
        path: &Path,
        cache_bytes: u64,
        reserve: &Arc<Reserve>,
    ) -> Result<Self, EngineError> {
        let open = open_again(path, cache_bytes, reserve)?;
        let epoch = match open.fence.get(EPOCH_KEY).map_err(failed)? {
            None => 0,
            Some(raw) => decode_epoch(&raw)?,
        };
        let order = Order {
            epoch,
            in_memory_bytes: 0,
            was_full: false,
            failures_with_room: 0,
            since_allocated_bytes: 0,
            journals: 0,
        };
        Ok(Self {
            path: path.to_owned(),
            cache_bytes,
            reserve: reserve.clone(),
            ahead_bytes: reserve.ahead_bytes(),
            // One that cannot tell is treated like one on a disk.
            in_memory: File::open(path).and_then(|d| weft_io::in_memory(&d)).unwrap_or(false),
            open: RwLock::new(Some(open)),
            order: Mutex::new(order),
            snapshots: Arc::default(),
        })
    }

    /// Asks the open database; waits while it is opened again.
    fn with<T>(&self, ask: impl FnOnce(&Open) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let open = self.open.read().map_err(poisoned)?;
        ask(open.as_ref().ok_or_else(|| EngineError::Full(self.reserve.dir().to_owned()))?)
    }

    /// Writes until it is written: waits for room, and opens the database again if need be.
    fn persist(
        &self,
        order: &mut Order,
        write: impl Fn(&Open) -> Result<(), Refusal>,
    ) -> Result<(), EngineError> {
        loop {
            let tried = {
                let open = self.open.read().map_err(poisoned)?;
                open.as_ref().map_or(Err(Refusal::Full), &write)
            };
            let Err(refusal) = tried else { return Ok(()) };
            self.await_room(order, refusal)?;
            // They hold the directory. Nobody takes another one, since the order is ours.
            while Arc::strong_count(&self.snapshots) > 1 {
                if !self.reserve.pause() {
                    return Err(EngineError::Full(self.reserve.dir().to_owned()));
                }
            }
            let mut open = self.open.write().map_err(poisoned)?;
            // The old one goes first: two cannot have the directory.
            *open = None;
            *open = Some(open_again(&self.path, self.cache_bytes, &self.reserve)?);
            // Recovery has cut what was allocated behind the journal's end.
            order.journals = 0;
        }
    }

    /// Keeps blocks allocated behind the end of the journal, so that a commit on a disk that
    /// somebody else has filled finds its room. Without it the commit finds out, and uses the
    /// reserve.
    fn keep_journal_room(&self, order: &mut Order) -> Result<(), EngineError> {
        self.with(|open| {
            let journals = open.database.journal_count();
            if order.has_journal_room(journals, self.ahead_bytes) {
                return Ok(());
            }
            if let Err(error) = journal_room::allocate(&self.path, self.ahead_bytes) {
                tracing::debug!(%error, "no room is allocated for the journal");
            }
            order.since_allocated_bytes = 0;
            order.journals = journals;
            Ok(())
        })
    }

    /// Returns when it makes sense to open the database again.
    fn await_room(&self, order: &mut Order, refusal: Refusal) -> Result<(), EngineError> {
        match refusal {
            Refusal::Failed(error) => return Err(error),
            Refusal::WorkerFailed if std::mem::take(&mut order.was_full) => {}
            Refusal::WorkerFailed if !self.reserve.is_scarce() => {
                order.failures_with_room += 1;
                if order.failures_with_room > FAILURES_WITH_ROOM_MAX {
                    let why = "fjall could not write out its tables; the log says why";
                    return Err(EngineError::Io(why.into()));
                }
                return Ok(());
            }
            Refusal::Full | Refusal::WorkerFailed | Refusal::Locked => {}
        }
        if self.reserve.wait_for_room() {
            return Ok(());
        }
        Err(EngineError::Full(self.reserve.dir().to_owned()))
    }

    /// Has a full memtable written out, unless the worker is far behind or has failed: then the
    /// next commit sees to it.
    fn seal(&self, order: &mut Order) -> Result<(), EngineError> {
        if !order.is_full() {
            return Ok(());
        }
        self.with(|open| {
            // Only who commits sees whether the worker has failed; this writes nothing.
            let works = || open.database.persist(PersistMode::Buffer).is_ok();
            while open.map.sealed_memtable_count() >= SEALED_MAX && works() {
                std::thread::sleep(ASK_EVERY);
            }
            if works() && open.map.rotate_memtable().is_ok() {
                order.in_memory_bytes = 0;
            }
            Ok(())
        })
    }
}

/// Opens the database, and waits for what may hold it back: room, and the lock of its directory.
fn open_again(path: &Path, cache_bytes: u64, reserve: &Reserve) -> Result<Open, EngineError> {
    let started = Instant::now();
    loop {
        match open_once(path, cache_bytes) {
            Ok(open) => return Ok(open),
            Err(Refusal::Locked) if started.elapsed() < CLOSING_MAX => {
                std::thread::sleep(ASK_EVERY);
            }
            Err(Refusal::Full) if reserve.wait_for_room() => {}
            Err(Refusal::Full) => return Err(EngineError::Full(reserve.dir().to_owned())),
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::Locked | Refusal::WorkerFailed) => {
                return Err(EngineError::InUse(path.to_owned()));
            }
        }
    }
}

fn open_once(path: &Path, cache_bytes: u64) -> Result<Open, Refusal> {
    let database = Database::builder(path);
    let database = database.cache_size(cache_bytes).max_journaling_size(JOURNALS_BYTES);
    let database = database.worker_threads(WORKERS);
    let recover = AssertUnwindSafe(|| database.open());
    let recovered = std::panic::catch_unwind(recover)
        .map_err(|_| Refusal::Failed(EngineError::Corrupt("fjall's recovery panicked".into())))?;
    let database = recovered.map_err(refusal)?;
    let map = database.keyspace("map", map_options).map_err(refusal)?;
    let fence = database.keyspace("fence", KeyspaceCreateOptions::default).map_err(refusal)?;
    Ok(Open { database, map, fence })
}

/// How the map is kept. Filters and indexes are in parts of a block's size, as in fjall's lowest
/// levels: a whole filter has hundreds of KiB, more than one shard of a small cache takes (there
/// are four shards for each processor), and would be read for every lookup. Measured: 430 instead
/// of 10 µs for each entry of a listing with 8 MiB of cache on two processors.
fn map_options() -> KeyspaceCreateOptions {
    let in_parts = || PartitioningPolicy::all(true);
    KeyspaceCreateOptions::default()
        // Sealed by us.
        .max_memtable_size(u64::MAX)
        .filter_block_partitioning_policy(in_parts())
        .index_block_partitioning_policy(in_parts())
}

impl Engine for FjallEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.with(|open| {
            let found = open.map.get(key).map_err(failed)?;
            Ok(found.map(|value| Bytes::copy_from_slice(&value)))
        })
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        self.with(|open| visit_all(open.map.range::<&[u8], _>(bounds(&range)), visit))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        // Between two commits, as an acquisition.
        let _order = self.order.lock().map_err(poisoned)?;
        self.with(|open| {
            let (map, at) = (open.map.clone(), open.database.snapshot());
            Ok(Box::new(FjallSnapshot { map, at, _alive: self.snapshots.clone() }) as Box<_>)
        })
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let mut order = self.order.lock().map_err(poisoned)?;
        if order.epoch != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: order.epoch });
        }
        self.persist(&mut order, |open| open.write(batch))?;
        order.wrote(batch);
        self.seal(&mut order)?;
        self.keep_journal_room(&mut order)
    }

    fn commits_now(&self) -> bool {
        self.in_memory
    }

    fn commit_now(&self, batch: &Batch, fence_epoch: u64) -> Result<bool, EngineError> {
        let Some(mut order) = unless_taken(self.order.try_lock())? else { return Ok(false) };
        if order.epoch != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: order.epoch });
        }
        let Some(open) = unless_taken(self.open.try_read())? else { return Ok(false) };
        let Some(open) = open.as_ref().filter(|_| self.in_memory) else { return Ok(false) };
        // What is left to be done after the last commit is for who may wait.
        let has_room = order.has_journal_room(open.database.journal_count(), self.ahead_bytes);
        if order.is_full() || !has_room || open.holds_commits_back() {
            return Ok(false);
        }
        match open.write(batch) {
            Ok(()) => order.wrote(batch),
            Err(Refusal::Failed(error)) => return Err(error),
            Err(refusal) => {
                order.was_full |= matches!(refusal, Refusal::Full);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(self.order.lock().map_err(poisoned)?.epoch)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut order = self.order.lock().map_err(poisoned)?;
        let next = order.epoch + 1;
        self.persist(&mut order, |open| {
            let mut out = open.database.batch().durability(Some(PersistMode::SyncData));
            out.insert(&open.fence, EPOCH_KEY, next.to_be_bytes());
            out.commit().map_err(refusal)
        })?;
        order.epoch = next;
        Ok(next)
    }
}

impl Order {
    /// A batch was written.
    fn wrote(&mut self, batch: &Batch) {
        let bytes = batch.bytes() + (batch.len() * PAIR_OVERHEAD_BYTES) as u64;
        self.in_memory_bytes += bytes;
        self.since_allocated_bytes += bytes;
    }

    /// Whether the memtable is to be written out.
    fn is_full(&self) -> bool {
        self.in_memory_bytes >= MEMTABLE_BYTES
    }

    /// Whether enough is allocated behind the end of the journal, of which there are so many.
    fn has_journal_room(&self, journals: usize, ahead: u64) -> bool {
        ahead == 0 || journals == self.journals && self.since_allocated_bytes < ahead / 2
    }
}

impl Open {
    /// Whether fjall has a commit wait for its worker.
    fn holds_commits_back(&self) -> bool {
        self.map.l0_table_count() >= UNMERGED_MAX || self.map.sealed_memtable_count() > SEALED_MAX
    }

    fn write(&self, batch: &Batch) -> Result<(), Refusal> {
        let mut out = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), batch.len())
            .durability(Some(PersistMode::SyncData));
        for (key, value) in batch.iter() {
            match value {
                Some(value) => out.insert(&self.map, &key[..], &value[..]),
                None => out.remove(&self.map, &key[..]),
            }
        }
        out.commit().map_err(refusal)
    }
}

/// What fjall's errors mean to us.
fn refusal(error: fjall::Error) -> Refusal {
    match &error {
        fjall::Error::Poisoned => return Refusal::WorkerFailed,
        fjall::Error::Locked => return Refusal::Locked,
        _ => {}
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if inner.downcast_ref().is_some_and(reserve::is_full) {
            return Refusal::Full;
        }
        cause = inner.source();
    }
    Refusal::Failed(failed(error))
}

/// A moment of the map. Fjall keeps what it sees until it is dropped.
struct FjallSnapshot {
    map: Keyspace,
    at: fjall::Snapshot,
    /// The database is not closed before all of them are gone.
    _alive: Arc<()>,
}

impl Snapshot for FjallSnapshot {
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        visit_all(self.at.range::<&[u8], _>(&self.map, bounds(&range)), visit)
    }
}

fn bounds<'a>(range: &KeyRange<'a>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(range.from), range.until.map_or(Bound::Unbounded, Bound::Excluded))
}

fn visit_all(pairs: fjall::Iter, visit: &mut Visit<'_>) -> Result<(), EngineError> {
    for pair in pairs {
        let (key, value) = pair.into_inner().map_err(failed)?;
        if visit(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn decode_epoch(raw: &[u8]) -> Result<u64, EngineError> {
    let raw = raw.try_into().map_err(|_| EngineError::Corrupt("the epoch record".into()))?;
    Ok(u64::from_be_bytes(raw))
}

pub(super) fn poisoned<T>(_: std::sync::PoisonError<T>) -> EngineError {
    EngineError::Io("an earlier commit of this engine panicked".into())
}

/// A lock, unless somebody has it.
fn unless_taken<T>(tried: Result<T, TryLockError<T>>) -> Result<Option<T>, EngineError> {
    match tried {
        Ok(guard) => Ok(Some(guard)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Poisoned(broken)) => Err(poisoned(broken)),
    }
}

fn failed(error: fjall::Error) -> EngineError {
    EngineError::Io(format!("fjall: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many commits there are while tables are merged, what is only in memory and in
    /// journals stays bounded, is written out in the end, and is found again.
    #[test]
    fn memory_and_journals_are_bounded() {
        const PAIRS: u64 = 1000;
        let dir = tempfile::tempdir().unwrap();
        let reserve = Arc::new(Reserve::open(dir.path(), 0).unwrap());
        let path = dir.path().join("fjall");
        let engine = FjallEngine::open(&path, 8 << 20, &reserve).unwrap();
        let epoch = engine.acquire().unwrap();
        let value = |n: u64| (0..1000).map(|i| (n * 31 + i) as u8).collect::<Vec<_>>();
        let sealed = || engine.with(|open| Ok(open.map.sealed_memtable_count())).unwrap();
        let commit = |numbers: std::ops::Range<u64>| {
            let mut batch = Batch::new();
            for n in numbers {
                batch.put(n.reverse_bits().to_be_bytes().to_vec(), value(n));
            }
            engine.commit(&batch, epoch).unwrap();
            assert!(sealed() <= 4);
            assert!(engine.order.lock().unwrap().in_memory_bytes < MEMTABLE_BYTES);
        };
        let mut n = 0;
        for _ in 0..5 {
            for _ in 0..40 {
                commit(n..n + PAIRS);
                n += PAIRS;
            }
            for _ in 0..1500 {
                commit(n..n + 1);
                n += 1;
            }
        }
        let started = std::time::Instant::now();
        while sealed() > 0 {
            assert!(started.elapsed().as_secs() < 60, "nobody writes the memtables out");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let journals = engine.with(|open| open.database.journal_disk_space().map_err(failed));
        let journals = journals.unwrap();
        assert!(journals <= JOURNALS_BYTES + 2 * (64 << 20), "{} MiB", journals >> 20);
        drop(engine);
        let engine = FjallEngine::open(&path, 8 << 20, &reserve).unwrap();
        for n in (0..n).step_by(997) {
            let found = engine.get(&n.reverse_bits().to_be_bytes()).unwrap();
            assert_eq!(found.unwrap(), value(n), "{n}");
        }
    }
}
