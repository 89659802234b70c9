//! EXCHANGE_ID and CREATE_SESSION seen from outside, and what becomes of clients that fall
//! silent: RFC 8881 §8.3, §8.4, §18.35, §18.36.

use std::time::{Duration, Instant};

use weft_nfs::{
    FileHandle, IoMode, LockType, NfsStat, OpArgs, OpOk, SequenceId, Stateid, exchgid, ops::*,
    seq4_status,
};

use crate::support::*;

/// The flag of 4.2's fencing operations is unknown to 4.1.
#[tokio::test]
async fn flags_of_a_later_minor_version() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let mut args = exchange_id(&ClientOptions::new("a"));
    args.flags = exchgid::SUPP_FENCE_OPS;
    for (minor, status) in [(1, NfsStat::INVAL), (2, NfsStat::OK)] {
        let ops = [OpArgs::ExchangeId(args.clone())];
        wire.compound(&user(0, 0), minor, &ops).await.is(status);
    }
}

/// An owner whose client holds nothing goes to another principal at once (§18.35.4, case 3); one
/// with a session does not.
#[tokio::test]
async fn an_idle_owner_changes_hands() {
    let cluster = Cluster::start().await;
    let mut first = Client::mount(&cluster, "a").await;
    let mut wire = Wire::connect(cluster.address()).await;
    let claim = [OpArgs::ExchangeId(exchange_id(&ClientOptions::new("a")))];
    wire.compound(&user(7, 7), 2, &claim).await.is(NfsStat::CLID_INUSE);
    let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: first.sessionid });
    first.bare(&[destroy]).await.ok();
    wire.compound(&user(7, 7), 2, &claim).await.ok();
    let again = create_session(first.clientid, SequenceId(2), &first.options);
    first.bare(&[OpArgs::CreateSession(again)]).await.is(NfsStat::STALE_CLIENTID);
}

/// A CREATE_SESSION in a session, repeated without one, is a retry all the same (§18.36.4).
#[tokio::test]
async fn create_session_inside_a_session() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let args = OpArgs::CreateSession(create_session(c.clientid, SequenceId(2), &c.options));
    let inside = c.compound().op(args.clone()).send().await.ok();
    let alone = c.bare(&[args]).await.ok();
    let made = |reply: &Reply| match &reply.last().result {
        Ok(OpOk::CreateSession(ok)) => ok.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(made(&inside), made(&alone));
    assert_ne!(made(&alone).sessionid, c.sessionid);
}

/// Several connections (`nconnect`): each is told the same server, any carries the session's
/// requests, callbacks go where the back channel is, and one that ends takes nothing with it
/// (§2.10.5).
#[tokio::test]
async fn one_session_over_several_connections() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut more = Wire::connect(cluster.address()).await;
    let again = exchange(&mut more, &user(0, 0), &c.options).await;
    let first = exchange(&mut c.wire, &user(0, 0), &c.options).await;
    assert_eq!(again, first);
    assert_eq!(again.clientid, c.clientid);
    assert_ne!(again.flags & exchgid::CONFIRMED_R, 0);
    let open = [c.next_sequence(3, false), OpArgs::Putrootfh, OpArgs::Open(open_create("o", "f"))];
    let opened = more.compound(&user(0, 0), 2, &open).await.ok();
    let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    assert_eq!(opened.sequence().status_flags & down, 0);
    std::mem::swap(&mut c.wire, &mut more);
    drop(more);
    // The back channel went with its connection; the session goes on.
    let deadline = Instant::now() + PATIENCE;
    while c.renew().await.sequence().status_flags & down != down {
        assert!(Instant::now() < deadline, "the end of the connection is not noticed");
    }
    c.compound().putrootfh().lookup("f").expect(NfsStat::OK).await;
}

/// EXCHANGE_ID and, if that is granted, CREATE_SESSION from another address: the last status.
async fn take_over(server: std::net::SocketAddr, options: &ClientOptions) -> NfsStat {
    let mut wire = Wire::connect_from(options.from, server).await;
    let credential = user(options.uid, options.uid);
    let ask = [OpArgs::ExchangeId(exchange_id(options))];
    let reply = wire.compound(&credential, 2, &ask).await;
    let Ok(OpOk::ExchangeId(ok)) = &reply.last().result else { return reply.status() };
    let create = create_session(ok.clientid, ok.sequenceid, options);
    wire.compound(&credential, 2, &[OpArgs::CreateSession(create)]).await.status()
}

