//! Which bytes of a file a lock owner has locked, and how.

/// Bytes that are locked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locked {
    /// The first.
    pub start: u64,
    /// The last.
    pub last: u64,
    pub is_exclusive: bool,
}

/// The locks of one owner on one file: none overlaps another.
#[derive(Debug, Default)]
pub struct LockRanges(Vec<Locked>);

impl LockRanges {
    /// Locks a range in this way, whatever was locked of it before.
    pub fn lock(&mut self, new: Locked) {
        self.unlock(new.start, new.last);
        self.0.push(new);
    }

    /// Unlocks a range; what is left of locks stays.
    pub fn unlock(&mut self, start: u64, last: u64) {
        let parts = |held: Locked| {
            let before =
                start.checked_sub(1).map(|end| Locked { last: held.last.min(end), ..held });
            let behind =
                last.checked_add(1).map(|begin| Locked { start: held.start.max(begin), ..held });
            [before, behind].into_iter().flatten().filter(|part| part.start <= part.last)
        };
        self.0 = std::mem::take(&mut self.0).into_iter().flat_map(parts).collect();
    }

    /// True if another owner cannot have a lock because of these.
    pub fn exclude(&self, other: Locked) -> bool {
        self.0.iter().any(|held| {
            let overlaps = held.start <= other.last && other.start <= held.last;
            overlaps && (held.is_exclusive || other.is_exclusive)
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Locked> + '_ {
        self.0.iter().copied()
    }

    /// Whether nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is unlocked in the middle of a lock leaves both ends of it, and a lock of another kind
    /// takes the place of what was there, to the last byte that a file can have.
    #[test]
    fn locks_are_cut() {
        let mut held = LockRanges::default();
        let ranges = |held: &LockRanges| {
            let mut all: Vec<_> = held.iter().map(|l| (l.start, l.last, l.is_exclusive)).collect();
            all.sort_unstable();
            all
        };
        held.lock(Locked { start: 0, last: u64::MAX, is_exclusive: false });
        held.unlock(10, 19);
        assert_eq!(ranges(&held), [(0, 9, false), (20, u64::MAX, false)]);
        held.lock(Locked { start: 5, last: 29, is_exclusive: true });
        assert_eq!(ranges(&held), [(0, 4, false), (5, 29, true), (30, u64::MAX, false)]);
        held.unlock(0, 4);
        held.unlock(30, u64::MAX);
        assert_eq!(ranges(&held), [(5, 29, true)]);
        held.unlock(0, u64::MAX);
        assert!(held.is_empty());
    }
}
