//! A volume whose disk is full to the last byte, or the last inode: what grows is refused, what
//! must go on goes on, nothing that was acknowledged is lost, and with room all is as before. These
//! tests mount disks of their own: they need root.

mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::disk::{Disk, Kind};
use weft_dev::SeededRng;
use weft_store::engine::{self, EngineKind};
use weft_store::types::{Credential, InodeNo, Lsn, Timestamp};
use weft_store::volume::{New, Remove, Volume, VolumeConfig, XattrHow};

/// Rounds for each engine and kind of disk, unless WEFT_FULL_DISK_ROUNDS says otherwise.
const ROUNDS: u64 = 2;
const DISK_MIB: u64 = 256;
/// Asked for; the disk gives an eighth of itself.
const RESERVE_BYTES: u64 = 256 << 20;
/// Longest that a change on a full disk may take, and that room may take to be noticed: the
/// reserve is taken again ten seconds after it was used.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest attribute of the load: so much that tables are written and merged.
const VALUE_BYTES_MAX: u64 = 48 << 10;
const ATTRIBUTE: &[u8] = b"user.load";

fn open(at: &Path, engine: EngineKind) -> Volume {
    let reserve_bytes = RESERVE_BYTES;
    let config = VolumeConfig { engine, reserve_bytes, ..VolumeConfig::default() };
    match engine::kind_of(at) {
        None => Volume::make(at, &config).unwrap(),
        Some(_) => Volume::open(at, &config).unwrap(),
    }
}

fn now() -> Timestamp {
    Timestamp::default()
}

fn root() -> Credential {
    Credential::superuser()
}

/// What a client would do to a volume, and what it was told: the sizes of the attribute of each
/// file whose making was acknowledged.
struct Load {
    volume: Volume,
    files: BTreeMap<String, usize>,
    next: u64,
    refused: u64,
    numbers: SeededRng,
}

impl Load {
    /// A file with a large attribute; refused without room, as a server does it.
    async fn make(&mut self) {
        if !self.volume.has_room() {
            self.refused += 1;
            if self.numbers.one_in(8) {
                self.remove().await;
            }
            return;
        }
        let name = format!("{:08}", self.next);
        self.next += 1;
        let made =
            self.volume.create(InodeNo::ROOT, name.as_bytes(), &New::file(0o644), &root(), now());
        let ino = self.volume.confirm(made).await.unwrap().inode.no;
        let len = self.numbers.below(VALUE_BYTES_MAX) as usize;
        let value = self.numbers.bytes(len);
        let how = XattrHow::Either;
        let set = self.volume.xattr_set(ino, (ATTRIBUTE, &value), how, &root(), now());
        self.volume.confirm(set).await.unwrap();
        self.files.insert(name, len);
    }

    async fn remove(&mut self) {
        let all: Vec<_> = self.files.keys().cloned().collect();
        let Some(name) = self.numbers.choose(&all) else { return };
        let what =
            Remove { dir: InodeNo::ROOT, name: name.as_bytes(), expect: None, keep_orphan: false };
        let removed = self.volume.remove(&what, &root(), now());
        self.volume.confirm(removed).await.unwrap();
        self.files.remove(&name);
    }

    /// The volume has exactly what was acknowledged.
    fn verify(&self) {
        let mut found = Vec::new();
        let visit = |entry: weft_store::volume::DirEntry<'_>| {
            found.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.inode.no));
            ControlFlow::Continue(())
        };
        assert_eq!(self.volume.readdir(InodeNo::ROOT, 0, &root(), visit).value, Ok(true));
        let names: Vec<_> = found.iter().map(|(name, _)| name).collect();
        let mut wanted: Vec<_> = self.files.keys().collect();
        wanted.sort_unstable();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, wanted, "the names that were acknowledged, and no others");
        for (name, ino) in found {
            let value = self.volume.xattr_get(ino, ATTRIBUTE, &root()).value.unwrap();
            assert_eq!(value.len(), self.files[&name], "{name}");
        }
        let checked = self.volume.fsck().unwrap();
        assert_eq!(checked.findings, Vec::<String>::new());
    }
}

