//! The fence log: the epochs that objects still accept, surviving restarts (design D5).
//!
//! Records of 32 bytes behind a header of 32 (`docs/formats.md`). Epochs only rise, so records
//! may be applied in any order, and a record that survived a crash without having been
//! acknowledged does no harm. Each record says how many records before it were durable when it
//! was written: that tells a torn tail (tolerated) from damage to what was acknowledged (refused).

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{BufReader, BufWriter, ErrorKind, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
};

use rustix::fs::{FallocateFlags, fallocate};

use super::{
    epoch::REMOVED,
    error::{ObjectError, io},
    files::{open_rw, replace_file},
    group_sync::GroupSync,
    object_id::ObjectId,
};
use crate::sync::{lock, read, write};

const LOG_FILE: &str = "fences.log";
const MAGIC: [u8; 8] = *b"weftfnc1";

/// A record, and the header. Divides a sector, so that records are not torn inside one.
const RECORD_BYTES: usize = 32;

/// Tombstones kept: the newest ones, about 60 MB of memory. An object whose tombstone is gone
/// could be made again only by a write that was late by a million removals, and would then be an
/// orphan that a scrub finds, never another file's data: numbers are not reused.
const TOMBSTONES_MAX: usize = 1 << 20;

/// A log shorter than this is not worth compacting (2 MiB).
const COMPACT_RECORDS_MIN: u64 = 1 << 16;

/// Disk space kept allocated behind the log's end: a full disk must still be able to fence, and
/// to remove objects, or it could never become less full (32,768 records).
const RESERVE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct FenceLog {
    root: PathBuf,
    identity: [u8; 16],
    limits: Limits,
    /// The file. Held while it is written, and while it is replaced.
    log: Mutex<Log>,
    /// What the log says. Changed by who holds `log` only, and only after the file was: whoever
    /// just asks for an epoch never waits for the disk.
    epochs: RwLock<Epochs>,
    sync: GroupSync,
}

/// The bounds above, smaller in tests.
#[derive(Debug, Clone, Copy)]
struct Limits {
    tombstones_max: usize,
    compact_records_min: u64,
}

const LIMITS: Limits =
    Limits { tombstones_max: TOMBSTONES_MAX, compact_records_min: COMPACT_RECORDS_MIN };

#[derive(Debug)]
struct Log {
    file: Arc<File>,
    /// Records in the file.
    records: u64,
    /// Of these, known durable.
    durable: u64,
    /// Space is allocated up to here.
    reserved_bytes: u64,
    /// Compact when the file has this many records.
    compact_at: u64,
    /// After a failed write or sync nothing is known about the file's tail.
    poisoned: bool,
}

/// What the log says, in memory.
#[derive(Debug, Default)]
struct Epochs {
    epoch_by_object: HashMap<ObjectId, u32>,
    /// The removed objects of the map, oldest first.
    tombstones: VecDeque<ObjectId>,
}

impl Epochs {
    fn of(&self, id: ObjectId) -> u32 {
        self.epoch_by_object.get(&id).copied().unwrap_or(0)
    }

    fn raise(&mut self, id: ObjectId, epoch: u32, tombstones_max: usize) {
        if epoch <= self.of(id) {
            return;
        }
        self.epoch_by_object.insert(id, epoch);
        if epoch == REMOVED {
            self.tombstones.push_back(id);
        }
        if self.tombstones.len() > tombstones_max
            && let Some(oldest) = self.tombstones.pop_front()
        {
            self.epoch_by_object.remove(&oldest);
        }
    }

    /// All of it, tombstones last and in their order.
    fn iter(&self) -> impl Iterator<Item = (ObjectId, u32)> {
        let live = self.epoch_by_object.iter().map(|(id, e)| (*id, *e));
        live.filter(|(_, e)| *e != REMOVED).chain(self.tombstones.iter().map(|id| (*id, REMOVED)))
    }

    fn len(&self) -> u64 {
        self.epoch_by_object.len() as u64
    }
}

impl FenceLog {
    /// The empty log of a new store.
    pub(super) fn create(root: &Path, identity: [u8; 16]) -> Result<Self, ObjectError> {
        Self::with_limits(root, identity, LIMITS, true)
    }

    /// The log of an existing store.
    ///
    /// # Errors
    /// [`ObjectError::Corrupt`] if it is missing, another store's, or damaged where it had been
    /// acknowledged.
    pub(super) fn open(root: &Path, identity: [u8; 16]) -> Result<Self, ObjectError> {
        Self::with_limits(root, identity, LIMITS, false)
    }

