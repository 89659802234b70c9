//! Lock owners that wait for a byte-range lock, so that they can be notified when to ask again:
//! RFC 8881 §9.6, §18.10.3, §20.11. A hint, nothing more: clients also ask again by themselves, so
//! waiters beyond a limit are not noted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;
use weft_nfs::{ClientId, Opaque, StateOwner};

use crate::ids::{FileKey, detached};
use crate::limits::{LOCK_NOTICE_RANGES_MAX, LOCK_WAITED_RANGES_MAX, LOCK_WAITERS_PER_FILE_MAX};
use crate::lock_ranges::ByteRange;
use crate::memory::{Want, allocated, map_entry, name_bytes};
use crate::state::State;

/// A blocking LOCK that was denied. An owner can have several: threads of one process share it.
#[derive(Debug)]
struct Waiter {
    client: ClientId,
    owner: Bytes,
    range: ByteRange,
    write: bool,
}

/// All denied blocking LOCKs, and which of them are to be looked at again.
#[derive(Debug, Default)]
pub(crate) struct LockWaiters {
    /// Never an empty queue.
    by_file: BTreeMap<FileKey, VecDeque<Waiter>>,
    /// Files where locks were given up, and how many of their waiters, from the first,
    /// [`State::lock_notices`] has yet to look at.
    unlocked: BTreeMap<FileKey, usize>,
    /// The file it looked at last.
    noticed_last: FileKey,
}

/// A queue is never larger than so many times what is in it.
const SPARE_MAX: usize = 4;
/// Bytes that a waiter takes beside the name of its owner, as if it were the only one of its file.
const WAITER_BYTES: usize = allocated(SPARE_MAX * size_of::<Waiter>())
    + map_entry::<FileKey, VecDeque<Waiter>>()
    + map_entry::<FileKey, usize>();

/// Bytes that a waiter of this name takes.
fn waiter_bytes(owner: &Bytes) -> usize {
    WAITER_BYTES + name_bytes(owner.len())
}

impl LockWaiters {
    /// The locks of a file have changed: all that wait for some of them may have a chance.
    pub(crate) fn note_change(&mut self, file: FileKey) {
        if let Some(waiters) = self.by_file.get(&file) {
            self.unlocked.insert(file, waiters.len());
        }
    }

    /// Puts what is left of a queue in its place.
    fn put_back(&mut self, file: FileKey, mut waiting: VecDeque<Waiter>) {
        if waiting.capacity() > SPARE_MAX * waiting.len() {
            waiting.shrink_to(SPARE_MAX / 2 * waiting.len());
        }
        if !waiting.is_empty() {
            self.by_file.insert(file, waiting);
        }
    }

    /// Whether anybody waits for locks of the file.
    pub(crate) fn has_any(&self, file: FileKey) -> bool {
        self.by_file.contains_key(&file)
    }

    /// Bytes that the waiters of a client take.
    #[cfg(test)]
    pub(crate) fn bytes_of(&self, client: ClientId) -> usize {
        let all = self.by_file.values().flatten();
        all.filter(|w| w.client == client).map(|w| waiter_bytes(&w.owner)).sum()
    }

    /// Whether [`State::lock_notices`] has nothing left to look at.
    #[cfg(test)]
    pub(crate) fn all_noticed(&self) -> bool {
        self.unlocked.is_empty()
    }

    /// The file after the last one in the round of those to be looked at.
    fn next_unlocked(&self) -> Option<FileKey> {
        let after = self.unlocked.range((Excluded(self.noticed_last), Unbounded)).next();
        after.or_else(|| self.unlocked.first_key_value()).map(|(file, _)| *file)
    }
}

/// A lock that was waited for, and could be had now: CB_NOTIFY_LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockNotice {
    /// File that the lock is of.
    pub file: FileKey,
    /// Lock owner that waits.
    pub owner: StateOwner,
}

