//! OPEN, OPEN_DOWNGRADE, CLOSE: RFC 8881 §9.7-§9.9, §18.2, §18.16, §18.18.

use std::time::{Duration, Instant};

use weft_mds::{Access, ClientRule, Export};
use weft_nfs::{
    AttrNo, Attrs, Bitmap, FileHandle, NfsStat, OpArgs, Seqid, Stateid, Verifier, ops::*, share,
};

use crate::support::*;

fn how(name: &str, how: CreateHow) -> OpenArgs {
    OpenArgs { openhow: Some(how), ..open_name("o", name) }
}

async fn status(c: &mut Client, open: OpenArgs) -> NfsStat {
    c.compound().putrootfh().open(open).send().await.status()
}

async fn size_of(c: &mut Client, fh: &FileHandle) -> Option<u64> {
    c.compound().putfh(fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size
}

/// UNCHECKED makes what is not there and takes what is; its attributes count for the former.
#[tokio::test]
async fn unchecked() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let first = c.compound().putrootfh().open_create("f").getfh().send().await.ok();
    assert_eq!(first.open().attrset, Bitmap::of(&[AttrNo::MODE]));
    assert!(first.open().cinfo.after > first.open().cinfo.before);
    let again = how("f", CreateHow::Unchecked(Box::new(mode(0o600))));
    let again = c.compound().putrootfh().open(again).getfh().getattr(&[AttrNo::MODE]);
    let again = again.send().await.ok();
    assert_eq!(again.fh(), first.fh());
    assert_eq!(again.attrs().mode, Some(0o644));
    assert_eq!(again.open().attrset, Bitmap::EMPTY);
    assert_eq!(again.open().cinfo.after, again.open().cinfo.before);
    assert_eq!(again.open().delegation, OpenDelegation::None);
}

/// UNCHECKED with a size of zero truncates, any other size does not (§18.16.3).
#[tokio::test]
async fn unchecked_truncates() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    c.compound().putfh(&fh).op(setattr(stateid, size(100))).send().await.ok();
    let open_sized = |n| how("f", CreateHow::Unchecked(Box::new(size(n))));
    assert_eq!(status(&mut c, open_sized(7)).await, NfsStat::OK);
    assert_eq!(size_of(&mut c, &fh).await, Some(100));
    let cut = c.compound().putrootfh().open(open_sized(0)).send().await.ok();
    assert_eq!(cut.open().attrset, Bitmap::of(&[AttrNo::SIZE]));
    assert_eq!(size_of(&mut c, &fh).await, Some(0));
}

/// GUARDED takes nothing that is there.
#[tokio::test]
async fn guarded() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.public_dir("d").await;
    let guarded = |name| how(name, CreateHow::Guarded(Box::new(mode(0o600))));
    assert_eq!(status(&mut c, guarded("f")).await, NfsStat::OK);
    assert_eq!(status(&mut c, guarded("f")).await, NfsStat::EXIST);
    assert_eq!(status(&mut c, guarded("d")).await, NfsStat::EXIST);
}

/// Exclusive creation: a retry with its verifier finds its own file, anybody else's is EXIST.
#[tokio::test]
async fn exclusive() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    for old_form in [false, true] {
        let name = format!("f{old_form}");
        let exclusive = |n: u8| {
            let v = Verifier([n; 8]);
            let form = if old_form {
                CreateHow::Exclusive(v)
            } else {
                CreateHow::Exclusive41(v, Box::new(mode(0o600)))
            };
            how(&name, form)
        };
        let first = c.compound().putrootfh().open(exclusive(1)).getfh().send().await.ok();
        let retry = c.compound().putrootfh().open(exclusive(1)).getfh().send().await.ok();
        assert_eq!(first.fh(), retry.fh());
        assert_eq!(status(&mut c, exclusive(2)).await, NfsStat::EXIST);
        let plain = how(&name, CreateHow::Guarded(Box::default()));
        assert_eq!(status(&mut c, plain).await, NfsStat::EXIST);
    }
}