/// One round: under load the disk is filled at a random moment; removals go on; with room all does.
async fn round(disk: &Arc<Disk>, engine: EngineKind, seed: u64) {
    let volume = open(&disk.at().join("volume"), engine);
    let numbers = SeededRng::new(seed);
    let mut load = Load { volume, files: BTreeMap::new(), next: 0, refused: 0, numbers };
    for _ in 0..20 + load.numbers.below(400) {
        load.make().await;
    }
    let filled = Arc::new(AtomicBool::new(false));
    let filler = {
        let (disk, filled) = (disk.clone(), filled.clone());
        std::thread::spawn(move || {
            disk.fill();
            filled.store(true, Ordering::Release);
        })
    };
    while !filled.load(Ordering::Acquire) {
        load.make().await;
    }
    filler.join().unwrap();
    while load.volume.has_room() {
        // The volume has not looked yet, or has freed some.
        disk.fill();
    }
    let full = Instant::now();
    for _ in 0..30 + load.numbers.below(100) {
        if load.numbers.one_in(2) { load.make().await } else { load.remove().await }
    }
    assert!(full.elapsed() < PATIENCE, "{:?} for removals on a full disk", full.elapsed());
    if load.numbers.one_in(2) {
        // A restart on the full disk.
        drop(load.volume);
        load.volume = open(&disk.at().join("volume"), engine);
        load.verify();
    }
    load.verify();
    disk.free();
    let freed = Instant::now();
    while !load.volume.has_room() {
        assert!(freed.elapsed() < PATIENCE, "there is room, and nobody has noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = load.files.len();
    load.make().await;
    assert_eq!(load.files.len(), before + 1);
    load.verify();
    drop(load.volume);
    load.volume = open(&disk.at().join("volume"), engine);
    load.verify();
    eprintln!(
        "{engine:?} on {:?}, seed {seed}: {} files, {} refused, 0 lost",
        disk.kind(),
        load.files.len(),
        load.refused
    );
    // The next round starts with an empty volume on the same, worn disk.
    drop(load);
    std::fs::remove_dir_all(disk.at().join("volume")).unwrap();
}

fn rounds(kind: Kind) {
    let text = std::env::var("WEFT_FULL_DISK_ROUNDS").unwrap_or_default();
    let rounds = if text.is_empty() { ROUNDS } else { text.parse().expect("a number") };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for engine in EngineKind::ALL {
        let disk = Arc::new(Disk::new(kind, DISK_MIB));
        for seed in 1..=rounds {
            runtime.block_on(round(&disk, engine, seed));
        }
    }
}

#[test]
fn a_volume_survives_a_full_tmpfs() {
    rounds(Kind::Tmpfs);
}

#[test]
fn a_volume_survives_a_full_ext4() {
    rounds(Kind::Ext4);
}

#[test]
fn a_volume_survives_a_disk_without_inodes() {
    rounds(Kind::Ext4FewInodes);
}

/// A disk without a reserve may be full as often as it likes: who waits for his change waits for
/// room, and goes on with it.
#[test]
fn a_change_waits_for_room_each_time() {
    const TIMES: u32 = 6;
    for engine in EngineKind::ALL {
        let disk = Disk::new(Kind::Tmpfs, DISK_MIB);
        let config = VolumeConfig { engine, ..VolumeConfig::default() };
        let volume = Volume::make(&disk.at().join("volume"), &config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut files = 0;
        runtime.block_on(async {
            for time in 0..TIMES {
                disk.fill();
                let asked = Instant::now();
                let waiting = loop {
                    let name = format!("{files:0>200}");
                    let (dir, new) = (InodeNo::ROOT, New::file(0o644));
                    let made = volume.create(dir, name.as_bytes(), &new, &root(), now());
                    files += 1;
                    let lsn = made.lsn;
                    let wait =
                        tokio::time::timeout(Duration::from_millis(300), volume.confirm(made));
                    match wait.await {
                        Ok(made) => drop(made.unwrap()),
                        Err(_) => break lsn,
                    }
                    assert!(asked.elapsed() < PATIENCE, "{engine:?}: the disk is never full");
                };
                disk.free();
                assert_eq!(volume.durable(waiting).await, Ok(()), "{engine:?}, time {time}");
            }
        });
        drop(volume);
        let volume = Volume::open(&disk.at().join("volume"), &config).unwrap();
        assert_eq!(volume.inode(InodeNo::ROOT).value.unwrap().entries, files);
    }
}

/// Without any reserve a change waits for room as long as it must: it is neither refused nor lost,
/// and others read meanwhile.
#[test]
fn a_change_waits_for_room() {
    for engine in EngineKind::ALL {
        let disk = Disk::new(Kind::Tmpfs, DISK_MIB);
        let config = VolumeConfig { engine, ..VolumeConfig::default() };
        let volume = Volume::make(&disk.at().join("volume"), &config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let make = |n: u32| {
                let name = format!("{n:0>200}");
                volume.create(InodeNo::ROOT, name.as_bytes(), &New::file(0o644), &root(), now())
            };
            volume.confirm(make(0)).await.unwrap();
            disk.fill();
            // What the files have allocated already takes some.
            let last = (1..20_000).fold(Lsn(0), |_, n| make(n).lsn);
            while volume.has_room() {
                assert!(volume.stats().value.unwrap().durable < last, "{engine:?}: not full");
                std::thread::yield_now();
            }
            let stats = volume.stats().value.unwrap();
            assert!(stats.durable < last, "{engine:?}: the disk was not full");
            let found = volume.lookup(InodeNo::ROOT, format!("{:0>200}", 0).as_bytes(), &root());
            assert!(found.value.is_ok(), "who reads does not wait");
            disk.free();
            assert_eq!(volume.durable(last).await, Ok(()), "{engine:?}");
        });
        drop(volume);
        let volume = Volume::open(&disk.at().join("volume"), &config).unwrap();
        assert_eq!(volume.inode(InodeNo::ROOT).value.unwrap().entries, 20_000);
    }
}
