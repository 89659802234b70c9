//! How directories have their files spread over data servers (P1.3, ADR 37): the choice is an
//! extended attribute, and where bytes are is what it says, whichever way they came.

use std::{os::unix::fs::FileExt, path::Path};

use bytes::Bytes;
use weft_client::{
    fs::{ClientOptions as LibraryOptions, OpenOptions},
    io::IoPolicy,
};
use weft_layout::FilesDeviceAddr;
use weft_mds::{ObjectCreation, Precreate, SmallFiles};
use weft_nfs::{
    AttrNo, DeviceId, FileHandle, IoMode, NfsStat, OpArgs, OpOk, Stateid,
    ops::{
        AllocateArgs, CopyArgs, CreateType, DataContent, DeallocateArgs, GetdeviceinfoArgs,
        Netlocs, SeekArgs, SetxattrOption,
    },
};
use weft_store::types::{InodeNo, LayoutChoice, Placement, Spread};

use crate::support::*;

pub(crate) const LAYOUT: &str = "weft.layout";
const EITHER: SetxattrOption = SetxattrOption::EITHER;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn choose(words: &str) -> OpArgs {
    setxattr(EITHER, LAYOUT, words.as_bytes())
}

pub(crate) async fn chosen(c: &mut Client, fh: &FileHandle) -> String {
    let value = c.compound().putfh(fh).op(getxattr(LAYOUT)).send().await.ok().xattr();
    String::from_utf8(value.to_vec()).unwrap()
}

/// A directory in the root that has chosen.
pub(crate) async fn dir(c: &mut Client, name: &str, words: &str) -> FileHandle {
    let dir = c.public_dir(name).await;
    c.compound().putfh(&dir).op(choose(words)).expect(NfsStat::OK).await;
    dir
}

/// Makes and opens a file.
pub(crate) async fn file_in(c: &mut Client, dir: &FileHandle, name: &str) -> (FileHandle, Stateid) {
    let open = OpArgs::Open(open_create("opener", name));
    let reply = c.compound().putfh(dir).op(open).getfh().send().await.ok();
    (reply.fh(), reply.stateid())
}

pub(crate) async fn inode_no(c: &mut Client, fh: &FileHandle) -> InodeNo {
    let reply = c.compound().putfh(fh).getattr(&[AttrNo::FILEID]).send().await.ok();
    InodeNo(reply.attrs().fileid.unwrap())
}

pub(crate) fn place(cluster: &Cluster, ino: InodeNo) -> Placement {
    cluster.volume().inode(ino).value.unwrap().placement.expect("a place")
}

/// Data server of each stripe unit of a file, from its beginning, by index.
fn homes(cluster: &Cluster, ino: InodeNo, units: u64) -> Vec<u32> {
    let place = place(cluster, ino);
    let devices = cluster.volume().devices().value.unwrap();
    let device = devices.into_iter().find(|d| d.id == place.device).unwrap();
    let rule = place.distribution().unwrap();
    let unit = |n| rule.locate(n * u64::from(place.stripe_unit_bytes)).stripe_index as usize;
    (0..units).map(|n| device.data_servers[unit(n)].0 - 1).collect()
}

/// What a data server has of a file; nothing if there is no object.
pub(crate) fn object(cluster: &Cluster, index: usize, ino: InodeNo) -> Option<std::fs::File> {
    fn find(dir: &Path, name: &str) -> Option<std::fs::File> {
        let entries = std::fs::read_dir(dir).ok()?.map(|entry| entry.unwrap().path());
        for path in entries {
            if path.is_dir() {
                if let Some(found) = find(&path, name) {
                    return Some(found);
                }
            } else if path.to_str().is_some_and(|path| path.ends_with(name)) {
                return Some(std::fs::File::open(path).unwrap());
            }
        }
        None
    }
    find(&cluster.object_dir(index), &format!("-{:016x}", ino.0))
}