impl State {
    /// Notes that an owner waits for a range; asking again for the same, it waits once.
    pub(crate) fn wait_for_lock(
        &mut self,
        client: ClientId,
        file: FileKey,
        owner: &Bytes,
        range: ByteRange,
        write: bool,
    ) {
        self.stop_waiting(client, file, owner, range);
        let of_file = self.lock_waiters.by_file.get(&file).map_or(0, VecDeque::len);
        let has_room = self.budget.has_room(client, waiter_bytes(owner), Want::Extra);
        if of_file >= LOCK_WAITERS_PER_FILE_MAX || !has_room {
            return;
        }
        let owner = detached(owner);
        self.budget.take(client, waiter_bytes(&owner));
        let waiter = Waiter { client, owner, range, write };
        self.lock_waiters.by_file.entry(file).or_default().push_back(waiter);
        self.held(client).waiters += 1;
    }

    /// The owner has the range it waited for, or asks for it again.
    pub(crate) fn stop_waiting(
        &mut self,
        client: ClientId,
        file: FileKey,
        owner: &Bytes,
        range: ByteRange,
    ) {
        self.forget_waiters(file, |w| w.client == client && w.range == range && w.owner == *owner);
    }

    /// Forgets the waiters of a client.
    pub(crate) fn stop_all_waiting(&mut self, client: ClientId) {
        if self.held(client).waiters == 0 {
            return;
        }
        let files: Vec<FileKey> = self.lock_waiters.by_file.keys().copied().collect();
        for file in files {
            self.forget_waiters(file, |w| w.client == client);
        }
    }

    /// Takes out waiters whose ranges no lock of others excludes any more.
    ///
    /// **Cost.** At most about `LOCK_NOTICE_RANGES_MAX` ranges are looked through; the rest is
    /// left for the next call, file after file.
    pub fn lock_notices(&mut self) -> Vec<LockNotice> {
        let mut notices = Vec::new();
        let mut work = LOCK_NOTICE_RANGES_MAX;
        while work > 0
            && let Some(file) = self.lock_waiters.next_unlocked()
        {
            self.lock_waiters.noticed_last = file;
            self.notices_of(file, &mut work, &mut notices);
        }
        notices
    }

    /// Whether a client holds locks that others wait for.
    ///
    /// **Cost.** A look at each of its locks, and at about `LOCK_WAITED_RANGES_MAX` ranges: where
    /// there are more, the answer is yes, since others wait for locks of files that it has locked.
    pub fn is_waited_for(&self, client: ClientId) -> bool {
        let Some(held) = self.held_by_client.get(&client) else { return false };
        let files = held.locks.iter().filter_map(|no| self.locks.get(*no)).map(|lock| lock.file);
        let files = BTreeSet::from_iter(files.filter(|file| self.lock_waiters.has_any(*file)));
        let mut work = LOCK_WAITED_RANGES_MAX;
        for file in files {
            let (waiters, state) = (self.lock_waiters.by_file.get(&file), self.files.get(&file));
            let (Some(waiters), Some(state)) = (waiters, state) else { continue };
            for w in waiters.iter().filter(|w| w.client != client) {
                work = work.saturating_sub(1 + state.ranges.len());
                if work == 0 || state.ranges.excludes(&held.locks, w.range, w.write) {
                    return true;
                }
            }
        }
        false
    }

