//! LOCK, LOCKT, LOCKU and the life of lock stateids.

use proptest::prelude::*;
use weft_nfs::NfsStat;

use super::*;
use crate::IoAccess;
use crate::testing::*;

const RW: u32 = share::ACCESS_BOTH;

fn args(locker: Locker, write: bool, offset: u64, length: u64) -> LockArgs {
    let locktype = if write { LockType::Write } else { LockType::Read };
    LockArgs { locktype, reclaim: false, offset, length, locker }
}

fn first(open_stateid: Stateid, name: &str) -> Locker {
    Locker::New { open_stateid, lock_owner: owner(name) }
}

fn test_args(name: &str, write: bool, offset: u64, length: u64) -> LocktArgs {
    let locktype = if write { LockType::WriteBlocking } else { LockType::ReadBlocking };
    LocktArgs { locktype, offset, length, owner: owner(name) }
}

fn unlock(lock_stateid: Stateid, offset: u64, length: u64) -> LockuArgs {
    LockuArgs { locktype: LockType::Write, seqid: Seqid(0), lock_stateid, offset, length }
}

/// A table where both clients have the file open.
fn opened() -> (State, Stateid, Stateid) {
    let mut state = new_state();
    let a = state.open(A, &owner("a"), FILE, RW, 0).unwrap();
    let b = state.open(B, &owner("b"), FILE, RW, 0).unwrap();
    (state, a, b)
}

/// Proves that a conflict names the lock in the way, in LOCK and LOCKT alike.
#[test]
fn denied_names_the_holder() {
    let (mut state, a, b) = opened();
    state.lock(A, FILE, &args(first(a, "l"), true, 10, 5)).unwrap();
    let expected = LockDenied {
        offset: 10,
        length: 5,
        locktype: LockType::Write,
        owner: StateOwner { clientid: A, owner: opaque("l") },
    };
    let refusal = state.lock(B, FILE, &args(first(b, "l"), false, 14, u64::MAX)).unwrap_err();
    assert_eq!((refusal.status, refusal.because), (NfsStat::DENIED, Reason::LockDenied));
    assert_eq!(refusal.body, FailureBody::Denied(expected.clone()));
    let refusal = state.lockt(B, FILE, &test_args("l", false, 0, 11)).unwrap_err();
    assert_eq!(refusal.body, FailureBody::Denied(expected));
    assert!(state.lockt(B, FILE, &test_args("l", true, 15, 1)).is_ok());
    assert!(state.lockt(B, FILE, &test_args("l", true, 0, 10)).is_ok());
    assert!(state.lockt(A, FILE, &test_args("l", true, 0, 99)).is_ok(), "own locks do not count");
    assert!(state.locks.by_no.len() == 1, "a refused lock leaves no state");
}

/// Proves the numbering: one lock stateid for an owner and file, seqid 1 first, then by one.
#[test]
fn lock_stateids_count() {
    let (mut state, a, _) = opened();
    let s1 = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    let existing = Locker::Existing { lock_stateid: s1 };
    let s2 = state.lock(A, FILE, &args(existing, false, 20, 10)).unwrap();
    let s3 = state.lock(A, FILE, &args(first(a, "l"), false, 40, 10)).unwrap();
    let s4 = state.locku(A, FILE, &unlock(s3, 0, u64::MAX)).unwrap();
    assert_eq!([s1, s2, s3, s4].map(|s| s.seqid.0), [1, 2, 3, 4]);
    assert!([s2, s3, s4].iter().all(|s| s.other == s1.other));
    assert_eq!(why(state.locku(A, FILE, &unlock(s1, 0, 1))), Reason::StateidOld);
    let other = state.lock(A, FILE, &args(first(a, "m"), true, 0, 10)).unwrap();
    assert_ne!(other.other, s1.other);
}

/// Proves that the CLOSE of an open does not free what was locked through a later one.
#[test]
fn a_late_close_frees_no_later_lock() {
    let (mut state, a, b) = opened();
    state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    let again = state.open(A, &owner("again"), FILE, RW, 0).unwrap();
    let lock = state.lock(A, FILE, &args(first(again, "l"), true, 20, 10)).unwrap();
    state.close(A, &a, FILE).unwrap();
    for at in [0, 20] {
        let refusal = state.lock(B, FILE, &args(first(b, "l"), true, at, 10)).unwrap_err();
        assert_eq!(refusal.because, Reason::LockDenied);
    }
    assert!(state.check_io(A, &lock, FILE, IoAccess::Write).is_ok());
    state.close(A, &again, FILE).unwrap();
    state.lock(B, FILE, &args(first(b, "l"), true, 0, 100)).unwrap();
}

