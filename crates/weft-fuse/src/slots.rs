//! What the kernel has open, by the numbers that it refers to them with until it lets go.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::Mutex as AsyncMutex;
use weft_client::{io::FileIo, node::Nodes};
use weft_nfs::{FileHandle, ops::ReaddirOk};

/// A file that the kernel has open.
pub struct OpenFile {
    pub io: Arc<FileIo>,
    /// The nodes for who opened it.
    pub nodes: Nodes,
    pub is_writable: bool,
    /// True if its bytes go past the kernel's cache.
    pub is_direct: bool,
    /// When the server last told how long the file is.
    pub sized_at: Instant,
    /// Somebody else has what was locked through it, after a server had forgotten it: nothing is
    /// read and written under that lock any more.
    pub has_lost_lock: AtomicBool,
}

/// A directory that the kernel has open.
pub struct OpenDir {
    pub fh: FileHandle,
    pub ino: u64,
    pub nodes: Nodes,
    /// What was fetched last, behind which cookie: programs read on where they were.
    pub page: AsyncMutex<Option<(u64, ReaddirOk)>>,
}

/// Things by number. Bounded by what the kernel has open.
pub struct Slots<T> {
    next: AtomicU64,
    by_number: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { next: AtomicU64::new(1), by_number: Mutex::default() }
    }
}

impl<T> Slots<T> {
    /// Keeps a thing; its number, which no other has had.
    pub fn insert(&self, thing: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, thing);
        number
    }

    /// The thing of a number.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        self.lock().get(&number).cloned()
    }

    /// Lets go of a thing.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.lock().remove(&number)
    }

    /// All things.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().values().cloned().collect()
    }

    /// Lets go of all.
    pub fn take_all(&self) -> Vec<Arc<T>> {
        std::mem::take(&mut *self.lock()).into_values().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
