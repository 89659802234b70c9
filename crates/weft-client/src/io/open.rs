//! One open of a file: what it gave, and its stateid.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::OwnedMutexGuard;
use weft_nfs::{
    FileHandle, OpArgs, Seqid, StateOwner, Stateid, open_result,
    ops::{CloseArgs, OpenArgs, OpenClaim},
    share,
};

use super::{
    closes::{Closes, LateClose},
    policy::IoPolicy,
    source::PieceReport,
};
use crate::{
    cache::Moment,
    error::ClientError,
    limits,
    rpc::Credential,
    session::Session,
    sync::{Mutex, MutexGuard},
};

/// Below these sizes I/O goes through the metadata server (attribute 68, design D7).
#[derive(Debug, Clone, Copy, Default)]
pub struct Thresholds {
    /// For reading.
    pub read_size: u64,
    /// For writing.
    pub write_size: u64,
}

/// When a server was asked, as far as that matters for what it answers.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// How often the server had forgotten us.
    pub(crate) losses: u64,
    pub(crate) moment: Moment,
}

/// What a delegation of the file says of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// Nothing: none is held.
    Nothing,
    /// It was granted with this open, then; nothing of what was before.
    Granted(Since),
    /// No other client has changed the file since then.
    Delegation(Since),
    /// The same, and the server does not know of the open: its stateid is the delegation's.
    DelegationAlone(Since),
}

/// When this client learnt that it had been granted a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since(pub(crate) Moment);

impl Under {
    /// Whether what was found to be true at that moment still is.
    pub(super) fn vouches_since(self, then: Moment) -> bool {
        match self {
            Under::Nothing | Under::Granted(_) => false,
            Under::Delegation(Since(granted)) | Under::DelegationAlone(Since(granted)) => {
                granted <= then
            }
        }
    }

    /// Of when it is at least, what the server told with an open that was asked for at that moment.
    pub(super) fn told_at(self, asked_at: Moment) -> Moment {
        match self {
            Under::Nothing => asked_at,
            Under::Granted(Since(at))
            | Under::Delegation(Since(at))
            | Under::DelegationAlone(Since(at)) => at,
        }
    }
}

/// What an open gave.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The file.
    pub fh: FileHandle,
    /// The open.
    pub stateid: Stateid,
    /// The open-owner it was made under.
    pub owner: StateOwner,
    /// Whose it is: what is read and written under it goes in this user's name.
    pub caller: Credential,
    /// [`share`] bits.
    pub access: u32,
    /// Size at open.
    pub size: u64,
    /// Change attribute at open.
    pub change: Option<u64>,
    /// How its data travel.
    pub policy: IoPolicy,
    /// Hints of the server.
    pub thresholds: Thresholds,
    /// Before the server was asked.
    pub asked: Asked,
    /// What a delegation says of it.
    pub delegation: Under,
    /// Result flags of the OPEN ([`open_result`]).
    pub rflags: u32,
}

/// What is known of an open. When nobody uses it any more, nor sends what was written under it, the
/// server is told that it has ended, unless it was before.
pub(super) struct Open {
    pub(super) opened: Opened,
    /// The metadata server, for the user whose open it is.
    pub(super) mds: Session,
    closes: Arc<Closes>,
    /// The server was told that it has ended.
    is_closed: AtomicBool,
    stateid: Mutex<Stateid>,
    /// How often the server had forgotten us when it was opened last.
    losses: AtomicU64,
    reopens: Mutex<u32>,
    report: Mutex<Option<PieceReport>>,
    /// The server calls when a lock may be free that was denied under it.
    is_notified: AtomicBool,
    /// It was looked into why it does not.
    asked_for_notices: AtomicBool,
    /// The server does not know of it: it relies on a delegation.
    is_alone: AtomicBool,
    telling: Arc<tokio::sync::Mutex<()>>,
}

/// Who wrote something: an open, which is no other one however alike they are.
#[derive(Clone)]
pub(super) struct Writer(pub(super) Arc<Open>);

