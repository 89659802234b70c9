//! The rule by which a file is spread over objects, whatever its scheme.

use crate::{
    round_robin::{DistributionError, Form, RoundRobin},
    scheme::{Location, Scheme},
};

/// A rule that spreads a file over objects. Further aggregation schemes are further variants, each
/// with its arithmetic in a file of its own; callers use the methods only. Source: P1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distribution {
    /// Units of equal size dealt out in turn.
    RoundRobin(RoundRobin),
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

    /// The arithmetic of the scheme: the only place that tells schemes apart.
    fn scheme(&self) -> &dyn Scheme {
        match self {
            Distribution::RoundRobin(d) => d,
        }
    }

    /// Number of stripe indices.
    pub fn stripe_count(&self) -> u32 {
        self.scheme().stripe_count()
    }

    /// The location of one byte of the file.
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
        self.scheme().next_own_run(stripe_index, object_offset)
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
        if stripe_index >= self.stripe_count() || offset.checked_add(len).is_none() {
            return false;
        }
        if len == 0 || self.stripe_count() == 1 {
            return true;
        }
        self.locate(offset).stripe_index == stripe_index && len <= self.bytes_to_unit_end(offset)
    }
}
