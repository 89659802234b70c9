//! The data server's protocol through a real socket.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use weft_client::{
    core::Role,
    rpc::Credential,
    session::{Session, SessionOptions},
};
use weft_layout::{DataServerHandle, HandleKey, HandleKeys, Rights, Slots};
use weft_nfs::{Bitmap, FileHandle, NfsStat, OpArgs, OpOk, StableHow, Stateid, Verifier, ops::*};
use weft_store::{
    objects::{CachePolicy, ObjectId},
    types::fence_epoch::ROW,
};
use weft_xdr::Payload;

use crate::testing::{TestDs, secret};

mod local;

const MIB: u64 = 1 << 20;

/// A file over two data servers, in units of 1 MiB; the one under test holds the even ones.
#[derive(Clone)]
struct File {
    volume: u32,
    object: u64,
    fence_epoch: u32,
    data_servers: u16,
}

fn file(object: u64) -> File {
    File { volume: 3, object, fence_epoch: 0, data_servers: 2 }
}

impl File {
    fn handle(&self, rights: Rights, key: &HandleKey) -> Bytes {
        let handle = DataServerHandle {
            rights,
            makes: true,
            ends: false,
            slots: Slots::One(0),
            volume: self.volume,
            object: self.object,
            epoch: self.fence_epoch,
            stripe_count: self.data_servers,
            stripe_unit_mib: 1,
            verifier_mask: None,
        };
        Bytes::copy_from_slice(&handle.seal(key))
    }
}

fn handle(ds: &TestDs, file: &File, rights: Rights) -> Bytes {
    file.handle(rights, &ds.handle_key())
}

fn rw(ds: &TestDs, file: &File) -> Bytes {
    handle(ds, file, Rights::READ_WRITE)
}

fn id(file: &File) -> ObjectId {
    ObjectId { volume: file.volume, object: file.object }
}

/// A data server that serves the volume of these files.
async fn serving() -> TestDs {
    let ds = TestDs::start(1).await;
    ds.serve_volume(3);
    ds
}

/// A session of a new client.
async fn session(ds: &TestDs) -> Session {
    static CLIENTS: AtomicU32 = AtomicU32::new(0);
    let name = format!("test-{}", CLIENTS.fetch_add(1, Relaxed));
    let credential = Credential::sys("test", 0, 0, &[]);
    let options = SessionOptions::new(Role::Ds, Bytes::from(name), credential);
    Session::open(ds.addr, options).await.unwrap()
}

fn read(offset: u64, count: u32) -> OpArgs {
    OpArgs::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset, count })
}

fn write(offset: u64, data: &[u8], stable: StableHow) -> OpArgs {
    let data = Payload::Bytes(Bytes::copy_from_slice(data));
    OpArgs::Write(WriteArgs { stateid: Stateid::ANONYMOUS, offset, stable, data })
}

fn commit() -> OpArgs {
    OpArgs::Commit(CommitArgs { offset: 0, count: 0 })
}

/// PUTFH and one operation: its result, or the status of whichever failed.
async fn on(session: &Session, handle: &[u8], op: OpArgs) -> Result<OpOk, NfsStat> {
    let object = FileHandle(Bytes::copy_from_slice(handle));
    let ops = vec![OpArgs::Putfh(PutfhArgs { object }), op];
    let mut outcome = session.compound_outcome(ops).await.unwrap();
    match outcome.failed {
        Some(f) => Err(f.failure.status),
        None => Ok(outcome.done.pop().unwrap()),
    }
}

async fn status(session: &Session, handle: &[u8], op: OpArgs) -> NfsStat {
    on(session, handle, op).await.err().unwrap_or(NfsStat::OK)
}

/// The data of a READ, which never says eof.
async fn data(session: &Session, handle: &[u8], offset: u64, count: u32) -> Result<Bytes, NfsStat> {
    match on(session, handle, read(offset, count)).await? {
        OpOk::Read(ReadOk { eof: false, data: Payload::Bytes(data) }) => Ok(data),
        other => panic!("{other:?}"),
    }
}

async fn written(session: &Session, handle: &[u8], op: OpArgs) -> Result<WriteOk, NfsStat> {
    match on(session, handle, op).await? {
        OpOk::Write(ok) => Ok(ok),
        other => panic!("{other:?}"),
    }
}

