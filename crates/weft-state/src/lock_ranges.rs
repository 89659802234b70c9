//! The locked ranges of one file: POSIX semantics, by holder. RFC 8881 §9.1-§9.3, §18.10.3.
//!
//! A range is an inclusive pair of offsets, so that the last byte of 64 bits can be named.

use std::collections::BTreeSet;

use crate::memory::allocated;
use crate::refusal::Reason;
use crate::stateid::StateNo;

/// A range of bytes, both ends inclusive; `first <= last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    first: u64,
    last: u64,
}

impl ByteRange {
    /// From an offset and a length where all ones means to the end. A length of 0 and one that
    /// passes the end of 64 bits are refused (§18.10.3).
    pub(crate) fn checked(offset: u64, length: u64) -> Result<Self, Reason> {
        if length == u64::MAX {
            return Ok(ByteRange { first: offset, last: u64::MAX });
        }
        let end = offset.checked_add(length).filter(|_| length > 0);
        Ok(ByteRange { first: offset, last: end.ok_or(Reason::RangeInvalid)? - 1 })
    }

    /// As offset and length on the wire.
    pub(crate) fn offset_length(self) -> (u64, u64) {
        let to_end = self.last == u64::MAX;
        (self.first, if to_end { u64::MAX } else { self.last - self.first + 1 })
    }

    fn overlaps(self, other: ByteRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A locked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) range: ByteRange,
    pub(crate) write: bool,
    pub(crate) holder: StateNo,
}

/// Locked ranges, sorted by first byte. Ranges of one holder never overlap, and where they touch
/// they differ in kind; ranges of different holders overlap only if none of the two is a write.
#[derive(Debug, Default)]
pub(crate) struct LockRanges(Vec<Held>);

/// The vector is never larger than so many times what is in it.
const SPARE_MAX: usize = 4;
/// Bytes that a range takes.
pub(crate) const RANGE_BYTES: usize = allocated(SPARE_MAX * size_of::<Held>());

impl LockRanges {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first range of another holder that excludes this one. Cost: linear.
    pub(crate) fn conflict(
        &self,
        holder: Option<StateNo>,
        range: ByteRange,
        write: bool,
    ) -> Option<&Held> {
        self.0
            .iter()
            .take_while(|h| h.range.first <= range.last)
            .find(|h| Some(h.holder) != holder && h.range.overlaps(range) && (write || h.write))
    }

    /// Whether one of the holders has a range that excludes this one of another. Cost: linear.
    pub(crate) fn excludes(
        &self,
        holders: &BTreeSet<StateNo>,
        range: ByteRange,
        write: bool,
    ) -> bool {
        let in_way = |h: &Held| h.range.overlaps(range) && (write || h.write);
        self.0.iter().any(|h| in_way(h) && holders.contains(&h.holder))
    }

    /// How many ranges the holder has.
    pub(crate) fn count_of(&self, holder: StateNo) -> usize {
        self.0.iter().filter(|h| h.holder == holder).count()
    }

    /// Locks: what the holder had in the range changes its kind, and neighbours of that kind
    /// merge. The caller has made sure that nothing conflicts.
    pub(crate) fn lock(&mut self, holder: StateNo, range: ByteRange, write: bool) {
        self.unlock(holder, range);
        let mut merged = range;
        self.0.retain(|h| {
            let before = h.range.last.checked_add(1) == Some(merged.first);
            let after = merged.last.checked_add(1) == Some(h.range.first);
            let merges = h.holder == holder && h.write == write && (before || after);
            if merges {
                merged.first = merged.first.min(h.range.first);
                merged.last = merged.last.max(h.range.last);
            }
            !merges
        });
        self.insert(Held { range: merged, write, holder });
    }

    /// Unlocks; ranges that stick out on either side keep those parts.
    pub(crate) fn unlock(&mut self, holder: StateNo, range: ByteRange) {
        let is_hit = |h: &Held| h.holder == holder && h.range.overlaps(range);
        let hit: Vec<Held> = self.0.extract_if(.., |h| is_hit(h)).collect();
        for h in hit {
            if h.range.first < range.first {
                let left = ByteRange { first: h.range.first, last: range.first - 1 };
                self.insert(Held { range: left, ..h });
            }
            if h.range.last > range.last {
                let right = ByteRange { first: range.last + 1, last: h.range.last };
                self.insert(Held { range: right, ..h });
            }
        }
        self.shrink();
    }

    /// Whether unlocking would cut a range of the holder in two.
    pub(crate) fn splits(&self, holder: StateNo, range: ByteRange) -> bool {
        let cut = |h: &Held| h.range.first < range.first && range.last < h.range.last;
        self.0.iter().any(|h| h.holder == holder && cut(h))
    }

    /// Unlocks everything of a holder.
    pub(crate) fn unlock_all(&mut self, holder: StateNo) {
        self.0.retain(|h| h.holder != holder);
        self.shrink();
    }

    /// Gives memory back once it is mostly empty, and then leaves some, so that not every change
    /// moves everything.
    fn shrink(&mut self) {
        if self.0.capacity() > SPARE_MAX * self.0.len() {
            self.0.shrink_to(SPARE_MAX / 2 * self.0.len());
        }
    }

