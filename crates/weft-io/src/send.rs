//! Sending records: vectored writes and `sendfile`.

use std::io::{self, ErrorKind, IoSlice};

use bytes::{Buf, Bytes};
use rustix::{
    fs::sendfile,
    io::{Errno, writev},
    net::{Shutdown, shutdown, sockopt::set_tcp_cork},
};
use tokio::{io::Interest, net::TcpStream};
use weft_xdr::{FileRange, Segment, record::header};

use crate::resident::ensure_resident;

/// Parts handed to one vectored write: well below the kernel's 1024, and beyond it the call's own
/// cost no longer matters.
const WRITE_PARTS_MAX: usize = 64;

/// Sends one record over a connection that nobody else writes to. Must run to its end: a record
/// half sent cannot be taken back.
///
/// # Errors
/// As [`RecordSender::send`]. The connection is shut down.
pub async fn send_record(stream: &TcpStream, segments: Vec<Segment>) -> io::Result<()> {
    let sent = send_plan(stream, frame(vec![segments])).await;
    if sent.is_err() {
        break_off(stream);
    }
    sent
}

/// The sending side of a connection, for one writer at a time. `S` is an `Arc<TcpStream>` or an
/// `OwnedWriteHalf`.
///
/// If a send fails, or its future is dropped before it is done, the connection is shut down in
/// both directions and every later send is refused.
#[derive(Debug)]
pub struct RecordSender<S: AsRef<TcpStream>> {
    stream: S,
    /// What the socket did not take of the last record: it goes first.
    rest: Vec<Segment>,
    broken: bool,
}

impl<S: AsRef<TcpStream>> RecordSender<S> {
    /// A sender over a connection that nobody else writes to.
    pub fn new(stream: S) -> Self {
        RecordSender { stream, rest: Vec::new(), broken: false }
    }

    /// Sends as much of a record as goes without waiting; whether that was all of it. What was not
    /// sent goes first when [`RecordSender::send_batch`] is called next, for which it need have no
    /// record.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_now(&mut self, record: Vec<Segment>) -> io::Result<bool> {
        if self.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.rest.extend(frame(vec![record]));
        let stream = self.stream.as_ref();
        let written = write_now(stream, &mut self.rest);
        if written.is_err() {
            self.broken = true;
            break_off(stream);
        }
        written.map(|()| self.rest.is_empty())
    }

    /// Sends one record: its header and its segments.
    ///
    /// # Errors
    /// What the socket or a file says. A file range that ends early (`UnexpectedEof`) breaks the
    /// connection: the header has promised more.
    pub async fn send(&mut self, segments: Vec<Segment>) -> io::Result<()> {
        self.send_batch(vec![segments]).await
    }

    /// Sends what is left of the last record, and several records one after another, gathering
    /// small ones into common writes.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn send_batch(&mut self, records: Vec<Vec<Segment>>) -> io::Result<()> {
        if self.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut plan = std::mem::take(&mut self.rest);
        plan.extend(frame(records));
        let mut guard = BreakUnlessDone { sender: self, done: false };
        send_plan(guard.sender.stream.as_ref(), plan).await?;
        guard.done = true;
        Ok(())
    }
}

/// Breaks the connection if dropped before `done`.
struct BreakUnlessDone<'a, S: AsRef<TcpStream>> {
    sender: &'a mut RecordSender<S>,
    done: bool,
}

impl<S: AsRef<TcpStream>> Drop for BreakUnlessDone<'_, S> {
    fn drop(&mut self) {
        if !self.done {
            self.sender.broken = true;
            break_off(self.sender.stream.as_ref());
        }
    }
}

/// Ends both directions, so that the peer and our own reader notice. It may have ended already.
fn break_off(stream: &TcpStream) {
    let _ = shutdown(stream, Shutdown::Both);
}

/// Records with their headers, as one list without empty parts.
fn frame(records: Vec<Vec<Segment>>) -> Vec<Segment> {
    let mut plan = Vec::with_capacity(records.iter().map(|r| r.len() + 1).sum());
    for segments in records {
        let len = segments.iter().map(Segment::len).sum();
        plan.push(Segment::Bytes(Bytes::copy_from_slice(&header(len))));
        plan.extend(segments.into_iter().filter(|s| !s.is_empty()));
    }
    plan
}

async fn send_plan(stream: &TcpStream, mut plan: Vec<Segment>) -> io::Result<()> {
    // Corked, the parts around a file range share its packets.
    let corked = plan.iter().any(|s| matches!(s, Segment::File(_)));
    if corked {
        set_tcp_cork(stream, true)?;
    }
    loop {
        write_now(stream, &mut plan)?;
        match plan.first() {
            None => break,
            Some(Segment::Bytes(_)) => stream.writable().await?,
            Some(Segment::File(range)) => {
                let range = range.clone();
                plan.remove(0);
                ensure_resident(&range).await?;
                send_file(stream, range).await?;
            }
        }
    }
    if corked {
        set_tcp_cork(stream, false)?;
    }
    Ok(())
}

