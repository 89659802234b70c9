//! The store itself: one directory of objects, and what is done with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use weft_io::FileRange;

use super::{
    cache::Cache,
    epoch::{self, REMOVED},
    error::{ObjectError, io},
    fences::FenceLog,
    files,
    kept_verifier::KeptVerifier,
    leaving::Leaving,
    object::Object,
    object_id::ObjectId,
    options::ObjectStoreOptions,
    page_cache::PastCache,
    room::Room,
    seals::Seals,
    sparse_file::{self, OBJECT_BYTES_MAX, next_hole},
    stat::ObjectStat,
    store_dir::{Leaf, Misplaced, StoreDir},
    volumes::Volumes,
};
use crate::types::fence_epoch::fence_of;

/// Objects evicted by one call: more than one, so that an overfull cache shrinks again.
const EVICTIONS_MAX: usize = 2;

/// Changes whenever unsynced data may have been lost: RFC 8881 §18.32.3 (`writeverf`).
pub type WriteVerifier = [u8; 8];

/// What a read will return: a range of the object's file, clamped to its local size.
#[derive(Debug, Clone)]
pub struct ReadPlan {
    /// The bytes; `None` if there are none.
    pub range: Option<FileRange>,
    /// Whether the asked range reaches or passes the object's local end.
    pub at_or_past_end: bool,
    /// Whether it is to be read by [`ObjectStore::read_past_cache`].
    pub past_cache: bool,
}

/// Disk space of the file system below the store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Not in use, not reserved for the superuser, and above what data leaves free: so much may be
    /// written.
    pub available: u64,
    /// The device that it is on: stores of one machine that have the same one share the space.
    pub device: u64,
}

/// A directory of objects, owned by this process while the value lives.
#[derive(Debug)]
pub struct ObjectStore {
    pub(super) dir: StoreDir,
    pub(super) fences: FenceLog,
    pub(super) seals: Seals,
    pub(super) room: Room,
    pub(super) cache: Cache,
    leaving: Leaving,
    /// There is no disk below.
    pub(super) in_memory: bool,
    /// The file system below has no writes that refuse to wait.
    pub(super) writes_may_wait: AtomicBool,
    /// The file system below takes blocks for what may be written next.
    allocates_ahead: bool,
    /// Whether the file system below can share blocks; empty until it was asked.
    pub(super) shares_blocks: OnceLock<bool>,
    pub(super) past_cache: PastCache,
    verifier: KeptVerifier,
}

impl ObjectStore {
    /// Opens the store in `dir`, making a new one if there is none.
    ///
    /// # Errors
    /// [`ObjectError::InUse`] if another process has it open, [`ObjectError::Corrupt`] if its
    /// identity or acknowledged fences are damaged, otherwise what the disk says.
    pub fn open(dir: &Path, options: &ObjectStoreOptions) -> Result<Self, ObjectError> {
        let (dir, new) = StoreDir::open(dir)?;
        let fences = if new {
            let fences = FenceLog::create(dir.root(), dir.identity())?;
            Volumes::create(dir.root(), dir.identity())?;
            // The identity is written last: it says that all the rest is there.
            dir.write_identity()?;
            fences
        } else {
            FenceLog::open(dir.root(), dir.identity())?
        };
        dir.set_volumes(Volumes::open(dir.root(), dir.identity())?);
        let cache = Cache::new(options.open_objects_max);
        let verifier = KeptVerifier::open(dir.root())?;
        let room = Room::open(dir.root(), options.reserve_bytes);
        let room = room.map_err(io("keep a reserve"))?;
        let (leaving, writes_may_wait) = (Leaving::default(), AtomicBool::new(false));
        let seals = Seals::new(dir.root());
        let shares_blocks = OnceLock::new();
        let allocates_ahead = allocates_ahead(dir.root()).map_err(io("ask for a file system"))?;
        let past_cache = PastCache::new(dir.root(), options.cache);
        let past_cache = past_cache.map_err(io("ask for a file system"))?;
        let in_memory = File::open(dir.root()).and_then(|root| weft_io::in_memory(&root));
        let in_memory = in_memory.map_err(io("ask for a file system"))?;
        Ok(ObjectStore {
            dir,
            fences,
            seals,
            room,
            cache,
            leaving,
            in_memory,
            writes_may_wait,
            allocates_ahead,
            shares_blocks,
            past_cache,
            verifier,
        })
    }

