//! Reads on their way to servers, and which parts of them have been overtaken.

use std::collections::BTreeMap;

use super::span::Span;
use crate::limits::{FETCHES_MAX, SPOILED_SPANS_MAX};

/// A read that was begun: [`super::FileCache::begin_fetch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fetch(u64);

/// The reads of a file that are on their way.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    by_number: BTreeMap<u64, OnItsWay>,
    last: u64,
}

#[derive(Debug)]
struct OnItsWay {
    span: Span,
    /// What may be older than what was here since. No two meet.
    spoiled: Vec<Span>,
}

impl Fetches {
    /// A read is sent. Beyond [`FETCHES_MAX`] it is not noted, so that nothing of it is kept.
    pub(super) fn begin(&mut self, span: Span) -> Fetch {
        self.last += 1;
        if self.by_number.len() < FETCHES_MAX {
            self.by_number.insert(self.last, OnItsWay { span, spoiled: Vec::new() });
        }
        Fetch(self.last)
    }

    pub(super) fn end(&mut self, fetch: Fetch) {
        self.by_number.remove(&fetch.0);
    }

    /// What the servers answer of this range, from now on, may be older than what is known here.
    pub(super) fn spoil(&mut self, span: Span) {
        for fetch in self.by_number.values_mut() {
            fetch.spoil(span);
        }
    }

    /// The same of one read.
    pub(super) fn spoil_one(&mut self, fetch: Fetch, span: Span) {
        if let Some(fetch) = self.by_number.get_mut(&fetch.0) {
            fetch.spoil(span);
        }
    }

    /// The read that will bring the byte at an offset.
    pub(super) fn bringing(&self, offset: u64) -> Option<Fetch> {
        let here = Span::of(offset, 1);
        let brings = |f: &OnItsWay| f.span.meets(here) && !f.spoiled.iter().any(|s| s.meets(here));
        self.by_number.iter().find(|(_, f)| brings(f)).map(|(no, _)| Fetch(*no))
    }

    /// What of a range is as new in the answer to a read as anything known here.
    pub(super) fn unspoiled(&self, fetch: Fetch, span: Span) -> Vec<Span> {
        let Some(fetch) = self.by_number.get(&fetch.0) else { return Vec::new() };
        let mut left: Vec<Span> = fetch.span.meet(span).into_iter().collect();
        for spoiled in &fetch.spoiled {
            left = left.into_iter().flat_map(|part| part.without(*spoiled)).collect();
        }
        left.sort_by_key(|part| part.from);
        left
    }
}

impl OnItsWay {
    fn spoil(&mut self, span: Span) {
        let Some(mut new) = self.span.meet(span) else { return };
        // With those that it meets or touches it becomes one.
        self.spoiled.retain(|old| {
            let is_apart = old.end < new.from || new.end < old.from;
            if !is_apart {
                new = Span { from: old.from.min(new.from), end: old.end.max(new.end) };
            }
            is_apart
        });
        self.spoiled.push(new);
        if self.spoiled.len() > SPOILED_SPANS_MAX {
            // To spoil too much is safe: it is read once more.
            let from = self.spoiled.iter().map(|s| s.from).min().unwrap_or(new.from);
            let end = self.spoiled.iter().map(|s| s.end).max().unwrap_or(new.end);
            self.spoiled = vec![Span { from, end }];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is spoiled stays so, at most too much of it: beyond the limit it becomes one range.
    #[test]
    fn the_spoiled_are_bounded() {
        let mut fetches = Fetches::default();
        let fetch = fetches.begin(Span::of(0, 10_000));
        let at = |n: usize| Span::of(10 * n as u64, 1);
        for n in 0..SPOILED_SPANS_MAX {
            fetches.spoil(at(n));
        }
        let left = fetches.unspoiled(fetch, Span::ALL);
        assert_eq!(left.len(), SPOILED_SPANS_MAX);
        assert_eq!(left[0], Span { from: 1, end: 10 });
        fetches.spoil(at(SPOILED_SPANS_MAX));
        let behind = Span { from: at(SPOILED_SPANS_MAX).end, end: 10_000 };
        assert_eq!(fetches.unspoiled(fetch, Span::ALL), vec![behind]);
    }

    /// Ranges that meet become one whatever their order, and leave what is between others.
    #[test]
    fn what_is_left_is_exact_below_the_limit() {
        let mut fetches = Fetches::default();
        let fetch = fetches.begin(Span::of(100, 100));
        for (from, end) in [(0, 110), (150, 160), (140, 150), (145, 170), (190, u64::MAX)] {
            fetches.spoil(Span { from, end });
        }
        let left = fetches.unspoiled(fetch, Span { from: 105, end: 180 });
        assert_eq!(left, vec![Span { from: 110, end: 140 }, Span { from: 170, end: 180 }]);
    }

    /// A byte comes with a read that has it and was not overtaken there.
    #[test]
    fn who_brings_a_byte() {
        let mut fetches = Fetches::default();
        let [one, two] = [0, 5].map(|at| fetches.begin(Span::of(at, 10)));
        fetches.spoil_one(one, Span::of(6, 2));
        let brought = [4, 5, 6, 9, 14, 15].map(|at| fetches.bringing(at));
        assert_eq!(brought, [Some(one), Some(one), Some(two), Some(one), Some(two), None]);
        fetches.end(one);
        assert_eq!([4, 5].map(|at| fetches.bringing(at)), [None, Some(two)]);
    }

    /// A read beyond the limit is not noted, and nothing of it is kept; one that ends makes room.
    #[test]
    fn reads_are_bounded() {
        let mut fetches = Fetches::default();
        let noted: Vec<Fetch> = (0..FETCHES_MAX).map(|_| fetches.begin(Span::ALL)).collect();
        let beyond = fetches.begin(Span::ALL);
        assert!(fetches.unspoiled(beyond, Span::ALL).is_empty());
        assert_eq!(fetches.unspoiled(noted[0], Span::ALL), vec![Span::ALL]);
        fetches.end(noted[0]);
        let next = fetches.begin(Span::ALL);
        assert_eq!(fetches.unspoiled(next, Span::ALL), vec![Span::ALL]);
        assert!(fetches.unspoiled(noted[0], Span::ALL).is_empty());
    }
}
