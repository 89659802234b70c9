//! The memory of all files of a client, and what it asks of them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use tokio::sync::Notify;
use weft_nfs::FileHandle;

use super::policy::IoPolicy;
use crate::{
    cache::{Budget, FileId, Moment, Report, Tick, Victim},
    limits,
    sync::Mutex,
};

/// The budget of all files, under its lock.
pub(super) struct Memory {
    budget: Mutex<Budget>,
    keeps: bool,
    moments: AtomicU64,
    /// Something that was on its way has ended, of any file.
    pub(super) ended: Notify,
    /// When somebody last gave up waiting for other files' data to leave.
    stuck_at: Mutex<Option<Instant>>,
}

/// Who knows all files. Which of them is to let go of something, and why, is never known behind
/// it: it asks [`Memory::victim`], which knows files by their numbers only.
pub(super) trait Keeper: Send + Sync {
    /// Evicts clean data while there is more than the budget.
    fn evict(&self);

    /// A file is gone, to which this client last did something at that moment.
    fn forget(&self, fh: &FileHandle, id: FileId, changed_at: Moment);
}

/// What the memory of all files asks of whoever writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pressure {
    /// Dirty data of the file should leave.
    pub(super) write_back: bool,
    /// What servers have of it should be committed.
    pub(super) commit: bool,
    /// Whoever writes has to wait.
    pub(super) wait: bool,
}

impl Memory {
    pub(super) fn new(policy: &IoPolicy) -> Memory {
        Memory {
            budget: Mutex::new(Budget::new(policy.cache_bytes)),
            keeps: policy.keeps,
            moments: AtomicU64::new(0),
            ended: Notify::new(),
            stuck_at: Mutex::default(),
        }
    }

    /// A file comes, with nothing in it.
    pub(super) fn register(&self) -> FileId {
        self.budget.lock().register()
    }

    /// A file goes, with everything in it.
    pub(super) fn leave(&self, id: FileId) {
        self.budget.lock().leave(id);
    }

    /// Whether clean data are kept at all.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The age of what comes in now.
    pub(super) fn now(&self) -> Tick {
        self.budget.lock().now()
    }

    /// Now, for whoever asks a server about a file.
    pub(super) fn moment(&self) -> Moment {
        Moment(self.moments.load(Ordering::SeqCst))
    }

    /// Now, for whoever does something to a file: later than all that was asked before.
    pub(super) fn next_moment(&self) -> Moment {
        Moment(self.moments.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// What a file has now; whether there is more than the budget, and something to evict.
    pub(super) fn told(&self, id: FileId, report: Report) -> bool {
        let mut budget = self.budget.lock();
        budget.update(id, report);
        budget.victim().is_some()
    }

    /// What is to be evicted next, if there is more than the budget.
    pub(super) fn victim(&self) -> Option<Victim> {
        self.budget.lock().victim()
    }

    pub(super) fn pressure(&self, id: FileId) -> Pressure {
        let budget = self.budget.lock();
        Pressure {
            write_back: budget.must_write_back(id),
            commit: budget.must_commit(id),
            wait: budget.must_wait(id),
        }
    }

    /// Other files' data cannot leave.
    pub(super) fn note_stuck(&self) {
        *self.stuck_at.lock() = Some(Instant::now());
    }

    /// Whether that was so a moment ago.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck_at.lock().is_some_and(|at| at.elapsed() < limits::ROOM_STUCK)
    }

    /// The file that has most to be written back, and the one that has most to be committed.
    pub(super) fn most_unsettled(&self) -> [Option<FileId>; 2] {
        let budget = self.budget.lock();
        [budget.dirtiest(), budget.most_sent()]
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.budget.lock().used()
    }
}
