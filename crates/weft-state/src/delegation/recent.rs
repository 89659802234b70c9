//! A bounded memory of what happened lately to files or hosts: a file whose delegation was recalled
//! would only be recalled again.

use std::collections::BTreeSet;

use crate::ids::Millis;
use crate::limits::RECENT_MAX;
use crate::memory::map_entry;

/// Keys noted lately: each for at least `window_ms` and at most twice as long, if there is room.
#[derive(Debug)]
pub(super) struct Recent<K> {
    window_ms: u64,
    since: Millis,
    /// Those noted since then, and in the window before.
    lately: BTreeSet<K>,
    before: BTreeSet<K>,
    /// Most in either.
    most: usize,
}

impl<K> Default for Recent<K> {
    /// Remembers nothing.
    fn default() -> Self {
        let (lately, before) = (BTreeSet::new(), BTreeSet::new());
        Recent { window_ms: 0, since: Millis::default(), lately, before, most: 0 }
    }
}

impl<K: Ord> Recent<K> {
    /// An empty memory of this window, in so many bytes.
    pub(super) fn with_memory(bytes: usize, window_ms: u64) -> Self {
        let most = (bytes / map_entry::<K, ()>() / 2).min(RECENT_MAX);
        Recent { window_ms, most, ..Recent::default() }
    }

    /// Remembers the key from now on.
    pub(super) fn note(&mut self, now: Millis, key: K) {
        self.pass_to(now);
        if self.lately.len() >= self.most {
            self.next();
        }
        self.lately.insert(key);
    }

    /// Whether the key was noted lately.
    pub(super) fn contains(&mut self, now: Millis, key: K) -> bool {
        self.pass_to(now);
        self.knows(key)
    }

    /// Whether the key was noted, however long ago, and not forgotten since.
    pub(super) fn knows(&self, key: K) -> bool {
        self.lately.contains(&key) || self.before.contains(&key)
    }

    fn pass_to(&mut self, now: Millis) {
        let passed = now.since(self.since);
        if passed < self.window_ms {
            return;
        }
        self.next();
        if passed >= 2 * self.window_ms {
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
    use crate::ids::FileKey;
    use crate::limits::CONTENDED_MS;
    use crate::testing::{FILE, OTHER_FILE};

    /// Proves both ends of the window, before and after a file was noted in another.
    #[test]
    fn files_are_forgotten_in_time() {
        for begun in [0, CONTENDED_MS / 2, CONTENDED_MS - 1] {
            let mut contended = Recent::with_memory(1 << 20, CONTENDED_MS);
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
        let mut contended = Recent::with_memory(8 * map_entry::<FileKey, ()>(), CONTENDED_MS);
        for object in 0..100 {
            contended.note(Millis(0), FileKey { volume: 1, object });
            assert!(contended.lately.len() <= 4 && contended.before.len() <= 4);
            assert!(contended.contains(Millis(0), FileKey { volume: 1, object }));
        }
    }
}
