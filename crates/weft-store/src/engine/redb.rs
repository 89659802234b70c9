//! The second engine: redb, a copy-on-write B+tree in one file. It passes the same suite;
//! it writes more (about 13 KB a durable operation), but its correctness story is the most
//! conservative.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use super::contract::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};
use super::fjall::{decode_epoch, poisoned};
use super::patient_file::PatientFile;
use crate::reserve::Reserve;

const MAP: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("map");
const FENCE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("fence");
/// Key of the epoch in the table `fence`.
const EPOCH_KEY: &[u8] = b"epoch";

/// An [`Engine`] over one redb file.
pub struct RedbEngine {
    database: Database,
    /// The current epoch; held over every commit, so that an acquisition falls between commits.
    epoch: Mutex<u64>,
}

impl RedbEngine {
    /// Opens (or makes) the file at `path` with a page cache of `cache_bytes`. On a full disk it
    /// lives on the reserve, and then waits: redb itself never learns that there was no room, since
    /// after an error it would answer nothing any more.
    pub fn open(
        path: &Path,
        cache_bytes: u64,
        reserve: &Arc<Reserve>,
    ) -> Result<Self, EngineError> {
        let file = PatientFile::open(path, reserve).map_err(failed)?;
        let refused = file.refused();
        let full = |error| match refused.load(Ordering::Acquire) {
            true => EngineError::Full(reserve.dir().to_owned()),
            false => error,
        };
        Self::over(file, cache_bytes).map_err(full)
    }

    fn over(file: PatientFile, cache_bytes: u64) -> Result<Self, EngineError> {
        let cache = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let database = Database::builder().set_cache_size(cache).create_with_backend(file);
        let database = database.map_err(failed)?;
        // Readers may then rely on both tables.
        let transaction = database.begin_write().map_err(failed)?;
        transaction.open_table(MAP).map_err(failed)?;
        let epoch = match transaction.open_table(FENCE).map_err(failed)?.get(EPOCH_KEY) {
            Ok(None) => 0,
            Ok(Some(raw)) => decode_epoch(raw.value())?,
            Err(e) => return Err(failed(e)),
        };
        transaction.commit().map_err(failed)?;
        Ok(Self { database, epoch: Mutex::new(epoch) })
    }

    fn now(&self) -> Result<RedbSnapshot, EngineError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        Ok(RedbSnapshot(transaction.open_table(MAP).map_err(failed)?))
    }
}

/// A moment of the map: a read transaction, which redb's pages wait for.
struct RedbSnapshot(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Snapshot for RedbSnapshot {
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        let until = range.until.map_or(Bound::Unbounded, Bound::Excluded);
        for pair in self.0.range::<&[u8]>((Bound::Included(range.from), until)).map_err(failed)? {
            let (key, value) = pair.map_err(failed)?;
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for RedbEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(MAP).map_err(failed)?;
        let found = table.get(key).map_err(failed)?;
        Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.now()?.scan(range, visit)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(self.now()?))
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let current = self.epoch.lock().map_err(poisoned)?;
        if *current != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: *current });
        }
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut table = transaction.open_table(MAP).map_err(failed)?;
        for (key, value) in batch.iter() {
            match value {
                Some(value) => table.insert(&key[..], &value[..]).map_err(failed)?,
                None => table.remove(&key[..]).map_err(failed)?,
            };
        }
        drop(table);
        transaction.commit().map_err(failed)
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(*self.epoch.lock().map_err(poisoned)?)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut current = self.epoch.lock().map_err(poisoned)?;
        let next = *current + 1;
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut table = transaction.open_table(FENCE).map_err(failed)?;
        table.insert(EPOCH_KEY, &next.to_be_bytes()[..]).map_err(failed)?;
        drop(table);
        transaction.commit().map_err(failed)?;
        *current = next;
        Ok(next)
    }
}

fn failed(error: impl Into<redb::Error>) -> EngineError {
    EngineError::Io(format!("redb: {}", error.into()))
}
