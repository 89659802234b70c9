//! Restart of the metadata server on its data: grace and reclaim. RFC 8881 §8.4.2, §9.11.1,
//! §18.51.

use std::{io::Write, time::Instant};

use weft_mds::{Access, ClientRule, Export, SmallFiles};
use weft_nfs::{
    AttrNo, FileHandle, IoMode, LockType, NfsStat, OpArgs, Stateid, delegate, ops::*, share,
};
use weft_store::types::{Credential, InodeNo};

use crate::support::*;

async fn durable() -> Cluster {
    Cluster::with(Options { on_disk: true, lease_s: 60, ..Options::default() }).await
}

/// A client that comes back after the restart, before its RECLAIM_COMPLETE.
async fn back(cluster: &Cluster, owner: &str) -> Client {
    let options = ClientOptions { reclaim_complete: false, ..ClientOptions::new(owner) };
    Client::with(cluster.address(), options).await
}

fn reclaim_open() -> OpenArgs {
    open("opener", OpenClaim::Previous(0))
}

async fn reclaim_lock(c: &mut Client, fh: &FileHandle, stateid: Stateid) -> Reply {
    let args = LockArgs { reclaim: true, ..lock_new(stateid, "lo", LockType::Write, 0, 10) };
    c.compound().putfh(fh).op(OpArgs::Lock(args)).send().await
}

/// What was acknowledged is there after a restart, under the same filehandles; sessions, opens
/// and their stateids are not.
#[tokio::test]
async fn names_survive_and_sessions_do_not() {
    let mut cluster = durable().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let (session, clientid) = (c.sessionid, c.clientid);
    cluster.restart().await;
    c.wire = Wire::connect(cluster.address()).await;
    c.bare(&[sequence(session, 0, 99, false)]).await.is(NfsStat::BADSESSION);
    let stale = create_session(clientid, weft_nfs::SequenceId(1), &c.options);
    c.bare(&[OpArgs::CreateSession(stale)]).await.is(NfsStat::STALE_CLIENTID);
    let mut c = back(&cluster, "a").await;
    assert_ne!(c.clientid, clientid);
    let found = c.compound().putrootfh().lookup("f").getfh().send().await.ok().fh();
    assert_eq!(found, fh);
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::BAD_STATEID).await;
}

/// In grace: a known client reclaims its open and its lock; new ones wait; then it is over at
/// once, because the only client known is done.
#[tokio::test]
async fn reclaim_of_open_and_lock() {
    let mut cluster = durable().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let lock = lock_new(stateid, "lo", LockType::Write, 0, 10);
    c.compound().putfh(&fh).op(OpArgs::Lock(lock)).send().await.ok();
    cluster.restart().await;
    let mut c = back(&cluster, "a").await;
    let mut stranger = back(&cluster, "stranger").await;
    stranger.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    let waits = [OpArgs::Open(open_create("o", "new")), remove("f"), lookup("f")];
    let expected = [NfsStat::GRACE, NfsStat::GRACE, NfsStat::OK];
    for (op, status) in waits.into_iter().zip(expected) {
        stranger.compound().putrootfh().op(op).expect(status).await;
    }
    let io = read(Stateid::ANONYMOUS, 0, 1);
    stranger.compound().putfh(&fh).op(io).expect(NfsStat::GRACE).await;
    let test = lockt("x", LockType::Read, 0, 1);
    stranger.compound().putfh(&fh).op(test).expect(NfsStat::GRACE).await;
    let again = c.compound().putfh(&fh).open(reclaim_open()).send().await.ok().stateid();
    reclaim_lock(&mut c, &fh, again).await.ok();
    c.compound().putrootfh().open_create("new").expect(NfsStat::GRACE).await;
    c.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    // Nobody else is known: grace has ended, long before its time.
    stranger.compound().putrootfh().open_create("new").expect(NfsStat::OK).await;
    let test = lockt("x", LockType::Read, 0, 1);
    stranger.compound().putfh(&fh).op(test).expect(NfsStat::DENIED).await;
}

