//! Backup files that are not what was written, and what a restored volume remembers.

use std::io::Read;

use super::*;
use crate::engine::EngineKind;
use crate::types::fence_epoch::ROW;
use crate::types::{
    Credential, DataServerId, Device, DeviceId, InodeNo, IntentKind, LAYOUT_XATTR, Lsn, Placement,
    Spread, StoreError, Timestamp,
};
use crate::volume::{FoundObject, New, NewFileData, VolumeConfig, XattrHow, compare};

const NOW: Timestamp = Timestamp { seconds: 1000, nanos: 5 };

/// A volume with a name for each of these numbers, and some KiB with each.
fn volume(names: std::ops::Range<u32>) -> Volume {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    for n in names {
        make(&volume, n);
    }
    settle(&volume);
    volume
}

fn make(volume: &Volume, n: u32) -> InodeNo {
    let (root, name) = (Credential::superuser(), format!("file-{n}"));
    let made = volume.create(InodeNo::ROOT, name.as_bytes(), &New::file(0o644), &root, NOW);
    made.value.unwrap().inode.no
}

fn settle(volume: &Volume) {
    let lsn = volume.stats().unconfirmed().unwrap().lsn;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(volume.durable(lsn)).unwrap();
}

fn written(volume: &Volume) -> (Vec<u8>, BackupSummary) {
    let mut file = Vec::new();
    let summary = volume.backup(NOW).unwrap().write(&mut file).unwrap();
    (file, summary)
}

/// All records of a backup, or why there are none.
fn records(file: &[u8]) -> Result<(Vec<Record>, BackupSummary), BackupError> {
    let mut reader = BackupReader::start(file)?;
    let mut all = Vec::new();
    while let Some(block) = reader.next_block()? {
        all.extend(block);
    }
    Ok((all, reader.summary()))
}

/// Where blocks begin and end, from the frames.
fn borders(file: &[u8]) -> Vec<usize> {
    let at = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let mut found = vec![0, 36, 36 + at(32) + 4];
    while *found.last().unwrap() < file.len() {
        let begin = *found.last().unwrap();
        found.extend([begin + 20, begin + 20 + at(begin + 4), begin + 24 + at(begin + 4)]);
    }
    found
}

fn how(id: u8) -> Restore {
    Restore { engine: EngineKind::Fjall, id: [id; 16], now: NOW }
}

fn restored(file: impl Read, at: &std::path::Path, id: u8) -> (Volume, RestoreReport) {
    let report = restore(file, at, &how(id)).unwrap();
    assert_eq!(report.checked.findings, Vec::<String>::new());
    (Volume::open(at, &VolumeConfig::default()).unwrap(), report)
}

#[test]
fn a_backup_has_every_record_in_order() {
    // What comes back is what the engine holds; the counts are right; several blocks.
    let volume = volume(0..2500);
    let (file, summary) = written(&volume);
    let (found, counted) = records(&file).unwrap();
    assert!(borders(&file).len() > 9, "one block proves little");
    assert_eq!((counted, summary.bytes), (summary, file.len() as u64));
    assert_eq!(summary.inodes, 2501);
    let mut all = Vec::new();
    let everything = KeyRange { from: b"", until: None };
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    };
    volume.snapshot().unwrap().scan(everything, visit).unwrap();
    assert!(found == all);
    let header = BackupReader::start(&file[..]).map(|r| r.header().clone()).unwrap();
    assert_eq!((header.lsn, header.time), (volume.stats().unconfirmed().unwrap().lsn, NOW));
    assert_eq!(header.identity().unwrap(), volume.identity());
}

