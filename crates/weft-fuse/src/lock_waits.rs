//! Lock owners of this mount that wait for each other in a circle: `fcntl(2)` answers EDEADLK.
//!
//! The server leaves that to us. It may answer NFS4ERR_DEADLOCK "if it is able to detect" one (RFC
//! 8881 §15.1.8.2, §18.10.3), but clients ask again and again instead of waiting there (§9.6), and
//! do not say when they give up: it would refuse locks for waits that are over.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::lock_ranges::Locked;

/// An owner that wants a lock of a file which others are in the way of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub owner: u64,
    pub ino: u64,
    pub wanted: Locked,
}

/// All waits of a mount. Threads that share an owner may have several; then a circle is one though
/// another thread would break it, as with locks of a local file system.
#[derive(Debug, Default)]
pub struct LockWaits(Arc<Mutex<Vec<Wait>>>);

/// A wait, until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    wait: Wait,
    all: Arc<Mutex<Vec<Wait>>>,
}

impl LockWaits {
    /// Notes a wait; none if its owner would wait for itself, as `in_the_way` tells which owners
    /// have what a wait is for.
    pub fn begin(&self, wait: Wait, in_the_way: impl Fn(&Wait) -> Vec<u64>) -> Option<Waiting> {
        // Of two waits that close a circle together one sees the other.
        let mut all = lock(&self.0);
        if closes_circle(&all, wait, in_the_way) {
            return None;
        }
        all.push(wait);
        Some(Waiting { wait, all: self.0.clone() })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        if let Some(at) = all.iter().position(|wait| *wait == self.wait) {
            all.swap_remove(at);
        }
    }
}

fn lock(all: &Mutex<Vec<Wait>>) -> MutexGuard<'_, Vec<Wait>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closes_circle(all: &[Wait], wait: Wait, in_the_way: impl Fn(&Wait) -> Vec<u64>) -> bool {
    let (mut seen, mut to_follow) = (HashSet::new(), vec![wait]);
    while let Some(next) = to_follow.pop() {
        for owner in in_the_way(&next) {
            if owner == wait.owner {
                return true;
            }
            if seen.insert(owner) {
                to_follow.extend(all.iter().filter(|wait| wait.owner == owner));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each owner has the file of its number; a wait is for a file of another owner.
    fn begin(waits: &LockWaits, owner: u64, ino: u64) -> Option<Waiting> {
        let wanted = Locked { start: 0, last: 0, is_exclusive: true };
        waits.begin(Wait { owner, ino, wanted }, |wait| vec![wait.ino])
    }

    /// A wait that closes a circle is refused, of two owners or more; a chain is none, nor is a
    /// circle in which a wait is over, nor one that others are in.
    #[test]
    fn circles() {
        let waits = LockWaits::default();
        let first = begin(&waits, 1, 2);
        assert!(first.is_some() && begin(&waits, 2, 1).is_none());
        let second = begin(&waits, 2, 3);
        assert!(second.is_some() && begin(&waits, 3, 1).is_none());
        drop(first);
        let third = begin(&waits, 3, 1);
        assert!(third.is_some());
        assert!(begin(&waits, 4, 3).is_some(), "it waits for a chain");
        lock(&waits.0).push(Wait { owner: 1, ..third.as_ref().unwrap().wait });
        assert!(begin(&waits, 5, 1).is_some(), "the circle is one of others");
    }

    /// Each wait ends once, also beside another one like it.
    #[test]
    fn waits_of_threads() {
        let waits = LockWaits::default();
        let (one, other) = (begin(&waits, 1, 2), begin(&waits, 1, 2));
        drop(one);
        assert!(begin(&waits, 2, 1).is_none());
        drop(other);
        assert!(begin(&waits, 2, 1).is_some());
    }
}
