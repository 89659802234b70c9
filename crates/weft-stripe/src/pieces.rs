//! Two file ranges of one length, cut where either of them goes on in another object.

use std::iter::FusedIterator;

use crate::{distribution::Distribution, scheme::Location};

/// A part of two ranges of one length that lies in one object on either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Where it begins on this side.
    pub here: Location,
    /// Where it begins on the other side.
    pub there: Location,
    /// Bytes from the beginning of both ranges.
    pub at: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
}

/// Iterator over the pieces of two ranges, in file order. Made by [`Distribution::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces {
    here: (Distribution, u64),
    there: (Distribution, u64),
    at: u64,
    len: u64,
}

impl Distribution {
    /// The parts of two ranges of one length, this file's from `offset` on and another's from
    /// `there` on, cut where a stripe unit of either ends, unless that has one object only. Ranges
    /// of which one would end beyond `u64::MAX` end there: no file is longer.
    pub fn pieces(&self, offset: u64, (other, there): (&Distribution, u64), len: u64) -> Pieces {
        let len = len.min(u64::MAX - offset).min(u64::MAX - there);
        Pieces { here: (*self, offset), there: (*other, there), at: 0, len }
    }

    /// Bytes from `offset` on that follow each other in one object.
    fn bytes_in_object(&self, offset: u64) -> u64 {
        match self.is_whole_in_each() {
            true => u64::MAX - offset,
            false => self.bytes_to_unit_end(offset),
        }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.at >= self.len {
            return None;
        }
        let (here, there) = (self.here.1 + self.at, self.there.1 + self.at);
        let run = self.here.0.bytes_in_object(here).min(self.there.0.bytes_in_object(there));
        let (at, len) = (self.at, run.min(self.len - self.at));
        self.at += len;
        Some(Piece { here: self.here.0.locate(here), there: self.there.0.locate(there), at, len })
    }
}

impl FusedIterator for Pieces {}