    /// Looks at the waiters of a file as far as `work`, in ranges, goes. Those that wait on go
    /// behind the others, so that each has its turn.
    fn notices_of(&mut self, file: FileKey, work: &mut usize, notices: &mut Vec<LockNotice>) {
        let mut waiting = self.lock_waiters.by_file.remove(&file).unwrap_or_default();
        let mut left = self.lock_waiters.unlocked.remove(&file).unwrap_or(0).min(waiting.len());
        let cost = 1 + self.files.get(&file).map_or(0, |f| f.ranges.len());
        while left > 0 && *work > 0 {
            let Some(w) = waiting.pop_front() else { break };
            (left, *work) = (left - 1, work.saturating_sub(cost));
            if self.is_blocked(file, &w) {
                waiting.push_back(w);
                continue;
            }
            self.held(w.client).waiters -= 1;
            self.budget.give_back(w.client, waiter_bytes(&w.owner));
            let owner = StateOwner { clientid: w.client, owner: Opaque(w.owner) };
            notices.push(LockNotice { file, owner });
        }
        if left > 0 {
            self.lock_waiters.unlocked.insert(file, left);
        }
        self.lock_waiters.put_back(file, waiting);
    }

    fn is_blocked(&self, file: FileKey, w: &Waiter) -> bool {
        let own = self.locks.no_of(w.client, file, &w.owner);
        let ranges = self.files.get(&file).map(|f| &f.ranges);
        ranges.is_some_and(|r| r.conflict(own, w.range, w.write).is_some())
    }

    fn forget_waiters(&mut self, file: FileKey, which: impl Fn(&Waiter) -> bool) {
        let Some(mut waiting) = self.lock_waiters.by_file.remove(&file) else { return };
        waiting.retain(|w| {
            let gone = which(w);
            if gone {
                self.held(w.client).waiters -= 1;
                self.budget.give_back(w.client, waiter_bytes(&w.owner));
            }
            !gone
        });
        self.lock_waiters.put_back(file, waiting);
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::LockType;
    use weft_nfs::ops::{LockArgs, Locker, LockuArgs};
    use weft_nfs::{Seqid, Stateid};

    use super::*;
    use crate::testing::*;
    use crate::{Reason, StateLimits};

    fn lock(state: &mut State, client: ClientId, kind: LockType, first: u64) -> Option<Stateid> {
        let open = state.open(client, &owner("open"), FILE, 3, 0).unwrap();
        let locker = Locker::New { open_stateid: open, lock_owner: owner("lock") };
        let args = LockArgs { locktype: kind, reclaim: false, offset: first, length: 10, locker };
        match state.lock(client, FILE, &args) {
            Ok(stateid) => Some(stateid),
            Err(r) => {
                assert_eq!(r.because, Reason::LockDenied);
                None
            }
        }
    }

    fn unlock(state: &mut State, client: ClientId, stateid: Stateid, offset: u64, length: u64) {
        let (locktype, seqid) = (LockType::Write, Seqid(0));
        let lock_stateid = Stateid { seqid, ..stateid };
        let args = LockuArgs { locktype, seqid, lock_stateid, offset, length };
        state.locku(client, FILE, &args).unwrap();
    }

    fn notice(client: ClientId) -> LockNotice {
        LockNotice { file: FILE, owner: StateOwner { clientid: client, ..owner("lock") } }
    }

    /// Proves that a waiter is notified once, when all that is in its way is gone; and that only
    /// blocking requests wait.
    #[test]
    fn told_once_when_free() {
        let mut state = new_state();
        let held = lock(&mut state, A, LockType::Write, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::WriteBlocking, 5), None);
        assert_eq!(lock(&mut state, ClientId(3), LockType::Write, 5), None);
        unlock(&mut state, A, held, 0, 5);
        assert_eq!(state.lock_notices(), Vec::new(), "bytes 5 to 9 are still locked");
        unlock(&mut state, A, held, 5, 5);
        assert_eq!(state.lock_notices(), vec![notice(B)]);
        assert_eq!(state.lock_notices(), Vec::new());
        assert_eq!(state.held(B).waiters, 0);
    }