async fn committed(session: &Session, handle: &[u8]) -> Verifier {
    match on(session, handle, commit()).await {
        Ok(OpOk::Commit(ok)) => ok.verifier,
        other => panic!("{other:?}"),
    }
}

/// What is written is read; past the local end a READ is short but never the end of the file, and
/// where there is nothing the answer is PNFS_IO_HOLE. Bytes are counted.
#[tokio::test]
async fn data_goes_in_and_out() {
    let ds = serving().await;
    let session = session(&ds).await;
    let fh = rw(&ds, &file(7));
    assert_eq!(data(&session, &fh, 0, 10).await, Err(NfsStat::PNFS_IO_HOLE));
    assert!(!ds.dir_has_objects(), "a READ makes nothing");
    let big: Vec<u8> = (0..MIB).map(|i| (i % 251) as u8).collect();
    let at = 2 * MIB;
    let ok = written(&session, &fh, write(at, &big, StableHow::UNSTABLE)).await.unwrap();
    assert_eq!((ok.count, ok.committed), (1 << 20, StableHow::UNSTABLE));
    assert_eq!(data(&session, &fh, at, 1 << 20).await.unwrap(), big);
    assert_eq!(data(&session, &fh, at + 5, 3).await.unwrap(), big[5..8]);
    let ok = written(&session, &fh, write(4 * MIB, b"tail", StableHow::UNSTABLE)).await.unwrap();
    assert_eq!(ok.count, 4);
    assert_eq!(data(&session, &fh, 4 * MIB + 1, 100).await.unwrap(), b"ail"[..]);
    assert_eq!(data(&session, &fh, 4 * MIB + 4, 1).await, Err(NfsStat::PNFS_IO_HOLE));
    assert_eq!(data(&session, &fh, 0, 4).await.unwrap(), [0; 4][..], "a hole inside is zeros");
    assert_eq!(data(&session, &fh, 100 * MIB, 0).await.unwrap(), b""[..]);
    let counters = &ds.ds().core.counters;
    let load = std::sync::atomic::Ordering::Relaxed;
    assert_eq!(counters.bytes_in.load(load), MIB + 4);
    assert_eq!(counters.bytes_out.load(load), MIB + 3 + 3 + 4);
}

/// A large WRITE comes so into memory that it goes past the page cache, where the file system can
/// do that; what lies at no whole pages does not. What comes back is what was written.
#[tokio::test]
async fn large_writes_go_past_the_page_cache() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let ds = TestDs::start_in(1, dir, CachePolicy::Direct).await;
    ds.serve_volume(3);
    if !ds.store().passes_cache() {
        return eprintln!("this file system was not tried past its cache: nothing to see");
    }
    let session = session(&ds).await;
    let fh = rw(&ds, &file(7));
    let big: Vec<u8> = (0..MIB).map(|i| (i % 241) as u8).collect();
    let passed = || ds.store().written_past_cache();
    // Every second unit is this object's.
    for (n, stable) in [(0, StableHow::UNSTABLE), (1, StableHow::FILE_SYNC)] {
        written(&session, &fh, write(2 * n * MIB, &big, stable)).await.unwrap();
        assert_eq!(passed(), (n + 1) * MIB);
        assert_eq!(data(&session, &fh, 2 * n * MIB, 1 << 20).await.unwrap(), big);
    }
    let part = &big[..1 << 19];
    written(&session, &fh, write(5, part, StableHow::UNSTABLE)).await.unwrap();
    assert_eq!(passed(), 2 * MIB);
    assert_eq!(data(&session, &fh, 5, 1 << 19).await.unwrap(), part);
    assert_eq!(
        data(&session, &fh, 0, 1 << 20).await.unwrap()[5 + part.len()..],
        big[5 + part.len()..]
    );
    // The object ends within a page.
    written(&session, &fh, write(4 * MIB, &big[..9], StableHow::UNSTABLE)).await.unwrap();
    assert_eq!(data(&session, &fh, 4 * MIB, 1 << 20).await.unwrap(), big[..9]);
}

