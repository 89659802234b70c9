//! Names: LOOKUP, LOOKUPP, CREATE, REMOVE, RENAME, LINK, READLINK, SECINFO. RFC 8881 §18.4, §18.9,
//! §18.13, §18.14, §18.24-§18.26, §18.29, §18.45.

use bytes::Bytes;
use weft_mds::Export;
use weft_nfs::{
    AttrNo, Attrs, FileHandle, FileType, NfsStat, OpArgs, OpOk, Opaque, SpecData, ops::*, share,
};

use crate::support::*;

/// What every name goes through, in every operation that takes one.
#[tokio::test]
async fn names_are_checked() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let [long, longer, longest] = [256, 4097, 200_000].map(|len| "n".repeat(len));
    let bad = [
        ("", NfsStat::INVAL),
        (".", NfsStat::BADNAME),
        ("..", NfsStat::BADNAME),
        ("a/b", NfsStat::BADCHAR),
        ("a\0b", NfsStat::BADCHAR),
        (long.as_str(), NfsStat::NAMETOOLONG),
        (longer.as_str(), NfsStat::NAMETOOLONG),
        (longest.as_str(), NfsStat::NAMETOOLONG),
    ];
    for (name, status) in bad {
        let secinfo = OpArgs::Secinfo(SecinfoArgs { name: name.into() });
        let open = OpArgs::Open(open_create("o", name));
        let ops = [lookup(name), mkdir(name), remove(name), link(name), open, secinfo];
        for op in ops.into_iter().chain([rename(name, "x"), rename("x", name)]) {
            let what = format!("{:?} {}", op.op(), name.len());
            let reply = c.compound().putrootfh().savefh().op(op).send().await;
            assert_eq!(reply.status(), status, "{what}");
        }
    }
    let longest = "n".repeat(255);
    c.compound().putrootfh().op(mkdir(&longest)).expect(NfsStat::OK).await;
    c.compound().putrootfh().lookup(&longest).expect(NfsStat::OK).await;
}

/// A file, a symbolic link and a named pipe: their handles.
async fn others(c: &mut Client) -> [FileHandle; 3] {
    let (file, stateid) = c.file("file").await;
    c.compound().putfh(&file).op(close(stateid)).send().await.ok();
    let make = c.compound().putrootfh().op(symlink("link", "file")).getfh();
    let link = make.send().await.ok().fh();
    let fifo = create(CreateType::Fifo, "fifo", mode(0o600));
    let fifo = c.compound().putrootfh().op(fifo).getfh().send().await.ok().fh();
    [file, link, fifo]
}

/// Operations on directories, on what is none: some tell a symbolic link apart.
#[tokio::test]
async fn not_a_directory() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let [file, symlink, fifo] = others(&mut c).await;
    let on = [(file, NfsStat::NOTDIR), (symlink, NfsStat::SYMLINK), (fifo, NfsStat::NOTDIR)];
    for (fh, status) in on {
        let ops = [
            (lookup("x"), status),
            (OpArgs::Lookupp, status),
            (OpArgs::Open(open_create("o", "x")), status),
            (OpArgs::Readdir(readdir(0, 4096, &[])), NfsStat::NOTDIR),
            (mkdir("x"), NfsStat::NOTDIR),
            (remove("x"), NfsStat::NOTDIR),
        ];
        for (op, status) in ops {
            let what = format!("{op:?}");
            let reply = c.compound().putfh(&fh).op(op).send().await;
            assert_eq!(reply.status(), status, "{what}");
        }
    }
}