    /// The store's own identity, made with it and never changed.
    pub fn identity(&self) -> [u8; 16] {
        self.dir.identity()
    }

    /// Objects that have a file, those behind `after`, in an order that never changes; none if
    /// there are no more. At least `limit` if there are as many, and some more.
    ///
    /// # Errors
    /// [`ObjectError::Io`].
    pub fn objects(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<ObjectId>, ObjectError> {
        self.dir.objects(after, limit)
    }

    /// Files below the directory of objects that are no object, or not where it belongs; they are
    /// none of [`Self::objects`].
    ///
    /// # Errors
    /// [`ObjectError::Io`].
    pub fn misplaced(&self) -> Result<Vec<Misplaced>, ObjectError> {
        self.dir.misplaced()
    }

    /// The current write verifier: kept over restarts of the process as long as nothing can be lost
    /// (ADR 41), and new after any failed write or sync.
    ///
    /// A reply to a WRITE carries the one [`Self::write`] returned, not this: it may have changed
    /// since the data was taken.
    pub fn write_verifier(&self) -> WriteVerifier {
        self.verifier.get().to_be_bytes()
    }

    /// Plans a read. The caller has checked the epoch ([`Self::check`]).
    ///
    /// # Errors
    /// What the disk says; a missing object is an empty one.
    pub fn read(&self, id: ObjectId, offset: u64, len: usize) -> Result<ReadPlan, ObjectError> {
        let object = self.object(id);
        let Some(file) = object.file(&self.dir)? else {
            return Ok(ReadPlan { range: None, at_or_past_end: true, past_cache: false });
        };
        self.plan(file, offset, len)
    }

    /// What of the range the file has.
    pub(super) fn plan(
        &self,
        file: Arc<File>,
        offset: u64,
        len: usize,
    ) -> Result<ReadPlan, ObjectError> {
        let size = file.metadata().map_err(io("stat an object"))?.len();
        let left = size.saturating_sub(offset);
        let len_here = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let past_cache = self.past_cache.suits_read(offset, len_here);
        let range = (len_here > 0).then(|| FileRange { file, offset, len: len_here });
        Ok(ReadPlan { range, at_or_past_end: left <= len as u64, past_cache })
    }

    /// Writes all of `data`, unstable until [`Self::commit`], and returns the verifier that was
    /// valid when it began. The object is made if it is missing; an empty write makes nothing.
    ///
    /// After [`Self::fence`] has returned no write with an older epoch reaches the file, and after
    /// [`Self::seal`] none with the epoch that was sealed.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] for an old epoch, [`ObjectError::TooBig`], [`ObjectError::NoSpace`],
    /// [`ObjectError::Io`]; part of the data may have been written by the last three.
    pub fn write(
        &self,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<WriteVerifier, ObjectError> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > OBJECT_BYTES_MAX) {
            return Err(ObjectError::TooBig);
        }
        let object = self.object(id);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        self.admit_writer(&object, epoch)?;
        let verifier = self.write_verifier();
        if data.is_empty() {
            return Ok(verifier);
        }
        let file = self.file_to_write(&object, offset, data.len() as u64);
        let file = file.inspect_err(|e| self.room.failed(e))?;
        let written = self.write_all(id, &file, offset, data);
        let written = written.map_err(io("write an object"));
        // Only now: a sync that ran while we wrote must not count as ours.
        object.wrote();
        drop(epoch_lock);
        // A refusal for want of space loses nothing that was accepted before, an error may.
        match &written {
            Err(ObjectError::NoSpace) => self.room.was_refused(),
            Err(e @ ObjectError::Io { .. }) => self.doubt(id, e),
            _ => {}
        }
        written.map(|()| verifier)
    }

