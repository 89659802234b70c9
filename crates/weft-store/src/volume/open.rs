//! Making a volume, and opening one that was made: take the directory, recover the engine, prove
//! that nothing acknowledged is missing. Opening never makes anything: a directory without a volume
//! is more often a wrong one than a new one.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::codec::{self, Identity, Progress};
use super::commit::Opened;
use super::config::{Format, VolumeConfig};
use super::keys;
use super::tx::Counters;
use crate::engine::{self, AckedFile, Batch, DirectoryLock, Engine, EngineError};
use crate::reserve::Reserve;
use crate::types::{HandlesOut, Inode, InodeNo, Kind, LengthBounds, Lsn, MODE_BITS, StoreError};

/// Version of the layout of keys this code reads and writes.
pub(super) const FORMAT_VERSION: u32 = 3;
/// First cookie of a directory: 0 is the start, 1 and 2 are reserved for "." and "..".
pub(super) const COOKIE_FIRST: u64 = 3;

/// What a directory or an engine is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To make a volume where there is none.
    Make,
    /// To open the volume that is there.
    Open,
}

pub(super) fn directory(
    at: &Path,
    config: &VolumeConfig,
    purpose: Purpose,
) -> Result<Opened, EngineError> {
    if purpose == Purpose::Open && engine::kind_of(at).is_none() {
        return Err(EngineError::NoVolume(at.to_owned()));
    }
    let lock = DirectoryLock::acquire(at)?;
    let reserve = reserve(at, config.reserve_bytes)?;
    let engine = engine::open(config.engine, &reserve, config.engine_cache_bytes())?;
    // An engine without an identity is what a crash left of a volume that was being made.
    match (purpose, is_made(&*engine)?) {
        (Purpose::Open, false) => {
            // One that acknowledged something is no volume that was being made.
            AckedFile::check(at, 0)?;
            return Err(EngineError::NoVolume(at.to_owned()));
        }
        (Purpose::Make, true) => return Err(EngineError::VolumeExists(at.to_owned())),
        _ => {}
    }
    let recovered = progress(&*engine)?.map_or(0, |progress| progress.lsn.0);
    let acked = AckedFile::open(at, recovered)?;
    let mut opened = self::engine(engine, config)?;
    opened.acked = Some(acked);
    opened.lock = Some(lock);
    opened.reserve = Some(reserve);
    Ok(opened)
}

/// The reserve, whole if there is room: without it nothing may grow.
pub(super) fn reserve(at: &Path, bytes_max: u64) -> Result<Arc<Reserve>, EngineError> {
    let failed = |e| EngineError::Io(format!("cannot keep a reserve in {}: {e}", at.display()));
    let reserve = Reserve::open(at, bytes_max).map_err(failed)?;
    reserve.look().map_err(failed)?;
    Ok(Arc::new(reserve))
}

/// Whether there is a volume, and one of ours. Asked before anything is read or changed: what
/// another version made may mean something else.
fn is_made(engine: &dyn Engine) -> Result<bool, EngineError> {
    let Some(raw) = engine.get(keys::IDENTITY)? else { return Ok(false) };
    let found = codec::decode_format(&raw).map_err(corrupt)?;
    if found != FORMAT_VERSION {
        return Err(EngineError::OtherFormat { found, read: FORMAT_VERSION });
    }
    Ok(true)
}

/// Opens the volume an engine holds, made if it holds none.
pub(super) fn engine(
    engine: Arc<dyn Engine>,
    config: &VolumeConfig,
) -> Result<Opened, EngineError> {
    let made = is_made(&*engine)?;
    let epoch = engine.acquire()?;
    if !made {
        engine.commit(&format(&config.format), epoch)?;
    }
    let raw = engine.get(keys::IDENTITY)?.ok_or_else(|| missing("identity"))?;
    let identity = codec::decode_identity(&raw).map_err(corrupt)?;
    let Progress { lsn, next_ino, inodes } =
        progress(&*engine)?.ok_or_else(|| missing("progress"))?;
    let floor = engine.get(keys::EPOCH_FLOOR)?.map(|raw| codec::decode_epoch_floor(&raw));
    let epoch_floor = floor.transpose().map_err(corrupt)?.unwrap_or(0);
    let counters = Counters { lsn, next_ino, inodes, epoch_floor };
    Ok(Opened { engine, epoch, identity, counters, acked: None, lock: None, reserve: None })
}

fn progress(engine: &dyn Engine) -> Result<Option<Progress>, EngineError> {
    let raw: Option<Bytes> = engine.get(keys::PROGRESS)?;
    raw.map(|raw| codec::decode_progress(&raw)).transpose().map_err(corrupt)
}

/// The first batch of a volume: its identity, its root, and that this was mutation 1.
fn format(format: &Format) -> Batch {
    let Format { number, uuid, fsid, .. } = *format;
    let identity = Identity { format: FORMAT_VERSION, number, uuid, fsid };
    let next_ino = InodeNo::ROOT.0 + 1;
    let progress = Progress { lsn: Lsn(1), next_ino, inodes: 1 };
    let root = root(format);
    let mut batch = Batch::new();
    batch.put(keys::IDENTITY, codec::encode_identity(&identity));
    batch.put(keys::PROGRESS, codec::encode_progress(&progress));
    batch.put(keys::inode(root.no), codec::encode_inode(&root));
    batch
}

fn root(format: &Format) -> Inode {
    let now = format.now;
    Inode {
        no: InodeNo::ROOT,
        kind: Kind::Directory,
        mode: format.root_mode & MODE_BITS,
        acl: None,
        uid: format.root_uid,
        gid: format.root_gid,
        nlink: 2,
        size: 0,
        change: 1,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        rdev: (0, 0),
        parent: InodeNo::ROOT,
        placement: None,
        fence_epoch: 0,
        handles: HandlesOut::NONE,
        create_verifier: None,
        target: Bytes::new(),
        entries: 0,
        next_cookie: COOKIE_FIRST,
        unsettled: false,
        occupied: None,
        has_xattrs: false,
        bounds: LengthBounds::NONE,
        stuffed: false,
        layout: None,
    }
}

fn missing(what: &str) -> EngineError {
    EngineError::Corrupt(format!("the volume has no {what} record"))
}

fn corrupt(error: StoreError) -> EngineError {
    EngineError::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;
    use crate::volume::Volume;

    /// A volume of another format, whose other records may mean anything, is refused as that, and
    /// nobody is deposed.
    #[test]
    fn another_format_is_left_as_it_is() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let config = VolumeConfig { engine: kind, ..VolumeConfig::default() };
            drop(Volume::make(dir.path(), &config).unwrap());
            let held = reserve(dir.path(), 0).unwrap();
            let engine = engine::open(config.engine, &held, 1 << 20).unwrap();
            let mut batch = Batch::new();
            let identity = [&[codec::VERSION][..], &(FORMAT_VERSION + 1).to_be_bytes()].concat();
            batch.put(keys::IDENTITY, identity);
            batch.put(keys::PROGRESS, vec![0xff]);
            let epoch = engine.epoch().unwrap();
            engine.commit(&batch, epoch).unwrap();
            drop(engine);
            for opened in [
                Volume::open(dir.path(), &config).map(drop),
                Volume::make(dir.path(), &config).map(drop),
            ] {
                let why = opened.unwrap_err().to_string();
                assert!(
                    why.starts_with("it has volume format 4, and this program reads format 3 only"),
                    "{why}"
                );
            }
            let engine = engine::open(config.engine, &held, 1 << 20).unwrap();
            assert_eq!(engine.epoch(), Ok(epoch));
        }
    }
}