/// What cannot be opened, and arguments that no OPEN takes.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.public_dir("d").await;
    let fifo = create(CreateType::Fifo, "fifo", mode(0o666));
    c.compound().putrootfh().op(fifo).send().await.ok();
    c.compound().putrootfh().op(symlink("l", "f")).send().await.ok();
    c.file("f").await;
    let f = || open_name("o", "f");
    let bad_attrs = Attrs { archive: Some(true), ..Attrs::default() };
    let cases = [
        (open_name("o", "x"), NfsStat::NOENT),
        (open_name("o", "d"), NfsStat::ISDIR),
        (open_name("o", "l"), NfsStat::SYMLINK),
        (open_name("o", "fifo"), NfsStat::WRONG_TYPE),
        (open_create("o", "d"), NfsStat::ISDIR),
        (open_create("o", "l"), NfsStat::SYMLINK),
        (OpenArgs { share_access: 0, ..f() }, NfsStat::INVAL),
        (OpenArgs { share_deny: 4, ..f() }, NfsStat::INVAL),
        (how("n", CreateHow::Unchecked(Box::new(bad_attrs))), NfsStat::ATTRNOTSUPP),
        (OpenArgs { claim: OpenClaim::Previous(0), ..f() }, NfsStat::NO_GRACE),
        (OpenArgs { claim: OpenClaim::Fh, ..f() }, NfsStat::ISDIR),
        (
            OpenArgs { claim: OpenClaim::DelegateCur(Stateid::ANONYMOUS, "f".into()), ..f() },
            NfsStat::BAD_STATEID,
        ),
        (
            OpenArgs { claim: OpenClaim::DelegCurFh(Stateid::ANONYMOUS), ..f() },
            NfsStat::BAD_STATEID,
        ),
        (OpenArgs { claim: OpenClaim::DelegatePrev("f".into()), ..f() }, NfsStat::NOTSUPP),
        (OpenArgs { claim: OpenClaim::DelegPrevFh, ..f() }, NfsStat::NOTSUPP),
    ];
    for (open, expected) in cases {
        let what = format!("{open:?}");
        assert_eq!(status(&mut c, open).await, expected, "{what}");
    }
    c.compound().putrootfh().lookup("n").expect(NfsStat::NOENT).await;
}

/// CLAIM_FH opens the current file; creating it is fine only where that means taking it.
#[tokio::test]
async fn claim_fh() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let claim = |openhow| OpenArgs { openhow, ..open("opener", OpenClaim::Fh) };
    let again = c.compound().putfh(&fh).open(claim(None)).send().await.ok();
    assert_eq!(again.stateid().other, stateid.other);
    let unchecked = claim(Some(CreateHow::Unchecked(Box::default())));
    c.compound().putfh(&fh).open(unchecked).expect(NfsStat::OK).await;
    let guarded = claim(Some(CreateHow::Guarded(Box::default())));
    c.compound().putfh(&fh).open(guarded).expect(NfsStat::EXIST).await;
}

/// Share reservations between two clients, in both directions; one owner does not deny itself.
#[tokio::test]
async fn share_denial() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (_, writing) = a.file("f").await;
    let with = |access, deny| OpenArgs {
        share_access: access,
        share_deny: deny,
        ..open_name("opener", "f")
    };
    let read = share::ACCESS_READ;
    assert_eq!(status(&mut b, with(read, share::DENY_WRITE)).await, NfsStat::SHARE_DENIED);
    assert_eq!(status(&mut a, with(read, share::DENY_WRITE)).await, NfsStat::OK);
    assert_eq!(status(&mut b, with(share::ACCESS_WRITE, 0)).await, NfsStat::SHARE_DENIED);
    assert_eq!(status(&mut b, with(read, 0)).await, NfsStat::OK);
    let shut = Stateid { seqid: Seqid(0), ..writing };
    a.compound().putrootfh().lookup("f").op(close(shut)).send().await.ok();
    assert_eq!(status(&mut b, with(share::ACCESS_WRITE, share::DENY_BOTH)).await, NfsStat::OK);
    assert_eq!(status(&mut a, with(read, 0)).await, NfsStat::SHARE_DENIED);
}

