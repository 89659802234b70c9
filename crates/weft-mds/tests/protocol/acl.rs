//! Access control lists: kept and told back as they are set, in step with the mode, inherited, and
//! decisive at every way in (docs/security.md). RFC 8881 §6.

use weft_nfs::{
    Ace, AceType, Acl, Acl41, AttrNo, Attrs, FileHandle, FileType, IoMode, NfsStat, NfsTime,
    OpArgs, OpOk, Opaque, Stateid, Verifier, access as bit, ace_flag, ace_mask,
    attr::{ModeUmask, SetTime, numeric_owner},
    ops::*,
    share,
};

use crate::support::*;

const ANY: Stateid = Stateid::ANONYMOUS;
/// Whom lists name.
pub(super) const NAMED: u32 = 1001;
pub(super) const OTHER: u32 = 1002;

/// Entries as `nfs4_setfacl` takes them, with spaces between.
pub(super) fn aces(text: &str) -> Vec<Ace> {
    text.split_whitespace().map(ace).collect()
}

fn ace(text: &str) -> Ace {
    let [kind, flags, who, mask] = text.split(':').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let bits = |letters: &str, of: &str| of.chars().map(|c| 1 << letters.find(c).unwrap()).sum();
    let mask: u32 = bits("rwanNxDtTeE.....dcCoy", mask);
    // As it is told.
    let flags = if who == "GROUP@" { format!("g{}", flags.replace('g', "")) } else { flags.into() };
    Ace {
        acetype: if kind == "A" { AceType::ALLOW } else { AceType::DENY },
        flag: bits("fdniSFgI", &flags),
        access_mask: mask,
        who: Opaque(who.to_owned().into_bytes().into()),
    }
}

pub(super) fn list(text: &str) -> Attrs {
    Attrs { acl: Some(Acl(aces(text))), ..Attrs::default() }
}

pub(super) async fn set(c: &mut Client, fh: &FileHandle, uid: u32, attrs: Attrs) -> NfsStat {
    c.by_user(uid).putfh(fh).op(setattr(ANY, attrs)).send().await.status()
}

/// Mode and list, the same by both names.
pub(super) async fn told(c: &mut Client, fh: &FileHandle) -> (u32, Vec<Ace>) {
    let ask = [AttrNo::MODE, AttrNo::ACL, AttrNo::DACL];
    let attrs = c.by_user(OTHER).putfh(fh).getattr(&ask).send().await.ok().attrs();
    let (acl, dacl) = (attrs.acl.unwrap(), attrs.dacl.unwrap());
    assert_eq!(dacl, Acl41 { flag: 0, aces: acl.clone() });
    (attrs.mode.unwrap(), acl.0)
}

/// A file of root's with six bytes, and this list.
async fn file(c: &mut Client, name: &str, text: &str) -> FileHandle {
    let (fh, stateid) = c.file(name).await;
    c.compound().putfh(&fh).op(write(stateid, 0, b"secret")).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    assert_eq!(set(c, &fh, 0, list(text)).await, NfsStat::OK, "{text}");
    fh
}

async fn dir(c: &mut Client, name: &str, text: &str) -> FileHandle {
    let fh = c.public_dir(name).await;
    assert_eq!(set(c, &fh, 0, list(text)).await, NfsStat::OK, "{text}");
    fh
}

fn opens(access: u32) -> OpArgs {
    OpArgs::Open(OpenArgs { share_access: access, ..open("o", OpenClaim::Fh) })
}

pub(super) async fn may(c: &mut Client, fh: &FileHandle, uid: u32) -> u32 {
    let reply = c.by_user(uid).putfh(fh).op(access(0xff)).send().await.ok();
    let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
    a.access
}

