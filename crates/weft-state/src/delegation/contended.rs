//! Files that were wanted back lately: who reads and who writes them take turns, and a delegation
//! would only be asked for again.

use std::collections::BTreeSet;

use crate::ids::{FileKey, Millis};
use crate::limits::{CONTENDED_MS, CONTENDED_REMEMBERED_MAX};
use crate::memory::map_entry;

/// Such files: each for at least [`CONTENDED_MS`] and at most twice as long, if there is room.
#[derive(Debug, Default)]
pub(super) struct Contended {
    since: Millis,
    /// Those noted since then, and in the time of the same length before.
    lately: BTreeSet<FileKey>,
    before: BTreeSet<FileKey>,
    /// Most in either.
    most: usize,
}

impl Contended {
    /// None, in so many bytes.
    pub(super) fn with_memory(bytes: usize) -> Self {
        let most = bytes / map_entry::<FileKey, ()>() / 2;
        Contended { most: most.min(CONTENDED_REMEMBERED_MAX), ..Contended::default() }
    }

    /// A delegation on this file is being recalled.
    pub(super) fn note(&mut self, now: Millis, file: FileKey) {
        self.pass_to(now);
        if self.lately.len() >= self.most {
            self.next();
        }
        self.lately.insert(file);
    }

    pub(super) fn contains(&mut self, now: Millis, file: FileKey) -> bool {
        self.pass_to(now);
        self.knows(file)
    }

    /// Whether it was noted, however long ago, and not forgotten since.
    pub(super) fn knows(&self, file: FileKey) -> bool {
        self.lately.contains(&file) || self.before.contains(&file)
    }

    fn pass_to(&mut self, now: Millis) {
        let passed = now.since(self.since);
        if passed < CONTENDED_MS {
            return;
        }
        self.next();
        if passed >= 2 * CONTENDED_MS {
            self.before.clear();
        }
        self.since = now;
    }

    fn next(&mut self) {
        self.before = std::mem::take(&mut self.lately);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FILE, OTHER_FILE};

    /// Proves both ends of the time, before and after a file was noted in another.
    #[test]
    fn files_are_forgotten_in_time() {
        for begun in [0, CONTENDED_MS / 2, CONTENDED_MS - 1] {
            let mut contended = Contended::with_memory(1 << 20);
            contended.note(Millis(0), OTHER_FILE);
            contended.note(Millis(begun), FILE);
            assert!(contended.contains(Millis(begun + CONTENDED_MS - 1), FILE));
            assert!(!contended.contains(Millis(begun + 2 * CONTENDED_MS), FILE));
            assert!(!contended.contains(Millis(begun), FILE), "time goes on");
        }
    }

    /// Proves that it has no more than it may, and the latest.
    #[test]
    fn they_are_bounded() {
        let mut contended = Contended::with_memory(8 * map_entry::<FileKey, ()>());
        for object in 0..100 {
            contended.note(Millis(0), FileKey { volume: 1, object });
            assert!(contended.lately.len() <= 4 && contended.before.len() <= 4);
            assert!(contended.contains(Millis(0), FileKey { volume: 1, object }));
        }
    }
}
