//! An engine in memory, for tests: its commits can be held back and made to fail.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Condvar, Mutex, MutexGuard};

use bytes::Bytes;

use super::contract::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};
use crate::sync::{lock, wait};

/// An [`Engine`] that forgets everything when dropped.
#[derive(Default)]
pub struct MemoryEngine {
    map: Mutex<BTreeMap<Bytes, Bytes>>,
    control: Mutex<CommitControl>,
    changed: Condvar,
}

#[derive(Default)]
struct CommitControl {
    epoch: u64,
    held: bool,
    failing: Option<String>,
    /// Commits that are held back now.
    waiting: usize,
    commits: u64,
    /// Whether [`Engine::commit_now`] commits; absent: not as a rule, and not at all.
    now: Option<bool>,
    /// Commits applied by it.
    commits_now: u64,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds every later commit back until [`MemoryEngine::release`].
    pub fn hold(&self) {
        self.control().held = true;
    }

    /// Lets held commits go on.
    pub fn release(&self) {
        self.control().held = false;
        self.changed.notify_all();
    }

    /// Blocks until a commit is held back; only sensible after [`MemoryEngine::hold`].
    pub fn wait_for_held_commit(&self) {
        let mut control = self.control();
        while control.waiting == 0 {
            control = wait(&self.changed, control);
        }
    }

    /// Makes every later commit fail with this reason, applying nothing.
    pub fn fail(&self, reason: &str) {
        self.control().failing = Some(reason.to_owned());
    }

    /// As an engine without a disk: to be called before it is used. Whether it has nothing to wait
    /// for just now ([`Engine::commit_now`]) may change later.
    pub fn commit_now_if(&self, nothing_to_wait_for: bool) {
        self.control().now = Some(nothing_to_wait_for);
    }

    /// Commits that were applied by [`Engine::commit_now`].
    pub fn commits_now_so_far(&self) -> u64 {
        self.control().commits_now
    }

    /// Commits applied so far.
    pub fn commits(&self) -> u64 {
        self.control().commits
    }

    fn control(&self) -> MutexGuard<'_, CommitControl> {
        lock(&self.control)
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Bytes, Bytes>> {
        lock(&self.map)
    }
}

impl Engine for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.map().get(key).cloned())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.map(), range, visit);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(MemorySnapshot(self.map().clone())))
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let mut control = self.control();
        control.waiting += 1;
        self.changed.notify_all();
        while control.held {
            control = wait(&self.changed, control);
        }
        control.waiting -= 1;
        if control.epoch != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: control.epoch });
        }
        if let Some(reason) = &control.failing {
            return Err(EngineError::Io(reason.clone()));
        }
        control.commits += 1;
        let mut map = self.map();
        for (key, value) in batch.iter() {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        Ok(())
    }

    fn commits_now(&self) -> bool {
        self.control().now.is_some()
    }

    fn commit_now(&self, batch: &Batch, fence_epoch: u64) -> Result<bool, EngineError> {
        let control = self.control();
        if control.held || control.now != Some(true) {
            return Ok(false);
        }
        drop(control);
        self.commit(batch, fence_epoch)?;
        self.control().commits_now += 1;
        Ok(true)
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(self.control().epoch)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut control = self.control();
        control.epoch += 1;
        Ok(control.epoch)
    }
}

/// A moment of the map: a copy of it.
struct MemorySnapshot(BTreeMap<Bytes, Bytes>);

impl Snapshot for MemorySnapshot {
    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0, range, visit);
        Ok(())
    }
}

fn scan(map: &BTreeMap<Bytes, Bytes>, range: KeyRange<'_>, visit: &mut Visit<'_>) {
    if range.is_empty() {
        return;
    }
    let until = range.until.map_or(Bound::Unbounded, Bound::Excluded);
    for (key, value) in map.range::<[u8], _>((Bound::Included(range.from), until)) {
        if visit(key, value).is_break() {
            break;
        }
    }
}