/// What is set is told back entry for entry, also after a restart and beside a mode that says less.
#[tokio::test]
async fn lists_are_told_back() {
    let mut cluster =
        Cluster::with(Options { on_disk: true, lease_s: 1, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let text = "D::1002:wax A:g:50:rwatTnNcCy A::1001:rwaxdo D:g:GROUP@:wa A::OWNER@:rwatTnNcCoy \
                A::EVERYONE@:rtncy";
    let fh = file(&mut c, "f", text).await;
    let inherited = "A:fd:1001:rwaxD A:fdi:EVERYONE@:r A:dn:OWNER@:rwax D:fig:50:w";
    let parent = dir(&mut c, "d", inherited).await;
    let wanted = (0o644, aces(text));
    assert_eq!(told(&mut c, &fh).await, wanted);
    assert_eq!(told(&mut c, &parent).await, (0o700, aces(inherited)));
    // §6.4.1.2: the high bits stay; §6.4.1.3: with both the list has the last word.
    assert_eq!(set(&mut c, &fh, 0, mode(0o1777)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 0, list(text)).await, NfsStat::OK);
    assert_eq!(told(&mut c, &fh).await, (0o1644, aces(text)));
    let both = Attrs { mode: Some(0o2777), ..list(text) };
    assert_eq!(set(&mut c, &fh, 0, both).await, NfsStat::OK);
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    assert_eq!(told(&mut c, &fh).await, (0o2644, aces(text)));
    assert_eq!(told(&mut c, &parent).await, (0o700, aces(inherited)));
    // READDIR tells the same.
    let ask = OpArgs::Readdir(readdir(0, 1 << 16, &[AttrNo::ACL]));
    let listed = c.compound().putrootfh().op(ask).send().await.ok().readdir();
    let of = |name: &str| {
        let entry = listed.entries.iter().find(|e| e.name.0 == name).unwrap();
        entry.attrs.acl.clone().unwrap().0
    };
    assert_eq!((of("f"), of("d")), (aces(text), aces(inherited)));
}

/// A mode that is set changes what the list says to owner, group and everyone, and what names get
/// beyond the group; denials by name stay (§6.4.1.1). A list that is a mode's again is no more.
#[tokio::test]
async fn modes_change_lists() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", "D::1002:rx A::1001:rwaxT A::OWNER@:rwa A::EVERYONE@:rx").await;
    assert_eq!(set(&mut c, &fh, 0, mode(0o755)).await, NfsStat::OK);
    let expected = "A::OWNER@:rwaxtTcCy D::1002:rx A::1001:rx A::GROUP@:rxtcy A::EVERYONE@:rxtcy";
    assert_eq!(told(&mut c, &fh).await, (0o755, aces(expected)));
    assert_eq!(may(&mut c, &fh, NAMED).await & (bit::READ | bit::MODIFY), bit::READ);
    assert_eq!(may(&mut c, &fh, OTHER).await & bit::READ, 0);
    assert_eq!(set(&mut c, &fh, 0, mode(0o700)).await, NfsStat::OK);
    assert_eq!(may(&mut c, &fh, NAMED).await, 0);
    // Nor does whom the mode locks out let himself in again.
    let fh = file(&mut c, "w", "A::1001:rwadTNCo A::OWNER@:rwa").await;
    assert_eq!(set(&mut c, &fh, 0, mode(0o600)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, NAMED, list("A::1001:rwa")).await, NfsStat::PERM);
    let owner = Attrs { owner: Some(numeric_owner(NAMED)), ..Attrs::default() };
    assert_eq!(set(&mut c, &fh, NAMED, owner).await, NfsStat::PERM);
    let fh = file(&mut c, "x", "A::1001:rx A::OWNER@:rwaxtTcCy").await;
    assert_eq!(set(&mut c, &fh, 0, mode(0o700)).await, NfsStat::OK);
    // High bits alone change no list.
    let (_, before) = told(&mut c, &fh).await;
    let sticky = weft_nfs::attr::ModeMasked { value: 0o1000, mask: 0o1000 };
    let sticky = Attrs { mode_set_masked: Some(sticky), ..Attrs::default() };
    assert_eq!(set(&mut c, &fh, 0, sticky).await, NfsStat::OK);
    assert_eq!(told(&mut c, &fh).await, (0o1700, before));
    let plain = "A::OWNER@:rwatTcCy A::GROUP@:rtcy A::EVERYONE@:rtcy";
    assert_eq!(set(&mut c, &fh, 0, list(plain)).await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, 0, mode(0o600)).await, NfsStat::OK);
    let (_, entries) = told(&mut c, &fh).await;
    assert_eq!(entries, aces("A::OWNER@:rwatTcCy A::GROUP@:tcy A::EVERYONE@:tcy"));
}

