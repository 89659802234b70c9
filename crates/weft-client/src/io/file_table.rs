//! Where the opens of a file find each other, and the memory of all files.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::Ordering},
};

use weft_nfs::FileHandle;

use super::{
    memory::{Keeper, Memory},
    policy::IoPolicy,
    shared_file::SharedFile,
};
use crate::{
    cache::{FileId, Moment},
    error::ClientError,
    sync::Mutex,
};

/// The files of a client that are open, or of which something is kept.
///
/// Its lock is taken before that of a file's cache, and that before the budget's.
pub struct FileTable {
    known: Mutex<Known>,
    pub(super) memory: Arc<Memory>,
}

#[derive(Default)]
struct Known {
    by_handle: HashMap<FileHandle, Weak<SharedFile>>,
    by_id: HashMap<FileId, Weak<SharedFile>>,
    /// Nobody has these open, and something is kept of them.
    idle: HashMap<FileId, Arc<SharedFile>>,
    /// When this client last did something to a file that is none of these any more.
    others_changed_at: Moment,
}

impl FileTable {
    /// No files, and memory as a policy says.
    pub fn new(policy: &IoPolicy) -> FileTable {
        FileTable { known: Mutex::default(), memory: Arc::new(Memory::new(policy)) }
    }

    /// What the opens of a file share; the caller is one of them until it leaves.
    pub(super) fn join(self: &Arc<Self>, fh: &FileHandle) -> Arc<SharedFile> {
        let mut known = self.known.lock();
        if let Some(file) = known.by_handle.get(fh).and_then(Weak::upgrade) {
            file.users.fetch_add(1, Ordering::AcqRel);
            known.idle.remove(&file.id());
            return file;
        }
        let id = self.memory.register();
        let keeper: Weak<dyn Keeper> = Arc::<FileTable>::downgrade(self);
        let file = Arc::new(SharedFile::new(fh, id, (keeper, self.memory.clone())));
        known.by_handle.insert(fh.clone(), Arc::downgrade(&file));
        known.by_id.insert(id, Arc::downgrade(&file));
        file
    }

    /// One open less. Says whether it was the last one; then the file stays for what is kept of it.
    pub(super) fn leave(&self, file: &Arc<SharedFile>) -> bool {
        let mut known = self.known.lock();
        let is_last = file.users.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && !file.is_empty() {
            known.idle.insert(file.id(), file.clone());
        }
        is_last
    }

    /// Whether somebody has a file open here.
    pub(super) fn is_open(&self, fh: &FileHandle) -> bool {
        self.find(fh).is_some_and(|file| file.users.load(Ordering::Acquire) > 0)
    }

    /// A file that is open, or of which something is kept.
    pub(super) fn find(&self, fh: &FileHandle) -> Option<Arc<SharedFile>> {
        self.known.lock().by_handle.get(fh).and_then(Weak::upgrade)
    }

    fn by_id(&self, id: FileId) -> Option<Arc<SharedFile>> {
        self.known.lock().by_id.get(&id).and_then(Weak::upgrade)
    }

    /// A file that nobody has open any more, and of which nothing is kept, is forgotten.
    pub(super) fn forget_idle(&self, file: &Arc<SharedFile>) {
        let gone = {
            let mut known = self.known.lock();
            let is_idle = file.users.load(Ordering::Acquire) == 0 && file.is_empty();
            if is_idle { known.idle.remove(&file.id()) } else { None }
        };
        drop(gone);
    }

    /// The server was told that a file that nobody has open here ends there now; none if it is not
    /// known what came of that.
    pub(crate) fn truncated(&self, fh: &FileHandle, size: Option<u64>) {
        if let Some(file) = self.find(fh) {
            match size {
                Some(size) => file.truncated(size),
                None => file.outdated(),
            }
            self.forget_idle(&file);
        }
    }

    /// A file was emptied by a request that was made at that moment: an OPEN, or one that put
    /// another content in its place. What this client sent to it since, or was sending, may have
    /// got there after that: then it is emptied again, before anybody writes to it.
    ///
    /// # Errors
    /// Those of emptying it again.
    pub(crate) async fn emptied<F>(
        &self,
        fh: &FileHandle,
        asked_at: Moment,
        again: impl FnOnce() -> F,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let Some(file) = self.find(fh) else { return Ok(()) };
        let _still = file.guards.hold_writers().await;
        let mut may_be_late = file.has_changed_after(asked_at);
        file.truncated(0);
        let doubt = InDoubt(Some(&file));
        loop {
            let ended = file.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !file.look(|cache| cache.ranges.is_unsent(0, u64::MAX)) {
                break;
            }
            may_be_late = true;
            ended.await;
        }
        if may_be_late {
            again().await?;
        }
        doubt.ends();
        self.forget_idle(&file);
        Ok(())
    }

