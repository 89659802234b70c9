//! A peer that this test plays, and files that take what they get, or do not.

use std::time::Duration;

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, tcp::OwnedReadHalf},
};
use weft_xdr::record::header;

use super::*;

const LIMIT: usize = 4 << 20;
/// Bytes before the payload in the records of these tests.
const AT: usize = 100;

async fn pair() -> (TcpStream, RecordReader<OwnedReadHalf>, tokio::net::tcp::OwnedWriteHalf) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap());
    let (far, near) = tokio::join!(far, listener.accept());
    let (read, write) = near.unwrap().0.into_split();
    (far.unwrap(), RecordReader::new(read, LIMIT), write)
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8 ^ salt as u8).collect()
}

/// A record with its header: a head, the payload, padding.
fn record(payload: &[u8], salt: u8) -> Vec<u8> {
    let pad = payload.len().wrapping_neg() & 3;
    let head = [salt; AT];
    let len = AT + payload.len() + pad;
    [&header(len)[..], &head, payload, &[0; 3][..pad]].concat()
}

fn destination() -> (Arc<File>, Arc<Destination>) {
    let file = Arc::new(tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap());
    (file.clone(), Arc::new(Destination::new(file)))
}

fn target(to: &Arc<Destination>, offset: u64, len: usize) -> Target {
    Target { destination: to.clone(), offset, at: AT, len, guard: Arc::default() }
}

/// The next record is one of these, with its payload placed or not.
async fn next(reader: &mut RecordReader<OwnedReadHalf>, p: &Target) -> io::Result<usize> {
    let received = reader.next_or_place(|_, _| Some(p.clone())).await.unwrap().unwrap();
    let Received::Placed { rest, at, placed } = received else { panic!("{received:?}") };
    assert_eq!((at, rest.len()), (AT, AT + (p.len.wrapping_neg() & 3)));
    placed
}

fn content(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut got = vec![0; len];
    file.read_exact_at(&mut got, offset).unwrap();
    got
}

/// Payloads of many lengths land at odd places, between records that are not looked at (too small,
/// in fragments) or declined, in whatever portions they arrive.
#[tokio::test]
async fn payloads_land() {
    let lens = [PLACED_RECORD_BYTES_MIN, (1 << 20) + 1, 100, 3 << 20, 70_001, (1 << 20) + 2];
    for portion in [1 << 22, 10_007, 513] {
        let (mut far, mut reader, _write) = pair().await;
        let (file, to) = destination();
        let sending = tokio::spawn(async move {
            for (i, len) in lens.into_iter().enumerate() {
                let mut wire = record(&pattern(len, i), i as u8);
                let piece = pattern(80_000, i);
                wire.extend((piece.len() as u32).to_be_bytes());
                wire.extend(&piece);
                wire.extend(header(0));
                wire.extend(record(&piece, 7));
                for part in wire.chunks(portion) {
                    far.write_all(part).await.unwrap();
                }
            }
        });
        let mut offset = 4_093;
        for (i, len) in lens.into_iter().enumerate() {
            let p = target(&to, offset, len);
            if len == 100 {
                let look = |_: &[u8], _| panic!("small");
                let small = reader.next_or_place(look).await.unwrap().unwrap();
                assert!(matches!(small, Received::Record(r) if r[AT..] == pattern(len, i)));
            } else {
                assert_eq!(next(&mut reader, &p).await.unwrap(), len);
                assert!(content(&file, offset, len) == pattern(len, i));
                offset += len as u64 + 5;
            }
            let look = |_: &[u8], _| panic!("in fragments");
            let fragments = reader.next_or_place(look).await.unwrap().unwrap();
            assert!(matches!(fragments, Received::Record(r) if r == pattern(80_000, i)));
            let mut looks = 0;
            let declined = reader.next_or_place(|head, len| {
                looks += 1;
                let start = [&[7; AT][..], &pattern(80_000, i)[..HEAD_BYTES - AT]].concat();
                assert!(head == start && len == 80_100);
                None
            });
            let declined = declined.await.unwrap().unwrap();
            assert!(matches!(declined, Received::Record(r) if r[AT..] == pattern(80_000, i)));
            assert_eq!(looks, 1);
        }
        assert!(reader.next_or_place(|_, _| None).await.unwrap().is_none());
        sending.await.unwrap();
    }
}

