//! The only way a peer's bytes become values: a cursor that cannot over-read.

use bytes::{Buf, Bytes};

/// Why a peer's bytes could not be decoded, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} while decoding {what} at byte {at}")]
pub struct DecodeError {
    /// What was wrong.
    pub kind: DecodeErrorKind,
    /// The item being decoded.
    pub what: &'static str,
    /// Offset from the start of the message.
    pub at: usize,
}

/// The kinds of malformed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The message ended inside an item.
    #[error("unexpected end")]
    End,
    /// Bytes were left over after the last item.
    #[error("trailing bytes")]
    Trailing,
    /// A count or length above its limit.
    #[error("over limit")]
    Limit,
    /// A value outside its type (bad union arm, boolean 2, non-zero padding, bad UTF-8).
    #[error("bad value")]
    Value,
}

/// A type that can be read from XDR.
pub trait Decode: Sized {
    /// Reads one value.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a value of this type.
    fn decode(r: &mut Reader) -> Result<Self, DecodeError>;
}

/// A cursor over a received message. Opaque data comes out as slices of the receive buffer.
#[derive(Debug, Clone)]
pub struct Reader {
    bytes: Bytes,
    total: usize,
    what: &'static str,
}

impl Reader {
    /// A reader over a whole message.
    pub fn new(bytes: Bytes) -> Self {
        Reader { total: bytes.len(), bytes, what: "message" }
    }

    /// Names the item being decoded, for error messages.
    pub fn label(&mut self, what: &'static str) {
        self.what = what;
    }

    /// Bytes not yet consumed.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Offset of the next byte from the start of the message.
    pub fn position(&self) -> usize {
        self.total - self.bytes.len()
    }

    /// An error of this kind at the current place.
    pub fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, what: self.what, at: self.position() }
    }

    fn need(&self, n: usize) -> Result<(), DecodeError> {
        if self.bytes.len() < n { Err(self.error(DecodeErrorKind::End)) } else { Ok(()) }
    }

    /// An unsigned 32-bit integer.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.need(4)?;
        Ok(self.bytes.get_u32())
    }

    /// A signed 32-bit integer.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.need(4)?;
        Ok(self.bytes.get_i32())
    }

    /// An unsigned 64-bit integer.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.need(8)?;
        Ok(self.bytes.get_u64())
    }

    /// A signed 64-bit integer.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.need(8)?;
        Ok(self.bytes.get_i64())
    }

    /// A boolean: 0 or 1, nothing else (RFC 4506 §4.4).
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error(DecodeErrorKind::Value)),
        }
    }

    /// Fixed-length opaque data into an array (with its padding).
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.need(N + pad(N))?;
        let mut out = [0; N];
        self.bytes.copy_to_slice(&mut out);
        self.skip_padding(N)?;
        Ok(out)
    }

    /// Variable-length opaque data of at most `max` bytes, as a slice of the receive buffer.
    pub fn opaque(&mut self, max: usize) -> Result<Bytes, DecodeError> {
        let len = self.length(max)?;
        self.need(len + pad(len))?;
        let out = self.bytes.split_to(len);
        self.skip_padding(len)?;
        Ok(out)
    }

    /// A string of at most `max` bytes, which must be UTF-8.
    pub fn string(&mut self, max: usize) -> Result<String, DecodeError> {
        let raw = self.opaque(max)?;
        String::from_utf8(raw.to_vec()).map_err(|_| self.error(DecodeErrorKind::Value))
    }

    /// A count of at most `max`.
    pub fn length(&mut self, max: usize) -> Result<usize, DecodeError> {
        let len = self.u32()? as usize;
        if len > max { Err(self.error(DecodeErrorKind::Limit)) } else { Ok(len) }
    }

    /// A counted array of at most `max` items.
    pub fn array<T: Decode>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        let len = self.length(max)?;
        // Every XDR item takes at least four bytes, so the count cannot make us allocate more
        // than the message itself weighs.
        let mut out = Vec::with_capacity(len.min(self.remaining() / 4));
        for _ in 0..len {
            out.push(T::decode(self)?);
        }
        Ok(out)
    }

    /// An optional value (RFC 4506 §4.19).
    pub fn option<T: Decode>(&mut self) -> Result<Option<T>, DecodeError> {
        if self.bool()? { Ok(Some(T::decode(self)?)) } else { Ok(None) }
    }

    /// Everything left, unpadded.
    pub fn rest(&mut self) -> Bytes {
        self.bytes.split_to(self.bytes.len())
    }

    /// Ends decoding; leftover bytes are an error.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.error(DecodeErrorKind::Trailing)) }
    }

    fn skip_padding(&mut self, len: usize) -> Result<(), DecodeError> {
        // RFC 4506 §4.9 asks for zero padding; some senders leave garbage, which harms nobody.
        let n = pad(len);
        self.need(n)?;
        self.bytes.advance(n);
        Ok(())
    }
}

/// Padding bytes after `len` bytes of opaque data.
pub(crate) fn pad(len: usize) -> usize {
    len.wrapping_neg() & 3
}

impl Decode for u32 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u32()
    }
}
impl Decode for u64 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u64()
    }
}
impl Decode for i32 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.i32()
    }
}
impl Decode for i64 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.i64()
    }
}
impl Decode for bool {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.bool()
    }
}
impl<T: Decode> Decode for Box<T> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        T::decode(r).map(Box::new)
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.option()
    }
}
impl<const N: usize> Decode for [u8; N] {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.fixed()
    }
}