    /// Another content was put in the place of a file's by a request that the cache did not know.
    pub(crate) fn replaced(&self, fh: &FileHandle) {
        if let Some(file) = self.find(fh) {
            file.outdated();
            self.forget_idle(&file);
        }
    }

    /// Now, for whoever notes what a server granted: later than all that was asked before.
    pub(crate) fn next_moment(&self) -> Moment {
        self.memory.next_moment()
    }

    /// Now, for whoever asks a server about a file.
    pub(crate) fn moment(&self) -> Moment {
        self.memory.moment()
    }

    /// Whether what a server says of a file, asked at that moment, may lack what this client has
    /// written to it.
    pub(crate) fn may_lack(&self, fh: &FileHandle, asked_at: Moment) -> bool {
        match self.find(fh) {
            Some(file) => file.has_changed_after(asked_at),
            None => self.known.lock().others_changed_at > asked_at,
        }
    }

    /// The file that has most to be written back, and the one that has most to be committed.
    pub(super) fn most_unsettled(&self) -> [Option<Arc<SharedFile>>; 2] {
        self.memory.most_unsettled().map(|id| id.and_then(|id| self.by_id(id)))
    }

    /// Bytes of memory that files take.
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }
}

/// What is known of a file is out of date, unless this ends well.
struct InDoubt<'a>(Option<&'a SharedFile>);

impl InDoubt<'_> {
    fn ends(mut self) {
        self.0 = None;
    }
}

impl Drop for InDoubt<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            file.outdated();
        }
    }
}

impl Keeper for FileTable {
    fn evict(&self) {
        while let Some(victim) = self.memory.victim() {
            let Some(file) = self.by_id(victim.file) else {
                // Its last user is dropping it right now.
                self.memory.leave(victim.file);
                continue;
            };
            file.evict((victim.queue, victim.until, victim.bytes));
            self.forget_idle(&file);
        }
    }

    fn forget(&self, fh: &FileHandle, id: FileId, changed_at: Moment) {
        let mut known = self.known.lock();
        known.others_changed_at = known.others_changed_at.max(changed_at);
        known.by_id.remove(&id);
        // Somebody else may have opened the file in this moment.
        if known.by_handle.get(fh).is_some_and(|f| f.strong_count() == 0) {
            known.by_handle.remove(fh);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn fh(n: u8) -> FileHandle {
        FileHandle(Bytes::from(vec![n]))
    }

    /// Opens of one file meet, others do not; with the last user the file is forgotten.
    #[test]
    fn opens_of_a_file_meet_while_one_lives() {
        let table = Arc::new(FileTable::new(&IoPolicy::default()));
        let (one, again, other) = (table.join(&fh(1)), table.join(&fh(1)), table.join(&fh(2)));
        assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &other));
        let left = [&one, &again, &other].map(|file| table.leave(file));
        assert_eq!(left, [false, true, true]);
        drop((one, other));
        assert_eq!(table.known.lock().by_handle.len(), 1);
        drop(again);
        let known = table.known.lock();
        assert!(known.by_handle.is_empty() && known.by_id.is_empty() && known.idle.is_empty());
    }

    /// A file of which something is kept is found again by who opens it next, until the memory is
    /// needed; then nothing is left of it.
    #[test]
    fn what_is_kept_outlives_the_last_user() {
        let policy = IoPolicy { cache_bytes: 64 << 10, ..IoPolicy::default() };
        let table = Arc::new(FileTable::new(&policy));
        let fetch = |file: &SharedFile, bytes: usize| {
            file.cache(|cache| {
                let fetch = cache.ranges.begin_fetch(0, bytes as u64);
                cache.ranges.fetched(fetch, 0, &Bytes::from(vec![1; bytes]));
                cache.ranges.end_fetch(fetch);
            });
        };
        let first = table.join(&fh(1));
        fetch(&first, 40 << 10);
        table.leave(&first);
        drop(first);
        let again = table.join(&fh(1));
        assert!(!again.is_empty());
        table.leave(&again);
        drop(again);
        let second = table.join(&fh(2));
        fetch(&second, 40 << 10);
        assert!(table.used_bytes() <= policy.cache_bytes);
        assert_eq!(table.known.lock().by_handle.len(), 1);
        assert!(table.find(&fh(1)).is_none());
    }
}
