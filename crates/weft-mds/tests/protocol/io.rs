//! READ, WRITE and COMMIT through the metadata server: RFC 8881 §18.3, §18.22, §18.32.

use bytes::Bytes;
use weft_nfs::{AttrNo, NfsStat, OpArgs, OpOk, StableHow, Stateid, ops::*, share};
use weft_xdr::Payload;

use crate::support::*;

/// Bytes that tell their place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 7 + i % 251) as u8).collect()
}

/// What is written over a stripe boundary is read back, with holes as zeros and the end told.
#[tokio::test]
async fn written_is_read() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let (at, data) = ((1 << 20) - 1000, pattern(5000));
    let done = c.compound().putfh(&fh).op(write(stateid, at, &data)).send().await.ok();
    let Ok(OpOk::Write(w)) = &done.last().result else { panic!("{done:?}") };
    assert_eq!((w.count, w.committed), (5000, StableHow::FILE_SYNC));
    let commit = OpArgs::Commit(CommitArgs { offset: 0, count: 0 });
    let done = c.compound().putfh(&fh).op(commit).send().await.ok();
    let Ok(OpOk::Commit(k)) = &done.last().result else { panic!("{done:?}") };
    assert_eq!(k.verifier, w.writeverf);
    let reply = c.compound().putfh(&fh).op(read(stateid, at, 9000)).send().await.ok();
    assert_eq!(reply.data(), (Bytes::from(data.clone()), true));
    let reply = c.compound().putfh(&fh).op(read(stateid, at, 4999)).send().await.ok();
    assert_eq!(reply.data(), (Bytes::copy_from_slice(&data[..4999]), false));
    let reply = c.compound().putfh(&fh).op(read(stateid, 0, 10)).send().await.ok();
    assert_eq!(reply.data(), (Bytes::from_static(&[0; 10]), false));
    for beyond in [at + 5000, 1 << 40, u64::MAX] {
        let reply = c.compound().putfh(&fh).op(read(stateid, beyond, 10)).send().await.ok();
        assert_eq!(reply.data(), (Bytes::new(), true));
    }
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(at + 5000));
}

/// A truncated file shows nothing of what was cut, also when it grows again.
#[tokio::test]
async fn truncation_cuts_data() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let data = pattern(3000);
    c.compound().putfh(&fh).op(write(stateid, 0, &data)).send().await.ok();
    c.compound().putfh(&fh).op(setattr(stateid, size(1000))).send().await.ok();
    c.compound().putfh(&fh).op(setattr(stateid, size(3000))).send().await.ok();
    let reply = c.compound().putfh(&fh).op(read(stateid, 0, 3000)).send().await.ok();
    let mut expected = data[..1000].to_vec();
    expected.resize(3000, 0);
    assert_eq!(reply.data(), (Bytes::from(expected), true));
}

/// Stateids, modes and ranges that are refused; nothing is written by any of them.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, stateid) = c.file("f").await;
    let (_, foreign) = other.file("g").await;
    let read_only = OpenArgs { share_access: share::ACCESS_READ, ..open("ro", OpenClaim::Fh) };
    let read_only = c.compound().putfh(&fh).open(read_only).send().await.ok().stateid();
    let with = |stable| {
        OpArgs::Write(WriteArgs {
            stateid,
            offset: 0,
            stable,
            data: Payload::Bytes(Bytes::from_static(b"x")),
        })
    };
    let cases = [
        (write(read_only, 0, b"x"), NfsStat::OPENMODE),
        (write(foreign, 0, b"x"), NfsStat::BAD_STATEID),
        (write(Stateid::INVALID, 0, b"x"), NfsStat::BAD_STATEID),
        (write(stateid, u64::MAX, b"x"), NfsStat::FBIG),
        (write(stateid, i64::MAX as u64, b"x"), NfsStat::FBIG),
        (with(StableHow(3)), NfsStat::INVAL),
        (read(foreign, 0, 1), NfsStat::BAD_STATEID),
        (OpArgs::Commit(CommitArgs { offset: u64::MAX, count: 2 }), NfsStat::INVAL),
    ];
    for (op, status) in cases {
        let what = format!("{op:?}");
        let reply = c.compound().putfh(&fh).op(op).send().await;
        assert_eq!(reply.status(), status, "{what}");
    }
    let mode_0 = setattr(Stateid::ANONYMOUS, mode(0));
    c.compound().putfh(&fh).op(mode_0).send().await.ok();
    for op in [write(Stateid::ANONYMOUS, 0, b"x"), read(Stateid::ANONYMOUS, 0, 1)] {
        c.by_user(1000).putfh(&fh).op(op).expect(NfsStat::ACCESS).await;
    }
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(0));
}

/// I/O on what has no data.
#[tokio::test]
async fn other_objects() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let link = c.compound().putrootfh().op(symlink("l", "x")).getfh().send().await.ok().fh();
    let fifo = create(CreateType::Fifo, "fifo", mode(0o666));
    let fifo = c.compound().putrootfh().op(fifo).getfh().send().await.ok().fh();
    let on = [(dir, NfsStat::ISDIR), (link, NfsStat::SYMLINK), (fifo, NfsStat::WRONG_TYPE)];
    for (fh, status) in on {
        let any = Stateid::ANONYMOUS;
        let commit = OpArgs::Commit(CommitArgs { offset: 0, count: 0 });
        for op in [read(any, 0, 1), write(any, 0, b"x"), commit] {
            c.compound().putfh(&fh).op(op).expect(status).await;
        }
    }
}

/// A WRITE of nothing changes nothing.
#[tokio::test]
async fn empty_write() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let wanted = [AttrNo::CHANGE, AttrNo::SIZE];
    let before = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    c.compound().putfh(&fh).op(write(stateid, 77, b"")).send().await.ok();
    let after = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert_eq!(before.size, after.size);
}
