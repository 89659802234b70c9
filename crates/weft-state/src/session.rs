//! One session: its channels and the connections bound to it. RFC 8881 §2.10.3.

use weft_nfs::ops::ChannelAttrs;
use weft_nfs::{ClientId, SlotId};

use crate::ConnId;
use crate::backchannel::BackChannel;
use crate::limits::CONNS_PER_SESSION_MAX;
use crate::slot::Slot;

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

impl Session {
    pub(crate) fn new(clientid: ClientId, fore: ChannelAttrs, back: BackChannel) -> Self {
        let slots = (0..fore.maxrequests).map(|_| Slot::default()).collect();
        Session { clientid, minorversion: 1, fore, back, slots, conns: Vec::new() }
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn highest_slotid(&self) -> SlotId {
        SlotId(self.fore.maxrequests.saturating_sub(1))
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
