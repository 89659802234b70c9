//! Write delegations: grant, in place of an open, what others see and wait for, revocation,
//! reclaim.
//! RFC 8881 §10.4, §18.16, §20.1; RFC 9754 §4.

use std::time::{Duration, Instant};

use weft_mds::{Delegated, Export};
use weft_nfs::{
    AttrNo, Attrs, FileHandle, IoMode, LockType, NfsStat, OpArgs, OpOk, Seqid, Stateid,
    callback::CbOp, delegate, open_result, ops::*, share, why_no_delegation as why,
};

use crate::{
    delegations::{delegation, delegreturn, recalled, statuses, test_stateid, until_done},
    support::*,
};

fn options() -> Options {
    let delegated = Delegated { directories: false, writes: true };
    Options { export: Export { delegated, ..open_export() }, ..Options::default() }
}

/// A cluster whose small files stay with the metadata server, or that has data servers.
async fn cluster(data_servers: u32) -> Cluster {
    Cluster::with(Options { data_servers, ..options() }).await
}

/// A file that nobody has open or delegated.
pub async fn closed_file(c: &mut Client, name: &str) -> FileHandle {
    let share_access = share::ACCESS_BOTH | share::WANT_NO_DELEG;
    let made = OpenArgs { share_access, ..open_create("maker", name) };
    let made = c.compound().putrootfh().open(made).getfh().send().await.ok();
    c.compound().putfh(&made.fh()).op(close(made.stateid())).expect(NfsStat::OK).await;
    made.fh()
}

pub fn wanting(access: u32) -> OpenArgs {
    OpenArgs { share_access: access, ..open("o", OpenClaim::Fh) }
}

/// As Linux opens to write: a delegation will do in place of the open.
fn either() -> OpenArgs {
    wanting(share::ACCESS_WRITE | share::WANT_OPEN_XOR_DELEGATION)
}

/// The write delegation that a client gets of a file in place of an open.
async fn delegated(c: &mut Client, fh: &FileHandle) -> Stateid {
    let opened = c.compound().putfh(fh).open(either()).send().await.ok().open();
    let OpenDelegation::Write { stateid, recall: false, .. } = opened.delegation else {
        panic!("{:?}", opened.delegation)
    };
    assert_eq!(opened.stateid, Stateid::ANONYMOUS);
    assert_ne!(opened.rflags & open_result::NO_OPEN_STATEID, 0);
    stateid
}

async fn looked(c: &mut Client, fh: &FileHandle) -> Attrs {
    let wanted = [AttrNo::SIZE, AttrNo::CHANGE, AttrNo::TIME_MODIFY];
    c.compound().putfh(fh).getattr(&wanted).send().await.ok().attrs()
}

/// The holder is asked for its size and change, and says these; what `asker` was told then.
async fn looked_while_told(
    asker: &mut Client,
    holder: &mut Client,
    fh: &FileHandle,
    (size, change): (u64, u64),
) -> Attrs {
    let wanted = [AttrNo::SIZE, AttrNo::CHANGE, AttrNo::TIME_MODIFY];
    let look = asker.compound().putfh(fh).getattr(&wanted).begin().await;
    let callback = holder.wire.callback().await;
    let Some(CbOp::Getattr(args)) = callback.ops.get(1) else { panic!("{:?}", callback.ops) };
    assert_eq!(args.fh, *fh);
    holder.wire.tell(&callback, size, change).await;
    asker.wire.nfs_reply(look).await.ok().attrs()
}