    fn with_limits(
        root: &Path,
        identity: [u8; 16],
        limits: Limits,
        new: bool,
    ) -> Result<Self, ObjectError> {
        let loaded = if new { None } else { Some(load(root, identity, limits)?) };
        let (log, epochs) = match loaded {
            Some(Loaded { log, epochs, torn: false }) => {
                // What an earlier process wrote may be in the page cache only; from here on it is
                // relied upon, for a fence that is as high already is not written again.
                log.file.sync_all().map_err(io("sync the fence log"))?;
                (log, epochs)
            }
            Some(Loaded { epochs, torn: true, .. }) => write_out(root, identity, limits, epochs)?,
            None => write_out(root, identity, limits, Epochs::default())?,
        };
        let mut log = Log { durable: log.records, ..log };
        log.reserve((log.records + 1) * RECORD_BYTES as u64);
        let (log, epochs, sync) = (Mutex::new(log), RwLock::new(epochs), GroupSync::default());
        Ok(FenceLog { root: root.to_owned(), identity, limits, log, epochs, sync })
    }

    /// The smallest epoch the object accepts.
    pub(super) fn epoch(&self, id: ObjectId) -> u32 {
        read(&self.epochs).of(id)
    }

    /// The highest epoch of a volume's objects, removed ones aside. Looks at all of them.
    pub(super) fn highest(&self, volume: u32) -> u32 {
        let epochs = read(&self.epochs);
        let of_volume = epochs.epoch_by_object.iter().filter(|(id, _)| id.volume == volume);
        of_volume.map(|(_, epoch)| *epoch).filter(|e| *e != REMOVED).max().unwrap_or(0)
    }

    /// Raises an epoch in memory and appends it to the log; durable after [`Self::sync`].
    pub(super) fn raise(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        let mut log = lock(&self.log);
        if log.poisoned {
            return Err(ObjectError::Poisoned);
        }
        if epoch <= self.epoch(id) {
            return Ok(());
        }
        log.append(id, epoch)?;
        write(&self.epochs).raise(id, epoch, self.limits.tombstones_max);
        if log.records >= log.compact_at {
            self.compact(&mut log)?;
        }
        Ok(())
    }

    /// Makes everything appended so far durable.
    pub(super) fn sync(&self) -> Result<(), ObjectError> {
        self.sync.run(|| {
            let (file, records, durable) = {
                let log = lock(&self.log);
                if log.poisoned {
                    return Err(ObjectError::Poisoned);
                }
                (log.file.clone(), log.records, log.durable)
            };
            if records == durable {
                return Ok(());
            }
            let synced = file.sync_data().map_err(io("sync the fence log"));
            let mut log = lock(&self.log);
            // A compaction has replaced the file meanwhile: all of it is durable already.
            if Arc::ptr_eq(&file, &log.file) {
                match synced {
                    Ok(()) => log.durable = log.durable.max(records),
                    Err(_) => log.poisoned = true,
                }
                return synced;
            }
            Ok(())
        })
    }

    /// Rewrites the log with what still counts. Without space the old one goes on growing.
    fn compact(&self, log: &mut Log) -> Result<(), ObjectError> {
        // Shared with all who ask meanwhile: nobody changes them without the log.
        let epochs = read(&self.epochs);
        match fill_new(&self.root, self.identity, &epochs) {
            Ok(file) => *log = Log::new(file, epochs.len(), self.limits, &epochs),
            Err(ObjectError::NoSpace) => log.compact_at = log.records.saturating_mul(2),
            Err(e) => {
                // Old or new file: which one a crash would leave is unknown.
                log.poisoned = true;
                return Err(e);
            }
        }
        Ok(())
    }
}

impl Log {
    /// The state over a file whose records are all durable.
    fn new(file: File, records: u64, limits: Limits, epochs: &Epochs) -> Self {
        Log {
            file: Arc::new(file),
            records,
            durable: records,
            reserved_bytes: 0,
            compact_at: limits.compact_records_min.max(epochs.len().saturating_mul(2)),
            poisoned: false,
        }
    }

    fn append(&mut self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        let at = (self.records + 1) * RECORD_BYTES as u64;
        self.reserve(at);
        let record = encode_record(id, epoch, self.durable);
        let written = self.file.write_all_at(&record, at).map_err(io("write the fence log"));
        if let Err(e) = written {
            // Without space nothing happened: the next record goes to the same place.
            self.poisoned |= e != ObjectError::NoSpace;
            return Err(e);
        }
        self.records += 1;
        Ok(())
    }

    /// Keeps space allocated behind `at`. A refusal is no error yet: the log lives on what it
    /// has, and appending finds out.
    fn reserve(&mut self, at: u64) {
        if at + RESERVE_BYTES / 2 <= self.reserved_bytes {
            return;
        }
        let flags = FallocateFlags::KEEP_SIZE;
        if fallocate(&*self.file, flags, at, RESERVE_BYTES).is_ok() {
            self.reserved_bytes = at + RESERVE_BYTES;
        }
    }
}

