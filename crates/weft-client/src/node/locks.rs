//! Byte-range locks: LOCK, LOCKT, LOCKU. What a lock owner holds is kept by whoever calls.

use std::sync::{Arc, Weak};

use weft_nfs::{
    ClientId, FailureBody, FileHandle, LockType, OpArgs, OpNum, OpOk, Opaque, Seqid, StateOwner,
    Stateid,
    ops::{LockArgs, LockDenied, Locker, LocktArgs, LockuArgs},
};

use super::{Nodes, putfh};
use crate::{
    error::ClientError,
    io::FileIo,
    session::{CompoundOutcome, Reclaim, Reclaims},
};

/// Bytes of a file that are locked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    /// The first byte.
    pub offset: u64,
    /// Bytes; `u64::MAX`: to the end of the file, wherever that is.
    pub length: u64,
}

impl LockRange {
    /// All bytes that a file can have.
    pub const ALL: LockRange = LockRange { offset: 0, length: u64::MAX };
}

/// How a lock was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locked {
    /// The owner has it: the lock state that all its locks of the file are under.
    Taken(Stateid),
    /// This one is in its way.
    Denied(LockDenied),
}

impl Nodes {
    /// Takes a lock under an open (RFC 8881 §18.10), or changes what the owner has locked already.
    /// The file is opened again if the server has forgotten the open. Nothing waits for a lock
    /// here; the server is told who will, and calls when it is worth asking again
    /// ([`Nodes::lock_notice`]).
    ///
    /// # Errors
    /// OPENMODE if the open is not one for that kind; [`ClientError`].
    pub async fn lock(
        &self,
        io: &FileIo,
        owner: &Opaque,
        locktype: LockType,
        range: LockRange,
    ) -> Result<Locked, ClientError> {
        let locked = self.try_lock(io, owner, locktype, range).await?;
        if matches!(locked, Locked::Taken(_)) || !io.lacks_notices() {
            return Ok(locked);
        }
        // Who has a file delegated could take locks by himself, and servers do not call him (ours
        // does not). Files that are locked in turns are better not delegated.
        self.returns.give_back_file(io.fh()).await;
        io.open_again().await?;
        self.try_lock(io, owner, locktype, range).await
    }

    async fn try_lock(
        &self,
        io: &FileIo,
        owner: &Opaque,
        locktype: LockType,
        range: LockRange,
    ) -> Result<Locked, ClientError> {
        io.under_open(|open_stateid| async move {
            let locker = Locker::New { open_stateid, lock_owner: owner_of(owner) };
            let LockRange { offset, length } = range;
            let lock = LockArgs { locktype, reclaim: false, offset, length, locker };
            match last_or_denied(self.ask(io.fh(), || OpArgs::Lock(lock.clone())).await?)? {
                Ok(OpOk::Lock(ok)) => Ok(Locked::Taken(ok.stateid)),
                Ok(_) => Err(ClientError::unexpected(OpNum::LOCK)),
                Err(denied) => Ok(Locked::Denied(denied)),
            }
        })
        .await
    }

    /// What gives an owner its locks back from a server that has started anew (RFC 8881 §9.6.2.1),
    /// with the open that they were taken through. The lock state is told if all were given.
    pub fn reclaiming(
        &self,
        io: &Arc<FileIo>,
        owner: &Opaque,
        locks: &[(LockType, LockRange)],
        done: impl FnOnce(Stateid) + Send + 'static,
    ) -> Reclaim {
        let mut ops = vec![putfh(io.fh()), io.reclaiming()];
        for (locktype, range) in locks {
            let locker = match ops.len() {
                2 => {
                    let lock_owner = owner_of(owner);
                    Locker::New { open_stateid: Stateid::CURRENT, lock_owner }
                }
                _ => Locker::Existing { lock_stateid: Stateid::CURRENT },
            };
            let (locktype, LockRange { offset, length }) = (*locktype, *range);
            let reclaim = true;
            ops.push(OpArgs::Lock(LockArgs { locktype, reclaim, offset, length, locker }));
        }
        let (wanted, io) = (ops.len(), io.clone());
        let done = Box::new(move |granted: Vec<OpOk>| {
            if let Some(OpOk::Open(open)) = granted.get(1) {
                io.reclaimed(open.stateid, open.rflags);
            }
            if let Some(OpOk::Lock(lock)) = granted.last().filter(|_| granted.len() == wanted) {
                done(lock.stateid);
            }
        });
        Reclaim { caller: self.caller().clone(), ops, done }
    }

