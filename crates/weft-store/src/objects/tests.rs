//! The store as its callers see it: a model, restarts, failing disks, races, crashes.

mod holes;
mod model;
mod past_cache;

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread::scope,
};

use tempfile::{TempDir, tempdir};

use super::*;
use crate::types::Run;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

fn open_with(dir: &Path, open_objects_max: usize) -> ObjectStore {
    let options =
        ObjectStoreOptions { open_objects_max, reserve_bytes: 0, cache: CachePolicy::Keep };
    bound(ObjectStore::open(dir, &options).unwrap())
}

/// Bound to a volume.
fn bound(store: ObjectStore) -> ObjectStore {
    if store.volumes().is_empty() {
        let run = Run { number: 1, id: [1; 16] };
        let request = BindRequest {
            number: 1,
            uuid: [1; 16],
            run,
            common: None,
            lsn: 1,
            restored: Restoration::default(),
        };
        store.bind(&request, false).unwrap().unwrap();
    }
    store
}

fn fresh() -> (TempDir, ObjectStore) {
    let dir = tempdir().unwrap();
    let store = open_with(dir.path(), 16);
    (dir, store)
}

/// All bytes of an object, as a reader gets them.
fn contents(store: &ObjectStore, id: ObjectId) -> Vec<u8> {
    let plan = store.read(id, 0, 1 << 20).unwrap();
    assert!(plan.at_or_past_end);
    plan.range.map_or(Vec::new(), |r| {
        let mut bytes = vec![0; r.len];
        r.file.read_exact_at(&mut bytes, r.offset).unwrap();
        bytes
    })
}

/// A missing object is an empty one: it reads, stats, commits, truncates and is removed as such,
/// and none of that makes a file.
#[test]
fn missing_objects_are_empty() {
    let (_dir, store) = fresh();
    let plan = store.read(id(1), 0, 100).unwrap();
    assert!(plan.range.is_none() && plan.at_or_past_end);
    assert_eq!(store.stat(id(1)).unwrap(), ObjectStat::default());
    store.commit(id(1)).unwrap();
    store.truncate(id(1), 0).unwrap();
    store.write(id(1), 0, 5, b"").unwrap();
    assert!(!store.dir.object_path(id(1)).exists());
    store.remove(id(1)).unwrap();
    assert_eq!(store.epoch(id(1)), REMOVED);
}

/// Reads are clamped to the local size, on both sides of every border.
#[test]
fn reads_are_clamped() {
    let (_dir, store) = fresh();
    store.write(id(1), 0, 10, b"abcdef").unwrap();
    assert_eq!(contents(&store, id(1)), b"\0\0\0\0\0\0\0\0\0\0abcdef");
    for (offset, len, want, end) in [
        (0, 15, Some((0, 15)), false),
        (0, 16, Some((0, 16)), true),
        (9, 100, Some((9, 7)), true),
        (15, 1, Some((15, 1)), true),
        (16, 1, None, true),
        (3, 0, None, false),
        (16, 0, None, true),
        (u64::MAX, usize::MAX, None, true),
    ] {
        let plan = store.read(id(1), offset, len).unwrap();
        assert_eq!(plan.range.map(|r| (r.offset, r.len)), want, "{offset}+{len}");
        assert_eq!(plan.at_or_past_end, end, "{offset}+{len}");
    }
}

/// The tree is the documented one, so that ordinary tools find an object.
#[test]
fn files_are_where_the_document_says() {
    let (dir, store) = fresh();
    let id = ObjectId { volume: 0xab, object: 0x0123_4567_89cd };
    let run = Run { number: 1, id: [1; 16] };
    let request = BindRequest {
        number: 0xab,
        uuid: [2; 16],
        run,
        common: None,
        lsn: 1,
        restored: Restoration::default(),
    };
    assert_eq!(store.write(id, 0, 0, b"x"), Err(ObjectError::UnknownVolume));
    store.adopt([2; 16]).unwrap();
    store.bind(&request, false).unwrap().unwrap();
    store.write(id, 0, 0, b"x").unwrap();
    let path = dir.path().join("objects/67/89/000000ab-00000123456789cd");
    assert_eq!(fs::read(path).unwrap(), b"x");
}

