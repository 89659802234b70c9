//! Read delegations: grant, conflict, recall, return, revocation, reclaim. RFC 8881 §10.2, §10.4,
//! §18.6, §18.16, §20.2.

use std::time::{Duration, Instant};

use weft_nfs::{
    AttrNo, FileHandle, LockType, NfsStat, OpArgs, OpOk, Stateid,
    callback::{CbOp, CbRecallArgs},
    delegate,
    ops::*,
    seq4_status, share, why_no_delegation as why,
};

use crate::support::*;

/// An OPEN for reading that wants a read delegation.
fn wanting(access: u32) -> OpenArgs {
    OpenArgs { share_access: access, ..open("o", OpenClaim::Fh) }
}

fn want_read() -> OpenArgs {
    wanting(share::ACCESS_READ | share::WANT_READ_DELEG)
}

pub async fn delegation(c: &mut Client, fh: &FileHandle, open: OpenArgs) -> OpenDelegation {
    c.compound().putfh(fh).open(open).send().await.ok().open().delegation
}

/// The read delegation a client gets when it asks for one.
async fn delegated(c: &mut Client, fh: &FileHandle) -> Stateid {
    match delegation(c, fh, want_read()).await {
        OpenDelegation::Read { stateid, recall: false, .. } => stateid,
        other => panic!("{other:?}"),
    }
}

/// A file that nobody has open.
async fn closed_file(c: &mut Client, name: &str) -> FileHandle {
    let (fh, open) = c.file(name).await;
    c.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
    fh
}

pub fn delegreturn(stateid: Stateid) -> OpArgs {
    OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: stateid })
}

pub fn test_stateid(stateid: Stateid) -> OpArgs {
    OpArgs::TestStateid(TestStateidArgs { stateids: vec![stateid] })
}

/// Takes the CB_RECALL that comes next, answers it, and says what it was.
pub async fn recalled(c: &mut Client) -> CbRecallArgs {
    let callback = c.wire.callback().await;
    c.wire.answer(&callback, NfsStat::OK).await;
    match callback.ops.get(1) {
        Some(CbOp::Recall(args)) => args.clone(),
        other => panic!("{other:?}"),
    }
}

/// Repeats a COMPOUND on the file until it is not told DELAY.
pub async fn until_done(c: &mut Client, fh: &FileHandle, op: OpArgs) -> Reply {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = c.compound().putfh(fh).op(op.clone()).send().await;
        if reply.status() != NfsStat::DELAY {
            return reply;
        }
        assert!(Instant::now() < deadline, "told to wait for ever");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Wants and their answers: a reason comes only to who speaks of delegations, and bits of later
/// versions are no error.
#[tokio::test]
async fn wants_and_reasons() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut c, "f").await;
    let none = |why| OpenDelegation::NoneExt(why, None);
    let table = [
        (share::WANT_NO_DELEG, none(why::NOT_WANTED)),
        (share::WANT_CANCEL, none(why::CANCELLED)),
        (share::WANT_WRITE_DELEG, none(why::WRITE_DELEG_NOT_SUPP_FTYPE)),
    ];
    for (want, answer) in table {
        let got = delegation(&mut c, &fh, wanting(share::ACCESS_READ | want)).await;
        assert_eq!(got, answer, "{want:#x}");
    }
    let later = delegation(&mut c, &fh, wanting(share::ACCESS_READ | 0x0040_0000)).await;
    assert!(matches!(later, OpenDelegation::Read { .. }), "no preference, and not {later:?}");
    let again = delegation(&mut c, &fh, want_read()).await;
    assert_eq!(again, OpenDelegation::NoneExt(why::RESOURCE, Some(false)), "it has one");
    let writer = closed_file(&mut c, "g").await;
    let write = wanting(share::ACCESS_WRITE | share::WANT_ANY_DELEG);
    let off = OpenDelegation::NoneExt(why::WRITE_DELEG_NOT_SUPP_FTYPE, None);
    assert_eq!(delegation(&mut c, &writer, write).await, off, "they are switched off");
}