/// Synchronous writes say so, and COMMIT tells the verifier of the writes before it. A restart of
/// the process keeps it, one of the machine changes it, for a client that just goes on.
#[tokio::test]
async fn the_verifier_tells_of_a_boot() {
    let mut ds = serving().await;
    let session = session(&ds).await;
    let fh = rw(&ds, &file(7));
    let unstable = written(&session, &fh, write(0, b"abc", StableHow::UNSTABLE)).await.unwrap();
    for stable in [StableHow::DATA_SYNC, StableHow::FILE_SYNC] {
        let ok = written(&session, &fh, write(3, b"def", stable)).await.unwrap();
        assert_eq!((ok.committed, ok.writeverf), (StableHow::FILE_SYNC, unstable.writeverf));
    }
    assert_eq!(committed(&session, &fh).await, unstable.writeverf);
    ds.kill().await;
    ds.start_again().await;
    assert_eq!(committed(&session, &fh).await, unstable.writeverf);
    ds.kill().await;
    ds.boot_anew();
    ds.start_again().await;
    assert_eq!(data(&session, &fh, 0, 9).await.unwrap(), b"abcdef"[..]);
    let after = committed(&session, &fh).await;
    assert_ne!(after, unstable.writeverf);
    let ok = written(&session, &fh, write(0, b"x", StableHow::UNSTABLE)).await.unwrap();
    assert_eq!(ok.writeverf, after);
}

/// Every truncation, extension and bit flip of a handle, and one sealed by another cluster, is
/// BADHANDLE for every operation; nothing is made on the disk.
#[tokio::test]
async fn forged_handles_are_refused() {
    let ds = serving().await;
    let session = session(&ds).await;
    let good = rw(&ds, &file(7));
    let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|n| good[..n].to_vec()).collect();
    bad.push([&good[..], &[0]].concat());
    bad.push(vec![0xff; 128]);
    for bit in 0..good.len() * 8 {
        let mut flipped = good.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        bad.push(flipped);
    }
    let (ours, dir) = (secret().handle_keys(), ds.store().identity());
    let theirs = HandleKeys::derive(b"another cluster's secret");
    // Of another cluster, for another data server, for another directory of this one.
    for other in [theirs.of(1, dir), ours.of(2, dir), ours.of(1, [0; 16])] {
        bad.push(file(7).handle(Rights::READ_WRITE, &other).to_vec());
    }
    for handle in &bad {
        let op = write(0, b"evil", StableHow::UNSTABLE);
        assert_eq!(status(&session, handle, op).await, NfsStat::BADHANDLE, "{handle:02x?}");
    }
    assert_eq!(status(&session, &bad[5], read(0, 1)).await, NfsStat::BADHANDLE);
    assert_eq!(status(&session, &bad[5], commit()).await, NfsStat::BADHANDLE);
    assert!(!ds.dir_has_objects());
}

/// A range that belongs to another data server, wholly or in part, is refused and never stored.
#[tokio::test]
async fn another_stripe_is_refused() {
    let ds = serving().await;
    let session = session(&ds).await;
    let fh = rw(&ds, &file(7));
    for (offset, len) in [(MIB, 1), (MIB - 1, 2), (3 * MIB, 4096), (2 * MIB - 1, 2)] {
        let bytes = vec![1; len as usize];
        let op = write(offset, &bytes, StableHow::UNSTABLE);
        assert_eq!(status(&session, &fh, op).await, NfsStat::INVAL, "{offset}+{len}");
        assert_eq!(status(&session, &fh, read(offset, len)).await, NfsStat::INVAL);
    }
    assert!(!ds.dir_has_objects());
    let last = write(MIB - 1, b"!", StableHow::UNSTABLE);
    assert_eq!(status(&session, &fh, last).await, NfsStat::OK);
    assert_eq!(ds.store().stat(id(&file(7))).unwrap().size, MIB);
}

/// A read-only handle reads, and neither writes nor commits.
#[tokio::test]
async fn a_read_handle_only_reads() {
    let ds = serving().await;
    let session = session(&ds).await;
    let fh = handle(&ds, &file(7), Rights::READ);
    let none = handle(&ds, &file(7), Rights { read: false, write: false });
    let op = || write(0, b"abc", StableHow::UNSTABLE);
    assert_eq!(status(&session, &fh, op()).await, NfsStat::ACCESS);
    assert_eq!(status(&session, &fh, commit()).await, NfsStat::ACCESS);
    assert!(!ds.dir_has_objects());
    assert_eq!(status(&session, &rw(&ds, &file(7)), op()).await, NfsStat::OK);
    assert_eq!(data(&session, &fh, 0, 3).await.unwrap(), b"abc"[..]);
    assert_eq!(status(&session, &none, read(0, 3)).await, NfsStat::ACCESS);
}