/// Who makes a file, or is alone with one that it opens to write, is delegated it; not who wants
/// none, whose user only reads, or who is not alone.
#[tokio::test]
async fn lone_writers_get_one() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let made = a.compound().putrootfh().open_create("made").getfh().send().await.ok();
    let OpenDelegation::Write { stateid, recall: false, .. } = made.open().delegation else {
        panic!("{:?}", made.open().delegation)
    };
    assert_ne!(made.stateid(), stateid, "no open was given up");
    assert_eq!(made.open().rflags & open_result::NO_OPEN_STATEID, 0);
    let wants = share::ACCESS_WRITE;
    let fh = b.compound().putrootfh().lookup("made").getfh().send().await.ok().fh();
    let open = until_opened(&mut b, &mut a, &fh, stateid).await;
    let refused = OpenDelegation::NoneExt(why::CONTENTION, Some(false));
    let asked = wanting(wants | share::WANT_WRITE_DELEG);
    assert_eq!(delegation(&mut b, &fh, asked.clone()).await, refused, "the other has it open");
    let current = Stateid { seqid: Seqid(0), ..open };
    b.compound().putfh(&fh).op(close(current)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(close(made.stateid())).expect(NfsStat::OK).await;
    let none = delegation(&mut b, &fh, wanting(wants)).await;
    assert_eq!(none, OpenDelegation::None, "it was wanted back just now");
    assert_eq!(delegation(&mut b, &fh, asked).await, refused, "nor for asking");
    let other = closed_file(&mut b, "other").await;
    let no = wanting(wants | share::WANT_NO_DELEG);
    let declined = OpenDelegation::NoneExt(why::NOT_WANTED, None);
    assert_eq!(delegation(&mut b, &other, no).await, declined);
}

/// Who has a delegation locks by itself, and is not told to expect notifications of locks; who was
/// told so is delegated nothing to write while it has the file open: what Linux does with both
/// keeps its own processes from a lock for half a minute.
#[tokio::test]
async fn locks_are_told_of_or_delegated() {
    let cluster = cluster(0).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut c, "f").await;
    let notifies = |opened: &OpenOk| opened.rflags & open_result::MAY_NOTIFY_LOCK != 0;
    let by = |owner, wants| OpenArgs {
        share_access: share::ACCESS_WRITE | wants,
        ..open(owner, OpenClaim::Fh)
    };
    for _ in 0..2 {
        let first = c.compound().putfh(&fh).open(by("p", 0)).send().await.ok().open();
        let OpenDelegation::Write { stateid, .. } = first.delegation else {
            panic!("{:?}", first.delegation)
        };
        let second = c.compound().putfh(&fh).open(by("q", 0)).send().await.ok().open();
        assert_eq!(second.delegation, OpenDelegation::None);
        assert!(!notifies(&first) && !notifies(&second));
        c.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        for opened in [first.stateid, second.stateid] {
            c.compound().putfh(&fh).op(close(opened)).expect(NfsStat::OK).await;
        }
        let none = share::WANT_NO_DELEG;
        let told = c.compound().putfh(&fh).open(by("p", none)).send().await.ok().open();
        let next = c.compound().putfh(&fh).open(by("q", 0)).send().await.ok().open();
        assert!(notifies(&told) && notifies(&next));
        assert_eq!(next.delegation, OpenDelegation::None, "it expects to be notified");
        for opened in [told.stateid, next.stateid] {
            c.compound().putfh(&fh).op(close(opened)).expect(NfsStat::OK).await;
        }
    }
}

/// Opens what another holds, which gives it back.
async fn until_opened(
    c: &mut Client,
    holder: &mut Client,
    fh: &FileHandle,
    held: Stateid,
) -> Stateid {
    let open = OpArgs::Open(wanting(share::ACCESS_WRITE | share::WANT_NO_DELEG));
    c.compound().putfh(fh).op(open.clone()).expect(NfsStat::DELAY).await;
    assert_eq!(recalled(holder).await.stateid, held);
    holder.compound().putfh(fh).op(delegreturn(held)).expect(NfsStat::OK).await;
    until_done(c, fh, open).await.ok().stateid()
}

