//! A cyclic list of objects: unit after unit to the next entry of the list, in which an object may
//! come more than once (P1.3; RFC 8881 §13.3 and §13.4.4, `nflda_stripe_indices` with sparse
//! objects).

use std::num::NonZeroU64;

use crate::{
    round_robin::DistributionError,
    scheme::{Location, Scheme},
};

/// The objects of a file in the order in which they get units, over and over. At most
/// [`CyclicList::LEN_MAX`] entries; no object below the highest is missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CyclicList {
    /// At least 1.
    len: u8,
    /// What is behind `len` is 0.
    entries: [u8; CyclicList::LEN_MAX],
}

impl CyclicList {
    /// Most entries of a list.
    pub const LEN_MAX: usize = 16;

    /// A list of objects, by index.
    ///
    /// # Errors
    /// [`DistributionError`] for an empty or too long list, or one in which an object is missing.
    pub fn new(objects: &[u8]) -> Result<Self, DistributionError> {
        if objects.is_empty() || objects.len() > Self::LEN_MAX {
            return Err(DistributionError::ListLength);
        }
        let highest = objects.iter().copied().max().unwrap_or(0);
        if !(0..highest).all(|object| objects.contains(&object)) {
            return Err(DistributionError::MissingObject);
        }
        let mut entries = [0; Self::LEN_MAX];
        entries[..objects.len()].copy_from_slice(objects);
        let len = u8::try_from(objects.len()).map_err(|_| DistributionError::ListLength)?;
        Ok(CyclicList { len, entries })
    }

    /// A list of two objects: the first has these turns of so many, a bit for each, and the second
    /// the others.
    pub(crate) fn of_turns(count: u16, turns: u16) -> Result<Self, DistributionError> {
        let count = usize::from(count);
        if count == 0 || count > Self::LEN_MAX {
            return Err(DistributionError::ListLength);
        }
        if turns == 0 || u32::from(turns) >> count != 0 {
            return Err(DistributionError::MissingObject);
        }
        let mut entries = [0; Self::LEN_MAX];
        for (turn, entry) in entries[..count].iter_mut().enumerate() {
            *entry = u8::from(turns >> turn & 1 == 0);
        }
        Self::new(&entries[..count])
    }

    /// The entries.
    pub fn entries(&self) -> &[u8] {
        &self.entries[..usize::from(self.len)]
    }

    /// Number of entries.
    pub fn turns(&self) -> u16 {
        self.len.into()
    }

    /// Number of objects.
    pub fn objects(&self) -> u16 {
        u16::from(self.entries().iter().copied().max().unwrap_or(0)) + 1
    }
}

impl std::fmt::Debug for CyclicList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

/// Units of equal size dealt out by a list, beginning with one of its entries. Objects are sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cyclic {
    stripe_unit_bytes: NonZeroU64,
    list: CyclicList,
    /// Below the list's length.
    first: u16,
}

impl Cyclic {
    /// Checked construction; `first` is the entry for the file's first unit.
    ///
    /// # Errors
    /// [`DistributionError`] for a zero unit, or a first entry behind the list.
    pub fn new(
        stripe_unit_bytes: u64,
        list: CyclicList,
        first: u16,
    ) -> Result<Self, DistributionError> {
        let unit = NonZeroU64::new(stripe_unit_bytes).ok_or(DistributionError::ZeroUnit)?;
        if first >= list.turns() {
            return Err(DistributionError::FirstBeyondCount);
        }
        Ok(Cyclic { stripe_unit_bytes: unit, list, first })
    }

    /// The turns of an object, counted from the file's first unit: bit n says that it holds the
    /// units whose number modulo the list's length is n. 0 for an unknown object.
    pub fn turns_of(&self, stripe_index: u32) -> u16 {
        (0..self.list.turns())
            .filter(|turn| self.owner(u64::from(*turn)) == stripe_index)
            .fold(0, |turns, turn| turns | 1 << turn)
    }

    fn unit_bytes(&self) -> u64 {
        self.stripe_unit_bytes.get()
    }

    /// The object of a unit.
    fn owner(&self, unit: u64) -> u32 {
        let entries = self.list.entries();
        let len = entries.len() as u64;
        let turn = (unit % len + u64::from(self.first)) % len;
        entries[turn as usize].into()
    }

    /// How far ahead of a unit, or at it, the next one of an object is. `None` for an unknown one.
    fn ahead(&self, unit: u64, stripe_index: u32) -> Option<u64> {
        (0..u64::from(self.list.turns()))
            .find(|n| self.owner(unit.wrapping_add(*n)) == stripe_index)
    }

    /// One past the last byte below `file_size` that belongs to an object; 0 if none does.
    fn own_end(&self, file_size: u64, stripe_index: u32) -> u64 {
        let (unit, within) = (file_size / self.unit_bytes(), file_size % self.unit_bytes());
        if within > 0 && self.owner(unit) == stripe_index {
            return file_size;
        }
        let mut before = (1..=unit.min(self.list.turns().into())).map(|n| unit - n);
        let last = before.find(|unit| self.owner(*unit) == stripe_index);
        // It ends before `unit` does, so that its end is at most `file_size`.
        last.map_or(0, |last| (last + 1) * self.unit_bytes())
    }
}

impl Scheme for Cyclic {
    fn stripe_count(&self) -> u32 {
        self.list.objects().into()
    }

    fn locate(&self, offset: u64) -> Location {
        Location { stripe_index: self.owner(offset / self.unit_bytes()), object_offset: offset }
    }

    fn bytes_to_unit_end(&self, offset: u64) -> u64 {
        self.unit_bytes() - offset % self.unit_bytes()
    }

    fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64> {
        (self.locate(object_offset).stripe_index == stripe_index).then_some(object_offset)
    }

    fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64 {
        self.own_end(file_size, stripe_index)
    }

    fn own_bytes(&self, file_size: u64, stripe_index: u32) -> u64 {
        let (unit, within) = (file_size / self.unit_bytes(), file_size % self.unit_bytes());
        let len = u64::from(self.list.turns());
        let own = |turns: u64| (0..turns).filter(|n| self.owner(*n) == stripe_index).count() as u64;
        let whole = unit / len * own(len) + own(unit % len);
        let tail = if self.owner(unit) == stripe_index { within } else { 0 };
        whole * self.unit_bytes() + tail
    }

    fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64> {
        // It may end in a hole, which is another object's to vouch for.
        Some(self.own_end(object_size, stripe_index))
    }

    fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)> {
        let unit = object_offset / self.unit_bytes();
        let ahead = self.ahead(unit, stripe_index)?;
        if self.stripe_count() == 1 {
            return Some((object_offset, u64::MAX));
        }
        let start = match ahead {
            0 => object_offset,
            n => unit.checked_add(n)?.checked_mul(self.unit_bytes())?,
        };
        Some((start, start.saturating_add(self.bytes_to_unit_end(start))))
    }
}