/// One file that a named user may use and nobody else, one that everybody may use but he: at every
/// way to its bytes.
#[tokio::test]
async fn lists_decide_about_bytes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let his = file(&mut c, "his", "A::1001:rwa").await;
    let not_his = file(&mut c, "not", "D::1001:rwax A::EVERYONE@:rwa").await;
    for (fh, uid, status) in [
        (&his, NAMED, NfsStat::OK),
        (&his, OTHER, NfsStat::ACCESS),
        (&not_his, NAMED, NfsStat::ACCESS),
        (&not_his, OTHER, NfsStat::OK),
    ] {
        let rights = bit::READ | bit::MODIFY | bit::EXTEND;
        let granted = if status == NfsStat::OK { rights } else { 0 };
        assert_eq!(may(&mut c, fh, uid).await & rights, granted);
        for op in [read(ANY, 0, 9), write(ANY, 0, b"secret"), setattr(ANY, size(6))] {
            c.by_user(uid).putfh(fh).op(op).expect(status).await;
        }
        for op in [setxattr(SetxattrOption::EITHER, "k", b"v"), getxattr("k"), removexattr("k")] {
            c.by_user(uid).putfh(fh).op(op).expect(status).await;
        }
        c.by_user(uid).putfh(fh).op(listxattrs(0, 4096)).expect(status).await;
        for access in [share::ACCESS_READ, share::ACCESS_WRITE, share::ACCESS_BOTH] {
            let reply = c.by_user(uid).putfh(fh).op(opens(access)).send().await.is(status);
            if status == NfsStat::OK {
                let closing = close(reply.stateid());
                c.by_user(uid).putfh(fh).op(closing).expect(NfsStat::OK).await;
            }
        }
    }
    // Who may execute reads, but who is denied it.
    let program = file(&mut c, "p", "D::1001:r A::EVERYONE@:x").await;
    for (uid, status) in [(NAMED, NfsStat::ACCESS), (OTHER, NfsStat::OK)] {
        c.by_user(uid).putfh(&program).op(opens(share::ACCESS_READ)).expect(status).await;
    }
}

/// An open for writing only reads nothing that the list does not allow, by no layout either.
#[tokio::test]
async fn lists_decide_about_layouts() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", "D::1001:rx A::EVERYONE@:rwa").await;
    for (uid, status) in [(NAMED, NfsStat::ACCESS), (OTHER, NfsStat::OK)] {
        let opened = c.by_user(uid).putfh(&fh).op(opens(share::ACCESS_WRITE)).send().await.ok();
        let stateid = opened.stateid();
        c.by_user(uid).putfh(&fh).op(read(stateid, 0, 9)).expect(status).await;
        let get = |iomode| OpArgs::Layoutget(layoutget(stateid, iomode));
        c.by_user(uid).putfh(&fh).op(get(IoMode::READ)).send().await.is(status);
        let granted = c.by_user(uid).putfh(&fh).op(get(IoMode::RW)).send().await.ok();
        let layout = files_layout(&granted);
        let first = usize::try_from(layout.first_stripe_index).unwrap();
        let mut ds = on_data_server(&cluster, first, &format!("{uid}")).await;
        let handle = layout_handle(&layout, first);
        ds.compound().putfh(&handle).op(read(ANY, 0, 9)).expect(status).await;
        let back = OpArgs::Layoutreturn(layoutreturn(granted.stateid(), IoMode::ANY));
        c.by_user(uid).putfh(&fh).op(back).expect(NfsStat::OK).await;
        c.by_user(uid).putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    }
}