/// Every byte is on the data server that the rule says, and nowhere else.
pub(crate) fn is_where_it_belongs(cluster: &Cluster, ino: InodeNo, content: &[u8]) {
    let place = place(cluster, ino);
    let devices = cluster.volume().devices().value.unwrap();
    let device = devices.into_iter().find(|d| d.id == place.device).unwrap();
    let rule = place.distribution().unwrap();
    for (stripe, id) in (0..).zip(&device.data_servers) {
        let object = object(cluster, id.0 as usize - 1, ino);
        let mut held = vec![0; content.len()];
        if let Some(object) = &object {
            let len = object.metadata().unwrap().len() as usize;
            object.read_exact_at(&mut held[..len.min(content.len())], 0).unwrap();
        }
        for part in rule.extents(0, content.len() as u64) {
            let range = part.file_offset as usize..(part.file_offset + part.len) as usize;
            let is_own = rule.homes(part.stripe_index).contains(&stripe);
            let right = match is_own {
                true => held[range.clone()] == content[range],
                false => held[range].iter().all(|byte| *byte == 0),
            };
            assert!(right, "{place:?}: unit at {} on {id:?}", part.file_offset);
        }
    }
}

/// A choice holds for new files and directories, is listed by directories, and told by all; those
/// that were there before, and files after it was taken back, are as the volume has it.
#[tokio::test]
async fn choices_are_inherited() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let top = c.public_dir("d").await;
    let (before, _) = file_in(&mut c, &top, "before").await;
    c.compound().putfh(&top).op(getxattr(LAYOUT)).expect(NfsStat::NOXATTR).await;
    c.compound().putfh(&top).op(choose("stripe_count=2 stripe_unit=4M")).expect(NfsStat::OK).await;
    let words = "distribution=round-robin stripe_unit=4MiB stripe_count=2";
    assert_eq!(chosen(&mut c, &top).await, words);
    let make = create(CreateType::Directory, "sub", mode(0o755));
    let sub = c.compound().putfh(&top).op(make).getfh().send().await.ok().fh();
    assert_eq!(chosen(&mut c, &sub).await, words);
    let (file, open) = file_in(&mut c, &sub, "f").await;
    assert_eq!(chosen(&mut c, &file).await, words);
    let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
    let layout = files_layout(&c.compound().putfh(&file).op(get).send().await.ok());
    assert_eq!((layout.util.stripe_unit_bytes, layout.filehandles.len()), (4 << 20, 2));
    assert_eq!(chosen(&mut c, &file).await, words);

    c.compound().putfh(&top).op(setxattr(EITHER, "other", b"1")).expect(NfsStat::OK).await;
    let list = |fh: FileHandle, cookie| (fh, listxattrs(cookie, 4096));
    for ((fh, op), names) in [
        (list(top.clone(), 0), &["weft.layout", "other"][..]),
        (list(top.clone(), 1), &["other"]),
        (list(sub, 0), &["weft.layout"]),
        (list(file, 0), &[]),
    ] {
        let told = c.compound().putfh(&fh).op(op).send().await.ok().xattrs();
        assert!(told.names.iter().map(|n| &n.0[..]).eq(names.iter().map(|n| n.as_bytes())));
        assert!(told.eof);
    }
    c.compound().putfh(&top).op(removexattr(LAYOUT)).expect(NfsStat::OK).await;
    c.compound().putfh(&top).op(removexattr(LAYOUT)).expect(NfsStat::NOXATTR).await;
    let (after, _) = file_in(&mut c, &top, "after").await;
    for fh in [before, after] {
        c.compound().putfh(&fh).op(getxattr(LAYOUT)).expect(NfsStat::NOXATTR).await;
    }
}

