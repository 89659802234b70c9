//! Requests for locks: asked for, waited for, and given up with whoever had them.

use std::{sync::Arc, time::Duration};

use fuser::Errno;
use weft_client::node::LockRange;
use weft_nfs::{LockType, ops::LockDenied};

use crate::{
    errno::OrErrno,
    lock_waits::Wait,
    locks::{F_RDLCK, F_UNLCK, F_WRLCK, Key, LAST_BYTE, LockCall, Told, name_of},
    signals::is_interrupted,
    slots::OpenFile,
    tree::Tree,
    unlocking::UnlockGuard,
};

/// Who waits looks this often whether he is interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many looks after a denial the server is asked again, whether it has called or not: at first
/// as often as we look, then more seldom.
const LOOKS_MAX: u32 = 10;
/// Time within which another thread registers a RELEASE that it has read from the kernel.
const NOTED_WITHIN: Duration = Duration::from_millis(5);

impl Tree {
    /// `F_SETLK` and `F_SETLKW`: with `waits`, the thread that waits until it has the lock or is
    /// interrupted.
    pub async fn set_lock(&self, call: LockCall, waits: Option<u32>) -> Result<(), Errno> {
        let Some(locktype) = call.locktype(waits.is_some())? else {
            return self.unlock(call.key(), call.range(), None).await;
        };
        self.unlocking.ended(call.ino).await;
        let open = self.files.get(call.file).ok_or(Errno::EBADF)?;
        let shares = matches!(locktype, LockType::Read | LockType::ReadBlocking);
        if shares && self.locks.get(call.key()).is_some() {
            // A lock to write may become one to read, beside which others read.
            self.send_written(call.ino).await?;
        }
        let taken = self.take_lock(call, &open, locktype, waits).await;
        self.locks.forget_if_empty(call.key());
        taken?;
        // What others have written under the lock is to be seen under it, and how long the file is.
        self.written(call.ino);
        self.forget_pages(call.ino).await;
        Ok(())
    }

    async fn take_lock(
        &self,
        call: LockCall,
        open: &Arc<OpenFile>,
        locktype: LockType,
        waits: Option<u32>,
    ) -> Result<(), Errno> {
        let owner = self.locks.get_or_add(call.key(), call.pid);
        let (mut looks, mut waiting, mut is_first) = (1, None, true);
        loop {
            let notice = open.nodes.lock_notice();
            let is_ours = !self.locks.holders_against(&call.wait()).is_empty();
            if owner.take(call, open, locktype).await.or_errno()? {
                return Ok(());
            }
            let Some(thread) = waits else {
                if !std::mem::take(&mut is_first) || !is_ours {
                    return Err(Errno::EAGAIN);
                }
                self.unlocked_by_now(call.ino).await;
                continue;
            };
            if waiting.is_none() {
                let in_the_way = |wait: &Wait| self.locks.holders_against(wait);
                let begun = self.locks.waits.begin(call.wait(), in_the_way);
                waiting = Some(begun.ok_or(Errno::EDEADLK)?);
            }
            tokio::pin!(notice);
            for _ in 0..looks {
                let called = tokio::time::timeout(LOOK_EVERY, &mut notice).await.is_ok();
                if is_interrupted(thread) {
                    return Err(Errno::EINTR);
                }
                if called {
                    break;
                }
            }
            looks = (looks * 2).min(LOOKS_MAX);
        }
    }

    /// Waits for releases that may free a conflicting lock of this mount: the holder may already
    /// have closed the file.
    async fn unlocked_by_now(&self, ino: u64) {
        tokio::time::sleep(NOTED_WITHIN).await;
        self.unlocking.ended(ino).await;
    }

    /// `F_GETLK`: the lock in the way.
    pub async fn lock_in_the_way(&self, call: LockCall) -> Result<Told, Errno> {
        self.unlocking.ended(call.ino).await;
        let open = self.files.get(call.file).ok_or(Errno::EBADF)?;
        let none = Told { start: 0, end: 0, kind: F_UNLCK, pid: 0 };
        let Some(locktype) = call.locktype(false)? else { return Ok(none) };
        let (fh, owner) = (open.io.fh(), name_of(call.owner));
        let ask = || open.nodes.lock_in_the_way(fh, &owner, locktype, call.range());
        let mut denied = ask().await.or_errno()?;
        let holder = |denied: &LockDenied| self.locks.pid_of(call.ino, &denied.owner.owner);
        if denied.as_ref().is_some_and(|denied| holder(denied).is_some()) {
            self.unlocked_by_now(call.ino).await;
            denied = ask().await.or_errno()?;
        }
        let Some(denied) = denied else { return Ok(none) };
        let pid = holder(&denied);
        Ok(Told {
            start: denied.offset,
            end: denied.offset.saturating_add(denied.length.saturating_sub(1)).min(LAST_BYTE),
            kind: if denied.locktype.is_write() { F_WRLCK } else { F_RDLCK },
            // A process of another machine has no number here.
            pid: pid.unwrap_or(0),
        })
    }

    /// Unlocks a range; what was written under the lock can be seen by others before. It is
    /// unlocked also where that cannot be, which is an error then: others are not to wait for a
    /// disk with room.
    async fn unlock(&self, key: Key, range: LockRange, only: Option<u64>) -> Result<(), Errno> {
        let Some(owner) = self.locks.get(key) else { return Ok(()) };
        let committed = self.send_written(key.0).await;
        let unlocked = owner.unlock(range, only).await.or_errno();
        drop(owner);
        self.locks.forget_if_empty(key);
        committed.and(unlocked)
    }

    /// Sends what was written to a file through any open and any mapping, so that other clients
    /// see it.
    ///
    /// # Errors
    /// That of the first open whose data cannot leave; those of the others are sent all the same.
    async fn send_written(&self, ino: u64) -> Result<(), Errno> {
        if self.inodes.may_have_mapped_writes(ino) {
            // The kernel sends what was written through mappings.
            self.forget_pages(ino).await;
        }
        let mut committed = Ok(());
        for io in self.inodes.opens(ino) {
            committed = committed.and(io.commit_for_others().await.or_errno());
        }
        committed
    }

    /// A process closes a file: what it has locked of it, through whichever open, is unlocked.
    pub async fn unlock_owner(&self, ino: u64, owner: u64) -> Result<(), Errno> {
        self.unlock((ino, owner), LockRange::ALL, None).await
    }

    /// Starts the release of the locks taken through an open; `None` if there are none.
    pub fn unlocking_through(&self, ino: u64, file: u64) -> Option<UnlockGuard> {
        let is_locked = !self.locks.taken_through(ino, file).is_empty();
        is_locked.then(|| self.unlocking.begin(ino))
    }

    /// Unlocks what was taken through an open, which is closed: not what the same owner has taken
    /// through another meanwhile. To the kernel a program that opens a file, locks it by `flock(2)`
    /// and closes it may be the same owner the next time.
    pub async fn unlock_through(&self, ino: u64, file: u64) {
        for key in self.locks.taken_through(ino, file) {
            if let Err(e) = self.unlock(key, LockRange::ALL, Some(file)).await {
                tracing::warn!(ino, "not unlocked: {e:?}");
            }
        }
    }

    /// Takes all locks again that a server has forgotten. What somebody else has by now is lost:
    /// from then on the open that it was taken through reads and writes no more.
    pub async fn take_locks_again(&self) {
        for ((ino, number), owner) in self.locks.all() {
            if let Err(e) = owner.take_again(number).await {
                tracing::warn!(ino, "a lock could not be taken again: {e}");
            }
        }
    }
}
