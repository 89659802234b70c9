//! What files keep to that take another's place, at the server and on this machine.

use crate::error::ClientError;

/// Hexadecimal digits that a temporary name ends with, which say who writes it.
pub(super) const DIGITS: usize = 16;
/// Longest name of a file, here and there.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Bits of a mode without which nobody may write.
const WRITABLE: u32 = 0o222;

/// What of a name is in its temporary name, between a point and this mark: of a long one the end is
/// left out.
pub(super) fn kept<'a>(name: &'a [u8], mark: &str) -> &'a [u8] {
    let room = NAME_BYTES_MAX - 1 - mark.len() - DIGITS;
    name.get(..room).unwrap_or(name)
}

/// The end of a temporary name.
pub(super) fn digits(number: u64) -> String {
    format!("{number:0DIGITS$x}")
}

/// Whether this may be the end of a temporary name.
pub(super) fn are_digits(end: &[u8]) -> bool {
    end.len() == DIGITS && end.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A file that nobody may write to is not replaced.
///
/// # Errors
/// [`ClientError::Invalid`].
pub(super) fn require_writable(mode: u32) -> Result<(), ClientError> {
    match mode & WRITABLE {
        0 => Err(ClientError::Invalid("is read-only (its mode lets nobody write)")),
        _ => Ok(()),
    }
}