/// In place of an open it is all that is needed: it writes and reads, sets the size, and gets a
/// layout, and the file stays until it is back. A denial is nothing that it can say.
#[tokio::test]
async fn it_stands_for_an_open() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    a.compound().putfh(&fh).op(write(stateid, 0, b"some bytes")).expect(NfsStat::OK).await;
    let reply = a.compound().putfh(&fh).op(read(stateid, 0, 10)).send().await.ok();
    assert_eq!(&reply.data().0[..], b"some bytes");
    a.compound().putfh(&fh).op(setattr(stateid, size(4))).expect(NfsStat::OK).await;
    a.compound().putrootfh().op(remove("f")).expect(NfsStat::OK).await;
    assert_eq!(looked(&mut a, &fh).await.size, Some(4));
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).expect(NfsStat::STALE).await;

    let fh = closed_file(&mut a, "g").await;
    let denies = OpenArgs { share_deny: share::DENY_WRITE, ..either() };
    let opened = a.compound().putfh(&fh).open(denies).send().await.ok().open();
    assert!(matches!(opened.delegation, OpenDelegation::Write { .. }));
    assert_ne!(opened.stateid, Stateid::ANONYMOUS);
    assert_eq!(opened.rflags & open_result::NO_OPEN_STATEID, 0);
    // And a second open of the same owner changes the one there is.
    let again = a.compound().putfh(&fh).open(either()).send().await.ok().open();
    assert_eq!(again.stateid.other, opened.stateid.other);

    let old = ClientOptions { minor: 1, ..ClientOptions::new("4.1") };
    let mut old = Client::with(cluster.address(), old).await;
    let fh = closed_file(&mut old, "h").await;
    let opened = old.compound().putfh(&fh).open(either()).send().await.ok().open();
    assert!(matches!(opened.delegation, OpenDelegation::Write { .. }));
    assert_ne!(opened.stateid, Stateid::ANONYMOUS, "nobody has heard of that in 4.1");
}

/// Two OPENs of one owner at once: neither fails for the other's delegation, and what was granted
/// is told.
#[tokio::test]
async fn opens_that_meet_both_stand() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    for n in 0..50 {
        let fh = closed_file(&mut a, &format!("f{n}")).await;
        let first = a.compound().slot(0).putfh(&fh).open(either()).begin().await;
        let second = a.compound().slot(1).putfh(&fh).open(either()).begin().await;
        let opened = [a.wire.nfs_reply(first).await.ok(), a.wire.nfs_reply(second).await.ok()];
        let granted = opened
            .iter()
            .filter(|reply| matches!(reply.open().delegation, OpenDelegation::Write { .. }));
        assert_eq!(granted.count(), 1);
    }
}

/// A writer is not told to throw away what it has for a truncation that may be refused yet.
#[tokio::test]
async fn recalls_of_writers_promise_no_truncation() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    delegated(&mut a, &fh).await;
    let cut = setattr(Stateid::ANONYMOUS, size(0));
    b.compound().putfh(&fh).op(cut).expect(NfsStat::DELAY).await;
    assert!(!recalled(&mut a).await.truncate);
}

/// Others are told what the holder says, and another change attribute each time that it has
/// changes of its own; nothing is recalled for that.
#[tokio::test]
async fn others_see_what_the_holder_has() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let granted = looked(&mut a, &fh).await.change.unwrap();
    a.compound().putfh(&fh).op(write(stateid, 0, b"four")).expect(NfsStat::OK).await;
    let own = looked(&mut a, &fh).await;
    // It says what it was at the OPEN, whatever it wrote since.
    assert!(own.change > Some(granted));
    let clean = looked_while_told(&mut b, &mut a, &fh, (4, granted)).await;
    assert_eq!(clean, own);
    let dirty = looked_while_told(&mut b, &mut a, &fh, (1000, granted + 1)).await;
    assert_eq!(dirty.size, Some(1000));
    assert!(dirty.change > own.change && dirty.time_modify > own.time_modify);
    let again = looked_while_told(&mut b, &mut a, &fh, (1000, granted + 1)).await;
    assert!(again.change > dirty.change);
    // A listing asks too.
    let list = OpArgs::Readdir(readdir(0, 1 << 16, &[AttrNo::SIZE]));
    let listing = b.compound().putrootfh().op(list).begin().await;
    let callback = a.wire.callback().await;
    a.wire.tell(&callback, 77, granted + 1).await;
    let entries = b.wire.nfs_reply(listing).await.ok().readdir().entries;
    assert_eq!(entries[0].attrs.size, Some(77));
    // Only the answer has it: the volume keeps what was written.
    assert_eq!(looked(&mut a, &fh).await.size, Some(4));
    let held = a.compound().op(test_stateid(stateid)).send().await.ok();
    assert_eq!(statuses(&held), [NfsStat::OK]);
}

/// A size that no file can have is not passed on.
#[tokio::test]
async fn what_the_holder_says_has_limits() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    delegated(&mut a, &fh).await;
    let told = looked_while_told(&mut b, &mut a, &fh, (u64::MAX, 0)).await;
    assert_eq!(told.size, Some(i64::MAX as u64));
}