#[test]
fn a_part_of_a_backup_is_called_a_part() {
    // Cut at every border of a block, one byte before and one after, and at each byte of a small
    // one: always told as too short, never as anything else, and never as whole.
    let (large, _) = written(&volume(0..2500));
    let cuts = borders(&large).into_iter().flat_map(|at| [at.saturating_sub(1), at, at + 1]);
    let large_cuts = cuts.filter(|at| *at < large.len()).map(|at| &large[..at]);
    let (small, _) = written(&volume(0..1));
    let small_cuts = (0..small.len()).map(|at| &small[..at]);
    for part in large_cuts.chain(small_cuts) {
        let why = records(part).unwrap_err();
        assert!(
            matches!(why, BackupError::Truncated { at } if at == part.len() as u64),
            "{} bytes: {why}",
            part.len()
        );
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    // Each bit of a small backup; swapped, doubled and missing blocks and a longer file of a large
    // one; the end of another backup.
    let (small, _) = written(&volume(0..1));
    for bit in 0..small.len() * 8 {
        let mut bad = small.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(records(&bad).is_err(), "bit {bit}");
    }
    let (large, _) = written(&volume(0..2500));
    let borders = borders(&large);
    let begins: Vec<usize> = borders[2..].iter().copied().step_by(3).collect();
    let block = |n: usize| &large[begins[n]..begins[n + 1]];
    let head = &large[..begins[0]];
    let count = begins.len() - 1;
    let put = |order: &[usize]| {
        let blocks = order.iter().flat_map(|n| block(*n));
        head.iter().chain(blocks).copied().collect::<Vec<u8>>()
    };
    let all: Vec<usize> = (0..count).collect();
    assert_eq!(put(&all), large);
    for n in 0..count - 1 {
        let (mut swapped, mut missing, mut doubled) = (all.clone(), all.clone(), all.clone());
        swapped.swap(n, n + 1);
        missing.remove(n);
        doubled.insert(n, n);
        for order in [swapped, missing, doubled] {
            assert!(records(&put(&order)).is_err(), "{order:?}");
        }
    }
    let longer = [&large[..], b"x"].concat();
    assert!(records(&longer).unwrap_err().to_string().contains("follows its end"));
}

#[test]
fn what_is_no_backup_is_named() {
    // Other files, other versions, another format of the volume.
    let (file, _) = written(&volume(0..1));
    for other in [&b"#!/bin/sh\n"[..], &[0; 4096], b"weftbku\0", &[0xff; 40]] {
        assert!(matches!(records(other), Err(BackupError::Foreign)), "{other:?}");
    }
    let mut newer = file.clone();
    newer[11] = 2;
    let why = records(&newer).unwrap_err().to_string();
    assert_eq!(why, "it is a backup of version 2; this program reads version 1");
}

#[test]
fn only_a_whole_backup_becomes_a_volume() {
    // A backup cut anywhere leaves no directory of that name, and none that opens; a whole one
    // afterwards takes its place all the same.
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("home/volume");
    let (file, _) = written(&volume(0..2500));
    for cut in borders(&file).into_iter().filter(|at| *at < file.len()).step_by(4) {
        restore(&file[..cut], &at, &how(1)).unwrap_err();
        assert!(!at.exists());
    }
    // As a kill leaves it: the building directory, with everything but the end.
    let (volume, report) = restored(&file[..], &at, 1);
    assert_eq!((report.files, report.summary.inodes), (2500, 2501));
    drop(volume);
    std::fs::rename(&at, dir.path().join("home/volume.restoring")).unwrap();
    let (volume, _) = restored(&file[..], &at, 2);
    assert_eq!(volume.restored().unconfirmed().unwrap().unwrap().id, [2; 16]);
    drop(volume);
    // And a volume that is there is never replaced, nor is anything put beside other things.
    let why = restore(&file[..], &at, &how(3)).unwrap_err().to_string();
    assert!(why.contains("is not empty (it has volume)"), "{why}");
    std::fs::write(dir.path().join("something"), "").unwrap();
    let why = restore(&file[..], &dir.path().join("volume"), &how(3)).unwrap_err().to_string();
    assert!(why.contains("is not empty"), "{why}");
}

#[test]
fn a_restored_volume_goes_on_above_its_data_servers() {
    // Numbers and epochs are those of the highest data server, also after reopening; each is
    // remembered; a volume that was not restored remembers none.
    let original = volume(0..3);
    assert_eq!(original.reconcile(DataServerId(1), 1, 0).value, Ok(()));
    assert_eq!(original.restored().value, Ok(None));
    let old = make(&original, 3);
    original.bump_epoch(old).value.unwrap();
    settle(&original);
    let next = make(&original, 4).0;
    settle(&original);
    let (file, _) = written(&original);
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("volume");
    let (volume, _) = restored(&file[..], &at, 7);
    let epoch = |volume: &Volume, ino| volume.inode(ino).value.unwrap().fence_epoch;
    assert_eq!(epoch(&volume, old), 2 * ROW);
    let first = make(&volume, 5);
    assert!(first.0 >= next + (1 << 40), "a number that data servers may have seen: {first:?}");
    volume.reconcile(DataServerId(2), 1 << 50, 2 * ROW + 9).value.unwrap();
    volume.reconcile(DataServerId(1), 1 << 49, 3).value.unwrap();
    settle(&volume);
    drop(volume);
    let volume = Volume::open(&at, &VolumeConfig::default()).unwrap();
    assert_eq!(epoch(&volume, old), 3 * ROW);
    let second = make(&volume, 6);
    assert_eq!((second, epoch(&volume, second)), (InodeNo(1 << 50), 3 * ROW));
    assert_eq!(volume.bump_epoch(old).value, Ok(4 * ROW));
    let kept = volume.restored().value.unwrap().unwrap();
    assert_eq!(kept.reconciled, [DataServerId(1), DataServerId(2)].into());
    assert_eq!((kept.first_new, kept.id), (InodeNo(next + 1), [7; 16]));
    for epoch in [u32::MAX - ROW + 1, u32::MAX] {
        let refused = volume.reconcile(DataServerId(3), 1, epoch).value;
        assert_eq!(refused, Err(StoreError::TooBig));
    }
    volume.reconcile(DataServerId(3), 1, u32::MAX - ROW).value.unwrap();
    assert_eq!(epoch(&volume, old), u32::MAX - ROW + 1);
}

/// A place on data server 1, whose device the volume has from now on.
fn on_one_data_server(volume: &Volume) -> Placement {
    let device = Device { id: DeviceId([1; 16]), data_servers: vec![DataServerId(1)], list: None };
    volume.device_put(&device).value.unwrap();
    Placement {
        device: device.id,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 1,
        first_stripe_index: 0,
        reach: 1,
        spread: Spread::InTurn,
    }
}

#[test]
fn objects_of_a_restored_volume_are_held_against_the_epochs_that_count() {
    // Data servers were told epochs after the backup, and the restored volume goes on above: a
    // check of its files finds nothing wrong with those.
    let original = volume(0..1);
    let file = make(&original, 1);
    original.place(file, on_one_data_server(&original)).value.unwrap();
    settle(&original);
    let (backup, _) = written(&original);
    let dir = tempfile::tempdir().unwrap();
    let (volume, _) = restored(&backup[..], &dir.path().join("volume"), 1);
    volume.reconcile(DataServerId(1), 100, 4).value.unwrap();
    let files = volume.placed_files(None, 10).unwrap().files;
    let found = FoundObject { size: 0, epoch: Some(4) };
    assert_eq!((files[0].no, files[0].fence_epoch), (file, ROW));
    assert_eq!(compare(&files[0], 0, found, false), None);
}

#[test]
fn what_was_promised_to_clients_and_files_to_come_is_not_restored() {
    // Client records and reserved numbers are in the backup and not in the volume; intents are,
    // with the epoch that data servers may want.
    let original = volume(0..1);
    original.client_put(5, b"client").value.unwrap();
    let placement = on_one_data_server(&original);
    original.reserve(&[placement, placement]).value.unwrap();
    let given_up = original.reserve(&[placement]).value.unwrap()[0];
    original.give_up_reserved(given_up.ino).value.unwrap();
    settle(&original);
    let (file, _) = written(&original);
    let dir = tempfile::tempdir().unwrap();
    let (volume, _) = restored(&file[..], &dir.path().join("volume"), 1);
    assert_eq!(volume.clients().value.unwrap(), []);
    assert_eq!(volume.reserved(None, 10).value.unwrap(), []);
    volume.reconcile(DataServerId(1), 100, 6).value.unwrap();
    let intents = volume.intents(None, 10).value.unwrap();
    let found: Vec<_> = intents.iter().map(|i| (i.kind, i.ino, i.fence_epoch)).collect();
    assert_eq!(found, [(IntentKind::Delete, given_up.ino, ROW)]);
}

#[test]
fn the_restorations_of_a_volume_are_a_chain() {
    // A backup of a restored volume names the restoration it came from, and keeps its epochs; the
    // data servers have to tell again.
    let (file, _) = written(&volume(0..1));
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = restored(&file[..], &dir.path().join("1/volume"), 1);
    assert_eq!(first.restored().value.unwrap().unwrap().previous, [0; 16]);
    first.reconcile(DataServerId(1), 50, 6).value.unwrap();
    assert_eq!(first.inode(InodeNo(2)).value.unwrap().fence_epoch, ROW);
    settle(&first);
    let (file, _) = written(&first);
    let (second, _) = restored(&file[..], &dir.path().join("2/volume"), 2);
    let kept = second.restored().value.unwrap().unwrap();
    assert_eq!((kept.id, kept.previous), ([2; 16], [1; 16]));
    assert_eq!(second.inode(InodeNo(2)).value.unwrap().fence_epoch, ROW);
    assert_eq!((kept.lsn, kept.reconciled), (first.stats().value.unwrap().lsn, [].into()));
    assert!(kept.lsn > Lsn(1));
}

#[test]
fn a_stopped_volume_gives_no_backup() {
    // After a failed commit nobody knows what is on the disk.
    let engine = std::sync::Arc::new(crate::engine::MemoryEngine::new());
    let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
    engine.fail("the disk is gone");
    let root = Credential::superuser();
    let new = New { data: NewFileData::Later, ..New::file(0o644) };
    let seen = volume.create(InodeNo::ROOT, b"a", &new, &root, NOW);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(volume.confirm(seen)).unwrap_err();
    assert!(matches!(volume.backup(NOW), Err(BackupError::Store(_))));
}

#[test]
fn a_reader_that_fails_is_not_a_short_file() {
    // An error of the disk is told as one, and so is one of the disk written to.
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("bad sector"))
        }
    }
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(28))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let why = BackupReader::start(Broken).map(drop).unwrap_err();
    assert_eq!(why.to_string(), "it cannot be read: bad sector");
    let why = volume(0..1).backup(NOW).unwrap().write(&mut Broken).unwrap_err().to_string();
    assert!(why.contains("cannot be written: No space left"), "{why}");
}

