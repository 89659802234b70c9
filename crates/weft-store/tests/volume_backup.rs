//! A backup that is made while others write is the volume after one mutation: that of its LSN,
//! whatever was written before and after it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use weft_dev::SeededRng;
use weft_store::engine::{self, Engine, EngineKind, MemoryEngine};
use weft_store::reserve::Reserve;
use weft_store::types::{Credential, InodeNo, Lsn, SetIdLoss, Timestamp};
use weft_store::volume::{
    New, NewFileData, Remove, Rename, Restore, StuffedWrite, Volume, VolumeConfig, restore,
};

const WRITERS: u64 = 3;
const BACKUPS: u64 = 4;
const NAMES: u64 = 12;
const SEEDS: u64 = 4;
const FILE_BYTES_MAX: u64 = 20_000;

/// What a writer did. Writers have names of their own, so that only the LSN orders them.
#[derive(Clone, Debug)]
enum Done {
    Made(String),
    Wrote(String, u64, Vec<u8>),
    Renamed(String, String),
    Removed(String),
}

type History = Mutex<Vec<(Lsn, Done)>>;
type Tree = BTreeMap<String, Vec<u8>>;

fn root() -> Credential {
    Credential::superuser()
}

fn now() -> Timestamp {
    Timestamp { seconds: 1, nanos: 0 }
}

/// One step of one writer; what it did, unless it was refused.
fn step(volume: &Volume, writer: u64, rng: &mut SeededRng) -> Option<(Lsn, Done)> {
    let (name, other) = (rng.below(NAMES), rng.below(NAMES));
    let (name, other) = (format!("{writer}-{name}"), format!("{writer}-{other}"));
    let found = volume.lookup(InodeNo::ROOT, name.as_bytes(), &root()).value;
    let Ok(inode) = found else {
        let new = New { data: NewFileData::Stuffed, ..New::file(0o644) };
        let seen = volume.create(InodeNo::ROOT, name.as_bytes(), &new, &root(), now());
        return seen.value.ok().map(|_| (seen.lsn, Done::Made(name)));
    };
    match rng.below(6) {
        0 => {
            let what = Remove {
                dir: InodeNo::ROOT,
                name: name.as_bytes(),
                expect: None,
                keep_orphan: false,
            };
            let seen = volume.remove(&what, &root(), now());
            seen.value.ok().map(|_| (seen.lsn, Done::Removed(name)))
        }
        1 if name != other => {
            let what = Rename {
                from_dir: InodeNo::ROOT,
                from_name: name.as_bytes(),
                to_dir: InodeNo::ROOT,
                to_name: other.as_bytes(),
                expect: None,
                keep_orphan: false,
            };
            let seen = volume.rename(&what, &root(), now());
            seen.value.ok().map(|_| (seen.lsn, Done::Renamed(name, other)))
        }
        _ => {
            let offset = rng.below(FILE_BYTES_MAX / 2);
            let len = 1 + rng.below(FILE_BYTES_MAX / 2) as usize;
            let data = rng.bytes(len);
            let write = StuffedWrite {
                offset,
                data: &data,
                limit: FILE_BYTES_MAX,
                set_id_loss: SetIdLoss::Nothing,
            };
            let seen = volume.write_stuffed(inode.no, &write, now());
            let written = seen.value.ok().flatten().is_some();
            written.then_some((seen.lsn, Done::Wrote(name, offset, data)))
        }
    }
}

/// The files after all that was done up to an LSN.
fn at(history: &History, lsn: Lsn) -> Tree {
    let mut done: Vec<_> =
        history.lock().unwrap().iter().filter(|(at, _)| *at <= lsn).cloned().collect();
    done.sort_by_key(|(at, _)| *at);
    let mut tree = Tree::new();
    for (_, done) in done {
        match done {
            Done::Made(name) => drop(tree.insert(name, Vec::new())),
            Done::Removed(name) => drop(tree.remove(&name)),
            Done::Renamed(from, to) => {
                let moved = tree.remove(&from).unwrap();
                tree.insert(to, moved);
            }
            Done::Wrote(name, offset, data) => {
                let file = tree.get_mut(&name).unwrap();
                let end = offset as usize + data.len();
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(&data);
            }
        }
    }
    tree
}