/// An older state of a volume is accepted: what was made since is none of it, though its file is
/// there, and what was made before stays.
#[test]
fn what_was_given_up_is_not_there() {
    let (_dir, store) = fresh();
    let (uuid, run) = ([2; 16], |number, id| Run { number, id: [id; 16] });
    let bind = |run, common, lsn| {
        let restored = Restoration::default();
        store.bind(&BindRequest { number: 9, uuid, run, common, lsn, restored }, false)
    };
    let of = |object| ObjectId { volume: 9, object };
    store.adopt(uuid).unwrap();
    bind(run(1, 1), None, 10).unwrap().unwrap();
    [4, 5].into_iter().for_each(|object| assert!(store.write(of(object), 0, 0, b"x").is_ok()));
    let common = CommonRun { run: run(1, 1), end_lsn: 5, end_next: 5 };
    assert_eq!(bind(run(2, 3), Some(common), 6).unwrap().map(drop), Err(BindRefusal::Older));
    store.adopt(uuid).unwrap();
    bind(run(2, 3), Some(common), 6).unwrap().unwrap();
    let size = |object| store.stat(of(object)).unwrap().size;
    assert_eq!(
        ([4, 5].map(size), [4, 5].map(|o| store.is_given_up(of(o)))),
        ([1, 0], [false, true])
    );
    assert!(!store.is_given_up(id(5)), "that of another volume");
}

/// Attributes follow the file, and the write counter every write, until eviction.
#[test]
fn stat_follows_writes() {
    let (_dir, store) = fresh();
    store.write(id(1), 0, 0, &[1; 5000]).unwrap();
    store.write(id(1), 0, 9999, b"x").unwrap();
    let s = store.stat(id(1)).unwrap();
    assert_eq!((s.size, s.writes), (10_000, 2));
    assert!(s.mtime_s > 1_600_000_000 && s.mtime_ns < 1_000_000_000);
    store.commit(id(1)).unwrap();
    assert!(store.stat(id(1)).unwrap().blocks_bytes >= 5000);
}

/// What no local file can hold is refused before anything is made.
#[test]
fn ranges_beyond_a_file_are_too_big() {
    let (_dir, store) = fresh();
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        assert_eq!(store.write(id(1), 0, offset, b"ab"), Err(ObjectError::TooBig));
    }
    assert_eq!(store.truncate(id(1), 1 << 63), Err(ObjectError::TooBig));
    assert!(!store.dir.object_path(id(1)).exists());
}

/// Truncation shortens and lengthens objects, but makes none, and never brings back a removed one.
#[test]
fn truncate_sets_the_size() {
    let (_dir, store) = fresh();
    store.write(id(1), 0, 0, b"abcdef").unwrap();
    store.truncate(id(1), 3).unwrap();
    assert_eq!(contents(&store, id(1)), b"abc");
    store.truncate(id(1), 5).unwrap();
    assert_eq!(contents(&store, id(1)), b"abc\0\0");
    store.truncate(id(2), 4).unwrap();
    assert!(!store.dir.object_path(id(2)).exists());
    store.write(id(2), 0, 0, b"abcdef").unwrap();
    store.remove(id(2)).unwrap();
    store.truncate(id(2), 4).unwrap();
    assert!(!store.dir.object_path(id(2)).exists());
}

/// A truncation that fails leaves an object that is synced before it is forgotten.
#[test]
fn a_failed_truncation_leaves_an_object_to_be_synced() {
    let (_dir, store) = fresh();
    let fails = |_: &File, _| Err(ObjectError::Io { doing: "truncate an object", errno: 5 });
    store.write_stable(id(1), 0, 0, b"abcdef").unwrap();
    store.truncate_by(fails, id(1), 4).unwrap_err();
    assert!(store.object(id(1)).is_dirty(), "nobody would sync it");
    store.commit(id(1)).unwrap();
    assert!(!store.object(id(1)).is_dirty());
}

/// Objects can be made before their first write: empty, again and again, and without harm to what
/// is there; but not below a fence, nor once removed. They are there after a restart.
#[test]
fn objects_are_made_empty() {
    let (dir, store) = fresh();
    store.write(id(1), 0, 0, b"abc").unwrap();
    store.fence(id(2), 3).unwrap();
    store.remove(id(3)).unwrap();
    // More than stay open.
    let many: Vec<_> = (10..40).map(|n| (id(n), 0)).collect();
    for _ in 0..2 {
        let mixed = store.create_many(&[(id(1), 0), (id(2), 2), (id(2), 3), (id(3), 0)]);
        let stale = |current| Err(ObjectError::Stale { current });
        assert_eq!(mixed, [Ok(()), stale(3), Ok(()), stale(REMOVED)]);
        assert!(store.create_many(&many).iter().all(Result::is_ok));
    }
    assert_eq!(contents(&store, id(1)), b"abc");
    let fresh = store.stat(id(12)).unwrap();
    assert_eq!((fresh.size, fresh.blocks_bytes, fresh.writes), (0, 0, 0));
    drop(store);
    let store = open_with(dir.path(), 16);
    let mut found: Vec<_> = store.objects(None, 3).unwrap().iter().map(|id| id.object).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 2].into_iter().chain(10..40).collect::<Vec<_>>());
}