/// Without a want an open for reading alone gets one (design D9), until it was in a writer's way; a
/// client that cannot be called back never does.
#[tokio::test]
async fn readers_get_one_unasked() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let options = ClientOptions { back_channel: false, ..ClientOptions::new("deaf") };
    let mut deaf = Client::with(cluster.address(), options).await;
    let fh = closed_file(&mut c, "f").await;
    let plain = || wanting(share::ACCESS_READ);
    let both = delegation(&mut c, &fh, wanting(share::ACCESS_BOTH)).await;
    assert_eq!(both, OpenDelegation::None, "it would have to give it back to write");
    let c_open = c.compound().putfh(&fh).open(plain()).send().await.ok().open().stateid;
    c.compound().putfh(&fh).op(close(c_open)).expect(NfsStat::OK).await;
    let OpenDelegation::Read { stateid, .. } = delegation(&mut c, &fh, plain()).await else {
        panic!("nobody writes the file");
    };
    for _ in 0..3 {
        assert_eq!(delegation(&mut deaf, &fh, plain()).await, OpenDelegation::None);
    }
    let refused = OpenDelegation::NoneExt(why::RESOURCE, Some(false));
    assert_eq!(delegation(&mut deaf, &fh, want_read()).await, refused);

    let chmod = setattr(Stateid::ANONYMOUS, mode(0o640));
    let told = deaf.compound().putfh(&fh).op(chmod.clone()).send().await;
    assert_eq!(told.status(), NfsStat::DELAY);
    assert_eq!(recalled(&mut c).await.stateid, stateid);
    c.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    until_done(&mut deaf, &fh, chmod).await.ok();
    assert_eq!(delegation(&mut c, &fh, plain()).await, OpenDelegation::None);
}

/// What others do to the file waits until the delegation is back; what reads does not.
#[tokio::test]
async fn changes_by_others_recall() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    b.compound().putrootfh().open_create("g").expect(NfsStat::OK).await;
    let open_with = |access, deny| OpArgs::Open(OpenArgs { share_deny: deny, ..wanting(access) });
    let empty = OpArgs::Open(OpenArgs {
        openhow: Some(CreateHow::Unchecked(Box::new(size(0)))),
        ..wanting(share::ACCESS_READ)
    });
    let changes = [
        (open_with(share::ACCESS_WRITE, 0), false),
        (empty, true),
        (setattr(Stateid::ANONYMOUS, mode(0o600)), false),
        (setattr(Stateid::ANONYMOUS, size(0)), true),
    ];
    for (n, (change, truncate)) in changes.into_iter().enumerate() {
        let fh = closed_file(&mut b, &format!("f{n}")).await;
        let stateid = delegated(&mut a, &fh).await;
        let read = b.compound().putfh(&fh).op(read(Stateid::ANONYMOUS, 0, 1));
        read.expect(NfsStat::OK).await;
        b.compound().putfh(&fh).op(change.clone()).expect(NfsStat::DELAY).await;
        let asked = recalled(&mut a).await;
        assert_eq!(asked, CbRecallArgs { stateid, truncate, fh: fh.clone() });
        // Until it is back others wait, and it is not asked for twice.
        b.compound().putfh(&fh).op(change.clone()).expect(NfsStat::DELAY).await;
        a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::BAD_STATEID).await;
        let done = until_done(&mut b, &fh, change).await.ok();
        if let Ok(OpOk::Open(opened)) = &done.last().result {
            b.compound().putfh(&fh).op(close(opened.stateid)).expect(NfsStat::OK).await;
        }
    }
}

