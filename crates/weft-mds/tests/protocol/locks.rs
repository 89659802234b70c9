//! LOCK, LOCKT, LOCKU, TEST_STATEID, FREE_STATEID: RFC 8881 §9, §18.10-§18.12, §18.38, §18.48.

use weft_nfs::{
    FailureBody, FileHandle, LockType, NfsStat, OpArgs, OpOk, Seqid, StateOwner, Stateid,
    callback::{CbNotifyLockArgs, CbOp},
    open_result,
    ops::*,
    share,
};

use crate::support::*;

const READ: LockType = LockType::Read;
const WRITE: LockType = LockType::Write;

async fn lock(c: &mut Client, fh: &FileHandle, args: LockArgs) -> Reply {
    c.compound().putfh(fh).op(OpArgs::Lock(args)).send().await
}

/// The range and kind of the lock in the way.
fn denied(reply: &Reply) -> (u64, u64, LockType) {
    let FailureBody::Denied(d) = reply.failure() else { panic!("{reply:?}") };
    (d.offset, d.length, d.locktype)
}

/// A conflict names the lock in the way, to LOCK and LOCKT alike; readers share.
#[tokio::test]
async fn conflicts_are_named() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let taken = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 10, 10)).await.ok().stateid();
    assert_eq!(taken.seqid, Seqid(1));
    let reply = lock(&mut b, &fh, lock_new(of_b, "lb", READ, 0, u64::MAX)).await;
    assert_eq!(denied(&reply.is(NfsStat::DENIED)), (10, 10, WRITE));
    let test = b.compound().putfh(&fh).op(lockt("lb", READ, 19, 1));
    assert_eq!(denied(&test.expect(NfsStat::DENIED).await), (10, 10, WRITE));
    for (offset, length) in [(0, 10), (20, u64::MAX)] {
        let free = b.compound().putfh(&fh).op(lockt("lb", WRITE, offset, length));
        free.expect(NfsStat::OK).await;
    }
    // Its own lock is not in the owner's way.
    a.compound().putfh(&fh).op(lockt("la", WRITE, 0, 100)).expect(NfsStat::OK).await;
    lock(&mut a, &fh, lock_more(taken, READ, 10, 10)).await.ok();
    lock(&mut b, &fh, lock_new(of_b, "lb", READ, 0, u64::MAX)).await.ok();
}

/// A blocking request is refused like any other, and told when the lock can be had: after the
/// last LOCKU or CLOSE that was in its way (§18.10.3, §20.11).
#[tokio::test]
async fn waiters_are_notified() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let flags = b.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).send().await.ok();
    assert_ne!(flags.open().rflags & open_result::MAY_NOTIFY_LOCK, 0);
    for by_close in [false, true] {
        let held = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 2)).await.ok().stateid();
        let wait = lock_new(of_b, "lb", LockType::WriteBlocking, 0, 2);
        lock(&mut b, &fh, wait.clone()).await.is(NfsStat::DENIED);
        a.compound().putfh(&fh).op(locku(held, 0, 1)).expect(NfsStat::OK).await;
        lock(&mut b, &fh, wait.clone()).await.is(NfsStat::DENIED);
        let held = Stateid { seqid: Seqid(0), ..held };
        let free = if by_close { close(of_a) } else { locku(held, 1, 1) };
        a.compound().putfh(&fh).op(free).expect(NfsStat::OK).await;
        is_notified(&mut b, &fh).await;
        let taken = lock(&mut b, &fh, wait).await.ok().stateid();
        b.compound().putfh(&fh).op(locku(taken, 0, 2)).expect(NfsStat::OK).await;
    }
}

/// Threads share an owner on Linux: each of the ranges it waits for is told of, whichever it asked
/// for last and whichever it got first (§20.11).
#[tokio::test]
async fn an_owner_is_notified_of_each_range() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let held = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 20)).await.ok().stateid();
    let held = Stateid { seqid: Seqid(0), ..held };
    let waits = [0, 10].map(|at| lock_new(of_b, "lb", LockType::WriteBlocking, at, 10));
    for wait in &waits {
        lock(&mut b, &fh, wait.clone()).await.is(NfsStat::DENIED);
    }
    for (wait, at) in waits.into_iter().zip([0, 10]) {
        a.compound().putfh(&fh).op(locku(held, at, 10)).expect(NfsStat::OK).await;
        is_notified(&mut b, &fh).await;
        lock(&mut b, &fh, wait).await.ok();
    }
}

