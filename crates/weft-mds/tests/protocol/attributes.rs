//! Attributes: GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS. RFC 8881 §5, §6, §18.1, §18.7, §18.15,
//! §18.30, §18.31.

use bytes::Bytes;
use weft_nfs::{
    Ace, AceType, Acl, Acl41, AttrNo, Attrs, Bitmap, FileHandle, FileType, NfsStat, NfsTime,
    OpArgs, OpOk, Opaque, SpecData, Stateid, access as bit, ace_mask, acl_support,
    attr::{ModeMasked, ModeUmask, SetTime, numeric_owner},
    ops::*,
    share,
};

use crate::support::*;

const SET_ONLY: [AttrNo; 4] =
    [AttrNo::TIME_ACCESS_SET, AttrNo::TIME_MODIFY_SET, AttrNo::MODE_SET_MASKED, AttrNo::MODE_UMASK];

async fn supported(c: &mut Client) -> Bitmap {
    let reply = c.compound().putrootfh().getattr(&[AttrNo::SUPPORTED_ATTRS]).send().await.ok();
    reply.attrs().supported_attrs.unwrap()
}

/// One object of every type.
async fn objects(c: &mut Client) -> Vec<FileHandle> {
    let (file, _) = c.file("f").await;
    let mut all = vec![file, c.public_dir("d").await];
    let dev = SpecData { major: 1, minor: 3 };
    let kinds = [
        CreateType::Link(Bytes::from_static(b"x")),
        CreateType::Fifo,
        CreateType::Socket,
        CreateType::Block(dev),
        CreateType::Char(dev),
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let make = create(kind, &format!("o{n}"), mode(0o644));
        all.push(c.compound().putrootfh().op(make).getfh().send().await.ok().fh());
    }
    all
}

/// On objects of every type, exactly the announced attributes have values: no more are answered
/// when all are asked for, and no fewer. VERIFY knows them all again, and NVERIFY.
#[tokio::test]
async fn what_is_supported_is_answered() {
    let cluster = Cluster::start().await;
    for minor in [1, 2] {
        let options = ClientOptions { minor, ..ClientOptions::new(&format!("{minor}")) };
        let mut c = Client::with(cluster.address(), options).await;
        let dir = c.compound().putrootfh().op(mkdir(&format!("dir{minor}"))).getfh();
        let dir = dir.send().await.ok().fh();
        let readable = supported(&mut c).await.without(&Bitmap::of(&SET_ONLY));
        let fhs = if minor == 1 { vec![dir] } else { objects(&mut c).await };
        for fh in fhs {
            let request = Bitmap::from_words(&[u32::MAX; 3]).without(&Bitmap::of(&SET_ONLY));
            let ask = OpArgs::Getattr(GetattrArgs { request });
            let mut attrs = c.compound().putfh(&fh).op(ask).send().await.ok().attrs();
            // Files alone have a threshold (§5.12.4): Linux takes it for nothing else.
            let threshold = Bitmap::of(&[AttrNo::MDSTHRESHOLD]);
            let is_file = attrs.file_type == Some(FileType::REG);
            let wanted = if is_file { readable } else { readable.without(&threshold) };
            assert_eq!(attrs.mask(), wanted);
            attrs.rdattr_error = None;
            let verify = OpArgs::Verify(VerifyArgs { attrs: Box::new(attrs.clone()) });
            c.compound().putfh(&fh).op(verify).expect(NfsStat::OK).await;
            let nverify = OpArgs::Nverify(VerifyArgs { attrs: Box::new(attrs) });
            c.compound().putfh(&fh).op(nverify).expect(NfsStat::SAME).await;
        }
    }
}