/// A file in a directory where its object does not belong is no object, and listing goes on behind
/// it; one whose name is another way to write an object's is none either. Both are told.
#[test]
fn misplaced_files_are_no_objects() {
    let (dir, store) = fresh();
    let far = 0xffff00;
    for object in [1, 2, far] {
        store.write(id(object), 0, 0, b"abc").unwrap();
    }
    let objects = dir.path().join("objects");
    let (right, wrong) = (store.dir.object_path(id(1)), store.dir.object_path(id(far + 1)));
    let wrong = wrong.with_file_name(right.file_name().unwrap());
    fs::rename(&right, &wrong).unwrap();
    let strange = [objects.join("00/00/1-2"), objects.join("00/00/+0000001-0000000000000002")];
    strange.iter().for_each(|path| fs::write(path, "x").unwrap());
    let (mut found, mut after) = (Vec::new(), None);
    while let Some(last) = store.objects(after, 1).unwrap().last() {
        assert!(found.len() < 3, "it does not end: {found:?}");
        found.push(last.object);
        after = Some(*last);
    }
    assert_eq!(found, [2, far]);
    let told = store.misplaced().unwrap();
    let mut paths: Vec<_> = told.iter().map(|one| one.path.clone()).collect();
    paths.sort();
    let mut wanted = vec![wrong.clone(), strange[0].clone(), strange[1].clone()];
    wanted.sort();
    assert_eq!(paths, wanted);
    let of_name: Vec<_> = told.into_iter().filter_map(|one| one.belongs).collect();
    assert_eq!(of_name, [(id(1), right)]);
}

/// Removing again, and after a restart, is success; writes stay refused with any epoch.
#[test]
fn removal_is_for_ever() {
    let (dir, store) = fresh();
    store.write(id(1), 0, 0, b"x").unwrap();
    let late = store.read(id(1), 0, 1).unwrap().range.unwrap();
    store.remove_many(&[id(1), id(2), id(1)]).unwrap();
    store.remove(id(1)).unwrap();
    let mut byte = [0];
    late.file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"x", "a read under way goes on");
    drop(store);
    let store = open_with(dir.path(), 16);
    store.remove(id(1)).unwrap();
    for object in [id(1), id(2)] {
        for epoch in [0, 1, REMOVED] {
            let stale = Err(ObjectError::Stale { current: REMOVED });
            assert_eq!(store.write(object, epoch, 0, b"late"), stale);
            assert_eq!(store.check(object, epoch).map(|()| [0; 8]), stale);
        }
        assert!(!store.dir.object_path(object).exists());
    }
}

/// A fence refuses older epochs, accepts its own and newer ones, never goes back, and holds
/// after a restart.
#[test]
fn fences_hold() {
    let (dir, mut store) = fresh();
    store.write(id(1), 0, 0, b"before").unwrap();
    store.fence(id(1), 5).unwrap();
    store.fence(id(1), 3).unwrap();
    for _ in 0..2 {
        assert_eq!(store.epoch(id(1)), 5);
        assert_eq!(store.check(id(1), 5), Ok(()));
        assert_eq!(store.check(id(1), 4), Err(ObjectError::Stale { current: 5 }));
        let refused = store.write(id(1), 4, 0, b"late");
        assert_eq!(refused, Err(ObjectError::Stale { current: 5 }));
        assert_eq!(contents(&store, id(1)), b"before");
        drop(store);
        store = open_with(dir.path(), 16);
    }
    store.write(id(1), 5, 0, b"after!").unwrap();
    store.write(id(1), 6, 0, b"newer!").unwrap();
    assert_eq!(contents(&store, id(1)), b"newer!");
    store.check(id(2), 0).unwrap();
}