/// Proves that what was locked through two opens goes with both, in either order, that each of them
/// counts for I/O and locks, and that a third one takes the place of the first.
#[test]
fn locks_are_based_on_two_opens() {
    for later_first in [false, true] {
        let (mut state, a, b) = opened();
        state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
        let reads = state.open(A, &owner("reads"), FILE, share::ACCESS_READ, 0).unwrap();
        let lock = state.lock(A, FILE, &args(first(reads, "l"), false, 20, 10)).unwrap();
        assert!(state.check_io(A, &lock, FILE, IoAccess::Write).is_ok());
        let existing = Locker::Existing { lock_stateid: lock };
        state.lock(A, FILE, &args(existing, true, 40, 10)).unwrap();
        let denied = Reason::OpenMode;
        assert_eq!(why(state.lock(A, FILE, &args(first(reads, "l"), true, 60, 1))), denied);
        let (one, other) = if later_first { (reads, a) } else { (a, reads) };
        state.close(A, &one, FILE).unwrap();
        assert!(state.lock(B, FILE, &args(first(b, "l"), true, 0, 100)).is_err());
        state.close(A, &other, FILE).unwrap();
        state.lock(B, FILE, &args(first(b, "l"), true, 0, 100)).unwrap();
    }
    let (mut state, a, b) = opened();
    for name in ["1", "2"] {
        state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
        let next = state.open(A, &owner(name), FILE, RW, 0).unwrap();
        state.lock(A, FILE, &args(first(next, "l"), true, 0, 10)).unwrap();
        if name == "2" {
            state.close(A, &a, FILE).unwrap();
            assert!(state.lock(B, FILE, &args(first(b, "l"), true, 0, 1)).is_err());
            state.close(A, &next, FILE).unwrap();
            state.lock(B, FILE, &args(first(b, "l"), true, 0, 1)).unwrap();
        }
    }
}

/// Proves which stateids are refused where.
#[test]
fn stateid_kinds() {
    let (mut state, a, _) = opened();
    let lock = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    let wrong = args(first(lock, "m"), true, 0, 1);
    assert_eq!(why(state.lock(A, FILE, &wrong)), Reason::StateidKind);
    let wrong = args(Locker::Existing { lock_stateid: a }, true, 0, 1);
    assert_eq!(why(state.lock(A, FILE, &wrong)), Reason::StateidKind);
    assert_eq!(why(state.locku(A, FILE, &unlock(a, 0, 1))), Reason::StateidKind);
    assert_eq!(why(state.close(A, &lock, FILE)), Reason::StateidKind);
    assert_eq!(why(state.locku(B, FILE, &unlock(lock, 0, 1))), Reason::StateidForeign);
    assert!(state.check_io(A, &lock, FILE, IoAccess::Write).is_ok(), "I/O takes lock stateids");
}

/// Ranges: empty ones and those past 64 bits are refused by all three operations.
#[test]
fn ranges_are_checked() {
    let (mut state, a, _) = opened();
    let s = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    for (offset, length) in [(5, 0), (u64::MAX, 2), (2, u64::MAX - 1)] {
        let lock = args(first(a, "l"), true, offset, length);
        assert_eq!(why(state.lock(A, FILE, &lock)), Reason::RangeInvalid);
        let test = test_args("l", true, offset, length);
        assert_eq!(why(state.lockt(A, FILE, &test)), Reason::RangeInvalid);
        assert_eq!(why(state.locku(A, FILE, &unlock(s, offset, length))), Reason::RangeInvalid);
    }
}

/// Proves that a write lock needs a write open, and a read lock a read open.
#[test]
fn locks_need_the_open_mode() {
    let mut state = new_state();
    let read = state.open(A, &owner("r"), FILE, share::ACCESS_READ, 0).unwrap();
    let write = state.open(A, &owner("w"), FILE, share::ACCESS_WRITE, 0).unwrap();
    assert_eq!(why(state.lock(A, FILE, &args(first(read, "l"), true, 0, 1))), Reason::OpenMode);
    assert_eq!(why(state.lock(A, FILE, &args(first(write, "l"), false, 0, 1))), Reason::OpenMode);
    assert!(state.lock(A, FILE, &args(first(read, "l"), false, 0, 1)).is_ok());
    assert!(state.lock(A, FILE, &args(first(write, "m"), true, 5, 1)).is_ok());
}