/// The REQUIRED attributes (§5.6) are all there, and each that can only be read is refused when
/// set, alone, with INVAL (§5.5): a table over every attribute there is.
#[tokio::test]
async fn every_attribute_is_read_or_set_as_announced() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let all = supported(&mut c).await;
    let required = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 75].map(AttrNo);
    assert_eq!(Bitmap::of(&required).without(&all), Bitmap::EMPTY);
    let ask = OpArgs::Getattr(GetattrArgs { request: all.without(&Bitmap::of(&SET_ONLY)) });
    let values = c.compound().putfh(&fh).op(ask).send().await.ok().attrs();
    let settable =
        [AttrNo::SIZE, AttrNo::ACL, AttrNo::MODE, AttrNo::OWNER, AttrNo::OWNER_GROUP, AttrNo::DACL];
    for attr in values.mask().iter() {
        let attrs = values.clone().only(&Bitmap::of(&[attr]));
        let status = set(&mut c, &fh, 0, Stateid::ANONYMOUS, attrs).await;
        let wanted = if settable.contains(&attr) { NfsStat::OK } else { NfsStat::INVAL };
        assert_eq!(status, wanted, "{attr:?}");
    }
    // And those of no value here.
    for attr in Attrs::KNOWN.without(&all).iter() {
        let known = match attr {
            AttrNo::ARCHIVE => Attrs { archive: Some(true), ..Attrs::default() },
            AttrNo::LAYOUT_ALIGNMENT => Attrs { layout_alignment: Some(1), ..Attrs::default() },
            _ => continue,
        };
        let status = set(&mut c, &fh, 0, Stateid::ANONYMOUS, known).await;
        assert_eq!(status, NfsStat::ATTRNOTSUPP, "{attr:?}");
    }
}

/// What an exclusive create may carry can be set there, and nothing else is announced (§5.8.1.14).
#[tokio::test]
async fn what_an_exclusive_create_may_carry() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let reply = c.compound().putrootfh().getattr(&[AttrNo::SUPPATTR_EXCLCREAT]).send().await.ok();
    let announced = reply.attrs().suppattr_exclcreat.unwrap();
    let then = NfsTime { seconds: 5, nseconds: 6 };
    let carried = [
        Attrs {
            size: Some(7),
            owner: Some(numeric_owner(0)),
            owner_group: Some(numeric_owner(0)),
            time_access_set: Some(SetTime::ToClient(then)),
            time_modify_set: Some(SetTime::ToServer),
            ..mode(0o640)
        },
        Attrs { mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }), ..Attrs::default() },
        Attrs { acl: Some(Acl(vec![everyone(ace_mask::READ_DATA)])), ..Attrs::default() },
        Attrs {
            dacl: Some(Acl41 { flag: 0, aces: Acl(vec![everyone(ace_mask::READ_DATA)]) }),
            ..Attrs::default()
        },
    ];
    let modes = [0o640, 0o644, 0o444, 0o444];
    let mut seen = Bitmap::EMPTY;
    for (n, (attrs, wanted)) in carried.into_iter().zip(modes).enumerate() {
        seen = seen.or(&attrs.mask());
        let how = CreateHow::Exclusive41(weft_nfs::Verifier([7; 8]), Box::new(attrs.clone()));
        let make = OpenArgs { openhow: Some(how), ..open_name("o", &format!("x{n}")) };
        let ask = [AttrNo::MODE, AttrNo::SIZE, AttrNo::TIME_ACCESS];
        let reply = c.compound().putrootfh().open(make).getattr(&ask).send().await.ok();
        assert_eq!(reply.open().attrset, attrs.mask());
        assert_eq!(reply.attrs().mode, Some(wanted));
        assert_eq!(reply.attrs().size, Some(attrs.size.unwrap_or(0)));
        if n == 0 {
            assert_eq!(reply.attrs().time_access, Some(then));
        }
    }
    assert_eq!(seen, announced);
    let masked = Attrs { mode_set_masked: Some(ModeMasked { value: 0, mask: 0 }), ..mode(0) };
    let how = CreateHow::Unchecked(Box::new(Attrs { mode: None, ..masked }));
    let make = OpenArgs { openhow: Some(how), ..open_name("o", "y") };
    c.compound().putrootfh().open(make).expect(NfsStat::INVAL).await;
}

/// Only the bits under the mask change (§6.2.5); bits that do not exist are refused in either
/// word, and so are two ways of saying the mode.
#[tokio::test]
async fn mode_under_a_mask() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, any) = (c.file("f").await.0, Stateid::ANONYMOUS);
    let masked = |value, mask| Attrs {
        mode_set_masked: Some(ModeMasked { value, mask }),
        ..Attrs::default()
    };
    let rows = [
        (masked(0o4000, 0o6000), NfsStat::OK, 0o4644),
        (masked(0o777, 0o020), NfsStat::OK, 0o4664),
        (masked(0o111, 0), NfsStat::OK, 0o4664),
        (masked(0, 0o7777), NfsStat::OK, 0),
        (masked(0o1_0000, 0), NfsStat::INVAL, 0),
        (masked(0, 0o1_0000), NfsStat::INVAL, 0),
        (Attrs { mode: Some(0o777), ..masked(0, 0) }, NfsStat::INVAL, 0),
    ];
    for (attrs, status, wanted) in rows {
        let what = format!("{:?}", attrs.mode_set_masked);
        assert_eq!(set(&mut c, &fh, 0, any, attrs).await, status, "{what}");
        let reply = c.compound().putfh(&fh).getattr(&[AttrNo::MODE]).send().await.ok();
        assert_eq!(reply.attrs().mode, Some(wanted), "{what}");
    }
}

