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
    cache::{
        FileCache, FileId, FileSize, Moment, Opening, Queue, SizeTold, Tick, Validity, Verdict,
    },
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
    /// Where the file ends.
    pub(super) size: FileSize,
    /// What is kept was true then, or is newer.
    true_at: Moment,
}

impl Cache {
    /// Something is written, up to there.
    pub(super) fn wrote(&mut self, end: u64, now: Moment) {
        self.validity.wrote();
        self.size.wrote(end, now);
    }
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
    /// When it was opened last: what was learnt of it elsewhere before is looked at again.
    opened_at: Mutex<Instant>,
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
                size: FileSize::default(),
                true_at: Moment::default(),
            }),
            ended: Notify::new(),
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
            let vouched = opened.delegation.vouches_since(cache.true_at);
            let told_at = opened.delegation.told_at(opened.asked.moment);
            cache.true_at = cache.true_at.max(told_at);
            let verdict = opened.change.map_or(Verdict::Drop, |change| {
                cache.validity.opened(&Opening { change, unsettled, vouched })
            });
            if verdict == Verdict::Drop {
                cache.ranges.invalidate();
            }
        });
        self.told_size(opened.size, opened.asked.moment);
    }

    /// When it was opened last.
    pub(super) fn opened_at(&self) -> Instant {
        *self.opened_at.lock()
    }

    /// The end of the file as far as this client knows.
    pub(super) fn size(&self) -> u64 {
        self.look(|cache| cache.size.end())
    }

    /// The same, if a server has told it.
    pub(super) fn known_size(&self) -> Option<u64> {
        self.look(|cache| cache.size.known_end())
    }

    /// The end of what was written here and that servers may not know of.
    pub(super) fn reaches(&self) -> u64 {
        let untold = self.has_untold();
        self.look(|cache| if untold { cache.size.untold_end() } else { 0 })
    }

    /// Now, for whoever does something to it.
    pub(super) fn now(&self) -> Moment {
        self.memory.next_moment()
    }

    /// A server has said how long it is, asked at that moment. What is kept of what is beyond goes.
    pub(super) fn told_size(&self, end: u64, asked_at: Moment) {
        let unsettled = self.has_untold();
        self.cache(|cache| {
            cache.size.told(SizeTold { end, asked_at, unsettled });
            // Where it ends may be in doubt still: then nothing of it is known to be beyond.
            if let Some(end) = cache.size.known_end() {
                cache.ranges.truncate(end);
            }
        });
    }

    /// What was written is known to the servers now: answers of before do not count it.
    pub(super) fn settled(&self) {
        let mut cache = self.cache.lock();
        cache.size.settled(self.now());
    }

    /// The file ends here now: the server was told, when nothing of what is beyond was on its way.
    pub(super) fn truncated(&self, size: u64) {
        self.cache(|cache| {
            cache.validity.wrote();
            cache.ranges.truncate(size);
            cache.size.cut(size, self.now());
        });
    }

    /// What is kept may be out of date, and so may the size be.
    pub(super) fn outdated(&self) {
        self.cache(|cache| {
            cache.ranges.invalidate();
            cache.size.forget(self.now());
        });
    }

    /// Whether this client did something to it after that moment that servers did not know of, or
    /// still do not.
    pub(super) fn has_changed_after(&self, moment: Moment) -> bool {
        self.has_untold() || self.look(|cache| cache.size.changed_after(moment))
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
            keeper.forget(&self.fh, self.id, self.look(|cache| cache.size.last_change()));
        }
    }
}