/// Another host that says it is a client that lives here, started anew, does not end it, neither
/// at the metadata server nor at a data server (RFC 8881 §18.35.4, case 5). The client itself may
/// come from anywhere, and start anew where it is; and one that is gone is nobody's.
#[tokio::test]
async fn another_host_does_not_end_a_client() {
    let cluster = Cluster::striped(1).await;
    let elsewhere = [127, 0, 0, 2];
    let restarted = ClientOptions { verifier: 2, ..ClientOptions::new("a") };
    let stranger = ClientOptions { from: elsewhere, ..restarted.clone() };
    let moved = ClientOptions { from: elsewhere, ..ClientOptions::new("a") };
    let mut victim = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, open) = victim.file("f").await;
    let (_, of_other) = other.file("f").await;
    lock(&mut victim, &fh, open).await.ok();
    assert_eq!(take_over(cluster.address(), &stranger).await, NfsStat::CLID_INUSE);
    victim.renew().await;
    lock(&mut other, &fh, of_other).await.is(NfsStat::DENIED);
    let mut wire = Wire::connect_from(elsewhere, cluster.address()).await;
    let same = exchange(&mut wire, &user(0, 0), &moved).await;
    assert_eq!(same.clientid, victim.clientid, "another address of the same incarnation");
    let renewal = [victim.next_sequence(5, false)];
    wire.compound(&user(0, 0), 2, &renewal).await.ok();

    let mut on_ds = on_data_server(&cluster, 0, "a").await;
    assert_eq!(take_over(cluster.data_server(0), &stranger).await, NfsStat::CLID_INUSE);
    on_ds.renew().await;

    assert_eq!(take_over(cluster.address(), &restarted).await, NfsStat::OK);
    let id = victim.sessionid;
    victim.bare(&[sequence(id, 1, 1, false)]).await.is(NfsStat::BADSESSION);
    lock(&mut other, &fh, of_other).await.ok();
}

/// Who asked for a record while its owner's client held nothing does not confirm it later, when
/// that would end what the client holds by then.
#[tokio::test]
async fn nor_with_a_record_of_before() {
    let cluster = Cluster::start().await;
    let mut victim = Client::mount(&cluster, "a").await;
    let session = victim.sessionid;
    let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: session });
    victim.bare(&[destroy]).await.ok();
    let from = [127, 0, 0, 2];
    let stranger = ClientOptions { from, verifier: 2, ..ClientOptions::new("a") };
    let mut wire = Wire::connect_from(from, cluster.address()).await;
    let early = exchange(&mut wire, &user(0, 0), &stranger).await;
    let mut victim = Client::with(
        cluster.address(),
        ClientOptions { reclaim_complete: false, ..victim.options.clone() },
    )
    .await;
    let (fh, open) = victim.file("f").await;
    lock(&mut victim, &fh, open).await.ok();
    let create = create_session(early.clientid, early.sequenceid, &stranger);
    let confirm = [OpArgs::CreateSession(create)];
    wire.compound(&user(0, 0), 2, &confirm).await.is(NfsStat::CLID_INUSE);
    victim.renew().await;
}

async fn with_lease(lease_s: u32) -> Cluster {
    let options = Options { data_servers: 1, lease_s, on_disk: true, ..Options::default() };
    Cluster::with(options).await
}

async fn lock(c: &mut Client, fh: &FileHandle, open: Stateid) -> Reply {
    let args = lock_new(open, "lo", LockType::Write, 0, 10);
    c.compound().putfh(fh).op(OpArgs::Lock(args)).send().await
}