/// A target outside its record, or that leaves much of it, is not taken.
#[tokio::test]
async fn targets_must_fit() {
    let (mut far, mut reader, _write) = pair().await;
    let (_file, to) = destination();
    let payload = pattern(100_000, 1);
    let whole = target(&to, 0, payload.len());
    let bad = [
        Target { len: payload.len() + 1, ..whole.clone() },
        Target { at: HEAD_BYTES + 1, len: 1, ..whole.clone() },
        Target { len: usize::MAX, ..whole.clone() },
        Target { len: payload.len() - TAIL_BYTES_MAX - 1, ..whole.clone() },
    ];
    for p in bad {
        far.write_all(&record(&payload, 0)).await.unwrap();
        let received = reader.next_or_place(|_, _| Some(p.clone())).await.unwrap().unwrap();
        assert!(matches!(received, Received::Record(r) if r[AT..] == payload));
    }
    far.write_all(&record(&payload, 0)).await.unwrap();
    assert_eq!(next(&mut reader, &whole).await.unwrap(), payload.len());
}

/// A connection that ends anywhere in a record that is being placed is truncated.
#[tokio::test]
async fn an_end_inside_a_payload_is_an_error() {
    let wire = record(&pattern(70_001, 3), 0);
    for cut in [3, 4, 50, 4 + AT, 600, 20_000, 60_000, 4 + AT + 70_001, wire.len() - 1] {
        let (mut far, mut reader, _write) = pair().await;
        let (_file, to) = destination();
        far.write_all(&wire[..cut]).await.unwrap();
        drop(far);
        let got = reader.next_or_place(|_, _| Some(target(&to, 0, 70_001))).await;
        assert!(matches!(got, Err(RecordIoError::Truncated)), "{cut}: {got:?}");
    }
}

/// A destination that cannot take the payload says so, and the records that follow arrive.
#[tokio::test]
async fn a_full_disk_keeps_the_stream_in_step() {
    let (mut far, mut reader, _write) = pair().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let full = Arc::new(Destination::new(Arc::new(full)));
    let (file, good) = destination();
    let payload = pattern(2 << 20, 1);
    let wire = record(&payload, 0);
    let sending = tokio::spawn(async move {
        for _ in 0..4 {
            far.write_all(&wire).await.unwrap();
        }
        far
    });
    for n in 0..2 {
        let failed = next(&mut reader, &target(&full, 0, payload.len())).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::StorageFull);
        let offset = n << 22;
        assert_eq!(
            next(&mut reader, &target(&good, offset, payload.len())).await.unwrap(),
            payload.len()
        );
        assert!(content(&file, offset, payload.len()) == payload);
    }
    sending.await.unwrap();
}

/// Once it is cancelled, before the payload or in the middle of it, nothing more is written, and
/// the stream goes on.
#[tokio::test]
async fn cancelling_stops_the_writing() {
    let payload = pattern(1 << 20, 1);
    let wire = record(&payload, 0);
    for early in [true, false] {
        let (mut far, mut reader, _write) = pair().await;
        let (file, to) = destination();
        let p = target(&to, 0, payload.len());
        let (guard, half, seen) = (p.guard.clone(), wire.len() / 2, file.clone());
        let (wire, good) = (wire.clone(), target(&to, 2 << 20, payload.len()));
        let sending = tokio::spawn(async move {
            if early {
                guard.cancel();
            }
            far.write_all(&wire[..half]).await.unwrap();
            while !early && seen.metadata().unwrap().len() < (half - AT - 4) as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            guard.cancel();
            far.write_all(&wire[half..]).await.unwrap();
            far.write_all(&wire).await.unwrap();
            far
        });
        let stopped = next(&mut reader, &p).await.unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
        let written = if early { 0 } else { half - AT - 4 };
        assert_eq!(file.metadata().unwrap().len(), written as u64);
        assert!(content(&file, 0, written) == payload[..written]);
        assert_eq!(next(&mut reader, &good).await.unwrap(), payload.len());
        sending.await.unwrap();
    }
}

/// Several connections and plain writes share one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn many_into_one_file() {
    many_into(tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap()).await;
    if let Ok(memory) = tempfile::tempfile_in("/dev/shm") {
        many_into(memory).await;
    }
}

