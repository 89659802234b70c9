//! The same bytes in several objects (P1.3, replicated): each has the whole file.

use crate::{
    round_robin::DistributionError,
    scheme::{Location, Scheme},
};

/// So many objects, each with all bytes of the file at their own offsets. One of them is the first:
/// it is what counts where they may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Copies {
    count: u32,
    first: u32,
}

impl Copies {
    /// `count` copies, of which this is the first.
    ///
    /// # Errors
    /// [`DistributionError`] for none, or a first one that is none of them.
    pub fn new(count: u32, first: u32) -> Result<Self, DistributionError> {
        match (count, first < count) {
            (0, _) => Err(DistributionError::ZeroCount),
            (_, false) => Err(DistributionError::FirstBeyondCount),
            (_, true) => Ok(Copies { count, first }),
        }
    }
}

impl Scheme for Copies {
    fn stripe_count(&self) -> u32 {
        self.count
    }

    fn is_whole_in_each(&self) -> bool {
        true
    }

    fn locate(&self, offset: u64) -> Location {
        Location { stripe_index: self.first, object_offset: offset }
    }

    fn bytes_to_unit_end(&self, offset: u64) -> u64 {
        (u64::MAX - offset).max(1)
    }

    fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64> {
        (stripe_index < self.count).then_some(object_offset)
    }

    fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64 {
        if stripe_index < self.count { file_size } else { 0 }
    }

    fn own_bytes(&self, file_size: u64, stripe_index: u32) -> u64 {
        self.object_size_for(file_size, stripe_index)
    }

    fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64> {
        Some(self.object_size_for(object_size, stripe_index))
    }

    fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)> {
        (stripe_index < self.count).then_some((object_offset, u64::MAX))
    }
}
