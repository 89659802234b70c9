//! Encoding into a plan of segments: small items are gathered, payloads are referenced.

use std::{fs::File, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};

use crate::reader::pad;

/// A range of an open file that is part of a message. Plain data: this room never reads it.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// File that the bytes are sent from.
    pub file: Arc<File>,
    /// Where the range begins: an offset in the file, in bytes.
    pub offset: u64,
    /// Number of bytes; the range must lie inside the file when the message is sent.
    pub len: usize,
}

/// One part of an encoded message.
#[derive(Debug, Clone)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes that are still in a file.
    File(FileRange),
}

impl Segment {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Segment::Bytes(b) => b.len(),
            Segment::File(f) => f.len,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Opaque data of a READ reply or WRITE call: in memory, or still in a file.
#[derive(Debug, Clone)]
pub enum Payload {
    /// Bytes that are in memory.
    Bytes(Bytes),
    /// In a file.
    File(FileRange),
}

impl Payload {
    /// Length in bytes, without XDR padding.
    pub fn len(&self) -> usize {
        match self {
            Payload::Bytes(b) => b.len(),
            Payload::File(f) => f.len,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Payload {
    fn from(b: Bytes) -> Self {
        Payload::Bytes(b)
    }
}

/// A type that can be written as XDR. Encoding cannot fail: limits are kept by constructors.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, w: &mut Writer);
}

/// Payloads shorter than this are copied into the gathered bytes: one segment less costs less
/// than the copy.
const GATHER_BYTES_MAX: usize = 4096;

/// An append-only encoder.
#[derive(Debug, Default)]
pub struct Writer {
    done: Vec<Segment>,
    done_bytes: usize,
    open: BytesMut,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.done_bytes + self.open.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An unsigned 32-bit integer.
    pub fn u32(&mut self, v: u32) {
        self.open.put_u32(v);
    }

    /// A signed 32-bit integer.
    pub fn i32(&mut self, v: i32) {
        self.open.put_i32(v);
    }

    /// An unsigned 64-bit integer.
    pub fn u64(&mut self, v: u64) {
        self.open.put_u64(v);
    }

    /// A signed 64-bit integer.
    pub fn i64(&mut self, v: i64) {
        self.open.put_i64(v);
    }

    /// Writes a boolean: 4 bytes.
    pub fn bool(&mut self, v: bool) {
        self.open.put_u32(v.into());
    }

    /// Fixed-length opaque data with its padding.
    pub fn fixed(&mut self, v: &[u8]) {
        self.open.put_slice(v);
        self.open.put_bytes(0, pad(v.len()));
    }

    /// Variable-length opaque data: length, bytes, padding.
    pub fn opaque(&mut self, v: &[u8]) {
        self.count(v.len());
        self.fixed(v);
    }

    /// A count or length. Ours are bounded far below 2^32.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("an XDR count of ours fits 32 bits"));
    }

    /// A counted array.
    pub fn array<T: Encode>(&mut self, items: &[T]) {
        self.count(items.len());
        for item in items {
            item.encode(self);
        }
    }

    /// An optional value.
    pub fn option<T: Encode>(&mut self, v: Option<&T>) {
        self.bool(v.is_some());
        if let Some(v) = v {
            v.encode(self);
        }
    }

    /// Variable-length opaque data by reference: large payloads are not copied.
    pub fn payload(&mut self, p: &Payload) {
        let len = p.len();
        self.count(len);
        match p {
            Payload::Bytes(b) if len <= GATHER_BYTES_MAX => self.open.put_slice(b),
            Payload::Bytes(b) => self.reference(Segment::Bytes(b.clone())),
            Payload::File(f) if len == 0 => drop(f.file.clone()),
            Payload::File(f) => self.reference(Segment::File(f.clone())),
        }
        self.open.put_bytes(0, pad(len));
    }

    /// Appends already encoded bytes.
    pub fn raw(&mut self, b: &[u8]) {
        self.open.put_slice(b);
    }

    /// Appends another message's segments.
    pub fn append(&mut self, segments: impl IntoIterator<Item = Segment>) {
        for s in segments {
            match s {
                Segment::Bytes(b) if b.len() <= GATHER_BYTES_MAX => self.open.put_slice(&b),
                s => self.reference(s),
            }
        }
    }

    /// Overwrites the four bytes at `at`, which must not have been followed by a referenced
    /// payload (counts are patched right after their small list was written).
    pub fn patch_u32(&mut self, at: usize, v: u32) {
        let at = at.checked_sub(self.done_bytes).expect("patched place is in the open segment");
        self.open[at..at + 4].copy_from_slice(&v.to_be_bytes());
    }

    /// Cuts the message back to `len` bytes, where `len` lies in the open segment.
    pub fn truncate(&mut self, len: usize) {
        let len = len.checked_sub(self.done_bytes).expect("cut lies in the open segment");
        self.open.truncate(len);
    }

    /// The finished plan.
    pub fn into_segments(mut self) -> Vec<Segment> {
        self.close();
        self.done
    }

    /// The finished message as contiguous bytes.
    ///
    /// # Panics
    /// If the message refers to a file: only messages of memory parts are asked for this way.
    pub fn into_bytes(mut self) -> Bytes {
        if self.done.is_empty() {
            return self.open.freeze();
        }
        self.close();
        let mut out = BytesMut::with_capacity(self.done_bytes);
        for s in self.done {
            match s {
                Segment::Bytes(b) => out.put_slice(&b),
                Segment::File(_) => panic!("a message with file ranges has no contiguous form"),
            }
        }
        out.freeze()
    }

    fn reference(&mut self, s: Segment) {
        self.close();
        self.done_bytes += s.len();
        self.done.push(s);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done_bytes += self.open.len();
            self.done.push(Segment::Bytes(self.open.split().freeze()));
        }
    }
}

impl Encode for u32 {
    fn encode(&self, w: &mut Writer) {
        w.u32(*self);
    }
}
impl Encode for u64 {
    fn encode(&self, w: &mut Writer) {
        w.u64(*self);
    }
}
impl Encode for i32 {
    fn encode(&self, w: &mut Writer) {
        w.i32(*self);
    }
}
impl Encode for i64 {
    fn encode(&self, w: &mut Writer) {
        w.i64(*self);
    }
}
impl Encode for bool {
    fn encode(&self, w: &mut Writer) {
        w.bool(*self);
    }
}
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.option(self.as_ref());
    }
}
impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, w: &mut Writer) {
        w.fixed(self);
    }
}
impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}
