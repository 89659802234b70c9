//! The fence log against restarts, torn tails, damage, full disks and growth.

use std::fs;

use tempfile::{TempDir, tempdir};

use super::*;

const ME: [u8; 16] = [7; 16];

/// Small enough that tests compact and forget.
const SMALL: Limits = Limits { tombstones_max: 4, compact_records_min: 8 };

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

fn create(dir: &TempDir) -> FenceLog {
    FenceLog::with_limits(dir.path(), ME, SMALL, true).unwrap()
}

fn open(dir: &TempDir) -> Result<FenceLog, ObjectError> {
    FenceLog::with_limits(dir.path(), ME, SMALL, false)
}

fn file_bytes(dir: &TempDir) -> Vec<u8> {
    fs::read(dir.path().join(LOG_FILE)).unwrap()
}

/// A log of three acknowledged fences (objects 0, 1, 2) and two that never were (3, 4).
fn three_and_two() -> (TempDir, Vec<u8>) {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    for object in 0..5 {
        log.raise(id(object), 10).unwrap();
        if object == 2 {
            log.sync().unwrap();
        }
    }
    let bytes = file_bytes(&dir);
    assert_eq!(bytes.len(), 6 * RECORD_BYTES);
    (dir, bytes)
}

/// Fences survive reopening, the highest wins, and lower ones later change nothing.
#[test]
fn the_highest_epoch_survives() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    for epoch in [3, 9, 4] {
        log.raise(id(1), epoch).unwrap();
    }
    log.raise(ObjectId { volume: 2, object: 1 }, 1).unwrap();
    log.sync().unwrap();
    drop(log);
    let log = open(&dir).unwrap();
    assert_eq!(log.epoch(id(1)), 9);
    assert_eq!(log.epoch(ObjectId { volume: 2, object: 1 }), 1);
    assert_eq!(log.epoch(id(2)), 0);
}

/// Cut at every length, the log opens with the whole records before the cut, and is clean again
/// the next time.
#[test]
fn a_torn_tail_is_tolerated_at_every_length() {
    let (dir, bytes) = three_and_two();
    for len in RECORD_BYTES..=bytes.len() {
        fs::write(dir.path().join(LOG_FILE), &bytes[..len]).unwrap();
        for _ in 0..2 {
            let log = open(&dir).unwrap();
            for object in 0..5 {
                let whole = (object as usize + 2) * RECORD_BYTES <= len;
                assert_eq!(log.epoch(id(object)), if whole { 10 } else { 0 });
            }
        }
        assert_eq!(file_bytes(&dir).len() % RECORD_BYTES, 0);
    }
}

/// A flipped bit in an acknowledged record or the header is refused; in a record that was never
/// acknowledged it costs just that record, even if another follows.
#[test]
fn damage_is_told_from_tearing() {
    let (dir, bytes) = three_and_two();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(dir.path().join(LOG_FILE), &damaged).unwrap();
        let opened = open(&dir);
        match at / RECORD_BYTES {
            0 => {
                let e = opened.map(drop).unwrap_err();
                assert_eq!(e, ObjectError::Corrupt("the fence log's header"));
            }
            1..=3 => {
                let e = opened.map(drop).unwrap_err();
                assert_eq!(e, ObjectError::Corrupt("an acknowledged fence"), "byte {at}");
            }
            bad => {
                let log = opened.unwrap();
                for object in 0..5 {
                    let lost = object as usize + 1 == bad;
                    assert_eq!(log.epoch(id(object)), if lost { 0 } else { 10 });
                }
            }
        }
    }
}

/// A store whose log is missing, empty or another store's is refused.
#[test]
fn a_foreign_or_missing_log_is_refused() {
    let (dir, _) = three_and_two();
    let other = FenceLog::with_limits(dir.path(), [8; 16], SMALL, false);
    assert!(matches!(other, Err(ObjectError::Corrupt(_))));
    fs::write(dir.path().join(LOG_FILE), b"").unwrap();
    assert!(matches!(open(&dir), Err(ObjectError::Corrupt(_))));
    fs::remove_file(dir.path().join(LOG_FILE)).unwrap();
    assert!(matches!(open(&dir), Err(ObjectError::Corrupt(_))));
}

/// Fencing the same objects for ever does not grow the log, and compaction loses nothing.
#[test]
fn compaction_bounds_the_log() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    for epoch in 1..=200 {
        log.raise(id(u64::from(epoch % 3)), epoch).unwrap();
        if epoch % 7 == 0 {
            log.sync().unwrap();
        }
        assert!(file_bytes(&dir).len() <= 9 * RECORD_BYTES);
    }
    log.sync().unwrap();
    drop(log);
    let log = open(&dir).unwrap();
    assert_eq!([0, 1, 2].map(|o| log.epoch(id(o))), [198, 199, 200]);
}

/// Only the newest tombstones are kept, in memory and after a restart; fences are all kept.
#[test]
fn tombstones_are_bounded() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    log.raise(id(100), 5).unwrap();
    for object in 0..50 {
        log.raise(id(object), REMOVED).unwrap();
    }
    log.sync().unwrap();
    let expect = |log: &FenceLog| {
        assert_eq!(log.epoch(id(45)), 0);
        assert!((46..50).all(|o| log.epoch(id(o)) == REMOVED));
        assert_eq!(log.epoch(id(100)), 5);
    };
    expect(&log);
    drop(log);
    expect(&open(&dir).unwrap());
}

/// Without space a fence fails, changes nothing, and may be tried again with success.
#[test]
fn no_space_is_not_the_end() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    log.raise(id(1), 1).unwrap();
    let full = Arc::new(open_rw(Path::new("/dev/full"), false).unwrap());
    let good = std::mem::replace(&mut lock(&log.log).file, full);
    assert_eq!(log.raise(id(1), 2), Err(ObjectError::NoSpace));
    assert_eq!(log.epoch(id(1)), 1);
    lock(&log.log).file = good;
    log.raise(id(1), 2).unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&dir).unwrap().epoch(id(1)), 2);
}

/// After a failed sync nothing is promised any more, not even what looks already fenced.
#[test]
fn a_failed_sync_poisons() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    log.raise(id(1), 1).unwrap();
    // A character device refuses to be synced.
    let null = Arc::new(open_rw(Path::new("/dev/null"), false).unwrap());
    lock(&log.log).file = null;
    assert!(matches!(log.sync(), Err(ObjectError::Io { .. })));
    assert_eq!(log.raise(id(1), 1), Err(ObjectError::Poisoned));
    assert_eq!(log.sync(), Err(ObjectError::Poisoned));
}

/// Space behind the log's end is allocated before the first fence needs it.
#[test]
fn space_is_reserved() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let log = create(&dir);
    let m = lock(&log.log).file.metadata().unwrap();
    assert_eq!(m.len(), RECORD_BYTES as u64);
    assert!(m.blocks() * 512 >= RESERVE_BYTES, "{} blocks", m.blocks());
}

/// Who asks for an epoch does not wait for one who writes to the log, or replaces it.
#[test]
fn epochs_are_told_while_the_log_is_written() {
    let dir = tempdir().unwrap();
    let log = create(&dir);
    log.raise(id(1), 3).unwrap();
    let (written, replaced) = (lock(&log.log), read(&log.epochs));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(|| tell.send((log.epoch(id(1)), log.highest(1))));
        let epochs = told.recv_timeout(std::time::Duration::from_secs(10));
        drop((written, replaced));
        assert_eq!(epochs, Ok((3, 3)));
    });
}
