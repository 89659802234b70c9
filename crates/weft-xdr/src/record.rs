//! Record marking on TCP: RFC 5531 §11. A message is one or more fragments, each behind a
//! four-byte header whose top bit marks the last one.

use bytes::{Bytes, BytesMut};

/// Set in the header of a message's last fragment.
pub const LAST_FRAGMENT: u32 = 0x8000_0000;

/// A message longer than the receiver allows, or made of too many fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The fragments add up to more than the limit.
    #[error("record of more than {limit} bytes")]
    TooLong {
        /// Most bytes that are allowed.
        limit: usize,
    },
    /// A fragment without data that is not the last: it only keeps us busy.
    #[error("empty fragment")]
    EmptyFragment,
}

/// What [`Assembler::next`] found.
#[derive(Debug)]
pub enum Next {
    /// A whole message.
    Record(Bytes),
    /// At least this many more bytes are needed to make progress.
    Need(usize),
}

/// Assembles messages out of received bytes. The common case, one fragment, copies nothing.
#[derive(Debug)]
pub struct Assembler {
    limit: usize,
    partial: BytesMut,
}

impl Assembler {
    /// An assembler that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Assembler { limit, partial: BytesMut::new() }
    }

    /// Takes the next message out of `buf`, the bytes received and not yet consumed.
    ///
    /// # Errors
    /// [`RecordError`]; the stream is then out of step and must be closed.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Next, RecordError> {
        loop {
            let Some(header) = buf.first_chunk::<4>() else {
                return Ok(Next::Need(4 - buf.len()));
            };
            let header = u32::from_be_bytes(*header);
            let last = header & LAST_FRAGMENT != 0;
            let len = (header & !LAST_FRAGMENT) as usize;
            if self.partial.len().saturating_add(len) > self.limit {
                return Err(RecordError::TooLong { limit: self.limit });
            }
            if len == 0 && !last {
                return Err(RecordError::EmptyFragment);
            }
            if buf.len() < 4 + len {
                return Ok(Next::Need(4 + len - buf.len()));
            }
            let _ = buf.split_to(4);
            let fragment = buf.split_to(len);
            if last && self.partial.is_empty() {
                return Ok(Next::Record(fragment.freeze()));
            }
            self.partial.extend_from_slice(&fragment);
            if last {
                return Ok(Next::Record(self.partial.split().freeze()));
            }
        }
    }

    /// The most bytes that the message at the front of `buf` may come to, headers included: what
    /// its header says if it is one fragment, else the limit.
    pub fn expects(&self, buf: &BytesMut) -> usize {
        match buf.first_chunk::<4>().map(|h| u32::from_be_bytes(*h)) {
            None if self.partial.is_empty() => 4,
            Some(header) if self.partial.is_empty() && header & LAST_FRAGMENT != 0 => {
                4 + (header & !LAST_FRAGMENT) as usize
            }
            None | Some(_) => self.limit,
        }
    }
}

/// The header of a message sent as one fragment.
pub fn header(len: usize) -> [u8; 4] {
    let len = u32::try_from(len).ok().filter(|l| l & LAST_FRAGMENT == 0);
    (len.expect("our messages are below 2 GiB") | LAST_FRAGMENT).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(parts: &[&[u8]]) -> BytesMut {
        let mut out = BytesMut::new();
        for (i, p) in parts.iter().enumerate() {
            let last = if i + 1 == parts.len() { LAST_FRAGMENT } else { 0 };
            out.extend_from_slice(&(p.len() as u32 | last).to_be_bytes());
            out.extend_from_slice(p);
        }
        out
    }

    /// Fed byte by byte, a fragmented message comes out whole, and `Need` never lies.
    #[test]
    fn fragments_join_at_every_split() {
        let wire = frame(&[b"abcd", b"ef", b"ghij"]);
        let mut asm = Assembler::new(10);
        let mut buf = BytesMut::new();
        for (i, b) in wire.iter().enumerate() {
            buf.extend_from_slice(&[*b]);
            match asm.next(&mut buf).unwrap() {
                Next::Need(n) => assert!(n > 0 && i + 1 < wire.len()),
                Next::Record(r) => {
                    assert_eq!(&r[..], b"abcdefghij");
                    assert_eq!(i + 1, wire.len());
                    return;
                }
            }
        }
        panic!("no record");
    }

    /// What is expected is never less than what comes.
    #[test]
    fn expectations() {
        let mut asm = Assembler::new(100);
        let mut buf = BytesMut::new();
        assert_eq!(asm.expects(&buf), 4);
        buf.extend_from_slice(&header(30));
        assert_eq!(asm.expects(&buf), 34);
        let mut parts = frame(&[b"abc", b"def"]);
        let _ = parts.split_off(7);
        assert_eq!(asm.expects(&parts), 100, "more fragments follow");
        assert!(matches!(asm.next(&mut parts), Ok(Next::Need(_))));
        assert_eq!(asm.expects(&parts), 100, "and so now");
    }

    /// Limit and limit + 1, in one fragment and in many.
    #[test]
    fn limit_holds_across_fragments() {
        let ok = Assembler::new(6).next(&mut frame(&[b"abc", b"def"]));
        assert!(matches!(ok, Ok(Next::Record(_))));
        let long = Assembler::new(5).next(&mut frame(&[b"abc", b"def"]));
        assert_eq!(long.unwrap_err(), RecordError::TooLong { limit: 5 });
        let empty = Assembler::new(5).next(&mut frame(&[b"", b"def"]));
        assert_eq!(empty.unwrap_err(), RecordError::EmptyFragment);
    }

    /// A header alone announcing too much is refused before its data arrives.
    #[test]
    fn oversized_header_is_refused_at_once() {
        let mut buf = BytesMut::from(&header(1 << 30)[..]);
        assert!(Assembler::new(1 << 20).next(&mut buf).is_err());
    }
}
