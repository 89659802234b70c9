//! Payloads that go from the socket to their place in a file without passing our memory, or to
//! their place in the caller's memory.
//!
//! The kernel moves the pages a socket received into a pipe, and copies from there into the file:
//! one copy instead of two, no page faults of receive buffers, and what is copied is still in the
//! processor's caches. Measured on memory file systems, four connections into one file: half the
//! processor time of receiving and writing.
//!
//! Into memory they are read in place ([`MemoryRegion`]): no copy of ours, no receive buffer.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use rustix::net::RecvFlags;
use tokio::{
    io::{AsyncRead, Interest},
    net::TcpStream,
};
use weft_xdr::record::Next;

use crate::{
    local_read::LocalFile,
    memory::MemoryRegion,
    pipe::Pipe,
    receive::{HEAD_BYTES, RecordIoError, RecordReader},
    resident,
    spare::AHEAD_BYTES,
};

/// Records below this size, in bytes, are not worth the system calls.
const PLACED_RECORD_BYTES_MIN: usize = 64 << 10;
/// What may follow a payload in its record: padding, and little else.
const TAIL_BYTES_MAX: usize = 512;

/// What takes data at many places at a time: a local file, or memory.
#[derive(Debug)]
pub struct Destination(Kind);

#[derive(Debug)]
enum Kind {
    File(FilePlace),
    Memory(MemoryPlace),
}

/// The kernel lets only one writer at a time into a file, and writers spin for their turn; here
/// they queue. Writing is done on the blocking pool, unless the file is in memory.
#[derive(Debug)]
struct FilePlace {
    file: Arc<File>,
    in_memory: bool,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Memory for the bytes from an offset on.
#[derive(Debug, Clone)]
struct MemoryPlace {
    region: Arc<MemoryRegion>,
    start: u64,
}

impl Destination {
    /// Data for this file, which must be open for writing, and not for appending.
    pub fn new(file: Arc<File>) -> Destination {
        // A file that cannot tell is treated like one on a disk.
        let in_memory = resident::in_memory(&file).unwrap_or(false);
        Destination(Kind::File(FilePlace { file, in_memory, turn: Arc::default() }))
    }

    /// Data for this memory, whose first byte is that of offset `start`.
    pub fn memory(region: Arc<MemoryRegion>, start: u64) -> Destination {
        Destination(Kind::Memory(MemoryPlace { region, start }))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What the file system says; data that do not fit into the memory, or that was taken back.
    pub async fn write(&self, data: Bytes, offset: u64) -> io::Result<()> {
        match &self.0 {
            Kind::File(place) => {
                place.in_turn(|| move |file: &File| file.write_all_at(&data, offset)).await
            }
            Kind::Memory(place) => place.region.write(place.at(offset)?, &data),
        }
    }

    /// Puts there some of what a file has of a range (offset and length), from its start on: none
    /// only where the file ends. The bytes that were put there.
    ///
    /// # Errors
    /// Those of reading, and those of [`Destination::write`].
    pub async fn take_from(
        &self,
        file: &LocalFile,
        range: (u64, usize),
        offset: u64,
    ) -> io::Result<usize> {
        match &self.0 {
            Kind::File(_) => {
                let data = file.read(range.0, range.1).await?;
                let got = data.len();
                self.write(data, offset).await.map(|()| got)
            }
            Kind::Memory(place) => {
                file.read_to_memory(range, &place.region, place.at(offset)?).await
            }
        }
    }
}

impl MemoryPlace {
    /// Where in the memory an offset is.
    fn at(&self, offset: u64) -> io::Result<usize> {
        let at = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "data before the memory for them"))
    }
}

impl FilePlace {
    /// Waits until no other write is under way, and runs what `work` then returns.
    async fn in_turn<W>(&self, work: impl FnOnce() -> W) -> io::Result<()>
    where
        W: FnOnce(&File) -> io::Result<()> + Send + 'static,
    {
        let turn = self.turn.clone().lock_owned().await;
        if self.in_memory {
            // No disk to wait for: another thread would only cost the way there and back.
            return work()(&self.file);
        }
        let (file, work) = (self.file.clone(), work());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&file)
        });
        done.await.unwrap_or_else(|e| Err(io::Error::other(e)))
    }
}