/// A caller that may only read a file denies it to nobody (RFC 8881 §9.7): not by the mode, not
/// where its client may only read. Whoever may write does, and the export may let readers deny too.
#[tokio::test]
async fn readers_do_not_deny() {
    let cluster = Cluster::start().await;
    let mut root = Client::mount(&cluster, "root").await;
    let mut user = Client::mount_as(&cluster, "user", 1000).await;
    let (fh, made) = root.file("f").await;
    root.compound().putfh(&fh).op(setattr(made, mode(0o644))).send().await.ok();
    root.compound().putfh(&fh).op(close(made)).send().await.ok();
    let with =
        |access, deny| OpenArgs { share_access: access, share_deny: deny, ..open_name("o", "f") };
    for deny in [share::DENY_READ, share::DENY_WRITE, share::DENY_BOTH] {
        assert_eq!(status(&mut user, with(share::ACCESS_READ, deny)).await, NfsStat::ACCESS);
    }
    let with_root = with(share::ACCESS_BOTH, share::DENY_BOTH);
    let held = root.compound().putrootfh().open(with_root).send().await.ok().stateid();
    root.compound().putfh(&fh).op(close(held)).send().await.ok();

    let everywhere = vec!["0.0.0.0/0".parse().unwrap()];
    let rule = ClientRule {
        networks: everywhere,
        access: Access::ReadOnly,
        root_squash: None,
        all_squash: None,
        privileged_ports: None,
    };
    cluster.reload(Export { rules: vec![rule], ..open_export() });
    let mut reader = Client::mount(&cluster, "reader").await;
    let denies = with(share::ACCESS_READ | share::WANT_NO_DELEG, share::DENY_WRITE);
    assert_eq!(status(&mut reader, denies.clone()).await, NfsStat::ACCESS);

    cluster.reload(Export { readers_deny: true, ..open_export() });
    assert_eq!(status(&mut user, denies).await, NfsStat::OK);
    assert_eq!(status(&mut root, with(share::ACCESS_WRITE, 0)).await, NfsStat::SHARE_DENIED);
}

/// A denied creation that would truncate leaves the file as it is.
#[tokio::test]
async fn denied_truncation_does_nothing() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let deny = OpenArgs { share_deny: share::DENY_WRITE, ..open_create("o", "f") };
    let reply = a.compound().putrootfh().open(deny).getfh().send().await.ok();
    let (fh, stateid) = (reply.fh(), reply.stateid());
    a.compound().putfh(&fh).op(setattr(stateid, size(9))).send().await.ok();
    let cut = how("f", CreateHow::Unchecked(Box::new(size(0))));
    assert_eq!(status(&mut b, cut).await, NfsStat::SHARE_DENIED);
    assert_eq!(size_of(&mut a, &fh).await, Some(9));
}

