//! Byte-range locks: RFC 8881 §9.1-§9.6, §18.10-§18.12.

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_nfs::ops::{LockArgs, LockDenied, Locker, LocktArgs, LockuArgs};
use weft_nfs::{ClientId, FailureBody, LockType, Opaque, Seqid, StateOwner, Stateid, share};

use crate::ids::{FileKey, detached};
use crate::lock_ranges::{self, ByteRange, RANGE_BYTES};
use crate::memory::{Want, map_entry, map_of_one, name_bytes};
use crate::refusal::{Reason, Refusal};
use crate::state::{OwnerKey, State};
use crate::stateid::{Kind, StateNo};

/// The locks of one lock owner on one file.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) client: ClientId,
    owner: Bytes,
    pub(crate) file: FileKey,
    /// The opens it was last based on, the later one first: with the CLOSE of both the locks are
    /// free. A client may close a file, open it again and lock it, and its CLOSE may come last of
    /// these.
    pub(crate) opens: [Option<StateNo>; 2],
    pub(crate) seqid: Seqid,
}

/// The lock states of all owners, one of an owner on a file. Their ranges are kept by file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_no: BTreeMap<StateNo, Lock>,
    by_owner: BTreeMap<OwnerKey, StateNo>,
}

/// Bytes that a lock state takes beside the name of its owner, as if it were the only one of its
/// open.
const LOCK_BYTES: usize = map_entry::<StateNo, Lock>()
    + map_entry::<OwnerKey, StateNo>()
    + map_entry::<StateNo, ()>()
    + 2 * map_of_one::<StateNo, ()>();

/// Bytes that a lock state of this owner takes, its ranges apart.
fn lock_bytes(owner: &Bytes) -> usize {
    LOCK_BYTES + name_bytes(owner.len())
}

impl Lock {
    /// Bytes that it takes, its ranges apart.
    pub(crate) fn bytes(&self) -> usize {
        lock_bytes(&self.owner)
    }
}

impl Locks {
    pub(crate) fn get(&self, no: StateNo) -> Option<&Lock> {
        self.by_no.get(&no)
    }

    pub(crate) fn no_of(&self, client: ClientId, file: FileKey, owner: &Bytes) -> Option<StateNo> {
        self.by_owner.get(&(file, client, owner.clone())).copied()
    }

    fn insert(&mut self, no: StateNo, lock: Lock) {
        self.by_owner.insert((lock.file, lock.client, lock.owner.clone()), no);
        self.by_no.insert(no, lock);
    }

    fn remove(&mut self, no: StateNo) -> Option<Lock> {
        let lock = self.by_no.remove(&no)?;
        self.by_owner.remove(&(lock.file, lock.client, lock.owner.clone()));
        Some(lock)
    }
}

/// The lock owner of a LOCK, found by the stateid it came with.
struct ForLock {
    /// As [`Lock::opens`].
    opens: [Option<StateNo>; 2],
    existing: Option<StateNo>,
    /// The owner, if it has no state yet.
    owner: Option<Bytes>,
}

/// Most ranges a LOCK can add: it splits another range of the owner, and is one itself.
const RANGES_ADDED_MAX: usize = 2;