    /// Writes past the page cache as much as should be, and the rest through it.
    fn write_all(
        &self,
        id: ObjectId,
        file: &File,
        offset: u64,
        data: &[u8],
    ) -> std::io::Result<()> {
        let passed = match self.past_cache.suits_write(file, offset, data) {
            true => self.write_past_cache(id, offset, data)?,
            false => 0,
        };
        // Where it ended early, the disk is full, and says so now, or it was to go another way.
        let (offset, data) = (offset + passed as u64, &data[passed..]);
        if data.is_empty() {
            return Ok(());
        }
        file.write_all_at(data, offset)
    }

    /// Refuses a writer whose layout was given back. The caller has the epoch.
    fn admit_writer(&self, object: &Object, epoch: u32) -> Result<(), ObjectError> {
        let floor = match object.write_floor() {
            Some(known) => known,
            None => {
                let found = self.seals.write_floor(object.id())?;
                object.set_write_floor(found);
                found
            }
        };
        epoch::admit(floor, epoch)
    }

    /// The object's file, made if it is missing, if there is room for what is to be written. What
    /// has its place on the disk already needs none.
    fn file_to_write(
        &self,
        object: &Object,
        offset: u64,
        len: u64,
    ) -> Result<Arc<File>, ObjectError> {
        let Some(file) = object.file(&self.dir)? else {
            self.room.admit_new(len)?;
            return object.file_or_create(&self.dir);
        };
        match self.room.admit(len) {
            Err(ObjectError::NoSpace) if next_hole(&file, offset)? >= offset + len => {}
            admitted => admitted?,
        }
        Ok(file)
    }

    /// Writes all of `data` and makes it durable.
    ///
    /// # Errors
    /// As [`Self::write`] and [`Self::commit`].
    pub fn write_stable(
        &self,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<WriteVerifier, ObjectError> {
        let before = self.write(id, epoch, offset, data)?;
        unless_lost(before, self.commit(id)?)
    }

    /// Whether [`Self::give_back_ahead`] is worth calling.
    pub fn allocates_ahead(&self) -> bool {
        self.allocates_ahead
    }

    /// Gives back the blocks that the file system took ahead in a range where the object never has
    /// bytes. XFS takes as many behind the end of a file as small writes before it took; once the
    /// end has moved on they are in a hole between two stripe units, and would stay.
    pub fn give_back_ahead(&self, id: ObjectId, (start, end): (u64, u64)) {
        if !self.allocates_ahead {
            return;
        }
        let Some(file) = self.cache.find(id).and_then(|object| object.opened()) else { return };
        if let Err(error) = sparse_file::punch_hole(&file, start, end - start) {
            tracing::debug!(?id, %error, "what was allocated ahead stays");
        }
    }

    /// Makes everything written to the object so far durable, its name included, and returns the
    /// verifier: it differs from a write's if that write may be lost.
    ///
    /// **Cost**: one `fdatasync` for all commits of the object that wait together, none if nothing
    /// was written; one `fsync` of the directory for a new object.
    ///
    /// # Errors
    /// [`ObjectError::Io`]; the verifier has then changed.
    pub fn commit(&self, id: ObjectId) -> Result<WriteVerifier, ObjectError> {
        self.sync(&self.object(id))?;
        Ok(self.write_verifier())
    }

    /// The object's attributes, once the writes that are under way have ended: a size from the
    /// middle of one is that of no file that ever was. A client that has such a size back after
    /// its write takes the file for shorter than it is, and Linux 7.2 then clears what it cached
    /// behind that (`nfs_truncate_last_folio`).
    ///
    /// # Errors
    /// What the disk says; a missing object has zeroes.
    pub fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        if self.is_given_up(id) {
            return Ok(ObjectStat::default());
        }
        let object = self.object(id);
        let Some(file) = object.file(&self.dir)? else {
            return Ok(ObjectStat::default());
        };
        let _written = object.epoch_exclusive();
        object.stat(&file)
    }