/// The mode decides for existing files, and the directory's for new ones; who may execute may
/// read.
#[tokio::test]
async fn permissions() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.public_dir("d").await;
    let made = c.by_user(1000).putrootfh().lookup("d").open_create("f").getfh();
    let fh = made.send().await.ok().fh();
    let with = |access| OpenArgs { share_access: access, ..open("o", OpenClaim::Fh) };
    let (read, write) = (share::ACCESS_READ, share::ACCESS_WRITE);
    let cases = [
        (0o600, 1000, read, NfsStat::OK),
        (0o600, 1001, read, NfsStat::ACCESS),
        (0o604, 1001, read, NfsStat::OK),
        (0o604, 1001, write, NfsStat::ACCESS),
        (0o602, 1001, write, NfsStat::OK),
        (0o602, 1001, read, NfsStat::ACCESS),
        (0o601, 1001, read, NfsStat::OK),
        (0o000, 0, share::ACCESS_BOTH, NfsStat::OK),
    ];
    for (bits, uid, access, expected) in cases {
        let change = setattr(Stateid::ANONYMOUS, mode(bits));
        c.compound().putfh(&fh).op(change).send().await.ok();
        let reply = c.by_user(uid).putfh(&fh).open(with(access)).send().await;
        assert_eq!(reply.status(), expected, "mode {bits:o}, user {uid}, access {access}");
    }
    c.by_user(1001).putrootfh().open_create("new").expect(NfsStat::ACCESS).await;
    c.compound().putrootfh().lookup("new").expect(NfsStat::NOENT).await;
}

/// A second OPEN of the owner upgrades its first; OPEN_DOWNGRADE goes back to what was opened.
#[tokio::test]
async fn upgrade_and_downgrade() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let with = |access| OpenArgs { share_access: access, ..open_create("o", "f") };
    let (read, both) = (share::ACCESS_READ, share::ACCESS_BOTH);
    let first = c.compound().putrootfh().open(with(read)).getfh().send().await.ok();
    let fh = first.fh();
    let second = c.compound().putrootfh().open(with(both)).send().await.ok().stateid();
    assert_eq!(first.stateid().seqid, Seqid(1));
    assert_eq!((second.seqid, second.other), (Seqid(2), first.stateid().other));
    let refused = [
        (downgrade(second, 0, 0), NfsStat::INVAL),
        (downgrade(second, read, 4), NfsStat::INVAL),
        (downgrade(second, share::ACCESS_WRITE, 0), NfsStat::INVAL),
        (downgrade(second, read, share::DENY_READ), NfsStat::INVAL),
        (downgrade(first.stateid(), read, 0), NfsStat::OLD_STATEID),
        (downgrade(Stateid { seqid: Seqid(9), ..second }, read, 0), NfsStat::BAD_STATEID),
    ];
    for (op, expected) in refused {
        c.compound().putfh(&fh).op(op).expect(expected).await;
    }
    let down = c.compound().putfh(&fh).op(downgrade(second, read, 0)).send().await.ok().stateid();
    assert_eq!(down.seqid, Seqid(3));
    c.compound().putfh(&fh).op(setattr(down, size(1))).expect(NfsStat::OPENMODE).await;
}

/// CLOSE ends an open once, under its own stateid, file and client.
#[tokio::test]
async fn close_outcomes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, first) = c.file("f").await;
    let (g, _) = c.file("g").await;
    let stateid =
        c.compound().putfh(&fh).open(open("opener", OpenClaim::Fh)).send().await.stateid();
    let cases = [
        (&fh, first, NfsStat::OLD_STATEID),
        (&fh, Stateid { seqid: Seqid(7), ..stateid }, NfsStat::BAD_STATEID),
        (&g, stateid, NfsStat::BAD_STATEID),
        (&fh, Stateid::ANONYMOUS, NfsStat::BAD_STATEID),
        (&fh, Stateid::READ_BYPASS, NfsStat::BAD_STATEID),
    ];
    for (on, stateid, expected) in cases {
        c.compound().putfh(on).op(close(stateid)).expect(expected).await;
    }
    other.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::BAD_STATEID).await;
    let shut = c.compound().putfh(&fh).op(close(stateid)).send().await.ok();
    assert_eq!(shut.stateid(), Stateid::INVALID);
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::BAD_STATEID).await;
}

