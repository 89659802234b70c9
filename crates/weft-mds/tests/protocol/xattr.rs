//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR, and ACCESS about them.
//! RFC 8276 §8.2, §8.4, §8.5.

use weft_nfs::{AttrNo, Bitmap, ChangeInfo, FileHandle, NfsStat, OpOk, access as bit, ops::*};

use crate::support::*;

const EITHER: SetxattrOption = SetxattrOption::EITHER;

async fn set(c: &mut Client, fh: &FileHandle, key: &str, value: &[u8]) -> ChangeInfo {
    c.compound().putfh(fh).op(setxattr(EITHER, key, value)).send().await.ok().changed()
}

async fn get(c: &mut Client, fh: &FileHandle, key: &str) -> Vec<u8> {
    c.compound().putfh(fh).op(getxattr(key)).send().await.ok().xattr().to_vec()
}

async fn change(c: &mut Client, fh: &FileHandle) -> u64 {
    let reply = c.compound().putfh(fh).getattr(&[AttrNo::CHANGE]).send().await.ok();
    reply.attrs().change.unwrap()
}

/// What was set is read, listed and removed, on files and directories; empty values and keys that
/// are no names of files are fine too.
#[tokio::test]
async fn set_get_list_remove() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (file, _) = c.file("f").await;
    let dir = c.public_dir("d").await;
    for fh in [file, dir] {
        for (key, value) in [("one", &b"1"[..]), ("..", b""), ("a/b", b"\0\xff")] {
            set(&mut c, &fh, key, value).await;
            assert_eq!(get(&mut c, &fh, key).await, value);
        }
        let reply = c.compound().putfh(&fh).op(listxattrs(0, 4096)).send().await.ok();
        assert_eq!(reply.xattrs().names, ["one".into(), "..".into(), "a/b".into()]);
        assert!(reply.xattrs().eof);
        c.compound().putfh(&fh).op(removexattr("..")).expect(NfsStat::OK).await;
        c.compound().putfh(&fh).op(removexattr("..")).expect(NfsStat::NOXATTR).await;
        c.compound().putfh(&fh).op(getxattr("..")).expect(NfsStat::NOXATTR).await;
        let reply = c.compound().putfh(&fh).op(listxattrs(0, 4096)).send().await.ok();
        assert_eq!(reply.xattrs().names, ["one".into(), "a/b".into()]);
    }
}

/// CREATE insists on absence, REPLACE on presence, and another option does not exist.
#[tokio::test]
async fn set_options() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let cases = [
        (SetxattrOption::REPLACE, "1", NfsStat::NOXATTR),
        (SetxattrOption::CREATE, "2", NfsStat::OK),
        (SetxattrOption::CREATE, "3", NfsStat::EXIST),
        (SetxattrOption::REPLACE, "4", NfsStat::OK),
        (SetxattrOption(3), "5", NfsStat::INVAL),
    ];
    for (option, value, status) in cases {
        let op = setxattr(option, "k", value.as_bytes());
        c.compound().putfh(&fh).op(op).expect(status).await;
    }
    assert_eq!(get(&mut c, &fh, "k").await, b"4");
}

/// Changes move the change attribute and the time of metadata, and tell from where to where; the
/// same value again does as well, as on a local file system (§8.4.2.3 leaves that open).
#[tokio::test]
async fn change_is_told() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let mut last = change(&mut c, &fh).await;
    for value in [b"1", b"2"] {
        let told = set(&mut c, &fh, "k", value).await;
        assert_eq!((told.atomic, told.before), (true, last));
        assert!(told.after > told.before);
        last = told.after;
        assert_eq!(change(&mut c, &fh).await, last);
    }
    let again = set(&mut c, &fh, "k", b"2").await;
    assert!(again.before == last && again.after > last, "{again:?} after {last}");
    last = again.after;
    let removed = c.compound().putfh(&fh).op(removexattr("k")).send().await.ok().changed();
    assert!(removed.before == last && removed.after > last);
    assert_eq!(change(&mut c, &fh).await, removed.after);
}