/// After a fence, handles of before are refused in every way, over a restart too; newer ones
/// work. A removed object refuses all.
#[tokio::test]
async fn fenced_handles_are_refused() {
    let mut ds = serving().await;
    let session = session(&ds).await;
    let old = file(7);
    let new = File { fence_epoch: 5, ..old.clone() };
    let op = || write(0, b"abc", StableHow::UNSTABLE);
    assert_eq!(status(&session, &rw(&ds, &old), op()).await, NfsStat::OK);
    ds.store().fence(id(&old), 5).unwrap();
    for _ in 0..2 {
        let ancient = File { fence_epoch: 4, ..old.clone() };
        for stale in [rw(&ds, &old), rw(&ds, &ancient), handle(&ds, &old, Rights::READ)] {
            assert_eq!(status(&session, &stale, read(0, 1)).await, NfsStat::PNFS_NO_LAYOUT);
        }
        for op in [op(), write(0, b"x", StableHow::FILE_SYNC), commit()] {
            assert_eq!(status(&session, &rw(&ds, &old), op).await, NfsStat::PNFS_NO_LAYOUT);
        }
        assert_eq!(data(&session, &rw(&ds, &new), 0, 3).await.unwrap(), b"abc"[..]);
        assert_eq!(status(&session, &rw(&ds, &new), op()).await, NfsStat::OK);
        // A client with an old handle that only replays after the restart fares no better.
        ds.kill().await;
        ds.start_again().await;
    }
    ds.store().remove(id(&old)).unwrap();
    for op in [op(), read(0, 1), commit()] {
        assert_eq!(status(&session, &rw(&ds, &new), op).await, NfsStat::PNFS_NO_LAYOUT);
    }
}

/// A handle of a later epoch ends those to write of before, and who reads goes on until there is
/// one of after a fence: also where nobody told so, and over a restart.
#[tokio::test]
async fn who_comes_next_ends_who_wrote() {
    let mut ds = serving().await;
    let session = session(&ds).await;
    let op = || write(0, b"abc", StableHow::UNSTABLE);
    let [old, next, fenced] = [0, 1, ROW].map(|fence_epoch| File { fence_epoch, ..file(7) });
    let reads = |f: &File| handle(&ds, f, Rights::READ);
    let [reads_old, reads_fenced] = [&old, &fenced].map(reads);
    let [writes_old, writes_next] = [&old, &next].map(|f| rw(&ds, f));
    assert_eq!(status(&session, &writes_old, op()).await, NfsStat::OK);
    assert_eq!(data(&session, &reads(&next), 0, 3).await.unwrap(), b"abc"[..]);
    for _ in 0..2 {
        assert_eq!(status(&session, &writes_old, op()).await, NfsStat::PNFS_NO_LAYOUT);
        assert_eq!(data(&session, &reads_old, 0, 3).await.unwrap(), b"abc"[..]);
        assert_eq!(status(&session, &writes_next, op()).await, NfsStat::OK);
        ds.kill().await;
        ds.start_again().await;
    }
    assert_eq!(data(&session, &reads_fenced, 0, 3).await.unwrap(), b"abc"[..]);
    for stale in [reads_old, writes_old, writes_next] {
        assert_eq!(status(&session, &stale, read(0, 1)).await, NfsStat::PNFS_NO_LAYOUT);
    }
}

/// Ranges beyond what can be addressed or stored are refused.
#[tokio::test]
async fn ranges_are_checked() {
    let ds = serving().await;
    let session = session(&ds).await;
    let mut alone = file(9);
    alone.data_servers = 1;
    let fh = rw(&ds, &alone);
    let w = |offset| write(offset, b"ab", StableHow::UNSTABLE);
    assert_eq!(status(&session, &fh, w(u64::MAX - 1)).await, NfsStat::INVAL);
    assert_eq!(status(&session, &fh, w(i64::MAX as u64 - 1)).await, NfsStat::FBIG);
    assert_eq!(status(&session, &fh, w(u64::MAX - 2)).await, NfsStat::FBIG);
    assert_eq!(status(&session, &fh, read(u64::MAX, 2)).await, NfsStat::INVAL);
    assert_eq!(status(&session, &fh, read(u64::MAX - 2, 2)).await, NfsStat::PNFS_IO_HOLE);
    let range = OpArgs::Commit(CommitArgs { offset: u64::MAX, count: 1 });
    assert_eq!(status(&session, &fh, range).await, NfsStat::INVAL);
    let stable = write(0, b"x", StableHow(3));
    assert_eq!(status(&session, &fh, stable).await, NfsStat::INVAL);
    assert!(!ds.dir_has_objects());
    // A READ of more than a reply holds is short, not refused.
    let big = vec![7; 1 << 20];
    assert_eq!(status(&session, &fh, write(0, &big, StableHow::UNSTABLE)).await, NfsStat::OK);
    assert_eq!(status(&session, &fh, write(MIB, &big, StableHow::UNSTABLE)).await, NfsStat::OK);
    let got = data(&session, &fh, 0, u32::MAX).await.unwrap();
    assert!(got.len() >= 1 << 20 && got.iter().all(|b| *b == 7), "{}", got.len());
}