/// After RECLAIM_COMPLETE, and after grace, nothing is reclaimed.
#[tokio::test]
async fn no_reclaim_afterwards() {
    let mut cluster = durable().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (fh, _) = a.file("f").await;
    b.file("of b").await;
    cluster.restart().await;
    let mut a = back(&cluster, "a").await;
    a.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).open(reclaim_open()).expect(NfsStat::NO_GRACE).await;
    // Grace goes on, since `b` may still come.
    a.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).expect(NfsStat::GRACE).await;
    let mut b = back(&cluster, "b").await;
    b.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    b.compound().putfh(&fh).open(reclaim_open()).expect(NfsStat::NO_GRACE).await;
    a.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).expect(NfsStat::OK).await;
}

/// A reclaim for this access.
fn reclaim_for(share_access: u32) -> OpenArgs {
    OpenArgs { share_access, ..reclaim_open() }
}

/// A reclaim is no way around the mode: whom the export maps to nobody opens after a restart what
/// nobody may open, whatever he says he had. The owner may have had it before he changed the mode.
#[tokio::test]
async fn reclaims_need_permission() {
    let mut cluster = durable().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (secret, stateid) = c.file("secret").await;
    c.compound().putfh(&secret).op(setattr(stateid, mode(0o600))).expect(NfsStat::OK).await;
    let (readable, _) = c.file("readable").await;
    let dir = c.public_dir("d").await;
    let own = c.by_user(1000).putfh(&dir).open_create("own").getfh().send().await.ok();
    let (own, stateid) = (own.fh(), own.stateid());
    let close_to_all = setattr(stateid, mode(0));
    c.by_user(1000).putfh(&own).op(close_to_all).expect(NfsStat::OK).await;
    cluster.set_export(Export { root_squash: true, ..open_export() });
    cluster.restart().await;
    let mut c = back(&cluster, "a").await;
    for access in [share::ACCESS_READ, share::ACCESS_WRITE, share::ACCESS_BOTH] {
        for claim in [0, delegate::READ].map(OpenClaim::Previous) {
            let args = OpenArgs { share_access: access, ..open("opener", claim) };
            c.compound().putfh(&secret).open(args).expect(NfsStat::ACCESS).await;
        }
    }
    let (reads, both) = (reclaim_for(share::ACCESS_READ), reclaim_for(share::ACCESS_BOTH));
    c.compound().putfh(&readable).open(both.clone()).expect(NfsStat::ACCESS).await;
    c.compound().putfh(&readable).open(reads).expect(NfsStat::OK).await;
    c.by_user(1001).putfh(&own).open(both.clone()).expect(NfsStat::ACCESS).await;
    let again = c.by_user(1000).putfh(&own).open(both).send().await.ok().stateid();
    let changed = write(again, 0, b"mine");
    c.by_user(1000).putfh(&own).op(changed).expect(NfsStat::OK).await;
}

/// Nor around the export: what may only be read is not reclaimed for writing.
#[tokio::test]
async fn reclaims_keep_to_the_export() {
    let mut cluster = durable().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let networks = vec!["127.0.0.1".parse().unwrap()];
    let access = Access::ReadOnly;
    let rule = ClientRule {
        networks,
        access,
        root_squash: None,
        all_squash: None,
        privileged_ports: None,
    };
    cluster.set_export(Export { rules: vec![rule], ..open_export() });
    cluster.restart().await;
    let mut c = back(&cluster, "a").await;
    for access in [share::ACCESS_WRITE, share::ACCESS_BOTH] {
        c.compound().putfh(&fh).open(reclaim_for(access)).expect(NfsStat::ROFS).await;
    }
    c.compound().putfh(&fh).open(reclaim_for(share::ACCESS_READ)).expect(NfsStat::OK).await;
}

/// A client that the server did not know before the restart has nothing to reclaim.
#[tokio::test]
async fn strangers_do_not_reclaim() {
    let mut cluster = durable().await;
    let mut a = Client::mount(&cluster, "a").await;
    let (fh, _) = a.file("f").await;
    cluster.restart().await;
    let mut stranger = back(&cluster, "stranger").await;
    stranger.compound().putfh(&fh).open(reclaim_open()).expect(NfsStat::NO_GRACE).await;
}