/// Keys at and beyond their limits, in every operation that takes one; values too.
#[tokio::test]
async fn keys_and_values_have_limits() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let long = "k".repeat(256);
    let bad = [
        ("", NfsStat::INVAL, NfsStat::INVAL),
        (long.as_str(), NfsStat::NAMETOOLONG, NfsStat::NAMETOOLONG),
        ("a\0b", NfsStat::INVAL, NfsStat::BADCHAR),
    ];
    for (key, getting, changing) in bad {
        c.compound().putfh(&fh).op(getxattr(key)).expect(getting).await;
        c.compound().putfh(&fh).op(setxattr(EITHER, key, b"")).expect(changing).await;
        c.compound().putfh(&fh).op(removexattr(key)).expect(changing).await;
    }
    let (longest, largest) = (&long[1..], vec![7; 64 << 10]);
    set(&mut c, &fh, longest, &largest).await;
    assert_eq!(get(&mut c, &fh, longest).await, largest);
    let larger = vec![7; (64 << 10) + 1];
    let op = setxattr(EITHER, "k", &larger);
    c.compound().putfh(&fh).op(op).expect(NfsStat::XATTR2BIG).await;
    for n in 0..15 {
        set(&mut c, &fh, &format!("more{n}"), &largest).await;
    }
    let op = setxattr(EITHER, "k", b"1");
    c.compound().putfh(&fh).op(op).expect(NfsStat::XATTR2BIG).await;
}

/// A list too long for one answer goes on where it ended, also when keys went or came meanwhile;
/// every answer keeps to its limit, down to one name, and below that nothing fits.
#[tokio::test]
async fn lists_go_on() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let empty = c.compound().putfh(&fh).op(listxattrs(0, 16)).send().await.ok();
    assert_eq!((empty.xattrs().names.len(), empty.xattrs().eof), (0, true));
    for n in 0..10 {
        set(&mut c, &fh, &format!("key{n}"), b"v").await;
    }
    // Cookie, count and eof take 16 bytes, a name of four bytes takes eight.
    for too_small in [0, 15, 16, 23] {
        let list = listxattrs(0, too_small);
        c.compound().putfh(&fh).op(list).expect(NfsStat::TOOSMALL).await;
    }
    let (mut cookie, mut names) = (0, Vec::new());
    for room in [24, 39, 40, 1000] {
        let reply = c.compound().putfh(&fh).op(listxattrs(cookie, room)).send().await.ok();
        let part = reply.xattrs();
        assert!(weft_xdr::to_bytes(&part).len() <= room as usize);
        cookie = part.cookie;
        names.extend(part.names);
        assert_eq!(part.eof, room == 1000);
        if room == 24 {
            c.compound().putfh(&fh).op(removexattr("key0")).expect(NfsStat::OK).await;
            set(&mut c, &fh, "late", b"v").await;
        }
    }
    let wanted: Vec<_> = (0..10).map(|n| format!("key{n}")).chain(["late".to_owned()]).collect();
    assert_eq!(names, wanted.iter().map(|n| n.as_str().into()).collect::<Vec<_>>());
    let after = c.compound().putfh(&fh).op(listxattrs(cookie, 16)).send().await.ok();
    assert_eq!((after.xattrs().names.len(), after.xattrs().eof), (0, true));
}

/// Reading needs the right to read, changing that to write, and in a sticky directory ownership;
/// ACCESS says so before (§8.5).
#[tokio::test]
async fn rights() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let made = c.by_user(1000).putfh(&dir).open_create("f").getfh().send().await.ok();
    let (file, all) = (made.fh(), bit::XAREAD | bit::XAWRITE | bit::XALIST);
    set(&mut c, &file, "k", b"v").await;
    let sticky = create(CreateType::Directory, "sticky", mode(0o1777));
    let sticky = c.compound().putrootfh().op(sticky).getfh().send().await.ok().fh();
    set(&mut c, &sticky, "k", b"v").await;
    let read = bit::XAREAD | bit::XALIST;
    let cases = [
        (&file, 0o644, 1000, all, NfsStat::OK, NfsStat::OK),
        (&file, 0o644, 1001, read, NfsStat::OK, NfsStat::ACCESS),
        (&file, 0o622, 1001, bit::XAWRITE, NfsStat::ACCESS, NfsStat::OK),
        (&file, 0o600, 1001, 0, NfsStat::ACCESS, NfsStat::ACCESS),
        (&sticky, 0o1777, 1001, read, NfsStat::OK, NfsStat::PERM),
        (&sticky, 0o777, 1001, all, NfsStat::OK, NfsStat::OK),
        (&sticky, 0o1777, 0, all, NfsStat::OK, NfsStat::OK),
    ];
    for (fh, bits, uid, granted, reading, changing) in cases {
        let chmod = setattr(weft_nfs::Stateid::ANONYMOUS, mode(bits));
        c.compound().putfh(fh).op(chmod).expect(NfsStat::OK).await;
        let reply = c.by_user(uid).putfh(fh).op(access(all)).send().await.ok();
        let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
        assert_eq!((a.supported, a.access), (all, granted), "{bits:o} {uid}");
        c.by_user(uid).putfh(fh).op(getxattr("k")).expect(reading).await;
        c.by_user(uid).putfh(fh).op(listxattrs(0, 4096)).expect(reading).await;
        c.by_user(uid).putfh(fh).op(setxattr(EITHER, "k", b"w")).expect(changing).await;
        let op = setxattr(SetxattrOption::CREATE, "new", b"");
        c.by_user(uid).putfh(fh).op(op).expect(changing).await;
        c.by_user(uid).putfh(fh).op(removexattr("new")).expect(changing).await;
    }
}

