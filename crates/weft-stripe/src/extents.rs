//! A file range as a list of object ranges.

use std::iter::FusedIterator;

use crate::distribution::Distribution;

/// A contiguous part of a file range that lies in one stripe unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Index into the list of stripes.
    pub stripe_index: u32,
    /// Offset in the object, in bytes.
    pub object_offset: u64,
    /// Offset in the file, in bytes.
    pub file_offset: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
}

/// Iterator over the extents of a file range, in file order. Made by [`Distribution::extents`].
#[derive(Debug, Clone)]
pub struct Extents {
    distribution: Distribution,
    offset: u64,
    end: u64,
}

impl Distribution {
    /// The parts of a file range in file order, cut at stripe-unit boundaries. A range that
    /// would end beyond `u64::MAX` ends there: no file is longer.
    pub fn extents(&self, offset: u64, len: u64) -> Extents {
        Extents { distribution: *self, offset, end: offset.saturating_add(len) }
    }
}

impl Iterator for Extents {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.offset >= self.end {
            return None;
        }
        let location = self.distribution.locate(self.offset);
        let len = self.distribution.bytes_to_unit_end(self.offset).min(self.end - self.offset);
        let extent = Extent {
            stripe_index: location.stripe_index,
            object_offset: location.object_offset,
            file_offset: self.offset,
            len,
        };
        self.offset += len;
        Some(extent)
    }
}

impl FusedIterator for Extents {}
