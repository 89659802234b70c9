//! Making a volume from a backup: beside its place, whole, checked and synced, and only then under
//! its name. Whatever happens before that leaves nothing that is a volume.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use weft_io::durable;

use super::error::{BackupError, BackupSummary};
use super::format::BackupHeader;
use super::read::{BackupReader, Record};
use super::restored::{self, Restored};
use crate::engine::{self, AckedFile, Batch, DirectoryLock, Engine, EngineError, EngineKind};
use crate::types::{InodeNo, Kind, Timestamp};
use crate::volume::codec::Progress;
use crate::volume::config::VolumeConfig;
use crate::volume::fsck::Checked;
use crate::volume::handle::Volume;
use crate::volume::keys::{self, prefix};
use crate::volume::{codec, open};

/// Bytes of records that are made durable together.
const BATCH_BYTES: usize = 4 << 20;
/// What is written last: without it there is no volume.
const LAST: [&[u8]; 3] = [keys::IDENTITY, keys::PROGRESS, keys::RESTORED];
/// Inode numbers that are passed over: more than can have been given since any backup, so that a
/// number is new to data servers that have not told yet what they have seen.
const NUMBERS_PASSED_OVER: u64 = 1 << 40;
/// What is added to the name of a volume that is being restored.
const BUILDING_SUFFIX: &str = "restoring";

/// How a volume is restored.
#[derive(Clone, Copy, Debug)]
pub struct Restore {
    /// The engine that shall keep it.
    pub engine: EngineKind,
    /// A random name for this restoration, which data servers tell it from others by.
    pub id: [u8; 16],
    /// The time.
    pub now: Timestamp,
}

/// What was restored.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    /// What the backup was of.
    pub header: BackupHeader,
    /// What it held.
    pub summary: BackupSummary,
    /// Regular files among its inodes.
    pub files: u64,
    /// The new volume, each record against the others: findings were in the backup.
    pub checked: Checked,
}

/// Restores the backup that `input` reads to `directory`, which must not be there: the directory
/// that it is in holds nothing else either, but may be missing.
///
/// Clients of the backup's time may reclaim nothing from the restored volume, and no inode number
/// stays reserved: its objects may have become a file since. Everything else is as it was.
///
/// # Errors
/// [`BackupError`]; nothing is left of the volume then.
pub fn restore(
    input: impl Read,
    directory: &Path,
    how: &Restore,
) -> Result<RestoreReport, BackupError> {
    let reader = BackupReader::start(input)?;
    let found = reader.header().volume_format()?;
    let known = open::FORMAT_VERSION;
    if found != known {
        return Err(BackupError::VolumeFormat { found, known });
    }
    let home = directory.parent().filter(|home| *home != Path::new(""));
    let home = home.unwrap_or(Path::new("."));
    let building = directory.with_extension(BUILDING_SUFFIX);
    require_empty(home, &building)?;
    durable::create_private_dir(home).map_err(|e| cannot("make", home, &e))?;
    let lock = clear(&building)?;
    let report = build(reader, &building, how).and_then(|report| {
        sync_all(&building).map_err(|e| cannot("sync", &building, &e))?;
        durable::rename(&building, directory).map_err(|e| cannot("make", directory, &e))?;
        Ok(report)
    });
    if report.is_err() {
        // What stays is no volume, and the next restoration begins by removing it.
        let _ = fs::remove_dir_all(&building);
    }
    drop(lock);
    report
}

/// Refuses a directory that has something: two volumes are never mixed, and none is replaced.
fn require_empty(home: &Path, building: &Path) -> Result<(), BackupError> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(cannot("read", home, &e)),
    };
    for entry in entries {
        let name = entry.map_err(|e| cannot("read", home, &e))?.file_name();
        if Some(name.as_os_str()) != building.file_name() && name != "lost+found" {
            let (home, name) = (home.display(), name.display());
            return Err(BackupError::Directory(format!(
                "{home}: it is not empty (it has {name}); a volume is restored to a new or empty \
                 directory: name another, or move what is there aside"
            )));
        }
    }
    Ok(())
}

/// An empty directory at `building`, locked, in place of what an interrupted restoration left.
fn clear(building: &Path) -> Result<DirectoryLock, BackupError> {
    if building.exists() {
        let at_work = |e| match e {
            EngineError::InUse(_) => {
                let at = building.display();
                BackupError::Directory(format!("{at}: another restoration is at work"))
            }
            e => e.into(),
        };
        let lock = DirectoryLock::acquire(building).map_err(at_work)?;
        fs::remove_dir_all(building).map_err(|e| cannot("remove", building, &e))?;
        drop(lock);
    }
    Ok(DirectoryLock::acquire(building)?)
}

