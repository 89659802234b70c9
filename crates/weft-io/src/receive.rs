//! Receiving records: RFC 5531 §11.

use std::{io, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use weft_xdr::record::{Assembler, LAST_FRAGMENT, Next, RecordError};

use crate::{
    pipe::Pipe,
    spare::{self, AHEAD_BYTES},
};

/// Bytes of a large record's head that are waited for before it is looked at: more than a WRITE
/// has before its data, or a reply with one payload.
pub(crate) const HEAD_BYTES: usize = 1 << 10;

/// Records of so many bytes have memory of their own: who keeps a part of one (a filehandle, 4 KiB
/// of a file) does not keep all that was received with it.
const COPIED_BYTES: usize = AHEAD_BYTES / 2;

/// Why no further record can be read; the connection must be closed.
#[derive(Debug)]
pub enum RecordIoError {
    /// The socket failed.
    Io(io::Error),
    /// The peer broke the rules of record marking, or a limit.
    Record(RecordError),
    /// The peer closed the connection inside a record.
    Truncated,
}

impl std::fmt::Display for RecordIoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordIoError::Io(e) => write!(f, "connection failed: {e}"),
            RecordIoError::Record(e) => write!(f, "bad record: {e}"),
            RecordIoError::Truncated => f.write_str("connection closed inside a record"),
        }
    }
}

impl std::error::Error for RecordIoError {}

impl From<io::Error> for RecordIoError {
    fn from(e: io::Error) -> Self {
        RecordIoError::Io(e)
    }
}

impl From<RecordError> for RecordIoError {
    fn from(e: RecordError) -> Self {
        RecordIoError::Record(e)
    }
}

/// What [`RecordReader::begin`] found.
#[derive(Debug)]
pub enum Begun {
    /// A whole record, a small one.
    Record(Bytes),
    /// A record that may take this many bytes: [`RecordReader::next`] receives it.
    Large(usize),
    /// The peer closed the connection between records.
    Ended,
}

/// Reads records off a stream: half of a TCP connection, or anything that reads like one.
///
/// **Cost.** Small records that arrive together take one read. Of a large one at most 16 KiB are
/// copied, the rest is read to its place; memory is reserved for a record only when its header
/// has been accepted under the limit. Records of up to 8 KiB are copied out of memory that takes
/// the next ones, too; of larger ones, whoever keeps a part keeps it all. Memory of large records
/// is used again by the same thread once nobody holds them any more.
#[derive(Debug)]
pub struct RecordReader<R> {
    pub(crate) stream: R,
    assembler: Assembler,
    pub(crate) received: BytesMut,
    /// Fragments of an unfinished record have left `received`.
    pub(crate) inside: bool,
    /// The last read got all that it asked for.
    filled: bool,
    /// `received` may have memory for a large record.
    is_large: bool,
    /// Made when the first payload is placed.
    pub(crate) pipe: Option<Arc<Pipe>>,
}

impl<R: AsyncRead + Unpin> RecordReader<R> {
    /// A reader that refuses records of more than `record_bytes_max` bytes.
    pub fn new(stream: R, record_bytes_max: usize) -> Self {
        RecordReader {
            stream,
            assembler: Assembler::new(record_bytes_max),
            received: BytesMut::new(),
            inside: false,
            filled: false,
            is_large: false,
            pipe: None,
        }
    }

    /// Whether more may be here already. If not, [`Self::next`] waits, unless it finds the end: of
    /// a socket that gave less than it was asked for, Tokio waits until it is told that there is
    /// more. Not for who places payloads.
    pub fn may_have_more(&self) -> bool {
        self.filled || !self.received.is_empty()
    }