/// So do changes of the file's names: REMOVE, RENAME as source and as target, LINK.
#[tokio::test]
async fn changes_of_names_recall() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let root = b.compound().putrootfh().getfh().send().await.ok().fh();
    let source = closed_file(&mut b, "source").await;
    closed_file(&mut b, "other").await;
    let target = closed_file(&mut b, "target").await;
    let removed = closed_file(&mut b, "removed").await;
    let changes = [
        (rename("source", "elsewhere"), source),
        (rename("other", "target"), target),
        (remove("removed"), removed),
    ];
    for (change, held) in changes {
        let stateid = delegated(&mut a, &held).await;
        let rename =
            |c: &mut Client| c.compound().putrootfh().savefh().op(change.clone()).into_ops();
        let ops = rename(&mut b);
        b.bare(&ops).await.is(NfsStat::DELAY);
        assert_eq!(recalled(&mut a).await.stateid, stateid);
        a.compound().putfh(&held).op(delegreturn(stateid)).expect(NfsStat::OK).await;
        let ops = rename(&mut b);
        b.bare(&ops).await.is(NfsStat::OK);
    }
    let fh = closed_file(&mut b, "linked").await;
    let stateid = delegated(&mut a, &fh).await;
    let ops = || [OpArgs::Savefh, putfh(&root), link("more")];
    let add = |c: Compound<'_>| ops().into_iter().fold(c.putfh(&fh), Compound::op).into_ops();
    let first = add(b.compound());
    b.bare(&first).await.is(NfsStat::DELAY);
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    let second = add(b.compound());
    b.bare(&second).await.is(NfsStat::OK);
}

/// Who may not do it makes nobody give a delegation or a layout back, and is not told to wait.
#[tokio::test]
async fn refusals_recall_nothing() {
    let cluster = Cluster::striped(1).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount_as(&cluster, "b", 7).await;
    let fh = closed_file(&mut a, "f").await;
    let other = closed_file(&mut a, "g").await;
    let public = a.public_dir("public").await;
    let root = a.compound().putrootfh().getfh().send().await.ok().fh();
    let held = [delegated(&mut a, &fh).await, delegated(&mut a, &other).await];
    let xattr = |name: &str| {
        OpArgs::Setxattr(SetxattrArgs {
            option: SetxattrOption::EITHER,
            key: name.into(),
            value: XattrValue("v".into()),
        })
    };
    let xattr_away = OpArgs::Removexattr(RemovexattrArgs { name: "n".into() });
    // In the saved directory, in the current one, and what is refused.
    let refused = [
        (&root, &root, remove("f"), NfsStat::ACCESS),
        (&root, &root, rename("f", "h"), NfsStat::ACCESS),
        (&root, &public, rename("f", "h"), NfsStat::ACCESS),
        (&root, &root, rename("f", "g"), NfsStat::ACCESS),
        (&fh, &root, link("h"), NfsStat::ACCESS),
        (&fh, &fh, setattr(Stateid::ANONYMOUS, mode(0o777)), NfsStat::PERM),
        (&fh, &fh, setattr(Stateid::ANONYMOUS, size(0)), NfsStat::ACCESS),
        (&fh, &fh, xattr("n"), NfsStat::ACCESS),
        (&fh, &fh, xattr_away, NfsStat::ACCESS),
    ];
    for (saved, current, op, status) in refused {
        b.compound().putfh(saved).savefh().putfh(current).op(op).expect(status).await;
    }
    // Nobody was asked for anything: the first question is about what is allowed.
    let allowed = setattr(Stateid::ANONYMOUS, mode(0o600));
    b.compound().by_user(0, 0).putfh(&other).op(allowed).expect(NfsStat::DELAY).await;
    assert_eq!(recalled(&mut a).await.stateid, held[1]);
}