/// Who was sealed writes no more by any of the calls, whether or not there is an object, and goes
/// on to read; later epochs write. That outlasts the process, and a seal that comes late.
#[test]
fn seals_hold() {
    let (dir, mut store) = fresh();
    let sealed = Err(ObjectError::Stale { current: 4 });
    store.write(id(1), 3, 0, b"before").unwrap();
    for object in [id(1), id(2)] {
        store.seal(object, 3).unwrap();
        store.seal(object, 1).unwrap();
    }
    for _ in 0..2 {
        for object in [id(1), id(2)] {
            assert_eq!(store.write(object, 3, 0, b"late"), sealed);
            assert_eq!(store.write_stable(object, 3, 0, b"late"), sealed);
            assert_eq!(store.write_open(object, 3, 0, b"late"), None);
            assert_eq!(store.check(object, 3), Ok(()));
            assert_eq!(store.check(object, 0), Ok(()), "with a handle of long before, too");
        }
        assert_eq!(store.highest_epoch(id(1).volume), Ok(4), "for who goes on above it");
        assert_eq!(contents(&store, id(1)), b"before");
        assert_eq!(store.stat(id(2)).unwrap(), ObjectStat::default());
        drop(store);
        store = open_with(dir.path(), 16);
    }
    store.write(id(1), 4, 0, b"after!").unwrap();
    store.seal(id(1), 3).unwrap();
    store.write(id(1), 4, 0, b"again!").unwrap();
    store.write(id(3), 0, 0, b"never sealed").unwrap();
    assert_eq!(contents(&store, id(1)), b"again!");
}

/// Once a fence or a seal has returned, not one byte with the older epoch arrives, whatever was
/// under way.
#[test]
fn no_write_passes_a_fence() {
    let (_dir, store) = fresh();
    for round in 0..80 {
        let id = id(round);
        let started = AtomicBool::new(false);
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while store.write(id, 1, 0, &[b'o'; 4096]).is_ok() {
                        started.store(true, Ordering::Release);
                    }
                });
            }
            while !started.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            if round % 2 == 0 { store.fence(id, 2) } else { store.seal(id, 1) }.unwrap();
            store.write(id, 2, 0, &[b'n'; 4096]).unwrap();
        });
        assert_eq!(contents(&store, id), [b'n'; 4096]);
    }
}

/// A fence that comes while a large write is half done returns only when all of it is there.
#[test]
fn a_fence_waits_for_the_write_under_way() {
    const BYTES: usize = 48 << 20;
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let store = open_with(dir.path(), 16);
    scope(|s| {
        let writer = s.spawn(|| store.write(id(1), 1, 0, &vec![1; BYTES]));
        while store.stat(id(1)).unwrap().size == 0 {
            std::thread::yield_now();
        }
        store.fence(id(1), 2).unwrap();
        assert_eq!(store.stat(id(1)).unwrap().size, BYTES as u64);
        writer.join().unwrap().unwrap();
    });
}

/// Writers, committers and a remover race over few objects and a tiny cache: after the removal
/// nothing is left and nothing comes back.
#[test]
fn removal_races_with_everything() {
    let dir = tempdir().unwrap();
    let store = open_with(dir.path(), 2);
    let done = AtomicBool::new(false);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    for object in 0..6 {
                        match store.write(id(object), 0, object, b"data") {
                            Ok(_) | Err(ObjectError::Stale { .. }) => {}
                            Err(e) => panic!("{e}"),
                        }
                        store.commit(id(object)).unwrap();
                        store.read(id(object), 0, 10).unwrap();
                    }
                }
            });
        }
        for object in 0..6 {
            while store.stat(id(object)).unwrap().size == 0 {
                std::thread::yield_now();
            }
            store.remove(id(object)).unwrap();
            assert!(!store.dir.object_path(id(object)).exists());
        }
        done.store(true, Ordering::Release);
    });
    assert!((0..6).all(|o| !store.dir.object_path(id(o)).exists()));
}

/// The cache keeps its limit, also when all objects are unsynced, and loses nothing.
#[test]
fn the_cache_is_bounded() {
    let dir = tempdir().unwrap();
    let store = open_with(dir.path(), 4);
    for object in 0..40 {
        store.write(id(object), 0, 0, &object.to_be_bytes()).unwrap();
        assert!(store.cache.len() <= 5, "{} open", store.cache.len());
    }
    for object in 0..40 {
        assert_eq!(contents(&store, id(object)), object.to_be_bytes());
    }
    assert_eq!(store.stat(id(0)).unwrap().writes, 0, "evicted since it was written");
}

