//! How the changes of a file's bytes differ from each other, and why.

use tokio::sync::OwnedMutexGuard;
use weft_nfs::ClientId;
use weft_store::types::{InodeNo, Intent, SetIdLoss};

use super::records::{WritesBlocked, Writing};

/// Who changes a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    /// The client that asked.
    pub(crate) client: ClientId,
    /// Set-id bits that go, by who it is.
    pub(crate) set_id_loss: SetIdLoss,
}

/// Nobody else writes to the file, and nothing that was given out or given up before is carried
/// out on it, as long as this lives.
#[derive(Debug)]
pub(crate) struct Quiesced<'a> {
    blocked: WritesBlocked<'a>,
    _migration: Option<OwnedMutexGuard<()>>,
}

impl<'a> Quiesced<'a> {
    /// Whoever holds the block has seen to the rest.
    pub(super) fn new(blocked: WritesBlocked<'a>) -> Self {
        Quiesced { blocked, _migration: None }
    }

    /// The file.
    pub(crate) fn ino(&self) -> InodeNo {
        self.blocked.ino()
    }

    /// The file is not moved to its data servers either.
    pub(super) fn with_migration_locked(self, lock: OwnedMutexGuard<()>) -> Quiesced<'a> {
        Quiesced { _migration: Some(lock), ..self }
    }
}

/// Who else may change the file meanwhile.
#[derive(Debug)]
enum Excluded<'a> {
    /// Other writers, but no truncation.
    Writing(Writing<'a>),
    /// Nobody.
    Quiesced(Quiesced<'a>),
    /// Writers, who wait for the move and then go to the data servers; nobody else moves the file.
    Migrating { ino: InodeNo, _lock: OwnedMutexGuard<()> },
}

/// What is done about handles, and about requests, that were given out or given up before.
#[derive(Debug, Clone, Copy)]
pub(super) enum OlderHandles {
    /// A newer epoch travels with the change itself: data servers refuse older ones from the
    /// moment they see it, so that no message of its own is needed. If others raise the epoch
    /// meanwhile, it is tried again with theirs. With a client, what that client may have sent to
    /// data servers itself is outranked too.
    Outranked { late_writes_of: Option<ClientId> },
    /// The data servers are told before; the change has a newer epoch as well.
    Refused,
    /// The change has no epoch: data servers were told when the file was quiesced, and nothing was
    /// given out since.
    Quiesced,
}

/// What the volume learns at the end.
#[derive(Debug)]
pub(super) enum Settles {
    /// The data changed, and the file reaches as far as was done. After a failure some of it may
    /// be changed even so, which caches must not miss: the change attribute moves all the same.
    Written { set_id_loss: SetIdLoss },
    /// Space was reserved, and the file reaches as far. After a failure nothing has changed.
    Allocated { set_id_loss: SetIdLoss },
    /// It lets go of the bytes it had, durably. After a failure it still has them.
    Moved,
    /// Some copies had other bytes, if anything was done: so did who read those. After a failure
    /// they may differ, as before.
    Compared,
    /// The copies of the file are alike, and the volume says so. After a failure they may differ,
    /// as before.
    Alike,
    /// The truncation that it recorded is done, durably. After a failure, or a panic, the reaper
    /// goes on with it, and nobody writes before that.
    Truncated(Option<Intent>),
}

/// How one change differs from the others.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    excluded: Excluded<'a>,
    pub(super) older: OlderHandles,
    /// The file is marked, durably, before it may come to reach further than the volume says.
    pub(super) extends_to: Option<u64>,
    /// Objects may come to be for bytes up to there: the file is let reach so far before, durably.
    pub(super) writes_to: Option<u64>,
    pub(super) settles: Settles,
}

impl<'a> Plan<'a> {
    /// The file.
    pub(super) fn ino(&self) -> InodeNo {
        match &self.excluded {
            Excluded::Writing(writing) => writing.ino(),
            Excluded::Quiesced(quiesced) => quiesced.ino(),
            Excluded::Migrating { ino, .. } => *ino,
        }
    }

    /// Gives up the truncation that is not done, if there is one. Its file stays closed to writers.
    pub(super) fn take_unfinished(&mut self) -> Option<Intent> {
        let Settles::Truncated(intent) = &mut self.settles else { return None };
        let intent = intent.take()?;
        if let Excluded::Quiesced(quiesced) = &mut self.excluded {
            quiesced.blocked.stay();
        }
        Some(intent)
    }

    /// Whether it leaves bytes that were there before. What moves brings all there is, and a
    /// truncation was looked at before it was recorded.
    pub(super) fn builds_on_what_is_there(&self) -> bool {
        match self.settles {
            Settles::Written { .. }
            | Settles::Allocated { .. }
            | Settles::Compared
            | Settles::Alike => true,
            Settles::Moved | Settles::Truncated(_) => false,
        }
    }

