//! What may not happen to one file at the same time: truncations, indirect writes, new write
//! layouts, and conclusions from what data servers said before any of these.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use weft_store::types::InodeNo;

/// Files whose marks are remembered; beyond that the memory starts anew, and whoever is asking
/// data servers at that moment learns that something may have happened.
const MARKED_MAX: usize = 65_536;

/// When a file was last truncated, and last given out for writing, in an order of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// Moves when a truncation begins and when it ends.
    pub(super) truncated: u64,
    /// Moves when a write layout is granted.
    pub(super) granted: u64,
}

#[derive(Debug, Default)]
struct Gates {
    truncating: HashMap<InodeNo, usize>,
    writers: HashMap<InodeNo, usize>,
    marks: HashMap<InodeNo, Marks>,
    /// Mark of every file that is not in `marks`.
    floor: u64,
    last: u64,
}

impl Gates {
    fn marks(&self, ino: InodeNo) -> Marks {
        let floor = Marks { truncated: self.floor, granted: self.floor };
        self.marks.get(&ino).copied().unwrap_or(floor)
    }

    fn mark(&mut self, ino: InodeNo, change: impl FnOnce(&mut Marks, u64)) {
        self.last += 1;
        if self.marks.len() >= MARKED_MAX {
            self.marks.clear();
            self.floor = self.last;
        }
        let mut marks = self.marks(ino);
        change(&mut marks, self.last);
        self.marks.insert(ino, marks);
    }

    fn begin_truncation(&mut self, ino: InodeNo) {
        *self.truncating.entry(ino).or_default() += 1;
        self.mark(ino, |m, now| m.truncated = now);
    }
}

/// The gates of all files.
#[derive(Debug, Default)]
pub(super) struct FileGates(Mutex<Gates>);

impl FileGates {
    fn lock(&self) -> MutexGuard<'_, Gates> {
        self.0.lock().expect("file gates lock")
    }

    /// The file's marks now.
    pub(super) fn marks(&self, ino: InodeNo) -> Marks {
        self.lock().marks(ino)
    }

    /// A write layout is being granted.
    pub(super) fn granted(&self, ino: InodeNo) {
        self.lock().mark(ino, |m, now| m.granted = now);
    }

    /// Closes the file to writers; `false` if a truncation is under way already.
    pub(super) fn try_begin_truncation(&self, ino: InodeNo) -> bool {
        let mut gates = self.lock();
        if gates.truncating.contains_key(&ino) {
            return false;
        }
        gates.begin_truncation(ino);
        true
    }

    /// Closes the file for one more truncation (those that a crash left over).
    pub(super) fn begin_truncation(&self, ino: InodeNo) {
        self.lock().begin_truncation(ino);
    }

    /// Ends a truncation.
    pub(super) fn end_truncation(&self, ino: InodeNo) {
        let mut gates = self.lock();
        release(&mut gates.truncating, ino);
        gates.mark(ino, |m, now| m.truncated = now);
    }

    /// Whether a truncation is under way, or waits for a data server.
    pub(super) fn is_truncating(&self, ino: InodeNo) -> bool {
        self.lock().truncating.contains_key(&ino)
    }

    /// Whether indirect writes are under way.
    pub(super) fn has_writers(&self, ino: InodeNo) -> bool {
        self.lock().writers.contains_key(&ino)
    }

    /// Begins an indirect write; `None` while the file is being truncated.
    pub(super) fn begin_write(&self, ino: InodeNo) -> Option<Writing<'_>> {
        let mut gates = self.lock();
        if gates.truncating.contains_key(&ino) {
            return None;
        }
        *gates.writers.entry(ino).or_default() += 1;
        Some(Writing { gates: self, ino })
    }
}

fn release(counts: &mut HashMap<InodeNo, usize>, ino: InodeNo) {
    if let Some(n) = counts.get_mut(&ino) {
        *n -= 1;
        if *n == 0 {
            counts.remove(&ino);
        }
    }
}

/// An indirect write under way; ends when dropped.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    gates: &'a FileGates,
    ino: InodeNo,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        release(&mut self.gates.lock().writers, self.ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeNo = InodeNo(7);

    /// Writers and truncations exclude each other, and a second truncation waits.
    #[test]
    fn writers_and_truncations_exclude_each_other() {
        let gates = FileGates::default();
        let writing = gates.begin_write(INO).expect("nothing in the way");
        assert!(gates.try_begin_truncation(INO), "the truncation closes the file, then waits");
        assert!(gates.has_writers(INO));
        assert!(gates.begin_write(INO).is_none());
        assert!(!gates.try_begin_truncation(INO));
        drop(writing);
        assert!(!gates.has_writers(INO));
        gates.end_truncation(INO);
        assert!(gates.begin_write(INO).is_some());
    }

    /// A truncation that began or ended since is seen, and so is a grant; other files' are not.
    #[test]
    fn marks_tell_what_happened_since() {
        let gates = FileGates::default();
        let before = gates.marks(INO);
        gates.granted(InodeNo(8));
        assert_eq!(gates.marks(INO), before);
        gates.begin_truncation(INO);
        let during = gates.marks(INO);
        assert_ne!(during.truncated, before.truncated);
        gates.end_truncation(INO);
        assert_ne!(gates.marks(INO).truncated, during.truncated);
        let granted = gates.marks(INO).granted;
        gates.granted(INO);
        assert_ne!(gates.marks(INO).granted, granted);
    }

    /// When the memory starts anew, an asker from before sees a change, never a false rest.
    #[test]
    fn forgetting_looks_like_a_change() {
        let gates = FileGates::default();
        gates.granted(INO);
        let before = gates.marks(INO);
        for n in 0..=MARKED_MAX as u64 {
            gates.granted(InodeNo(100 + n));
        }
        assert_ne!(gates.marks(INO), before);
    }
}
