//! Clients that answer no callback, or keep what they are asked for: what they cost others.
//! RFC 8881 §10.2.1, §10.4.3, §10.4.5, §18.16.3, §18.46.3.

use std::time::{Duration, Instant};

use weft_mds::{Delegated, Export};
use weft_nfs::{
    AttrNo, FileHandle, NfsStat, OpArgs, Stateid, ops::*, seq4_status, share,
    why_no_delegation as why,
};

use crate::{
    delegations::{delegation, delegreturn, recalled, statuses, test_stateid, until_done},
    support::*,
    write_delegations::{closed_file, wanting},
};

/// Longer than any callback of the server waits with this lease, and shorter than the lease.
const LEASE_S: u32 = 2;

async fn cluster(lease_s: u32) -> Cluster {
    let delegated = Delegated { directories: false, writes: true };
    let export = Export { delegated, ..open_export() };
    Cluster::with(Options { lease_s, export, ..Options::default() }).await
}

fn want_read() -> OpenArgs {
    wanting(share::ACCESS_READ | share::WANT_READ_DELEG)
}

fn open_to_write() -> OpArgs {
    OpArgs::Open(wanting(share::ACCESS_WRITE | share::WANT_NO_DELEG))
}

/// So many files, each delegated to the client to write in place of an open.
async fn delegated_files(c: &mut Client, count: usize) -> Vec<(FileHandle, Stateid)> {
    let mut files = Vec::new();
    for n in 0..count {
        let fh = closed_file(c, &format!("f{n}")).await;
        let either = wanting(share::ACCESS_WRITE | share::WANT_OPEN_XOR_DELEGATION);
        let OpenDelegation::Write { stateid, .. } = delegation(c, &fh, either).await else {
            panic!("nobody else has it")
        };
        files.push((fh, stateid));
    }
    files
}

/// Repeats an operation, while the client that is in its way renews its lease, until that is done;
/// how long that took.
async fn waited(c: &mut Client, silent: &mut Client, fh: &FileHandle, op: &OpArgs) -> Duration {
    let begun = Instant::now();
    loop {
        match c.compound().putfh(fh).op(op.clone()).send().await.status() {
            NfsStat::OK => return begun.elapsed(),
            NfsStat::DELAY => silent.renew().await,
            status => panic!("{status}"),
        };
        assert!(begun.elapsed() < PATIENCE, "told to wait for ever");
    }
}

fn refused(why: u32) -> OpenDelegation {
    OpenDelegation::NoneExt(why, Some(false))
}

/// RFC 8881 §18.16.3: a read delegation that was wanted back a moment ago is not granted again to
/// a client that asks for it by name.
#[tokio::test]
async fn what_was_wanted_back_is_not_had_by_asking() {
    let cluster = cluster(60).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut b, "f").await;
    let OpenDelegation::Read { stateid, .. } = delegation(&mut a, &fh, want_read()).await else {
        panic!("nobody writes the file")
    };
    b.compound().putfh(&fh).op(open_to_write()).expect(NfsStat::DELAY).await;
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    let open = until_done(&mut b, &fh, open_to_write()).await.ok().stateid();
    b.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
    assert_eq!(delegation(&mut a, &fh, want_read()).await, refused(why::CONTENTION));
}

/// RFC 8881 §10.4.5: a client that did not return a delegation gets none of any file. After the
/// second time neither does another client of its host; other hosts do.
#[tokio::test]
async fn hosts_of_late_clients_get_none() {
    let cluster = cluster(1).await;
    let mut b = Client::mount(&cluster, "b").await;
    let next = closed_file(&mut b, "next").await;
    for name in ["a", "the same user"] {
        let mut a = Client::mount(&cluster, name).await;
        let fh = closed_file(&mut b, &format!("file of {name}")).await;
        let held = delegation(&mut a, &fh, want_read()).await;
        assert!(matches!(held, OpenDelegation::Read { .. }), "{name}: {held:?}");
        waited(&mut b, &mut a, &fh, &open_to_write()).await;
        assert_eq!(delegation(&mut a, &next, want_read()).await, refused(why::RESOURCE));
    }
    let mut again = Client::mount(&cluster, "a under another name").await;
    assert_eq!(delegation(&mut again, &next, want_read()).await, refused(why::RESOURCE));
    let elsewhere = ClientOptions { from: [127, 0, 0, 2], ..ClientOptions::new("elsewhere") };
    let mut elsewhere = Client::with(cluster.address(), elsewhere).await;
    let granted = delegation(&mut elsewhere, &next, want_read()).await;
    assert!(matches!(granted, OpenDelegation::Read { .. }), "{granted:?}");
}