fn everyone(access_mask: u32) -> Ace {
    let who = Opaque(Bytes::from_static(b"EVERYONE@"));
    Ace { acetype: AceType::ALLOW, flag: 0, access_mask, who }
}

async fn acl(c: &mut Client, fh: &FileHandle) -> (u32, Vec<Ace>) {
    let ask = [AttrNo::MODE, AttrNo::ACL, AttrNo::DACL];
    let attrs = c.compound().putfh(fh).getattr(&ask).send().await.ok().attrs();
    let (acl, dacl) = (attrs.acl.unwrap(), attrs.dacl.unwrap());
    assert_eq!(dacl, Acl41 { flag: 0, aces: acl.clone() });
    (attrs.mode.unwrap(), acl.0)
}

/// The list follows the mode and the mode the list (§6.4.1); what was read can be set again; with
/// both in one request the list has the last word about the low bits and the mode about the rest.
#[tokio::test]
async fn mode_and_list_are_one() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, any) = (c.file("f").await.0, Stateid::ANONYMOUS);
    let (before, list) = acl(&mut c, &fh).await;
    assert_eq!((before, list.len()), (0o644, 3));
    assert_eq!(set(&mut c, &fh, 0, any, mode(0o4700)).await, NfsStat::OK);
    let (_, changed) = acl(&mut c, &fh).await;
    assert_ne!(changed, list);
    let of = |aces: &[Ace]| Attrs { acl: Some(Acl(aces.to_vec())), ..Attrs::default() };
    assert_eq!(set(&mut c, &fh, 0, any, of(&list)).await, NfsStat::OK);
    assert_eq!(acl(&mut c, &fh).await, (0o4644, list.clone()));
    let both = Attrs { mode: Some(0o1777), ..of(&list) };
    assert_eq!(set(&mut c, &fh, 0, any, both).await, NfsStat::OK);
    assert_eq!(acl(&mut c, &fh).await, (0o1644, list.clone()));
    let dacl =
        |flag| Attrs { dacl: Some(Acl41 { flag, aces: Acl(changed.clone()) }), ..Attrs::default() };
    assert_eq!(set(&mut c, &fh, 0, any, dacl(0)).await, NfsStat::OK);
    assert_eq!(acl(&mut c, &fh).await, (0o1700, changed.clone()));
    let refused = [
        (dacl(1), NfsStat::ATTRNOTSUPP),
        (Attrs { dacl: dacl(0).dacl, ..of(&list) }, NfsStat::INVAL),
        (of(&[Ace { who: Opaque("someone".into()), ..everyone(1) }]), NfsStat::BADOWNER),
        (of(&[Ace { acetype: AceType::AUDIT, ..everyone(1) }]), NfsStat::ATTRNOTSUPP),
        (of(&[everyone(1 << 30)]), NfsStat::INVAL),
    ];
    for (attrs, status) in refused {
        let what = format!("{attrs:?}");
        assert_eq!(set(&mut c, &fh, 0, any, attrs).await, status, "{what}");
    }
    assert_eq!(acl(&mut c, &fh).await.0, 0o1700);
    // Only the owner may, as with the mode.
    assert_eq!(set(&mut c, &fh, 1000, any, of(&list)).await, NfsStat::PERM);
    let reply = c.compound().putfh(&fh).getattr(&[AttrNo::ACLSUPPORT]).send().await.ok();
    assert_eq!(reply.attrs().aclsupport, Some(acl_support::ALLOW | acl_support::DENY));
}

