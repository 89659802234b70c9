//! Round robin: unit after unit to the next stripe index (RFC 8881 §13.4, pattern offset 0).

use std::num::{NonZeroU32, NonZeroU64};

use crate::scheme::{Location, Scheme};

/// How file offsets become object offsets (RFC 8881 §13.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Object offset = file offset; the units of other stripe indices are holes.
    Sparse,
    /// The units of one stripe index follow each other without holes.
    Dense,
}

/// Parameters that describe no distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistributionError {
    /// A stripe unit of no bytes.
    ZeroUnit,
    /// A stripe count of zero.
    ZeroCount,
    /// The first stripe index is not below the stripe count.
    FirstBeyondCount,
    /// A cyclic list of no entries, or of more than there may be.
    ListLength,
    /// A cyclic list without one of the objects below the highest.
    MissingObject,
    /// No rounds of small units, or so many that they have no end.
    SmallRounds,
}

impl std::fmt::Display for DistributionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DistributionError::ZeroUnit => "the stripe unit is zero",
            DistributionError::ZeroCount => "the stripe count is zero",
            DistributionError::FirstBeyondCount => "the first stripe index is beyond the count",
            DistributionError::ListLength => "the cyclic list is empty or too long",
            DistributionError::MissingObject => "the cyclic list leaves an object out",
            DistributionError::SmallRounds => {
                "there are no rounds of small units, or no end of them"
            }
        })
    }
}

impl std::error::Error for DistributionError {}

/// Units of equal size dealt out in turn, beginning with the first stripe index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundRobin {
    stripe_unit_bytes: NonZeroU64,
    stripe_count: NonZeroU32,
    /// Below `stripe_count`.
    first_stripe_index: u32,
    form: Form,
}

impl RoundRobin {
    /// Checked construction.
    ///
    /// # Errors
    /// [`DistributionError`] for a zero unit or count, or a first index not below the count.
    pub fn new(
        stripe_unit_bytes: u64,
        stripe_count: u32,
        first_stripe_index: u32,
        form: Form,
    ) -> Result<Self, DistributionError> {
        let unit = NonZeroU64::new(stripe_unit_bytes).ok_or(DistributionError::ZeroUnit)?;
        let count = NonZeroU32::new(stripe_count).ok_or(DistributionError::ZeroCount)?;
        if first_stripe_index >= stripe_count {
            return Err(DistributionError::FirstBeyondCount);
        }
        Ok(RoundRobin { stripe_unit_bytes: unit, stripe_count: count, first_stripe_index, form })
    }

    /// Bytes in a stripe unit.
    pub fn stripe_unit_bytes(&self) -> u64 {
        self.stripe_unit_bytes.get()
    }

    /// The stripe index of the file's first unit.
    pub fn first_stripe_index(&self) -> u32 {
        self.first_stripe_index
    }

    /// Sparse or dense.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The turn at which a stripe index is served, counted from the first stripe index: this
    /// index holds the units whose number modulo the stripe count equals its slot. `None` for an
    /// unknown stripe index.
    pub fn slot(&self, stripe_index: u32) -> Option<u32> {
        let count = self.stripe_count.get();
        if stripe_index >= count {
            return None;
        }
        let first = self.first_stripe_index;
        Some(if stripe_index >= first {
            stripe_index - first
        } else {
            count - first + stripe_index
        })
    }

    /// One past the last byte below `file_size` that belongs to a stripe index; 0 if none does.
    fn own_end(&self, file_size: u64, stripe_index: u32) -> u64 {
        let Some(slot) = self.slot(stripe_index).map(u64::from) else {
            return 0;
        };
        let count = u64::from(self.stripe_count.get());
        let (unit, within) = self.split(file_size);
        if within > 0 && unit % count == slot {
            return file_size;
        }
        match self.whole_units(unit, slot) {
            0 => 0,
            // The last whole own unit is below `unit`, so its end is at most `file_size`.
            n => (slot + (n - 1) * count + 1) * self.stripe_unit_bytes.get(),
        }
    }

    /// How many of the units `0..units` have this slot.
    fn whole_units(&self, units: u64, slot: u64) -> u64 {
        units.saturating_sub(slot).div_ceil(u64::from(self.stripe_count.get()))
    }

    /// Unit number and offset within the unit.
    fn split(&self, offset: u64) -> (u64, u64) {
        (offset / self.stripe_unit_bytes, offset % self.stripe_unit_bytes)
    }
}

impl Scheme for RoundRobin {
    fn stripe_count(&self) -> u32 {
        self.stripe_count.get()
    }

    fn locate(&self, offset: u64) -> Location {
        let (unit, within) = self.split(offset);
        let count = u64::from(self.stripe_count.get());
        // Both terms are below 2^32, so the sum fits and the remainder is a 32-bit number.
        let index = (unit % count + u64::from(self.first_stripe_index)) % count;
        let object_offset = match self.form {
            Form::Sparse => offset,
            Form::Dense => unit / count * self.stripe_unit_bytes.get() + within,
        };
        Location { stripe_index: index as u32, object_offset }
    }

    fn bytes_to_unit_end(&self, offset: u64) -> u64 {
        self.stripe_unit_bytes.get() - self.split(offset).1
    }

    fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64> {
        let slot = self.slot(stripe_index)?;
        match self.form {
            Form::Sparse => {
                let own = self.locate(object_offset).stripe_index == stripe_index;
                own.then_some(object_offset)
            }
            Form::Dense => {
                let (own_unit, within) = self.split(object_offset);
                let unit = own_unit
                    .checked_mul(u64::from(self.stripe_count.get()))?
                    .checked_add(u64::from(slot))?;
                unit.checked_mul(self.stripe_unit_bytes.get())?.checked_add(within)
            }
        }
    }

    fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64 {
        match self.form {
            Form::Sparse => self.own_end(file_size, stripe_index),
            Form::Dense => self.own_bytes(file_size, stripe_index),
        }
    }

    fn own_bytes(&self, file_size: u64, stripe_index: u32) -> u64 {
        let Some(slot) = self.slot(stripe_index).map(u64::from) else {
            return 0;
        };
        let (unit, within) = self.split(file_size);
        let whole = self.whole_units(unit, slot) * self.stripe_unit_bytes.get();
        let own_tail = unit % u64::from(self.stripe_count.get()) == slot;
        whole + if own_tail { within } else { 0 }
    }

    fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64> {
        let Some(last) = object_size.checked_sub(1) else {
            return Some(0);
        };
        match self.form {
            // A sparse object may end in a hole (a truncation set it to the file's size): the
            // hole is another index's to vouch for.
            Form::Sparse => Some(self.own_end(object_size, stripe_index)),
            Form::Dense => self.file_offset(stripe_index, last)?.checked_add(1),
        }
    }

    fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)> {
        let slot = u64::from(self.slot(stripe_index)?);
        let count = u64::from(self.stripe_count.get());
        if count == 1 || self.form == Form::Dense {
            return Some((object_offset, u64::MAX));
        }
        let (unit, _) = self.split(object_offset);
        let ahead = (slot + count - unit % count) % count;
        let start = match ahead {
            0 => object_offset,
            n => unit.checked_add(n)?.checked_mul(self.stripe_unit_bytes.get())?,
        };
        Some((start, start.saturating_add(self.bytes_to_unit_end(start))))
    }
}