/// The holder itself may open for writing, change and unlink without giving it back; its
/// delegation reads, and opens are claimed under it.
#[tokio::test]
async fn the_holder_is_not_in_its_own_way() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut a, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    a.compound().putfh(&fh).op(read(stateid, 0, 10)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(write(stateid, 0, b"x")).expect(NfsStat::OPENMODE).await;
    let cached = OpenArgs { claim: OpenClaim::DelegCurFh(stateid), ..wanting(1) };
    a.compound().putfh(&fh).open(cached.clone()).expect(NfsStat::OK).await;
    let by_name = OpenClaim::DelegateCur(stateid, "f".into());
    let by_name = OpenArgs { claim: by_name, ..wanting(1) };
    a.compound().putrootfh().open(by_name).expect(NfsStat::OK).await;
    b.compound().putfh(&fh).open(cached).expect(NfsStat::BAD_STATEID).await;
    let writes = wanting(share::ACCESS_BOTH);
    let open = a.compound().putfh(&fh).open(writes).expect(NfsStat::OK).await.stateid();
    a.compound().putfh(&fh).op(setattr(open, size(1))).expect(NfsStat::OK).await;
    a.compound().putrootfh().op(remove("f")).expect(NfsStat::OK).await;
    let held = a.compound().op(test_stateid(stateid)).send().await.ok();
    assert_eq!(statuses(&held), [NfsStat::OK]);
}

pub fn statuses(reply: &Reply) -> Vec<NfsStat> {
    match &reply.last().result {
        Ok(OpOk::TestStateid(ok)) => ok.status_codes.clone(),
        other => panic!("{other:?}"),
    }
}

/// A client that takes the recall and does not return the delegation loses it after a lease: it
/// is told so until it has freed the stateid.
#[tokio::test]
async fn silence_is_revoked() {
    let cluster = Cluster::with(Options { lease_s: 1, ..Options::default() }).await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut b, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let change = OpArgs::Open(wanting(share::ACCESS_WRITE));
    let deadline = Instant::now() + PATIENCE;
    while b.compound().putfh(&fh).op(change.clone()).send().await.status() != NfsStat::OK {
        a.renew().await;
        assert!(Instant::now() < deadline, "never revoked");
    }
    let revoked = seq4_status::RECALLABLE_STATE_REVOKED;
    for _ in 0..2 {
        assert_eq!(a.renew().await.sequence().status_flags & revoked, revoked);
    }
    let late = a.compound().putfh(&fh).op(read(stateid, 0, 1));
    late.expect(NfsStat::DELEG_REVOKED).await;
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::DELEG_REVOKED).await;
    let tested = a.compound().op(test_stateid(stateid)).send().await.ok();
    assert_eq!(statuses(&tested), [NfsStat::DELEG_REVOKED]);
    let free = || OpArgs::FreeStateid(FreeStateidArgs { stateid });
    a.compound().op(free()).expect(NfsStat::OK).await;
    assert_eq!(a.renew().await.sequence().status_flags & revoked, 0);
    a.compound().op(free()).expect(NfsStat::BAD_STATEID).await;
}

/// A client that holds much and never answers a callback keeps nobody waiting longer than its
/// lease: what else is asked meanwhile is answered, its own requests too.
#[tokio::test]
async fn callbacks_never_answered() {
    const FILES: u32 = 40;
    let cluster = Cluster::with(Options { lease_s: 1, ..Options::default() }).await;
    let mut deaf = Client::mount(&cluster, "deaf").await;
    let mut b = Client::mount(&cluster, "b").await;
    let mut files = Vec::new();
    for n in 0..FILES {
        let fh = closed_file(&mut b, &format!("f{n}")).await;
        delegated(&mut deaf, &fh).await;
        files.push(fh);
    }
    let change = |c: &mut Client, n: u32| {
        let fh = &files[n as usize];
        let ops = c.compound().slot(n).putfh(fh).op(setattr(Stateid::ANONYMOUS, mode(0o600)));
        compound_args("", 2, &ops.into_ops())
    };
    let credential = b.credential.clone();
    let mut left: Vec<u32> = (0..FILES).collect();
    let deadline = Instant::now() + PATIENCE;
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "{left:?} wait for ever");
        // All at once, and beside them what concerns nobody else.
        let mut sent = Vec::new();
        for n in left {
            let args = change(&mut b, n);
            sent.push((n, b.wire.send_compound(&credential, &args).await));
        }
        b.compound().slot(FILES).putrootfh().getattr(&[AttrNo::SIZE]).expect(NfsStat::OK).await;
        deaf.renew().await;
        left = Vec::new();
        for (n, xid) in sent {
            match b.wire.nfs_reply(xid).await.status() {
                NfsStat::OK => {}
                NfsStat::DELAY => left.push(n),
                status => panic!("{n}: {status}"),
            }
        }
    }
    deaf.renew().await;
}