/// The next callback says that a lock of the file which the client's owner "lb" waits for is free.
async fn is_notified(c: &mut Client, fh: &FileHandle) {
    let callback = c.wire.callback().await;
    let lock_owner = StateOwner { clientid: c.clientid, ..state_owner("lb") };
    let notice = CbOp::NotifyLock(CbNotifyLockArgs { fh: fh.clone(), lock_owner });
    assert_eq!(callback.ops.get(1), Some(&notice));
    c.wire.answer(&callback, NfsStat::OK).await;
}

/// Who waits for a lock is told too when the lease of its holder has passed: nobody will unlock it
/// (§8.4.3, §9.6).
#[tokio::test]
async fn waiters_are_notified_when_the_holder_expires() {
    let cluster = Cluster::with(Options { lease_s: 1, ..Options::default() }).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 2)).await.ok();
    let wait = lock_new(of_b, "lb", LockType::WriteBlocking, 0, 2);
    lock(&mut b, &fh, wait.clone()).await.is(NfsStat::DENIED);
    is_notified(&mut b, &fh).await;
    lock(&mut b, &fh, wait).await.ok();
}

/// A lock is upgraded in place unless another reader is in the way.
#[tokio::test]
async fn upgrade() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let la = lock(&mut a, &fh, lock_new(of_a, "la", READ, 0, 100)).await.ok().stateid();
    let lb = lock(&mut b, &fh, lock_new(of_b, "lb", READ, 50, 10)).await.ok().stateid();
    let refused = lock(&mut a, &fh, lock_more(la, WRITE, 0, 100)).await;
    assert_eq!(denied(&refused.is(NfsStat::DENIED)), (50, 10, READ));
    b.compound().putfh(&fh).op(locku(lb, 0, u64::MAX)).send().await.ok();
    let up = lock(&mut a, &fh, lock_more(la, WRITE, 0, 100)).await.ok().stateid();
    assert_eq!((up.seqid, up.other), (Seqid(2), la.other));
    let test = b.compound().putfh(&fh).op(lockt("lb", READ, 99, 1));
    assert_eq!(denied(&test.expect(NfsStat::DENIED).await), (0, 100, WRITE));
}

/// Unlocking the middle leaves both ends locked.
#[tokio::test]
async fn unlock_splits() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, _) = two(&cluster).await;
    let la = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 100)).await.ok().stateid();
    let rest = a.compound().putfh(&fh).op(locku(la, 40, 20)).send().await.ok().stateid();
    assert_eq!(rest.seqid, Seqid(2));
    b.compound().putfh(&fh).op(lockt("lb", WRITE, 40, 20)).expect(NfsStat::OK).await;
    for (at, range) in [(39, (0, 40, WRITE)), (60, (60, 40, WRITE))] {
        let test = b.compound().putfh(&fh).op(lockt("lb", READ, at, 1));
        assert_eq!(denied(&test.expect(NfsStat::DENIED).await), range);
    }
    // Unlocking what is not locked is no error.
    let rest = a.compound().putfh(&fh).op(locku(rest, 0, u64::MAX)).send().await.ok().stateid();
    a.compound().putfh(&fh).op(locku(rest, 0, u64::MAX)).expect(NfsStat::OK).await;
}

