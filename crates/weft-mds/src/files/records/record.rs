//! What is remembered of one file beside the volume: a pure state machine.

use std::collections::BTreeMap;

use weft_nfs::{ClientId, Verifier};
use weft_store::types::fence_epoch::fence_of;

use super::{indirect_writes::IndirectWrites, size_authority::SizeRecord};

/// When things last happened to a file, on a clock of their own. Equal marks before and after a
/// question mean that nothing of the kind happened between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// A truncation began or ended.
    pub(crate) truncated: u64,
    /// A write layout was granted.
    pub(crate) granted: u64,
    /// Handles given out became suspect.
    pub(crate) suspected: u64,
    /// An indirect write began or ended.
    pub(crate) written: u64,
}

impl Marks {
    /// Everything may have happened at this time.
    pub(crate) fn all(at: u64) -> Marks {
        Marks { truncated: at, granted: at, suspected: at, written: at }
    }
}

/// Why handles given out must stop working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceCause {
    /// A write that its sender gave up may still be carried out. Only what relies on there being
    /// none must wait: indirect writes, truncations, settling. New handles outrank the old ones.
    LateWrite,
    /// The holder lost its right to write: revoked, dead, or of before a restart. Nobody is given
    /// a layout before the old handles are known to be worthless.
    Revoked,
}

/// The file's epoch must be raised in the volume, then told to its data servers (design D5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The time of the last suspicion that needed a new epoch; names it for
    /// [`super::Table::told`].
    pub(crate) since: u64,
    /// The volume has raised the epoch since.
    pub(crate) raised: bool,
    /// There is a [`FenceCause::Revoked`] among the reasons.
    pub(crate) blocks_grants: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct FileRecord {
    pub(crate) marks: Marks,
    /// Truncations under way, or waiting for a data server: at most one of requests, and those a
    /// crash left over.
    pub(crate) truncations: usize,
    /// Indirect writes under way.
    pub(crate) writers: usize,
    /// Epoch of the last writable handles each client was given, kept beyond their return: what
    /// it sent with them may still be under way.
    pub(crate) given: BTreeMap<ClientId, u32>,
    /// The verifier that data servers tell holders of the last of these.
    pub(crate) verifier: Option<Verifier>,
    pub(crate) stale: Option<Stale>,
    /// Who knows its size.
    pub(crate) size: SizeRecord,
    /// What was written through here since it was last taken in.
    pub(crate) indirect: Option<Box<IndirectWrites>>,
    /// Epochs up to this one are durable in the volume.
    pub(crate) durable_epoch: u32,
    /// No object had lost anything when it was looked at, with so many connections to its data
    /// servers made so far.
    pub(crate) whole: Option<u64>,
}

impl FileRecord {
    pub(crate) fn begin_truncation(&mut self, now: u64) {
        self.truncations += 1;
        self.marks.truncated = now;
    }

    pub(crate) fn end_truncation(&mut self, now: u64) {
        debug_assert!(self.truncations > 0, "ended without a beginning");
        self.truncations = self.truncations.saturating_sub(1);
        self.marks.truncated = now;
    }

    /// Writable handles of this epoch go to a client.
    pub(crate) fn grant(
        &mut self,
        client: ClientId,
        (epoch, verifier): (u32, Option<Verifier>),
        now: u64,
    ) {
        self.given.insert(client, epoch);
        self.verifier = verifier;
        self.marks.granted = now;
        self.size.granted();
    }

    /// Handles up to the present epoch are suspect.
    pub(crate) fn suspect(&mut self, why: FenceCause, now: u64) {
        let blocked = self.stale.is_some_and(|s| s.blocks_grants);
        let blocks_grants = blocked || why == FenceCause::Revoked;
        self.stale = Some(Stale { since: now, raised: false, blocks_grants });
        self.marks.suspected = now;
    }

    /// Handles of the client are suspect, which may need no new epoch: those from before a fence
    /// are outranked already, and what is left is to tell the data servers.
    pub(crate) fn suspect_handles_of(
        &mut self,
        client: ClientId,
        epoch: u32,
        why: FenceCause,
        now: u64,
    ) {
        let outranked = self.given.get(&client).is_some_and(|given| *given < fence_of(epoch));
        match &mut self.stale {
            Some(stale) if stale.raised && outranked => {
                stale.blocks_grants |= why == FenceCause::Revoked;
            }
            None if outranked => self.suspect_outranked(why, now),
            _ => self.suspect(why, now),
        }
    }

    /// Handles from before a fence are suspect: the volume outranks them already, and data servers
    /// are to be told. What is suspect besides may be of the present epoch, and wants a later one.
    pub(crate) fn suspect_outranked(&mut self, why: FenceCause, now: u64) {
        let is_raised = self.stale.is_none_or(|s| s.raised);
        self.suspect(why, now);
        if is_raised {
            self.raised();
        }
    }

    /// The epoch is raised for everything suspected so far.
    pub(crate) fn raised(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.raised = true;
        }
    }

    /// Every data server refuses what is older than `epoch`, which was raised for the suspicion of
    /// `since`. A later one stands.
    pub(crate) fn told(&mut self, since: u64, epoch: u32) {
        self.given.retain(|_, given| *given >= epoch);
        if self.stale.is_some_and(|s| s.since == since) {
            self.stale = None;
        }
    }

    /// Whether nothing would be lost with this record but handles given out, and least lengths of
    /// objects that the volume has not taken in.
    pub(crate) fn is_idle(&self) -> bool {
        self.truncations == 0 && self.writers == 0 && self.stale.is_none()
    }
}
