//! Limits that one client can reach by asking for more and more, or for too much at once, as
//! `docs/limits.md` lists them. Others are tested with the state machines and the wire types.

use weft_nfs::{
    AttrNo, Attrs, Bitmap, FileHandle, LockType, NfsStat, OpArgs, Stateid,
    ops::{SetxattrOption, TestStateidArgs},
};

use crate::support::*;

/// Operations of one kind in a COMPOUND, beside SEQUENCE and PUTFH.
const BATCH: usize = 30;

/// Sends many operations on one file, batch by batch; the status of the last one.
async fn all_of(
    c: &mut Client,
    fh: &FileHandle,
    count: usize,
    op: impl Fn(usize) -> OpArgs,
) -> NfsStat {
    for from in (0..count).step_by(BATCH) {
        let batch = from..count.min(from + BATCH);
        let request = batch.fold(c.compound().putfh(fh), |r, n| r.op(op(n)));
        let reply = request.send().await;
        if reply.status() != NfsStat::OK {
            return reply.status();
        }
    }
    NfsStat::OK
}

/// Ranges of a file are locked up to the limit and not beyond it; other files are not concerned,
/// and CLOSE gives all of them back.
#[tokio::test]
async fn locked_ranges_of_a_file() {
    const RANGES_PER_FILE_MAX: usize = 1 << 14;
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let first = OpArgs::Lock(lock_new(open, "o", LockType::Write, 0, 1));
    let lock = c.compound().putfh(&fh).op(first).send().await.ok().stateid();
    let lock = Stateid { seqid: weft_nfs::Seqid(0), ..lock };
    let more = |n| OpArgs::Lock(lock_more(lock, LockType::Write, 2 * (n as u64 + 1), 1));
    // One less: a LOCK may make two ranges of one, which is counted before.
    assert_eq!(all_of(&mut c, &fh, RANGES_PER_FILE_MAX - 2, more).await, NfsStat::OK);
    c.compound().putfh(&fh).op(more(RANGES_PER_FILE_MAX)).expect(NfsStat::DELAY).await;
    let (other, of_other) = c.file("g").await;
    let there = OpArgs::Lock(lock_new(of_other, "o", LockType::Write, 0, 1));
    c.compound().putfh(&other).op(there).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
    let (fh, open) = c.file("f").await;
    let again = OpArgs::Lock(lock_new(open, "o", LockType::Write, 0, 1));
    c.compound().putfh(&fh).op(again).expect(NfsStat::OK).await;
}

/// Counts that promise room for everything: the answer has what there is, and no more.
#[tokio::test]
async fn counts_beyond_everything() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    for n in 0..200 {
        c.compound()
            .putfh(&dir)
            .open_create(&format!("{n}"))
            .op(close(Stateid::CURRENT))
            .send()
            .await
            .ok();
    }
    let mut everything = Attrs::KNOWN;
    for set_only in [
        AttrNo::TIME_ACCESS_SET,
        AttrNo::TIME_MODIFY_SET,
        AttrNo::MODE_UMASK,
        AttrNo::MODE_SET_MASKED,
    ] {
        everything.remove(set_only);
    }
    for attrs in [Bitmap::EMPTY, everything] {
        let ask = weft_nfs::ops::ReaddirArgs { attr_request: attrs, ..readdir(0, u32::MAX, &[]) };
        let reply = c.compound().putfh(&dir).op(OpArgs::Readdir(ask)).send().await.ok();
        assert_eq!(reply.readdir().entries.len(), 200);
    }
    let (fh, open) = c.file("f").await;
    for n in 0..20 {
        let set = setxattr(SetxattrOption::EITHER, &format!("{n}"), &[7; 1000]);
        c.compound().putfh(&fh).op(set).send().await.ok();
    }
    let list = c.compound().putfh(&fh).op(listxattrs(0, u32::MAX)).send().await.ok();
    assert_eq!(list.xattrs().names.len(), 20);
    c.compound().putfh(&fh).op(write(open, 0, b"data")).send().await.ok();
    let (data, eof) = c.compound().putfh(&fh).op(read(open, 0, u32::MAX)).send().await.ok().data();
    assert_eq!((&data[..], eof), (&b"data"[..], true));
}

/// TEST_STATEID takes 1024 stateids, and not one more.
#[tokio::test]
async fn stateids_of_one_test() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let test =
        |count| OpArgs::TestStateid(TestStateidArgs { stateids: vec![Stateid::INVALID; count] });
    c.compound().op(test(1024)).expect(NfsStat::OK).await;
    c.compound().op(test(1025)).expect(NfsStat::BADXDR).await;
}
