//! Filehandles and stateids of a COMPOUND: RFC 8881 §16.2.3.1, §18.8, §18.19-§18.21, §18.27,
//! §18.28.

use bytes::Bytes;
use weft_nfs::{FileHandle, NfsStat, OpArgs, Stateid, ops::CreateType};

use crate::support::*;

/// Handles that cannot be ours, whatever is wrong with them.
#[tokio::test]
async fn bad_handles() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let root = c.compound().putrootfh().getfh().send().await.ok().fh();
    let mut forms: Vec<Vec<u8>> = (0..root.0.len()).map(|n| root.0[..n].to_vec()).collect();
    forms.push([&root.0[..], &[0]].concat());
    forms.push(vec![0xff; 128]);
    for i in 0..4 {
        let mut flipped = root.0.to_vec();
        flipped[i] ^= 0x80;
        forms.push(flipped);
    }
    for form in forms {
        let fh = FileHandle(Bytes::from(form));
        c.compound().putfh(&fh).expect(NfsStat::BADHANDLE).await;
    }
}

/// Handles of our form that lead nowhere: another volume, an inode that never was, one that is
/// gone.
#[tokio::test]
async fn stale_handles() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let gone = c.public_dir("gone").await;
    c.compound().putrootfh().op(remove("gone")).send().await.ok();
    c.compound().putfh(&gone).expect(NfsStat::STALE).await;
    for at in [4, 7, 8, 15] {
        let mut forged = gone.0.to_vec();
        forged[at] ^= 0x40;
        let fh = FileHandle(Bytes::from(forged));
        c.compound().putfh(&fh).expect(NfsStat::STALE).await;
    }
}

/// A directory that goes while it is the current filehandle.
#[tokio::test]
async fn stale_in_the_middle() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let ops = c.compound().putfh(&dir).savefh().putrootfh().op(remove("d")).restorefh();
    let reply = ops.getfh().op(mkdir("x")).expect(NfsStat::STALE).await;
    assert_eq!(reply.fh(), dir);
}

/// Operations that need a filehandle, without one.
#[tokio::test]
async fn no_filehandle() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let need_current = [
        OpArgs::Getfh,
        OpArgs::Savefh,
        OpArgs::Lookupp,
        OpArgs::Readlink,
        lookup("x"),
        mkdir("x"),
        remove("x"),
        access(1),
        getattr(&[]),
        setattr(Stateid::ANONYMOUS, mode(0)),
        read(Stateid::ANONYMOUS, 0, 1),
        write(Stateid::ANONYMOUS, 0, b"x"),
        close(Stateid::ANONYMOUS),
        OpArgs::Open(open_create("o", "x")),
        OpArgs::Readdir(readdir(0, 4096, &[])),
        OpArgs::Layoutget(layoutget(Stateid::ANONYMOUS, weft_nfs::IoMode::READ)),
        OpArgs::Layoutcommit(layoutcommit(Stateid::ANONYMOUS, None)),
        OpArgs::Layoutreturn(layoutreturn(Stateid::ANONYMOUS, weft_nfs::IoMode::ANY)),
        lockt("o", weft_nfs::LockType::Read, 0, 1),
        locku(Stateid::ANONYMOUS, 0, 1),
    ];
    for op in need_current {
        let what = format!("{op:?}");
        let reply = c.compound().op(op).send().await;
        assert_eq!(reply.status(), NfsStat::NOFILEHANDLE, "{what}");
    }
    for op in [OpArgs::Restorefh, link("x"), rename("a", "b")] {
        let what = format!("{op:?}");
        let reply = c.compound().putrootfh().op(op).send().await;
        assert_eq!(reply.status(), NfsStat::NOFILEHANDLE, "{what}");
    }
}

/// What is no file is refused with a status that the operation has (RFC 8881 §15.2), a stateid that
/// is not there likewise.
#[tokio::test]
async fn no_files() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = mkdir("dir");
    let (link, fifo) = (symlink("link", "x"), create(CreateType::Fifo, "fifo", mode(0o644)));
    let cases = [
        (dir, [NfsStat::ISDIR, NfsStat::ISDIR]),
        (link, [NfsStat::SYMLINK, NfsStat::WRONG_TYPE]),
        (fifo, [NfsStat::BADLAYOUT, NfsStat::WRONG_TYPE]),
    ];
    for (make, [committed, returned]) in cases {
        let made = c.compound().putrootfh().op(make).getfh().send().await.ok();
        let cases = [
            (locku(Stateid::ANONYMOUS, 0, 1), NfsStat::BAD_STATEID),
            (OpArgs::Layoutcommit(layoutcommit(Stateid::ANONYMOUS, None)), committed),
            (
                OpArgs::Layoutreturn(layoutreturn(Stateid::ANONYMOUS, weft_nfs::IoMode::ANY)),
                returned,
            ),
        ];
        for (op, status) in cases {
            c.compound().putfh(&made.fh()).op(op).expect(status).await;
        }
    }
    let (file, _) = c.file("file").await;
    let commit = OpArgs::Layoutcommit(layoutcommit(Stateid::CURRENT, None));
    c.compound().putfh(&file).op(commit).expect(NfsStat::BADLAYOUT).await;
}

/// SAVEFH and RESTOREFH carry the filehandle, and every COMPOUND begins without any.
#[tokio::test]
async fn saved_and_current() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let root = c.compound().putrootfh().getfh().send().await.ok().fh();
    let reply = c.compound().putfh(&dir).savefh().putrootfh().restorefh().getfh().send().await;
    assert_eq!(reply.ok().fh(), dir);
    let reply = c.compound().op(OpArgs::Putpubfh).getfh().send().await.ok();
    assert_eq!(reply.fh(), root);
    c.compound().getfh().expect(NfsStat::NOFILEHANDLE).await;
    c.compound().putrootfh().restorefh().expect(NfsStat::NOFILEHANDLE).await;
}

/// The current stateid: OPEN sets it, its users take it, a new filehandle clears it, SAVEFH and
/// RESTOREFH carry it.
#[tokio::test]
async fn current_stateid() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let cur = Stateid::CURRENT;
    let ops = c.compound().putrootfh().open_create("f").op(read(cur, 0, 1)).op(close(cur));
    ops.expect(NfsStat::OK).await;
    c.compound().putrootfh().lookup("f").op(read(cur, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    let moved = c.compound().putrootfh().open_create("f").putrootfh().lookup("f");
    moved.op(read(cur, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    let saved = c.compound().putrootfh().open_create("f").savefh().putrootfh().restorefh();
    saved.op(close(cur)).expect(NfsStat::OK).await;
    // A closed state is not the current one any more.
    let twice = c.compound().putrootfh().open_create("f").op(close(cur)).op(close(cur));
    twice.expect(NfsStat::BAD_STATEID).await;
}