/// Who may only append does not write, nor who may only change what is there: OPEN cannot tell.
#[tokio::test]
async fn half_a_right_to_write_is_none() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", "A::1001:a A::1002:w A::EVERYONE@:r").await;
    for uid in [NAMED, OTHER] {
        c.by_user(uid).putfh(&fh).op(opens(share::ACCESS_WRITE)).expect(NfsStat::ACCESS).await;
        assert_eq!(may(&mut c, &fh, uid).await & (bit::MODIFY | bit::EXTEND), 0);
    }
}

/// Handles that lists gave end when a list takes that away, before it is answered; new ones are had
/// by who still may.
#[tokio::test]
async fn lists_take_handles_away() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", "A::1001:rwa A::1002:r").await;
    let opened = c.by_user(OTHER).putfh(&fh).op(opens(share::ACCESS_READ)).send().await.ok();
    let get = OpArgs::Layoutget(layoutget(opened.stateid(), IoMode::READ));
    let layout = files_layout(&c.by_user(OTHER).putfh(&fh).op(get.clone()).send().await.ok());
    let first = usize::try_from(layout.first_stripe_index).unwrap();
    let mut ds = on_data_server(&cluster, first, "x").await;
    let handle = layout_handle(&layout, first);
    ds.compound().putfh(&handle).op(read(ANY, 0, 9)).expect(NfsStat::OK).await;
    // To somebody more: nobody loses anything.
    assert_eq!(set(&mut c, &fh, 0, list("A::1001:rwa A::1002:r A::7:r")).await, NfsStat::OK);
    ds.compound().putfh(&handle).op(read(ANY, 0, 9)).expect(NfsStat::OK).await;
    assert_eq!(set(&mut c, &fh, 0, list("A::1001:rwa A::7:r")).await, NfsStat::OK);
    let refused = ds.compound().putfh(&handle).op(read(ANY, 0, 9)).send().await.status();
    assert_eq!(refused, NfsStat::PNFS_NO_LAYOUT);
    c.by_user(OTHER).putfh(&fh).op(opens(share::ACCESS_READ)).expect(NfsStat::ACCESS).await;
}

/// A reclaim after a restart is no way around a list.
#[tokio::test]
async fn lists_decide_about_reclaims() {
    let options = Options { on_disk: true, lease_s: 60, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", "A::1001:r").await;
    c.by_user(NAMED).putfh(&fh).op(opens(share::ACCESS_READ)).expect(NfsStat::OK).await;
    cluster.restart().await;
    let options = ClientOptions { reclaim_complete: false, ..ClientOptions::new("a") };
    let mut c = Client::with(cluster.address(), options).await;
    let reclaim = |access| OpenArgs { share_access: access, ..open("o", OpenClaim::Previous(0)) };
    let (reads, both) = (reclaim(share::ACCESS_READ), reclaim(share::ACCESS_BOTH));
    c.by_user(OTHER).putfh(&fh).open(reads.clone()).expect(NfsStat::ACCESS).await;
    c.by_user(NAMED).putfh(&fh).open(both).expect(NfsStat::ACCESS).await;
    c.by_user(NAMED).putfh(&fh).open(reads).expect(NfsStat::OK).await;
}

fn in_dir<'c>(c: &'c mut Client, fh: &FileHandle, uid: u32) -> Compound<'c> {
    c.by_user(uid).putfh(fh)
}