/// Only files and directories have extended attributes; of others there is an empty list, and
/// ACCESS knows no such rights. Without a filehandle there is nothing.
#[tokio::test]
async fn other_objects() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let make = c.compound().putrootfh().op(symlink("l", "x")).getfh();
    let link = make.send().await.ok().fh();
    let all = bit::XAREAD | bit::XAWRITE | bit::XALIST;
    let reply = c.compound().putfh(&link).op(access(all)).op(listxattrs(0, 100)).send().await.ok();
    assert_eq!((reply.xattrs().names.len(), reply.xattrs().eof), (0, true));
    let Ok(OpOk::Access(a)) = &reply.compound.results[2].result else { panic!("{reply:?}") };
    assert_eq!(a.supported, 0);
    for op in [getxattr("k"), setxattr(EITHER, "k", b"v"), removexattr("k")] {
        c.compound().putfh(&link).op(op.clone()).expect(NfsStat::WRONG_TYPE).await;
        c.compound().op(op).expect(NfsStat::NOFILEHANDLE).await;
    }
    c.compound().op(listxattrs(0, 100)).expect(NfsStat::NOFILEHANDLE).await;
    let (gone, stateid) = c.file("gone").await;
    c.compound().putfh(&gone).op(close(stateid)).send().await.ok();
    c.compound().putrootfh().op(remove("gone")).send().await.ok();
    c.compound().putfh(&gone).op(getxattr("k")).expect(NfsStat::STALE).await;
}

/// A value too big for the reply is said to be so, and is there still (§8.4.1.3).
#[tokio::test]
async fn values_too_big_for_the_reply() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    set(&mut c, &fh, "k", &[7; 8192]).await;
    let options = ClientOptions { fore: channel(4, 8192), ..ClientOptions::new("small") };
    let mut small = Client::with(cluster.address(), options).await;
    small.compound().putfh(&fh).op(getxattr("k")).expect(NfsStat::REP_TOO_BIG).await;
    assert_eq!(get(&mut c, &fh, "k").await, [7; 8192]);
}

/// xattr_support is an attribute of 4.2, and the operations do not exist in 4.1.
#[tokio::test]
async fn only_in_4_2() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let reply = c.compound().putrootfh().getattr(&[AttrNo::XATTR_SUPPORT]).send().await.ok();
    assert_eq!(reply.attrs().xattr_support, Some(true));
    let options = ClientOptions { minor: 1, ..ClientOptions::new("41") };
    let mut old = Client::with(cluster.address(), options).await;
    let rights = access(bit::READ | bit::XAREAD);
    let ask = old.compound().putrootfh().getattr(&[AttrNo::XATTR_SUPPORT]).op(rights);
    let reply = ask.send().await.ok();
    assert_eq!(reply.attrs().mask(), Bitmap::EMPTY);
    let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(a.supported, bit::READ);
    for op in [getxattr("k"), setxattr(EITHER, "k", b""), listxattrs(0, 99), removexattr("k")] {
        old.compound().putrootfh().op(op).expect(NfsStat::OP_ILLEGAL).await;
    }
}

/// What was acknowledged is there after the metadata server was killed.
#[tokio::test]
async fn they_survive_a_restart() {
    let mut cluster = Cluster::with(Options { on_disk: true, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    set(&mut c, &fh, "kept", b"v").await;
    set(&mut c, &fh, "gone", b"v").await;
    c.compound().putfh(&fh).op(removexattr("gone")).send().await.ok();
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "a").await;
    assert_eq!(get(&mut c, &fh, "kept").await, b"v");
    c.compound().putfh(&fh).op(getxattr("gone")).expect(NfsStat::NOXATTR).await;
}