    /// Threads that share an owner wait for ranges of their own: neither the wait of one nor its
    /// success ends that of another.
    #[test]
    fn an_owner_waits_for_several_ranges() {
        let mut state = new_state();
        let mut held = lock(&mut state, A, LockType::Write, 0).unwrap();
        for first in [100, 200] {
            held = lock(&mut state, A, LockType::Write, first).unwrap();
        }
        for first in [0, 100, 200, 0] {
            assert_eq!(lock(&mut state, B, LockType::WriteBlocking, first), None);
        }
        assert_eq!(state.held(B).waiters, 3, "who asks again waits once");
        unlock(&mut state, A, held, 0, 10);
        assert_eq!(state.lock_notices(), vec![notice(B)]);
        lock(&mut state, B, LockType::WriteBlocking, 0).unwrap();
        unlock(&mut state, A, held, 100, 10);
        assert_eq!(state.lock_notices(), vec![notice(B)]);
        unlock(&mut state, A, held, 200, 10);
        assert_eq!(state.lock_notices(), vec![notice(B)]);
        assert_eq!(state.held(B).waiters, 0);
    }

    /// Proves that CLOSE and the end of the holder free its locks for waiters too.
    #[test]
    fn told_after_close_and_end_of_client() {
        let mut state = new_state();
        lock(&mut state, A, LockType::Write, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::ReadBlocking, 0), None);
        let open = state.open(A, &owner("open"), FILE, 3, 0).unwrap();
        state.close(A, &open, FILE).unwrap();
        assert_eq!(state.lock_notices(), vec![notice(B)]);
        lock(&mut state, A, LockType::Write, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::ReadBlocking, 0), None);
        state.drop_client(A);
        assert_eq!(state.lock_notices(), vec![notice(B)]);
    }

    /// Proves that a client is waited for while its lock excludes a request of another.
    #[test]
    fn waited_for_by_others() {
        let mut state = new_state();
        let held = lock(&mut state, A, LockType::Read, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::Write, 0), None);
        assert!(!state.is_waited_for(A), "who does not block does not wait");
        assert_eq!(lock(&mut state, B, LockType::WriteBlocking, 5), None);
        assert!(state.is_waited_for(A));
        assert!(!state.is_waited_for(B));
        unlock(&mut state, A, held, 5, 5);
        assert!(!state.is_waited_for(A), "what is left is in nobody's way");
    }

    /// However many ranges and waiters there are, the look is short: beyond it the answer is yes.
    #[test]
    fn who_is_waited_for_is_told_in_bounded_time() {
        let mut state = new_state();
        lock(&mut state, B, LockType::Write, 0).unwrap();
        let open = state.open(A, &owner("open"), FILE, 3, 0).unwrap();
        let lock_bytes = |state: &mut State, ranges: std::ops::Range<u64>| {
            for n in ranges {
                let lock_owner = owner("many");
                let locker = Locker::New { open_stateid: open, lock_owner };
                let (locktype, offset) = (LockType::Write, 100 + 2 * n);
                let args = LockArgs { locktype, reclaim: false, offset, length: 1, locker };
                state.lock(A, FILE, &args).unwrap();
            }
        };
        lock_bytes(&mut state, 0..100);
        for n in 0..LOCK_WAITERS_PER_FILE_MAX as u64 {
            assert_eq!(lock(&mut state, ClientId(100 + n), LockType::WriteBlocking, 0), None);
        }
        assert!(!state.is_waited_for(A), "all wait for another");
        lock_bytes(&mut state, 100..StateLimits::default().ranges_per_file_max as u64 - 4);
        assert!(state.is_waited_for(A), "too much to be looked through");
        assert!(state.is_waited_for(B));
    }

    /// Proves that an owner that has its lock, or is gone, waits no longer.
    #[test]
    fn nobody_waits_for_ever() {
        let mut state = new_state();
        let held = lock(&mut state, A, LockType::Write, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::WriteBlocking, 0), None);
        unlock(&mut state, A, held, 0, 10);
        lock(&mut state, B, LockType::WriteBlocking, 0).unwrap();
        assert_eq!(state.lock_notices(), Vec::new(), "it asked by itself");
        assert_eq!(lock(&mut state, A, LockType::WriteBlocking, 0), None);
        state.drop_client(A);
        assert!(state.lock_waiters.by_file.is_empty());
    }

    /// Both sides of the limit of waiters of one file.
    #[test]
    fn waiters_are_bounded() {
        let mut state = new_state();
        lock(&mut state, A, LockType::Write, 0).unwrap();
        for n in 0..=LOCK_WAITERS_PER_FILE_MAX as u64 {
            assert_eq!(lock(&mut state, ClientId(100 + n), LockType::WriteBlocking, 0), None);
        }
        assert_eq!(state.lock_waiters.by_file[&FILE].len(), LOCK_WAITERS_PER_FILE_MAX);
    }

    /// Both sides of the memory that waiters of one client may take, over all files.
    #[test]
    fn waiters_of_a_client_are_bounded() {
        let mut state = new_state();
        let room = 2 * waiter_bytes(&owner("lock").owner.0);
        let files = [1, 2, 3].map(|object| FileKey { volume: 2, object });
        for file in files {
            state.open(B, &owner("open"), file, 3, 0).unwrap();
        }
        state.budget.fill(B, Want::Extra, room);
        for file in files {
            for (client, denied) in [(A, false), (B, true)] {
                let open = state.open(client, &owner("open"), file, 3, 0).unwrap();
                let locker = Locker::New { open_stateid: open, lock_owner: owner("lock") };
                let locktype = LockType::WriteBlocking;
                let args = LockArgs { locktype, reclaim: false, offset: 0, length: 1, locker };
                assert_eq!(state.lock(client, file, &args).is_err(), denied);
            }
        }
        assert_eq!(state.held(B).waiters, 2);
        assert_eq!(state.lock_waiters.by_file.len(), 2);
    }

    /// However many wait for however many ranges, one call does a bounded part of the work, and
    /// the calls together all of it, each waiter in its turn.
    #[test]
    fn the_work_of_one_call_is_bounded() {
        let mut state = new_state();
        let held = lock(&mut state, A, LockType::Write, 0).unwrap();
        // One byte each, so that none merge; none of them is in a waiter's way.
        let open = state.open(A, &owner("open"), FILE, 3, 0).unwrap();
        let locker = Locker::New { open_stateid: open, lock_owner: owner("many") };
        let ranges = StateLimits::default().ranges_per_file_max - 4;
        for n in 0..ranges as u64 {
            let locktype = LockType::Write;
            let (offset, locker) = (100 + 2 * n, locker.clone());
            let args = LockArgs { locktype, reclaim: false, offset, length: 1, locker };
            state.lock(A, FILE, &args).unwrap();
        }
        let waiters = LOCK_WAITERS_PER_FILE_MAX as u64;
        for n in 0..waiters {
            assert_eq!(lock(&mut state, ClientId(100 + n), LockType::WriteBlocking, 0), None);
        }
        unlock(&mut state, A, held, 0, 10);
        let first = state.lock_notices();
        assert!(!first.is_empty() && first.len() * ranges <= LOCK_NOTICE_RANGES_MAX + ranges);
        let mut told = first;
        while !state.lock_waiters.unlocked.is_empty() {
            told.extend(state.lock_notices());
        }
        let clients: Vec<_> = told.iter().map(|n| n.owner.clientid.0).collect();
        assert_eq!(clients, (100..100 + waiters).collect::<Vec<_>>());
        assert!(state.lock_waiters.by_file.is_empty());
    }

    /// A file whose waiters take all the work of a call does not keep others from their turn.
    #[test]
    fn files_take_turns() {
        let mut state = new_state();
        state.lock_waiters.unlocked = [(FILE, 1), (OTHER_FILE, 1)].into();
        let first = state.lock_waiters.next_unlocked().unwrap();
        state.lock_waiters.noticed_last = first;
        assert_ne!(state.lock_waiters.next_unlocked(), Some(first));
    }
}
