//! The rule by which a file is spread over objects, whatever its scheme.

use std::ops::Range;

use crate::{
    copies::Copies,
    cyclic::{Cyclic, CyclicList},
    round_robin::{DistributionError, Form, RoundRobin},
    scheme::{Location, Scheme},
    variable::Variable,
};

/// A rule that spreads a file over objects. Further aggregation schemes are further variants, each
/// with its arithmetic in a file of its own; callers use the methods only. Source: P1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distribution {
    /// Units of equal size dealt out in turn.
    RoundRobin(RoundRobin),
    /// Units of equal size dealt out by a list, over and over.
    Cyclic(Cyclic),
    /// Small units dealt out in turn, then large ones.
    Variable(Variable),
    /// All bytes in each object.
    Copies(Copies),
}

impl Distribution {
    /// Round robin from file offset 0 (pattern offset 0).
    ///
    /// # Errors
    /// [`DistributionError`] for a zero unit or count, or a first index not below the count.
    pub fn round_robin(
        stripe_unit_bytes: u64,
        stripe_count: u32,
        first_stripe_index: u32,
        form: Form,
    ) -> Result<Self, DistributionError> {
        RoundRobin::new(stripe_unit_bytes, stripe_count, first_stripe_index, form)
            .map(Distribution::RoundRobin)
    }

    /// By a cyclic list, whose entry `first` gets the file's first unit. Sparse.
    ///
    /// # Errors
    /// [`DistributionError`] for a zero unit, or a first entry behind the list.
    pub fn cyclic(
        stripe_unit_bytes: u64,
        list: CyclicList,
        first: u16,
    ) -> Result<Self, DistributionError> {
        Cyclic::new(stripe_unit_bytes, list, first).map(Distribution::Cyclic)
    }

    /// What one object sees of a cyclic list: it has these turns of so many, a bit for each, and
    /// all others together are another object. Its own index is [`Distribution::OF_TURNS`].
    ///
    /// # Errors
    /// [`DistributionError`] for a zero unit, more turns than a list can have, turns beyond them,
    /// or none.
    pub fn of_turns(
        stripe_unit_bytes: u64,
        count: u16,
        turns: u16,
    ) -> Result<Self, DistributionError> {
        Distribution::cyclic(stripe_unit_bytes, CyclicList::of_turns(count, turns)?, 0)
    }

    /// The object whose turns [`Distribution::of_turns`] is about.
    pub const OF_TURNS: u32 = 0;

    /// So many rounds of small units, then large ones, both round robin from a stripe index on.
    /// Sparse.
    ///
    /// # Errors
    /// [`DistributionError`] for what round robin refuses, no small rounds, or small ones without
    /// an end below 2^64.
    pub fn variable(
        small: (u64, u32),
        large_unit_bytes: u64,
        stripe_count: u32,
        first_stripe_index: u32,
    ) -> Result<Self, DistributionError> {
        Variable::new(small, large_unit_bytes, stripe_count, first_stripe_index)
            .map(Distribution::Variable)
    }

    /// So many copies of the file, of which `first` is what counts where they may differ.
    ///
    /// # Errors
    /// [`DistributionError`] for no copies, or a first one that is none of them.
    pub fn copies(count: u32, first: u32) -> Result<Self, DistributionError> {
        Copies::new(count, first).map(Distribution::Copies)
    }

    /// The arithmetic of the scheme: the only place that tells schemes apart.
    fn scheme(&self) -> &dyn Scheme {
        match self {
            Distribution::RoundRobin(d) => d,
            Distribution::Cyclic(d) => d,
            Distribution::Variable(d) => d,
            Distribution::Copies(d) => d,
        }
    }

    /// Number of stripe indices.
    pub fn stripe_count(&self) -> u32 {
        self.scheme().stripe_count()
    }

    /// Whether each object has all bytes of the file: there is one, or they are copies.
    pub fn is_whole_in_each(&self) -> bool {
        self.scheme().is_whole_in_each()
    }

    /// The stripe indices that have a byte, given the one that [`Self::locate`] tells: of copies
    /// all.
    pub fn homes(&self, located: u32) -> Range<u32> {
        match self.is_whole_in_each() {
            true => 0..self.stripe_count(),
            false => located..located.saturating_add(1),
        }
    }

    /// The location of one byte of the file; of copies in the first.
    pub fn locate(&self, offset: u64) -> Location {
        self.scheme().locate(offset)
    }

    /// Bytes from `offset` to the end of its stripe unit, at least 1.
    pub fn bytes_to_unit_end(&self, offset: u64) -> u64 {
        self.scheme().bytes_to_unit_end(offset)
    }

    /// The file offset stored at an object's offset. `None` if that location holds no byte of the
    /// file: a hole of the sparse form, an unknown stripe index, or beyond `u64::MAX`.
    pub fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64> {
        self.scheme().file_offset(stripe_index, object_offset)
    }

    /// The size an object has when the file has `file_size` bytes and no unit of it is missing
    /// at the end: what a truncation sets. 0 for an unknown stripe index.
    pub fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64 {
        self.scheme().object_size_for(file_size, stripe_index)
    }

    /// One past the last byte of the file that an object of this size holds. `None` if the size
    /// is beyond what any file of this distribution can have.
    pub fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64> {
        self.scheme().file_end_of_object(stripe_index, object_size)
    }

    /// The first run of a file's bytes in an object at or after an object offset: its start, and
    /// the end of the run (one past it). `None` for an unknown stripe index, or if none begins
    /// below `u64::MAX`. With sparse objects this is the rest of the unit at the offset, or the
    /// next own unit; an object without holes between its units has one run.
    pub fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)> {
        let run = self.scheme().next_own_run(stripe_index, object_offset);
        run.filter(|(start, _)| *start < u64::MAX)
    }

    /// How many of the file's bytes from `start` to `end` live at a stripe index. 0 for an unknown
    /// one, and for a range that ends before it begins.
    pub fn bytes_between(&self, stripe_index: u32, start: u64, end: u64) -> u64 {
        let before = |offset| self.scheme().own_bytes(offset, stripe_index);
        before(end).saturating_sub(before(start))
    }

    /// The file size that object sizes, listed by stripe index, imply: the largest file end.
    /// Missing trailing entries count as empty objects, entries beyond the stripe count are
    /// ignored. `None` if some size is impossible (see [`Self::file_end_of_object`]).
    pub fn file_size_from_objects(&self, sizes: impl IntoIterator<Item = u64>) -> Option<u64> {
        (0..self.stripe_count())
            .zip(sizes)
            .try_fold(0, |max, (i, size)| Some(self.file_end_of_object(i, size)?.max(max)))
    }

    /// Whether every byte of the file range lives at this stripe index. An empty range touches
    /// nothing and is served anywhere; a range that ends beyond `u64::MAX` nowhere.
    pub fn serves(&self, stripe_index: u32, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len) else { return false };
        if stripe_index >= self.stripe_count() {
            return false;
        }
        if self.is_whole_in_each() {
            return true;
        }
        // Some other index comes within a stripe, so that this ends.
        let mut at = offset;
        while at < end {
            if self.locate(at).stripe_index != stripe_index {
                return false;
            }
            at = at.saturating_add(self.bytes_to_unit_end(at));
        }
        true
    }
}