/// Ranges, modes and stateids that are refused.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    for (offset, length) in [(0, 0), (2, u64::MAX - 1), (u64::MAX, 2)] {
        let args = lock_new(of_a, "la", WRITE, offset, length);
        lock(&mut a, &fh, args).await.is(NfsStat::INVAL);
        a.compound().putfh(&fh).op(lockt("la", WRITE, offset, length)).expect(NfsStat::INVAL).await;
    }
    let read_only = OpenArgs { share_access: share::ACCESS_READ, ..open("ro", OpenClaim::Fh) };
    let read_only = a.compound().putfh(&fh).open(read_only).send().await.ok().stateid();
    lock(&mut a, &fh, lock_new(read_only, "lr", WRITE, 0, 1)).await.is(NfsStat::OPENMODE);
    lock(&mut a, &fh, lock_new(of_b, "la", WRITE, 0, 1)).await.is(NfsStat::BAD_STATEID);
    let special = lock_new(Stateid::ANONYMOUS, "la", WRITE, 0, 1);
    lock(&mut a, &fh, special).await.is(NfsStat::BAD_STATEID);
    let first = lock(&mut a, &fh, lock_new(of_a, "la", READ, 0, 1)).await.ok().stateid();
    let second = lock(&mut a, &fh, lock_more(first, READ, 5, 1)).await.ok().stateid();
    lock(&mut a, &fh, lock_more(first, READ, 9, 1)).await.is(NfsStat::OLD_STATEID);
    lock(&mut b, &fh, lock_more(second, READ, 9, 1)).await.is(NfsStat::BAD_STATEID);
    lock(&mut a, &fh, lock_more(of_a, READ, 9, 1)).await.is(NfsStat::BAD_STATEID);
    a.compound().putfh(&fh).op(locku(first, 0, 1)).expect(NfsStat::OLD_STATEID).await;
    a.compound().putfh(&fh).op(locku(of_a, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    let reclaim = LockArgs { reclaim: true, ..lock_more(second, READ, 0, 1) };
    lock(&mut a, &fh, reclaim).await.is(NfsStat::NO_GRACE);
    let dir = a.public_dir("d").await;
    lock(&mut a, &dir, lock_more(second, READ, 0, 1)).await.is(NfsStat::ISDIR);
    a.compound().putfh(&dir).op(lockt("la", READ, 0, 1)).expect(NfsStat::ISDIR).await;
}

/// CLOSE frees the locks taken under the open.
#[tokio::test]
async fn close_frees_locks() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let la = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 1)).await.ok().stateid();
    a.compound().putfh(&fh).op(close(of_a)).send().await.ok();
    lock(&mut b, &fh, lock_new(of_b, "lb", WRITE, 0, 1)).await.ok();
    a.compound().putfh(&fh).op(locku(la, 0, 1)).expect(NfsStat::BAD_STATEID).await;
}

fn test(stateids: Vec<Stateid>) -> OpArgs {
    OpArgs::TestStateid(TestStateidArgs { stateids })
}

fn free(stateid: Stateid) -> OpArgs {
    OpArgs::FreeStateid(FreeStateidArgs { stateid })
}

/// TEST_STATEID answers for each; it needs no filehandle.
#[tokio::test]
async fn test_stateid() {
    let cluster = Cluster::start().await;
    let (mut a, _b, fh, of_a, of_b) = two(&cluster).await;
    let la = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 1)).await.ok().stateid();
    let newer = lock(&mut a, &fh, lock_more(la, WRITE, 5, 1)).await.ok().stateid();
    let asked =
        vec![of_a, la, newer, of_b, Stateid::ANONYMOUS, Stateid { seqid: Seqid(9), ..of_a }];
    let reply = a.compound().op(test(asked)).send().await.ok();
    let Ok(OpOk::TestStateid(ok)) = &reply.last().result else { panic!("{reply:?}") };
    let bad = NfsStat::BAD_STATEID;
    let expected = [NfsStat::OK, NfsStat::OLD_STATEID, NfsStat::OK, bad, bad, bad];
    assert_eq!(ok.status_codes, expected);
    let reply = a.compound().op(test(Vec::new())).send().await.ok();
    assert_eq!(reply.len(), 2);
    let many = a.compound().op(test(vec![of_a; 1025]));
    many.expect(NfsStat::BADXDR).await;
}