/// Writes of nothing make nothing; any stateid will do; objects of volumes that are not served
/// are nobody's.
#[tokio::test]
async fn what_is_not_looked_at() {
    let ds = serving().await;
    let session = session(&ds).await;
    let fh = rw(&ds, &file(7));
    assert_eq!(status(&session, &fh, write(0, b"", StableHow::UNSTABLE)).await, NfsStat::OK);
    assert_eq!(status(&session, &fh, commit()).await, NfsStat::OK);
    assert!(!ds.dir_has_objects());
    for (n, stateid) in [
        Stateid::READ_BYPASS,
        Stateid::INVALID,
        Stateid { seqid: weft_nfs::Seqid(0), other: [9; 12] },
    ]
    .into_iter()
    .enumerate()
    {
        let data = Payload::Bytes(Bytes::from_static(b"s"));
        let op = WriteArgs { stateid, offset: n as u64, stable: StableHow::UNSTABLE, data };
        assert_eq!(status(&session, &fh, OpArgs::Write(op)).await, NfsStat::OK);
    }
    let elsewhere = File { volume: 4, ..file(7) };
    assert_eq!(data(&session, &rw(&ds, &elsewhere), 0, 1).await, Err(NfsStat::STALE));
}

/// A data server has no namespace, no attributes and no state of its own.
#[tokio::test]
async fn everything_else_is_not_supported() {
    let ds = serving().await;
    let session = session(&ds).await;
    let object = FileHandle(rw(&ds, &file(7)));
    let stateid = Stateid::ANONYMOUS;
    for op in [
        OpArgs::Putrootfh,
        OpArgs::Getfh,
        OpArgs::Getattr(GetattrArgs { request: Bitmap::EMPTY }),
        OpArgs::SecinfoNoName(SecinfoNoNameArgs { style: 0 }),
        OpArgs::FreeStateid(FreeStateidArgs { stateid: Stateid::INVALID }),
        OpArgs::Allocate(AllocateArgs { stateid, offset: 0, length: 1 }),
        OpArgs::Deallocate(DeallocateArgs { stateid, offset: 0, length: 1 }),
        OpArgs::Seek(SeekArgs { stateid, offset: 0, what: DataContent::DATA }),
        OpArgs::IoAdvise(IoAdviseArgs { stateid, offset: 0, count: 0, hints: Bitmap::EMPTY }),
        OpArgs::OffloadStatus(OffloadStatusArgs { stateid }),
        OpArgs::OffloadCancel(OffloadCancelArgs { stateid }),
        OpArgs::Clone(CloneArgs {
            src_stateid: stateid,
            dst_stateid: stateid,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
        }),
    ] {
        let ops = vec![OpArgs::Putfh(PutfhArgs { object: object.clone() }), op];
        let outcome = session.compound_outcome(ops).await.unwrap();
        assert_eq!(outcome.failed.unwrap().failure.status, NfsStat::NOTSUPP);
    }
    let stateids = vec![Stateid::ANONYMOUS, Stateid::INVALID];
    let test = OpArgs::TestStateid(TestStateidArgs { stateids });
    match &session.compound(vec![test]).await.unwrap()[..] {
        [OpOk::TestStateid(ok)] => assert_eq!(ok.status_codes, [NfsStat::BAD_STATEID; 2]),
        other => panic!("{other:?}"),
    }
    for op in [read(0, 1), write(0, b"x", StableHow::UNSTABLE), commit()] {
        let failed = session.compound_outcome(vec![op]).await.unwrap().failed.unwrap();
        assert_eq!(failed.failure.status, NfsStat::NOFILEHANDLE);
    }
}