    /// One more that is asked what to reclaim whenever the server has started anew, while it lives.
    pub fn reclaim_with(&self, reclaims: Weak<dyn Reclaims>) {
        self.mds.reclaim_with(reclaims);
    }

    /// The lock that an owner would have in its way (RFC 8881 §18.11).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn lock_in_the_way(
        &self,
        fh: &FileHandle,
        owner: &Opaque,
        locktype: LockType,
        range: LockRange,
    ) -> Result<Option<LockDenied>, ClientError> {
        let LockRange { offset, length } = range;
        let test = LocktArgs { locktype, offset, length, owner: owner_of(owner) };
        let asked = self.ask(fh, || OpArgs::Lockt(test.clone())).await?;
        Ok(last_or_denied(asked)?.err())
    }

    /// Gives up what is locked of a range (RFC 8881 §18.12); the lock state after that. None if
    /// the server had forgotten it: then nothing is locked.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn unlock(
        &self,
        fh: &FileHandle,
        lock_stateid: Stateid,
        range: LockRange,
    ) -> Result<Option<Stateid>, ClientError> {
        let LockRange { offset, length } = range;
        let locktype = LockType::Write;
        // The current one, whatever an answer that did not arrive has made of it (§8.2.2).
        let lock_stateid = Stateid { seqid: Seqid(0), ..lock_stateid };
        let unlock = LockuArgs { locktype, seqid: Seqid(0), lock_stateid, offset, length };
        let asked = self.ask(fh, || OpArgs::Locku(unlock.clone())).await?;
        match asked.into_result() {
            Ok(mut done) => match done.pop() {
                Some(OpOk::Locku(ok)) => {
                    // No server calls us for what we free ourselves of a file that is delegated.
                    self.lock_notices.notify_waiters();
                    Ok(Some(ok.stateid))
                }
                _ => Err(ClientError::unexpected(OpNum::LOCKU)),
            },
            Err(e) if e.is_lost_state() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Ends when a server next says that a lock somebody here waits for may be free (RFC 8881
    /// §20.11). A hint: it may come for another lock, and a server need not say anything.
    pub fn lock_notice(&self) -> impl Future<Output = ()> + '_ {
        // What is said from now on counts, polled or not.
        self.lock_notices.notified()
    }

    /// How often the server has forgotten this client. When it grows, all locks are gone.
    pub fn losses(&self) -> u64 {
        self.mds.losses()
    }

    /// Asks it of a file, once more if the session was lost meanwhile: to take a lock again that
    /// one has, or to give one up again that is gone, does no harm.
    async fn ask(
        &self,
        fh: &FileHandle,
        op: impl Fn() -> OpArgs,
    ) -> Result<CompoundOutcome, ClientError> {
        match self.mds.compound_outcome(vec![putfh(fh), op()]).await {
            Err(ClientError::OutcomeUnknown { .. }) => {
                self.mds.compound_outcome(vec![putfh(fh), op()]).await
            }
            asked => asked,
        }
    }
}

/// The last result, or the lock in the way.
fn last_or_denied(asked: CompoundOutcome) -> Result<Result<OpOk, LockDenied>, ClientError> {
    if let Some(failed) = &asked.failed
        && let FailureBody::Denied(denied) = &failed.failure.body
    {
        return Ok(Err(denied.clone()));
    }
    let last = asked.into_result()?.pop();
    last.map(Ok).ok_or(ClientError::unexpected(OpNum::LOCK))
}

/// Servers know whose it is by the session (RFC 8881 §18.10.3).
fn owner_of(owner: &Opaque) -> StateOwner {
    StateOwner { clientid: ClientId(0), owner: owner.clone() }
}
