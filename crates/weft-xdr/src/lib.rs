//! XDR (RFC 4506), ONC RPC messages (RFC 5531) and record marking, free of I/O.
//!
//! The rest of Weft decodes peers' bytes only through [`Reader`], which cannot over-read, and
//! encodes only through [`Writer`], which never copies a payload: a reply is a list of
//! [`Segment`]s that the I/O room executes (bytes to send, ranges of files to send).
//!
//! **Invariants of absence.** Nothing here reads a socket, a file or a clock; nothing here knows
//! NFS. No allocation is sized by a peer's count before that many bytes have been seen.

mod macros;
mod reader;
pub mod record;
pub mod rpc;
mod writer;

pub use reader::{Decode, DecodeError, DecodeErrorKind, Reader};
pub use writer::{Encode, FileRange, Payload, Segment, Writer};

/// Decodes one whole value: leftover bytes are an error.
///
/// # Errors
/// Whatever the value's decoder refuses, or [`DecodeErrorKind::Trailing`].
pub fn from_bytes<T: Decode>(bytes: bytes::Bytes) -> Result<T, DecodeError> {
    let mut r = Reader::new(bytes);
    let value = T::decode(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// Encodes one value into contiguous bytes (small values only: file ranges are refused by panic).
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> bytes::Bytes {
    let mut w = Writer::new();
    value.encode(&mut w);
    w.into_bytes()
}
