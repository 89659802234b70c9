//! An engine in memory, for tests: its commits can be held back and made to fail.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Batch, Engine, EngineError, KeyRange, Visit};

/// An [`Engine`] that forgets everything when dropped.
#[derive(Default)]
pub struct MemoryEngine {
    map: Mutex<BTreeMap<Bytes, Bytes>>,
    gate: Mutex<Gate>,
    opened: Condvar,
}

#[derive(Default)]
struct Gate {
    epoch: u64,
    held: bool,
    failing: Option<String>,
    /// Commits that are waiting at the gate.
    waiting: usize,
    commits: u64,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds every later commit back until [`MemoryEngine::release`].
    pub fn hold(&self) {
        self.gate().held = true;
    }

    /// Lets held commits go on.
    pub fn release(&self) {
        self.gate().held = false;
        self.opened.notify_all();
    }

    /// Blocks until a commit is waiting at the gate; only sensible after [`MemoryEngine::hold`].
    pub fn wait_for_held_commit(&self) {
        let mut gate = self.gate();
        while gate.waiting == 0 {
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes every later commit fail with this reason, applying nothing.
    pub fn fail(&self, reason: &str) {
        self.gate().failing = Some(reason.to_owned());
    }

    /// Commits applied so far.
    pub fn commits(&self) -> u64 {
        self.gate().commits
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Bytes, Bytes>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.map().get(key).cloned())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        let until = range.until.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in self.map().range::<[u8], _>((Bound::Included(range.from), until)) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        let mut gate = self.gate();
        gate.waiting += 1;
        self.opened.notify_all();
        while gate.held {
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.waiting -= 1;
        if gate.epoch != fence_epoch {
            return Err(EngineError::Fenced { held: fence_epoch, current: gate.epoch });
        }
        if let Some(reason) = &gate.failing {
            return Err(EngineError::Io(reason.clone()));
        }
        gate.commits += 1;
        let mut map = self.map();
        for (key, value) in batch.iter() {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        Ok(())
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        Ok(self.gate().epoch)
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        let mut gate = self.gate();
        gate.epoch += 1;
        Ok(gate.epoch)
    }
}
