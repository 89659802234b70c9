//! Reading and writing without ever waiting for the disk, nor for a lock of somebody who does: for
//! threads that serve connections. What cannot be done so is left to who may wait.

use std::{io::IoSlice, sync::atomic::Ordering};

use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::{
    error::ObjectError,
    object_id::ObjectId,
    stat::ObjectStat,
    store::{ObjectStore, ReadPlan, WriteVerifier, unless_lost},
};

impl ObjectStore {
    /// Plans a read of an object that is open; `None`: [`Self::read`] tells.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_open(
        &self,
        id: ObjectId,
        offset: u64,
        len: usize,
    ) -> Option<Result<ReadPlan, ObjectError>> {
        let file = self.cache.find(id)?.opened()?;
        Some(self.plan(file, offset, len))
    }

    /// The attributes of an object that is open and that nobody writes, which are in memory;
    /// `None`: [`Self::stat`] tells.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub fn stat_open(&self, id: ObjectId) -> Option<Result<ObjectStat, ObjectError>> {
        if self.is_given_up(id) {
            return Some(Ok(ObjectStat::default()));
        }
        let object = self.cache.find(id)?;
        let file = object.opened()?;
        let _written = object.try_epoch_exclusive()?;
        Some(object.stat(&file))
    }

    /// Writes to an object that is open, if the page cache takes all of it at once; `None`:
    /// [`Self::write`] does it, and what this may have written of it again. XFS and Btrfs can
    /// refuse to wait, ext4 cannot, and in memory there is nothing to wait for.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] for an old epoch.
    pub fn write_open(
        &self,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<WriteVerifier, ObjectError>> {
        if data.is_empty() || self.writes_may_wait.load(Ordering::Relaxed) {
            return None;
        }
        let flags = match self.in_memory {
            true => ReadWriteFlags::empty(),
            false => ReadWriteFlags::NOWAIT,
        };
        let object = self.cache.find(id)?;
        let epoch_lock = object.try_epoch_shared()?;
        if let Err(stale) = epoch_lock.admit(epoch) {
            return Some(Err(stale));
        }
        if object.write_floor()? > epoch {
            return None;
        }
        let file = object.opened()?;
        if !self.room.admits_now(data.len() as u64) {
            return None;
        }
        let verifier = self.write_verifier();
        let written = pwritev2(&*file, &[IoSlice::new(data)], offset, flags);
        if written == Err(Errno::OPNOTSUPP) {
            self.writes_may_wait.store(true, Ordering::Relaxed);
        }
        // Also a part of it: whoever writes the rest may be refused.
        if written.is_ok() {
            object.wrote();
        }
        drop(epoch_lock);
        // Whatever went wrong goes wrong again for who may wait, and is told by that.
        (written == Ok(data.len())).then_some(Ok(verifier))
    }

    /// Makes an object durable that is open, where there is no disk to wait for; `None`:
    /// [`Self::commit`] does it.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_open(&self, id: ObjectId) -> Option<Result<WriteVerifier, ObjectError>> {
        let object = self.cache.find(id).filter(|_| self.in_memory)?;
        object.opened()?;
        Some(self.sync(&object).map(|()| self.write_verifier()))
    }

    /// [`Self::write_open`], and [`Self::commit_open`]; `None`: [`Self::write_stable`] does it, and
    /// what this may have written of it again.
    ///
    /// # Errors
    /// As [`Self::write_stable`].
    pub fn write_stable_open(
        &self,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<WriteVerifier, ObjectError>> {
        if !self.in_memory {
            return None;
        }
        let before = match self.write_open(id, epoch, offset, data)? {
            Ok(before) => before,
            Err(e) => return Some(Err(e)),
        };
        Some(self.commit_open(id)?.and_then(|after| unless_lost(before, after)))
    }
}
