//! One open object: its epoch, its file, and what of it is not durable yet.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    epoch::AcceptedEpoch,
    error::{ObjectError, io},
    group_sync::GroupSync,
    object_id::ObjectId,
    stat::ObjectStat,
    store_dir::{Leaf, StoreDir},
};
use crate::sync::{self, lock};

/// No write floor: above all epochs.
const UNKNOWN: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Object {
    id: ObjectId,
    epoch_lock: RwLock<AcceptedEpoch>,
    /// The first epoch with which clients may write, changed by who has the epoch exclusively;
    /// [`UNKNOWN`] until somebody looks.
    write_floor: AtomicU64,
    /// Open if the object exists and was used.
    file: Mutex<Option<Arc<File>>>,
    /// The file was made by us and its directory entry may not be durable.
    unnamed: AtomicBool,
    /// Something was written after the last sync began.
    dirty: AtomicBool,
    writes: AtomicU64,
    /// Used since the cache last looked.
    touched: AtomicBool,
    sync: GroupSync,
}

impl Object {
    pub(super) fn new(id: ObjectId, epoch: u32) -> Self {
        Object {
            id,
            epoch_lock: RwLock::new(AcceptedEpoch::new(epoch)),
            write_floor: AtomicU64::new(UNKNOWN),
            file: Mutex::default(),
            unnamed: AtomicBool::default(),
            dirty: AtomicBool::default(),
            writes: AtomicU64::default(),
            touched: AtomicBool::default(),
            sync: GroupSync::default(),
        }
    }

    pub(super) fn id(&self) -> ObjectId {
        self.id
    }

    pub(super) fn epoch_shared(&self) -> RwLockReadGuard<'_, AcceptedEpoch> {
        sync::read(&self.epoch_lock)
    }

    /// The same if nobody has it exclusively: never waits.
    pub(super) fn try_epoch_shared(&self) -> Option<RwLockReadGuard<'_, AcceptedEpoch>> {
        self.epoch_lock.try_read().ok()
    }

    /// Exclusively, if nobody writes: never waits.
    pub(super) fn try_epoch_exclusive(&self) -> Option<RwLockWriteGuard<'_, AcceptedEpoch>> {
        self.epoch_lock.try_write().ok()
    }

    pub(super) fn epoch_exclusive(&self) -> RwLockWriteGuard<'_, AcceptedEpoch> {
        sync::write(&self.epoch_lock)
    }

    /// The first epoch with which clients may write, if somebody has looked. Whoever asks, and
    /// relies on it, has the epoch.
    pub(super) fn write_floor(&self) -> Option<u32> {
        u32::try_from(self.write_floor.load(Ordering::Acquire)).ok()
    }

    /// Takes note of it.
    pub(super) fn set_write_floor(&self, floor: u32) {
        self.write_floor.store(floor.into(), Ordering::Release);
    }

    /// The open file; `None` if the object is missing.
    pub(super) fn file(&self, dir: &StoreDir) -> Result<Option<Arc<File>>, ObjectError> {
        let mut file = lock(&self.file);
        if file.is_none() {
            *file = dir.open_object(self.id)?.map(Arc::new);
        }
        Ok(file.clone())
    }

    /// The open file, if it is open and nobody is opening, making or removing it: never waits for
    /// the disk.
    pub(super) fn opened(&self) -> Option<Arc<File>> {
        self.file.try_lock().ok()?.clone()
    }

    /// The file of an object that left the cache, if it was open.
    pub(super) fn into_file(self) -> Option<Arc<File>> {
        self.file.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open file, made if the object is missing. The caller holds the epoch lock and has found
    /// that the object is not removed.
    pub(super) fn file_or_create(&self, dir: &StoreDir) -> Result<Arc<File>, ObjectError> {
        let mut file = lock(&self.file);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let opened = match dir.open_object(self.id)? {
            Some(existing) => existing,
            None => {
                let made = dir.create_object(self.id)?;
                self.unnamed.store(true, Ordering::Release);
                made
            }
        };
        Ok(file.insert(Arc::new(opened)).clone())
    }

    /// The directory was synced after the file was made: its name is durable.
    pub(super) fn named(&self) {
        self.unnamed.store(false, Ordering::Release);
    }

    /// Unlinks the file, not durably yet. The caller has raised the epoch to [`REMOVED`], so that
    /// no write makes it again. The file that was open, which is still to be closed.
    pub(super) fn unlink(&self, dir: &StoreDir) -> Result<Option<Arc<File>>, ObjectError> {
        // Held across the unlink: a reader must not open the old file between and keep it.
        let mut file = lock(&self.file);
        dir.unlink_object(self.id)?;
        let unlinked = file.take();
        self.dirty.store(false, Ordering::Release);
        Ok(unlinked)
    }

    /// Notes a write that has just been made (or tried: some of it may have reached the file).
    pub(super) fn wrote(&self) {
        self.dirty.store(true, Ordering::Release);
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    /// What is known of it and of its open file.
    pub(super) fn stat(&self, file: &File) -> Result<ObjectStat, ObjectError> {
        // Counted before looking: a write in between makes the count old, never the attributes.
        let writes = self.writes.load(Ordering::Acquire);
        let unsynced = self.is_dirty();
        let m = file.metadata().map_err(io("stat an object"))?;
        Ok(ObjectStat {
            size: m.len(),
            mtime_s: m.mtime(),
            mtime_ns: u32::try_from(m.mtime_nsec()).unwrap_or(0),
            blocks_bytes: m.blocks().saturating_mul(512),
            writes,
            unsynced,
        })
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    /// Whether it was used since the last call.
    pub(super) fn was_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    /// Makes everything written so far durable, the file's name included. `failed` is
    /// called with a failure before any call that waited returns it.
    pub(super) fn sync(
        &self,
        dir: &StoreDir,
        failed: impl FnOnce(&ObjectError),
    ) -> Result<(), ObjectError> {
        // Within the round even if clean: a running round may be syncing what concerns us.
        self.sync.run(|| {
            if !self.dirty.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            self.sync_now(dir).inspect_err(failed)
        })
    }

    fn sync_now(&self, dir: &StoreDir) -> Result<(), ObjectError> {
        let file = lock(&self.file).clone();
        // Gone: removed meanwhile.
        let Some(file) = file else {
            return Ok(());
        };
        file.sync_data().map_err(io("sync an object"))?;
        let leaf = Leaf::of(self.id);
        if self.unnamed.load(Ordering::Acquire) || !dir.is_leaf_synced(leaf) {
            dir.sync_leaf(leaf)?;
            self.named();
        }
        Ok(())
    }
}
