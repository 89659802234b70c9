//! Counted lists and opaque data with bounds at both ends.

use bytes::Bytes;
use weft_xdr::{DecodeError, DecodeErrorKind, Reader};

/// What decoding an item gives.
pub(crate) type Item<T> = Result<T, DecodeError>;

/// A counted list of at most `max` items.
pub(crate) fn list<T>(
    r: &mut Reader,
    max: usize,
    item: impl Fn(&mut Reader) -> Item<T>,
) -> Item<Vec<T>> {
    let len = r.length(max)?;
    // As in the reader's own arrays: no count makes us allocate more than the message weighs.
    let mut out = Vec::with_capacity(len.min(r.remaining() / 4));
    for _ in 0..len {
        out.push(item(r)?);
    }
    Ok(out)
}

/// A counted list of 1 to `max` items.
pub(crate) fn non_empty_list<T>(
    r: &mut Reader,
    max: usize,
    item: impl Fn(&mut Reader) -> Item<T>,
) -> Item<Vec<T>> {
    let out = list(r, max, item)?;
    if out.is_empty() { Err(r.error(DecodeErrorKind::Value)) } else { Ok(out) }
}

/// Opaque data of at least one byte.
pub(crate) fn non_empty(
    r: &mut Reader,
    opaque: impl FnOnce(&mut Reader) -> Item<Bytes>,
) -> Item<Bytes> {
    let out = opaque(r)?;
    if out.is_empty() { Err(r.error(DecodeErrorKind::Value)) } else { Ok(out) }
}
