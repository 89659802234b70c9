//! COPY, and copies that go on after their reply: RFC 7862 §15.2, §15.8, §15.9, §16.1.

use weft_nfs::{
    AttrNo, FailureBody, IoMode, NfsStat, OpArgs, OpOk, Opaque, Seqid, StableHow, Stateid,
    Verifier, callback::OffloadInfo, ops::*, share, why_no_delegation,
};

use crate::support::*;

const MIB: u64 = 1 << 20;

/// Two files and their opens.
struct Pair {
    source: File,
    target: File,
}

impl Pair {
    async fn new(c: &mut Client) -> Pair {
        Pair { source: c.file("source").await, target: c.file("target").await }
    }

    /// A COPY to be changed by the test.
    fn args(&self, src_offset: u64, dst_offset: u64, count: u64) -> CopyArgs {
        CopyArgs {
            src_stateid: self.source.1,
            dst_stateid: self.target.1,
            src_offset,
            dst_offset,
            count,
            consecutive: true,
            synchronous: false,
            source_server: Netlocs::default(),
        }
    }

    async fn copy(&self, c: &mut Client, args: CopyArgs) -> Reply {
        let files = c.compound().putfh(&self.source.0).savefh().putfh(&self.target.0);
        files.op(OpArgs::Copy(args)).send().await
    }
}