impl PartialEq for Writer {
    fn eq(&self, other: &Writer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Open {
    pub(super) fn new(opened: Opened, mds: Session, closes: Arc<Closes>) -> Open {
        Open {
            mds,
            closes,
            is_closed: AtomicBool::new(false),
            stateid: Mutex::new(opened.stateid),
            losses: AtomicU64::new(opened.asked.losses),
            reopens: Mutex::new(0),
            report: Mutex::default(),
            is_notified: AtomicBool::new(notifies(opened.rflags)),
            asked_for_notices: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            telling: Arc::default(),
            opened,
        }
    }

    /// OPEN of the file as it was opened first.
    pub(super) fn opening(&self, claim: OpenClaim) -> OpArgs {
        OpArgs::Open(OpenArgs {
            seqid: Seqid(0),
            share_access: self.opened.access | share::WANT_NO_DELEG,
            share_deny: share::DENY_NONE,
            owner: self.opened.owner.clone(),
            openhow: None,
            claim,
        })
    }

    /// The server, which had forgotten us so often before it was asked, opened it again.
    pub(super) fn opened_again(&self, (stateid, rflags): (Stateid, u32), losses: u64) {
        *self.lock_stateid() = stateid;
        self.is_closed.store(false, Ordering::Release);
        self.is_notified.store(notifies(rflags), Ordering::Release);
        self.losses.store(losses, Ordering::Release);
    }

    /// How often the server had forgotten us when it was opened last: if it is more often by now,
    /// the server does not know the open.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// The stateid as the server gave it.
    pub(super) fn lock_stateid(&self) -> MutexGuard<'_, Stateid> {
        self.stateid.lock()
    }

    /// The stateid as I/O sends it: seqid 0 means the current one (RFC 8881 §8.2.2).
    pub(super) fn io_stateid(&self) -> Stateid {
        Stateid { seqid: Seqid(0), ..*self.lock_stateid() }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.opened.access & share::ACCESS_WRITE != 0
    }

    /// Whether to open it again since the server does not call when a lock may be free that was
    /// denied under it: once.
    pub(super) fn lacks_notices(&self) -> bool {
        let is_notified = self.is_notified.load(Ordering::Acquire);
        !is_notified && !self.asked_for_notices.swap(true, Ordering::AcqRel)
    }

    /// The turn of who tells the server of it, or sees to it that nobody will.
    pub(super) async fn telling(&self) -> OwnedMutexGuard<()> {
        self.telling.clone().lock_owned().await
    }

    /// CLOSE of it.
    pub(super) fn close(&self) -> OpArgs {
        close(*self.lock_stateid())
    }

    /// The same, to be sent later.
    pub(super) fn late_close(&self) -> LateClose {
        LateClose { mds: self.mds.clone(), fh: self.opened.fh.clone(), close: self.close() }
    }

    /// The server was told that it has ended, or is being told.
    pub(super) fn set_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Whether the server was told that it has ended, or never knew of it.
    pub(super) fn is_closed(&self) -> bool {
        let was_never_told = matches!(self.opened.delegation, Under::DelegationAlone(_))
            && *self.lock_stateid() == self.opened.stateid;
        was_never_told || self.is_closed.load(Ordering::Acquire)
    }

    /// Whether the server does not know of it.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// From now on the server does not know of it, or does; whether it did not.
    pub(super) fn set_alone(&self, is_alone: bool) -> bool {
        self.is_alone.swap(is_alone, Ordering::AcqRel)
    }

    /// From now on tells of each piece of it that arrives.
    pub(super) fn report_to(&self, report: PieceReport) {
        *self.report.lock() = Some(report);
    }

    /// A piece has arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        let report = self.report.lock().clone();
        if let Some(report) = report {
            report(bytes);
        }
    }

    /// Counts one more time of opening again, if it may be.
    ///
    /// # Errors
    /// [`ClientError::OpenLost`] after [`limits::REOPENS_MAX`].
    pub(super) fn count_reopen(&self) -> Result<(), ClientError> {
        let mut reopens = self.reopens.lock();
        if *reopens >= limits::REOPENS_MAX {
            return Err(ClientError::OpenLost);
        }
        *reopens += 1;
        Ok(())
    }

    /// The server has answered under the open that was made again.
    pub(super) fn is_kept(&self) {
        *self.reopens.lock() = 0;
    }
}

impl Drop for Open {
    /// Who gave up an OPEN, or did not wait for the end of a close, leaves nothing open.
    fn drop(&mut self) {
        if !self.is_closed() {
            self.closes.send_for_nobody(self.late_close());
        }
    }
}

/// CLOSE of an open (RFC 8881 §18.2).
pub(crate) fn close(open_stateid: Stateid) -> OpArgs {
    OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid })
}

/// OPEN4_RESULT_MAY_NOTIFY_LOCK (RFC 8881 §18.16.3).
fn notifies(rflags: u32) -> bool {
    rflags & open_result::MAY_NOTIFY_LOCK != 0
}