/// Whether a payload is still wanted where it was to go.
#[derive(Debug, Default)]
pub struct CancelGuard(Mutex<bool>);

impl CancelGuard {
    /// When this returns, nothing is being written for this payload, and nothing will be. Waits
    /// for at most one write of a pipe's content, or one read of a socket into memory.
    pub fn cancel(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn run<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let cancelled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *cancelled {
            return Err(io::Error::new(ErrorKind::Interrupted, "nobody waits for it any more"));
        }
        work()
    }
}

/// Where the payload of one record goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// What takes the payload.
    pub destination: Arc<Destination>,
    /// Where in the file, or of what the memory holds.
    pub offset: u64,
    /// Where the payload begins in the record, in bytes; within the head that was looked at.
    pub at: usize,
    /// Length of the payload in bytes.
    pub len: usize,
    /// Cancelled when it is not wanted any more.
    pub guard: Arc<CancelGuard>,
}

impl Target {
    /// Whether the payload lies in a record of that length, and where it should.
    fn fits(&self, record_bytes: usize) -> bool {
        let tail = self.at.checked_add(self.len).and_then(|end| record_bytes.checked_sub(end));
        self.at <= HEAD_BYTES && tail.is_some_and(|t| t <= TAIL_BYTES_MAX)
    }
}

/// What [`RecordReader::next_or_place`] received.
#[derive(Debug)]
pub enum Received {
    /// A whole record.
    Record(Bytes),
    /// A record whose payload was placed, or could not be.
    Placed {
        /// The record without its payload.
        rest: BytesMut,
        /// Where in it the payload was.
        at: usize,
        /// Bytes of the payload; or what the destination said, which may hold part of it then.
        placed: io::Result<usize>,
    },
}

impl<R: AsyncRead + AsRef<TcpStream> + Unpin> RecordReader<R> {
    /// As [`RecordReader::next`], and not cancel safe. Of each large record, `look` is shown the
    /// head and the length, and may say that its payload has a place.
    ///
    /// A destination that fails does not disturb the stream: the rest of the payload is read and
    /// dropped.
    ///
    /// # Errors
    /// [`RecordIoError`]; the stream is then out of step.
    pub async fn next_or_place(
        &mut self,
        mut look: impl FnMut(&[u8], usize) -> Option<Target>,
    ) -> Result<Option<Received>, RecordIoError> {
        let mut looked = false;
        loop {
            let need = match self.take()? {
                Next::Record(record) => return Ok(Some(Received::Record(record))),
                Next::Need(need) => need,
            };
            let mut most = need.max(AHEAD_BYTES);
            if let Some(record_bytes) = self.placeable_ahead().filter(|_| !looked) {
                if let Some(head) = self.received.get(4..4 + HEAD_BYTES) {
                    looked = true;
                    let target = look(head, record_bytes).filter(|t| t.fits(record_bytes));
                    if let Some(target) = target.filter(|t| self.can_place(&t.destination)) {
                        return self.place(target, record_bytes).await.map(Some);
                    }
                } else {
                    most = AHEAD_BYTES;
                }
            }
            if self.receive(most).await? == 0 {
                return self.ended();
            }
        }
    }

    /// Length of the record that stands first, if it is worth placing.
    fn placeable_ahead(&self) -> Option<usize> {
        self.large_record_ahead().filter(|bytes| *bytes >= PLACED_RECORD_BYTES_MIN)
    }

    /// Without a pipe a record for a file takes the way of every other.
    fn can_place(&mut self, destination: &Destination) -> bool {
        match &destination.0 {
            Kind::File(_) => self.pipe().is_some(),
            Kind::Memory(_) => true,
        }
    }

    fn pipe(&mut self) -> Option<Arc<Pipe>> {
        if self.pipe.is_none() {
            self.pipe = Pipe::new().ok().map(Arc::new);
        }
        self.pipe.clone()
    }