    /// Whether a failure may have changed bytes, or left something to be carried out later.
    pub(super) fn leaves_traces(&self) -> bool {
        match self.settles {
            Settles::Written { .. } | Settles::Moved | Settles::Compared => true,
            Settles::Allocated { .. } | Settles::Alike | Settles::Truncated(_) => false,
        }
    }

    /// Whether a failure, or a crash in the middle, may leave the copies of a replicated file
    /// different. A truncation is finished, whatever happens, and who reserves space changes no
    /// byte.
    pub(super) fn may_part_copies(&self) -> bool {
        match self.settles {
            Settles::Written { .. } | Settles::Moved => true,
            Settles::Allocated { .. }
            | Settles::Compared
            | Settles::Alike
            | Settles::Truncated(_) => false,
        }
    }

    /// WRITE up to `end`. A client that was given handles to write with and yet writes through
    /// here has given up on a data server, where its first attempt may still be queued.
    pub(super) fn write(writing: Writing<'a>, by: Writer, end: u64) -> Self {
        Plan {
            excluded: Excluded::Writing(writing),
            older: OlderHandles::Outranked { late_writes_of: Some(by.client) },
            extends_to: Some(end),
            writes_to: Some(end),
            settles: Settles::Written { set_id_loss: by.set_id_loss },
        }
    }

    /// One step of a COPY that ends at `end`. Data servers learn no epoch from copying among
    /// themselves: they are told before. The client's own late writes are no matter here: it waits
    /// for its writes before it copies (Linux: `_nfs42_proc_copy` calls `nfs_sync_inode`).
    pub(super) fn copy(writing: Writing<'a>, end: u64, set_id_loss: SetIdLoss) -> Self {
        Plan {
            excluded: Excluded::Writing(writing),
            older: OlderHandles::Refused,
            extends_to: Some(end),
            writes_to: Some(end),
            settles: Settles::Written { set_id_loss },
        }
    }

    /// ALLOCATE. It changes no byte, so there is nothing for a late write to collide with, and
    /// nothing to tell after a failure. The objects keep their sizes until the volume says that the
    /// file is longer: a crash leaves nothing behind the end that could show, so there is no mark.
    pub(super) fn allocate(writing: Writing<'a>, by: Writer, end: u64) -> Self {
        Plan {
            excluded: Excluded::Writing(writing),
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: None,
            writes_to: Some(end),
            settles: Settles::Allocated { set_id_loss: by.set_id_loss },
        }
    }

    /// DEALLOCATE: alone with the file, since what the hole swallows must have been there before.
    /// It never makes a file longer.
    pub(super) fn punch(alone: Quiesced<'a>, by: Writer) -> Self {
        Plan {
            excluded: Excluded::Quiesced(alone),
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: None,
            writes_to: None,
            settles: Settles::Written { set_id_loss: by.set_id_loss },
        }
    }

    /// CLONE up to `end`: alone with the file, as a truncation.
    pub(super) fn clone_range(alone: Quiesced<'a>, by: Writer, end: u64) -> Self {
        Plan {
            excluded: Excluded::Quiesced(alone),
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: Some(end),
            writes_to: Some(end),
            settles: Settles::Written { set_id_loss: by.set_id_loss },
        }
    }

    /// A part of the copies of a file is compared, and those that differ get what the first has:
    /// beside other writers, who change all of them.
    pub(super) fn compare(writing: Writing<'a>) -> Self {
        Plan {
            excluded: Excluded::Writing(writing),
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: None,
            writes_to: None,
            settles: Settles::Compared,
        }
    }

    /// The copies of a file become alike: alone with it, as a truncation. No byte changes.
    pub(super) fn make_alike(alone: Quiesced<'a>) -> Self {
        Plan {
            excluded: Excluded::Quiesced(alone),
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: None,
            writes_to: None,
            settles: Settles::Alike,
        }
    }

    /// The bytes of a small file leave the volume. Their new place is recorded, which is mark
    /// enough: until the volume lets go of the bytes it is what counts. All of them are of the
    /// first stripe unit, which every file reaches.
    pub(super) fn migrate(ino: InodeNo, lock: OwnedMutexGuard<()>) -> Self {
        Plan {
            excluded: Excluded::Migrating { ino, _lock: lock },
            older: OlderHandles::Outranked { late_writes_of: None },
            extends_to: None,
            writes_to: None,
            settles: Settles::Moved,
        }
    }

    /// SETATTR of a size, recorded as this intent: that is its mark. A failure makes nothing
    /// suspect: data servers never carry a truncation out after a later request of ours.
    pub(super) fn truncate(alone: Quiesced<'a>, intent: Intent) -> Self {
        Plan {
            excluded: Excluded::Quiesced(alone),
            older: OlderHandles::Quiesced,
            extends_to: None,
            writes_to: None,
            settles: Settles::Truncated(Some(intent)),
        }
    }
}