struct Loaded {
    log: Log,
    epochs: Epochs,
    /// Records that were never acknowledged are damaged: the file must be rewritten.
    torn: bool,
}

/// Reads the log of an existing store.
fn load(root: &Path, identity: [u8; 16], limits: Limits) -> Result<Loaded, ObjectError> {
    let file = match open_rw(&root.join(LOG_FILE), false) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(ObjectError::Corrupt("the fence log is missing"));
        }
        Err(e) => return Err(io("open the fence log")(e)),
    };
    let mut reader = BufReader::new(&file);
    let mut block = [0; RECORD_BYTES];
    if !read_block(&mut reader, &mut block)? || block != encode_header(identity) {
        return Err(ObjectError::Corrupt("the fence log's header"));
    }
    let mut epochs = Epochs::default();
    let (mut records, mut first_bad, mut durable) = (0, None, 0);
    while read_block(&mut reader, &mut block)? {
        match decode_record(&block) {
            Some((id, epoch, before)) => {
                epochs.raise(id, epoch, limits.tombstones_max);
                durable = durable.max(before);
            }
            None => first_bad = first_bad.or(Some(records)),
        }
        records += 1;
    }
    if first_bad.is_some_and(|bad| bad < durable) {
        return Err(ObjectError::Corrupt("an acknowledged fence"));
    }
    let whole = file.metadata().map_err(io("stat the fence log"))?.len();
    let torn = first_bad.is_some() || whole != (records + 1) * RECORD_BYTES as u64;
    Ok(Loaded { log: Log::new(file, records, limits, &epochs), epochs, torn })
}

/// Reads a whole block; false at the end, where less than a block may be left.
fn read_block(r: &mut impl Read, block: &mut [u8; RECORD_BYTES]) -> Result<bool, ObjectError> {
    match r.read_exact(block) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(io("read the fence log")(e)),
    }
}

/// Replaces the log by one that says just this.
fn write_out(
    root: &Path,
    identity: [u8; 16],
    limits: Limits,
    epochs: Epochs,
) -> Result<(Log, Epochs), ObjectError> {
    let file = fill_new(root, identity, &epochs)?;
    Ok((Log::new(file, epochs.len(), limits, &epochs), epochs))
}

fn fill_new(root: &Path, identity: [u8; 16], epochs: &Epochs) -> Result<File, ObjectError> {
    replace_file(root, LOG_FILE, |file| {
        let mut w = BufWriter::new(file);
        w.write_all(&encode_header(identity))?;
        for (id, epoch) in epochs.iter() {
            // The whole file is durable before it gets its name, so every record is acknowledged.
            w.write_all(&encode_record(id, epoch, epochs.len()))?;
        }
        w.flush()
    })
}

fn encode_header(identity: [u8; 16]) -> [u8; RECORD_BYTES] {
    let mut block = [0; RECORD_BYTES];
    block[..8].copy_from_slice(&MAGIC);
    block[8..24].copy_from_slice(&identity);
    seal(block)
}

fn encode_record(id: ObjectId, epoch: u32, durable: u64) -> [u8; RECORD_BYTES] {
    let mut block = [0; RECORD_BYTES];
    block[..4].copy_from_slice(&id.volume.to_be_bytes());
    block[4..12].copy_from_slice(&id.object.to_be_bytes());
    block[12..16].copy_from_slice(&epoch.to_be_bytes());
    block[16..24].copy_from_slice(&durable.to_be_bytes());
    seal(block)
}

/// The record, or `None` if its checksum is wrong.
fn decode_record(block: &[u8; RECORD_BYTES]) -> Option<(ObjectId, u32, u64)> {
    if *block != seal(*block) {
        return None;
    }
    let volume = u32::from_be_bytes(*block.first_chunk()?);
    let object = u64::from_be_bytes(*block.get(4..)?.first_chunk()?);
    let epoch = u32::from_be_bytes(*block.get(12..)?.first_chunk()?);
    let durable = u64::from_be_bytes(*block.get(16..)?.first_chunk()?);
    Some((ObjectId { volume, object }, epoch, durable))
}

/// Puts the CRC-32C of the first 28 bytes into the last 4.
fn seal(mut block: [u8; RECORD_BYTES]) -> [u8; RECORD_BYTES] {
    let crc = crc_fast::crc32_iscsi(&block[..28]);
    block[28..].copy_from_slice(&crc.to_be_bytes());
    block
}

#[cfg(test)]
mod tests;
