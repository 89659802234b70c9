//! The default engine: fjall, a log-structured merge tree (about 200 bytes written a durable
//! operation). Its own concurrent sync is slow, which is why grouping is the volume's work.

use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Batch, Engine, EngineError, KeyRange, Visit};

/// Key of the epoch in the keyspace `fence`.
const EPOCH_KEY: &[u8] = b"epoch";

/// Bytes written that are kept in memory before they become a table. Their index costs about as
/// much again, and a full one stays until it is written out: with 16 MiB a server that made a
/// million files measured 130 MiB less than with fjall's 64, at the same rate.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// Bytes of journals that are kept; a start reads them all, so this bounds how long it takes: with
/// fjall's 512 MiB a volume of a million files took 5 s of processor time to open.
const JOURNALS_BYTES: u64 = 128 << 20;

/// Threads that write out memtables and merge tables. With more than one, fjall's first leaves
/// merging to the others and spins while they do it: a processor lost for all that time.
const WORKERS: usize = 1;

/// An [`Engine`] over one fjall database.
pub struct FjallEngine {
    database: Database,
    map: Keyspace,
    fence: Keyspace,
    /// The current epoch; held over every commit, so that an acquisition falls between commits.
    epoch: Mutex<u64>,
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
        Ok(Self { database, map, fence, epoch: Mutex::new(epoch) })
    }
}

/// How the map is kept. Filters and indexes are in parts of a block's size, as in fjall's lowest
/// levels: a whole filter has hundreds of KiB, more than one shard of a small cache takes (there
/// are four shards for each processor), and would be read for every lookup. Measured: 430 instead
/// of 10 µs for each entry of a listing with 8 MiB of cache on two processors.
fn map_options() -> KeyspaceCreateOptions {
    let in_parts = || PartitioningPolicy::all(true);
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
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
        let until = range.until.map_or(Bound::Unbounded, Bound::Excluded);
        for pair in self.map.range::<&[u8], _>((Bound::Included(range.from), until)) {
            let (key, value) = pair.into_inner().map_err(failed)?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let current = self.epoch.lock().map_err(poisoned)?;
        if *current != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: *current });
        }
        let mut out = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), batch.len())
            .durability(Some(PersistMode::SyncData));
        for (key, value) in batch.iter() {
            match value {
                Some(value) => out.insert(&self.map, &key[..], &value[..]),
                None => out.remove(&self.map, &key[..]),
            }
        }
        out.commit().map_err(failed)
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(*self.epoch.lock().map_err(poisoned)?)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut current = self.epoch.lock().map_err(poisoned)?;
        let next = *current + 1;
        let mut out = self.database.batch().durability(Some(PersistMode::SyncData));
        out.insert(&self.fence, EPOCH_KEY, next.to_be_bytes());
        out.commit().map_err(failed)?;
        *current = next;
        Ok(next)
    }
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