    /// The next record; `None` if the peer closed the connection between records.
    ///
    /// Cancel safe: what was received stays.
    ///
    /// # Errors
    /// [`RecordIoError`]; the stream is then out of step.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RecordIoError> {
        loop {
            match self.take()? {
                Next::Record(record) => return Ok(Some(record)),
                Next::Need(need) => {
                    if self.receive(need.max(AHEAD_BYTES)).await? == 0 {
                        return self.ended();
                    }
                }
            }
        }
    }

    /// The next record if it is small; else no more than 16 KiB of it are received, its head among
    /// them, and its reader can see to the memory for the rest first.
    ///
    /// Cancel safe: what was received stays.
    ///
    /// # Errors
    /// [`RecordIoError`]; the stream is then out of step.
    pub async fn begin(&mut self) -> Result<Begun, RecordIoError> {
        loop {
            if let Next::Record(record) = self.take()? {
                return Ok(Begun::Record(record));
            }
            let expected = self.assembler.expects(&self.received);
            if expected > AHEAD_BYTES && self.has_head() {
                return Ok(Begun::Large(expected));
            }
            if self.receive(AHEAD_BYTES).await? == 0 {
                return self.ended::<Bytes>().map(|_| Begun::Ended);
            }
        }
    }

    /// Whether so much of the record has come that its head can be looked at. Of one in several
    /// fragments no head is waited for: they leave `received` one by one.
    fn has_head(&self) -> bool {
        self.received.len() >= 4 + HEAD_BYTES || self.large_record_ahead().is_none()
    }

    /// Has the payload of the large record that [`Self::begin`] found lie at the start of a page of
    /// memory. `payload_at` is shown the head of the record and says where in the record its
    /// payload begins; a record that has none, is in several fragments, or has less than 256 KiB
    /// stays as it is.
    pub fn align(&mut self, payload_at: impl FnOnce(&[u8]) -> Option<usize>) {
        let large = self.large_record_ahead().filter(|bytes| *bytes >= spare::LARGE_BYTES);
        let Some(bytes) = large else { return };
        let at = self.received.get(4..4 + HEAD_BYTES).and_then(payload_at);
        if let Some(at) = at.filter(|at| *at <= HEAD_BYTES) {
            spare::align(&mut self.received, 4 + bytes, 4 + at);
            self.is_large = true;
        }
    }

    /// Length of the record that stands first in `received`, if it is of one fragment and longer
    /// than a head.
    pub(crate) fn large_record_ahead(&self) -> Option<usize> {
        let header = self.received.first_chunk::<4>().filter(|_| !self.inside)?;
        let header = u32::from_be_bytes(*header);
        let len = (header & !LAST_FRAGMENT) as usize;
        (header & LAST_FRAGMENT != 0 && len > AHEAD_BYTES).then_some(len)
    }

    /// The next record if it is here.
    pub(crate) fn take(&mut self) -> Result<Next, RecordError> {
        let held = self.received.len();
        Ok(match self.assembler.next(&mut self.received)? {
            Next::Record(record) => {
                let record = with_own_memory(record);
                self.record_left();
                spare::lend(&record);
                Next::Record(record)
            }
            need @ Next::Need(_) => {
                self.inside |= self.received.len() < held;
                need
            }
        })
    }

    /// The record begun is done with.
    pub(crate) fn record_left(&mut self) {
        self.inside = false;
        if self.received.is_empty() {
            // An idle connection does not keep its largest record's memory, nor what others hold.
            let is_ours = self.received.try_reclaim(AHEAD_BYTES);
            if self.is_large || !is_ours || self.received.capacity() > 2 * AHEAD_BYTES {
                self.received = BytesMut::new();
                self.is_large = false;
            }
        }
    }

    /// The peer has closed the connection: between records, or inside one.
    pub(crate) fn ended<T>(&self) -> Result<Option<T>, RecordIoError> {
        let between = self.received.is_empty() && !self.inside;
        if between { Ok(None) } else { Err(RecordIoError::Truncated) }
    }

    /// One read of at most `most` bytes.
    pub(crate) async fn receive(&mut self, most: usize) -> io::Result<usize> {
        spare::reserve(&mut self.received, most);
        self.is_large |= most > AHEAD_BYTES;
        let got = self.stream.read_buf(&mut (&mut self.received).limit(most)).await?;
        self.filled = got == most;
        Ok(got)
    }
}