/// A recall that the client cannot take at once is repeated.
#[tokio::test]
async fn refused_recalls_are_repeated() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut b, "f").await;
    let stateid = delegated(&mut a, &fh).await;
    let change = setattr(Stateid::ANONYMOUS, mode(0o600));
    b.compound().putfh(&fh).op(change.clone()).expect(NfsStat::DELAY).await;
    let early = a.wire.callback().await;
    a.wire.answer(&early, NfsStat::BADHANDLE).await;
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    a.compound().putfh(&fh).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    until_done(&mut b, &fh, change).await.ok();
}

/// A client whose lease has passed is not asked: what it holds is revoked, and nobody waits.
#[tokio::test]
async fn expired_holders_give_way() {
    let cluster = Cluster::with(Options { lease_s: 1, ..Options::default() }).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut b = Client::mount(&cluster, "b").await;
    let fh = closed_file(&mut b, "f").await;
    let (other, _) = silent.file("other").await;
    delegated(&mut silent, &fh).await;
    // Its open of the other file is in the way until its lease has passed.
    let deny = OpArgs::Open(OpenArgs { share_deny: 3, ..wanting(1) });
    let deadline = Instant::now() + PATIENCE;
    while b.compound().putfh(&other).op(deny.clone()).send().await.status() != NfsStat::OK {
        assert!(Instant::now() < deadline, "the lease never ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let change = setattr(Stateid::ANONYMOUS, mode(0o600));
    b.compound().putfh(&fh).op(change).expect(NfsStat::OK).await;
}

/// After a restart the delegation is reclaimed with its open (§10.2.1).
#[tokio::test]
async fn reclaim() {
    let options = Options { on_disk: true, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let old = delegated(&mut a, &fh).await;
    cluster.restart().await;
    let back = ClientOptions { reclaim_complete: false, ..ClientOptions::new("a") };
    let mut a = Client::with(cluster.address(), back).await;
    a.compound().putfh(&fh).op(delegreturn(old)).expect(NfsStat::BAD_STATEID).await;
    let claim = |kind| OpenArgs { claim: OpenClaim::Previous(kind), ..wanting(1) };
    let again = delegation(&mut a, &fh, claim(delegate::READ)).await;
    // To be given back at once: it may have been revoked before the restart.
    let OpenDelegation::Read { stateid, recall: true, .. } = again else { panic!("{again:?}") };
    assert_eq!(recalled(&mut a).await.stateid, stateid);
    assert_eq!(delegation(&mut a, &fh, claim(0)).await, OpenDelegation::None);
}

/// An open claimed under a delegation and locks work as under any open; a delegation is state
/// that DESTROY_CLIENTID does not destroy.
#[tokio::test]
async fn delegations_are_state() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let fh = closed_file(&mut a, "f").await;
    let reply = a.compound().putfh(&fh).open(want_read()).send().await.ok();
    let OpenDelegation::Read { stateid, .. } = reply.open().delegation else { panic!() };
    let lock = lock_new(reply.open().stateid, "lo", LockType::Read, 0, 1);
    a.compound().putfh(&fh).op(OpArgs::Lock(lock)).expect(NfsStat::OK).await;
    a.compound().putfh(&fh).op(close(reply.open().stateid)).expect(NfsStat::OK).await;
    let attrs = a.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(0));
    let session = OpArgs::DestroySession(DestroySessionArgs { sessionid: a.sessionid });
    let client = || OpArgs::DestroyClientid(DestroyClientidArgs { clientid: a.clientid });
    let destroy = client();
    let ended = a.compound().op(session).into_ops();
    a.bare(&ended).await.ok();
    a.bare(&[destroy]).await.is(NfsStat::CLIENTID_BUSY);
    let _ = stateid;
}
