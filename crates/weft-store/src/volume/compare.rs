//! An object of a data server held against what the volume says of its file: pure.

use std::fmt;

use crate::types::Inode;

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
        /// How long it was at least, bytes.
        expected: u64,
        /// How long it is.
        found: u64,
    },
    /// It reaches beyond the file's end, where only cut bytes can be.
    TooLong {
        /// The file's size in bytes.
        size: u64,
        /// How long it is.
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

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectFault::Lost { expected, found } => {
                write!(f, "lost bytes: {found} of at least {expected} are there")
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
