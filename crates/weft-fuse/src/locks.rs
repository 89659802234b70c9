//! Byte-range locks of programs, and those of `flock(2)`.
//!
//! The kernel keeps none itself. It names the owner of a lock by a number: of a process for
//! `fcntl(2)`, of an open for `flock(2)` and for locks of open file descriptions. fuser does not
//! tell these apart, and the protocol has no others: `flock` locks all bytes of a file for an owner
//! of its own, as with Linux' NFS client.
//!
//! What an owner has locked is remembered: a server that has started anew is asked for it before
//! anybody else can have it, and one that has forgotten it otherwise is asked as by anybody.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use bytes::Bytes;
use fuser::Errno;
use tokio::sync::Mutex as AsyncMutex;
use weft_client::{
    ClientError,
    node::{LockRange, Locked as Answer, Reclaim, Reclaims},
};
use weft_nfs::{LockType, Opaque, Stateid};

use crate::{
    lock_ranges::{LockRanges, Locked},
    lock_waits::{LockWaits, Wait},
    slots::OpenFile,
};

/// Kinds of a lock, `include/uapi/asm-generic/fcntl.h`.
pub const F_RDLCK: i32 = 0;
pub const F_WRLCK: i32 = 1;
pub const F_UNLCK: i32 = 2;
/// The last byte that the kernel can lock: then a lock has no end.
pub const LAST_BYTE: u64 = i64::MAX as u64;
/// Locks of one request to reclaim: with what else is in it they are fewer operations than any
/// session takes.
const LOCKS_AT_ONCE: usize = 8;

/// A request of the kernel for a lock.
#[derive(Debug, Clone, Copy)]
pub struct LockCall {
    pub ino: u64,
    /// The open that it is made through.
    pub file: u64,
    pub owner: u64,
    pub start: u64,
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    pub pid: u32,
}

/// A lock as the kernel hears of it: what `F_GETLK` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub start: u64,
    pub end: u64,
    pub kind: i32,
    pub pid: u32,
}

/// A file and a lock owner.
pub type Key = (u64, u64);

/// The locks of all owners, and which of them wait for more.
#[derive(Default)]
pub struct Locks {
    owners: Mutex<HashMap<Key, Arc<Owner>>>,
    pub waits: LockWaits,
}

/// What an owner has locked of a file. Its requests go one after another, as `turn` says.
pub struct Owner {
    pid: u32,
    turn: AsyncMutex<()>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    stateid: Option<Stateid>,
    ranges: LockRanges,
    /// The open that the last one was taken through, and its number.
    through: Option<(u64, Arc<OpenFile>)>,
}

impl Locks {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Owner>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: Key) -> Option<Arc<Owner>> {
        self.lock().get(&key).cloned()
    }

    pub fn get_or_add(&self, key: Key, pid: u32) -> Arc<Owner> {
        let new = || Arc::new(Owner { pid, turn: AsyncMutex::default(), held: Mutex::default() });
        self.lock().entry(key).or_insert_with(new).clone()
    }

    pub fn all(&self) -> Vec<(Key, Arc<Owner>)> {
        self.lock().iter().map(|(key, owner)| (*key, owner.clone())).collect()
    }

    /// Owners whose last lock of a file was taken through this open.
    pub fn taken_through(&self, ino: u64, file: u64) -> Vec<Key> {
        let owners = self.lock();
        let is_of =
            |(key, owner): &(&Key, &Arc<Owner>)| key.0 == ino && owner.through() == Some(file);
        owners.iter().filter(is_of).map(|(key, _)| *key).collect()
    }

    /// The owners that are in the way of this lock.
    pub fn holders_against(&self, wait: &Wait) -> Vec<u64> {
        let owners = self.lock();
        let of_others =
            owners.iter().filter(|((ino, owner), _)| *ino == wait.ino && *owner != wait.owner);
        let in_the_way = of_others.filter(|(_, owner)| owner.held().ranges.exclude(wait.wanted));
        in_the_way.map(|((_, owner), _)| *owner).collect()
    }

    /// The process of an owner, by the name that the server knows it by.
    pub fn pid_of(&self, ino: u64, name: &Opaque) -> Option<u32> {
        let owners = self.lock();
        let is_it = |(of, owner): &Key| *of == ino && name_of(*owner) == *name;
        owners.iter().find(|(key, _)| is_it(key)).map(|(_, owner)| owner.pid)
    }

    /// Forgets an owner that has nothing locked and that nobody asks for just now.
    pub fn forget_if_empty(&self, key: Key) {
        let mut owners = self.lock();
        let is_idle =
            |owner: &Arc<Owner>| Arc::strong_count(owner) == 1 && owner.held().ranges.is_empty();
        if owners.get(&key).is_some_and(is_idle) {
            owners.remove(&key);
        }
    }
}

impl LockCall {
    pub fn key(&self) -> Key {
        (self.ino, self.owner)
    }

    pub fn range(&self) -> LockRange {
        range_of(self.start, self.end)
    }

    /// The wait for it.
    pub fn wait(&self) -> Wait {
        let is_exclusive = self.kind == F_WRLCK;
        let wanted = Locked { start: self.start, last: self.end, is_exclusive };
        Wait { owner: self.owner, ino: self.ino, wanted }
    }