/// A holder that does not say gives the file back; a listing does not wait for that.
#[tokio::test]
async fn who_does_not_say_gives_it_back() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let list = OpArgs::Readdir(readdir(0, 1 << 16, &[AttrNo::SIZE]));
    let listing = b.compound().putrootfh().op(list).begin().await;
    let callback = a.wire.callback().await;
    a.wire.answer(&callback, NfsStat::SERVERFAULT).await;
    let entries = b.wire.nfs_reply(listing).await.ok().readdir().entries;
    assert_eq!(entries[0].attrs.size, Some(0));

    let look = getattr(&[AttrNo::SIZE]);
    let looking = b.compound().putfh(&fh).op(look.clone()).begin().await;
    let callback = a.wire.callback().await;
    a.wire.answer(&callback, NfsStat::SERVERFAULT).await;
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    a.compound().putfh(&fh).op(write(stateid, 0, b"1234567")).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    let told = match b.wire.nfs_reply(looking).await {
        reply if reply.status() == NfsStat::DELAY => until_done(&mut b, &fh, look).await.ok(),
        reply => reply.ok(),
    };
    assert_eq!(told.attrs().size, Some(7));
}

/// Others wait who would read as well as who would change: by an open, without one, and by asking
/// for locks, which the holder may have given to its users.
#[tokio::test]
async fn readers_wait_too() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let anonymous = Stateid::ANONYMOUS;
    let waits = [
        OpArgs::Open(wanting(share::ACCESS_READ | share::WANT_NO_DELEG)),
        OpArgs::Open(wanting(share::ACCESS_WRITE | share::WANT_NO_DELEG)),
        read(anonymous, 0, 1),
        write(anonymous, 0, b"x"),
        setattr(anonymous, mode(0o600)),
        lockt("lo", LockType::Write, 0, 1),
    ];
    for (n, wait) in waits.into_iter().enumerate() {
        let fh = closed_file(&mut a, &format!("f{n}")).await;
        let own = wanting(share::ACCESS_WRITE | share::WANT_WRITE_DELEG);
        let own =
            OpenArgs { share_access: own.share_access | share::WANT_OPEN_XOR_DELEGATION, ..own };
        let opened = a.compound().putfh(&fh).open(own).send().await.ok().open();
        let OpenDelegation::Write { stateid, .. } = opened.delegation else {
            panic!("{wait:?}: {:?}", opened.delegation)
        };
        b.compound().putfh(&fh).op(wait.clone()).expect(NfsStat::DELAY).await;
        assert_eq!(recalled(&mut a).await.stateid, stateid, "{wait:?}");
        a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        let done = until_done(&mut b, &fh, wait.clone()).await.ok();
        if let OpArgs::Open(_) = wait {
            b.compound().putfh(&fh).op(close(done.stateid())).expect(NfsStat::OK).await;
        }
    }
}

/// While it is being recalled its holder opens what its users have open, and writes what it has.
#[tokio::test]
async fn opens_are_claimed_before_it_is_returned() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let wait = OpArgs::Open(wanting(share::ACCESS_READ | share::WANT_NO_DELEG));
    b.compound().putfh(&fh).op(wait.clone()).expect(NfsStat::DELAY).await;
    recalled(&mut a).await;
    let claim = OpenArgs { claim: OpenClaim::DelegCurFh(stateid), ..either() };
    let opened = a.compound().putfh(&fh).open(claim).send().await.ok().open();
    assert_ne!(opened.stateid, Stateid::ANONYMOUS);
    let lock = lock_new(opened.stateid, "lo", LockType::Write, 0, 1);
    a.compound().putfh(&fh).op(OpArgs::Lock(lock)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(write(stateid, 0, b"kept")).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    until_done(&mut b, &fh, wait).await.ok();
    assert_eq!(looked(&mut b, &fh).await.size, Some(4));
    b.compound().putfh(&fh).op(lockt("x", LockType::Write, 0, 1)).expect(NfsStat::DENIED).await;
}