/// FREE_STATEID frees a lock state that locks nothing, and nothing else.
#[tokio::test]
async fn free_stateid() {
    let cluster = Cluster::start().await;
    let (mut a, mut b, fh, of_a, _) = two(&cluster).await;
    let la = lock(&mut a, &fh, lock_new(of_a, "la", WRITE, 0, 1)).await.ok().stateid();
    a.compound().op(free(of_a)).expect(NfsStat::LOCKS_HELD).await;
    a.compound().op(free(la)).expect(NfsStat::LOCKS_HELD).await;
    b.compound().op(free(la)).expect(NfsStat::BAD_STATEID).await;
    let idle = a.compound().putfh(&fh).op(locku(la, 0, 1)).send().await.ok().stateid();
    a.compound().op(free(idle)).expect(NfsStat::OK).await;
    a.compound().op(free(idle)).expect(NfsStat::BAD_STATEID).await;
    a.compound().op(free(Stateid::ANONYMOUS)).expect(NfsStat::BAD_STATEID).await;
}

/// A client whose machine is dead has a lock that another one waits for. An administrator evicts
/// it, by the name of its machine: the lock is granted at once, a lease before its time, and what
/// the dead one held is gone for good.
#[tokio::test]
async fn the_lock_of_an_evicted_client_is_free() {
    let mut cluster =
        Cluster::with(Options { on_disk: true, lease_s: 3600, ..Options::default() }).await;
    let mut dead = Client::mount(&cluster, "Linux NFSv4.2 kc12").await;
    let (fh, stateid) = dead.file("f").await;
    let lock = lock_new(stateid, "lo", LockType::Write, 0, 10);
    dead.compound().putfh(&fh).op(OpArgs::Lock(lock)).send().await.ok();
    let mut c = Client::mount(&cluster, "Linux NFSv4.2 kc13").await;
    let open = open_name("o", "f");
    let stateid = c.compound().putrootfh().open(open).send().await.ok().stateid();
    let lock = || OpArgs::Lock(lock_new(stateid, "mine", LockType::Write, 0, 10));
    c.compound().putfh(&fh).op(lock()).expect(NfsStat::DENIED).await;
    let admin = cluster.mds().admin();
    let listed = admin.clients().clients;
    let held: Vec<_> = listed.iter().map(|c| (&c.name[..], c.opens, c.locks)).collect();
    assert_eq!(held, [("kc12", 1, 1), ("kc13", 1, 0)]);
    let unknown = admin.evict("kc14".into()).await.unwrap_err();
    assert_eq!(unknown.to_string(), "kc14: no such client (`weft clients` lists them)");
    let both = admin.evict("127.0.0.1".into()).await.unwrap_err().to_string();
    assert!(both.contains("2 clients") && both.contains(&listed[0].id), "{both}");
    let evicted = admin.evict("kc12".into()).await.unwrap();
    assert_eq!((evicted.client, evicted.was_awaited), (Some(listed[0].clone()), false));
    c.compound().putfh(&fh).op(lock()).expect(NfsStat::OK).await;
    let session = dead.sessionid;
    dead.bare(&[sequence(session, 0, 99, false)]).await.is(NfsStat::BADSESSION);
    drop(admin);
    cluster.restart().await;
    // The other one alone is awaited, until it is evicted as well.
    let admin = cluster.mds().admin();
    let grace = admin.clients().grace.unwrap();
    let awaited: Vec<_> =
        grace.awaited.iter().map(|c| (&c.name[..], c.address.as_deref())).collect();
    assert_eq!(awaited, [("kc13", Some("127.0.0.1"))]);
    assert!(!admin.health().await.healthy);
    // One on the same machine lives. The name means both: neither is evicted by it.
    let mut new = Client::mount(&cluster, "Linux NFSv4.1 new/kc13").await;
    new.compound().putrootfh().open_create("g").expect(NfsStat::GRACE).await;
    let both = admin.evict("kc13".into()).await.unwrap_err().to_string();
    let id = &admin.clients().clients[0].id;
    assert!(both.contains("2 clients") && both.contains(id), "{both}");
    assert!(both.contains("\"Linux NFSv4.2 kc13\""), "{both}");
    new.compound().putrootfh().open_create("g").expect(NfsStat::GRACE).await;
    let evicted = admin.evict("Linux NFSv4.2 kc13".into()).await.unwrap();
    assert_eq!((evicted.client, evicted.was_awaited), (None, true));
    assert_eq!(admin.status().await.grace, None);
    new.compound().putrootfh().open_create("g").expect(NfsStat::OK).await;
}