    /// The protocol's word for it; none to unlock.
    pub fn locktype(&self, waits: bool) -> Result<Option<LockType>, Errno> {
        match (self.kind, waits) {
            (F_RDLCK, false) => Ok(Some(LockType::Read)),
            (F_RDLCK, true) => Ok(Some(LockType::ReadBlocking)),
            (F_WRLCK, false) => Ok(Some(LockType::Write)),
            (F_WRLCK, true) => Ok(Some(LockType::WriteBlocking)),
            (F_UNLCK, _) => Ok(None),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Reclaims for Locks {
    fn requests(&self) -> Vec<Reclaim> {
        self.all().into_iter().flat_map(|((_, number), owner)| owner.reclaim(number)).collect()
    }
}

impl Owner {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the open that its last lock was taken through.
    pub fn through(&self) -> Option<u64> {
        self.held().through.as_ref().map(|(number, _)| *number)
    }

    /// Asks for a lock once; whether it was given.
    pub async fn take(
        &self,
        call: LockCall,
        open: &Arc<OpenFile>,
        locktype: LockType,
    ) -> Result<bool, ClientError> {
        let _turn = self.turn.lock().await;
        let owner = name_of(call.owner);
        match open.nodes.lock(&open.io, &owner, locktype, call.range()).await? {
            Answer::Denied(_) => Ok(false),
            Answer::Taken(stateid) => {
                let mut held = self.held();
                held.stateid = Some(stateid);
                held.through = Some((call.file, open.clone()));
                let is_exclusive = locktype.is_write();
                held.ranges.lock(Locked { start: call.start, last: call.end, is_exclusive });
                Ok(true)
            }
        }
    }

    /// Unlocks a range; with `only`, if the last lock was taken through that open.
    pub async fn unlock(&self, range: LockRange, only: Option<u64>) -> Result<(), ClientError> {
        let _turn = self.turn.lock().await;
        if only.is_some_and(|file| self.through() != Some(file)) {
            return Ok(());
        }
        let last = range.offset.saturating_add(range.length.saturating_sub(1));
        self.held().ranges.unlock(range.offset, last);
        loop {
            let (stateid, through) = {
                let held = self.held();
                (held.stateid, held.through.clone())
            };
            let (Some(stateid), Some((_, open))) = (stateid, through) else { return Ok(()) };
            let left = open.nodes.unlock(open.io.fh(), stateid, range).await?;
            let mut held = self.held();
            // It may have been reclaimed while it was given up.
            if left.is_some() || held.stateid == Some(stateid) {
                held.stateid = left;
                return Ok(());
            }
        }
    }

    /// What gives it back what it has, a few locks at a time.
    fn reclaim(self: Arc<Self>, number: u64) -> Vec<Reclaim> {
        let held = self.held();
        let Some((_, open)) = &held.through else { return Vec::new() };
        let locks: Vec<_> = held.ranges.iter().map(wire).collect();
        let request = |locks: &[(LockType, LockRange)]| {
            let owner = self.clone();
            let reclaimed = move |stateid| owner.held().stateid = Some(stateid);
            open.nodes.reclaiming(&open.io, &name_of(number), locks, reclaimed)
        };
        locks.chunks(LOCKS_AT_ONCE).map(request).collect()
    }

    /// Takes again what it has, if it is not had still.
    pub async fn take_again(&self, number: u64) -> Result<(), ClientError> {
        let _turn = self.turn.lock().await;
        let (through, locks) = {
            let held = self.held();
            (held.through.clone(), held.ranges.iter().collect::<Vec<_>>())
        };
        let Some((_, open)) = through else { return Ok(()) };
        let owner = name_of(number);
        for lock in locks {
            let (locktype, range) = wire(lock);
            let answer = open.nodes.lock(&open.io, &owner, locktype, range).await?;
            let mut held = self.held();
            match answer {
                Answer::Taken(stateid) => held.stateid = Some(stateid),
                Answer::Denied(_) => {
                    tracing::warn!(fh = ?open.io.fh(), "a lock was lost: somebody else has it");
                    open.has_lost_lock.store(true, Ordering::Release);
                    held.ranges.unlock(lock.start, lock.last);
                }
            }
        }
        Ok(())
    }
}

/// A lock in the protocol's words.
fn wire(lock: Locked) -> (LockType, LockRange) {
    let locktype = if lock.is_exclusive { LockType::Write } else { LockType::Read };
    (locktype, range_of(lock.start, lock.last))
}

fn range_of(start: u64, last: u64) -> LockRange {
    let length = if last >= LAST_BYTE { u64::MAX } else { last.saturating_sub(start) + 1 };
    LockRange { offset: start, length }
}

/// How the server knows an owner: by the kernel's number of it.
pub fn name_of(owner: u64) -> Opaque {
    Opaque(Bytes::copy_from_slice(&owner.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock up to the last byte that the kernel knows has no end; all others have a length.
    #[test]
    fn ranges_of_the_kernel() {
        assert_eq!(range_of(0, LAST_BYTE), LockRange::ALL);
        assert_eq!(range_of(5, 5), LockRange { offset: 5, length: 1 });
        assert_eq!(range_of(7, LAST_BYTE).length, u64::MAX);
    }
}