    fn insert(&mut self, held: Held) {
        let at = self.0.partition_point(|h| h.range.first <= held.range.first);
        self.0.insert(at, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a holder gives up takes no memory beyond what is counted for the rest.
    #[test]
    fn memory_is_given_back() {
        let mut ranges = LockRanges::default();
        for n in 0..1000 {
            let range = ByteRange::checked(2 * n, 1).unwrap();
            ranges.lock(StateNo(1 + n % 2), range, true);
        }
        for n in 0..1000 {
            ranges.unlock(StateNo(1 + n % 2), ByteRange::checked(2 * n, 1).unwrap());
            assert!(ranges.0.capacity() <= SPARE_MAX * ranges.len(), "{}", ranges.len());
        }
    }

    /// Both sides of each limit of a range.
    #[test]
    fn range_limits() {
        let ok = |offset, length| ByteRange::checked(offset, length).map(ByteRange::offset_length);
        assert_eq!(ok(5, 0), Err(Reason::RangeInvalid));
        assert_eq!(ok(5, 1), Ok((5, 1)));
        assert_eq!(ok(0, u64::MAX), Ok((0, u64::MAX)));
        assert_eq!(ok(u64::MAX, u64::MAX), Ok((u64::MAX, u64::MAX)));
        assert_eq!(ok(u64::MAX - 1, 1), Ok((u64::MAX - 1, 1)));
        assert_eq!(ok(u64::MAX - 1, 2), Err(Reason::RangeInvalid));
        assert_eq!(ok(u64::MAX, 1), Err(Reason::RangeInvalid));
    }

    const BYTES: usize = 24;
    const HOLDERS: u64 = 3;

    /// The naive model: what every holder has on every byte. The last byte of the model stands
    /// for all bytes up to the end.
    #[derive(Default)]
    struct Model([[Option<bool>; BYTES]; HOLDERS as usize]);

    impl Model {
        fn span(range: ByteRange) -> std::ops::RangeInclusive<usize> {
            let clamp = |n: u64| (n as usize).min(BYTES - 1);
            clamp(range.first)..=clamp(range.last)
        }

        fn conflicts(&self, holder: u64, range: ByteRange, write: bool) -> bool {
            let others = self.0.iter().enumerate().filter(|(h, _)| *h as u64 != holder);
            let held = others.flat_map(|(_, bytes)| bytes[Self::span(range)].iter().flatten());
            held.into_iter().any(|w| write || *w)
        }

        fn set(&mut self, holder: u64, range: ByteRange, to: Option<bool>) {
            self.0[holder as usize][Self::span(range)].fill(to);
        }

        fn of(ranges: &LockRanges) -> Model {
            let mut model = Model::default();
            for h in &ranges.0 {
                for byte in Self::span(h.range) {
                    let cell = &mut model.0[h.holder.0 as usize][byte];
                    assert_eq!(*cell, None, "ranges of one holder overlap");
                    *cell = Some(h.write);
                }
            }
            model
        }

        /// Runs of equal bytes: as many ranges as a canonical table has.
        fn runs(&self) -> usize {
            let runs = |bytes: &[Option<bool>]| {
                let starts = |i: usize| i == 0 || bytes[i - 1] != bytes[i];
                (0..bytes.len()).filter(|i| bytes[*i].is_some() && starts(*i)).count()
            };
            self.0.iter().map(|b| runs(b)).sum()
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Lock(bool),
        Unlock,
        UnlockAll,
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u64, u64, Step)>> {
        let step = prop_oneof![
            4 => any::<bool>().prop_map(Step::Lock),
            2 => Just(Step::Unlock),
            1 => Just(Step::UnlockAll),
        ];
        let length = prop_oneof![5 => 1..9u64, 1 => Just(u64::MAX)];
        let offset = 0..(BYTES as u64 - 10);
        proptest::collection::vec((0..HOLDERS, offset, length, step), 1..40)
    }

    proptest! {
        /// Proves that any sequence of locks and unlocks equals a byte array per holder: the same
        /// conflicts, the same locked bytes, in the fewest ranges, sorted.
        #[test]
        fn equals_a_byte_array(steps in steps()) {
            let (mut ranges, mut model) = (LockRanges::default(), Model::default());
            for (holder, offset, length, step) in steps {
                let range = ByteRange::checked(offset, length).unwrap();
                let id = StateNo(holder);
                match step {
                    Step::Lock(write) => {
                        let conflict = ranges.conflict(Some(id), range, write);
                        prop_assert_eq!(conflict.is_some(), model.conflicts(holder, range, write));
                        if conflict.is_none() {
                            ranges.lock(id, range, write);
                            model.set(holder, range, Some(write));
                        }
                    }
                    Step::Unlock => {
                        ranges.unlock(id, range);
                        model.set(holder, range, None);
                    }
                    Step::UnlockAll => {
                        ranges.unlock_all(id);
                        model.0[holder as usize] = [None; BYTES];
                    }
                }
                prop_assert_eq!(Model::of(&ranges).0, model.0);
                prop_assert_eq!(ranges.len(), model.runs());
                prop_assert!(ranges.0.is_sorted_by_key(|h| h.range.first));
                let counted: usize = (0..HOLDERS).map(|h| ranges.count_of(StateNo(h))).sum();
                prop_assert_eq!(counted, ranges.len());
            }
        }
    }
}