/// The one to read that a client has becomes one to write, by the same state.
#[tokio::test]
async fn a_reader_becomes_a_writer() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let reads = delegation(&mut a, &fh, wanting(share::ACCESS_READ)).await;
    let OpenDelegation::Read { stateid: before, .. } = reads else { panic!("{reads:?}") };
    let writes = delegation(&mut a, &fh, wanting(share::ACCESS_BOTH)).await;
    let OpenDelegation::Write { stateid, .. } = writes else { panic!("{writes:?}") };
    assert_eq!((stateid.other, stateid.seqid.0), (before.other, before.seqid.0 + 1));
    a.compound().putfh(&fh).op(delegreturn(before)).expect(NfsStat::OLD_STATEID).await;
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
}

/// Who sets a list changes the mode with it, which Linux does not look at again while it holds a
/// write delegation: it gives that back first.
#[tokio::test]
async fn a_list_is_set_without_one() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let chmod = setattr(Stateid::ANONYMOUS, mode(0o640));
    a.compound().putfh(&fh).op(chmod).expect(NfsStat::OK).await;
    let list = a.compound().putfh(&fh).getattr(&[AttrNo::ACL]).send().await.ok().attrs().acl;
    let set = setattr(Stateid::ANONYMOUS, Attrs { acl: list, ..Attrs::default() });
    a.compound().putfh(&fh).op(set.clone()).expect(NfsStat::DELAY).await;
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(set).expect(NfsStat::OK).await;
}

/// A file with set-id bits is delegated to nobody who writes: others lose them by writing, and
/// Linux shows the mode that it knew until the write is answered (generic/193 of xfstests).
#[tokio::test]
async fn set_id_bits_are_not_kept_from_sight() {
    let cluster = cluster(0).await;
    let mut a = Client::mount(&cluster, "a").await;
    for (bits, privileged) in [(0o4640, true), (0o2750, true), (0o2640, true), (0o1640, false)] {
        let chmod = setattr(Stateid::ANONYMOUS, mode(bits));
        let held = closed_file(&mut a, &format!("held-{bits:o}")).await;
        let stateid = delegated(&mut a, &held).await;
        if privileged {
            a.compound().putfh(&held).op(chmod.clone()).expect(NfsStat::DELAY).await;
            assert_eq!(recalled(&mut a).await.stateid, stateid);
            a.compound().putfh(&held).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        }
        a.compound().putfh(&held).op(chmod.clone()).expect(NfsStat::OK).await;
        // Once it has them none is given, to whoever asks.
        let free = closed_file(&mut a, &format!("free-{bits:o}")).await;
        a.compound().putfh(&free).op(chmod).expect(NfsStat::OK).await;
        let opened = a.compound().putfh(&free).open(wanting(share::ACCESS_WRITE)).send().await;
        let is_delegated = matches!(opened.ok().open().delegation, OpenDelegation::Write { .. });
        assert_eq!(is_delegated, !privileged, "{bits:o}");
    }
}

