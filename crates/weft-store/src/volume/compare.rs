//! An object of a data server held against what the volume says of its file: pure.

use std::fmt;

use crate::types::{Inode, Placement};

/// What a data server says of an object; one that is missing is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// Local size in bytes.
    pub size: u64,
    /// The smallest epoch it accepts, if that was asked for.
    pub epoch: Option<u32>,
}

/// What is wrong with an object of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFault {
    /// Bytes are lost: it is shorter than when the file settled, or gone.
    Lost {
        /// Least length that the object had, bytes.
        expected: u64,
        /// Length of the object found, bytes.
        found: u64,
    },
    /// A copy is lost in the same way, and the file is read from another one.
    CopyLost {
        /// Least length that the object had, bytes.
        expected: u64,
        /// Length of the object found, bytes.
        found: u64,
    },
    /// It reaches beyond the file's end, where only cut bytes can be.
    TooLong {
        /// The file's size in bytes.
        size: u64,
        /// Length of the object found, bytes.
        found: u64,
    },
    /// It refuses the file's handles: its fence is of an epoch that the volume does not know.
    EpochAhead {
        /// The file's.
        epoch: u32,
        /// The object's.
        found: u32,
    },
}

impl ObjectFault {
    /// The same fault of a file that is readable without the object.
    #[must_use]
    pub fn of_readable(self) -> ObjectFault {
        match self {
            ObjectFault::Lost { expected, found } => ObjectFault::CopyLost { expected, found },
            other => other,
        }
    }
}

/// Whether a file can be read from copies alone that are whole, by stripe index. While its copies
/// may differ, only the one with the first stripe index counts.
pub fn is_readable(placement: &Placement, is_whole: impl Fn(usize) -> bool) -> bool {
    match placement.spread.copies_alike() {
        None => false,
        Some(true) => (0..usize::from(placement.stripe_count)).any(is_whole),
        Some(false) => is_whole(placement.first_stripe_index.into()),
    }
}

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectFault::Lost { expected, found } => {
                write!(f, "lost bytes: {found} of at least {expected} are there")
            }
            ObjectFault::CopyLost { expected, found } => {
                write!(
                    f,
                    "a copy is lost, another one is read: {found} of at least {expected} bytes \
                     are there"
                )
            }
            ObjectFault::TooLong { size, found } => {
                write!(f, "an object of {found} bytes is too long for a file of {size}")
            }
            ObjectFault::EpochAhead { epoch, found } => {
                write!(f, "fence epoch {found}, but the file has {epoch}")
            }
        }
    }
}

/// What is wrong with the object at a stripe index of a file with a place. A truncation that is
/// still owed explains an object that is too long.
pub fn compare(
    inode: &Inode,
    stripe_index: usize,
    found: FoundObject,
    truncation_owed: bool,
) -> Option<ObjectFault> {
    let placement = inode.placement.as_ref()?;
    let expected = inode.bounds.of(placement, stripe_index);
    if found.size < expected {
        return Some(ObjectFault::Lost { expected, found: found.size });
    }
    if let Some(epoch) = found.epoch.filter(|epoch| *epoch > inode.fence_epoch) {
        return Some(ObjectFault::EpochAhead { epoch: inode.fence_epoch, found: epoch });
    }
    let may_be_longer = inode.unsettled || inode.stuffed || truncation_owed;
    let index = u32::try_from(stripe_index).unwrap_or(u32::MAX);
    let end = placement.distribution()?.file_end_of_object(index, found.size);
    let is_too_long = !may_be_longer && end.is_none_or(|end| end > inode.size);
    is_too_long.then_some(ObjectFault::TooLong { size: inode.size, found: found.size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DeviceId, Spread};

    /// One whole copy of those that are alike is enough; of those that may differ it is the first.
    /// Striped files are readable from no part of them.
    #[test]
    fn a_whole_copy_is_enough() {
        let of = |spread, whole: &[usize]| {
            let placement = Placement {
                device: DeviceId([0; 16]),
                stripe_unit_bytes: 1 << 20,
                stripe_count: 3,
                first_stripe_index: 1,
                reach: 1,
                spread,
            };
            is_readable(&placement, |index| whole.contains(&index))
        };
        let (alike, differing) = (Spread::Copies { alike: true }, Spread::Copies { alike: false });
        assert!(of(alike, &[2]) && of(alike, &[0, 1, 2]) && !of(alike, &[]));
        assert!(of(differing, &[1]) && !of(differing, &[0, 2]));
        assert!(!of(Spread::InTurn, &[0, 1]));
    }
}