impl State {
    /// LOCK. An owner that is denied a lock of a blocking kind is listed by
    /// [`State::lock_notices`] when it is worth asking again; nothing is reserved for it.
    ///
    /// # Errors
    /// DENIED with the lock in the way, OPENMODE, INVAL for the range, BAD_STATEID, OLD_STATEID,
    /// DELAY beyond a limit.
    ///
    /// Source: RFC 8881 §18.10.3.
    pub fn lock(
        &mut self,
        client: ClientId,
        file: FileKey,
        args: &LockArgs,
    ) -> Result<Stateid, Refusal> {
        let range = ByteRange::checked(args.offset, args.length)?;
        let found = self.locker(client, file, &args.locker)?;
        let write = args.locktype.is_write();
        let needed = if write { share::ACCESS_WRITE } else { share::ACCESS_READ };
        let mut opens = found.opens.iter().flatten().filter_map(|no| self.opens.get(*no));
        if !opens.any(|open| open.share.access & needed != 0) {
            return Err(Reason::OpenMode.into());
        }
        let owner = self.lock_owner(&found);
        if let Err(denied) = self.check_conflict(file, found.existing, range, write) {
            if args.locktype.is_blocking() {
                self.wait_for_lock(client, file, &owner, range, write);
            }
            return Err(denied);
        }
        self.stop_waiting(client, file, &owner, range);
        let new_bytes = found.existing.map_or_else(|| lock_bytes(&owner), |_| 0);
        if !self.has_room_for_locks(client, file, new_bytes, RANGES_ADDED_MAX) {
            return Err(Reason::TooManyLocks.into());
        }
        let no = found.existing.unwrap_or_else(|| self.add_lock(client, file, owner));
        if let [Some(open), _] = found.opens {
            self.base_lock(no, open);
        }
        self.change_ranges(client, file, |ranges| ranges.lock(no, range, write));
        Ok(self.bump_lock(no))
    }

    /// LOCKT: whether the lock could be taken.
    ///
    /// # Errors
    /// DENIED with the lock in the way, INVAL for the range.
    ///
    /// Source: RFC 8881 §18.11.3.
    pub fn lockt(&self, client: ClientId, file: FileKey, args: &LocktArgs) -> Result<(), Refusal> {
        let range = ByteRange::checked(args.offset, args.length)?;
        let own = self.locks.no_of(client, file, &args.owner.owner.0);
        self.check_conflict(file, own, range, args.locktype.is_write())
    }

    /// LOCKU: unlocks a range, whatever of it is locked; the rest of a split lock stays.
    ///
    /// # Errors
    /// INVAL for the range, BAD_STATEID, OLD_STATEID, DELAY if it would split a lock beyond the
    /// limit of ranges.
    ///
    /// Source: RFC 8881 §18.12.3.
    pub fn locku(
        &mut self,
        client: ClientId,
        file: FileKey,
        args: &LockuArgs,
    ) -> Result<Stateid, Refusal> {
        let range = ByteRange::checked(args.offset, args.length)?;
        let no = self.find_kind(Kind::Lock, client, &args.lock_stateid, file)?;
        let splits = self.files.get(&file).is_some_and(|f| f.ranges.splits(no, range));
        if splits && !self.has_room_for_locks(client, file, 0, 1) {
            return Err(Reason::TooManyLocks.into());
        }
        self.change_ranges(client, file, |ranges| ranges.unlock(no, range));
        Ok(self.bump_lock(no))
    }

    fn locker(&self, client: ClientId, file: FileKey, locker: &Locker) -> Result<ForLock, Reason> {
        match locker {
            Locker::New { open_stateid, lock_owner } => {
                let open = self.find_kind(Kind::Open, client, open_stateid, file)?;
                let owner = detached(&lock_owner.owner.0);
                let existing = self.locks.no_of(client, file, &owner);
                Ok(ForLock { opens: [Some(open), None], existing, owner: Some(owner) })
            }
            Locker::Existing { lock_stateid } => {
                let no = self.find_kind(Kind::Lock, client, lock_stateid, file)?;
                let lock = self.locks.get(no).ok_or(Reason::StateidUnknown)?;
                Ok(ForLock { opens: lock.opens, existing: Some(no), owner: None })
            }
        }
    }

    fn lock_owner(&self, found: &ForLock) -> Bytes {
        let existing = found.existing.and_then(|no| self.locks.get(no)).map(|l| &l.owner);
        existing.or(found.owner.as_ref()).cloned().unwrap_or_default()
    }

    fn check_conflict(
        &self,
        file: FileKey,
        own: Option<StateNo>,
        range: ByteRange,
        write: bool,
    ) -> Result<(), Refusal> {
        let ranges = self.files.get(&file).map(|f| &f.ranges);
        match ranges.and_then(|r| r.conflict(own, range, write)) {
            None => Ok(()),
            Some(held) => {
                let body = FailureBody::Denied(self.denied(held));
                Err(Refusal { body, ..Reason::LockDenied.into() })
            }
        }
    }

