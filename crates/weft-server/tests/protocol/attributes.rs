//! Attributes: GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS. RFC 8881 §5, §18.1, §18.7, §18.15, §18.30,
//! §18.31.

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, FileHandle, NfsStat, NfsTime, OpArgs, OpOk, Opaque, Stateid,
    access as bit,
    attr::{ModeUmask, SetTime, numeric_owner},
    ops::*,
    share,
};

use crate::support::*;

const SET_ONLY: [AttrNo; 3] =
    [AttrNo::TIME_ACCESS_SET, AttrNo::TIME_MODIFY_SET, AttrNo::MODE_UMASK];

async fn supported(c: &mut Client) -> Bitmap {
    let reply = c.compound().putrootfh().getattr(&[AttrNo::SUPPORTED_ATTRS]).send().await.ok();
    reply.attrs().supported_attrs.unwrap()
}

/// Every attribute that is announced has a value on a regular file.
#[tokio::test]
async fn what_is_supported_is_answered() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let wanted = supported(&mut c).await.without(&Bitmap::of(&SET_ONLY));
    let ask = OpArgs::Getattr(GetattrArgs { request: wanted });
    let attrs = c.compound().putfh(&fh).op(ask).send().await.ok().attrs();
    assert_eq!(attrs.mask(), wanted);
}

/// What is not supported is left out; what can only be set is refused (§5.5).
#[tokio::test]
async fn unsupported_and_set_only() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let asked = [AttrNo::ACL, AttrNo::ARCHIVE, AttrNo(200), AttrNo::MODE];
    let reply = c.compound().putrootfh().getattr(&asked).send().await.ok();
    assert_eq!(reply.attrs().mask(), Bitmap::of(&[AttrNo::MODE]));
    for a in SET_ONLY {
        c.compound().putrootfh().getattr(&[a]).expect(NfsStat::INVAL).await;
        let list = readdir(0, 4096, &[a]);
        c.compound().putrootfh().op(OpArgs::Readdir(list)).expect(NfsStat::INVAL).await;
    }
}

/// A 4.1 client does not see what 4.2 added.
#[tokio::test]
async fn attributes_of_4_2_are_not_in_4_1() {
    let cluster = Cluster::start().await;
    let options = ClientOptions { minor: 1, ..ClientOptions::new("41") };
    let mut old = Client::with(cluster.address(), options).await;
    let mut new = Client::mount(&cluster, "42").await;
    let newer = supported(&mut new).await.without(&supported(&mut old).await);
    assert_eq!(newer, Bitmap::of(&[AttrNo::CHANGE_ATTR_TYPE, AttrNo::MODE_UMASK]));
}

async fn set(c: &mut Client, fh: &FileHandle, uid: u32, stateid: Stateid, attrs: Attrs) -> NfsStat {
    c.by_user(uid).putfh(fh).op(setattr(stateid, attrs)).send().await.status()
}

/// SETATTR refuses what it cannot set, before it sets anything.
#[tokio::test]
async fn setattr_arguments() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let none = Attrs::default;
    let owner = Some(Opaque(Bytes::from_static(b"root@example.org")));
    let too_many_ns = SetTime::ToClient(NfsTime { seconds: 1, nseconds: 1_000_000_000 });
    let umask = Some(ModeUmask { mode: 0o666, umask: 0o22 });
    let cases = [
        (Attrs { archive: Some(true), ..none() }, NfsStat::ATTRNOTSUPP),
        (Attrs { change: Some(1), ..none() }, NfsStat::INVAL),
        (Attrs { supported_attrs: Some(Bitmap::EMPTY), ..none() }, NfsStat::INVAL),
        (Attrs { owner: owner.clone(), ..none() }, NfsStat::BADOWNER),
        (Attrs { owner_group: owner, ..none() }, NfsStat::BADOWNER),
        (Attrs { mode_umask: umask, ..none() }, NfsStat::INVAL),
        (mode(0o1_0000), NfsStat::INVAL),
        (mtime(too_many_ns), NfsStat::INVAL),
        (size(1 << 63), NfsStat::FBIG),
        (none(), NfsStat::OK),
    ];
    for (mut attrs, status) in cases {
        let what = format!("{:?}", attrs.mask());
        if attrs.mode.is_none() && status != NfsStat::OK {
            attrs.mode = Some(0o777);
        }
        assert_eq!(set(&mut c, &fh, 0, Stateid::ANONYMOUS, attrs).await, status, "{what}");
    }
    let after = c.compound().putfh(&fh).getattr(&[AttrNo::MODE]).send().await.ok().attrs();
    assert_eq!(after.mode, Some(0o644));
}

/// Who may set what.
#[tokio::test]
async fn setattr_permissions() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let create = c.by_user(1000).putfh(&dir).open_create("f").getfh().send().await.ok();
    let (fh, any) = (create.fh(), Stateid::ANONYMOUS);
    let owner = |id| Attrs { owner: Some(numeric_owner(id)), ..Attrs::default() };
    let then = SetTime::ToClient(NfsTime { seconds: 5, nseconds: 0 });
    assert_eq!(set(&mut c, &fh, 1001, any, mode(0o777)).await, NfsStat::PERM);
    assert_eq!(set(&mut c, &fh, 1001, any, size(3)).await, NfsStat::ACCESS);
    assert_eq!(set(&mut c, &fh, 1001, any, mtime(then)).await, NfsStat::PERM);
    assert_eq!(set(&mut c, &fh, 1001, any, mtime(SetTime::ToServer)).await, NfsStat::ACCESS);
    assert_eq!(set(&mut c, &fh, 1000, any, owner(1001)).await, NfsStat::PERM);
    assert_eq!(set(&mut c, &fh, 1000, any, mode(0o666)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 1001, any, mtime(SetTime::ToServer)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 1001, any, size(3)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 0, any, owner(1001)).await, NfsStat::OK);
}