/// Reads the backup into a new engine in `directory`, and checks what came out.
fn build<R: Read>(
    mut reader: BackupReader<R>,
    directory: &Path,
    how: &Restore,
) -> Result<RestoreReport, BackupError> {
    let config = VolumeConfig { engine: how.engine, ..VolumeConfig::default() };
    let reserve = open::reserve(directory, config.reserve_bytes)?;
    let engine = engine::open(how.engine, &reserve, config.engine_cache_bytes())?;
    let mut loader = Loader::new(&*engine)?;
    while let Some(records) = reader.next_block()? {
        loader.load(records)?;
    }
    let header = reader.header().clone();
    let files = loader.finish(&header, how)?;
    AckedFile::open(directory, header.lsn.0)?;
    let volume = Volume::with_engine(Arc::clone(&engine), &config)?;
    let checked = volume.fsck()?;
    Ok(RestoreReport { header, summary: reader.summary(), files, checked })
}

/// Records on their way into a new engine.
struct Loader<'a> {
    engine: &'a dyn Engine,
    epoch: u64,
    batch: Batch,
    batch_bytes: usize,
    /// Those of [`LAST`].
    meta: Vec<Record>,
    files: u64,
}

impl<'a> Loader<'a> {
    fn new(engine: &'a dyn Engine) -> Result<Self, BackupError> {
        let (epoch, batch) = (engine.acquire()?, Batch::new());
        Ok(Self { engine, epoch, batch, batch_bytes: 0, meta: Vec::new(), files: 0 })
    }

    fn load(&mut self, records: Vec<Record>) -> Result<(), BackupError> {
        for (key, value) in records {
            match key.first().copied() {
                // A client that reclaimed would get back what was another's since.
                Some(prefix::CLIENT | prefix::RESERVED) => {}
                _ if LAST.contains(&&key[..]) => self.meta.push((key, value)),
                kind => {
                    let is_file = kind == Some(prefix::INODE) && is_file(&key, &value);
                    self.files += u64::from(is_file);
                    self.batch_bytes += key.len() + value.len();
                    self.batch.put(key, value);
                }
            }
        }
        if self.batch_bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), BackupError> {
        self.batch_bytes = 0;
        Ok(self.engine.commit(&std::mem::take(&mut self.batch), self.epoch)?)
    }

    /// Makes it a volume, which knows that it was restored; how many regular files it has.
    fn finish(mut self, header: &BackupHeader, how: &Restore) -> Result<u64, BackupError> {
        let meta = |wanted| self.meta.iter().find(|(key, _)| key == wanted).map(|(_, raw)| raw);
        let before = meta(keys::RESTORED).map(|raw| restored::decode(raw)).transpose()?;
        let progress = meta(keys::PROGRESS).map(|raw| codec::decode_progress(raw)).transpose()?;
        let progress = progress.filter(|progress| progress.lsn == header.lsn);
        let whole = meta(keys::IDENTITY).is_some();
        let Some(progress) = progress.filter(|_| whole) else {
            return Err(BackupError::Damaged { at: 0, what: "it has no identity or progress" });
        };
        let restored = Restored {
            id: how.id,
            previous: before.map_or([0; 16], |before| before.id),
            lsn: header.lsn,
            time: how.now,
            first_new: InodeNo(progress.next_ino),
            reconciled: [].into(),
        };
        self.commit()?;
        for (key, value) in std::mem::take(&mut self.meta) {
            self.batch.put(key, value);
        }
        let next_ino = progress.next_ino.saturating_add(NUMBERS_PASSED_OVER);
        let progress = codec::encode_progress(&Progress { next_ino, ..progress });
        self.batch.put(keys::PROGRESS, progress);
        self.batch.put(keys::RESTORED, restored::encode(&restored));
        self.commit()?;
        Ok(self.files)
    }
}

fn is_file(key: &[u8], value: &Bytes) -> bool {
    let inode = keys::number_of(key).map(|no| codec::decode_inode(InodeNo(no), value));
    matches!(inode, Some(Ok(inode)) if inode.kind == Kind::File)
}

fn sync_all(directory: &Path) -> io::Result<()> {
    let mut inside: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory)? {
        inside.push(entry?.path());
    }
    for path in inside {
        if path.is_dir() { sync_all(&path)? } else { File::open(&path)?.sync_all()? }
    }
    durable::sync_dir(directory)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> BackupError {
    BackupError::Directory(format!("cannot {what} {}: {error}", path.display()))
}