/// RFC 8881 §10.4.3: a client that only looks at files is told what the server knows of them if
/// their holder does not answer CB_GETATTR. The server waits for that answer once.
#[tokio::test]
async fn a_stat_waits_once_for_a_silent_writer() {
    let cluster = cluster(60).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut b = Client::mount(&cluster, "b").await;
    let files = delegated_files(&mut silent, 8).await;
    let begun = Instant::now();
    for (fh, stateid) in &files {
        silent.compound().putfh(fh).op(write(*stateid, 0, b"four")).expect(NfsStat::OK).await;
        let seen = b.compound().putfh(fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
        assert_eq!(seen.size, Some(4));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}: one wait of a second for all");
}

/// RFC 8881 §10.2.1, §10.4.5: whoever needs one file of a client that answers no callback waits
/// for a lease; by then the client has lost all of them, so that nobody waits again. It is told so
/// (§18.46.3) until it has freed the stateids (§18.38).
#[tokio::test]
async fn silence_costs_one_lease_and_all_delegations() {
    let cluster = cluster(LEASE_S).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut b = Client::mount(&cluster, "b").await;
    let files = delegated_files(&mut silent, 8).await;
    let mut took = Vec::new();
    for (fh, _) in &files {
        took.push(waited(&mut b, &mut silent, fh, &open_to_write()).await);
    }
    let rest: Duration = took[1..].iter().sum();
    assert!(rest < Duration::from_secs(LEASE_S.into()) / 2, "{took:?}");
    let revoked = seq4_status::RECALLABLE_STATE_REVOKED;
    for (_, stateid) in &files {
        assert_eq!(silent.renew().await.sequence().status_flags & revoked, revoked);
        let tested = silent.compound().op(test_stateid(*stateid)).send().await.ok();
        assert_eq!(statuses(&tested), [NfsStat::DELEG_REVOKED]);
        let free = OpArgs::FreeStateid(FreeStateidArgs { stateid: *stateid });
        silent.compound().op(free).expect(NfsStat::OK).await;
    }
    assert_eq!(silent.renew().await.sequence().status_flags & revoked, 0);
}

/// A client that takes its recalls and returns nothing loses what it was asked for after a lease
/// (RFC 8881 §10.4.5). It is asked for the rest then, so that nobody waits longer than for a
/// second one.
#[tokio::test]
async fn a_client_that_returns_nothing_costs_two_leases() {
    let cluster = cluster(LEASE_S).await;
    let mut holder = Client::mount(&cluster, "holder").await;
    let mut b = Client::mount(&cluster, "b").await;
    let files = delegated_files(&mut holder, 6).await;
    let begun = Instant::now();
    for (fh, _) in &files {
        loop {
            let open = b.compound().putfh(fh).op(open_to_write());
            if open.send().await.status() == NfsStat::OK {
                break;
            }
            holder.renew().await;
            for callback in holder.wire.callbacks_here() {
                holder.wire.answer(&callback, NfsStat::OK).await;
            }
        }
    }
    let took = begun.elapsed();
    assert!(took < 3 * Duration::from_secs(LEASE_S.into()), "{took:?}");
}

/// RFC 8881 §18.46.3: SEQUENCE tells a client that answers no callback that its back channel is
/// down; until it binds one again it gets no delegation (§10.2.1).
#[tokio::test]
async fn silence_is_told_and_gets_no_delegation() {
    let cluster = cluster(LEASE_S).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (fh, _) = delegated_files(&mut silent, 1).await.remove(0);
    let next = closed_file(&mut b, "next").await;
    b.compound().putfh(&fh).op(open_to_write()).expect(NfsStat::DELAY).await;
    let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    let begun = Instant::now();
    while silent.renew().await.sequence().status_flags & down != down {
        let lease = Duration::from_secs(LEASE_S.into());
        assert!(begun.elapsed() < lease, "it is told before it loses anything");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(delegation(&mut silent, &next, want_read()).await, refused(why::RESOURCE));
}

/// A connection that breaks costs its client no delegation (RFC 8881 §10.2.1): others that look
/// meanwhile do not wait, and are told what is known; the client binds another connection when it
/// is told to (§18.46.3), and is asked there.
#[tokio::test]
async fn a_mere_reconnect_costs_nothing() {
    let cluster = cluster(60).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (fh, stateid) = delegated_files(&mut a, 1).await.remove(0);
    let open = cluster.connections();
    a.wire = Wire::connect(cluster.address()).await;
    eventually("end of the first connection", || cluster.connections() == open).await;
    let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    while a.renew().await.sequence().status_flags & down != down {}
    let begun = Instant::now();
    let seen = b.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(seen.size, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody was asked");
    let bind = OpArgs::BindConnToSession(BindConnToSessionArgs {
        sessionid: a.sessionid,
        dir: 3,
        use_conn_in_rdma_mode: false,
    });
    a.bare(&[bind]).await.ok();
    assert_eq!(a.renew().await.sequence().status_flags, 0);
    let held = a.compound().op(test_stateid(stateid)).send().await.ok();
    assert_eq!(statuses(&held), [NfsStat::OK]);
    let look = b.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).begin().await;
    let callback = a.wire.callback().await;
    a.wire.tell(&callback, 77, 0).await;
    assert_eq!(b.wire.nfs_reply(look).await.ok().attrs().size, Some(77));
}
