//! Replicated files (P1.3, ADR 39): what is acknowledged is in each copy, each is read while they
//! are alike, and whatever was cut short they become alike again.

use std::{
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use weft_mds::SmallFiles;
use weft_nfs::{
    AttrNo, IoMode, NfsStat, OpArgs, StableHow, Stateid,
    ops::{OpenArgs, WriteArgs},
    share,
};
use weft_store::types::{InodeNo, Placement, Spread};

use crate::{
    distributions::{MIB, dir, file_in, inode_no, is_where_it_belongs, object, place},
    support::*,
};

/// A cluster whose files go to data servers at once, and a directory of files of so many copies.
async fn replicated(data_servers: u32, copies: u16) -> (Cluster, Client, weft_nfs::FileHandle) {
    let small_files = SmallFiles::OFF;
    let options =
        Options { data_servers, small_files, on_disk: true, lease_s: 5, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = dir(&mut c, "d", &format!("distribution=replicated copies={copies}")).await;
    (cluster, c, dir)
}

fn alike(cluster: &Cluster, ino: InodeNo) -> bool {
    place(cluster, ino).spread == Spread::Copies { alike: true }
}

fn unstable(stateid: Stateid, offset: u64, data: &[u8]) -> OpArgs {
    let OpArgs::Write(args) = write(stateid, offset, data) else { unreachable!() };
    OpArgs::Write(WriteArgs { stable: StableHow::UNSTABLE, ..args })
}

/// The file of an object, on the data server of that index.
fn object_path(cluster: &Cluster, index: usize, ino: InodeNo) -> PathBuf {
    let name = format!("-{:016x}", ino.0);
    let all = cluster.object_files().into_iter();
    let mut here = all.filter(|path| path.starts_with(cluster.object_dir(index)));
    here.find(|path| path.to_str().unwrap().ends_with(&name)).expect("an object")
}

/// What the copies are, by data server.
fn copies(cluster: &Cluster, ino: InodeNo, len: u64) -> Vec<Vec<u8>> {
    let place = place(cluster, ino);
    let devices = cluster.volume().devices().value.unwrap();
    let device = devices.into_iter().find(|d| d.id == place.device).unwrap();
    let copy = |index: usize| {
        let object = object(cluster, index, ino).expect("a copy");
        let mut held = vec![0; len as usize];
        let there = object.metadata().unwrap().len().min(len) as usize;
        object.read_exact_at(&mut held[..there], 0).unwrap();
        held
    };
    device.data_servers.iter().map(|id| copy(id.0 as usize - 1)).collect()
}

/// Who may write gets no layout, nor does anybody while somebody has the file open to write. Once
/// it is closed its copies are alike, each is read in its turn, and each data server would give all
/// of it. The next write parts them before it is done.
#[tokio::test]
async fn copies_are_read_from_all_of_them() {
    let (cluster, mut c, dir) = replicated(3, 3).await;
    let file = file_in(&mut c, &dir, "f").await;
    let ino = inode_no(&mut c, &file.0).await;
    fill(&mut c, &file, 0, &pattern(3 * MIB + 5)).await;
    for iomode in [IoMode::READ, IoMode::RW] {
        let get = OpArgs::Layoutget(layoutget(file.1, iomode));
        c.compound().putfh(&file.0).op(get).expect(NfsStat::LAYOUTUNAVAILABLE).await;
    }
    assert!(!alike(&cluster, ino));
    is_where_it_belongs(&cluster, ino, &pattern(3 * MIB + 5));
    c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();

    let share_access = share::ACCESS_READ;
    let open = OpArgs::Open(OpenArgs { share_access, ..open_name("reader", "f") });
    let reader = c.compound().putfh(&dir).op(open).send().await.ok().stateid();
    let layout = loop {
        let get = OpArgs::Layoutget(layoutget(reader, IoMode::READ));
        let got = c.compound().putfh(&file.0).op(get).send().await;
        // That they are made alike was just begun.
        if got.status() != NfsStat::LAYOUTTRYLATER {
            break files_layout(&got.ok());
        }
    };
    assert!(alike(&cluster, ino));
    assert_eq!(layout.filehandles.len(), 3);
    let told = c.compound().putfh(&file.0).getattr(&[AttrNo::SPACE_USED]).send().await.ok();
    let used = told.attrs().space_used.unwrap();
    assert!((9 * MIB + 15..10 * MIB).contains(&used), "all copies: {used}");
    for server in 0..3 {
        let mut ds = on_data_server(&cluster, server, "direct").await;
        let handle = layout_handle(&layout, server);
        for at in [0, MIB, 2 * MIB, 3 * MIB] {
            let wanted = &pattern(3 * MIB + 5)[at as usize..][..5];
            let op = read(Stateid::ANONYMOUS, at, 5);
            let (data, _) = ds.compound().putfh(&handle).op(op).send().await.ok().data();
            assert_eq!(data, wanted);
            let op = write(Stateid::ANONYMOUS, at, b"never");
            let refused = ds.compound().putfh(&handle).op(op).send().await;
            assert_ne!(refused.status(), NfsStat::OK);
        }
    }
    let file = file_in(&mut c, &dir, "f").await;
    c.compound().putfh(&file.0).op(write(file.1, MIB, b"new")).send().await.ok();
    assert!(!alike(&cluster, ino));
    // Nobody closes it, and nothing more is done to it.
    eventually("alike again", || alike(&cluster, ino)).await;
    let mut model = pattern(3 * MIB + 5);
    model[MIB as usize..][..3].copy_from_slice(b"new");
    is_where_it_belongs(&cluster, ino, &model);
    assert!(contents(&mut c, &file).await == model);
}

/// Any one data server is enough to read a file whose copies are alike. Nobody writes without all
/// of them, and no file is made of fewer copies than its directory wants.
#[tokio::test]
async fn one_copy_is_enough_to_read() {
    let (mut cluster, mut c, dir) = replicated(3, 2).await;
    let mut files = Vec::new();
    for name in ["f0", "f1", "f2"] {
        let file = file_in(&mut c, &dir, name).await;
        fill(&mut c, &file, 0, &pattern(2 * MIB)).await;
        let ino = inode_no(&mut c, &file.0).await;
        eventually("alike", || alike(&cluster, ino)).await;
        files.push((file, ino));
    }
    for away in 0..3 {
        cluster.stop_data_server(away).await;
        for (file, ino) in &files {
            let began = Instant::now();
            assert!(contents(&mut c, file).await == pattern(2 * MIB), "without {away}");
            assert!(began.elapsed() < Duration::from_secs(5), "nobody is waited for");
            let devices = cluster.volume().devices().value.unwrap();
            let device = devices.iter().find(|d| d.id == place(&cluster, *ino).device).unwrap();
            let concerned = device.data_servers.iter().any(|id| id.0 as usize == away + 1);
            let written =
                c.compound().putfh(&file.0).op(write(file.1, 0, &pattern(9))).send().await;
            assert_eq!(written.status() == NfsStat::DELAY, concerned, "{:?}", written.status());
            assert_eq!(alike(&cluster, *ino), concerned, "a write in vain parts no copies");
            assert!(contents(&mut c, file).await == pattern(2 * MIB), "without {away} still");
            let get = OpArgs::Layoutget(layoutget(file.1, IoMode::READ));
            let got = c.compound().putfh(&file.0).op(get).send().await;
            assert_eq!(got.status(), NfsStat::LAYOUTUNAVAILABLE, "it would name {away}");
        }
        cluster.restart_data_server(away).await;
        for (file, ino) in &files {
            eventually("alike again", || alike(&cluster, *ino)).await;
            assert!(contents(&mut c, file).await == pattern(2 * MIB), "with {away} again");
            is_where_it_belongs(&cluster, *ino, &pattern(2 * MIB));
        }
    }
    cluster.stop_data_server(0).await;
    cluster.stop_data_server(1).await;
    let file = file_in(&mut c, &dir, "none").await;
    let written = c.compound().putfh(&file.0).op(write(file.1, 0, b"x")).send().await;
    assert_eq!(written.status(), NfsStat::DELAY);
    let ino = inode_no(&mut c, &file.0).await;
    assert_eq!(cluster.volume().inode(ino).value.unwrap().placement, None);
}

/// A write that reached some copies only, before servers were killed, is seen as the first copy has
/// it by everybody, until all have it: whichever copies had it.
#[tokio::test]
async fn copies_that_differ_are_made_alike() {
    let (mut cluster, mut c, dir) = replicated(2, 2).await;
    for (n, first_has_it) in [(0, true), (1, false)] {
        let file = file_in(&mut c, &dir, &format!("f{n}")).await;
        fill(&mut c, &file, 0, &pattern(5 * MIB)).await;
        let ino = inode_no(&mut c, &file.0).await;
        assert!(!alike(&cluster, ino));
        // What a crash leaves of a write to 9 MiB.
        let place = place(&cluster, ino);
        let first = usize::from(place.first_stripe_index);
        let has_it = if first_has_it { first } else { 1 - first };
        let path = object_path(&cluster, has_it, ino);
        let object = std::fs::File::options().write(true).open(path).unwrap();
        object.write_all_at(b"half", MIB).unwrap();
        object.write_all_at(b"half", 8 * MIB).unwrap();
        drop(object);
        cluster.restart().await;
        c = Client::mount(&cluster, &format!("reader {n}")).await;
        assert!(!alike(&cluster, ino));
        let mut model = pattern(5 * MIB);
        if first_has_it {
            model[MIB as usize..][..4].copy_from_slice(b"half");
        }
        let reply = loop {
            let open = OpArgs::Open(open_name("reader", &format!("f{n}")));
            let at = c.compound().putrootfh().lookup("d").op(open).getfh();
            match at.send().await {
                told if told.status() == NfsStat::GRACE => c.renew().await,
                told => break told.ok(),
            };
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let file = (reply.fh(), reply.stateid());
        // The size that a lost writer left is the larger one, whoever has it.
        let read = contents(&mut c, &file).await;
        assert!(read[..5 << 20] == model);
        let get = OpArgs::Layoutget(layoutget(file.1, IoMode::READ));
        let got = c.compound().putfh(&file.0).op(get).send().await;
        assert_eq!(got.status(), NfsStat::LAYOUTUNAVAILABLE);
        eventually("alike", || alike(&cluster, ino)).await;
        let held = copies(&cluster, ino, 9 * MIB);
        assert!(held[0] == held[1]);
        assert!(held[0][..5 << 20] == model);
        assert_eq!(&held[0][8 << 20..][..4] == b"half", first_has_it);
        assert!(contents(&mut c, &file).await[..5 << 20] == model);
        c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
    }
    let fsck = cluster.volume().fsck().unwrap();
    assert_eq!(fsck.findings, Vec::<String>::new());
}

/// A crash in the middle of a file's way from the volume leaves copies of which none may have
/// anything: they are made alike as well, though nobody asks for the file.
#[tokio::test]
async fn what_was_on_its_way_becomes_alike() {
    let options = Options { data_servers: 2, on_disk: true, lease_s: 5, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    fill(&mut c, &file, 0, &pattern(5000)).await;
    let ino = inode_no(&mut c, &file.0).await;
    let volume = cluster.volume();
    let place = Placement {
        device: volume.devices().value.unwrap()[0].id,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 2,
        first_stripe_index: 1,
        reach: 1,
        spread: Spread::Copies { alike: false },
    };
    let placed = volume.confirm(volume.place(ino, place)).await.unwrap();
    assert!(placed.is_moving());
    cluster.restart().await;
    eventually("alike", || alike(&cluster, ino)).await;
    is_where_it_belongs(&cluster, ino, &pattern(5000));
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
}

/// A copy that was lost, or a part of it, is not read for zeros: another one is. Nobody writes to
/// what is left, as to any file that has lost something, until it is cut to nothing.
#[tokio::test]
async fn a_lost_copy_is_not_read() {
    let (mut cluster, mut c, dir) = replicated(2, 2).await;
    for (n, left) in [(0, 0), (1, MIB)] {
        let file = file_in(&mut c, &dir, &format!("f{n}")).await;
        fill(&mut c, &file, 0, &pattern(2 * MIB + 5)).await;
        let ino = inode_no(&mut c, &file.0).await;
        // Nobody has closed it.
        eventually("alike", || alike(&cluster, ino)).await;
        for index in 0..2 {
            let object = object_path(&cluster, index, ino);
            let object = std::fs::File::options().write(true).open(object).unwrap();
            cluster.stop_data_server(index).await;
            object.set_len(left).unwrap();
            cluster.restart_data_server(index).await;
            if index == 0 {
                assert!(contents(&mut c, &file).await == pattern(2 * MIB + 5));
                let written = c.compound().putfh(&file.0).op(write(file.1, 0, b"x")).send().await;
                assert_eq!(written.status(), NfsStat::IO);
            }
        }
        let both = c.compound().putfh(&file.0).op(read(file.1, 2 * MIB, 5)).send().await;
        assert_eq!(both.status(), NfsStat::IO);
        c.compound().putfh(&file.0).op(setattr(file.1, size(0))).send().await.ok();
        fill(&mut c, &file, 0, &pattern(MIB)).await;
        assert!(contents(&mut c, &file).await == pattern(MIB));
        eventually("alike", || alike(&cluster, ino)).await;
        is_where_it_belongs(&cluster, ino, &pattern(MIB));
    }
}

/// A data server that restarts may have lost what was not committed: the copies are not taken for
/// alike because each of them took every write.
#[tokio::test]
async fn what_was_not_committed_is_doubted() {
    let (mut cluster, mut c, dir) = replicated(2, 2).await;
    let file = file_in(&mut c, &dir, "f").await;
    let ino = inode_no(&mut c, &file.0).await;
    c.compound().putfh(&file.0).op(unstable(file.1, 0, &pattern(MIB / 2))).send().await.ok();
    let second = 1 - usize::from(place(&cluster, ino).first_stripe_index);
    cluster.stop_data_server(second).await;
    // As if its power had been cut: the next start is in another boot.
    std::fs::remove_file(cluster.data_server_dir(second as u32 + 1).join("verifier")).unwrap();
    for path in cluster.object_files() {
        if path.starts_with(cluster.object_dir(second)) {
            let object = std::fs::File::options().write(true).open(path).unwrap();
            object.write_all_at(&[0; 4096], 0).unwrap();
        }
    }
    cluster.restart_data_server(second).await;
    c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
    eventually("alike", || alike(&cluster, ino)).await;
    is_where_it_belongs(&cluster, ino, &pattern(MIB / 2));
}

/// Writes of one range that come at the same time are in one order in all copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_range_come_in_one_order() {
    const ROUNDS: u8 = 200;
    const LEN: u64 = 100_000;
    let (cluster, mut c, dir) = replicated(3, 3).await;
    let file = file_in(&mut c, &dir, "f").await;
    let ino = inode_no(&mut c, &file.0).await;
    let mut writers = Vec::new();
    for n in 0..4 {
        let mut c = Client::mount(&cluster, &format!("writer {n}")).await;
        let open = OpArgs::Open(open_name("writer", "f"));
        let at = c.compound().putrootfh().lookup("d").op(open);
        let stateid = at.send().await.ok().stateid();
        writers.push((c, stateid));
    }
    for round in 0..ROUNDS {
        let tasks = (0..).zip(std::mem::take(&mut writers)).map(|(n, (mut c, stateid))| {
            let (fh, data) = (file.0.clone(), vec![round ^ (n << 6); LEN as usize]);
            async move {
                c.compound().putfh(&fh).op(unstable(stateid, 0, &data)).send().await.ok();
                (c, stateid)
            }
        });
        let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
        for task in tasks {
            writers.push(task.await.unwrap());
        }
        let held = copies(&cluster, ino, LEN);
        let begin: Vec<_> = held.iter().map(|copy| copy[0]).collect();
        assert!(held.iter().all(|copy| *copy == held[0]), "round {round}: {begin:?}");
        assert!(held[0].iter().all(|byte| *byte == held[0][0]));
    }
}
