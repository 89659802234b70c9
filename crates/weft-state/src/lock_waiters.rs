//! Who waits for a byte-range lock, so that it can be told when to ask again: RFC 8881 §9.6,
//! §18.10.3, §20.11. A hint, nothing more: clients also ask again by themselves, so what is
//! beyond a limit is not noted.

use bytes::Bytes;
use weft_nfs::{ClientId, Opaque, StateOwner};

use crate::limits::{LOCK_WAITERS_PER_CLIENT_MAX, LOCK_WAITERS_PER_FILE_MAX};
use crate::lock_ranges::ByteRange;
use crate::state::State;
use crate::{FileKey, detached};

/// A lock owner whose blocking LOCK was denied.
#[derive(Debug)]
pub(crate) struct Waiter {
    client: ClientId,
    owner: Bytes,
    range: ByteRange,
    write: bool,
}

/// A lock that was waited for, and could be had now: CB_NOTIFY_LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockNotice {
    /// The file.
    pub file: FileKey,
    /// Who waits.
    pub owner: StateOwner,
}

impl State {
    /// Notes that an owner waits; a request of it for the file replaces its former one.
    pub(crate) fn wait_for_lock(
        &mut self,
        client: ClientId,
        file: FileKey,
        owner: &Bytes,
        range: ByteRange,
        write: bool,
    ) {
        self.stop_waiting(client, file, owner);
        let of_file = self.waiters.get(&file).map_or(0, Vec::len);
        let of_client = self.held_by_client.get(&client).map_or(0, |h| h.waiters);
        if of_file >= LOCK_WAITERS_PER_FILE_MAX || of_client >= LOCK_WAITERS_PER_CLIENT_MAX {
            return;
        }
        let owner = detached(owner);
        self.waiters.entry(file).or_default().push(Waiter { client, owner, range, write });
        self.held(client).waiters += 1;
    }

    /// The owner has what it waited for, or asks for something else.
    pub(crate) fn stop_waiting(&mut self, client: ClientId, file: FileKey, owner: &Bytes) {
        self.take_waiters(file, |_, w| w.client == client && w.owner == *owner);
    }

    /// Forgets the waiters of a client.
    pub(crate) fn stop_all_waiting(&mut self, client: ClientId) {
        if self.held(client).waiters == 0 {
            return;
        }
        let files: Vec<FileKey> = self.waiters.keys().copied().collect();
        for file in files {
            self.take_waiters(file, |_, w| w.client == client);
        }
    }

    /// Takes out the waiters that are in nobody's way any more since locks were given up.
    pub fn lock_notices(&mut self) -> Vec<LockNotice> {
        let mut notices = Vec::new();
        for file in std::mem::take(&mut self.unlocked) {
            let free = self.take_waiters(file, |state, w| {
                let own = state.lock_by_owner.get(&(file, w.client, w.owner.clone())).copied();
                let ranges = state.files.get(&file).map(|f| &f.ranges);
                ranges.is_none_or(|r| r.conflict(own, w.range, w.write).is_none())
            });
            notices.extend(free.into_iter().map(|w| {
                let owner = StateOwner { clientid: w.client, owner: Opaque(w.owner) };
                LockNotice { file, owner }
            }));
        }
        notices
    }

    fn take_waiters(
        &mut self,
        file: FileKey,
        which: impl Fn(&State, &Waiter) -> bool,
    ) -> Vec<Waiter> {
        let Some(waiting) = self.waiters.remove(&file) else { return Vec::new() };
        let (taken, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|w| which(self, w));
        if !left.is_empty() {
            self.waiters.insert(file, left);
        }
        for waiter in &taken {
            self.held(waiter.client).waiters -= 1;
        }
        taken
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

    /// Proves that a waiter is told once, when all that is in its way is gone; and that only
    /// blocking requests wait.
    #[test]
    fn told_once_when_free() {
        let mut state = State::new(1);
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

    /// Proves that CLOSE and the end of the holder free its locks for waiters too.
    #[test]
    fn told_after_close_and_end_of_client() {
        let mut state = State::new(1);
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

    /// Proves that who has its lock, and who is gone, waits no longer.
    #[test]
    fn nobody_waits_for_ever() {
        let mut state = State::new(1);
        let held = lock(&mut state, A, LockType::Write, 0).unwrap();
        assert_eq!(lock(&mut state, B, LockType::WriteBlocking, 0), None);
        unlock(&mut state, A, held, 0, 10);
        lock(&mut state, B, LockType::WriteBlocking, 0).unwrap();
        assert_eq!(state.lock_notices(), Vec::new(), "it asked by itself");
        assert_eq!(lock(&mut state, A, LockType::WriteBlocking, 0), None);
        state.drop_client(A);
        assert!(state.waiters.is_empty());
    }

    /// Both sides of the limit of waiters of one file.
    #[test]
    fn waiters_are_bounded() {
        let mut state = State::new(1);
        state.set_limits(StateLimits { locks_per_client_max: 1, ..StateLimits::default() });
        lock(&mut state, A, LockType::Write, 0).unwrap();
        for n in 0..=LOCK_WAITERS_PER_FILE_MAX as u64 {
            assert_eq!(lock(&mut state, ClientId(100 + n), LockType::WriteBlocking, 0), None);
        }
        assert_eq!(state.waiters[&FILE].len(), LOCK_WAITERS_PER_FILE_MAX);
    }
}