fn copied(reply: Reply) -> CopyOk {
    let reply = reply.ok();
    let Ok(OpOk::Copy(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.clone()
}

async fn commit(c: &mut Client, file: &File) -> Verifier {
    let commit = OpArgs::Commit(CommitArgs { offset: 0, count: 0 });
    let reply = c.compound().putfh(&file.0).op(commit).send().await.ok();
    let Ok(OpOk::Commit(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.verifier
}

/// Copies between places that line up on the data servers and such that do not, over data and
/// holes, within and beyond the end, give what copying a plain array gives; the reply says that
/// all is done and durable.
#[tokio::test]
async fn copies_are_exact() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    // A source with a hole of two units and a half, and one at its end.
    let mut source = pattern(6 * MIB);
    let hole = (MIB + MIB / 2) as usize..4 * MIB as usize;
    source[hole.clone()].fill(0);
    source.resize(7 * MIB as usize + 100, 0);
    let cases = [
        (0, 0, 0),
        (0, 0, 100),
        (0, 3 * MIB, 0),
        (MIB, 0, 3 * MIB),
        (5, 5 + MIB, 4 * MIB),
        (1, 0, 3 * MIB + 17),
        (7 * MIB, 11, 100),
        (7 * MIB + 100, 0, 0),
        (3 * MIB, 9 * MIB, 2 * MIB),
    ];
    for (n, (from, to, count)) in cases.into_iter().enumerate() {
        let (s, t) = (format!("s{n}"), format!("t{n}"));
        let pair = Pair { source: c.file(&s).await, target: c.file(&t).await };
        fill(&mut c, &pair.source, 0, &source[..hole.start]).await;
        fill(&mut c, &pair.source, hole.end as u64, &source[hole.end..6 * MIB as usize]).await;
        let grow = setattr(pair.source.1, size(source.len() as u64));
        c.compound().putfh(&pair.source.0).op(grow).send().await.ok();
        // Half of the targets have data already.
        let mut model = if n % 2 == 0 { Vec::new() } else { vec![9; 2 << 20] };
        fill(&mut c, &pair.target, 0, &model).await;
        let ok = copied(pair.copy(&mut c, pair.args(from, to, count)).await);
        let len = if count == 0 { source.len() as u64 - from } else { count };
        assert_eq!((ok.response.count, ok.response.callback_id), (len, None));
        assert_eq!(ok.response.committed, StableHow::FILE_SYNC);
        assert_eq!(ok.requirements, CopyRequirements { consecutive: true, synchronous: true });
        let (from, to, len) = (from as usize, to as usize, len as usize);
        if len > 0 {
            model.resize(model.len().max(to + len), 0);
            model[to..to + len].copy_from_slice(&source[from..from + len]);
        }
        let same = contents(&mut c, &pair.target).await == model;
        assert!(same, "from {from} to {to}, {count} bytes");
        // Whatever was copied, holes only too: Linux copies again until both are the same.
        assert_eq!(ok.response.writeverf, commit(&mut c, &pair.target).await);
    }
}

/// A hole of the source takes no space in a new file, nor does the copy leave one untold.
#[tokio::test]
async fn holes_stay_holes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    fill(&mut c, &pair.source, 6 * MIB, &pattern(MIB)).await;
    copied(pair.copy(&mut c, pair.args(0, 0, 0)).await);
    let find = |what| OpArgs::Seek(SeekArgs { stateid: pair.target.1, offset: 0, what });
    let reply = c.compound().putfh(&pair.target.0).op(find(DataContent::DATA)).send().await.ok();
    let Ok(OpOk::Seek(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(*ok, SeekOk { eof: false, offset: 6 * MIB });
}

/// A copy is a write: the change attribute moves, and set-id bits go unless root copies.
#[tokio::test]
async fn a_copy_is_a_write() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    fill(&mut c, &pair.source, 0, b"data").await;
    let set = setattr(pair.target.1, mode(0o6755));
    c.compound().putfh(&pair.target.0).op(set).send().await.ok();
    let wanted = [AttrNo::CHANGE, AttrNo::MODE];
    let before = c.compound().putfh(&pair.target.0).getattr(&wanted).send().await.ok().attrs();
    let files = c.by_user(1000).putfh(&pair.source.0).savefh().putfh(&pair.target.0);
    files.op(OpArgs::Copy(pair.args(0, 0, 4))).send().await.ok();
    let after = c.compound().putfh(&pair.target.0).getattr(&wanted).send().await.ok().attrs();
    assert!(after.change > before.change);
    assert_eq!(after.mode, Some(0o755));
}

/// What is refused, each for its reason.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    fill(&mut c, &pair.source, 0, &[1; 100]).await;
    let (source, target) = (&pair.source, &pair.target);
    let only = |share_access| OpenArgs { share_access, ..open("only", OpenClaim::Fh) };
    let reads = only(share::ACCESS_READ);
    let read_only = c.compound().putfh(&target.0).open(reads).send().await.ok().stateid();
    let elsewhere = Netlocs(vec![Netloc::Name(Opaque(bytes::Bytes::from_static(b"other")))]);
    let good = || pair.args(0, 0, 100);
    let cases = [
        (CopyArgs { source_server: elsewhere, ..good() }, NfsStat::NOTSUPP),
        (CopyArgs { dst_stateid: read_only, ..good() }, NfsStat::OPENMODE),
        (CopyArgs { src_stateid: target.1, ..good() }, NfsStat::BAD_STATEID),
        (CopyArgs { dst_stateid: source.1, ..good() }, NfsStat::BAD_STATEID),
        (pair.args(0, 0, 101), NfsStat::INVAL),
        (pair.args(101, 0, 0), NfsStat::INVAL),
        (pair.args(u64::MAX, 0, 2), NfsStat::INVAL),
        (pair.args(0, i64::MAX as u64, 1), NfsStat::FBIG),
        (pair.args(0, u64::MAX, 0), NfsStat::FBIG),
    ];
    for (args, status) in cases {
        let what = format!("{args:?}");
        let reply = pair.copy(&mut c, args).await;
        assert_eq!(reply.status(), status, "{what}");
    }
    assert!(contents(&mut c, target).await.is_empty());
    // §15.2.3: two regular files, and not one and the same.
    let dir = c.public_dir("d").await;
    let same = CopyArgs { dst_stateid: source.1, ..good() };
    let op = || OpArgs::Copy(same.clone());
    c.compound().putfh(&source.0).savefh().op(op()).expect(NfsStat::INVAL).await;
    let swapped = c.compound().putfh(&dir).savefh().putfh(&target.0).op(op());
    swapped.expect(NfsStat::WRONG_TYPE).await;
    let swapped = c.compound().putfh(&source.0).savefh().putfh(&dir).op(op());
    swapped.expect(NfsStat::WRONG_TYPE).await;
    c.compound().putfh(&target.0).op(op()).expect(NfsStat::NOFILEHANDLE).await;
    // Without an open the modes decide.
    let any =
        CopyArgs { src_stateid: Stateid::ANONYMOUS, dst_stateid: Stateid::ANONYMOUS, ..good() };
    let files = c.by_user(1000).putfh(&source.0).savefh().putfh(&target.0);
    files.op(OpArgs::Copy(any.clone())).expect(NfsStat::ACCESS).await;
    copied(pair.copy(&mut c, any).await);
}

/// A source that is too large to be copied before the reply: mostly holes, so that it is quick.
async fn large(c: &mut Client, pair: &Pair) -> Vec<u8> {
    let mut data = vec![0; 70 << 20];
    for at in [0usize, 35 << 20, (70 << 20) - 5000] {
        let part = pattern(5000);
        data[at..at + 5000].copy_from_slice(&part);
        fill(c, &pair.source, at as u64, &part).await;
    }
    data
}

fn status_of(stateid: Stateid) -> OpArgs {
    OpArgs::OffloadStatus(OffloadStatusArgs { stateid })
}

/// A large copy goes on after its reply; the client is called when it has ended, and may ask
/// until it has answered (§4.8). Its end is durable.
#[tokio::test]
async fn large_copies_end_in_a_callback() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    let data = large(&mut c, &pair).await;
    for (to, consecutive) in [(0, true), (77, false)] {
        let args = CopyArgs { consecutive, ..pair.args(0, to, 0) };
        let ok = copied(pair.copy(&mut c, args).await);
        assert_eq!(ok.requirements, CopyRequirements { consecutive: true, synchronous: false });
        let id = ok.response.callback_id.expect("a copy stateid");
        assert_eq!(id.seqid, Seqid(1));
        let callback = c.wire.callback().await;
        let told = callback.offload().clone();
        assert_eq!((told.stateid, &told.fh), (id, &pair.target.0));
        let OffloadInfo::Done(done) = told.info else { panic!("{told:?}") };
        assert_eq!((done.count, done.callback_id), (data.len() as u64, None));
        assert_eq!(done.committed, StableHow::FILE_SYNC);
        let asked = c.compound().putfh(&pair.target.0).op(status_of(id)).send().await.ok();
        let Ok(OpOk::OffloadStatus(ok)) = &asked.last().result else { panic!("{asked:?}") };
        let complete = Some(NfsStat::OK);
        assert_eq!(*ok, OffloadStatusOk { count: data.len() as u64, complete });
        let cancel = OpArgs::OffloadCancel(OffloadCancelArgs { stateid: id });
        let late = c.compound().putfh(&pair.target.0).op(cancel);
        late.expect(NfsStat::COMPLETE_ALREADY).await;
        // A client that cannot say yet is called again.
        c.wire.answer(&callback, NfsStat::DELAY).await;
        let callback = c.wire.callback().await;
        assert_eq!(callback.offload().stateid, id);
        c.wire.answer(&callback, NfsStat::OK).await;
        let deadline = std::time::Instant::now() + PATIENCE;
        while c.compound().putfh(&pair.target.0).op(status_of(id)).send().await.status()
            != NfsStat::BAD_STATEID
        {
            assert!(std::time::Instant::now() < deadline, "the copy is never forgotten");
        }
        let all = contents(&mut c, &pair.target).await;
        assert!(all[to as usize..] == data, "to {to}");
    }
}

/// A client that wants to wait, or cannot be called, gets a short copy, and copies on.
#[tokio::test]
async fn large_copies_are_short_where_they_must_be_synchronous() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let silent = ClientOptions { back_channel: false, ..ClientOptions::new("b") };
    let mut silent = Client::with(cluster.address(), silent).await;
    for (c, synchronous) in [(&mut c, true), (&mut silent, false)] {
        let pair = Pair::new(c).await;
        let data = large(c, &pair).await;
        let mut done = 0;
        while done < data.len() as u64 {
            let args = CopyArgs { synchronous, ..pair.args(done, done, data.len() as u64 - done) };
            let ok = copied(pair.copy(c, args).await);
            assert_eq!(ok.response.callback_id, None);
            assert!(ok.response.count > 0 && ok.response.count <= 32 * MIB);
            done += ok.response.count;
        }
        assert!(contents(c, &pair.target).await == data);
    }
}