/// LOOKUP finds, does not find, and may not; LOOKUPP ends at the root.
#[tokio::test]
async fn lookup_and_back() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let root = c.compound().putrootfh().getfh().send().await.ok().fh();
    c.compound().putrootfh().lookup("x").expect(NfsStat::NOENT).await;
    let up = c.compound().putfh(&dir).op(OpArgs::Lookupp).getfh().send().await.ok();
    assert_eq!(up.fh(), root);
    c.compound().putrootfh().op(OpArgs::Lookupp).expect(NfsStat::NOENT).await;
    let private = create(CreateType::Directory, "private", mode(0o700));
    c.compound().putrootfh().op(private).op(mkdir("in")).send().await.ok();
    let other = c.by_user(1000).putrootfh().lookup("private");
    other.lookup("in").expect(NfsStat::ACCESS).await;
}

/// CREATE: every kind it can make, and what it cannot.
#[tokio::test]
async fn create_kinds() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dev = SpecData { major: 5, minor: 1 };
    let kinds = [
        (CreateType::Directory, FileType::DIR),
        (CreateType::Link(Bytes::from_static(b"t")), FileType::LNK),
        (CreateType::Block(dev), FileType::BLK),
        (CreateType::Char(dev), FileType::CHR),
        (CreateType::Socket, FileType::SOCK),
        (CreateType::Fifo, FileType::FIFO),
    ];
    for (n, (kind, file_type)) in kinds.into_iter().enumerate() {
        let make = create(kind, &format!("k{n}"), mode(0o640));
        let wanted = [AttrNo::TYPE, AttrNo::MODE, AttrNo::RAWDEV];
        let reply = c.compound().putrootfh().op(make).getattr(&wanted).send().await.ok();
        let attrs = reply.attrs();
        assert_eq!(attrs.file_type, Some(file_type));
        // The mode of a symbolic link means nothing, and is the same for all.
        let mode = if file_type == FileType::LNK { 0o777 } else { 0o640 };
        assert_eq!(attrs.mode, Some(mode));
        let is_device = [FileType::BLK, FileType::CHR].contains(&file_type);
        assert_eq!(attrs.rawdev.unwrap().major, if is_device { 5 } else { 0 });
    }
    for t in [FileType::REG, FileType::ATTRDIR, FileType::NAMEDATTR, FileType(77)] {
        let make = create(CreateType::Other(t), "x", Attrs::default());
        c.compound().putrootfh().op(make).expect(NfsStat::BADTYPE).await;
    }
}

/// CREATE refuses before it makes anything, and says what it set and how the directory changed.
#[tokio::test]
async fn create_refusals_and_result() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = |attrs| create(CreateType::Directory, "d", attrs);
    let owner = |o: &'static [u8]| Some(Opaque(Bytes::from_static(o)));
    let bad = [
        (size(0), NfsStat::INVAL),
        (size(u64::MAX), NfsStat::INVAL),
        (mode(0o10_000), NfsStat::INVAL),
        (Attrs { fileid: Some(1), ..Attrs::default() }, NfsStat::INVAL),
        (Attrs { archive: Some(true), ..Attrs::default() }, NfsStat::ATTRNOTSUPP),
        (Attrs { owner: owner(b"alice@example.org"), ..Attrs::default() }, NfsStat::BADOWNER),
    ];
    for (attrs, status) in bad {
        c.compound().putrootfh().op(dir(attrs)).expect(status).await;
    }
    c.compound().putrootfh().op(symlink("d", "")).expect(NfsStat::INVAL).await;
    c.by_user(1000).putrootfh().op(dir(mode(0o755))).expect(NfsStat::ACCESS).await;
    let root = [AttrNo::CHANGE];
    let before = c.compound().putrootfh().getattr(&root).send().await.ok().attrs().change;
    let reply = c.compound().putrootfh().op(dir(mode(0o755))).send().await.ok();
    let Ok(OpOk::Create(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(ok.attrset, weft_nfs::Bitmap::of(&[AttrNo::MODE]));
    assert_eq!(Some(ok.change.before), before);
    assert!(ok.change.atomic && ok.change.after > ok.change.before);
    let after = c.compound().putrootfh().getattr(&root).send().await.ok().attrs().change;
    assert_eq!(after, Some(ok.change.after));
    c.compound().putrootfh().op(dir(mode(0o755))).expect(NfsStat::EXIST).await;
}

/// Only the superuser makes devices.
#[tokio::test]
async fn devices_need_the_superuser() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let dev = CreateType::Char(SpecData { major: 1, minor: 3 });
    let make = create(dev, "null", mode(0o666));
    c.by_user(1000).putfh(&dir).op(make).expect(NfsStat::PERM).await;
}

