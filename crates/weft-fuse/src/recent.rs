//! Attributes that the server told with something else: the kernel asks for them a moment later.
//!
//! After every change of a directory it asks for the directory's, and after an open for the file's.
//! They are believed for as long as all that the kernel was told, counted from when the server
//! told them, and no longer than until something is done here that changes them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fuser::{FileAttr, FileType};

/// Inodes that they are kept of: when there are more, all are forgotten.
const INODES_MAX: usize = 4096;

/// What the server told, by inode number.
pub struct RecentAttrs {
    valid: Duration,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    by_number: HashMap<u64, Entry>,
    /// Counts what may have changed any file.
    files_changed: u64,
}

struct Entry {
    attr: FileAttr,
    change: u64,
    at: Instant,
    files_changed: u64,
}

impl RecentAttrs {
    /// None; what is told is believed for so long.
    pub fn new(valid: Duration) -> RecentAttrs {
        RecentAttrs { valid, told: Mutex::default() }
    }

    /// The server told them, with this change attribute. Of two answers the later one stays,
    /// whichever came first.
    pub fn note(&self, attr: FileAttr, change: u64, now: Instant) {
        if self.valid.is_zero() {
            return;
        }
        let mut told = self.lock();
        let number = attr.ino.0;
        if told.by_number.get(&number).is_some_and(|known| known.change > change) {
            return;
        }
        if told.by_number.len() >= INODES_MAX {
            told.by_number.clear();
        }
        let files_changed = told.files_changed;
        told.by_number.insert(number, Entry { attr, change, at: now, files_changed });
    }

    /// What is known, and for how long it may still be believed.
    pub fn get(&self, number: u64, now: Instant) -> Option<(FileAttr, Duration)> {
        let told = self.lock();
        let entry = told.by_number.get(&number)?;
        let is_current =
            entry.attr.kind == FileType::Directory || entry.files_changed == told.files_changed;
        let left = self.valid.checked_sub(now.duration_since(entry.at))?;
        (is_current && !left.is_zero()).then_some((entry.attr, left))
    }

    /// Something changed an inode.
    pub fn forget(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    /// A name went or came: it may have been one of any file.
    pub fn forget_files(&self) {
        self.lock().files_changed += 1;
    }

    /// A name became another one, of a directory perhaps.
    pub fn forget_all(&self) {
        self.lock().by_number.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::{Attrs, FileType as Kind};

    use super::*;
    use crate::attr::file_attr;

    const VALID: Duration = Duration::from_secs(1);

    fn of(number: u64, kind: Kind, size: u64) -> FileAttr {
        let attrs = Attrs { file_type: Some(kind), size: Some(size), ..Attrs::default() };
        file_attr(number, &attrs)
    }

    /// What was told is believed for its time, the later of two answers counts, and what is never
    /// believed is not kept.
    #[test]
    fn answers_grow_old() {
        let (recent, then) = (RecentAttrs::new(VALID), Instant::now());
        recent.note(of(7, Kind::DIR, 2), 2, then);
        recent.note(of(7, Kind::DIR, 1), 1, then);
        let half = VALID / 2;
        let (attr, left) = recent.get(7, then + half).unwrap();
        assert_eq!((attr.size, left), (2, half));
        assert!(recent.get(7, then + VALID).is_none() && recent.get(8, then).is_none());
        let none = RecentAttrs::new(Duration::ZERO);
        none.note(of(7, Kind::DIR, 2), 2, then);
        assert!(none.get(7, then).is_none());
    }

    /// A name that goes may be one more of a file, which has fewer links then; directories have
    /// one name. Another name of a directory changes that, too.
    #[test]
    fn changes_of_names() {
        let (recent, now) = (RecentAttrs::new(VALID), Instant::now());
        recent.note(of(7, Kind::DIR, 1), 1, now);
        recent.note(of(8, Kind::REG, 1), 1, now);
        recent.forget_files();
        assert!(recent.get(7, now).is_some() && recent.get(8, now).is_none());
        recent.forget_all();
        assert!(recent.get(7, now).is_none());
    }

    /// Memory has a bound.
    #[test]
    fn inodes_are_forgotten() {
        let (recent, now) = (RecentAttrs::new(VALID), Instant::now());
        for number in 0..2 * INODES_MAX as u64 {
            recent.note(of(number, Kind::DIR, 1), 1, now);
            assert!(recent.lock().by_number.len() <= INODES_MAX);
        }
    }
}
