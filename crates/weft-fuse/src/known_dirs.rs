//! Directories that were made through this mount and changed through it alone: all their names are
//! known, so that a name that is new is known not to be there without asking.
//!
//! That nobody else has changed one, each of our own changes tells: the server says from which
//! value of the change attribute to which it led (`change_info4`). In between it is believed, like
//! all that the kernel was told, for as long as the mount believes attributes.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use weft_nfs::{ChangeInfo, Component};

/// Directories that are remembered; when there are more, all that nothing was heard of for a while
/// are forgotten, and then all.
const DIRS_MAX: usize = 1024;
/// Names of one directory: a larger one is not worth the memory.
const NAMES_MAX: usize = 16 << 10;

/// What is known of directories, by inode number.
pub struct KnownDirs {
    valid: Duration,
    dirs: Mutex<HashMap<u64, Known>>,
}

struct Known {
    names: HashSet<Component>,
    /// The change attribute that they are the names of.
    change: u64,
    /// When the server said so.
    at: Instant,
}

/// What a change through this mount did to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Removed,
}

impl KnownDirs {
    /// None; what is known is believed for so long.
    pub fn new(valid: Duration) -> KnownDirs {
        KnownDirs { valid, dirs: Mutex::default() }
    }

    /// A directory was made, empty, with this change attribute.
    pub fn made(&self, ino: u64, change: u64, now: Instant) {
        if self.valid.is_zero() {
            return;
        }
        let mut dirs = self.lock();
        if dirs.len() >= DIRS_MAX {
            dirs.retain(|_, known| now.duration_since(known.at) < self.valid);
        }
        if dirs.len() >= DIRS_MAX {
            dirs.clear();
        }
        dirs.insert(ino, Known { names: HashSet::new(), change, at: now });
    }

    /// A change of one name through this mount. If something else has changed the directory, it is
    /// not known any more.
    pub fn changed(
        &self,
        ino: u64,
        (name, how): (Component, Change),
        info: ChangeInfo,
        now: Instant,
    ) {
        self.change(ino, info, now, |names| match how {
            Change::Added => drop(names.insert(name)),
            Change::Removed => drop(names.remove(&name)),
        });
    }

    /// The same of a name that became another one of the same directory.
    pub fn renamed(
        &self,
        ino: u64,
        (old, new): (Component, Component),
        info: ChangeInfo,
        now: Instant,
    ) {
        self.change(ino, info, now, |names| {
            names.remove(&old);
            names.insert(new);
        });
    }

    fn change(
        &self,
        ino: u64,
        info: ChangeInfo,
        now: Instant,
        change: impl FnOnce(&mut HashSet<Component>),
    ) {
        let mut dirs = self.lock();
        let Some(known) = dirs.get_mut(&ino) else { return };
        if !info.atomic || info.before != known.change || known.names.len() >= NAMES_MAX {
            dirs.remove(&ino);
            return;
        }
        change(&mut known.names);
        (known.change, known.at) = (info.after, now);
    }

    /// Whether a directory is known not to have a name.
    pub fn lacks(&self, ino: u64, name: &Component, now: Instant) -> bool {
        let dirs = self.lock();
        dirs.get(&ino).is_some_and(|known| {
            now.duration_since(known.at) < self.valid && !known.names.contains(name)
        })
    }

    /// Nothing is known of a directory any more.
    pub fn forget(&self, ino: u64) {
        self.lock().remove(&ino);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const VALID: Duration = Duration::from_secs(1);

    fn name(name: &'static str) -> Component {
        Component(Bytes::from_static(name.as_bytes()))
    }

    fn info(before: u64, after: u64) -> ChangeInfo {
        ChangeInfo { atomic: true, before, after }
    }

    /// A new directory lacks every name but those that were made in it, for a while after each
    /// change of ours; one that we did not make lacks none.
    #[test]
    fn names_that_are_not_there() {
        let (dirs, then) = (KnownDirs::new(VALID), Instant::now());
        dirs.made(7, 1, then);
        dirs.changed(7, (name("a"), Change::Added), info(1, 2), then);
        assert!(dirs.lacks(7, &name("b"), then) && !dirs.lacks(7, &name("a"), then));
        assert!(!dirs.lacks(8, &name("b"), then));
        assert!(!dirs.lacks(7, &name("b"), then + VALID), "that was too long ago");
        let later = then + VALID / 2;
        dirs.changed(7, (name("a"), Change::Removed), info(2, 3), later);
        assert!(dirs.lacks(7, &name("a"), then + VALID));
        dirs.changed(7, (name("c"), Change::Added), info(3, 4), later);
        dirs.renamed(7, (name("c"), name("d")), info(4, 5), later);
        assert!(dirs.lacks(7, &name("c"), later) && !dirs.lacks(7, &name("d"), later));
    }

    /// A change that is not ours shows in the next of ours, whoever gives one that is not atomic
    /// says nothing, and what is never believed is not kept.
    #[test]
    fn changes_of_others() {
        let (dirs, now) = (KnownDirs::new(VALID), Instant::now());
        for seen in [info(2, 3), ChangeInfo { atomic: false, ..info(1, 2) }] {
            dirs.made(7, 1, now);
            dirs.changed(7, (name("a"), Change::Added), seen, now);
            assert!(!dirs.lacks(7, &name("b"), now), "{seen:?}");
        }
        let none = KnownDirs::new(Duration::ZERO);
        none.made(7, 1, now);
        assert!(!none.lacks(7, &name("b"), now));
    }

    /// Memory has a bound, whatever is made.
    #[test]
    fn directories_are_forgotten() {
        let (dirs, now) = (KnownDirs::new(VALID), Instant::now());
        for ino in 0..3 * DIRS_MAX as u64 {
            dirs.made(ino, 1, now);
            assert!(dirs.lock().len() <= DIRS_MAX);
        }
    }
}
