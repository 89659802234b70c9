//! One session: its channels and the connections bound to it. RFC 8881 §2.10.3.

use weft_nfs::ops::{ChannelAttrs, SequenceArgs};
use weft_nfs::{ClientId, SequenceId, SessionId, SlotId};

use crate::backchannel::{BACK_CHANNEL_BYTES, BackChannel};
use crate::ids::ConnId;
use crate::limits::{CONNS_PER_SESSION_MAX, SLOTS_MIN, SLOTS_WHEN_CROWDED};
use crate::memory::{Want, allocated, map_entry};
use crate::refusal::Reason;
use crate::slot::{Admission, Slot, slot_bytes};

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) clientid: ClientId,
    /// Minor version its COMPOUNDs use, and so its callbacks.
    pub(crate) minorversion: u32,
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: BackChannel,
    /// The slots in place: memory is taken for them. The others that it has were not used yet.
    slots: Vec<Slot>,
    /// How many slots it has: fewer than granted once some were taken back.
    slot_count: usize,
    /// The `sr_target_highest_slotid` that was told last, on any slot.
    target: usize,
    /// Connections of the fore channel, oldest first.
    conns: Vec<ConnId>,
}

/// Bytes that a session takes at most beside its slots: connections, back channel, its place in
/// the client's list.
pub(crate) const SESSION_BYTES: usize = map_entry::<SessionId, Session>()
    + allocated(CONNS_PER_SESSION_MAX * size_of::<ConnId>())
    + BACK_CHANNEL_BYTES
    + allocated(4 * size_of::<SessionId>());

impl Session {
    pub(crate) fn new(clientid: ClientId, fore: ChannelAttrs, back: BackChannel) -> Self {
        let slots = (0..slots_at_first(&fore)).map(|_| Slot::default()).collect();
        let slot_count = fore.maxrequests as usize;
        let (minorversion, conns) = (1, Vec::new());
        Session { clientid, minorversion, fore, back, slots, slot_count, target: 0, conns }
    }

    /// Bytes that it takes, each slot in place with the largest reply that it may keep: nothing is
    /// executed whose reply could then not be kept.
    pub(crate) fn bytes(&self) -> usize {
        SESSION_BYTES + self.slots.len() * slot_bytes(&self.fore)
    }

    /// Slots in place.
    pub(crate) fn placed(&self) -> usize {
        self.slots.len()
    }

    /// Bytes that it takes to use this slot, 0 if it is in place, and how much it is needed.
    pub(crate) fn bytes_to_place(&self, id: SlotId) -> (usize, Want) {
        let count = id.0 as usize + 1;
        let want = match count {
            _ if count <= SLOTS_MIN => Want::Need,
            _ if count <= SLOTS_WHEN_CROWDED => Want::Extra,
            _ => Want::Comfort,
        };
        (count.saturating_sub(self.slots.len()) * slot_bytes(&self.fore), want)
    }

    /// Puts a slot in place, with those below it.
    pub(crate) fn place(&mut self, id: SlotId) {
        let count = id.0 as usize + 1;
        if count > self.slots.len() {
            self.slots.reserve_exact(count - self.slots.len());
            self.slots.resize_with(count, Slot::default);
        }
    }

    pub(crate) fn highest_slotid(&self) -> SlotId {
        slot_of(self.slot_count.saturating_sub(1))
    }

    /// Asks the client to use so many slots. Those in place beyond are taken back once the client
    /// is seen to know that they will be, on the slot it asks on, and uses none of them any more
    /// (`sa_highest_slotid`); they are had again when more are wanted. The highest slot it is
    /// asked to use: `sr_target_highest_slotid`.
    ///
    /// Source: RFC 8881 §2.10.6.1, §18.46.3.
    pub(crate) fn resize(&mut self, args: &SequenceArgs, wanted: usize) -> SlotId {
        let asking = args.slotid.0 as usize;
        let target = wanted.saturating_sub(1);
        if target > self.target {
            // What was told before does not hold any more.
            self.slots.iter_mut().for_each(|s| s.told_target = usize::MAX);
        }
        self.target = target;
        self.slot_count = self.slot_count.max(wanted);
        let knows = self.slots.get(asking).is_some_and(|s| s.told_target < wanted);
        let in_use = asking.max(args.highest_slotid.0 as usize) >= wanted
            || self.slots.iter().skip(wanted).any(Slot::is_busy);
        if wanted < self.slots.len() && knows && !in_use {
            self.slots.truncate(wanted);
            self.slots.shrink_to_fit();
            self.slot_count = wanted;
        }
        if let Some(slot) = self.slots.get_mut(asking) {
            slot.told_target = target;
        }
        slot_of(target)
    }

    /// What a request on a slot is, see [`Slot::judge`].
    pub(crate) fn judge(
        &self,
        id: SlotId,
        sequenceid: SequenceId,
        digest: u64,
    ) -> Result<Admission, Reason> {
        match self.slot(id) {
            Some(slot) => slot.judge(sequenceid, digest),
            None => Slot::default().judge(sequenceid, digest),
        }
    }

    /// The requests that are being executed.
    pub(crate) fn executed(&self) -> impl Iterator<Item = (SlotId, SequenceId)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((slot_of(index), slot.executed()?)))
    }

    /// A slot that is in place.
    pub(crate) fn slot(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(usize::try_from(id.0).ok()?)
    }

    pub(crate) fn slot_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(id.0).ok()?)
    }

    /// Whether the connection is bound to either channel.
    pub(crate) fn is_bound(&self, conn: ConnId) -> bool {
        self.conns.contains(&conn) || self.back.is_bound(conn)
    }

    /// Binds a connection to the fore channel. The oldest is forgotten when there are too many.
    pub(crate) fn bind_fore(&mut self, conn: ConnId) {
        if self.conns.contains(&conn) {
            return;
        }
        if self.conns.len() >= CONNS_PER_SESSION_MAX {
            let oldest = self.conns.remove(0);
            self.back.unbind(oldest);
        }
        self.conns.push(conn);
    }

    pub(crate) fn bind_both(&mut self, conn: ConnId) {
        self.bind_fore(conn);
        self.back.bind(conn);
    }

    pub(crate) fn unbind(&mut self, conn: ConnId) {
        self.conns.retain(|c| *c != conn);
        self.back.unbind(conn);
    }
}

/// Slots that a new session has in place.
pub(crate) fn slots_at_first(fore: &ChannelAttrs) -> usize {
    SLOTS_MIN.min(fore.maxrequests as usize)
}

/// Slots are at most [`crate::SessionLimits::slots_max`].
fn slot_of(index: usize) -> SlotId {
    SlotId(u32::try_from(index).unwrap_or(u32::MAX))
}