    fn denied(&self, held: &lock_ranges::Held) -> LockDenied {
        let (offset, length) = held.range.offset_length();
        let holder = self.locks.get(held.holder);
        LockDenied {
            offset,
            length,
            locktype: if held.write { LockType::Write } else { LockType::Read },
            owner: StateOwner {
                clientid: holder.map(|l| l.client).unwrap_or_default(),
                owner: Opaque(holder.map(|l| l.owner.clone()).unwrap_or_default()),
            },
        }
    }

    /// Whether so many ranges may be added to a file, and so many bytes beside them be taken.
    fn has_room_for_locks(
        &self,
        client: ClientId,
        file: FileKey,
        bytes: usize,
        ranges: usize,
    ) -> bool {
        let of_file = self.files.get(&file).map_or(0, |f| f.ranges.len());
        of_file + ranges <= self.limits.ranges_per_file_max
            && self.budget.has_room(client, bytes + ranges * RANGE_BYTES, Want::Need)
    }

    fn add_lock(&mut self, client: ClientId, file: FileKey, owner: Bytes) -> StateNo {
        let no = self.next_no();
        let lock = Lock { client, owner, file, opens: [None; 2], seqid: Seqid(0) };
        self.budget.take(client, lock.bytes());
        self.locks.insert(no, lock);
        self.held(client).locks.insert(no);
        no
    }

    /// Bases a lock state on the open that it was asked for through, and on the one before.
    fn base_lock(&mut self, no: StateNo, open: StateNo) {
        let Some(lock) = self.locks.by_no.get_mut(&no) else { return };
        let [last, before] = lock.opens;
        if last == Some(open) {
            return;
        }
        lock.opens = [Some(open), last];
        self.opens.base(open, no);
        if let Some(before) = before.filter(|before| *before != open) {
            self.opens.unbase(before, no);
        }
    }

    /// An open is gone: what was locked through it and no other is unlocked.
    pub(crate) fn unbase_lock(&mut self, no: StateNo, open: StateNo) {
        let Some(lock) = self.locks.by_no.get_mut(&no) else { return };
        let left = lock.opens.into_iter().flatten().find(|other| *other != open);
        lock.opens = [left, None];
        if left.is_none() {
            self.remove_lock(no);
        }
    }

    /// Changes the ranges of a file for one client, and keeps that client's count and memory.
    fn change_ranges(
        &mut self,
        client: ClientId,
        file: FileKey,
        change: impl FnOnce(&mut lock_ranges::LockRanges),
    ) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let before = state.ranges.len();
        change(&mut state.ranges);
        let after = state.ranges.len();
        self.lock_waiters.note_change(file);
        let held = self.held(client);
        held.ranges = held.ranges + after - before;
        if after > before {
            self.budget.take(client, (after - before) * RANGE_BYTES);
        } else {
            self.budget.give_back(client, (before - after) * RANGE_BYTES);
        }
    }

    fn bump_lock(&mut self, no: StateNo) -> Stateid {
        let lock = self.locks.by_no.get_mut(&no);
        let seqid = lock.map_or(Seqid(1), |l| {
            l.seqid = l.seqid.next();
            l.seqid
        });
        self.stateid(Kind::Lock, no, seqid)
    }

    /// How many ranges are locked under a lock stateid.
    pub(crate) fn ranges_of(&self, no: StateNo) -> usize {
        let file = self.locks.get(no).and_then(|l| self.files.get(&l.file));
        file.map_or(0, |f| f.ranges.count_of(no))
    }

    /// Unlocks and forgets a lock state.
    pub(crate) fn remove_lock(&mut self, no: StateNo) {
        let Some(lock) = self.locks.remove(no) else { return };
        self.change_ranges(lock.client, lock.file, |ranges| ranges.unlock_all(no));
        self.budget.give_back(lock.client, lock.bytes());
        self.held(lock.client).locks.remove(&no);
        lock.opens.into_iter().flatten().for_each(|open| self.opens.unbase(open, no));
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
