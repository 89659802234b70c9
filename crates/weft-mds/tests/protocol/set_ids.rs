//! Set-id bits and who takes them away (Linux since 6.2: `setattr_should_drop_suidgid`).

use weft_nfs::{
    AttrNo, FileHandle, IoMode, NfsStat, OpArgs, Stateid,
    attr::{Attrs, numeric_owner},
    ops::{AllocateArgs, CopyArgs, DeallocateArgs, Netlocs, OpenClaim},
};

use crate::support::*;

const ANY: Stateid = Stateid::ANONYMOUS;
/// The file's group, and a user of the same number who is in it.
const GROUP: u32 = 5;
/// A user who is not.
const STRANGER: u32 = 1000;
/// Set-group-id without group-execute: no privilege.
const MARKED: u32 = 0o2666;

/// Root gives the file this mode, and the group.
async fn marked(root: &mut Client, fh: &FileHandle, bits: u32) {
    let attrs = Attrs { owner_group: Some(numeric_owner(GROUP)), ..mode(bits) };
    root.compound().putfh(fh).op(setattr(ANY, attrs)).expect(NfsStat::OK).await;
    root.compound().putfh(fh).op(setattr(ANY, mode(bits))).expect(NfsStat::OK).await;
}

async fn mode_of(root: &mut Client, fh: &FileHandle) -> u32 {
    let attrs = root.compound().putfh(fh).getattr(&[AttrNo::MODE]).send().await.ok().attrs();
    attrs.mode.expect("asked for")
}

/// Every way to change a file's data, by root, by a member of its group, and by a stranger: only
/// the stranger takes a set-group-id bit away that is no privilege; set-user-id, and set-group-id
/// with group-execute, are taken away by both users. In the volume and on a data server.
#[tokio::test]
async fn who_changes_data_takes_them_away() {
    let copied = CopyArgs {
        src_stateid: ANY,
        dst_stateid: ANY,
        src_offset: 0,
        dst_offset: 0,
        count: 9,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    };
    let ways = [
        write(ANY, 0, b"other"),
        setattr(ANY, size(50)),
        setattr(ANY, size(200)),
        OpArgs::Allocate(AllocateArgs { stateid: ANY, offset: 0, length: 300 }),
        OpArgs::Copy(copied),
        OpArgs::Deallocate(DeallocateArgs { stateid: ANY, offset: 0, length: 10 }),
    ];
    let small = Options { data_servers: 1, ..Options::default() };
    for cluster in [Cluster::striped(1).await, Cluster::with(small).await] {
        let mut root = Client::mount(&cluster, "a").await;
        let (source, of_source) = root.file("source").await;
        let data = write(of_source, 0, &[7; 100]);
        root.compound().putfh(&source).op(data).expect(NfsStat::OK).await;
        let (fh, _) = root.file("f").await;
        for way in &ways {
            for (bits, by_member, by_stranger) in
                [(MARKED, MARKED, 0o666), (0o6666, 0o2666, 0o666), (0o6676, 0o676, 0o676)]
            {
                for (user, left) in [(0, bits), (GROUP, by_member), (STRANGER, by_stranger)] {
                    marked(&mut root, &fh, bits).await;
                    let files = root.by_user(user).putfh(&source).savefh().putfh(&fh);
                    files.op(way.clone()).expect(NfsStat::OK).await;
                    let found = mode_of(&mut root, &fh).await;
                    assert_eq!(found, left, "{way:?} of {bits:o} by {user}: {found:o}");
                }
            }
        }
    }
}

/// As long as there are bits that somebody's write takes away, users get no layouts to write with:
/// data servers do not know who writes. A LAYOUTCOMMIT by one takes away what his write does.
#[tokio::test]
async fn users_write_where_it_is_seen() {
    let cluster = Cluster::striped(1).await;
    let mut root = Client::mount(&cluster, "a").await;
    let (fh, of_root) = root.file("f").await;
    let get = |open| OpArgs::Layoutget(layoutget(open, IoMode::RW));
    marked(&mut root, &fh, MARKED).await;
    root.compound().putfh(&fh).op(get(of_root)).expect(NfsStat::OK).await;
    for (user, left) in [(GROUP, MARKED), (STRANGER, 0o666)] {
        let mut c = Client::mount(&cluster, &user.to_string()).await;
        let open = OpArgs::Open(open(&user.to_string(), OpenClaim::Fh));
        let open = c.by_user(user).putfh(&fh).op(open).send().await.ok().stateid();
        c.by_user(user).putfh(&fh).op(get(open)).expect(NfsStat::LAYOUTUNAVAILABLE).await;
        marked(&mut root, &fh, 0o666).await;
        let held = c.by_user(user).putfh(&fh).op(get(open)).send().await.ok().stateid();
        marked(&mut root, &fh, MARKED).await;
        let commit = OpArgs::Layoutcommit(layoutcommit(held, Some(9)));
        c.by_user(user).putfh(&fh).op(commit).expect(NfsStat::OK).await;
        assert_eq!(mode_of(&mut root, &fh).await, left);
        marked(&mut root, &fh, MARKED).await;
    }
}