/// A copy that waits, because somebody else's truncation waits for a layout, is cancelled: it
/// stops before the reply, and no callback comes.
#[tokio::test]
async fn copies_are_cancelled() {
    let cluster = Cluster::striped(2).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let mut c = Client::mount(&cluster, "c").await;
    let pair = Pair::new(&mut c).await;
    large(&mut c, &pair).await;
    let (fh, of_a) = a.file("target").await;
    let get = OpArgs::Layoutget(layoutget(of_a, IoMode::RW));
    a.compound().putfh(&fh).op(get).send().await.ok();
    let (_, of_b) = b.file("target").await;
    let cut = b.compound().putfh(&fh).op(setattr(of_b, size(1 << 20))).into_ops();
    let credential = b.credential.clone();
    let cut = b.wire.send_compound(&credential, &compound_args("", 2, &cut)).await;
    // The truncation is under way when its recall arrives.
    a.wire.callback().await;
    let id = copied(pair.copy(&mut c, pair.args(0, 0, 0)).await).response.callback_id.unwrap();
    let asked = c.compound().putfh(&fh).op(status_of(id)).send().await.ok();
    let Ok(OpOk::OffloadStatus(ok)) = &asked.last().result else { panic!("{asked:?}") };
    assert_eq!(*ok, OffloadStatusOk { count: 0, complete: None });
    // Another client's copy is none of yours, and another file's neither.
    let cancel = OpArgs::OffloadCancel(OffloadCancelArgs { stateid: id });
    for (who, fh) in [(&mut a, &fh), (&mut c, &pair.source.0)] {
        who.compound().putfh(fh).op(cancel.clone()).expect(NfsStat::BAD_STATEID).await;
    }
    c.compound().putfh(&fh).op(cancel.clone()).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(status_of(id)).expect(NfsStat::BAD_STATEID).await;
    c.compound().putfh(&fh).op(cancel).expect(NfsStat::BAD_STATEID).await;
    b.wire.nfs_reply(cut).await;
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(0), "nothing was copied");
}