/// Special stateids are subject to the denials of others, except READ that bypasses them.
#[tokio::test]
async fn special_stateids_and_denials() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let deny = OpenArgs { share_deny: share::DENY_BOTH, ..open_create("o", "f") };
    let fh = a.compound().putrootfh().open(deny).getfh().send().await.ok().fh();
    let ops = [
        (read(Stateid::ANONYMOUS, 0, 1), NfsStat::LOCKED),
        (read(Stateid::READ_BYPASS, 0, 1), NfsStat::OK),
        (write(Stateid::ANONYMOUS, 0, b"x"), NfsStat::LOCKED),
        (write(Stateid::READ_BYPASS, 0, b"x"), NfsStat::LOCKED),
        (setattr(Stateid::ANONYMOUS, size(1)), NfsStat::LOCKED),
    ];
    for (op, expected) in ops {
        b.compound().putfh(&fh).op(op).expect(expected).await;
    }
}

/// DELEGRETURN of what was never given out.
#[tokio::test]
async fn no_delegations() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, deleg_stateid) = c.file("f").await;
    let give_back = OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid });
    c.compound().putfh(&fh).op(give_back).expect(NfsStat::BAD_STATEID).await;
}

/// With a special stateid too, what is reserved is reserved until the lease has passed, and then
/// gives way (RFC 8881 §8.4.3).
#[tokio::test]
async fn expired_reservations_do_not_lock() {
    let cluster =
        Cluster::with(Options { lease_s: 1, data_servers: 1, ..Options::default() }).await;
    let accesses = [
        read(Stateid::ANONYMOUS, 0, 1),
        write(Stateid::ANONYMOUS, 0, b"x"),
        setattr(Stateid::ANONYMOUS, size(1)),
    ];
    let mut b = Client::mount(&cluster, "b").await;
    for (n, access) in accesses.into_iter().enumerate() {
        let mut silent = Client::mount(&cluster, &format!("silent {n}")).await;
        let name = format!("f{n}");
        let alone = OpenArgs { share_deny: share::DENY_BOTH, ..open_create("o", &name) };
        let reply = silent.compound().putrootfh().open(alone).getfh().send().await.ok();
        let fh = reply.fh();
        b.compound().putfh(&fh).op(access.clone()).expect(NfsStat::LOCKED).await;
        let deadline = Instant::now() + PATIENCE;
        while b.compound().putfh(&fh).op(access.clone()).send().await.status() != NfsStat::OK {
            assert!(Instant::now() < deadline, "locked for ever");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Who may not use a file takes nothing from those whose lease has passed: courtesy ends for a
/// request that could be carried out.
#[tokio::test]
async fn courtesy_is_not_for_strangers_to_end() {
    let cluster =
        Cluster::with(Options { lease_s: 1, data_servers: 1, ..Options::default() }).await;
    let mut b = Client::mount(&cluster, "b").await;
    let alone = |name| OpenArgs { share_deny: share::DENY_BOTH, ..open_create("o", name) };
    let mut silent = Client::mount(&cluster, "silent").await;
    let opened = silent.compound().putrootfh().open(alone("f")).getfh().send().await.ok();
    let fh = opened.fh();
    let own = setattr(opened.stateid(), mode(0o600));
    silent.compound().putfh(&fh).op(own).expect(NfsStat::OK).await;
    // Its lease is the younger one, so that its end tells of the other's.
    let mut younger = Client::mount(&cluster, "younger").await;
    let other = younger.compound().putrootfh().open(alone("g")).getfh().send().await.ok().fh();
    let cut = setattr(Stateid::ANONYMOUS, size(1));
    let deadline = Instant::now() + PATIENCE;
    while b.compound().putfh(&other).op(cut.clone()).send().await.status() != NfsStat::OK {
        assert!(Instant::now() < deadline, "locked for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for op in [read(Stateid::ANONYMOUS, 0, 1), write(Stateid::ANONYMOUS, 0, b"x"), cut] {
        b.by_user(1000).putfh(&fh).op(op).expect(NfsStat::ACCESS).await;
    }
    silent.compound().putfh(&fh).op(read(opened.stateid(), 0, 1)).expect(NfsStat::OK).await;
}