/// REMOVE: of nothing, of a full directory, without permission, in a sticky directory.
#[tokio::test]
async fn remove_outcomes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.compound().putrootfh().op(remove("x")).expect(NfsStat::NOENT).await;
    c.compound().putrootfh().op(mkdir("d")).op(mkdir("in")).send().await.ok();
    c.compound().putrootfh().op(remove("d")).expect(NfsStat::NOTEMPTY).await;
    c.by_user(1000).putrootfh().lookup("d").op(remove("in")).expect(NfsStat::ACCESS).await;
    let sticky = create(CreateType::Directory, "tmp", mode(0o1777));
    c.compound().putrootfh().op(sticky).op(mkdir("mine")).send().await.ok();
    let steal = c.by_user(1000).putrootfh().lookup("tmp").op(remove("mine")).send().await;
    assert!([NfsStat::PERM, NfsStat::ACCESS].contains(&steal.status()), "{steal:?}");
    let ok = c.compound().putrootfh().lookup("d").op(remove("in")).send().await.ok();
    let Ok(OpOk::Remove(r)) = &ok.last().result else { panic!("{ok:?}") };
    assert!(r.change.after > r.change.before);
    c.compound().putrootfh().op(remove("d")).expect(NfsStat::OK).await;
}

/// A file that is unlinked while open lives on by its handle until the last CLOSE.
#[tokio::test]
async fn unlinked_while_open() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    c.compound().putrootfh().op(remove("f")).send().await.ok();
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::NUMLINKS]).send().await.ok().attrs();
    assert_eq!(attrs.numlinks, Some(0));
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).expect(NfsStat::STALE).await;
}

/// A removed file is not opened by handle any more, not by who has it open either: Linux opens
/// names that it remembers so, and the name is another file's by now.
#[tokio::test]
async fn unlinked_and_opened_again() {
    let cluster = Cluster::start().await;
    let mut a = Client::mount(&cluster, "a").await;
    let mut b = Client::mount(&cluster, "b").await;
    let again = |owner| OpenArgs { share_access: share::ACCESS_READ, ..open(owner, OpenClaim::Fh) };
    let (fh, _) = a.file("f").await;
    b.compound().putfh(&fh).open(again("b")).expect(NfsStat::OK).await;
    let (other, _) = a.file("g").await;
    for name in ["f", "g"] {
        a.compound().putrootfh().op(remove(name)).send().await.ok();
    }
    b.compound().putfh(&other).open(again("b")).expect(NfsStat::STALE).await;
    a.compound().putfh(&other).open(again("a")).expect(NfsStat::STALE).await;
    b.compound().putfh(&fh).open(again("b again")).expect(NfsStat::STALE).await;
    // The open that exists remains usable.
    a.compound().putfh(&fh).getattr(&[AttrNo::NUMLINKS]).expect(NfsStat::OK).await;
}