/// Clients that hold nothing are not waited for, whether they never held anything or have closed
/// what they had; nor is one that said goodbye.
#[tokio::test]
async fn who_holds_nothing_is_not_awaited() {
    let mut cluster = durable().await;
    let _idle = Client::mount(&cluster, "idle").await;
    let mut closed = Client::mount(&cluster, "closed").await;
    let (fh, stateid) = closed.file("f").await;
    closed.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    let mut gone = Client::mount(&cluster, "gone").await;
    let (fh, stateid) = gone.file("g").await;
    gone.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    let (session, clientid) = (gone.sessionid, gone.clientid);
    let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: session });
    gone.bare(&[destroy]).await.is(NfsStat::OK);
    let destroy = OpArgs::DestroyClientid(DestroyClientidArgs { clientid });
    gone.bare(&[destroy]).await.is(NfsStat::OK);
    let records = || cluster.volume().clients().unconfirmed().unwrap().len();
    eventually("the mark of who holds nothing goes", || records() == 0).await;
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "c").await;
    c.compound().putrootfh().open_create("new").expect(NfsStat::OK).await;
}

/// A client with a file open that has no other name any more is waited for: what it has open
/// outlives the restart.
#[tokio::test]
async fn an_open_file_without_a_name_is_awaited() {
    let mut cluster = durable().await;
    let mut a = Client::mount(&cluster, "a").await;
    let (fh, stateid) = a.file("f").await;
    a.compound().putfh(&fh).op(write(stateid, 0, b"kept")).send().await.ok();
    a.compound().putrootfh().op(remove("f")).expect(NfsStat::OK).await;
    cluster.restart().await;
    let mut stranger = Client::mount(&cluster, "stranger").await;
    stranger.compound().putrootfh().open_create("new").expect(NfsStat::GRACE).await;
    let mut a = back(&cluster, "a").await;
    let again = a.compound().putfh(&fh).open(reclaim_open()).send().await.ok().stateid();
    a.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    let (data, _) = a.compound().putfh(&fh).op(read(again, 0, 9)).send().await.ok().data();
    assert_eq!(&data[..], b"kept");
    stranger.compound().putrootfh().open_create("new").expect(NfsStat::OK).await;
}