/// Names: searching, listing, adding a file, adding a directory, removing, each by its own right.
#[tokio::test]
async fn lists_decide_about_names() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (ok, no) = (NfsStat::OK, NfsStat::ACCESS);
    //       rights of the user, and whether he searches, lists, adds a file, a directory, removes
    let rows = [
        ("x", [ok, no, no, no, no]),
        ("r", [no, ok, no, no, no]),
        ("rwaxD", [ok, ok, ok, ok, ok]),
        ("rwax", [ok, ok, ok, ok, ok]),
        ("wx", [ok, no, ok, no, ok]),
        ("ax", [ok, no, no, ok, no]),
        ("Dx", [ok, no, no, no, ok]),
        ("wa", [no, no, no, no, no]),
    ];
    for (at, (rights, [searches, lists, file, directory, removes])) in rows.into_iter().enumerate()
    {
        let text = format!("A::1001:{rights} A::0:rwax");
        let fh = dir(&mut c, &format!("d{at}"), &text).await;
        for name in ["old", "gone"] {
            c.compound().putfh(&fh).open_create(name).expect(ok).await;
        }
        in_dir(&mut c, &fh, NAMED).lookup("old").expect(searches).await;
        let all = OpArgs::Readdir(readdir(0, 4096, &[]));
        in_dir(&mut c, &fh, NAMED).op(all).expect(lists).await;
        in_dir(&mut c, &fh, NAMED).open_create("new").expect(file).await;
        in_dir(&mut c, &fh, NAMED).op(symlink("l", "x")).expect(file).await;
        in_dir(&mut c, &fh, NAMED).op(mkdir("sub")).expect(directory).await;
        let other = c.by_user(NAMED).putfh(&fh).lookup("old").savefh().putfh(&fh).op(link("ln"));
        let linked = if searches == ok { file } else { searches };
        other.expect(linked).await;
        let moved = if removes == ok { file } else { removes };
        in_dir(&mut c, &fh, NAMED).savefh().op(rename("old", "moved")).expect(moved).await;
        in_dir(&mut c, &fh, NAMED).op(remove("gone")).expect(removes).await;
        let extends = rights.contains("wa");
        let rights = may(&mut c, &fh, NAMED).await;
        assert_eq!(rights & bit::LOOKUP != 0, searches == ok, "{text}");
        assert_eq!(rights & bit::READ != 0, lists == ok, "{text}");
        assert_eq!(rights & bit::EXTEND != 0, extends, "{text}");
    }
    // §6.2.1.3.2: what may be removed by itself may, wherever it is.
    let fh = dir(&mut c, "own", "A::1001:x A::0:rwax").await;
    let reply = c.compound().putfh(&fh).open_create("f").getfh().send().await.ok();
    assert_eq!(set(&mut c, &reply.fh(), 0, list("A::1001:d")).await, ok);
    in_dir(&mut c, &fh, OTHER).op(remove("f")).expect(no).await;
    in_dir(&mut c, &fh, NAMED).op(remove("f")).expect(ok).await;
}