/// A small record in memory of its own.
fn with_own_memory(record: Bytes) -> Bytes {
    if record.len() <= COPIED_BYTES { Bytes::copy_from_slice(&record) } else { record }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use weft_xdr::record::header;

    use super::*;

    fn record(body: &[u8]) -> Vec<u8> {
        [&header(body.len()), body].concat()
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    /// Records of every size arrive whole and in order through a pipe of awkward size.
    #[tokio::test]
    async fn records_arrive_whole() {
        let sizes = [0, 1, 4, 100, AHEAD_BYTES - 4, AHEAD_BYTES, AHEAD_BYTES + 1, 1 << 20, 3];
        for pipe_bytes in [1 << 21, 4097, 7] {
            let (mut far, near) = tokio::io::duplex(pipe_bytes);
            let sender = tokio::spawn(async move {
                for size in sizes {
                    far.write_all(&record(&pattern(size))).await.unwrap();
                }
            });
            let mut reader = RecordReader::new(near, 1 << 20);
            for size in sizes {
                assert_eq!(reader.next().await.unwrap().unwrap(), pattern(size));
            }
            assert!(reader.next().await.unwrap().is_none());
            sender.await.unwrap();
        }
    }

    /// A connection that ends anywhere inside a record, even between fragments, is truncated.
    #[tokio::test]
    async fn an_end_inside_a_record_is_an_error() {
        let mut wire = (3u32).to_be_bytes().to_vec();
        wire.extend(b"abc");
        wire.extend((2 | LAST_FRAGMENT).to_be_bytes());
        wire.extend(b"de");
        for len in 0..=wire.len() {
            let mut reader = RecordReader::new(&wire[..len], 5);
            match reader.next().await {
                Ok(None) => assert_eq!(len, 0),
                Ok(Some(r)) => assert_eq!((len, &r[..]), (wire.len(), &b"abcde"[..])),
                Err(e) => assert!(matches!(e, RecordIoError::Truncated), "{len}: {e}"),
            }
        }
    }

    /// A header beyond the limit is refused before any memory is reserved for it.
    #[tokio::test]
    async fn the_limit_is_kept() {
        let over = header(1001);
        let mut reader = RecordReader::new(&over[..], 1000);
        assert!(matches!(reader.next().await, Err(RecordIoError::Record(_))));
        assert!(reader.received.capacity() <= 2 * AHEAD_BYTES);
        let wire = record(&[7; 1000]);
        let mut reader = RecordReader::new(&wire[..], 1000);
        assert_eq!(reader.next().await.unwrap().unwrap().len(), 1000);
    }

    /// Small records come at once, of large ones the length first; and a record that does not say
    /// how long it will be counts as long as it may be.
    #[tokio::test]
    async fn large_records_are_announced() {
        let large = pattern(AHEAD_BYTES);
        let parts = [&3u32.to_be_bytes()[..], b"abc", &record(b"de")].concat();
        let wire = [record(b"small"), record(&large)].concat();
        let mut reader = RecordReader::new(&wire[..], 1 << 20);
        assert!(matches!(reader.begin().await, Ok(Begun::Record(r)) if r == b"small"[..]));
        assert!(matches!(reader.begin().await, Ok(Begun::Large(n)) if n == large.len() + 4));
        assert!(reader.received.len() <= 2 * AHEAD_BYTES);
        assert_eq!(reader.next().await.unwrap().unwrap(), large);
        assert!(matches!(reader.begin().await, Ok(Begun::Ended)));
        let mut begun = RecordReader::new(&parts[..9], 1 << 20);
        assert!(matches!(begun.begin().await, Ok(Begun::Large(n)) if n == 1 << 20));
        let mut whole = RecordReader::new(&parts[..], 1 << 20);
        assert_eq!(whole.next().await.unwrap().unwrap(), b"abcde"[..]);
        let mut cut = RecordReader::new(&wire[..3], 1 << 20);
        assert!(matches!(cut.begin().await, Err(RecordIoError::Truncated)));
    }

    /// Who keeps small records does not keep what they were received in: it takes all that come,
    /// one by one or together, and no more of it than before a large one.
    #[tokio::test]
    async fn small_records_have_memory_of_their_own() {
        let (mut far, near) = tokio::io::duplex(1 << 20);
        let mut reader = RecordReader::new(near, 1 << 20);
        // So much less than memory is made for that what is left over might do for small ones.
        let (small, large) = (pattern(300), pattern((1 << 19) - (24 << 10)));
        let (mut kept, mut places) = (Vec::new(), Vec::new());
        for together in [1, 1, 3, 20, 1, 0, 1, 7] {
            let wire = match together {
                0 => record(&large),
                many => record(&small).repeat(many),
            };
            far.write_all(&wire).await.unwrap();
            for _ in 0..together.max(1) {
                kept.push(reader.next().await.unwrap().unwrap());
            }
            assert!(reader.received.is_empty() && reader.received.capacity() <= 2 * AHEAD_BYTES);
            places.push((reader.received.as_ptr(), reader.received.capacity()));
        }
        assert!(places[1..5].iter().all(|place| *place == places[0]), "{places:?}");
        assert_eq!(places[5].1, 0, "of the large one");
        assert_eq!(places[6], places[7]);
        assert!(kept.iter().all(|record| *record == small || *record == large));
    }

    /// More may be here while some of it was not looked at, or a read got all that it asked for.
    #[tokio::test]
    async fn it_is_known_whether_more_may_be_here() {
        let (mut far, near) = tokio::io::duplex(1 << 20);
        let mut reader = RecordReader::new(near, 1 << 20);
        assert!(!reader.may_have_more());
        far.write_all(&[record(b"one"), record(b"two")].concat()).await.unwrap();
        for (expected, more) in [(&b"one"[..], true), (b"two", false)] {
            assert_eq!(reader.next().await.unwrap().unwrap(), expected);
            assert_eq!(reader.may_have_more(), more);
        }
        far.write_all(&record(&pattern(AHEAD_BYTES - 4))).await.unwrap();
        reader.next().await.unwrap().unwrap();
        assert!(reader.received.is_empty() && reader.may_have_more());
    }

    /// The payload of a large record lies at the start of a page wherever it begins, in fresh
    /// memory and in memory that is used again; a record in fragments, a smaller one, and one of
    /// which nobody knows where its payload is, come as ever. All of them come whole.
    #[tokio::test]
    async fn payloads_lie_at_pages() {
        let large = pattern(spare::LARGE_BYTES + 5000);
        let halves = large.split_at(100_000);
        let fragments = [&(100_000u32).to_be_bytes()[..], halves.0, &record(halves.1)].concat();
        let mut wire = Vec::new();
        for _ in 0..30 {
            wire.extend(record(&large));
        }
        wire.extend([record(&large), fragments, record(&large[..100_000])].concat());
        let mut reader = RecordReader::new(&wire[..], 1 << 20);
        for at in (0..30).map(|n| 4 * n * n % HEAD_BYTES) {
            assert!(matches!(reader.begin().await, Ok(Begun::Large(_))));
            assert!(reader.received.len() <= 2 * AHEAD_BYTES);
            reader.align(|head| {
                assert_eq!(head, &large[..HEAD_BYTES]);
                Some(at)
            });
            let record = reader.next().await.unwrap().unwrap();
            assert_eq!(record, large);
            assert_eq!(record[at..].as_ptr().align_offset(spare::PAGE_BYTES), 0, "{at}");
        }
        let looks = [None, Some(7), Some(7)];
        for (payload_at, len) in looks.into_iter().zip([large.len(), large.len(), 100_000]) {
            assert!(matches!(reader.begin().await, Ok(Begun::Large(_))));
            reader.align(|_| payload_at);
            assert_eq!(reader.next().await.unwrap().unwrap(), large[..len]);
        }
        assert!(matches!(reader.begin().await, Ok(Begun::Ended)));
    }

    /// The head of a large record is waited for, however slowly it comes.
    #[tokio::test]
    async fn heads_come_whole() {
        let (mut far, near) = tokio::io::duplex(100);
        let sender = tokio::spawn(async move {
            far.write_all(&record(&pattern(AHEAD_BYTES + 1))).await.unwrap();
        });
        let mut reader = RecordReader::new(near, 1 << 20);
        assert!(matches!(reader.begin().await, Ok(Begun::Large(_))));
        assert!(reader.received.len() >= 4 + HEAD_BYTES);
        assert_eq!(reader.next().await.unwrap().unwrap(), pattern(AHEAD_BYTES + 1));
        sender.await.unwrap();
    }

    /// A large record is read in few reads, and afterwards the idle reader holds no memory.
    #[tokio::test]
    async fn large_records_take_few_reads() {
        struct Counting<'a>(&'a [u8], usize);
        impl AsyncRead for Counting<'_> {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                self.1 += 1;
                std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
            }
        }
        let wire = record(&pattern(1 << 20));
        let mut reader = RecordReader::new(Counting(&wire, 0), 1 << 20);
        assert_eq!(reader.next().await.unwrap().unwrap(), pattern(1 << 20));
        assert_eq!(reader.stream.1, 2);
        assert_eq!(reader.received.capacity(), 0);
    }
}