/// A client that never comes back: grace ends by time, its record with it, so that it cannot
/// reclaim after the next restart what others may hold by then.
#[tokio::test]
async fn grace_ends_by_time() {
    let options = Options { on_disk: true, lease_s: 1, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut gone = Client::mount(&cluster, "gone").await;
    let (fh, _) = gone.file("f").await;
    cluster.restart().await;
    let started = Instant::now();
    let mut c = Client::mount(&cluster, "c").await;
    loop {
        let status = c.compound().putrootfh().open_create("new").send().await.status();
        if status == NfsStat::OK {
            break;
        }
        assert_eq!(status, NfsStat::GRACE);
        assert!(started.elapsed() < PATIENCE, "grace never ends");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut gone = back(&cluster, "gone").await;
    gone.compound().putfh(&fh).open(reclaim_open()).expect(NfsStat::NO_GRACE).await;
}

/// Handles given out for writing before the restart are worthless once grace is over, before the
/// file's size is believed or anybody else may write.
#[tokio::test]
async fn handles_of_before_are_fenced() {
    let options = Options { on_disk: true, lease_s: 60, data_servers: 1, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let get = layoutget(stateid, IoMode::RW);
    let granted = c.compound().putfh(&fh).op(OpArgs::Layoutget(get)).send().await.ok();
    let old = layout_handle(&files_layout(&granted), 0);
    cluster.restart().await;
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let mut c = back(&cluster, "a").await;
    let late = write(Stateid::ANONYMOUS, 0, b"in grace");
    ds.compound().putfh(&old).op(late).expect(NfsStat::OK).await;
    let again = c.compound().putfh(&fh).open(reclaim_open()).send().await.ok().stateid();
    c.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    let get = layoutget(again, IoMode::RW);
    c.compound().putfh(&fh).op(OpArgs::Layoutget(get)).expect(NfsStat::OK).await;
    let late = ds.compound().putfh(&old).op(write(Stateid::ANONYMOUS, 0, b"too late")).send().await;
    assert_ne!(late.status(), NfsStat::OK);
    let size = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size;
    assert_eq!(size, Some(8), "what was written in grace counts");
}

/// A copy, here of a hole, to a file in grace outranks the handles of before, as a write does: what
/// was sent with them and is late does not land on top of it.
#[tokio::test]
async fn copies_outrank_handles_of_before() {
    let options = Options { on_disk: true, lease_s: 60, data_servers: 1, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (source, stateid) = c.file("source").await;
    c.compound().putfh(&source).op(setattr(stateid, size(8))).expect(NfsStat::OK).await;
    let (target, stateid) = c.file("target").await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    c.compound().putfh(&target).op(write(stateid, 0, b"old data")).expect(NfsStat::OK).await;
    let granted = c.compound().putfh(&target).op(get).send().await.ok();
    let old = layout_handle(&files_layout(&granted), 0);
    cluster.restart().await;
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let mut c = back(&cluster, "a").await;
    let src_stateid = c.compound().putfh(&source).open(reclaim_open()).send().await.ok().stateid();
    let dst_stateid = c.compound().putfh(&target).open(reclaim_open()).send().await.ok().stateid();
    let copy = OpArgs::Copy(CopyArgs {
        src_stateid,
        dst_stateid,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    });
    c.compound().putfh(&source).savefh().putfh(&target).op(copy).expect(NfsStat::OK).await;
    let late = ds.compound().putfh(&old).op(write(Stateid::ANONYMOUS, 0, b"late")).send().await;
    assert_ne!(late.status(), NfsStat::OK);
    let op = read(dst_stateid, 0, 100);
    let (data, _) = c.compound().putfh(&target).op(op).send().await.ok().data();
    assert_eq!(&data[..], [0; 8]);
}

/// What a write through the metadata server left behind the end of a file when it was cut short by
/// a crash is in the file from then on: it does not come to light when the file grows over it.
#[tokio::test]
async fn what_an_interrupted_write_left_is_in_the_file() {
    let options = Options {
        data_servers: 1,
        small_files: SmallFiles::OFF,
        on_disk: true,
        ..Options::default()
    };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    c.compound().putfh(&fh).op(write(stateid, 0, b"done")).send().await.ok();
    let [object] = &cluster.object_files()[..] else { panic!("not one object") };
    let mut object = std::fs::File::options().append(true).open(object).unwrap();
    object.write_all(b" half").unwrap();
    let size = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size;
    assert_eq!(size, Some(4), "while it runs the server knows what was written");
    cluster.restart().await;
    let mut c = back(&cluster, "a").await;
    c.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    let stateid = c.compound().putrootfh().open(open_name("o", "f")).send().await.ok().stateid();
    let size = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size;
    assert_eq!(size, Some(9));
    c.compound().putfh(&fh).op(write(stateid, 20, b"!")).send().await.ok();
    let (data, _) = c.compound().putfh(&fh).op(read(stateid, 0, 100)).send().await.ok().data();
    assert_eq!(&data[..], b"done half\0\0\0\0\0\0\0\0\0\0\0!");
}

/// A file that was closed in peace is settled: nobody is asked about it after a restart.
#[tokio::test]
async fn a_closed_file_is_settled() {
    let options = Options {
        data_servers: 1,
        small_files: SmallFiles::OFF,
        on_disk: true,
        ..Options::default()
    };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let unsettled = || {
        let entry = cluster.volume().lookup(InodeNo::ROOT, b"f", &Credential::superuser());
        entry.value.unwrap().unsettled
    };
    assert!(!unsettled());
    c.compound().putfh(&fh).op(write(stateid, 0, b"done")).send().await.ok();
    assert!(unsettled(), "a crash could now be in the middle of the next write");
    c.compound().putfh(&fh).op(close(stateid)).send().await.ok();
    assert!(!unsettled());
}