/// As long as a copy writes, nobody is told that it may trust its cache of the file, although
/// nobody has it open.
#[tokio::test]
async fn no_delegation_while_a_copy_goes_on() {
    /// Each is read and written again, so that the copy takes a while.
    const PARTS: u64 = 300;
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "c").await;
    let pair = Pair::new(&mut c).await;
    for n in 0..PARTS {
        fill(&mut c, &pair.source, n * 2 * MIB, b"data").await;
    }
    let id = copied(pair.copy(&mut c, pair.args(1, 0, 0)).await).response.callback_id.unwrap();
    let share_access = share::ACCESS_READ | share::WANT_READ_DELEG;
    let wanting = || OpenArgs { share_access, ..open("o", OpenClaim::Fh) };
    let fh = &pair.target.0;
    let closed = c.compound().putfh(fh).op(close(pair.target.1)).open(wanting());
    let reply = closed.op(status_of(id)).send().await.ok();
    let Ok(OpOk::OffloadStatus(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(ok.complete, None, "it goes on");
    let opened = reply.open();
    let contention = OpenDelegation::NoneExt(why_no_delegation::CONTENTION, Some(false));
    assert_eq!(opened.delegation, contention);
    let cancel = OpArgs::OffloadCancel(OffloadCancelArgs { stateid: id });
    c.compound().putfh(fh).op(cancel).expect(NfsStat::OK).await;
    let opened = c.compound().putfh(fh).open(wanting()).send().await.ok().open();
    assert!(matches!(opened.delegation, OpenDelegation::Read { .. }), "{opened:?}");
}

/// Failures of COPY that say what can be had are never made here: any requirement can be met.
#[tokio::test]
async fn every_requirement_is_met() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    fill(&mut c, &pair.source, 0, b"x").await;
    for (consecutive, synchronous) in [(true, true), (true, false), (false, true), (false, false)] {
        let args = CopyArgs { consecutive, synchronous, ..pair.args(0, 0, 1) };
        let reply = pair.copy(&mut c, args).await;
        assert_ne!(reply.status(), NfsStat::OFFLOAD_NO_REQS);
        copied(reply);
    }
    let bad = pair.copy(&mut c, pair.args(5, 0, 1)).await.is(NfsStat::INVAL);
    assert_eq!(*bad.failure(), FailureBody::None);
}