/// The state that authorises a change of size (§18.30.3).
#[tokio::test]
async fn setattr_size_and_its_stateid() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, stateid) = c.file("f").await;
    let (g, foreign) = other.file("g").await;
    let reader = OpenArgs { share_access: share::ACCESS_READ, ..open("reader", OpenClaim::Fh) };
    let reader = c.compound().putfh(&fh).open(reader).send().await.ok().stateid();
    assert_eq!(set(&mut c, &fh, 0, stateid, size(10)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 0, reader, size(10)).await, NfsStat::OPENMODE);
    assert_eq!(set(&mut c, &fh, 0, foreign, size(10)).await, NfsStat::BAD_STATEID);
    assert_eq!(set(&mut c, &g, 0, stateid, size(10)).await, NfsStat::BAD_STATEID);
    assert_eq!(set(&mut c, &fh, 0, Stateid::INVALID, size(1)).await, NfsStat::BAD_STATEID);
    // An open for writing stays good when the mode changes.
    assert_eq!(set(&mut c, &fh, 0, Stateid::ANONYMOUS, mode(0)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 1000, stateid, size(4)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 1000, Stateid::ANONYMOUS, size(5)).await, NfsStat::ACCESS);
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(4));
}

/// Only regular files have a size that can be set.
#[tokio::test]
async fn setattr_size_of_other_objects() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let link = c.compound().putrootfh().op(symlink("l", "x")).getfh().send().await.ok().fh();
    assert_eq!(set(&mut c, &dir, 0, Stateid::ANONYMOUS, size(1)).await, NfsStat::WRONG_TYPE);
    assert_eq!(set(&mut c, &link, 0, Stateid::ANONYMOUS, size(1)).await, NfsStat::WRONG_TYPE);
}

/// Every change moves the change attribute forward.
#[tokio::test]
async fn change_goes_forward() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let mut last = 0;
    for attrs in [mode(0o600), mode(0o600), size(5), size(5), mtime(SetTime::ToServer)] {
        let ops = c.compound().putfh(&fh).op(setattr(stateid, attrs)).getattr(&[AttrNo::CHANGE]);
        let change = ops.send().await.ok().attrs().change.unwrap();
        assert!(change >= last);
        last = change;
    }
    let ops = c.compound().putfh(&fh).op(setattr(stateid, size(6))).getattr(&[AttrNo::CHANGE]);
    assert!(ops.send().await.ok().attrs().change.unwrap() > last);
}

/// VERIFY goes on when all are the same, NVERIFY when any differs.
#[tokio::test]
async fn verify_and_nverify() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let same = Attrs { mode: Some(0o644), size: Some(0), ..Attrs::default() };
    let differs = Attrs { size: Some(1), ..same.clone() };
    let verify = |attrs: &Attrs| OpArgs::Verify(VerifyArgs { attrs: attrs.clone() });
    let nverify = |attrs: &Attrs| OpArgs::Nverify(VerifyArgs { attrs: attrs.clone() });
    let cases = [
        (verify(&same), NfsStat::OK),
        (verify(&differs), NfsStat::NOT_SAME),
        (nverify(&same), NfsStat::SAME),
        (nverify(&differs), NfsStat::OK),
    ];
    for (op, status) in cases {
        c.compound().putfh(&fh).op(op).expect(status).await;
    }
    let bad = [
        (mtime(SetTime::ToServer), NfsStat::INVAL),
        (Attrs { rdattr_error: Some(NfsStat::OK), ..Attrs::default() }, NfsStat::INVAL),
        (Attrs { archive: Some(false), ..Attrs::default() }, NfsStat::ATTRNOTSUPP),
    ];
    for (attrs, status) in bad {
        c.compound().putfh(&fh).op(verify(&attrs)).expect(status).await;
        c.compound().putfh(&fh).op(nverify(&attrs)).expect(status).await;
    }
}

/// Rights that ACCESS knows of, and those the user has.
async fn rights(c: &mut Client, fh: &FileHandle, uid: u32, gid: u32) -> (u32, u32) {
    let everything = 0x3f;
    let reply = c.compound().by_user(uid, gid).putfh(fh).op(access(everything)).send().await.ok();
    let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
    (a.supported, a.access)
}

/// ACCESS by owner, group and others, and which rights mean something for which object.
#[tokio::test]
async fn access_bits() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let create = c.by_user(1000).putfh(&dir).open_create("f").getfh().send().await.ok();
    let fh = create.fh();
    assert_eq!(set(&mut c, &fh, 1000, Stateid::ANONYMOUS, mode(0o640)).await, NfsStat::OK);
    let of_file = bit::READ | bit::MODIFY | bit::EXTEND | bit::EXECUTE;
    let write = bit::MODIFY | bit::EXTEND;
    assert_eq!(rights(&mut c, &fh, 1000, 1).await, (of_file, bit::READ | write));
    assert_eq!(rights(&mut c, &fh, 1001, 1000).await, (of_file, bit::READ));
    assert_eq!(rights(&mut c, &fh, 1001, 1).await, (of_file, 0));
    assert_eq!(rights(&mut c, &fh, 0, 0).await, (of_file, bit::READ | write));
}