/// RENAME: every refusal, and what replaces what.
#[tokio::test]
async fn rename_outcomes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    for d in ["a", "b", "full"] {
        c.compound().putrootfh().op(mkdir(d)).send().await.ok();
    }
    c.compound().putrootfh().lookup("full").op(mkdir("in")).send().await.ok();
    let (file, _) = c.file("f").await;
    c.file("g").await;
    let cases = [
        ("x", "y", NfsStat::NOENT),
        ("a", "full", NfsStat::NOTEMPTY),
        ("a", "f", NfsStat::EXIST),
        ("f", "a", NfsStat::EXIST),
        ("a", "a", NfsStat::OK),
        ("a", "b", NfsStat::OK),
        ("f", "g", NfsStat::OK),
    ];
    for (from, to, status) in cases {
        let reply = c.compound().putrootfh().savefh().op(rename(from, to)).send().await;
        let ok = reply.status() == status
            || (status == NfsStat::NOTEMPTY && reply.status() == NfsStat::EXIST);
        assert!(ok, "{from} to {to}: {}", reply.status());
    }
    let found = c.compound().putrootfh().lookup("g").getfh().send().await.ok().fh();
    assert_eq!(found, file);
    c.compound().putrootfh().lookup("f").expect(NfsStat::NOENT).await;
    // A directory cannot go below itself.
    let below = c.compound().putrootfh().savefh().lookup("full").lookup("in");
    below.op(rename("full", "x")).expect(NfsStat::INVAL).await;
    let not_dir = c.compound().putfh(&file).savefh().putrootfh().op(rename("a", "b"));
    not_dir.expect(NfsStat::NOTDIR).await;
    let not_dir = c.compound().putrootfh().savefh().putfh(&file).op(rename("b", "x"));
    not_dir.expect(NfsStat::NOTDIR).await;
    let other = c.by_user(1000).putrootfh().savefh().op(rename("b", "x"));
    other.expect(NfsStat::ACCESS).await;
}

/// RENAME between two names of one file does nothing (§18.26.3).
#[tokio::test]
async fn rename_onto_another_name_of_the_same_file() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (file, _) = c.file("f").await;
    c.compound().putfh(&file).savefh().putrootfh().op(link("g")).send().await.ok();
    let same = c.compound().putrootfh().savefh().op(rename("f", "g")).send().await.ok();
    let Ok(OpOk::Rename(r)) = &same.last().result else { panic!("{same:?}") };
    assert_eq!(r.source.before, r.source.after);
    c.compound().putrootfh().lookup("f").expect(NfsStat::OK).await;
    c.compound().putrootfh().lookup("g").expect(NfsStat::OK).await;
}

/// LINK: every refusal, and the count.
#[tokio::test]
async fn link_outcomes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (file, _) = c.file("f").await;
    let dir = c.public_dir("d").await;
    let made = c.compound().putfh(&file).savefh().putfh(&dir).op(link("g"));
    let reply = made.restorefh().getattr(&[AttrNo::NUMLINKS]).send().await.ok();
    assert_eq!(reply.attrs().numlinks, Some(2));
    let again = c.compound().putfh(&file).savefh().putfh(&dir).op(link("g"));
    again.expect(NfsStat::EXIST).await;
    let of_dir = c.compound().putfh(&dir).savefh().putrootfh().op(link("x"));
    of_dir.expect(NfsStat::ISDIR).await;
    let in_file = c.compound().putfh(&file).savefh().op(link("x"));
    in_file.expect(NfsStat::NOTDIR).await;
    let other = c.by_user(1000).putfh(&file).savefh().putrootfh().op(link("x"));
    other.expect(NfsStat::ACCESS).await;
    // Its errors (§15.2) have no NOENT for a file that is open and has no name any more.
    let (gone, _) = c.file("gone").await;
    c.compound().putrootfh().op(remove("gone")).send().await.ok();
    let of_gone = c.compound().putfh(&gone).savefh().putrootfh().op(link("x"));
    of_gone.expect(NfsStat::STALE).await;
}

