//! What all opens of one file share: its bytes as far as they are known here, its layout, its size.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::{Notify, RwLock};
use weft_nfs::FileHandle;
use weft_xdr::Payload;

use super::{
    guards::Guards,
    held::LayoutState,
    mark::Mark,
    memory::{Keeper, Memory},
    open::{Opened, Writer},
};
use crate::{
    cache::{FileCache, FileId, Opening, Queue, Tick, Validity, Verdict},
    error::ClientError,
    limits,
    sync::Mutex,
};

/// The ranges of a file that are known here.
pub(super) type Ranges = FileCache<Writer, Arc<[Mark]>, Payload>;

/// What is kept of a file's bytes.
pub(super) struct Cache {
    pub(super) ranges: Ranges,
    /// Of what state of the file that is.
    pub(super) validity: Validity,
}

/// A file in use, or of which something is kept. There is one layout stateid for each client and
/// file (RFC 8881 §12.5.2), so all opens of the file use one layout, and settle together what was
/// written through it.
///
/// Locks are taken in the order of the fields.
pub(super) struct SharedFile {
    fh: FileHandle,
    keeper: Weak<dyn Keeper>,
    memory: Arc<Memory>,
    id: FileId,
    /// Opens that are not closed yet; changed under the table's lock.
    pub(super) users: AtomicUsize,
    /// Tasks that write back what is dirty.
    pub(super) write_backs: AtomicUsize,
    pub(super) guards: Guards,
    /// I/O holds it for reading, whatever changes the layout for writing: so a layout goes back
    /// only when no request relies on it any more.
    pub(super) layout: RwLock<LayoutState>,
    cache: Mutex<Cache>,
    /// Something that was on its way has ended.
    pub(super) ended: Notify,
    size: Mutex<Size>,
    /// When it was opened last: what was learnt of it elsewhere before is looked at again.
    opened_at: Mutex<Instant>,
    failures: Mutex<Failures>,
}

/// End of the file as far as we know: grows with our writes, refreshed before reads at it.
#[derive(Default)]
struct Size {
    end: u64,
    /// Counts what this client did to it, and each time that it became known to the servers.
    changes: u64,
}

/// Failures to tell the metadata server what was written: every open for writing hears of them
/// once, at its next commit, however the failure came about.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<ClientError>,
}

impl SharedFile {
    pub(super) fn new(
        fh: &FileHandle,
        id: FileId,
        (keeper, memory): (Weak<dyn Keeper>, Arc<Memory>),
    ) -> SharedFile {
        SharedFile {
            fh: fh.clone(),
            keeper,
            memory,
            id,
            users: AtomicUsize::new(1),
            write_backs: AtomicUsize::new(0),
            guards: Guards::default(),
            layout: RwLock::new(LayoutState::None),
            cache: Mutex::new(Cache {
                ranges: FileCache::new(limits::CACHE_BLOCK_BYTES),
                validity: Validity::default(),
            }),
            ended: Notify::new(),
            size: Mutex::default(),
            opened_at: Mutex::new(Instant::now()),
            failures: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Does something with what is kept, and tells the budget what that made of it. If there is
    /// more than the budget then, something is evicted, of this file or others.
    pub(super) fn cache<T>(&self, act: impl FnOnce(&mut Cache) -> T) -> T {
        let (done, is_over) = {
            let mut cache = self.cache.lock();
            cache.ranges.set_now(self.memory.now());
            let done = act(&mut cache);
            if !self.memory.keeps() {
                for queue in [Queue::Once, Queue::Again] {
                    cache.ranges.evict(queue, Tick(u64::MAX), u64::MAX);
                }
            }
            (done, self.memory.told(self.id, cache.ranges.report()))
        };
        if is_over && let Some(keeper) = self.keeper.upgrade() {
            keeper.evict();
        }
        done
    }

    /// Looks at what is kept, without changing how much that is.
    pub(super) fn look<T>(&self, at: impl FnOnce(&Cache) -> T) -> T {
        at(&self.cache.lock())
    }

    /// Evicts clean data, and tells the budget.
    pub(super) fn evict(&self, (queue, until, bytes): (Queue, Tick, u64)) {
        let mut cache = self.cache.lock();
        cache.ranges.evict(queue, until, bytes);
        self.memory.told(self.id, cache.ranges.report());
    }

    /// Whether nothing is kept of it.
    pub(super) fn is_empty(&self) -> bool {
        self.look(|cache| cache.ranges.usage().total() == 0)
    }

    /// Whether something that was written is not durable.
    pub(super) fn is_unsettled(&self) -> bool {
        self.look(|cache| cache.ranges.is_unsettled())
    }

    /// The same, or the metadata server was not told of it.
    pub(super) fn has_untold(&self) -> bool {
        let untold = match self.layout.try_read() {
            Ok(state) => state.held().is_some_and(|held| held.has_untold()),
            Err(_) => true,
        };
        untold || self.is_unsettled()
    }

    /// Hears what an open was told: what is kept stays only if it is of the same state of the file.
    pub(super) fn opened(&self, opened: &Opened) {
        *self.opened_at.lock() = Instant::now();
        let unsettled = self.has_untold();
        self.cache(|cache| {
            let verdict = opened.change.map_or(Verdict::Drop, |change| {
                cache.validity.opened(&Opening { change, unsettled })
            });
            if verdict == Verdict::Drop {
                cache.ranges.invalidate();
            }
        });
        match unsettled {
            true => self.reaches(opened.size),
            false => self.set_size(opened.size),
        }
    }

    /// When it was opened last.
    pub(super) fn opened_at(&self) -> Instant {
        *self.opened_at.lock()
    }

    /// The end of the file as far as this client knows.
    pub(super) fn size(&self) -> u64 {
        self.size.lock().end
    }

    /// Notes a size set or learnt elsewhere.
    pub(super) fn set_size(&self, end: u64) {
        let mut size = self.size.lock();
        size.end = end;
        size.changes += 1;
    }

    /// Something was written up to there.
    pub(super) fn grow_to(&self, end: u64) {
        let mut size = self.size.lock();
        size.end = size.end.max(end);
        size.changes += 1;
    }

    /// The file is at least so long.
    pub(super) fn reaches(&self, end: u64) {
        let mut size = self.size.lock();
        size.end = size.end.max(end);
    }

    /// A server is going to be asked for the size: what its answer is compared with.
    pub(super) fn asks_size(&self) -> u64 {
        self.size.lock().changes
    }

    /// Its answer, when nothing that was written is unknown to it: the size, unless this client has
    /// changed the file, or settled it, since it was asked.
    pub(super) fn told_size(&self, end: u64, asked_at: u64) {
        let mut size = self.size.lock();
        size.end = if size.changes == asked_at { end } else { size.end.max(end) };
    }

    /// What was written is known to the servers now: answers of before do not count it.
    pub(super) fn settled(&self) {
        self.size.lock().changes += 1;
    }

    /// The file ends here now: the server was told, when nothing of what is beyond was on its way.
    pub(super) fn truncated(&self, size: u64) {
        self.cache(|cache| {
            cache.validity.wrote();
            cache.ranges.truncate(size);
        });
        self.set_size(size);
    }

    /// Somebody waits for what is on its way no longer than needed.
    pub(super) fn has_ended(&self) {
        self.ended.notify_waiters();
        self.memory.ended.notify_waiters();
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
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        self.memory.leave(self.id);
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.forget(&self.fh, self.id);
        }
    }
}