/// Owners by name where a domain is configured, in SETATTR, VERIFY and CREATE; numbers always. The
/// host knows root; clients are told names if that is wanted.
#[tokio::test]
async fn owners_by_name() {
    let naming = weft_mds::Naming {
        domain: Some("example.org".into()),
        users: vec![("alice".into(), 1000)],
        groups: vec![("staff".into(), 50)],
        host: true,
        answer: false,
    };
    for answer in [false, true] {
        let naming = weft_mds::Naming { answer, ..naming.clone() };
        let cluster = Cluster::with(Options { naming, ..Options::default() }).await;
        let mut c = Client::mount(&cluster, "a").await;
        let (fh, any) = (c.file("f").await.0, Stateid::ANONYMOUS);
        let named = |owner: &'static str, group: &'static str| Attrs {
            owner: Some(Opaque(owner.into())),
            owner_group: Some(Opaque(group.into())),
            ..Attrs::default()
        };
        let ask = [AttrNo::OWNER, AttrNo::OWNER_GROUP];
        let told = |names: Attrs, numbers: Attrs| if answer { names } else { numbers };
        let alices = named("alice@example.org", "staff@EXAMPLE.org");
        assert_eq!(set(&mut c, &fh, 0, any, alices.clone()).await, NfsStat::OK);
        let reply = c.compound().putfh(&fh).getattr(&ask).send().await.ok();
        let wanted = told(named("alice@example.org", "staff@example.org"), named("1000", "50"));
        assert_eq!(reply.attrs(), wanted);
        for same in [alices, named("1000", "50")] {
            let verify = OpArgs::Verify(VerifyArgs { attrs: Box::new(same) });
            c.compound().putfh(&fh).op(verify).expect(NfsStat::OK).await;
        }
        for other in [named("1001", "50"), named("bob@example.org", "50")] {
            let verify = OpArgs::Verify(VerifyArgs { attrs: Box::new(other) });
            c.compound().putfh(&fh).op(verify).expect(NfsStat::NOT_SAME).await;
        }
        let roots = create(CreateType::Fifo, "fifo", named("root@example.org", "987654"));
        let reply = c.compound().putrootfh().op(roots).getattr(&ask).send().await.ok();
        assert_eq!(reply.attrs().owner_group, named("", "987654").owner_group);
        assert_eq!(reply.attrs().owner, told(named("root@example.org", ""), named("0", "")).owner);
        for nobody in ["bob@example.org", "alice@example.com", "alice", "-1", "00"] {
            let attrs = Attrs { owner: Some(Opaque(nobody.into())), ..Attrs::default() };
            assert_eq!(set(&mut c, &fh, 0, any, attrs).await, NfsStat::BADOWNER, "{nobody}");
        }
    }
}

/// What is not supported is left out; what can only be set is refused (§5.5).
#[tokio::test]
async fn unsupported_and_set_only() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let asked = [AttrNo(59), AttrNo::ARCHIVE, AttrNo(200), AttrNo::MODE];
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
    let since_4_2 = [
        AttrNo::SPACE_FREED,
        AttrNo::CHANGE_ATTR_TYPE,
        AttrNo::MODE_UMASK,
        AttrNo::XATTR_SUPPORT,
        AttrNo::OPEN_ARGUMENTS,
    ];
    assert_eq!(newer, Bitmap::of(&since_4_2));
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
    let verify = |attrs: &Attrs| OpArgs::Verify(VerifyArgs { attrs: Box::new(attrs.clone()) });
    let nverify = |attrs: &Attrs| OpArgs::Nverify(VerifyArgs { attrs: Box::new(attrs.clone()) });
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

/// A size beyond the largest file of the data servers' file systems (16 TiB on ext4): the file has
/// it, as one hole, and stays usable.
#[tokio::test]
async fn sizes_beyond_what_data_servers_can_hold() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    c.compound().putfh(&fh).op(write(id, 0, b"begin")).send().await.ok();
    // With a layout out data servers may have more than is known here: all of them are asked.
    let layout = OpArgs::Layoutget(layoutget(id, weft_nfs::IoMode::RW));
    c.compound().putfh(&fh).op(layout).expect(NfsStat::OK).await;
    let huge = 1 << 62;
    c.compound().putfh(&fh).op(setattr(id, size(huge))).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(write(id, 5, b"ning")).expect(NfsStat::OK).await;
    let now = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(now.size, Some(huge));
    for (at, expected) in [(0, b"begin"), (huge - 5, &[0; 5])] {
        let read = c.compound().putfh(&fh).op(read(id, at, 5)).send().await.ok().data();
        assert_eq!(read.0[..], expected[..]);
    }
    c.compound().putfh(&fh).op(setattr(id, size(9))).expect(NfsStat::OK).await;
    let read = c.compound().putfh(&fh).op(read(id, 0, 99)).send().await.ok().data();
    assert_eq!(read.0[..], b"beginning"[..]);
}
