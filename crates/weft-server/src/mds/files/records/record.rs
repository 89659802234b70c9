//! What is remembered of one file beside the volume: a pure state machine.

use std::collections::BTreeMap;

use weft_nfs::ClientId;

use super::size_authority::SizeRecord;

/// When things last happened to a file, on a clock of their own. Equal marks before and after a
/// question mean that nothing of the kind happened between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::mds) struct Marks {
    /// A truncation began or ended.
    pub(in crate::mds) truncated: u64,
    /// A write layout was granted.
    pub(in crate::mds) granted: u64,
    /// Handles given out became suspect.
    pub(in crate::mds) suspected: u64,
    /// An indirect write began or ended.
    pub(in crate::mds) written: u64,
}

impl Marks {
    /// Everything may have happened at this time.
    pub(in crate::mds) fn all(at: u64) -> Marks {
        Marks { truncated: at, granted: at, suspected: at, written: at }
    }
}

/// Why handles given out must stop working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mds) enum FenceCause {
    /// A write that its sender gave up may still be carried out. Only what relies on there being
    /// none must wait: indirect writes, truncations, settling. New handles outrank the old ones.
    LateWrite,
    /// The holder lost its right to write: revoked, dead, or of before a restart. Nobody is given
    /// a layout before the old handles are known to be worthless.
    Revoked,
}

/// The file's epoch must be raised in the volume, then told to its data servers (design D5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mds) struct Stale {
    /// The time of the last suspicion that needed a new epoch; names it for
    /// [`super::Table::told`].
    pub(in crate::mds) since: u64,
    /// The volume has raised the epoch since.
    pub(in crate::mds) raised: bool,
    /// There is a [`FenceCause::Revoked`] among the reasons.
    pub(in crate::mds) blocks_grants: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(in crate::mds) struct FileRecord {
    pub(in crate::mds) marks: Marks,
    /// Truncations under way, or waiting for a data server: at most one of requests, and those a
    /// crash left over.
    pub(in crate::mds) truncations: usize,
    /// Indirect writes under way.
    pub(in crate::mds) writers: usize,
    /// Epoch of the last writable handles each client was given, kept beyond their return: what
    /// it sent with them may still be under way.
    pub(in crate::mds) given: BTreeMap<ClientId, u32>,
    pub(in crate::mds) stale: Option<Stale>,
    /// Who knows its size.
    pub(in crate::mds) size: SizeRecord,
}

impl FileRecord {
    pub(in crate::mds) fn begin_truncation(&mut self, now: u64) {
        self.truncations += 1;
        self.marks.truncated = now;
    }

    pub(in crate::mds) fn end_truncation(&mut self, now: u64) {
        debug_assert!(self.truncations > 0, "ended without a beginning");
        self.truncations = self.truncations.saturating_sub(1);
        self.marks.truncated = now;
    }

    /// Writable handles of this epoch go to a client.
    pub(in crate::mds) fn grant(&mut self, client: ClientId, epoch: u32, now: u64) {
        self.given.insert(client, epoch);
        self.marks.granted = now;
        self.size.granted();
    }

    /// Handles up to the present epoch are suspect.
    pub(in crate::mds) fn suspect(&mut self, why: FenceCause, now: u64) {
        let blocked = self.stale.is_some_and(|s| s.blocks_grants);
        let blocks_grants = blocked || why == FenceCause::Revoked;
        self.stale = Some(Stale { since: now, raised: false, blocks_grants });
        self.marks.suspected = now;
    }

    /// Handles of the client are suspect, which may need no new epoch: those of an earlier one
    /// are outranked already, and what is left is to tell the data servers.
    pub(in crate::mds) fn suspect_handles_of(
        &mut self,
        client: ClientId,
        epoch: u32,
        why: FenceCause,
        now: u64,
    ) {
        let outranked = self.given.get(&client).is_some_and(|given| *given < epoch);
        match &mut self.stale {
            Some(stale) if stale.raised && outranked => {
                stale.blocks_grants |= why == FenceCause::Revoked;
            }
            _ => self.suspect(why, now),
        }
    }

    /// The epoch is raised for everything suspected so far.
    pub(in crate::mds) fn raised(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.raised = true;
        }
    }

    /// Every data server refuses what is older than `epoch`, which was raised for the suspicion of
    /// `since`. A later one stands.
    pub(in crate::mds) fn told(&mut self, since: u64, epoch: u32) {
        self.given.retain(|_, given| *given >= epoch);
        if self.stale.is_some_and(|s| s.since == since) {
            self.stale = None;
        }
    }

    /// Whether nothing would be lost with this record but handles given out.
    pub(in crate::mds) fn is_idle(&self) -> bool {
        self.truncations == 0 && self.writers == 0 && self.stale.is_none()
    }
}