/// The owner of a directory and root choose; nobody else, however he may write to it. What is no
/// layout is refused, and so is one of data servers that there are not, and one for a file.
#[tokio::test]
async fn bad_choices_are_refused() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = c.public_dir("d").await;
    let good = || choose("stripe_count=1");
    c.by_user(7).putfh(&fh).op(good()).expect(NfsStat::PERM).await;
    c.by_user(7).putfh(&fh).op(removexattr(LAYOUT)).expect(NfsStat::PERM).await;
    c.by_user(7).putfh(&fh).op(setxattr(EITHER, "mine", b"1")).expect(NfsStat::OK).await;
    for bad in [
        &b""[..],
        b"stripe_count=0",
        b"distribution=cyclic servers=1,3",
        b"distribution=nested",
        b"distribution=replicated copies=3",
        b"\xff",
        &[b'x'; 9000],
    ] {
        let op = setxattr(EITHER, LAYOUT, bad);
        c.compound().putfh(&fh).op(op).expect(NfsStat::INVAL).await;
    }
    let (file, _) = c.file("f").await;
    c.compound().putfh(&file).op(good()).expect(NfsStat::INVAL).await;
    c.compound().putfh(&file).op(removexattr(LAYOUT)).expect(NfsStat::INVAL).await;
    let with = |option| setxattr(option, LAYOUT, b"stripe_count=1");
    c.compound().putfh(&fh).op(with(SetxattrOption::REPLACE)).expect(NfsStat::NOXATTR).await;
    c.compound().putfh(&fh).op(with(SetxattrOption::CREATE)).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(with(SetxattrOption::CREATE)).expect(NfsStat::EXIST).await;
    c.compound().putfh(&fh).op(with(SetxattrOption::REPLACE)).expect(NfsStat::OK).await;

    let owned = create(CreateType::Directory, "own", mode(0o755));
    let public = c.public_dir("public").await;
    let own = c.by_user(7).putfh(&public).op(owned).getfh().send().await.ok().fh();
    c.by_user(7).putfh(&own).op(good()).expect(NfsStat::OK).await;
    c.by_user(8).putfh(&own).op(getxattr(LAYOUT)).expect(NfsStat::OK).await;
}

/// A list is told to clients as stripe indices (RFC 8881 §13.3), and bytes are where it says: of
/// every three units two are on the data server that the list names twice.
#[tokio::test]
async fn lists_are_told_to_clients() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = dir(&mut c, "d", "distribution=cyclic servers=3,3,1").await;
    let (fh, open) = file_in(&mut c, &dir, "f").await;
    let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
    let layout = files_layout(&c.compound().putfh(&fh).op(get).send().await.ok());
    let args = GetdeviceinfoArgs {
        device_id: DeviceId(layout.device.0),
        layout_type: weft_nfs::LayoutType::NFSV4_1_FILES,
        maxcount: 1 << 16,
        notify_types: Default::default(),
    };
    let reply = c.compound().op(OpArgs::Getdeviceinfo(args)).send().await.ok();
    let Ok(OpOk::Getdeviceinfo(device)) = &reply.last().result else { panic!("{reply:?}") };
    let device: FilesDeviceAddr = weft_xdr::from_bytes(device.addr_body.0.clone()).unwrap();
    assert_eq!((device.stripe_indices, device.data_servers.len()), (vec![0, 0, 1], 2));
    assert_eq!(layout.filehandles.len(), 2);
    let (ino, first) = (inode_no(&mut c, &fh).await, layout.first_stripe_index as usize);
    let wanted: Vec<u32> = [2, 2, 0].into_iter().cycle().skip(first).take(9).collect();
    assert_eq!(homes(&cluster, ino, 9), wanted);

    // Straight to the data servers: each takes its own units, and refuses those of others.
    let any = Stateid::ANONYMOUS;
    for (server, index) in [(2, 0), (0, 1)] {
        let mut ds = on_data_server(&cluster, server, "direct").await;
        let handle = layout_handle(&layout, index);
        for (unit, home) in (0..).zip(&wanted) {
            let op = write(any, unit * MIB, b"data");
            let status = if *home as usize == server { NfsStat::OK } else { NfsStat::INVAL };
            ds.compound().putfh(&handle).op(op).expect(status).await;
        }
    }
    let back = OpArgs::Layoutreturn(layoutreturn(
        c.compound()
            .putfh(&fh)
            .op(OpArgs::Layoutget(layoutget(open, IoMode::RW)))
            .send()
            .await
            .ok()
            .stateid(),
        IoMode::ANY,
    ));
    c.compound().putfh(&fh).op(back).send().await.ok();
    let mut content = vec![0; 8 * MIB as usize + 4];
    (0..9).for_each(|unit| content[unit * MIB as usize..][..4].copy_from_slice(b"data"));
    assert!(contents(&mut c, &(fh, open)).await == content);
    is_where_it_belongs(&cluster, ino, &content);
    assert!(object(&cluster, 1, ino).is_none(), "data server 2 is not on the list");
}