/// Writes what comes before the first range of a file, as far as the socket takes it now, and
/// takes that off.
fn write_now(stream: &TcpStream, plan: &mut Vec<Segment>) -> io::Result<()> {
    loop {
        let in_memory = plan.iter().map_while(|segment| match segment {
            Segment::Bytes(bytes) => Some(IoSlice::new(bytes)),
            Segment::File(_) => None,
        });
        let slices: Vec<IoSlice<'_>> = in_memory.take(WRITE_PARTS_MAX).collect();
        if slices.is_empty() {
            return Ok(());
        }
        match stream.try_io(Interest::WRITABLE, || write_vectored(stream, &slices)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(mut sent) => plan.retain_mut(|segment| match segment {
                Segment::Bytes(bytes) if sent > 0 => {
                    let some = sent.min(bytes.len());
                    bytes.advance(some);
                    sent -= some;
                    !bytes.is_empty()
                }
                _ => true,
            }),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

/// One attempt at a vectored write.
fn write_vectored(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match writev(stream, slices) {
            Err(Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Sends a file range from the page cache.
async fn send_file(stream: &TcpStream, range: FileRange) -> io::Result<()> {
    let (mut at, mut left) = (range.offset, range.len);
    while left > 0 {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                loop {
                    match sendfile(stream, &*range.file, Some(&mut at), left) {
                        Err(Errno::INTR) => continue,
                        other => return other.map_err(io::Error::from),
                    }
                }
            })
            .await?;
        if sent == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(sent);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, sync::Arc};

    use rustix::net::sockopt::set_socket_send_buffer_size;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;
    use crate::{RecordIoError, RecordReader};

    const LIMIT: usize = 8 << 20;

    async fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(near, listener.accept());
        (Arc::new(near.unwrap()), far.unwrap().0)
    }

    fn pattern(len: usize, salt: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 509 + salt) as u8).collect()
    }

    fn file_of(data: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(data).unwrap();
        Arc::new(file)
    }

    fn range(file: &Arc<File>, offset: u64, len: usize) -> Segment {
        Segment::File(FileRange { file: file.clone(), offset, len })
    }

    fn bytes(data: &[u8]) -> Segment {
        Segment::Bytes(Bytes::copy_from_slice(data))
    }

    /// Bytes and file ranges in any mixture arrive as one record, also through a socket buffer
    /// so small that every call is cut short.
    #[tokio::test]
    async fn mixed_plans_arrive_whole() {
        for tiny in [false, true] {
            let (near, far) = pair().await;
            if tiny {
                set_socket_send_buffer_size(&*near, 1).unwrap();
            }
            let data = pattern(3 << 20, 1);
            let file = file_of(&data);
            let plan = vec![
                bytes(b"head"),
                bytes(b""),
                range(&file, 5, 1 << 20),
                bytes(&pattern(70_000, 2)),
                range(&file, 0, 0),
                range(&file, (3 << 20) - 9, 9),
                range(&file, 77, 1),
                bytes(b"tail"),
            ];
            let want = [
                b"head",
                &data[5..5 + (1 << 20)],
                &pattern(70_000, 2),
                &data[(3 << 20) - 9..],
                &data[77..78],
                b"tail",
            ]
            .concat();
            let sending = tokio::spawn(async move {
                let mut sender = RecordSender::new(near);
                sender.send(plan).await.unwrap();
                sender.send(vec![bytes(b"next")]).await.unwrap();
            });
            let mut reader = RecordReader::new(far, LIMIT);
            assert!(reader.next().await.unwrap().unwrap() == want);
            assert_eq!(reader.next().await.unwrap().unwrap(), "next");
            assert!(reader.next().await.unwrap().is_none());
            sending.await.unwrap();
        }
    }

    /// A batch is that many records; more parts than one write takes are no trouble, nor is a
    /// record without any.
    #[tokio::test]
    async fn batches_keep_record_borders() {
        let (near, far) = pair().await;
        let records: Vec<Vec<Segment>> =
            (0..300).map(|i| (0..i % 3).map(|j| bytes(&pattern(i, j))).collect()).collect();
        let sending = tokio::spawn(async move {
            RecordSender::new(near).send_batch(records).await.unwrap();
        });
        let mut reader = RecordReader::new(far, LIMIT);
        for i in 0..300 {
            let want: Vec<u8> = (0..i % 3).flat_map(|j| pattern(i, j)).collect();
            assert_eq!(reader.next().await.unwrap().unwrap(), want);
        }
        assert!(reader.next().await.unwrap().is_none());
        sending.await.unwrap();
    }

    /// What a socket does not take at once goes before what comes later, whatever that is.
    #[tokio::test]
    async fn records_leave_at_once() {
        let (near, far) = pair().await;
        set_socket_send_buffer_size(&*near, 1).unwrap();
        let mut sender = RecordSender::new(near);
        assert!(sender.send_now(vec![bytes(b"small"), bytes(b""), bytes(b"one")]).unwrap());
        let large = pattern(3 << 20, 1);
        let (data, file) = (pattern(1000, 2), file_of(&pattern(1000, 2)));
        assert!(!sender.send_now(vec![bytes(b"large"), bytes(&large)]).unwrap());
        assert!(!sender.send_now(vec![bytes(b"file"), range(&file, 1, 999)]).unwrap());
        let sending = tokio::spawn(async move {
            sender.send_batch(vec![vec![bytes(b"next")]]).await.unwrap();
            sender.send_now(vec![bytes(b"then"), range(&file, 0, 3)]).unwrap();
            sender.send_batch(Vec::new()).await.unwrap();
        });
        let mut reader = RecordReader::new(far, LIMIT);
        let want: [&[&[u8]]; 5] = [
            &[b"smallone"],
            &[b"large", &large],
            &[b"file", &data[1..]],
            &[b"next"],
            &[b"then", &data[..3]],
        ];
        for want in want {
            assert!(reader.next().await.unwrap().unwrap() == want.concat());
        }
        assert!(reader.next().await.unwrap().is_none());
        sending.await.unwrap();
    }

    /// A peer that is gone is told by the one who sends at once, and from then on.
    #[tokio::test]
    async fn nothing_leaves_at_once_to_nobody() {
        let (near, far) = pair().await;
        let mut sender = RecordSender::new(near);
        drop(far);
        let failed = loop {
            match sender.send_now(vec![bytes(b"x")]) {
                Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
                Err(e) => break e,
            }
        };
        assert!(matches!(failed.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
        let again = sender.send_now(vec![bytes(b"x")]).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::BrokenPipe);
    }

    /// A range that its file no longer holds ends the connection inside the record, whether the
    /// file lost it before the first look or only part of it; the sender refuses from then on.
    #[tokio::test]
    async fn a_short_file_breaks_the_connection() {
        for (offset, len) in [(0, 1001), (1000, 1), (990, 300_000)] {
            let (near, far) = pair().await;
            let file = file_of(&pattern(1000, 0));
            let mut sender = RecordSender::new(near.clone());
            let error = sender.send(vec![bytes(b"x"), range(&file, offset, len)]).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            let got = RecordReader::new(far, LIMIT).next().await;
            assert!(matches!(got, Err(RecordIoError::Truncated)), "{got:?}");
            let again = sender.send(vec![bytes(b"y")]).await.unwrap_err();
            assert_eq!(again.kind(), ErrorKind::BrokenPipe);
            let own = RecordReader::new(OwnEnd(near), LIMIT).next().await;
            assert!(matches!(own, Ok(None)), "our reader sees the end too: {own:?}");
        }
    }

    /// The sendfile loop by itself notices a file that shrinks after it was found resident.
    #[tokio::test]
    async fn sendfile_notices_the_end() {
        let (near, mut far) = pair().await;
        let file = file_of(&pattern(1000, 0));
        let short = FileRange { file, offset: 600, len: 500 };
        let error = send_file(&near, short).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        drop(near);
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, &pattern(1000, 0)[600..]);
    }

    /// A send whose future is dropped midway leaves no connection to send on.
    #[tokio::test]
    async fn an_abandoned_send_breaks_the_connection() {
        let (near, far) = pair().await;
        let mut sender = RecordSender::new(near);
        {
            let send = sender.send(vec![bytes(&pattern(LIMIT, 0))]);
            tokio::pin!(send);
            // Polled once: the socket buffer fills, nobody reads.
            std::future::poll_fn(|cx| {
                assert!(send.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        assert!(sender.send(vec![]).await.is_err());
        let got = RecordReader::new(far, LIMIT).next().await;
        assert!(matches!(got, Err(RecordIoError::Truncated)), "{got:?}");
    }

    /// The free function breaks the connection as the sender does.
    #[tokio::test]
    async fn send_record_sends_or_breaks() {
        let (near, far) = pair().await;
        let file = file_of(b"abc");
        let mut reader = RecordReader::new(far, LIMIT);
        send_record(&near, vec![range(&file, 0, 3)]).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), "abc");
        send_record(&near, vec![range(&file, 0, 4)]).await.unwrap_err();
        assert!(matches!(reader.next().await, Err(RecordIoError::Truncated)));
    }

    /// The reading side of a shared connection.
    struct OwnEnd(Arc<TcpStream>);

    impl tokio::io::AsyncRead for OwnEnd {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::ready!(self.0.poll_read_ready(cx))?;
            let mut part = [0; 16];
            let n = self.0.try_read(&mut part)?;
            buf.put_slice(&part[..n]);
            std::task::Poll::Ready(Ok(()))
        }
    }
}
