//! A unit that grows: small ones for the beginning of a file, larger ones behind it, both round
//! robin (P1.3, variable stripe size). No layout of RFC 8881 can say so.

use crate::{
    round_robin::{DistributionError, Form, RoundRobin},
    scheme::{Location, Scheme},
};

/// Some whole rounds of small units, then large ones. Objects are sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable {
    small: RoundRobin,
    large: RoundRobin,
    /// Where the large units begin: a multiple of the small rounds.
    boundary: u64,
}

impl Variable {
    /// `rounds` times a small unit for each object, round robin from `first` on; then large ones.
    ///
    /// # Errors
    /// [`DistributionError`] for what round robin refuses, no small rounds, or small ones without
    /// an end below 2^64.
    pub fn new(
        (small_bytes, rounds): (u64, u32),
        large_bytes: u64,
        stripe_count: u32,
        first: u32,
    ) -> Result<Self, DistributionError> {
        let part = |unit| RoundRobin::new(unit, stripe_count, first, Form::Sparse);
        let (small, large) = (part(small_bytes)?, part(large_bytes)?);
        let units = u64::from(rounds) * u64::from(stripe_count);
        let boundary = units.checked_mul(small_bytes).filter(|end| *end > 0);
        Ok(Variable { small, large, boundary: boundary.ok_or(DistributionError::SmallRounds)? })
    }

    /// The part of the file that an offset is in: its rule, and where it begins.
    fn part(&self, offset: u64) -> (&RoundRobin, u64) {
        if offset < self.boundary { (&self.small, 0) } else { (&self.large, self.boundary) }
    }
}

impl Scheme for Variable {
    fn stripe_count(&self) -> u32 {
        self.small.stripe_count()
    }

    fn locate(&self, offset: u64) -> Location {
        let (rule, begins) = self.part(offset);
        Location { object_offset: offset, ..rule.locate(offset - begins) }
    }

    fn bytes_to_unit_end(&self, offset: u64) -> u64 {
        let (rule, begins) = self.part(offset);
        rule.bytes_to_unit_end(offset - begins)
    }

    fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64> {
        (self.locate(object_offset).stripe_index == stripe_index).then_some(object_offset)
    }

    fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64 {
        let behind = file_size.saturating_sub(self.boundary);
        match self.large.object_size_for(behind, stripe_index) {
            0 => self.small.object_size_for(file_size.min(self.boundary), stripe_index),
            // At most `file_size`.
            end => self.boundary + end,
        }
    }

    fn own_bytes(&self, file_size: u64, stripe_index: u32) -> u64 {
        let behind = file_size.saturating_sub(self.boundary);
        self.small.own_bytes(file_size.min(self.boundary), stripe_index)
            + self.large.own_bytes(behind, stripe_index)
    }

    fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64> {
        Some(self.object_size_for(object_size, stripe_index))
    }

    fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)> {
        if object_offset < self.boundary {
            let run = self.small.next_own_run(stripe_index, object_offset)?;
            if run.0 < self.boundary {
                return Some(run);
            }
        }
        let behind = object_offset.saturating_sub(self.boundary);
        let (start, end) = self.large.next_own_run(stripe_index, behind)?;
        Some((start.checked_add(self.boundary)?, end.saturating_add(self.boundary)))
    }
}