/// Proves that CLOSE frees the locks of its open, and only those.
#[test]
fn close_frees_the_locks() {
    let (mut state, a, b) = opened();
    let lock = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    let other = state.lock(B, FILE, &args(first(b, "l"), true, 10, 10)).unwrap();
    state.close(A, &a, FILE).unwrap();
    assert_eq!(state.test_stateid(A, &lock), NfsStat::BAD_STATEID);
    assert_eq!(state.test_stateid(B, &other), NfsStat::OK);
    assert!(state.lockt(B, FILE, &test_args("l", true, 0, u64::MAX)).is_ok());
    assert_eq!(state.held_by_client[&A].ranges, 0);
    state.drop_client(B);
    assert!(state.locks.by_no.is_empty() && state.locks.by_owner.is_empty());
    assert!(state.files.is_empty());
}

/// Linux frees the stateid of a lock owner that ended: only without locked ranges.
#[test]
fn free_stateid() {
    let (mut state, a, _) = opened();
    let lock = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    assert_eq!(why(state.free_stateid(A, &lock)), Reason::StillInUse);
    let lock = state.locku(A, FILE, &unlock(lock, 0, 10)).unwrap();
    assert_eq!(state.free_stateid(A, &lock), Ok(()));
    assert_eq!(why(state.free_stateid(A, &lock)), Reason::StateidUnknown);
    let again = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    assert_eq!(again.seqid, Seqid(1));
    assert_ne!(again.other, lock.other);
}

/// Both sides of each limit; an unlock that needs no new range works even at the limit.
#[test]
fn locks_are_limited() {
    let (mut state, a, _) = opened();
    state.limits.ranges_per_file_max = 3;
    let name = owner("l").owner.0;
    let taken = state.budget.fill(A, Want::Need, lock_bytes(&name) + 4 * RANGE_BYTES);
    let s = state.lock(A, FILE, &args(first(a, "l"), true, 0, 10)).unwrap();
    assert_eq!(why(state.lock(A, FILE, &args(first(a, "m"), true, 50, 1))), Reason::TooManyLocks);
    let s = state.locku(A, FILE, &unlock(s, 2, 2)).unwrap();
    let s = state.locku(A, FILE, &unlock(s, 5, 2)).unwrap();
    assert_eq!(state.held_by_client[&A].ranges, 3);
    assert_eq!(why(state.locku(A, FILE, &unlock(s, 8, 1))), Reason::TooManyLocks);
    assert_eq!(why(state.lock(A, FILE, &args(first(a, "l"), true, 90, 1))), Reason::TooManyLocks);
    assert!(state.locku(A, FILE, &unlock(s, 8, 2)).is_ok());
    state.limits.ranges_per_file_max = 5;
    state.budget.give_back(A, taken);
    let taken = state.budget.fill(A, Want::Need, 2 * RANGE_BYTES - 1);
    assert_eq!(why(state.lock(A, FILE, &args(first(a, "l"), true, 90, 1))), Reason::TooManyLocks);
    state.budget.give_back(A, taken);
    state.budget.fill(A, Want::Need, 2 * RANGE_BYTES);
    assert!(state.lock(A, FILE, &args(first(a, "l"), true, 90, 1)).is_ok());
}

proptest! {
    /// Proves that the count of a client's ranges is what is in the files, after any sequence of
    /// locks, unlocks and closes by two clients on two files.
    #[test]
    fn range_counts_are_right(
        steps in proptest::collection::vec((0..4u8, 0..2usize, 0..2usize, 0..30u64, 1..9u64), 1..60)
    ) {
        let (clients, files, names) = ([A, B], [FILE, OTHER_FILE], ["x", "y"]);
        let mut state = new_state();
        for (what, c, f, offset, length) in steps {
            let (client, file) = (clients[c], files[f]);
            let name = names[usize::from(offset % 2 == 0)];
            let open = state.open(client, &owner(name), file, RW, 0).unwrap();
            if what == 0 {
                state.close(client, &open, file).unwrap();
            } else {
                let lock = args(first(open, name), what == 1, offset, length);
                if let Ok(s) = state.lock(client, file, &lock)
                    && what == 3
                {
                    state.locku(client, file, &unlock(s, offset + 1, 2)).unwrap();
                }
            }
            for client in clients {
                let held = state.held_by_client.get(&client);
                let locks = held.into_iter().flat_map(|h| &h.locks);
                let counted: usize = locks.map(|no| state.ranges_of(*no)).sum();
                prop_assert_eq!(counted, held.map_or(0, |h| h.ranges));
            }
        }
    }
}