/// SETATTR by whom a list names: the list and the mode, but no set-id bit; times; becoming the
/// owner, and no gift to others.
#[tokio::test]
async fn lists_decide_about_attributes() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let then = || mtime(SetTime::ToClient(NfsTime { seconds: 5, nseconds: 6 }));
    let owner = |uid| Attrs { owner: Some(numeric_owner(uid)), ..Attrs::default() };
    let group = |gid| Attrs { owner_group: Some(numeric_owner(gid)), ..Attrs::default() };
    let (ok, no) = (NfsStat::OK, NfsStat::PERM);
    let rows = [
        ("A::1001:r", then(), no),
        ("A::1001:T", then(), ok),
        ("A::1001:r", mtime(SetTime::ToServer), NfsStat::ACCESS),
        ("A::1001:T", mtime(SetTime::ToServer), ok),
        ("A::1001:rwaT", mode(0o600), no),
        ("A::1001:C", mode(0o600), ok),
        ("A::1001:C", list("A::1001:rwa"), ok),
        ("A::1001:C", mode(0o4755), no),
        ("A::1001:C", mode(0o2755), no),
        ("A::1001:C", owner(NAMED), no),
        ("A::1001:rwaTC", list("A::1001:rwa"), ok),
        ("A::1001:rwaT", list("A::1001:rwa"), no),
        ("A::1001:o", owner(NAMED), ok),
        ("A::1001:o", owner(OTHER), no),
        ("A::1001:o", group(NAMED), ok),
        ("A::1001:o", group(OTHER), no),
        ("A::1001:o", mode(0o600), no),
    ];
    for (at, (text, attrs, status)) in rows.into_iter().enumerate() {
        let fh = file(&mut c, &format!("f{at}"), text).await;
        let what = format!("{text} {attrs:?}");
        assert_ne!(set(&mut c, &fh, OTHER, attrs.clone()).await, ok, "{what}");
        assert_eq!(set(&mut c, &fh, NAMED, attrs).await, status, "{what}");
    }
    // Whoever has `C` alone makes no program of another's that would run as the owner.
    for (name, attrs) in [("m", mode(0o4755)), ("l", list("A::EVERYONE@:rx"))] {
        let fh = file(&mut c, name, "A::1001:C A::OWNER@:rwa").await;
        let privileged = Attrs { mode: Some(0o4600), ..list("A::1001:C A::OWNER@:rwa") };
        assert_eq!(set(&mut c, &fh, 0, privileged).await, ok);
        assert_eq!(set(&mut c, &fh, NAMED, attrs).await, ok);
        assert_eq!(told(&mut c, &fh).await.0 & 0o6000, 0, "{name}");
    }
    // A program that runs as its owner does not by becoming somebody else's.
    let fh = file(&mut c, "p", "A::1001:o A::EVERYONE@:rx").await;
    let both = Attrs { mode: Some(0o4555), ..list("A::1001:o A::EVERYONE@:rx") };
    assert_eq!(set(&mut c, &fh, 0, both).await, ok);
    assert_eq!(set(&mut c, &fh, NAMED, owner(NAMED)).await, ok);
    assert_eq!(told(&mut c, &fh).await.0, 0o555);
    // Nor does who is not in the file's group make a program that runs as it, by a list's right to
    // execute.
    let shared = Attrs { mode: Some(0o2777), ..group(50) };
    let shared = create(CreateType::Directory, "shared", shared);
    let shared = c.compound().putrootfh().op(shared).getfh().send().await.ok().fh();
    let runs = || list("A::GROUP@:x A::OWNER@:rw");
    let rows = [("s", mode(0o2600), 0o2600), ("t", Attrs { mode: Some(0o2600), ..runs() }, 0o410)];
    for (name, attrs, bits) in rows {
        let openhow = Some(CreateHow::Guarded(Box::new(attrs)));
        let made = OpenArgs { openhow, ..open_name("o", name) };
        let made = c.by_user(OTHER).putfh(&shared).open(made).getfh().send().await.ok().fh();
        assert_eq!(told(&mut c, &made).await.0, bits, "{name}");
        assert_eq!(set(&mut c, &made, OTHER, runs()).await, ok);
        assert_eq!(told(&mut c, &made).await.0, 0o410, "{name}");
    }
    // The owner may always set the list, and is denied what it denies him otherwise.
    let fh = file(&mut c, "own", "A::EVERYONE@:r").await;
    let own = Attrs { owner: Some(numeric_owner(OTHER)), ..list("D::EVERYONE@:rwaTCo") };
    assert_eq!(set(&mut c, &fh, 0, own).await, ok);
    assert_eq!(set(&mut c, &fh, OTHER, then()).await, no);
    assert_eq!(set(&mut c, &fh, OTHER, group(OTHER)).await, no);
    assert_eq!(set(&mut c, &fh, OTHER, list("A::OWNER@:r")).await, ok);
    assert_eq!(set(&mut c, &fh, OTHER, group(OTHER)).await, ok);
}