async fn many_into(file: File) {
    let file = Arc::new(file);
    let to = Arc::new(Destination::new(file.clone()));
    let len = 300_000;
    let mut tasks = tokio::task::JoinSet::new();
    for c in 0..4usize {
        let to = to.clone();
        tasks.spawn(async move {
            let (mut far, mut reader, _write) = pair().await;
            let sending = tokio::spawn(async move {
                for n in 0..8 {
                    far.write_all(&record(&pattern(len, c * 8 + n), 0)).await.unwrap();
                }
            });
            for n in 0..8 {
                let at = ((n * 5 + c) * len) as u64;
                assert_eq!(next(&mut reader, &target(&to, at, len)).await.unwrap(), len);
                let plain = Bytes::from(pattern(len, 99 + n));
                to.write(plain, ((n * 5 + 4) * len) as u64).await.unwrap();
            }
            sending.await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for n in 0..8 {
        for c in 0..4 {
            assert!(content(&file, ((n * 5 + c) * len) as u64, len) == pattern(len, c * 8 + n));
        }
        assert!(content(&file, ((n * 5 + 4) * len) as u64, len) == pattern(len, 99 + n));
    }
}

/// What a file system without splice gets instead.
#[tokio::test]
async fn copying_out_of_the_pipe() {
    let (mut far, reader, _write) = pair().await;
    let (file, _) = destination();
    let pipe = Pipe::new().unwrap();
    let data = pattern(200_000, 5);
    far.write_all(&data).await.unwrap();
    let socket = reader.stream.as_ref();
    let mut at = 0;
    while at < data.len() {
        let fill = socket.async_io(Interest::READABLE, || pipe.fill(socket, data.len() - at));
        let moved = fill.await.unwrap();
        pipe.copy(&file, 11 + at as u64, moved).unwrap();
        at += moved;
    }
    assert!(content(&file, 11, data.len()) == data);
}

/// Payloads land in memory, at their places and nowhere else, in whatever portions they arrive; and
/// a payload that does not fit, or comes after its memory was taken back, is dropped, not more.
#[tokio::test]
async fn payloads_land_in_memory() {
    let lens = [PLACED_RECORD_BYTES_MIN, (1 << 20) + 1, 70_001];
    for portion in [1 << 22, 10_007, 513] {
        let (mut far, mut reader, _write) = pair().await;
        let region = MemoryRegion::owned(vec![9; 2 << 20].into());
        let to = Arc::new(Destination::memory(region.clone(), 1000));
        let sending = tokio::spawn(async move {
            for (i, len) in lens.into_iter().chain([100_000; 4]).enumerate() {
                for part in record(&pattern(len, i), i as u8).chunks(portion) {
                    far.write_all(part).await.unwrap();
                }
            }
        });
        let mut wanted = vec![9; 2 << 20];
        let mut at = 5;
        for (i, len) in lens.into_iter().enumerate() {
            let placed = next(&mut reader, &target(&to, 1000 + at as u64, len)).await.unwrap();
            assert_eq!(placed, len);
            wanted[at..at + len].copy_from_slice(&pattern(len, i));
            at += len + 3;
        }
        // The last byte does not fit, nor does a byte before the first.
        for offset in [1000 + (2 << 20) - 99_999, 999] {
            let refused = next(&mut reader, &target(&to, offset, 100_000)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
        let end = 1000 + (2 << 20) - 100_000;
        assert_eq!(next(&mut reader, &target(&to, end, 100_000)).await.unwrap(), 100_000);
        wanted[(2 << 20) - 100_000..].copy_from_slice(&pattern(100_000, 5));
        assert!(region.take().unwrap()[..] == wanted);
        let gone = next(&mut reader, &target(&to, 1000, 100_000)).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Interrupted);
        assert!(reader.next_or_place(|_, _| None).await.unwrap().is_none());
        sending.await.unwrap();
    }
}

/// Cancelled before the payload or in the middle of it, nothing more is written to memory, which
/// others go on using, and the stream goes on; a connection that ends in a payload is truncated.
#[tokio::test]
async fn cancelling_stops_the_writing_to_memory() {
    let payload = pattern(1 << 20, 1);
    let wire = record(&payload, 0);
    let half = wire.len() / 2;
    for early in [true, false] {
        let (mut far, mut reader, _write) = pair().await;
        let region = MemoryRegion::owned(vec![0; 2 << 20].into());
        let to = Arc::new(Destination::memory(region.clone(), 0));
        let (p, good) = (target(&to, 0, payload.len()), target(&to, 1 << 20, payload.len()));
        let (guard, seen) = (p.guard.clone(), region.clone());
        let (wire, last) = (wire.clone(), payload[half - AT - 5]);
        let sending = tokio::spawn(async move {
            if early {
                guard.cancel();
            }
            far.write_all(&wire[..half]).await.unwrap();
            let arrived = || seen.fill(half - AT - 5, 1, |m| m[0] == last).unwrap_or(false);
            while !early && !arrived() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            guard.cancel();
            far.write_all(&wire[half..]).await.unwrap();
            far.write_all(&wire).await.unwrap();
            far.write_all(&wire[..half]).await.unwrap();
        });
        let stopped = next(&mut reader, &p).await.unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
        assert_eq!(next(&mut reader, &good).await.unwrap(), payload.len());
        let cut = reader.next_or_place(|_, _| Some(good.clone())).await;
        assert!(matches!(cut, Err(RecordIoError::Truncated)), "{cut:?}");
        let written = if early { 0 } else { half - AT - 4 };
        let memory = region.take().unwrap();
        assert!(memory[..written] == payload[..written]);
        assert!(memory[written..1 << 20].iter().all(|b| *b == 0));
        sending.await.unwrap();
    }
}
