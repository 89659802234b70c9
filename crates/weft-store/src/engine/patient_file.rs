//! A file that has no "no space left" for who writes to it: the write uses the reserve, and waits.

use std::{
    fs::OpenOptions,
    io,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, DatabaseError, StorageBackend, backends::FileBackend};

use crate::reserve::{self, Reserve};

/// redb's own file, written to again and again until there is room.
#[derive(Debug)]
pub(super) struct PatientFile {
    file: FileBackend,
    reserve: Arc<Reserve>,
    /// Whether a refusal for want of room has got through: nobody waits while a volume is opened
    /// or closed.
    refused: Arc<AtomicBool>,
}

impl PatientFile {
    /// Opens (or makes) the file.
    pub(super) fn open(path: &Path, reserve: &Arc<Reserve>) -> Result<Self, DatabaseError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = loop {
            match options.open(path) {
                Err(e) if reserve::is_full(&e) && reserve.wait_for_room() => {}
                opened => break opened?,
            }
        };
        let file = FileBackend::new(file)?;
        Ok(PatientFile { file, reserve: reserve.clone(), refused: Arc::default() })
    }

    /// Tells, also when the file is gone, whether a refusal for want of room has got through.
    pub(super) fn refused(&self) -> Arc<AtomicBool> {
        self.refused.clone()
    }

    /// Every one of redb's calls may be made again after it failed half-way.
    fn until_room(&self, mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        loop {
            match call() {
                Err(e) if reserve::is_full(&e) => {
                    if !self.reserve.wait_for_room() {
                        self.refused.store(true, Ordering::Release);
                        return Err(e);
                    }
                }
                done => return done,
            }
        }
    }
}

impl StorageBackend for PatientFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.until_room(|| self.file.set_len(len))
    }

    /// Not made again: after a failed sync nobody knows what is on the disk.
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.until_room(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