/// What is made in a directory gets what its list says, cut by the mode and not by the umask; a
/// list of its own instead; a symlink, and what has nothing to inherit, nothing (§6.4.3, RFC 8275).
#[tokio::test]
async fn lists_are_inherited() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let text = "A:fd:1001:rwaxD A:f:1002:rwa A:dn:7:r A::OWNER@:rwaxD A::EVERYONE@:rx";
    let parent = dir(&mut c, "d", text).await;
    let masked = ModeUmask { mode: 0o666, umask: 0o077 };
    let masked = Attrs { mode_umask: Some(masked), ..Attrs::default() };
    let how = |attrs| Some(CreateHow::Guarded(Box::new(attrs)));
    let rows = [
        // Of names the umask keeps nothing, but of classes that inherit nothing.
        ("f", how(masked.clone()), 0o600, Some((NAMED, true))),
        ("g", how(mode(0o640)), 0o640, Some((NAMED, false))),
        ("h", how(Attrs::default()), 0, Some((NAMED, true))),
        ("i", how(list("A::OWNER@:rw")), 0o400, None),
        ("j", Some(CreateHow::Exclusive(Verifier([7; 8]))), 0o600, None),
    ];
    for (name, openhow, bits, named) in rows {
        let args = OpenArgs { openhow, ..open_name("o", name) };
        let made = c.compound().putfh(&parent).open(args).getfh().send().await.ok().fh();
        let (mode, entries) = told(&mut c, &made).await;
        assert_eq!(mode, bits, "{name} {entries:?}");
        let found = entries.iter().find(|e| e.who == numeric_owner(NAMED));
        assert_eq!(found.is_some(), named.is_some(), "{name}");
        if let Some((uid, writes)) = named {
            let wanted = if writes { bit::MODIFY } else { 0 };
            assert_eq!(may(&mut c, &made, uid).await & bit::MODIFY, wanted, "{name}");
        }
    }
    let made = create(CreateType::Directory, "sub", mode(0o777));
    let sub = c.compound().putfh(&parent).op(made).getfh().send().await.ok().fh();
    assert_eq!(may(&mut c, &sub, NAMED).await & bit::LOOKUP, bit::LOOKUP);
    let (_, entries) = told(&mut c, &sub).await;
    let inherits = |e: &&Ace| e.flag & (ace_flag::FILE_INHERIT | ace_flag::DIRECTORY_INHERIT) != 0;
    let handed_on: Vec<_> = entries.iter().filter(inherits).cloned().collect();
    assert_eq!(handed_on, aces("A:fdi:1001:rwaxD A:fi:1002:rwa"));
    assert!(entries.contains(&ace("A::7:r")), "it is not handed on, but had: {entries:?}");
    let args = OpenArgs { openhow: how(masked.clone()), ..open_name("o", "f") };
    let deep = c.compound().putfh(&sub).open(args).getfh().send().await.ok().fh();
    let rights = (may(&mut c, &deep, NAMED).await, may(&mut c, &deep, OTHER).await);
    assert_eq!((rights.0 & bit::MODIFY, rights.1 & bit::MODIFY), (bit::MODIFY, bit::MODIFY));
    let made = c.compound().putfh(&parent).op(symlink("l", "x")).getfh().send().await.ok().fh();
    assert_eq!(told(&mut c, &made).await.0, 0o777);
    // Where nothing is inherited, the umask counts.
    let args = OpenArgs { openhow: how(masked), ..open_name("o", "plain") };
    let plain = c.compound().putrootfh().open(args).getfh().send().await.ok().fh();
    assert_eq!(told(&mut c, &plain).await.0, 0o600);
}