    /// Sets the object's local size, shorter or longer, durably; where the file system has no files
    /// that long it stays, since what lies behind it reads as zeros all the same. A missing object
    /// stays missing, which reads as zeros too; a removed object has nothing to truncate, which is
    /// success, because an intent may be carried out again after the file is gone (design D18).
    ///
    /// # Errors
    /// [`ObjectError::TooBig`], [`ObjectError::NoSpace`], [`ObjectError::Io`].
    pub fn truncate(&self, id: ObjectId, size: u64) -> Result<(), ObjectError> {
        self.truncate_by(sparse_file::set_len, id, size)
    }

    /// [`Self::truncate`] with what sets the length of a file.
    pub(super) fn truncate_by(
        &self,
        set_len: impl Fn(&File, u64) -> Result<(), ObjectError>,
        id: ObjectId,
        size: u64,
    ) -> Result<(), ObjectError> {
        if size > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooBig);
        }
        let object = self.object(id);
        let epoch_lock = object.epoch_exclusive();
        if epoch_lock.is_removed() {
            return Ok(());
        }
        let file = match object.file(&self.dir)? {
            Some(file) => file,
            None => return Ok(()),
        };
        let cut = self.room.must(|| set_len(&file, size));
        // Also after a failure: some of it may be done.
        object.wrote();
        drop(epoch_lock);
        cut?;
        self.sync(&object)
    }

    /// Makes objects, empty and durably; one that is there stays as it is. One result for each, in
    /// order.
    ///
    /// **Cost**: one `fsync` for each directory touched. A missing object is an empty one, so the
    /// files themselves need none.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] for an old epoch or a removed object, [`ObjectError::NoSpace`],
    /// [`ObjectError::Io`].
    pub fn create_many(&self, wanted: &[(ObjectId, u32)]) -> Vec<Result<(), ObjectError>> {
        let made: Vec<_> = wanted.iter().map(|(id, epoch)| self.create(*id, *epoch)).collect();
        let of_made = wanted.iter().zip(&made).filter(|(_, made)| made.is_ok());
        let touched: BTreeSet<_> = of_made.map(|((id, _), _)| Leaf::of(*id)).collect();
        let synced: BTreeMap<_, _> =
            touched.into_iter().map(|leaf| (leaf, self.dir.sync_leaf(leaf))).collect();
        let named = wanted.iter().zip(made).map(|((id, _), made)| {
            let object = made?;
            synced.get(&Leaf::of(*id)).copied().unwrap_or(Ok(()))?;
            object.named();
            Ok(())
        });
        named.collect()
    }

    /// The object's file, opened anew to be read and for nothing else: it may be handed to whoever
    /// brought a handle of this epoch. None if there is no object.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] for an old epoch or a removed object; what the disk says.
    pub fn open_read_only(&self, id: ObjectId, epoch: u32) -> Result<Option<File>, ObjectError> {
        let object = self.object(id);
        // Held while it is opened: no fence has returned between.
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        self.dir.open_read_only(id)
    }

    /// Whether the object has a file: whoever writes to it makes none then.
    ///
    /// # Errors
    /// What the disk says.
    pub fn is_there(&self, id: ObjectId) -> Result<bool, ObjectError> {
        Ok(self.object(id).file(&self.dir)?.is_some())
    }

    /// Whether its file is open, which is known without waiting for the disk.
    pub fn is_open(&self, id: ObjectId) -> bool {
        self.cache.find(id).is_some_and(|object| object.opened().is_some())
    }

    /// An object that the metadata server makes or changes has the epoch that it says: nothing that
    /// was given out before writes to it, though nobody was told so here, as while there was no
    /// object (ADR 21).
    pub(super) fn begin(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        match self.knows_epoch(id, epoch)? {
            true => Ok(()),
            false => self.learn_epoch(id, epoch),
        }
    }

    /// Makes one object, not durably yet.
    fn create(&self, id: ObjectId, epoch: u32) -> Result<Arc<Object>, ObjectError> {
        self.begin(id, epoch)?;
        let object = self.object(id);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        if object.file(&self.dir)?.is_none() {
            self.room.admit_new(0)?;
            object.file_or_create(&self.dir)?;
        }
        drop(epoch_lock);
        Ok(object)
    }

    /// Removes the object durably and for ever: see [`Self::remove_many`].
    ///
    /// # Errors
    /// As [`Self::remove_many`].
    pub fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.remove_many(&[id])
    }

    /// Removes objects durably and for ever; later writes to them are refused. Objects that are
    /// missing or removed already are success.
    ///
    /// **Cost**: one sync of the fence log, one `fsync` for each directory touched.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`], [`ObjectError::Io`]: some may be removed, all may be tried again.
    pub fn remove_many(&self, ids: &[ObjectId]) -> Result<(), ObjectError> {
        self.room.must(|| self.remove_all(ids))
    }

    fn remove_all(&self, ids: &[ObjectId]) -> Result<(), ObjectError> {
        for id in ids {
            self.raise(*id, REMOVED)?;
        }
        self.fences.sync()?;
        let mut touched = BTreeSet::new();
        for id in ids {
            self.seals.forget(*id)?;
            self.object(*id).unlink(&self.dir)?.into_iter().for_each(|f| self.leaving.close(f));
            touched.insert(Leaf::of(*id));
        }
        touched.into_iter().try_for_each(|leaf| self.dir.sync_leaf(leaf))
    }

    /// Refuses every epoch below `epoch` from now on and for ever: see [`Self::fence_many`].
    ///
    /// # Errors
    /// As [`Self::fence_many`].
    pub fn fence(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        self.fence_many(&[(id, epoch)])
    }

    /// Raises the epochs of objects, durably before it returns; one that is as high already stays.
    /// Writes under way with an older epoch are finished when it returns, later ones are refused.
    ///
    /// **Cost**: one sync of the fence log, shared with others that wait.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`], [`ObjectError::Io`]: some may be raised, none is promised.
    pub fn fence_many(&self, fences: &[(ObjectId, u32)]) -> Result<(), ObjectError> {
        self.room.must(|| {
            for (id, epoch) in fences {
                self.raise(*id, *epoch)?;
            }
            self.fences.sync()
        })
    }

    /// Nobody writes with this epoch or an earlier one any more ([`Self::write`]); whoever reads
    /// with it goes on. Writes under way are finished when it returns. It outlasts this process,
    /// but a power cut soon after may take it back.
    ///
    /// **Cost**: no sync.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`], [`ObjectError::Io`].
    pub fn seal(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        let floor = epoch.saturating_add(1).min(REMOVED - 1);
        let object = self.object(id);
        let _alone = object.epoch_exclusive();
        let known = match object.write_floor() {
            Some(known) => known,
            None => self.seals.write_floor(id)?,
        };
        // Whatever becomes of the word, no write passes while the object is open.
        object.set_write_floor(known.max(floor));
        if known.max(self.epoch(id)) < floor {
            self.room.must(|| self.seals.seal(id, floor))?;
        }
        Ok(())
    }

    /// Takes in what a handle of this epoch proves, though nobody told so here. It was given out
    /// after its fence ([`fence_of`]): what is older ends here and now, durably. And it was given
    /// out after all earlier ones to write were over: nobody writes with them any more, as after
    /// [`Self::seal`], as long as the object is open if there is no room to note it.
    ///
    /// # Errors
    /// As [`Self::fence`]; [`ObjectError::Io`]; [`ObjectError::Stale`] if it has ended meanwhile.
    pub fn learn_epoch(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        if self.epoch(id) < fence_of(epoch) {
            self.fence(id, fence_of(epoch))?;
        }
        if let Some(before) = epoch.checked_sub(1).filter(|_| self.epoch(id) < epoch) {
            match self.seal(id, before) {
                Ok(()) | Err(ObjectError::NoSpace) => {}
                Err(e) => return Err(e),
            }
        }
        self.check(id, epoch)
    }

    /// Whether [`Self::learn_epoch`] would change nothing, as far as is known without the disk.
    ///
    /// # Errors
    /// [`ObjectError::Stale`].
    pub fn knows_epoch(&self, id: ObjectId, epoch: u32) -> Result<bool, ObjectError> {
        let current = self.epoch(id);
        epoch::admit(current, epoch)?;
        let is_sealed = || {
            let floor = self.cache.find(id).and_then(|object| object.write_floor());
            floor.is_some_and(|floor| floor >= epoch)
        };
        Ok(epoch == current || fence_of(epoch) <= current && is_sealed())
    }

    /// The smallest epoch the object accepts: 0 if it was never fenced, [`REMOVED`] if it is gone.
    pub fn epoch(&self, id: ObjectId) -> u32 {
        self.fences.epoch(id)
    }

    /// Whether a handle of this epoch may still be used, for calls that do not write.
    ///
    /// # Errors
    /// [`ObjectError::Stale`].
    pub fn check(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        epoch::admit(self.epoch(id), epoch)
    }

    /// Space of the file system below.
    ///
    /// # Errors
    /// [`ObjectError::Io`].
    pub fn space(&self) -> Result<Space, ObjectError> {
        // Asked every few seconds: no file of the last removal stays for long.
        self.leaving.close_unused();
        let (disk, available) = self.room.disk().map_err(io("ask for space"))?;
        let (total, free, device) = (disk.total, disk.free, self.room.device);
        Ok(Space { total, free, available, device })
    }

    /// Raises one epoch in memory and in the log's tail, not durably yet.
    fn raise(&self, id: ObjectId, epoch: u32) -> Result<(), ObjectError> {
        let object = self.object(id);
        let mut epoch_lock = object.epoch_exclusive();
        self.fences.raise(id, epoch)?;
        epoch_lock.raise(epoch);
        Ok(())
    }

    /// The open object, taken from the cache or put there.
    pub(super) fn object(&self, id: ObjectId) -> Arc<Object> {
        let object = self.cache.get(id, || self.fences.epoch(id));
        for _ in 0..EVICTIONS_MAX {
            let Some(victim) = self.cache.victim() else {
                break;
            };
            // What leaves the cache is synced first: the file's descriptor is what remembers a
            // failed write-back. A failure has changed the verifier, which is all it can do.
            let _ = self.sync(&victim);
            let file = self.cache.retire(victim).and_then(Object::into_file);
            file.into_iter().for_each(|f| self.leaving.close(f));
        }
        object
    }

    /// Makes one object durable, together with others that wait for the same.
    pub(super) fn sync(&self, object: &Object) -> Result<(), ObjectError> {
        object.sync(&self.dir, |e| self.doubt(object.id(), e))
    }

    /// Data accepted earlier may be lost: clients must learn that from the verifier.
    pub(super) fn doubt(&self, id: ObjectId, error: &ObjectError) {
        self.room.failed(error);
        tracing::error!(?id, %error, "object data may be lost; the write verifier changes");
        self.verifier.change();
    }
}

/// The verifier of a write that was committed. If it has changed between, some sync failed: it may
/// have been the one that should have covered the write.
pub(super) fn unless_lost(
    before: WriteVerifier,
    after: WriteVerifier,
) -> Result<WriteVerifier, ObjectError> {
    if before == after { Ok(after) } else { Err(ObjectError::SyncLost) }
}

/// Whether the file system of a directory takes blocks behind the end of files that grow: XFS.
fn allocates_ahead(dir: &Path) -> std::io::Result<bool> {
    Ok(files::file_system(dir)? == files::XFS_SUPER_MAGIC)
}
