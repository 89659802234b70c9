//! What every engine must do (design D15): one suite, all engines, crash cases included.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use weft_dev::SeededRng;
use weft_store::engine::{
    self, Batch, Engine, EngineError, EngineKind, KeyRange, MemoryEngine, Snapshot,
};
use weft_store::reserve::Reserve;

mod common;

const CACHE_BYTES: u64 = 8 << 20;
/// Kills of one engine in the crash case.
const KILLS: u64 = 10;

fn reserve(directory: &Path) -> Arc<Reserve> {
    Arc::new(Reserve::open(directory, 0).unwrap())
}

fn open(kind: EngineKind, directory: &Path) -> Arc<dyn Engine> {
    engine::open(kind, &reserve(directory), CACHE_BYTES).unwrap()
}

/// Runs a case on every engine, and on the one in memory.
fn on_all(case: impl Fn(&dyn Engine)) {
    case(&MemoryEngine::new());
    for kind in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        case(&*open(kind, directory.path()));
    }
}

fn contents(engine: &dyn Engine, from: &[u8], until: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan(KeyRange { from, until }, visit).unwrap();
    found
}

fn batch(writes: &[(&[u8], Option<&[u8]>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in writes {
        batch.write(Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice));
    }
    batch
}

#[test]
fn get_sees_puts_and_deletes() {
    // Values, empty values, overwriting, deleting, deleting what is not there, and absence.
    on_all(|engine| {
        let epoch = engine.acquire().unwrap();
        let first = [(&b"a"[..], Some(&b"1"[..])), (b"b", Some(b"")), (b"gone", None)];
        engine.commit(&batch(&first), epoch).unwrap();
        assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(engine.get(b"b").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(engine.get(b"gone").unwrap(), None);
        engine.commit(&batch(&[(b"a", Some(b"2")), (b"b", None)]), epoch).unwrap();
        assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(engine.get(b"b").unwrap(), None);
    });
}

#[test]
fn what_is_committed_at_once_is_committed() {
    // In memory fjall commits at once, unless there is something to wait for: what it did, and what
    // it left to a commit, is there after it was opened again. On a disk no engine does.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for (kind, at, now) in [
        (EngineKind::Fjall, memory.path(), true),
        (EngineKind::Fjall, disk.path(), false),
        (EngineKind::Redb, &memory.path().join("redb"), false),
    ] {
        std::fs::create_dir_all(at).unwrap();
        let engine = open(kind, at);
        let epoch = engine.acquire().unwrap();
        assert_eq!(engine.commits_now(), now, "{kind:?}");
        let value = vec![7; 64 << 10];
        let (mut at_once, all) = (0, 1000u32);
        for n in 0..all {
            let batch = batch(&[(&n.to_be_bytes(), Some(&value[..]))]);
            match engine.commit_now(&batch, epoch).unwrap() {
                true => at_once += 1,
                false => engine.commit(&batch, epoch).unwrap(),
            }
            assert_eq!(engine.get(&n.to_be_bytes()).unwrap().as_deref(), Some(&value[..]));
        }
        // More than a memtable: some of it had to wait.
        assert_eq!((at_once > all / 2, at_once == all), (now, false), "{kind:?}: {at_once}");
        let fenced = engine.commit_now(&batch(&[(b"late", None)]), epoch - 1);
        assert!(!matches!(fenced, Ok(true)), "{kind:?}: of an owner of before");
        assert!(!now || matches!(fenced, Err(EngineError::Fenced { .. })));
        drop(engine);
        let engine = open(kind, at);
        assert_eq!(contents(&*engine, &[], None).len(), all as usize, "{kind:?}");
    }
}

#[test]
fn the_last_write_of_a_key_in_a_batch_wins() {
    // A batch is a map, not a log.
    on_all(|engine| {
        let epoch = engine.acquire().unwrap();
        let writes = [(&b"k"[..], Some(&b"1"[..])), (b"k", None), (b"k", Some(b"3"))];
        engine.commit(&batch(&writes), epoch).unwrap();
        assert_eq!(engine.get(b"k").unwrap().as_deref(), Some(&b"3"[..]));
    });
}

#[test]
fn scans_are_ordered_bounded_and_stoppable() {
    // Byte order; both ends of the range; backward and empty ranges; a break ends the scan.
    on_all(|engine| {
        let epoch = engine.acquire().unwrap();
        let keys: [&[u8]; 5] = [b"\x00", b"a", b"a\x00", b"b", b"\xff\xff"];
        let mut all = Batch::new();
        for key in keys.iter().rev() {
            all.put(key.to_vec(), key.to_vec());
        }
        engine.commit(&all, epoch).unwrap();
        let names = |from: &[u8], until: Option<&[u8]>| -> Vec<Vec<u8>> {
            contents(engine, from, until).into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(names(b"", None), keys);
        assert_eq!(names(b"a", Some(b"b")), keys[1..3]);
        assert_eq!(names(b"a\x00", None), keys[2..]);
        assert!(names(b"b", Some(b"a")).is_empty());
        assert!(names(b"a", Some(b"a")).is_empty());
        let mut visited = 0;
        let visit = &mut |_: &[u8], _: &[u8]| {
            visited += 1;
            ControlFlow::Break(())
        };
        engine.scan(KeyRange { from: b"", until: None }, visit).unwrap();
        assert_eq!(visited, 1);
    });
}

#[test]
fn a_snapshot_is_the_map_of_one_moment() {
    // Later commits do not reach it, neither new keys, new values, removals nor many of them; two
    // of different moments differ; ranges and breaks are those of a scan; and dropping them
    // changes nothing.
    on_all(|engine| {
        let epoch = engine.acquire().unwrap();
        let empty = engine.snapshot().unwrap();
        engine.commit(&batch(&[(b"a", Some(b"1")), (b"b", Some(b"2"))]), epoch).unwrap();
        let first = engine.snapshot().unwrap();
        engine
            .commit(&batch(&[(b"a", Some(b"x")), (b"b", None), (b"c", Some(b"3"))]), epoch)
            .unwrap();
        let second = engine.snapshot().unwrap();
        for n in 0u32..2000 {
            let (key, value) = (n.to_be_bytes(), vec![n as u8; 500]);
            engine.commit(&batch(&[(&key, Some(&value)), (b"c", Some(&value))]), epoch).unwrap();
        }
        let pairs = |snapshot: &dyn Snapshot, from: &[u8], until: Option<&[u8]>| {
            let mut found = Vec::new();
            let visit = &mut |key: &[u8], value: &[u8]| {
                found.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            snapshot.scan(KeyRange { from, until }, visit).unwrap();
            found
        };
        let wanted = |pairs: &[(&[u8], &[u8])]| -> Vec<(Vec<u8>, Vec<u8>)> {
            pairs.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
        };
        assert_eq!(pairs(&*empty, b"", None), []);
        assert_eq!(pairs(&*first, b"", None), wanted(&[(b"a", b"1"), (b"b", b"2")]));
        assert_eq!(pairs(&*second, b"", None), wanted(&[(b"a", b"x"), (b"c", b"3")]));
        assert_eq!(pairs(&*first, b"a\0", Some(b"b\0")), wanted(&[(b"b", b"2")]));
        assert_eq!(pairs(&*first, b"b", Some(b"a")), []);
        let mut visited = 0;
        let stop = &mut |_: &[u8], _: &[u8]| {
            visited += 1;
            ControlFlow::Break(())
        };
        first.scan(KeyRange { from: b"", until: None }, stop).unwrap();
        assert_eq!(visited, 1);
        drop((empty, first, second));
        assert_eq!(contents(engine, b"", None).len(), 2002);
    });
}

#[test]
fn a_snapshot_beside_a_writer_holds_whole_batches() {
    // Each batch writes the same number under many keys: every snapshot taken meanwhile has one
    // number everywhere, and none is older than the last commit that had returned.
    on_all(|engine| {
        let epoch = engine.acquire().unwrap();
        let committed = AtomicU64::new(0);
        let write = |n: u64| {
            let mut all = Batch::new();
            (0u8..50).for_each(|key| all.put(vec![key], n.to_be_bytes().to_vec()));
            engine.commit(&all, epoch).unwrap();
            committed.store(n, Ordering::SeqCst);
        };
        write(1);
        std::thread::scope(|scope| {
            scope.spawn(|| (2..200).for_each(write));
            while committed.load(Ordering::SeqCst) < 199 {
                let before = committed.load(Ordering::SeqCst);
                let snapshot = engine.snapshot().unwrap();
                let mut numbers = Vec::new();
                let visit = &mut |_: &[u8], value: &[u8]| {
                    numbers.push(u64::from_be_bytes(value.try_into().unwrap()));
                    ControlFlow::Continue(())
                };
                snapshot.scan(KeyRange { from: b"", until: None }, visit).unwrap();
                assert_eq!(numbers.len(), 50);
                assert!(numbers.iter().all(|n| *n == numbers[0]), "{numbers:?}");
                assert!(numbers[0] >= before, "{} < {before}", numbers[0]);
            }
        });
    });
}

#[test]
fn a_stale_epoch_is_fenced_and_writes_nothing() {
    // After somebody else acquired, the former owner's commit is refused as a whole; an epoch
    // never handed out is refused too.
    on_all(|engine| {
        assert_eq!(engine.epoch().unwrap(), 0);
        let old = engine.acquire().unwrap();
        engine.commit(&batch(&[(b"k", Some(b"old"))]), old).unwrap();
        let new = engine.acquire().unwrap();
        assert!(new > old);
        assert_eq!(engine.epoch().unwrap(), new);
        let refused = engine.commit(&batch(&[(b"k", Some(b"late")), (b"l", Some(b""))]), old);
        assert_eq!(refused, Err(EngineError::Fenced { held: old, current: new }));
        assert!(engine.commit(&batch(&[(b"l", Some(b""))]), new + 1).is_err());
        assert_eq!(engine.get(b"k").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(engine.get(b"l").unwrap(), None);
        engine.commit(&batch(&[(b"k", Some(b"new"))]), new).unwrap();
    });
}

#[test]
fn data_and_epoch_survive_reopening() {
    // Closing and opening again keeps every pair and the epoch, which goes on from there.
    for kind in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(kind, directory.path());
        let epoch = engine.acquire().unwrap();
        engine.commit(&batch(&[(b"a", Some(b"1")), (b"b", Some(b"2"))]), epoch).unwrap();
        drop(engine);
        let engine = open(kind, directory.path());
        assert_eq!(contents(&*engine, b"", None).len(), 2, "{kind:?}");
        assert_eq!(engine.epoch().unwrap(), epoch);
        assert!(engine.acquire().unwrap() > epoch);
    }
}

#[test]
fn a_directory_of_one_engine_is_not_an_empty_one_of_another() {
    // Opening with the wrong engine is an error, not an empty store.
    for (made, asked) in [EngineKind::ALL, [EngineKind::Redb, EngineKind::Fjall]].map(Into::into) {
        let directory = tempfile::tempdir().unwrap();
        drop(open(made, directory.path()));
        assert!(engine::open(asked, &reserve(directory.path()), CACHE_BYTES).is_err(), "{made:?}");
    }
}

#[test]
fn a_long_random_history_equals_a_map() {
    // 300 random batches against a BTreeMap, reopening now and then; compared as a whole.
    for kind in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let mut engine = open(kind, directory.path());
        let mut epoch = engine.acquire().unwrap();
        let mut model = BTreeMap::new();
        let mut numbers = SeededRng::new(42);
        for round in 0..300u64 {
            let mut batch = Batch::new();
            for _ in 0..numbers.below(20) {
                let key = vec![b'k', numbers.below(200) as u8];
                if numbers.below(3) == 0 {
                    batch.delete(key.clone());
                    model.remove(&key);
                } else {
                    let value = vec![round as u8; numbers.below(300) as usize];
                    batch.put(key.clone(), value.clone());
                    model.insert(key, value);
                }
            }
            engine.commit(&batch, epoch).unwrap();
            if round % 100 == 99 {
                drop(engine);
                engine = open(kind, directory.path());
                epoch = engine.acquire().unwrap();
            }
        }
        let wanted: Vec<_> = model.into_iter().collect();
        assert_eq!(contents(&*engine, b"", None), wanted, "{kind:?}");
    }
}

/// The child: commits batches of three keys for ever and tells the number of each that was
/// acknowledged. In the parent's run it has nothing to do.
#[test]
fn child_commits_for_ever() {
    let Some((directory, kind)) = common::child_setup() else { return };
    let engine = open(kind, &directory);
    let epoch = engine.acquire().unwrap();
    let first = engine.get(b"last").unwrap().map_or(0, |raw| number(&raw) + 1);
    for round in first.. {
        engine.commit(&crash_batch(round), epoch).unwrap();
        common::tell(&round.to_string());
    }
}

/// Batch `round`: its own key, a counter, and the removal of the key 50 rounds ago.
fn crash_batch(round: u64) -> Batch {
    let mut batch = Batch::new();
    let body = round.to_be_bytes().repeat(1 + (round % 40) as usize);
    batch.put([b"r", &round.to_be_bytes()[..]].concat(), body);
    batch.put(&b"last"[..], round.to_be_bytes().to_vec());
    if let Some(old) = round.checked_sub(50) {
        batch.delete([b"r", &old.to_be_bytes()[..]].concat());
    }
    batch
}

fn number(raw: &[u8]) -> u64 {
    u64::from_be_bytes(raw.try_into().unwrap())
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    // A child is SIGKILLed at random points of its commits, again and again in one directory:
    // everything it had acknowledged is there, and every batch is there as a whole or not at all.
    for kind in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let mut numbers = SeededRng::new(7);
        for _ in 0..KILLS {
            let victim = common::Victim::start("child_commits_for_ever", directory.path(), kind);
            let told = victim.kill_after(1 + numbers.below(60) as usize);
            let acknowledged: u64 = told.last().unwrap().parse().unwrap();
            let engine = open(kind, directory.path());
            let last = number(&engine.get(b"last").unwrap().unwrap());
            // One more may have reached the disk without its acknowledgement.
            assert!(last == acknowledged || last == acknowledged + 1, "{kind:?}: {told:?}");
            let expected: Vec<_> = (last.saturating_sub(49)..=last)
                .map(|round| {
                    let body = round.to_be_bytes().repeat(1 + (round % 40) as usize);
                    ([b"r", &round.to_be_bytes()[..]].concat(), body)
                })
                .collect();
            assert_eq!(contents(&*engine, b"r", Some(b"s")), expected, "{kind:?}");
        }
    }
}