/// What is not kept is refused, of whatever kind the object is, and changes nothing.
#[tokio::test]
async fn lists_that_are_refused() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let before = told(&mut c, &fh).await;
    let one = |change: fn(&mut Ace)| {
        let mut ace = ace("A::EVERYONE@:r");
        change(&mut ace);
        Attrs { acl: Some(Acl(vec![ace])), ..Attrs::default() }
    };
    let dacl = |text| {
        let aces = Acl(aces(text));
        Attrs { dacl: Some(Acl41 { flag: 0, aces }), ..Attrs::default() }
    };
    let rows = [
        (one(|a| a.acetype = AceType(4)), NfsStat::INVAL),
        (one(|a| a.access_mask = 1 << 30), NfsStat::INVAL),
        (one(|a| a.flag = 1 << 20), NfsStat::INVAL),
        (one(|a| a.acetype = AceType::AUDIT), NfsStat::ATTRNOTSUPP),
        (one(|a| a.acetype = AceType::ALARM), NfsStat::ATTRNOTSUPP),
        (one(|a| a.flag = ace_flag::SUCCESSFUL_ACCESS), NfsStat::ATTRNOTSUPP),
        (one(|a| a.access_mask = ace_mask::WRITE_RETENTION), NfsStat::ATTRNOTSUPP),
        (one(|a| a.who = Opaque::default()), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque("someone".into())), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque("a@b".into())), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque("NETWORK@".into())), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque("4294967296".into())), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque(vec![b'x'; 1024].into())), NfsStat::BADOWNER),
        (one(|a| a.who = Opaque(vec![b'x'; 1025].into())), NfsStat::BADXDR),
        (one(|a| a.who = Opaque(vec![0xff].into())), NfsStat::INVAL),
        (list("A:f:1001:r"), NfsStat::INVAL),
        (list("A:i:1001:r"), NfsStat::INVAL),
        (dacl("A:I:1001:r"), NfsStat::ATTRNOTSUPP),
        (list(&"A::1001:r ".repeat(1001)), NfsStat::NOSPC),
        (list(&"A::1001:r ".repeat(3000)), NfsStat::NOSPC),
        (list(&"A::1001:r ".repeat(4097)), NfsStat::BADXDR),
    ];
    for (attrs, status) in rows {
        let what = format!("{attrs:?}").chars().take(200).collect::<String>();
        assert_eq!(set(&mut c, &fh, 0, attrs).await, status, "{what}");
    }
    assert_eq!(told(&mut c, &fh).await, before);
    // What nobody can be denied is not told as denied.
    assert_eq!(set(&mut c, &fh, 0, list("D::1001:rtcy D::1002:t D::OWNER@:C")).await, NfsStat::OK);
    assert_eq!(told(&mut c, &fh).await.1, aces("D::1001:r"));
    // In an `acl` nothing is inherited.
    assert_eq!(set(&mut c, &fh, 0, list("A:I:1001:r")).await, NfsStat::OK);
    assert_eq!(told(&mut c, &fh).await.1, aces("A::1001:r"));
    let kinds = [
        (CreateType::Link("x".into()), FileType::LNK, NfsStat::ATTRNOTSUPP, NfsStat::ATTRNOTSUPP),
        (CreateType::Socket, FileType::SOCK, NfsStat::OK, NfsStat::INVAL),
        (CreateType::Fifo, FileType::FIFO, NfsStat::OK, NfsStat::INVAL),
        (CreateType::Directory, FileType::DIR, NfsStat::OK, NfsStat::OK),
    ];
    for (at, (kind, _, plain, inherits)) in kinds.into_iter().enumerate() {
        let made = create(kind.clone(), &format!("k{at}"), Attrs::default());
        let fh = c.compound().putrootfh().op(made).getfh().send().await.ok().fh();
        for (text, status) in [("A::1001:r", plain), ("A:f:1001:r", inherits)] {
            assert_eq!(set(&mut c, &fh, 0, list(text)).await, status, "{kind:?} {text}");
            let made = create(kind.clone(), &format!("{at}{status}"), list(text));
            c.compound().putrootfh().op(made).send().await.is(status);
            c.compound().putrootfh().op(remove(&format!("{at}{status}"))).send().await;
        }
    }
}

/// As many entries as are kept are told back, twice as many after a mode was set, whole.
#[tokio::test]
async fn hundreds_of_entries() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let entries: String = (0..500).map(|n| format!("A:fd:{}:rx ", 10_000 + n)).collect();
    let fh = dir(&mut c, "d", &entries).await;
    assert_eq!(told(&mut c, &fh).await, (0, aces(&entries)));
    assert_eq!(may(&mut c, &fh, 10_499).await & bit::LOOKUP, bit::LOOKUP);
    assert_eq!(may(&mut c, &fh, 10_500).await & bit::LOOKUP, 0);
    for bits in [0o750, 0o751] {
        assert_eq!(set(&mut c, &fh, 0, mode(bits)).await, NfsStat::OK);
        let (mode, entries) = told(&mut c, &fh).await;
        assert!(mode == bits && (1003..=1006).contains(&entries.len()), "{}", entries.len());
    }
    assert_eq!(may(&mut c, &fh, 10_499).await & bit::LOOKUP, bit::LOOKUP);
    // What is made there has as many, and no more.
    let made = create(CreateType::Directory, "sub", mode(0o750));
    let sub = c.compound().putfh(&fh).op(made).getfh().send().await.ok().fh();
    assert!((1003..=1006).contains(&told(&mut c, &sub).await.1.len()));
}