/// Names are bytes: what is no UTF-8, or the same letter written otherwise, is another name
/// (§14.4).
#[tokio::test]
async fn names_are_bytes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let names = [&b"\xff\xfe"[..], "\u{e4}".as_bytes(), "a\u{308}".as_bytes(), b"A", b"a", b" "];
    for bytes in names {
        let (objtype, attrs) = (CreateType::Directory, mode(0o755));
        let make =
            OpArgs::Create(CreateArgs { objtype, name: name(bytes), attrs: Box::new(attrs) });
        c.compound().putrootfh().op(make).expect(NfsStat::OK).await;
    }
    let list = OpArgs::Readdir(readdir(0, 4096, &[]));
    let reply = c.compound().putrootfh().op(list).send().await.ok();
    let found: Vec<_> = reply.readdir().entries.into_iter().map(|e| e.name).collect();
    assert_eq!(found, names.map(name));
    let ask = [AttrNo::FS_CHARSET_CAP, AttrNo::CASE_INSENSITIVE];
    let attrs = c.compound().putrootfh().getattr(&ask).send().await.ok().attrs();
    assert_eq!((attrs.fs_charset_cap, attrs.case_insensitive), (Some(1), Some(false)));
}

/// Targets of symbolic links: at and beyond their limits.
#[tokio::test]
async fn targets_are_checked() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (longest, long) = ("t".repeat(4096), "t".repeat(4097));
    let rows = [
        ("", NfsStat::INVAL),
        ("a\0b", NfsStat::INVAL),
        (long.as_str(), NfsStat::NAMETOOLONG),
        (longest.as_str(), NfsStat::OK),
    ];
    for (target, status) in rows {
        c.compound().putrootfh().op(symlink("l", target)).expect(status).await;
    }
    let reply = c.compound().putrootfh().lookup("l").op(OpArgs::Readlink).send().await.ok();
    let Ok(OpOk::Readlink(r)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(r.link, longest);
}

/// READLINK reads links, and nothing else is one (§18.24.3).
#[tokio::test]
async fn readlink_outcomes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let [file, link, fifo] = others(&mut c).await;
    let reply = c.compound().putfh(&link).op(OpArgs::Readlink).send().await.ok();
    let Ok(OpOk::Readlink(r)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(r.link, "file");
    for fh in [file, fifo] {
        c.compound().putfh(&fh).op(OpArgs::Readlink).expect(NfsStat::WRONG_TYPE).await;
    }
    c.compound().putrootfh().op(OpArgs::Readlink).expect(NfsStat::WRONG_TYPE).await;
}

/// SECINFO and SECINFO_NO_NAME answer flavors and consume the current filehandle (§2.6.3.1.1.8).
#[tokio::test]
async fn secinfo_consumes_the_filehandle() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.public_dir("d").await;
    let named = |name: &str| OpArgs::Secinfo(SecinfoArgs { name: name.into() });
    let style = |style| OpArgs::SecinfoNoName(SecinfoNoNameArgs { style });
    for op in [named("d"), style(0)] {
        let reply = c.compound().putrootfh().op(op).getfh().expect(NfsStat::NOFILEHANDLE).await;
        assert_eq!(reply.len(), 4);
    }
    let parent = c.compound().putrootfh().lookup("d").op(style(1)).send().await.ok();
    let Ok(OpOk::SecinfoNoName(ok)) = &parent.last().result else { panic!("{parent:?}") };
    assert_eq!(ok.flavors.0, [1, 0]);
    c.compound().putrootfh().op(named("x")).expect(NfsStat::NOENT).await;
    c.compound().putrootfh().op(style(1)).expect(NfsStat::NOENT).await;
    c.compound().putrootfh().op(style(2)).expect(NfsStat::BADXDR).await;
}

/// Root squash: user 0 is nobody, others are themselves.
#[tokio::test]
async fn root_squash() {
    let export = Export { root_squash: true, ..open_export() };
    let cluster = Cluster::with(Options { export, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    c.compound().putrootfh().op(mkdir("d")).expect(NfsStat::ACCESS).await;
    let all = weft_nfs::access::MODIFY | weft_nfs::access::READ;
    let reply = c.compound().putrootfh().op(access(all)).send().await.ok();
    let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!((a.supported, a.access), (all, weft_nfs::access::READ));
}
