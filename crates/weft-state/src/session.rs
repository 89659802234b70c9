//! One session: its channels and the connections bound to it. RFC 8881 §2.10.3.

use weft_nfs::ops::{ChannelAttrs, SequenceArgs};
use weft_nfs::{ClientId, SessionId, SlotId};

use crate::backchannel::{BACK_CHANNEL_BYTES, BackChannel};
use crate::ids::ConnId;
use crate::limits::CONNS_PER_SESSION_MAX;
use crate::memory::{allocated, map_entry};
use crate::slot::{Slot, slot_bytes};

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) clientid: ClientId,
    /// Minor version its COMPOUNDs use, and so its callbacks.
    pub(crate) minorversion: u32,
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: BackChannel,
    slots: Vec<Slot>,
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
        let slots = (0..fore.maxrequests).map(|_| Slot::default()).collect();
        Session { clientid, minorversion: 1, fore, back, slots, conns: Vec::new() }
    }

    /// Bytes that it takes, each slot with the largest reply that it may keep: nothing is executed
    /// whose reply could then not be kept.
    pub(crate) fn bytes(&self) -> usize {
        SESSION_BYTES + self.slots.len() * slot_bytes(&self.fore)
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn highest_slotid(&self) -> SlotId {
        slot_of(self.slots.len().saturating_sub(1))
    }

    /// Gives the session as many slots as it should have, up or down, as far as that can be now:
    /// slots are taken back once the client is seen to know that they will be, on the slot it
    /// asks on, and uses none of them any more (`sa_highest_slotid`). The highest slot it is
    /// asked to use: `sr_target_highest_slotid`.
    ///
    /// Source: RFC 8881 §2.10.6.1, §18.46.3.
    pub(crate) fn resize(&mut self, args: &SequenceArgs, wanted: usize) -> SlotId {
        let asking = args.slotid.0 as usize;
        if wanted > self.slots.len() {
            // What was told before does not hold any more.
            self.slots.iter_mut().for_each(|s| s.told_target = usize::MAX);
            self.slots.reserve_exact(wanted - self.slots.len());
            self.slots.resize_with(wanted, Slot::default);
        }
        let knows = self.slots.get(asking).is_some_and(|s| s.told_target < wanted);
        let in_use = asking.max(args.highest_slotid.0 as usize) >= wanted
            || self.slots.iter().skip(wanted).any(Slot::is_busy);
        if wanted < self.slots.len() && knows && !in_use {
            self.slots.truncate(wanted);
            self.slots.shrink_to_fit();
        }
        let target = wanted.saturating_sub(1);
        if let Some(slot) = self.slots.get_mut(asking) {
            slot.told_target = target;
        }
        slot_of(target)
    }

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

/// Slots are at most [`crate::SessionLimits::slots_max`].
fn slot_of(index: usize) -> SlotId {
    SlotId(u32::try_from(index).unwrap_or(u32::MAX))
}