/// Repeats an operation on a file until it succeeds; until then it is refused with `refused`.
async fn until_ok(c: &mut Client, fh: &FileHandle, refused: NfsStat, op: OpArgs) -> Reply {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = c.compound().putfh(fh).op(op.clone()).send().await;
        if reply.status() == NfsStat::OK {
            return reply;
        }
        assert_eq!(reply.status(), refused);
        assert!(Instant::now() < deadline, "refused for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Courtesy: who was silent for longer than a lease loses its layout, and still has its open and
/// its lock when it comes back.
#[tokio::test]
async fn opens_and_locks_outlive_the_lease() {
    let cluster = with_lease(1).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut other = Client::mount(&cluster, "other").await;
    let (fh, open) = silent.file("f").await;
    let (_, of_other) = other.file("f").await;
    let held = lock(&mut silent, &fh, open).await.ok().stateid();
    let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
    silent.compound().putfh(&fh).op(get).send().await.ok();
    // It holds the layout for as long as its lease is valid: it answers no recall.
    until_ok(&mut other, &fh, NfsStat::DELAY, setattr(of_other, size(0))).await;
    let flags = silent.renew().await.sequence().status_flags;
    assert_ne!(flags & seq4_status::RECALLABLE_STATE_REVOKED, 0);
    lock(&mut other, &fh, of_other).await.is(NfsStat::DENIED);
    silent.compound().putfh(&fh).op(locku(held, 0, 10)).expect(NfsStat::OK).await;
    silent.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
}

/// A lock of a client whose lease has passed is in nobody's way, to LOCKT and to LOCK.
#[tokio::test]
async fn expired_locks_give_way() {
    let cluster = with_lease(1).await;
    let mut other = Client::mount(&cluster, "other").await;
    for test_first in [false, true] {
        let mut silent = Client::mount(&cluster, "silent").await;
        let (fh, open) = silent.file("f").await;
        let (_, of_other) = other.file("f").await;
        lock(&mut silent, &fh, open).await.ok();
        if test_first {
            let test = lockt("lo", LockType::Write, 0, 10);
            until_ok(&mut other, &fh, NfsStat::DENIED, test).await;
        }
        let take = OpArgs::Lock(lock_new(of_other, "lo", LockType::Write, 0, 10));
        let taken = until_ok(&mut other, &fh, NfsStat::DENIED, take).await.stateid();
        let id = silent.sessionid;
        silent.bare(&[sequence(id, 1, 1, false)]).await.is(NfsStat::BADSESSION);
        other.compound().putfh(&fh).op(locku(taken, 0, 10)).expect(NfsStat::OK).await;
    }
}

fn reclaim() -> OpArgs {
    OpArgs::Open(open("opener", OpenClaim::Previous(0)))
}

async fn back(cluster: &Cluster, owner: &str) -> Client {
    let options = ClientOptions { reclaim_complete: false, ..ClientOptions::new(owner) };
    Client::with(cluster.address(), options).await
}

/// RFC 8881 §8.4.3, first edge condition: what was lost to another client cannot be reclaimed
/// after a restart, even one that follows at once.
#[tokio::test]
async fn what_was_lost_is_not_reclaimed() {
    let mut cluster = with_lease(1).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut other = Client::mount(&cluster, "other").await;
    let (fh, _) = silent.file("f").await;
    let deny = OpArgs::Open(OpenArgs { share_deny: 3, ..open("o", OpenClaim::Fh) });
    until_ok(&mut other, &fh, NfsStat::SHARE_DENIED, deny).await;
    cluster.restart().await;
    let mut silent = back(&cluster, "silent").await;
    silent.compound().putfh(&fh).op(reclaim()).expect(NfsStat::NO_GRACE).await;
    let mut other = back(&cluster, "other").await;
    other.compound().putfh(&fh).op(reclaim()).expect(NfsStat::OK).await;
}

/// Repeats the OPEN of a file in the root until grace is over; how long that took.
async fn until_served(
    cluster: &Cluster,
    begun: Instant,
    mut renew: Option<&mut Client>,
) -> Duration {
    let mut other = Client::mount(cluster, "other").await;
    loop {
        let opened = other.compound().putrootfh().open_create("new").send().await;
        if opened.status() == NfsStat::OK {
            return begun.elapsed();
        }
        opened.is(NfsStat::GRACE);
        if let Some(renewing) = &mut renew {
            renewing.renew().await;
        }
        assert!(begun.elapsed() < PATIENCE, "refused for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A client that reclaims what it had and never says RECLAIM_COMPLETE keeps others waiting for one
/// grace period, and not after the next restart (RFC 8881 §8.4.2.1, ADR 12).
#[tokio::test]
async fn an_incomplete_reclaim_is_awaited_once() {
    let grace = Duration::from_secs(3);
    let mut cluster = with_lease(3).await;
    let mut slow = Client::mount(&cluster, "slow").await;
    let (fh, _) = slow.file("f").await;
    cluster.restart().await;
    let begun = Instant::now();
    let mut slow = back(&cluster, "slow").await;
    slow.compound().putfh(&fh).op(reclaim()).expect(NfsStat::OK).await;
    let first = until_served(&cluster, begun, Some(&mut slow)).await;
    assert!(first >= grace, "{first:?}: it may be reclaiming still");
    // The mark that tells the next start is made within a second.
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        slow.renew().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.restart().await;
    let begun = Instant::now();
    let mut slow = back(&cluster, "slow").await;
    let second = until_served(&cluster, begun, Some(&mut slow)).await;
    assert!(second < grace / 2, "{second:?}: it was awaited once more");
    slow.compound().putfh(&fh).op(reclaim()).expect(NfsStat::NO_GRACE).await;
}

/// A client that does not come back is awaited for one grace period in all, however often the
/// server is restarted in it (ADR 12).
#[tokio::test]
async fn restarts_in_grace_wait_for_one_period_in_all() {
    let mut cluster = with_lease(4).await;
    let mut gone = Client::mount(&cluster, "gone").await;
    gone.file("f").await;
    drop(gone);
    let begun = Instant::now();
    for seconds in [2, 3] {
        cluster.restart().await;
        let until = begun + Duration::from_secs(seconds);
        tokio::time::sleep_until(until.into()).await;
    }
    cluster.restart().await;
    let took = until_served(&cluster, begun, None).await;
    assert!(took < Duration::from_secs(6), "{took:?} with a grace period of 4 s");
}

/// RFC 8881 §8.4.3, second edge condition: a client that came back but did not complete its
/// reclaim in grace cannot reclaim in the next one, since others may have had it in between.
#[tokio::test]
async fn an_incomplete_reclaim_is_not_taken_up_later() {
    let mut cluster = with_lease(1).await;
    let mut slow = Client::mount(&cluster, "slow").await;
    let (fh, _) = slow.file("f").await;
    cluster.restart().await;
    back(&cluster, "slow").await;
    let mut other = Client::mount(&cluster, "other").await;
    let create = OpArgs::Open(open_create("o", "new"));
    let root = other.compound().putrootfh().getfh().send().await.ok().fh();
    until_ok(&mut other, &root, NfsStat::GRACE, create).await;
    cluster.restart().await;
    let mut slow = back(&cluster, "slow").await;
    slow.compound().putfh(&fh).op(reclaim()).expect(NfsStat::NO_GRACE).await;
}
