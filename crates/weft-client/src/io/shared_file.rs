//! What all opens of one file share, and where they find each other.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::RwLock;
use weft_nfs::FileHandle;

use super::{dirty::Dirty, gather::buffer::Gathered, guards::Guards, held::LayoutState};
use crate::{
    error::ClientError,
    sync::{Mutex, MutexGuard},
};

/// A file in use. There is one layout stateid for each client and file (RFC 8881 §12.5.2), so all
/// opens of the file use one layout, and settle together what was written through it.
///
/// Locks are taken in the order of the fields.
pub(super) struct SharedFile {
    fh: FileHandle,
    table: Weak<FileTable>,
    /// Opens that are not closed yet.
    users: AtomicUsize,
    /// Small writes on their way to becoming large ones.
    pub(super) gathered: Gathered,
    pub(super) guards: Guards,
    /// I/O holds it for reading, whatever changes the layout for writing: so a layout goes back
    /// only when no request relies on it any more.
    pub(super) layout: RwLock<LayoutState>,
    dirty: Mutex<Dirty>,
    failures: Mutex<Failures>,
}

/// Failures to tell the metadata server what was written: every open for writing hears of them
/// once, at its next commit, however the failure came about.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<ClientError>,
}

impl SharedFile {
    pub(super) fn lock_dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock()
    }

    /// Remembers a failure; returns it.
    pub(super) fn failed(&self, e: ClientError) -> ClientError {
        let mut failures = self.failures.lock();
        failures.count += 1;
        failures.last = Some(e.clone());
        e
    }

    /// The last failure after the first `seen` ones, and how many there were.
    pub(super) fn failure_after(&self, seen: u64) -> (u64, Option<ClientError>) {
        let failures = self.failures.lock();
        (failures.count, failures.last.clone().filter(|_| failures.count > seen))
    }

    /// Whether one open uses it.
    pub(super) fn has_one_user(&self) -> bool {
        self.users.load(Ordering::Acquire) == 1
    }

    /// One open less. Says whether it was the last one.
    pub(super) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut files = table.0.lock();
        // Somebody else may have opened the file in this moment.
        if files.get(&self.fh).is_some_and(|f| f.strong_count() == 0) {
            files.remove(&self.fh);
        }
    }
}

/// The files in use by filehandle: as many as are open.
#[derive(Default)]
pub struct FileTable(Mutex<HashMap<FileHandle, Weak<SharedFile>>>);

impl FileTable {
    /// What the opens of a file share; the caller is one of them until it leaves.
    pub(super) fn join(self: &Arc<Self>, fh: &FileHandle) -> Arc<SharedFile> {
        let mut files = self.0.lock();
        if let Some(file) = files.get(fh).and_then(Weak::upgrade) {
            file.users.fetch_add(1, Ordering::AcqRel);
            return file;
        }
        let file = Arc::new(SharedFile {
            fh: fh.clone(),
            table: Arc::downgrade(self),
            users: AtomicUsize::new(1),
            gathered: Gathered::default(),
            guards: Guards::default(),
            layout: RwLock::new(LayoutState::None),
            dirty: Mutex::new(Dirty::default()),
            failures: Mutex::new(Failures::default()),
        });
        files.insert(fh.clone(), Arc::downgrade(&file));
        file
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Opens of one file meet, others do not; with the last user the file is forgotten.
    #[test]
    fn opens_of_a_file_meet_while_one_lives() {
        let table = Arc::new(FileTable::default());
        let fh = |n: u8| FileHandle(Bytes::from(vec![n]));
        let (one, again, other) = (table.join(&fh(1)), table.join(&fh(1)), table.join(&fh(2)));
        assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &other));
        assert_eq!([one.leave(), again.leave(), other.leave()], [false, true, true]);
        drop((one, other));
        assert_eq!(table.0.lock().len(), 1);
        drop(again);
        assert!(table.0.lock().is_empty());
    }
}