/// A small file that its holder has opened by itself stays where it is until it is no longer small;
/// what it was told of when it opened it may get large at once.
#[tokio::test]
async fn small_files_do_not_leave_unasked() {
    let cluster = cluster(2).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let get = || OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    a.compound().putfh(&fh).op(write(stateid, 0, b"small")).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(get()).expect(NfsStat::BADLAYOUT).await;
    a.compound().putfh(&fh).op(setattr(stateid, size(0))).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(get()).expect(NfsStat::BADLAYOUT).await;
    let large = vec![7; (64 << 10) + 1];
    a.compound().putfh(&fh).op(write(stateid, 0, &large)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(get()).expect(NfsStat::OK).await;
    let made = closed_file(&mut a, "g").await;
    let stateid = delegated(&mut a, &made).await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    a.compound().putfh(&made).op(get).expect(NfsStat::OK).await;
}

/// Who writes a small file again and again by itself need not ask for a layout each time; but of
/// one that grows it is not told so, since it would write it through here when it is large.
#[tokio::test]
async fn who_writes_a_small_file_over_and_over_need_not_ask() {
    let cluster = cluster(2).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let get = || OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    for n in 0..10 {
        a.compound().putfh(&fh).op(write(stateid, n, b"grows")).expect(NfsStat::OK).await;
        a.compound().putfh(&fh).op(get()).expect(NfsStat::BADLAYOUT).await;
    }
    let (not_now, not_soon) = (NfsStat::BADLAYOUT, NfsStat::LAYOUTUNAVAILABLE);
    for said in [not_now, not_now, not_now, not_soon, not_now, not_now, not_now, not_soon] {
        a.compound().putfh(&fh).op(write(stateid, 0, b"stays")).expect(NfsStat::OK).await;
        a.compound().putfh(&fh).op(get()).expect(said).await;
    }
    // As with `O_TRUNC`: what is written next may be large.
    for _ in 0..10 {
        a.compound().putfh(&fh).op(setattr(stateid, size(0))).expect(NfsStat::OK).await;
        a.compound().putfh(&fh).op(get()).expect(NfsStat::BADLAYOUT).await;
        a.compound().putfh(&fh).op(write(stateid, 0, b"anew")).expect(NfsStat::OK).await;
    }
    let large = vec![7; (64 << 10) + 1];
    a.compound().putfh(&fh).op(write(stateid, 0, &large)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(get()).expect(NfsStat::OK).await;
}

/// A small file does not leave for an open that its holder recovers beside the delegation (Linux
/// does so when it writes while it gives that back, and `pnfs_update_layout` finds no open): what
/// it then writes with a lock that it takes for lost it fails by itself, and if it had a layout, it
/// takes the data servers for dead, and writes everything through here for two minutes.
#[tokio::test]
async fn small_files_do_not_leave_for_who_gives_them_back() {
    let cluster = cluster(2).await;
    let mut a = Client::mount(&cluster, "a").await;
    for bytes in ["", "small"] {
        let fh = closed_file(&mut a, &format!("f-{bytes}")).await;
        let stateid = delegated(&mut a, &fh).await;
        let written = write(stateid, 0, bytes.as_bytes());
        a.compound().putfh(&fh).op(written).expect(NfsStat::OK).await;
        let recovered = wanting(share::ACCESS_BOTH | share::WANT_NO_DELEG);
        let opened = a.compound().putfh(&fh).open(recovered).send().await.ok().open();
        let get = || OpArgs::Layoutget(layoutget(opened.stateid, IoMode::RW));
        a.compound().putfh(&fh).op(get()).expect(NfsStat::BADLAYOUT).await;
        a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        a.compound().putfh(&fh).op(get()).expect(NfsStat::OK).await;
    }
}

/// An open that was granted together with a delegation was told from where on a layout is worth it;
/// also if the delegation is one to read that became one to write with it.
#[tokio::test]
async fn small_files_leave_for_an_open_of_before() {
    let cluster = cluster(2).await;
    let mut a = Client::mount(&cluster, "a").await;
    for reads_first in [false, true] {
        let fh = closed_file(&mut a, &format!("f-{reads_first}")).await;
        if reads_first {
            let opened = a.compound().putfh(&fh).open(wanting(share::ACCESS_READ)).send().await;
            let opened = opened.ok().open();
            assert!(matches!(opened.delegation, OpenDelegation::Read { .. }));
            a.compound().putfh(&fh).op(close(opened.stateid)).expect(NfsStat::OK).await;
        }
        let opened = a.compound().putfh(&fh).open(wanting(share::ACCESS_WRITE)).send().await;
        let opened = opened.ok().open();
        assert!(matches!(opened.delegation, OpenDelegation::Write { .. }));
        let small = write(opened.stateid, 0, b"small");
        a.compound().putfh(&fh).op(small).expect(NfsStat::OK).await;
        let get = OpArgs::Layoutget(layoutget(opened.stateid, IoMode::RW));
        a.compound().putfh(&fh).op(get).expect(NfsStat::OK).await;
    }
}

/// Who does not give it back loses it after a lease, with the layout that it has; nothing that it
/// still sends to data servers is taken.
#[tokio::test]
async fn silence_is_revoked_with_its_layout() {
    let options = Options { lease_s: 1, small_files: weft_mds::SmallFiles::OFF, ..options() };
    let cluster = Cluster::with(Options { data_servers: 1, ..options }).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    let layout = files_layout(&a.compound().putfh(&fh).op(get).send().await.ok());
    let target = layout_handle(&layout, 0);
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let late = write(Stateid::ANONYMOUS, 0, b"late");
    ds.compound().putfh(&target).op(late.clone()).expect(NfsStat::OK).await;
    let open = OpArgs::Open(wanting(share::ACCESS_WRITE | share::WANT_NO_DELEG));
    let deadline = Instant::now() + PATIENCE;
    while b.compound().putfh(&fh).op(open.clone()).send().await.status() != NfsStat::OK {
        a.renew().await;
        assert!(Instant::now() < deadline, "never revoked");
    }
    a.compound().putfh(&fh).op(write(stateid, 0, b"x")).expect(NfsStat::DELEG_REVOKED).await;
    while ds.compound().putfh(&target).op(late.clone()).send().await.status() == NfsStat::OK {
        assert!(Instant::now() < deadline, "the layout is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A holder whose lease has passed is not asked: not what it has, and not to give it back.
#[tokio::test]
async fn expired_holders_give_way() {
    let cluster = Cluster::with(Options { lease_s: 1, ..options() }).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut silent, "f").await;
    delegated(&mut silent, &fh).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    b.renew().await;
    assert_eq!(looked(&mut b, &fh).await.size, Some(0));
    let open = OpArgs::Open(wanting(share::ACCESS_READ));
    b.compound().putfh(&fh).op(open).expect(NfsStat::OK).await;
}

/// After a restart it is reclaimed with its open; not by a client that had lost one before, whose
/// file others may have changed.
#[tokio::test]
async fn reclaim() {
    let mut cluster = Cluster::with(Options { on_disk: true, lease_s: 2, ..options() }).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut loser = Client::mount(&cluster, "loser").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (kept, lost) = (closed_file(&mut a, "kept").await, closed_file(&mut b, "lost").await);
    delegated(&mut a, &kept).await;
    delegated(&mut loser, &lost).await;
    let open = OpArgs::Open(wanting(share::ACCESS_WRITE | share::WANT_NO_DELEG));
    let deadline = Instant::now() + PATIENCE;
    while b.compound().putfh(&lost).op(open.clone()).send().await.status() != NfsStat::OK {
        a.renew().await;
        loser.renew().await;
        assert!(Instant::now() < deadline, "never revoked");
    }
    cluster.restart().await;
    let back = |owner| ClientOptions { reclaim_complete: false, ..ClientOptions::new(owner) };
    let claim = || OpenArgs { claim: OpenClaim::Previous(delegate::WRITE), ..either() };
    let mut loser = Client::with(cluster.address(), back("loser")).await;
    loser.compound().putfh(&lost).open(claim()).expect(NfsStat::RECLAIM_BAD).await;
    let mut a = Client::with(cluster.address(), back("a")).await;
    // Who may only read reclaims no right to write.
    let reads = OpenArgs { share_access: share::ACCESS_READ, ..claim() };
    let reads = OpenArgs { owner: state_owner("reader"), ..reads };
    assert_eq!(delegation(&mut a, &kept, reads).await, OpenDelegation::None);
    let opened = a.compound().putfh(&kept).open(claim()).send().await.ok().open();
    assert_ne!(opened.stateid, Stateid::ANONYMOUS, "the open it had is reclaimed too");
    let OpenDelegation::Write { stateid, recall: true, .. } = opened.delegation else {
        panic!("{:?}", opened.delegation)
    };
    assert_eq!(recalled(&mut a).await.stateid, stateid);
}

/// The holder of a delegation knows the size best: while a data server cannot tell what it has, the
/// holder is told the last that is known, and nobody waits. Not while it has to give the file back,
/// or does so with its layout out: from then on it goes by what it is told. Nor does who closes it,
/// the last time, wait: he could not be killed otherwise.
#[tokio::test]
async fn the_holder_needs_no_data_server() {
    let small_files = weft_mds::SmallFiles::OFF;
    let mut cluster = Cluster::with(Options { data_servers: 1, small_files, ..options() }).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let mut held = Vec::new();
    for name in ["returned", "recalled"] {
        let fh = closed_file(&mut a, name).await;
        let stateid = delegated(&mut a, &fh).await;
        let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
        let got = a.compound().putfh(&fh).op(get).send().await.ok();
        let layout = files_layout(&got);
        let some = write(Stateid::ANONYMOUS, 0, &[7; 1234]);
        ds.compound().putfh(&layout_handle(&layout, 0)).op(some).expect(NfsStat::OK).await;
        held.push((fh, stateid, got.stateid()));
    }
    cluster.stop_data_server(0).await;
    let size = [AttrNo::SIZE];
    let list = OpArgs::Readdir(readdir(0, 1 << 20, &size));
    let listed = a.compound().putrootfh().op(list).send().await.ok().readdir().entries;
    assert_eq!(listed.len(), 2);
    for (fh, ..) in &held {
        assert_eq!(a.compound().putfh(fh).getattr(&size).send().await.ok().attrs().size, Some(0));
    }
    let [(returned, stateid, layout), (recalled, ..)] = &held[..] else { unreachable!() };
    // Another mount of this client, which knows of no delegation.
    let beside = OpArgs::Open(OpenArgs { share_access: share::ACCESS_READ, ..wanting(0) });
    let opened = a.compound().putfh(returned).op(beside).getattr(&size).send().await;
    assert_eq!(opened.status(), NfsStat::DELAY);
    let Ok(OpOk::Open(ok)) = &opened.compound.results[2].result else { panic!("{opened:?}") };
    a.compound().putfh(returned).op(close(ok.stateid)).expect(NfsStat::OK).await;
    let give_back = OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: *stateid });
    let with_layout = a.compound().putfh(returned).getattr(&size).op(give_back.clone());
    assert_eq!(with_layout.send().await.status(), NfsStat::DELAY);
    let read = OpArgs::Open(wanting(share::ACCESS_READ));
    b.compound().putfh(recalled).op(read).expect(NfsStat::DELAY).await;
    for (fh, ..) in &held {
        assert_eq!(a.compound().putfh(fh).getattr(&size).send().await.status(), NfsStat::DELAY);
    }
    let layout = OpArgs::Layoutreturn(layoutreturn(*layout, IoMode::RW));
    let back = a.compound().putfh(returned).op(layout).getattr(&size).op(give_back);
    assert_eq!(back.send().await.ok().attrs().size, Some(0));
    let opened = |owner: &'static str| OpArgs::Open(open(owner, OpenClaim::Fh));
    let mut opens = Vec::new();
    for owner in ["one", "other"] {
        let reply = a.compound().putfh(returned).op(opened(owner)).getattr(&size).send().await;
        assert_eq!(reply.status(), NfsStat::DELAY);
        let Ok(OpOk::Open(ok)) = &reply.compound.results[2].result else { panic!("{reply:?}") };
        opens.push(ok.stateid);
    }
    for open in &opens {
        let one = a.compound().putfh(returned).getattr(&size).op(close(*open));
        assert_eq!(one.send().await.status(), NfsStat::DELAY, "the other is open");
    }
    a.compound().putfh(returned).op(close(opens[0])).expect(NfsStat::OK).await;
    let last = a.compound().putfh(returned).getattr(&size).op(close(opens[1]));
    assert_eq!(last.send().await.ok().attrs().size, Some(0));
}

/// Who cannot write what it has, since a data server is away, keeps the file for as long as that
/// lasts and it renews its lease; and has a lease to write and return it when the data server is
/// back.
#[tokio::test]
async fn nobody_loses_a_file_for_want_of_a_data_server() {
    let small_files = weft_mds::SmallFiles::OFF;
    let options = Options { lease_s: 2, data_servers: 1, small_files, ..options() };
    let mut cluster = Cluster::with(Options { on_disk: true, ..options }).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    a.compound().putfh(&fh).op(get).expect(NfsStat::OK).await;
    cluster.stop_data_server(0).await;
    let open = OpArgs::Open(wanting(share::ACCESS_READ));
    let begun = Instant::now();
    let mut others = Vec::new();
    while begun.elapsed() < Duration::from_secs(5) {
        others.push(b.compound().putfh(&fh).op(open.clone()).send().await.status());
        let held = a.compound().op(test_stateid(stateid)).send().await;
        assert_eq!(statuses(&held), [NfsStat::OK], "{:?}", begun.elapsed());
    }
    assert!(others.iter().all(|status| *status == NfsStat::DELAY), "{others:?}");
    cluster.restart_data_server(0).await;
    let back = Instant::now();
    // Not at once, and in the end.
    let deadline = back + PATIENCE;
    while statuses(&a.compound().op(test_stateid(stateid)).send().await) == [NfsStat::OK] {
        assert!(Instant::now() < deadline, "never revoked");
        b.renew().await;
    }
    assert!(back.elapsed() > Duration::from_millis(500), "{:?}", back.elapsed());
}
