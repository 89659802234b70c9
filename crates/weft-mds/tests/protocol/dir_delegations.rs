//! Directory delegations: RFC 8881 §10.9, §18.39.

use weft_nfs::{
    Attrs, Bitmap, FileHandle, NfsStat, NfsTime, OpArgs, OpOk, Stateid, Verifier,
    callback::{CbOp, CbRecallArgs},
    ops::*,
};

use weft_mds::{Delegated, Export};

use crate::support::*;

/// Asks for what Linux asks for, and for notifications, of which there are none.
fn get_delegation() -> OpArgs {
    let delay = NfsTime { seconds: 0, nseconds: 0 };
    OpArgs::GetDirDelegation(GetDirDelegationArgs {
        signal_deleg_avail: true,
        notification_types: Bitmap::of(&[weft_nfs::AttrNo(2)]),
        child_attr_delay: delay,
        dir_attr_delay: delay,
        child_attributes: Attrs::KNOWN,
        dir_attributes: Bitmap::EMPTY,
    })
}

fn told(reply: &Reply) -> GetDirDelegationOk {
    match &reply.last().result {
        Ok(OpOk::GetDirDelegation(told)) => told.clone(),
        other => panic!("{other:?}"),
    }
}

/// None now, and nobody will call.
const NONE: GetDirDelegationOk = GetDirDelegationOk::Unavailable { will_signal: false };

async fn asked(c: &mut Client, dir: &FileHandle) -> GetDirDelegationOk {
    told(&c.compound().putfh(dir).op(get_delegation()).send().await.ok())
}

async fn delegated(c: &mut Client, dir: &FileHandle) -> Stateid {
    match asked(c, dir).await {
        GetDirDelegationOk::Granted(granted) => {
            let nothing = [granted.notification, granted.child_attributes, granted.dir_attributes];
            assert_eq!(nothing, [Bitmap::EMPTY; 3], "each change is a recall");
            granted.stateid
        }
        other => panic!("{other:?}"),
    }
}

async fn new_dir(c: &mut Client, name: &str) -> FileHandle {
    c.compound().putrootfh().op(mkdir(name)).getfh().send().await.ok().fh()
}

fn delegreturn(stateid: Stateid) -> OpArgs {
    OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: stateid })
}

/// What TEST_STATEID says.
async fn status_of(c: &mut Client, stateid: Stateid) -> NfsStat {
    let test = OpArgs::TestStateid(TestStateidArgs { stateids: vec![stateid] });
    match &c.compound().op(test).send().await.ok().last().result {
        Ok(OpOk::TestStateid(told)) => told.status_codes[0],
        other => panic!("{other:?}"),
    }
}

/// Takes the CB_RECALLs that come next, one of each directory, and gives the delegations back.
async fn gives_all_back(c: &mut Client, held: &[(&FileHandle, Stateid)]) {
    let mut held = held.to_vec();
    while !held.is_empty() {
        let callback = c.wire.callback().await;
        c.wire.answer(&callback, NfsStat::OK).await;
        let asked = callback.ops.get(1);
        let recall = |&(dir, stateid): &(&FileHandle, Stateid)| {
            CbOp::Recall(CbRecallArgs { stateid, truncate: false, fh: dir.clone() })
        };
        let at = held.iter().position(|held| asked == Some(&recall(held)));
        let (dir, stateid) = held.remove(at.unwrap_or_else(|| panic!("{asked:?}")));
        c.compound().putfh(dir).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    }
}

async fn gives_back(c: &mut Client, dir: &FileHandle, stateid: Stateid) {
    gives_all_back(c, &[(dir, stateid)]).await;
}

/// With directory delegations.
async fn delegating() -> Cluster {
    let export =
        Export { delegated: Delegated { directories: true, writes: false }, ..open_export() };
    Cluster::with(Options { export, ..Options::default() }).await
}

/// Unless they are configured there are none: Linux asks no more.
#[tokio::test]
async fn none_unless_configured() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.compound().putrootfh().op(get_delegation()).expect(NfsStat::NOTSUPP).await;
}

