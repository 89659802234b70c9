//! What every target asks of the bytes it is given: no panic, and whatever is understood has one
//! meaning.

use bytes::Bytes;
use weft_xdr::{Decode, Encode, from_bytes, to_bytes};

/// Bytes that can be read as a `T` are written in a form that is read and written the same again.
pub fn stable<T: Decode + Encode>(data: &[u8]) {
    let Ok(value) = from_bytes::<T>(Bytes::copy_from_slice(data)) else { return };
    let written = to_bytes(&value);
    let again: T = from_bytes(written.clone()).expect("what we write can be read");
    assert_eq!(to_bytes(&again), written);
}