/// A file in place of the object that takes writes but cannot be synced: a disk that loses data.
fn put_device(store: &ObjectStore, id: ObjectId, device: &str) {
    let path = store.dir.object_path(id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(device, path).unwrap();
}

/// A failed sync is reported, and the verifier changes so that a commit which comes later and
/// finds nothing to do does not vouch for the lost write.
#[test]
fn a_failed_sync_changes_the_verifier() {
    let (_dir, store) = fresh();
    put_device(&store, id(1), "/dev/null");
    let written = store.write(id(1), 0, 0, b"lost").unwrap();
    assert_eq!(written, store.write_verifier());
    assert!(matches!(store.commit(id(1)), Err(ObjectError::Io { .. })));
    assert_ne!(store.commit(id(1)).unwrap(), written);
    assert!(matches!(store.write_stable(id(1), 0, 0, b"lost"), Err(ObjectError::Io { .. })));
}

/// Leaving the cache syncs, and a failure there changes the verifier as well.
#[test]
fn a_sync_that_fails_at_eviction_is_not_forgotten() {
    let dir = tempdir().unwrap();
    let store = open_with(dir.path(), 1);
    put_device(&store, id(1), "/dev/null");
    let written = store.write(id(1), 0, 0, b"lost").unwrap();
    for object in 2..6 {
        store.write(id(object), 0, 0, b"x").unwrap();
    }
    assert_ne!(store.commit(id(1)).unwrap(), written);
}

/// A full disk is NoSpace, and no reason for every client to write everything again.
#[test]
fn a_full_disk_is_no_space() {
    let (_dir, store) = fresh();
    put_device(&store, id(1), "/dev/full");
    let before = store.write_verifier();
    assert_eq!(store.write(id(1), 0, 0, b"x"), Err(ObjectError::NoSpace));
    assert_eq!(store.write_verifier(), before);
}

/// A disk that fails a write may have failed earlier ones: the verifier changes.
#[test]
fn a_failed_write_changes_the_verifier() {
    let (_dir, store) = fresh();
    // Nothing is mapped at address 0, and the kernel answers EIO.
    put_device(&store, id(1), "/proc/self/mem");
    let before = store.write_verifier();
    assert!(matches!(store.write(id(1), 0, 0, b"x"), Err(ObjectError::Io { errno: 5, .. })));
    assert_ne!(store.write_verifier(), before);
}

/// One process at a time. Identity and verifier outlast it: the page cache still has the bytes.
#[test]
fn a_store_has_one_owner() {
    let (dir, store) = fresh();
    let options = ObjectStoreOptions::default();
    assert!(matches!(ObjectStore::open(dir.path(), &options), Err(ObjectError::InUse)));
    let (identity, verifier) = (store.identity(), store.write_verifier());
    drop(store);
    let store = ObjectStore::open(dir.path(), &options).unwrap();
    assert_eq!(store.identity(), identity);
    assert_eq!(store.write_verifier(), verifier);
}

/// A directory that lost its identity or its fences is refused; one whose making was interrupted
/// before the identity is made anew.
#[test]
fn an_incomplete_directory_is_refused_or_made() {
    let (dir, store) = fresh();
    store.write_stable(id(1), 0, 0, b"x").unwrap();
    drop(store);
    let open = || ObjectStore::open(dir.path(), &ObjectStoreOptions::default());
    let (identity, log) = (dir.path().join("identity"), dir.path().join("fences.log"));
    fs::rename(&log, dir.path().join("aside")).unwrap();
    assert!(matches!(open(), Err(ObjectError::Corrupt(_))));
    fs::rename(dir.path().join("aside"), &log).unwrap();
    let text = fs::read_to_string(&identity).unwrap();
    for bad in ["", "weft-data-server 2\n", &text[..text.len() - 2], &format!("{text}x")] {
        fs::write(&identity, bad).unwrap();
        assert_eq!(open().map(drop), Err(ObjectError::Corrupt("the file `identity`")));
    }
    // What is no text at all.
    fs::write(&identity, [0xff; 200]).unwrap();
    assert_eq!(open().map(drop), Err(ObjectError::Corrupt("the file `identity`")));
    fs::write(&identity, text.replace("server 2", "server 1")).unwrap();
    assert_eq!(open().map(drop), Err(ObjectError::OtherVersion));
    fs::write(&identity, &text).unwrap();
    let volumes = dir.path().join("volumes");
    fs::rename(&volumes, dir.path().join("aside")).unwrap();
    assert_eq!(open().map(drop), Err(ObjectError::Corrupt("the file `volumes` is missing")));
    fs::rename(dir.path().join("aside"), &volumes).unwrap();
    fs::create_dir(dir.path().join("volume")).unwrap();
    assert_eq!(open().map(drop), Err(ObjectError::NotOurs), "a metadata server's");
    fs::remove_dir(dir.path().join("volume")).unwrap();
    fs::remove_file(&identity).unwrap();
    assert!(matches!(open(), Err(ObjectError::Corrupt(_))));
    fs::remove_dir_all(dir.path().join("objects")).unwrap();
    open().unwrap();
}

/// Space is that of the file system, in bytes.
#[test]
fn space_is_reported() {
    let (_dir, store) = fresh();
    let space = store.space().unwrap();
    assert!(space.total > 0 && space.free <= space.total && space.available <= space.free);
}

/// Where there is no disk, what is open is written and made durable at once, unless somebody keeps
/// it to himself; on a disk that is for who may wait.
#[test]
fn without_a_disk_nothing_is_waited_for() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open_with(memory.path(), 8);
    assert!(
        store.write_stable_open(id(1), 2, 0, b"abc").is_none()
            && store.commit_open(id(1)).is_none()
    );
    store.write(id(1), 2, 0, b"abc").unwrap();
    let verifier = store.write_verifier();
    assert_eq!(store.commit_open(id(1)), Some(Ok(verifier)));
    assert!(!store.stat(id(1)).unwrap().unsynced);
    assert_eq!(store.write_open(id(1), 2, 1, b"B"), Some(Ok(verifier)));
    assert!(store.stat(id(1)).unwrap().unsynced);
    assert_eq!(store.write_stable_open(id(1), 2, 2, b"C"), Some(Ok(verifier)));
    assert!(!store.stat(id(1)).unwrap().unsynced);
    assert_eq!(contents(&store, id(1)), b"aBC");
    store.fence(id(1), 3).unwrap();
    let stale = store.write_stable_open(id(1), 2, 0, b"old");
    assert_eq!(stale, Some(Err(ObjectError::Stale { current: 3 })));
    let object = store.object(id(1));
    let fencing = object.epoch_exclusive();
    assert_eq!(store.write_stable_open(id(1), 3, 0, b"new"), None);
    drop(fencing);
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let store = open_with(disk.path(), 8);
    store.write(id(1), 0, 0, b"abc").unwrap();
    assert_eq!(
        (store.write_stable_open(id(1), 0, 0, b"a"), store.commit_open(id(1))),
        (None, None)
    );
}