/// One is given, once, to whoever may list the directory and can be called; it is no stateid to
/// read or open with. What is no directory has none.
#[tokio::test]
async fn who_is_given_one() {
    let cluster = delegating().await;
    let mut a = Client::mount(&cluster, "a").await;
    let dir = new_dir(&mut a, "d").await;
    let stateid = delegated(&mut a, &dir).await;
    assert_eq!(status_of(&mut a, stateid).await, NfsStat::OK);
    assert_eq!(asked(&mut a, &dir).await, NONE, "it has one");
    let (file, _) = a.file("f").await;
    a.compound().putfh(&file).op(get_delegation()).expect(NfsStat::NOTDIR).await;
    a.compound().op(get_delegation()).expect(NfsStat::NOFILEHANDLE).await;
    a.compound().putfh(&file).op(read(stateid, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    a.compound().putfh(&dir).op(delegreturn(stateid)).expect(NfsStat::OK).await;
    a.compound().putfh(&dir).op(delegreturn(stateid)).expect(NfsStat::BAD_STATEID).await;
    let options = ClientOptions { back_channel: false, ..ClientOptions::new("deaf") };
    let mut deaf = Client::with(cluster.address(), options).await;
    assert_eq!(asked(&mut deaf, &dir).await, NONE);
    a.compound().putfh(&dir).op(setattr(Stateid::ANONYMOUS, mode(0o711))).send().await.ok();
    let mut stranger = Client::mount_as(&cluster, "s", 7).await;
    assert_eq!(asked(&mut stranger, &dir).await, NONE, "it may not list");
    delegated(&mut a, &dir).await;
}

/// Whatever another client does to the names of a directory, or to itself, waits until the
/// delegation is back; what its holder does does not. Right afterwards none is given.
#[tokio::test]
async fn changes_by_others_recall() {
    let made = |name: &str| OpArgs::Open(open_create("o", name));
    let name_in = |name: &str| vec![made(name)];
    let cases: Vec<(&str, Vec<OpArgs>)> = vec![
        ("OPEN", name_in("new")),
        ("CREATE", vec![mkdir("new")]),
        ("REMOVE", vec![remove("old")]),
        ("RENAME within", vec![OpArgs::Savefh, rename("old", "new")]),
        ("RENAME out", vec![OpArgs::Savefh, OpArgs::Putrootfh, rename("old", "out")]),
        ("LINK", vec![lookup("old"), OpArgs::Savefh, OpArgs::Putrootfh, lookup("d"), link("new")]),
        ("SETATTR", vec![setattr(Stateid::ANONYMOUS, mode(0o700))]),
        ("SETXATTR", vec![setxattr(SetxattrOption::EITHER, "user", b"value")]),
        ("RENAME of it", vec![OpArgs::Putrootfh, OpArgs::Savefh, rename("d", "e")]),
    ];
    for (what, ops) in cases {
        let cluster = delegating().await;
        let mut a = Client::mount(&cluster, "a").await;
        let mut b = Client::mount(&cluster, "b").await;
        let dir = new_dir(&mut b, "d").await;
        b.compound().putfh(&dir).open_create("old").send().await.ok();
        let stateid = delegated(&mut a, &dir).await;
        // Of its holder.
        a.compound().putfh(&dir).op(mkdir("own")).send().await.ok();
        a.compound().putfh(&dir).op(remove("own")).send().await.ok();
        assert_eq!(status_of(&mut a, stateid).await, NfsStat::OK, "{what}");
        let change = ops.into_iter().fold(b.compound().putfh(&dir), Compound::op);
        let (changed, ()) = tokio::join!(change.send(), gives_back(&mut a, &dir, stateid));
        assert_eq!(changed.status(), NfsStat::OK, "{what}: {changed:?}");
        assert_eq!(asked(&mut a, &dir).await, NONE, "{what}");
    }
}

/// What comes in from another directory is a change of both, which are asked for at once.
#[tokio::test]
async fn a_rename_recalls_in_both() {
    let cluster = delegating().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let (from, to) = (new_dir(&mut b, "from").await, new_dir(&mut b, "to").await);
    b.compound().putfh(&from).open_create("f").send().await.ok();
    let held = [delegated(&mut a, &from).await, delegated(&mut a, &to).await];
    let change = b.compound().putfh(&from).savefh().putfh(&to).op(rename("f", "g"));
    let held = [(&from, held[0]), (&to, held[1])];
    let given = gives_all_back(&mut a, &held);
    let (changed, ()) = tokio::join!(change.send(), given);
    changed.ok();
}

/// What changes nothing recalls nothing: an open of a name that is there, a look, a refusal.
#[tokio::test]
async fn what_changes_nothing_recalls_nothing() {
    let cluster = delegating().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount_as(&cluster, "b", 7).await;
    let dir = new_dir(&mut a, "d").await;
    let there = a.compound().putfh(&dir).open_create("there").getfh().send().await.ok().fh();
    let writable = setattr(Stateid::ANONYMOUS, mode(0o666));
    a.compound().putfh(&there).op(writable).send().await.ok();
    let stateid = delegated(&mut a, &dir).await;
    b.compound().putfh(&dir).op(lookup("there")).send().await.ok();
    b.compound().putfh(&dir).open(open_create("o", "there")).send().await.ok();
    let elsewhere = [OpArgs::Savefh, rename("there", "x")];
    let refused: [&[OpArgs]; 4] =
        [&[mkdir("x")], &[OpArgs::Open(open_create("o", "x"))], &[remove("there")], &elsewhere];
    for ops in refused {
        let change = ops.iter().cloned().fold(b.compound().putfh(&dir), Compound::op);
        assert_eq!(change.send().await.status(), NfsStat::ACCESS, "{ops:?}");
    }
    // By who may: a name that it has already, no attribute, and the same exclusive create again.
    let exclusive = OpenArgs {
        openhow: Some(CreateHow::Exclusive41(Verifier([7; 8]), Box::default())),
        ..open_create("o", "exclusive")
    };
    let again = OpArgs::Open(exclusive.clone());
    let made = b.by_user(0).putfh(&dir).op(again.clone());
    let (made, ()) = tokio::join!(made.send(), gives_back(&mut a, &dir, stateid));
    made.ok();
    let other = new_dir(&mut a, "other").await;
    a.compound().putfh(&other).open(exclusive).send().await.ok();
    a.compound().putfh(&other).open_create("there").send().await.ok();
    let stateid = delegated(&mut a, &other).await;
    let same = [OpArgs::Savefh, rename("there", "there")];
    let nothing = [setattr(Stateid::ANONYMOUS, Attrs::default())];
    for ops in [&same[..], &nothing, &[again]] {
        let act = ops.iter().cloned().fold(b.by_user(0).putfh(&other), Compound::op);
        act.send().await.ok();
    }
    assert_eq!(status_of(&mut a, stateid).await, NfsStat::OK);
    let dir = other;
    // Nothing was asked: the first recall is for what is allowed.
    let allowed = b.by_user(0).putfh(&dir).op(mkdir("allowed"));
    let (changed, ()) = tokio::join!(allowed.send(), gives_back(&mut a, &dir, stateid));
    changed.ok();
}

/// With a directory go the delegations on it: nobody could give them back.
#[tokio::test]
async fn they_go_with_the_directory() {
    let cluster = delegating().await;
    let mut a = Client::mount(&cluster, "a").await;
    let (removed, replaced) = (new_dir(&mut a, "removed").await, new_dir(&mut a, "replaced").await);
    new_dir(&mut a, "new").await;
    let held = [delegated(&mut a, &removed).await, delegated(&mut a, &replaced).await];
    a.compound().putrootfh().op(remove("removed")).send().await.ok();
    a.compound().putrootfh().savefh().op(rename("new", "replaced")).send().await.ok();
    for stateid in held {
        assert_eq!(status_of(&mut a, stateid).await, NfsStat::BAD_STATEID);
    }
    a.compound().putfh(&removed).op(get_delegation()).expect(NfsStat::STALE).await;
}
