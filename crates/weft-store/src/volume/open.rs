//! Opening a volume: take the directory, recover the engine, prove that nothing acknowledged is
//! missing, and only then make what was never there.

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
use crate::types::{Inode, InodeNo, Kind, Lsn, MODE_BITS, StoreError};

/// Version of the layout of keys this code reads and writes.
const FORMAT_VERSION: u32 = 1;
/// First cookie of a directory: 0 is the start, 1 and 2 are reserved for "." and "..".
pub(super) const COOKIE_FIRST: u64 = 3;

pub(super) fn directory(at: &Path, config: &VolumeConfig) -> Result<Opened, EngineError> {
    let lock = DirectoryLock::acquire(at)?;
    let reserve = reserve(at, config.reserve_bytes)?;
    let engine = engine::open(config.engine, &reserve, config.engine_cache_bytes())?;
    let recovered = progress(&*engine)?.map_or(0, |progress| progress.lsn.0);
    let acked = AckedFile::open(at, recovered)?;
    let mut opened = self::engine(engine, config)?;
    opened.acked = Some(acked);
    opened.lock = Some(lock);
    opened.reserve = Some(reserve);
    Ok(opened)
}

/// The reserve, whole if there is room: without it nothing may grow.
fn reserve(at: &Path, bytes_max: u64) -> Result<Arc<Reserve>, EngineError> {
    let failed = |e| EngineError::Io(format!("cannot keep a reserve in {}: {e}", at.display()));
    let reserve = Reserve::open(at, bytes_max).map_err(failed)?;
    reserve.look().map_err(failed)?;
    Ok(Arc::new(reserve))
}

pub(super) fn engine(
    engine: Arc<dyn Engine>,
    config: &VolumeConfig,
) -> Result<Opened, EngineError> {
    let epoch = engine.acquire()?;
    if engine.get(keys::IDENTITY)?.is_none() {
        engine.commit(&format(&config.format), epoch)?;
    }
    let raw = engine.get(keys::IDENTITY)?.ok_or_else(|| missing("identity"))?;
    let identity = codec::decode_identity(&raw).map_err(corrupt)?;
    if identity.format != FORMAT_VERSION {
        let found = identity.format;
        let why = format!("volume format {found}; this program knows {FORMAT_VERSION}");
        return Err(EngineError::Corrupt(why));
    }
    let Progress { lsn, next_ino, inodes } =
        progress(&*engine)?.ok_or_else(|| missing("progress"))?;
    let counters = Counters { lsn, next_ino, inodes };
    Ok(Opened { engine, epoch, identity, counters, acked: None, lock: None, reserve: None })
}

fn progress(engine: &dyn Engine) -> Result<Option<Progress>, EngineError> {
    let raw: Option<Bytes> = engine.get(keys::PROGRESS)?;
    raw.map(|raw| codec::decode_progress(&raw)).transpose().map_err(corrupt)
}

/// The first batch of a volume: its identity, its root, and that this was mutation 1.
fn format(format: &Format) -> Batch {
    let identity = Identity { format: FORMAT_VERSION, uuid: format.uuid, fsid: format.fsid };
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
        create_verifier: None,
        target: Bytes::new(),
        entries: 0,
        next_cookie: COOKIE_FIRST,
        unsettled: false,
        has_xattrs: false,
        stuffed: false,
    }
}

fn missing(what: &str) -> EngineError {
    EngineError::Corrupt(format!("the volume has no {what} record"))
}

fn corrupt(error: StoreError) -> EngineError {
    EngineError::Corrupt(error.to_string())
}