async fn clone(pair: &Pair, c: &mut Client, from: u64, to: u64, count: u64) -> NfsStat {
    let op = OpArgs::Clone(CloneArgs {
        src_stateid: pair.source.1,
        dst_stateid: pair.target.1,
        src_offset: from,
        dst_offset: to,
        count,
    });
    c.compound().putfh(&pair.source.0).savefh().putfh(&pair.target.0).op(op).send().await.status()
}

/// A clone has the source's bytes, up to the last one, and goes its own way from there; where no
/// disk of the data servers can share blocks nothing changes, also if the files do not line up
/// (§15.13).
#[tokio::test]
async fn clones_share_or_nothing_happens() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    let mut data = pattern(4 * MIB + 100);
    data[MIB as usize..3 * MIB as usize].fill(0);
    fill(&mut c, &pair.source, 0, &data[..MIB as usize]).await;
    fill(&mut c, &pair.source, 3 * MIB, &data[3 * MIB as usize..]).await;
    match clone(&pair, &mut c, 0, 0, 0).await {
        NfsStat::OK => {
            assert!(contents(&mut c, &pair.target).await == data);
            fill(&mut c, &pair.target, 0, b"own").await;
            assert!(contents(&mut c, &pair.source).await == data);
            // Part of it over what is there.
            assert_eq!(clone(&pair, &mut c, 3 * MIB, 0, 4096).await, NfsStat::OK);
            data[..4096].copy_from_slice(&pattern(4 * MIB)[3 << 20..][..4096]);
            assert!(contents(&mut c, &pair.target).await == data);
        }
        status => {
            assert_eq!(status, NfsStat::NOTSUPP);
            assert!(contents(&mut c, &pair.target).await.is_empty());
            // Files one after another begin on different data servers.
            let apart = Pair { target: c.file("apart").await, ..pair };
            fill(&mut c, &apart.target, 0, b"old").await;
            assert_eq!(clone(&apart, &mut c, 0, 0, 0).await, NfsStat::NOTSUPP);
            assert_eq!(contents(&mut c, &apart.target).await, b"old");
        }
    }
}

/// What is refused before any block is touched.
#[tokio::test]
async fn clone_refusals() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let pair = Pair::new(&mut c).await;
    fill(&mut c, &pair.source, 0, &pattern(20_000)).await;
    fill(&mut c, &pair.target, 0, &[9; 30_000]).await;
    let cases = [
        ((1, 0, 4096), NfsStat::INVAL),
        ((0, 1, 4096), NfsStat::INVAL),
        ((0, 0, 4095), NfsStat::INVAL),
        // The source's end in the middle of the destination.
        ((0, 0, 0), NfsStat::INVAL),
        ((0, 0, 20_001), NfsStat::INVAL),
        ((24_576, 0, 0), NfsStat::INVAL),
        ((0, (i64::MAX as u64) - 4095, 4096), NfsStat::FBIG),
    ];
    for ((from, to, count), status) in cases {
        let got = clone(&pair, &mut c, from, to, count).await;
        assert_eq!(got, status, "{from} {to} {count}");
    }
    let same = Pair { source: pair.source.clone(), target: pair.source.clone() };
    assert_eq!(clone(&same, &mut c, 0, 4096, 8192).await, NfsStat::INVAL, "they overlap");
    let dir = (c.public_dir("d").await, Stateid::ANONYMOUS);
    for (source, target) in [(&dir, &pair.target), (&pair.source, &dir)] {
        let wrong = Pair { source: source.clone(), target: target.clone() };
        assert_eq!(clone(&wrong, &mut c, 0, 0, 0).await, NfsStat::WRONG_TYPE);
    }
    assert!(contents(&mut c, &pair.target).await == [9; 30_000]);
}
