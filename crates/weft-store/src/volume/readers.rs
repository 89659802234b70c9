//! Operations that read the engine without the volume's lock, and what has to be remembered for
//! them.

use std::collections::{BTreeMap, VecDeque};

/// What an operation reads from the engine may be outdated by the time it goes on: a write may have
/// been made, and even have become durable, meanwhile. Therefore a group of writes that became
/// durable stays in the overlay, which is asked before anything that was read, until every
/// operation has ended that began to read before.
///
/// `G` is a group of writes.
#[derive(Debug)]
pub(super) struct Readers<G> {
    /// Groups that became durable so far.
    durable: u64,
    /// Operations that read, by the number of groups that were durable when they began.
    reading: BTreeMap<u64, usize>,
    /// Durable groups that are still needed, oldest first, each with its number.
    kept: VecDeque<(u64, G)>,
}

/// That an operation reads; given back to [`Readers::end`].
#[derive(Debug)]
pub(super) struct Reading(u64);

impl<G> Default for Readers<G> {
    fn default() -> Self {
        Self { durable: 0, reading: BTreeMap::new(), kept: VecDeque::new() }
    }
}

impl<G> Readers<G> {
    /// An operation begins to read.
    pub(super) fn begin(&mut self) -> Reading {
        *self.reading.entry(self.durable).or_default() += 1;
        Reading(self.durable)
    }

    /// An operation has all that it read.
    pub(super) fn end(&mut self, reading: Reading) {
        if let Some(count) = self.reading.get_mut(&reading.0) {
            *count -= 1;
            if *count == 0 {
                self.reading.remove(&reading.0);
            }
        }
    }

    /// A group is durable in the engine.
    pub(super) fn became_durable(&mut self, group: G) {
        self.durable += 1;
        self.kept.push_back((self.durable, group));
    }

    /// The oldest group that nobody needs any more; again until there is none.
    pub(super) fn let_go(&mut self) -> Option<G> {
        let oldest = self.reading.keys().next().copied();
        let (number, _) = self.kept.front()?;
        if oldest.is_some_and(|began| began < *number) {
            return None;
        }
        self.kept.pop_front().map(|(_, group)| group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(readers: &mut Readers<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| readers.let_go()).collect()
    }

    #[test]
    fn a_group_stays_for_those_who_began_to_read_before() {
        let mut readers = Readers::default();
        readers.became_durable("a");
        assert_eq!(all(&mut readers), ["a"], "nobody reads");
        let first = readers.begin();
        readers.became_durable("b");
        let second = readers.begin();
        readers.became_durable("c");
        assert!(all(&mut readers).is_empty());
        readers.end(first);
        assert_eq!(all(&mut readers), ["b"], "the second began after it");
        readers.end(second);
        assert_eq!(all(&mut readers), ["c"]);
        let (first, second) = (readers.begin(), readers.begin());
        readers.became_durable("d");
        readers.end(second);
        assert!(all(&mut readers).is_empty(), "two began at once, one has ended");
        readers.end(first);
        assert_eq!(all(&mut readers), ["d"]);
    }
}
