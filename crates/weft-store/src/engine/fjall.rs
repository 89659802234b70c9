//! The default engine: fjall, a log-structured merge tree (about 200 bytes written a durable
//! operation). Its own concurrent sync is slow, which is why grouping is the volume's work.

use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::contract::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};

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

/// An [`Engine`] over one fjall database.
pub struct FjallEngine {
    database: Database,
    map: Keyspace,
    fence: Keyspace,
    /// Held over every commit, so that an acquisition falls between commits.
    order: Mutex<Order>,
}

/// What the order of commits depends on.
struct Order {
    /// The current epoch.
    epoch: u64,
    /// Approximate size of the memtable in bytes.
    in_memory_bytes: u64,
}

impl FjallEngine {
    /// Opens (or makes) the database at `path` with a block cache of `cache_bytes`.
    ///
    /// **Errors.** [`EngineError::Corrupt`] also where fjall's recovery panics on a damaged
    /// journal.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, EngineError> {
        let database = Database::builder(path);
        let database = database.cache_size(cache_bytes).max_journaling_size(JOURNALS_BYTES);
        let database = database.worker_threads(WORKERS);
        let recover = AssertUnwindSafe(|| database.open());
        let recovered = std::panic::catch_unwind(recover)
            .map_err(|_| EngineError::Corrupt("fjall's recovery panicked".into()))?;
        let database = recovered.map_err(failed)?;
        let map = database.keyspace("map", map_options).map_err(failed)?;
        let fence = database.keyspace("fence", KeyspaceCreateOptions::default).map_err(failed)?;
        let epoch = match fence.get(EPOCH_KEY).map_err(failed)? {
            None => 0,
            Some(raw) => decode_epoch(&raw)?,
        };
        let order = Mutex::new(Order { epoch, in_memory_bytes: 0 });
        Ok(Self { database, map, fence, order })
    }
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
        let found = self.map.get(key).map_err(failed)?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        visit_all(self.map.range::<&[u8], _>(bounds(&range)), visit)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        // Between two commits, as an acquisition.
        let _order = self.order.lock().map_err(poisoned)?;
        Ok(Box::new(FjallSnapshot { map: self.map.clone(), at: self.database.snapshot() }))
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let mut order = self.order.lock().map_err(poisoned)?;
        if order.epoch != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: order.epoch });
        }
        let mut out = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), batch.len())
            .durability(Some(PersistMode::SyncData));
        for (key, value) in batch.iter() {
            let value_bytes = value.map_or(0, |value| value.len());
            order.in_memory_bytes += (key.len() + value_bytes + PAIR_OVERHEAD_BYTES) as u64;
            match value {
                Some(value) => out.insert(&self.map, &key[..], &value[..]),
                None => out.remove(&self.map, &key[..]),
            }
        }
        out.commit().map_err(failed)?;
        if order.in_memory_bytes >= MEMTABLE_BYTES {
            // With four that are not written out yet, fjall holds the next commit back.
            self.map.rotate_memtable().map_err(failed)?;
            order.in_memory_bytes = 0;
        }
        Ok(())
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(self.order.lock().map_err(poisoned)?.epoch)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut order = self.order.lock().map_err(poisoned)?;
        let next = order.epoch + 1;
        let mut out = self.database.batch().durability(Some(PersistMode::SyncData));
        out.insert(&self.fence, EPOCH_KEY, next.to_be_bytes());
        out.commit().map_err(failed)?;
        order.epoch = next;
        Ok(next)
    }
}

/// A moment of the map. Fjall keeps what it sees until it is dropped.
struct FjallSnapshot {
    map: Keyspace,
    at: fjall::Snapshot,
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
        let engine = FjallEngine::open(dir.path(), 8 << 20).unwrap();
        let epoch = engine.acquire().unwrap();
        let value = |n: u64| (0..1000).map(|i| (n * 31 + i) as u8).collect::<Vec<_>>();
        let commit = |numbers: std::ops::Range<u64>| {
            let mut batch = Batch::new();
            for n in numbers {
                batch.put(n.reverse_bits().to_be_bytes().to_vec(), value(n));
            }
            engine.commit(&batch, epoch).unwrap();
            assert!(engine.map.sealed_memtable_count() <= 4);
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
        while engine.map.sealed_memtable_count() > 0 {
            assert!(started.elapsed().as_secs() < 60, "nobody writes the memtables out");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let journals = engine.database.journal_disk_space().unwrap();
        assert!(journals <= JOURNALS_BYTES + 2 * (64 << 20), "{} MiB", journals >> 20);
        drop(engine);
        let engine = FjallEngine::open(dir.path(), 8 << 20).unwrap();
        for n in (0..n).step_by(997) {
            let found = engine.get(&n.reverse_bits().to_be_bytes()).unwrap();
            assert_eq!(found.unwrap(), value(n), "{n}");
        }
    }
}