/// Nobody is told a size from the middle of a write.
#[test]
fn sizes_are_those_between_writes() {
    const PIECE: usize = 4 << 20;
    let (_dir, store) = fresh();
    let written = AtomicBool::new(false);
    scope(|threads| {
        threads.spawn(|| {
            for piece in 0..32 {
                store.write(id(1), 0, piece * PIECE as u64, &[7; PIECE]).unwrap();
            }
            written.store(true, Ordering::Release);
        });
        while !written.load(Ordering::Acquire) {
            for told in [store.stat_open(id(1)), Some(store.stat(id(1)))].into_iter().flatten() {
                assert_eq!(told.unwrap().size % PIECE as u64, 0);
            }
        }
    });
}

/// Who must not wait gets what is open, unless somebody keeps it to himself; a write by it is one
/// as any other, where the file system takes part.
#[test]
fn what_is_open_needs_no_waiting() {
    let (_dir, store) = fresh();
    assert!(
        store.read_open(id(1), 0, 1).is_none() && store.write_open(id(1), 0, 0, b"a").is_none()
    );
    assert!(store.stat_open(id(1)).is_none());
    store.write(id(1), 2, 0, b"abc").unwrap();
    assert_eq!(store.stat_open(id(1)), Some(store.stat(id(1))));
    let plan = store.read_open(id(1), 1, 9).unwrap().unwrap();
    assert_eq!(plan.range.map(|r| (r.offset, r.len)), Some((1, 2)));
    store.fence(id(1), 2).unwrap();
    let stale = store.write_open(id(1), 1, 0, b"old");
    assert_eq!(stale, Some(Err(ObjectError::Stale { current: 2 })));
    let object = store.object(id(1));
    let fencing = object.epoch_exclusive();
    assert_eq!(store.write_open(id(1), 2, 0, b"new"), None);
    drop(fencing);
    let expected = match store.write_open(id(1), 2, 0, b"new") {
        Some(written) => {
            assert_eq!(written, Ok(store.write_verifier()));
            assert!(store.stat(id(1)).unwrap().unsynced);
            b"new"
        }
        None => b"abc",
    };
    assert_eq!(contents(&store, id(1)), expected);
}