/// Units that grow are told to no client: LAYOUTUNAVAILABLE, for small files and large ones. Every
/// byte goes through the metadata server, and is where the units say.
#[tokio::test]
async fn growing_units_go_through_the_metadata_server() {
    let cluster = Cluster::with(Options { data_servers: 2, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let words = "distribution=variable rounds=1 later_unit=3MiB stripe_unit=1MiB";
    let dir = dir(&mut c, "d", words).await;
    let file = file_in(&mut c, &dir, "f").await;
    let ino = inode_no(&mut c, &file.0).await;
    for end in [100, 9 * MIB] {
        for iomode in [IoMode::READ, IoMode::RW] {
            let get = OpArgs::Layoutget(layoutget(file.1, iomode));
            c.compound().putfh(&file.0).op(get).expect(NfsStat::LAYOUTUNAVAILABLE).await;
        }
        fill(&mut c, &file, 0, &pattern(end)).await;
    }
    let get = OpArgs::Layoutget(layoutget(file.1, IoMode::RW));
    c.compound().putfh(&file.0).op(get).expect(NfsStat::LAYOUTUNAVAILABLE).await;
    assert!(matches!(place(&cluster, ino).spread, Spread::Growing { rounds: 1, .. }));
    assert!(contents(&mut c, &file).await == pattern(9 * MIB));
    is_where_it_belongs(&cluster, ino, &pattern(9 * MIB));
    // 1, 1, then 3, 3, and the last is whole again on the first one.
    let sizes = [0, 1].map(|i| object(&cluster, i, ino).unwrap().metadata().unwrap().len());
    assert_eq!(sizes.iter().copied().max(), Some(9 * MIB));
    assert_eq!(sizes.iter().copied().min(), Some(8 * MIB));
}

/// Random writes, truncations, holes and reads against a plain model, of every distribution: by a
/// client with layouts and through the metadata server. What is on the disks in the end is where
/// the rule says, before and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_distribution_keeps_its_files() {
    let options = Options { data_servers: 3, on_disk: true, lease_s: 5, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "raw").await;
    let policy = IoPolicy::direct();
    let options = LibraryOptions { policy, ..LibraryOptions::default() };
    let library = weft_client::fs::Client::connect(cluster.address(), options).await.unwrap();
    let mut kept = Vec::new();
    for (n, words) in [
        "stripe_unit=2MiB stripe_count=2",
        "distribution=cyclic servers=1,1,2,1,3",
        "distribution=cyclic servers=2,3,2",
        "distribution=variable rounds=2 later_unit=4MiB",
        "distribution=variable later_unit=1MiB stripe_unit=3MiB stripe_count=2",
        "distribution=replicated copies=2 stripe_unit=2MiB",
        "distribution=replicated copies=3",
    ]
    .into_iter()
    .enumerate()
    {
        let handle = dir(&mut c, &format!("d{n}"), words).await;
        let file = file_in(&mut c, &handle, "f").await;
        let path = format!("/d{n}/f");
        let (mut model, mut dice) = (Vec::new(), weft_dev::SeededRng::new(n as u64 + 1));
        for _ in 0..60 {
            let at = dice.below(14 * MIB);
            let len = 1 + dice.below(5 * MIB / 2) as usize;
            let value = 1 + dice.below(255) as u8;
            match dice.below(8) {
                0 => {
                    let set = setattr(file.1, size(at));
                    c.compound().putfh(&file.0).op(set).send().await.ok();
                    model.resize(at as usize, 0);
                }
                1 => {
                    let (offset, length) = (at, len as u64);
                    let args = DeallocateArgs { stateid: file.1, offset, length };
                    c.compound().putfh(&file.0).op(OpArgs::Deallocate(args)).send().await.ok();
                    let end = model.len().min(at as usize + len);
                    if (at as usize) < end {
                        model[at as usize..end].fill(0);
                    }
                }
                2 => {
                    let length = len as u64;
                    let args = AllocateArgs { stateid: file.1, offset: at, length };
                    c.compound().putfh(&file.0).op(OpArgs::Allocate(args)).send().await.ok();
                    model.resize(model.len().max(at as usize + len), 0);
                }
                3 | 4 => {
                    fill(&mut c, &file, at, &vec![value; len]).await;
                    put(&mut model, at as usize, &vec![value; len]);
                }
                5 | 6 => {
                    let open = OpenOptions { read: true, write: true, ..OpenOptions::read() };
                    let opened = library.open(&path, open).await.unwrap();
                    opened.write_at(at, Bytes::from(vec![value; len])).await.unwrap();
                    opened.close().await.unwrap();
                    put(&mut model, at as usize, &vec![value; len]);
                }
                _ => {
                    let read = library.read_file(&path, 64 << 20).await.unwrap();
                    assert!(read == model, "{words}: {} bytes, not {}", read.len(), model.len());
                }
            }
        }
        put(&mut model, 10 * MIB as usize, b"the end");
        fill(&mut c, &file, 10 * MIB, b"the end").await;
        model.truncate(10 * MIB as usize + 7);
        c.compound().putfh(&file.0).op(setattr(file.1, size(10 * MIB + 7))).send().await.ok();
        assert!(contents(&mut c, &file).await == model, "{words}");
        let args = SeekArgs { stateid: file.1, offset: 10 * MIB + 1, what: DataContent::HOLE };
        let reply = c.compound().putfh(&file.0).op(OpArgs::Seek(args)).send().await.ok();
        let Ok(OpOk::Seek(found)) = &reply.last().result else { panic!("{reply:?}") };
        assert!(found.offset >= 10 * MIB + 7 || found.eof, "{found:?}");
        c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
        kept.push((path, inode_no(&mut c, &file.0).await, model, words));
    }
    library.close().await;
    let fsck = cluster.volume().fsck().unwrap();
    assert_eq!(fsck.findings, Vec::<String>::new());
    for (path, ino, model, words) in &kept {
        is_where_it_belongs(&cluster, *ino, model);
        let shown: LayoutChoice = chosen_by_path(&mut c, path).await.parse().unwrap();
        let unit = LayoutChoice::of_place(&place(&cluster, *ino), &device(&cluster, *ino));
        assert_eq!(shown, unit, "{words}");
    }
    cluster.restart().await;
    let library = weft_client::fs::Client::connect(cluster.address(), LibraryOptions::default());
    let library = library.await.unwrap();
    for (path, _, model, words) in &kept {
        assert!(
            library.read_file(path, 64 << 20).await.unwrap() == *model,
            "{words}: after a restart"
        );
    }
}

fn device(cluster: &Cluster, ino: InodeNo) -> weft_store::types::Device {
    let id = place(cluster, ino).device;
    let devices = cluster.volume().devices().value.unwrap();
    devices.into_iter().find(|d| d.id == id).unwrap()
}

async fn chosen_by_path(c: &mut Client, path: &str) -> String {
    let names = path.split('/').filter(|name| !name.is_empty());
    let at = names.fold(c.compound().putrootfh(), |at, name| at.lookup(name));
    let value = at.op(getxattr(LAYOUT)).send().await.ok().xattr();
    String::from_utf8(value.to_vec()).unwrap()
}

fn put(model: &mut Vec<u8>, at: usize, data: &[u8]) {
    model.resize(model.len().max(at + data.len()), 0);
    model[at..at + data.len()].copy_from_slice(data);
}

/// Files whose objects are made with them, or ahead of them, are where their directory says too:
/// what was made ahead for the volume's own striping is for others.
#[tokio::test]
async fn choices_hold_however_objects_are_made() {
    for creation in
        [ObjectCreation::Eager, ObjectCreation::Precreate(Precreate { low: 4, batch: 4 })]
    {
        let small_files = SmallFiles::OFF;
        let options = Options { data_servers: 3, small_files, creation, ..Options::default() };
        let cluster = Cluster::with(options).await;
        if cluster.files_ahead().is_some() {
            eventually("objects are made", || cluster.files_ahead() >= Some(4)).await;
        }
        let mut c = Client::mount(&cluster, "a").await;
        let dir = dir(&mut c, "d", "distribution=cyclic servers=2,2,3").await;
        let (fh, _) = file_in(&mut c, &dir, "f").await;
        let ino = inode_no(&mut c, &fh).await;
        let place = place(&cluster, ino);
        assert!(matches!(place.spread, Spread::List(_)) && place.reach == 3, "{place:?}");
        let there = [0, 1, 2].map(|index| object(&cluster, index, ino).is_some());
        assert_eq!(there, [false, true, true]);
        let (other, _) = c.file("other").await;
        let other = inode_no(&mut c, &other).await;
        let spread = cluster.volume().inode(other).value.unwrap().placement.unwrap().spread;
        assert_eq!(spread, Spread::InTurn);
    }
}

/// A small file begins in the volume, and leaves it for where its directory said when it was made.
#[tokio::test]
async fn small_files_leave_for_their_place() {
    let cluster = Cluster::with(Options { data_servers: 3, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = dir(&mut c, "d", "distribution=cyclic servers=2,1,2").await;
    let file = file_in(&mut c, &dir, "f").await;
    fill(&mut c, &file, 0, &pattern(1000)).await;
    let ino = inode_no(&mut c, &file.0).await;
    assert_eq!(cluster.volume().inode(ino).value.unwrap().placement, None);
    assert_eq!(chosen(&mut c, &file.0).await, "distribution=cyclic servers=2,1,2");
    c.compound().putfh(&dir).op(choose("stripe_count=1")).expect(NfsStat::OK).await;
    fill(&mut c, &file, 0, &pattern(5 * MIB)).await;
    assert!(matches!(place(&cluster, ino).spread, Spread::List(_)));
    assert!(contents(&mut c, &file).await == pattern(5 * MIB));
    is_where_it_belongs(&cluster, ino, &pattern(5 * MIB));
    assert!(object(&cluster, 2, ino).is_none());
}

/// A list is used as far as its data servers are up.
#[tokio::test]
async fn lists_go_on_without_who_is_away() {
    let mut cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = dir(&mut c, "d", "distribution=cyclic servers=1,3,3").await;
    cluster.stop_data_server(2).await;
    let file = file_in(&mut c, &dir, "f").await;
    fill(&mut c, &file, 0, b"some").await;
    let ino = inode_no(&mut c, &file.0).await;
    assert_eq!(homes(&cluster, ino, 3), [0, 0, 0]);
}

/// A directory that names ever other lists leaves devices to others: from some number on its files
/// get one that is there, and are told so.
#[tokio::test]
async fn lists_leave_devices_to_others() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let mut files = Vec::new();
    for n in 0..520u32 {
        let entry = |digit| (n / 3u32.pow(digit) % 3 + 1).to_string();
        let list: Vec<_> = (0..6).map(entry).collect();
        let words = format!("distribution=cyclic servers=1,2,{}", list.join(","));
        c.compound().putfh(&dir).op(choose(&words)).expect(NfsStat::OK).await;
        let file = file_in(&mut c, &dir, &format!("f{n}")).await;
        fill(&mut c, &file, 0, b"some").await;
        c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
        files.push(inode_no(&mut c, &file.0).await);
    }
    let devices = cluster.volume().devices().value.unwrap();
    assert_eq!(devices.len(), 512);
    let (first, last) = (place(&cluster, files[0]), place(&cluster, files[519]));
    assert!(matches!(first.spread, Spread::List(_)), "{first:?}");
    assert_eq!((last.spread, last.stripe_count), (Spread::InTurn, 3));
    // Whoever wants fewer data servers has a device made still.
    let words = "stripe_count=2";
    c.compound().putfh(&dir).op(choose(words)).expect(NfsStat::OK).await;
    let file = file_in(&mut c, &dir, "pair").await;
    fill(&mut c, &file, 0, b"some").await;
    let ino = inode_no(&mut c, &file.0).await;
    assert_eq!(place(&cluster, ino).stripe_count, 2);
    assert_eq!(cluster.volume().devices().value.unwrap().len(), 513);
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
}

/// Copies from files of one distribution to files of another, at the same offset and at others,
/// give what copying a plain array gives, and put it where the target's rule says.
#[tokio::test]
async fn copies_between_distributions() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut dirs = vec![c.public_dir("plain").await];
    for (name, words) in [
        ("list", "distribution=cyclic servers=1,1,3"),
        ("grows", "distribution=variable rounds=1 later_unit=3MiB"),
        ("copies", "distribution=replicated copies=2"),
    ] {
        dirs.push(dir(&mut c, name, words).await);
    }
    let mut source = pattern(7 * MIB);
    source[MIB as usize / 2..4 * MIB as usize].fill(0);
    for (n, from_dir) in dirs.iter().enumerate() {
        let from = file_in(&mut c, from_dir, "source").await;
        fill(&mut c, &from, 0, &source[..MIB as usize / 2]).await;
        fill(&mut c, &from, 4 * MIB, &source[4 * MIB as usize..]).await;
        for (m, to_dir) in dirs.iter().enumerate() {
            for (k, (src, dst, count)) in
                [(0, 0, 7 * MIB), (MIB, 0, 6 * MIB), (3, MIB + 3, 5 * MIB)].into_iter().enumerate()
            {
                let to = file_in(&mut c, to_dir, &format!("from-{n}-{k}")).await;
                let args = CopyArgs {
                    src_stateid: from.1,
                    dst_stateid: to.1,
                    src_offset: src,
                    dst_offset: dst,
                    count,
                    consecutive: true,
                    synchronous: true,
                    source_server: Netlocs::default(),
                };
                let files = c.compound().putfh(&from.0).savefh().putfh(&to.0);
                let reply = files.op(OpArgs::Copy(args)).send().await.ok();
                let Ok(OpOk::Copy(ok)) = &reply.last().result else { panic!("{reply:?}") };
                assert_eq!(ok.response.count, count);
                let (src, dst, count) = (src as usize, dst as usize, count as usize);
                let mut model = vec![0; dst + count];
                model[dst..].copy_from_slice(&source[src..src + count]);
                let what = format!("from {n} at {src} to {m} at {dst}");
                assert!(contents(&mut c, &to).await == model, "{what}");
                let ino = inode_no(&mut c, &to.0).await;
                is_where_it_belongs(&cluster, ino, &model);
            }
        }
    }
}
