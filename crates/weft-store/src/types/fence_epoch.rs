//! The epochs of a file's handles (ADR 24): a fence begins a new row of [`ROW`] epochs, and handles
//! of earlier rows do nothing any more; within a row, handles of an earlier epoch read and do not
//! write. So one number tells a data server both what it was not told and whom that ends.

/// Epochs from one fence to the next: all but the first are for handles to write that are given
/// out after all earlier ones to write were given back.
pub const ROW: u32 = 1 << 5;

/// The fence after which handles of this epoch were given out: its own first epoch.
pub fn fence_of(epoch: u32) -> u32 {
    epoch - epoch % ROW
}

/// The first epoch after the next fence; `None` if there is none left.
pub(crate) fn next_fence(epoch: u32) -> Option<u32> {
    fence_of(epoch).checked_add(ROW)
}

/// The next epoch: of the same row, so that handles to read go on, unless that is full. `None` if
/// there is none left, the last one being that of objects that are gone.
pub(crate) fn next(epoch: u32) -> Option<u32> {
    epoch.checked_add(1).filter(|next| *next < u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other_to_the_end() {
        assert_eq!([0, 1, 31, 32, 63].map(fence_of), [0, 0, 0, 32, 32]);
        assert_eq!([0, 1, 31, 32].map(next_fence), [32, 32, 32, 64].map(Some));
        assert_eq!([0, 31].map(next), [1, 32].map(Some));
        let last_row = u32::MAX - 31;
        assert_eq!([last_row - 1, last_row].map(next_fence), [Some(last_row), None]);
        assert_eq!([u32::MAX - 2, u32::MAX - 1].map(next), [Some(u32::MAX - 1), None]);
    }
}