/// What directories chose, and where files are by it, comes back with a backup.
#[test]
fn choices_and_places_come_back() {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let (root, words) = (Credential::superuser(), &b"distribution=cyclic servers=1,2,1"[..]);
    let set = volume.xattr_set(InodeNo::ROOT, (LAYOUT_XATTR, words), XattrHow::Either, &root, NOW);
    set.value.unwrap();
    let (waits, listed) = (make(&volume, 1), make(&volume, 2));
    let device = Device::of_stripes(DeviceId([2; 16]), &[1, 2, 1].map(DataServerId)).unwrap();
    volume.device_put(&device).value.unwrap();
    let spread = Spread::List(device.list.unwrap());
    let one = on_one_data_server(&volume);
    let place = Placement { device: device.id, stripe_count: 2, spread, ..one };
    volume.place(listed, place).value.unwrap();
    let copied = make(&volume, 3);
    let pair = Device::of_stripes(DeviceId([3; 16]), &[1, 2].map(DataServerId)).unwrap();
    volume.device_put(&pair).value.unwrap();
    let copies = |alike| Spread::Copies { alike };
    let place = Placement { device: pair.id, spread: copies(false), ..place };
    volume.place(copied, place).value.unwrap();
    let were = volume.copies_are_alike(copied, &[9, 9]).value.unwrap();
    assert_eq!(were.placement.unwrap().spread, copies(true));
    assert_eq!(volume.copies_may_differ(listed).value, Err(StoreError::Invalid));
    let parted = volume.copies_may_differ(copied).value.unwrap();
    assert!(parted.1 && parted.0.placement.unwrap().spread == copies(false));
    assert!(!volume.copies_may_differ(copied).value.unwrap().1);
    volume.copies_are_alike(copied, &[9, 9]).value.unwrap();
    settle(&volume);
    let dir = tempfile::tempdir().unwrap();
    let (back, _) = restored(&written(&volume).0[..], &dir.path().join("volume"), 1);
    let told = |ino| back.xattr_get(ino, LAYOUT_XATTR, &root).value.unwrap();
    assert_eq!((&told(InodeNo::ROOT)[..], &told(waits)[..]), (words, words));
    let told = told(listed);
    assert_eq!(told, "distribution=cyclic servers=1,2,1 stripe_unit=1MiB");
    assert_eq!(back.inode(listed).value.unwrap().placement.unwrap().spread, spread);
    // They may have been written since; once they are alike again they stay so.
    back.reconcile(DataServerId(1), 100, 4).value.unwrap();
    let now = || back.inode(copied).value.unwrap().placement.unwrap().spread;
    assert_eq!(now(), copies(false));
    back.copies_are_alike(copied, &[]).value.unwrap();
    assert_eq!(now(), copies(true));
}