/// The files of a volume.
fn files(volume: &Volume) -> Tree {
    let mut names = Vec::new();
    let collect = |entry: weft_store::volume::DirEntry<'_>| {
        names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.inode.no));
        ControlFlow::Continue(())
    };
    assert!(volume.readdir(InodeNo::ROOT, 0, &root(), collect).value.unwrap());
    let read = |ino| volume.read_stuffed(ino, 0, u64::MAX).value.unwrap().unwrap().1.to_vec();
    names.into_iter().map(|(name, ino)| (name, read(ino))).collect()
}

/// Writers at work, and backups in the middle: each is restored to each engine and compared.
fn backups_of(engine: Arc<dyn Engine>, seed: u64, scratch: &Path) {
    let volume = Volume::with_engine(engine, &VolumeConfig::default()).unwrap();
    let (history, stop) = (History::default(), AtomicBool::new(false));
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (volume, history, stop) = (&volume, &history, &stop);
            scope.spawn(move || {
                let mut rng = SeededRng::new(seed * 100 + writer);
                while !stop.load(Ordering::SeqCst) {
                    let done = step(volume, writer, &mut rng);
                    history.lock().unwrap().extend(done);
                }
            });
        }
        let mut rng = SeededRng::new(seed);
        for _ in 0..BACKUPS {
            let wanted = history.lock().unwrap().len() + rng.below(150) as usize;
            while history.lock().unwrap().len() < wanted {
                std::thread::yield_now();
            }
            let confirmed = volume.stats().value.unwrap().durable;
            let backup = volume.backup(now()).unwrap();
            assert!(backup.header().lsn >= confirmed, "what was confirmed is missing");
            let mut file = Vec::new();
            backup.write(&mut file).unwrap();
            backups.push(file);
        }
        stop.store(true, Ordering::SeqCst);
    });
    for (n, file) in backups.iter().enumerate() {
        for kind in EngineKind::ALL {
            let home = scratch.join(format!("{seed}-{n}-{}", kind.name()));
            let how = Restore { engine: kind, id: [1; 16], now: now() };
            let report = restore(&file[..], &home.join("volume"), &how).unwrap();
            assert_eq!(report.checked.findings, Vec::<String>::new());
            let config = VolumeConfig { engine: kind, ..VolumeConfig::default() };
            let restored = Volume::open(&home.join("volume"), &config).unwrap();
            assert_eq!(restored.identity(), volume.identity());
            let (found, wanted) = (files(&restored), at(&history, report.header.lsn));
            assert_eq!(report.files, wanted.len() as u64);
            assert!(found == wanted, "seed {seed}, backup {n}, {}", kind.name());
        }
    }
}

#[test]
fn a_backup_of_the_memory_engine_is_one_moment() {
    let scratch = tempfile::tempdir().unwrap();
    for seed in 0..SEEDS {
        backups_of(Arc::new(MemoryEngine::new()), seed, scratch.path());
    }
}

#[test]
fn a_backup_of_fjall_is_one_moment() {
    backups_on_disk(EngineKind::Fjall);
}

#[test]
fn a_backup_of_redb_is_one_moment() {
    backups_on_disk(EngineKind::Redb);
}

fn backups_on_disk(kind: EngineKind) {
    let scratch = tempfile::tempdir().unwrap();
    for seed in 0..SEEDS {
        let at = scratch.path().join(format!("{seed}-{}", kind.name()));
        std::fs::create_dir(&at).unwrap();
        let reserve = Arc::new(Reserve::open(&at, 0).unwrap());
        backups_of(engine::open(kind, &reserve, 8 << 20).unwrap(), seed, scratch.path());
    }
}