    async fn place(
        &mut self,
        target: Target,
        record_bytes: usize,
    ) -> Result<Received, RecordIoError> {
        let Target { at, len, .. } = target;
        self.inside = true;
        let _header = self.received.split_to(4);
        let mut rest = self.received.split_to(at);
        let first = self.received.split_to(len.min(self.received.len())).freeze();
        let placed = match &target.destination.clone().0 {
            Kind::File(place) => self.move_payload(target, first, place).await?,
            Kind::Memory(place) => self.read_payload(&target, first, place).await?,
        };
        let tail = record_bytes - at - len;
        while self.received.len() < tail {
            if self.receive(AHEAD_BYTES).await? == 0 {
                return Err(RecordIoError::Truncated);
            }
        }
        rest.extend_from_slice(&self.received.split_to(tail));
        self.record_left();
        Ok(Received::Placed { rest, at, placed: placed.map(|()| len) })
    }

    /// Writes the first part, which is here, and the rest as it comes.
    async fn move_payload(
        &mut self,
        target: Target,
        first: Bytes,
        place: &FilePlace,
    ) -> Result<io::Result<()>, RecordIoError> {
        let Target { mut offset, len, guard, .. } = target;
        let Some(pipe) = self.pipe() else {
            return Err(io::Error::other("no pipe for a payload that was to go through it").into());
        };
        let socket = self.stream.as_ref();
        let mut left = len - first.len();
        let mut first = Some(first);
        while left > 0 || first.is_some() {
            let mut moved = 0;
            if left > 0 {
                // The pipe is empty: if nothing can be taken, it is the socket that has nothing.
                moved = socket.async_io(Interest::READABLE, || pipe.fill(socket, left)).await?;
                if moved == 0 {
                    return Err(RecordIoError::Truncated);
                }
            }
            let start = first.take().unwrap_or_default();
            let (guard, into) = (guard.clone(), pipe.clone());
            let (at, start_bytes) = (offset, start.len());
            let written = place.in_turn(|| {
                // What has come in the meantime goes along; an error will come again.
                moved += pipe.fill(socket, left - moved).unwrap_or(0);
                let moved = moved;
                move |file: &File| {
                    guard.run(|| {
                        file.write_all_at(&start, at)?;
                        into.empty(file, at + start.len() as u64, moved)
                    })
                }
            });
            let written = written.await;
            left -= moved;
            offset += (start_bytes + moved) as u64;
            if let Err(e) = written {
                self.pipe = None; // what is in it belongs nowhere
                self.discard(left).await?;
                return Ok(Err(e));
            }
        }
        Ok(Ok(()))
    }

    /// The same into memory, straight from the socket.
    async fn read_payload(
        &mut self,
        target: &Target,
        first: Bytes,
        place: &MemoryPlace,
    ) -> Result<io::Result<()>, RecordIoError> {
        let mut left = target.len - first.len();
        let begun = place.at(target.offset).and_then(|at| {
            target.guard.run(|| place.region.write(at, &first))?;
            Ok(at + first.len())
        });
        let mut at = match begun {
            Ok(at) => at,
            Err(e) => {
                self.discard(left).await?;
                return Ok(Err(e));
            }
        };
        while left > 0 {
            match self.read_part(target, place, at, left).await? {
                Ok(0) => return Err(RecordIoError::Truncated),
                Ok(got) => {
                    at += got;
                    left -= got;
                }
                Err(e) => {
                    self.discard(left).await?;
                    return Ok(Err(e));
                }
            }
        }
        Ok(Ok(()))
    }

    /// One read of the socket into memory: its length, or why the memory does not take it.
    async fn read_part(
        &self,
        target: &Target,
        place: &MemoryPlace,
        at: usize,
        left: usize,
    ) -> io::Result<io::Result<usize>> {
        let socket = self.stream.as_ref();
        let read = |memory: &mut [u8]| rustix::net::recv(socket, memory, RecvFlags::empty());
        let once = || {
            let refused_or_read = target.guard.run(|| place.region.fill(at, left, read));
            match refused_or_read {
                Ok(Ok((got, _))) => Ok(Ok(got)),
                // The socket's: to wait for, or the end of the connection.
                Ok(Err(e)) => Err(e.into()),
                Err(e) => Ok(Err(e)),
            }
        };
        socket.async_io(Interest::READABLE, once).await
    }

    /// Reads and drops `left` bytes.
    async fn discard(&mut self, mut left: usize) -> Result<(), RecordIoError> {
        while left > 0 {
            let got = self.receive(left.min(AHEAD_BYTES)).await?;
            if got == 0 {
                return Err(RecordIoError::Truncated);
            }
            self.received.clear();
            left -= got;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
