//! The back channel of a session: RFC 8881 §2.10.3.1, §2.10.6, §20.9.

use weft_nfs::callback::{CbSequenceArgs, NoReferringCalls};
use weft_nfs::ops::{CallbackSec, CallbackSecs, ChannelAttrs};
use weft_nfs::{ClientId, SequenceId, SessionId, SlotId};

use crate::ids::{ConnId, detached};
use crate::limits::{
    BACK_BYTES_MIN, BACK_OPS_MIN, BACK_SLOTS_MAX, CONNS_PER_SESSION_MAX, FORE_BYTES_MIN,
};
use crate::memory::{allocated, name_bytes};

/// A callback about to be sent: where, and the head of its CB_COMPOUND. Ends with
/// [`crate::Sessions::callback_end`], always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The client called.
    pub clientid: ClientId,
    /// The connection to send on.
    pub conn: ConnId,
    /// RPC program number the client chose.
    pub cb_program: u32,
    /// Minor version of the CB_COMPOUND: that of the session.
    pub minorversion: u32,
    /// Credential to use: `None` or `Sys`, never `Gss`.
    pub sec: CallbackSec,
    /// Arguments of its CB_SEQUENCE.
    pub sequence: CbSequenceArgs,
    /// Most bytes of the request.
    pub request_bytes_max: usize,
}

/// The best callback security of those offered that can be used: AUTH_SYS, else AUTH_NONE (which
/// an empty list means too); none if only GSS is offered.
pub(crate) fn usable_sec(offered: &CallbackSecs) -> Option<CallbackSec> {
    let sys = offered.0.iter().find(|s| matches!(s, CallbackSec::Sys(_)));
    let none = offered.0.iter().find(|s| matches!(s, CallbackSec::None));
    match sys.or(none) {
        Some(CallbackSec::Sys(sys)) => {
            let mut sys = sys.clone();
            sys.machine = detached(&sys.machine);
            Some(CallbackSec::Sys(sys))
        }
        Some(_) => Some(CallbackSec::None),
        None => offered.0.is_empty().then_some(CallbackSec::None),
    }
}

/// Whether callbacks fit through a back channel of these attributes.
pub(crate) fn is_usable(back: &ChannelAttrs) -> bool {
    back.maxrequests > 0
        && back.maxoperations >= BACK_OPS_MIN
        && back.maxrequestsize >= BACK_BYTES_MIN
        && back.maxresponsesize >= FORE_BYTES_MIN
}

/// One back channel.
#[derive(Debug)]
pub(crate) struct BackChannel {
    attrs: ChannelAttrs,
    cb_program: u32,
    sec: Option<CallbackSec>,
    /// Whether the client ever asked for a back channel on this session.
    wanted: bool,
    /// Connections that carry it, oldest first.
    conns: Vec<ConnId>,
    slots: Vec<BackSlot>,
}

/// A slot of a back channel: we are the requester.
#[derive(Debug, Default, Clone, Copy)]
struct BackSlot {
    /// The last sequence id that the client is known to have seen.
    seen: SequenceId,
    busy: bool,
    /// Whether a request with the next sequence id was sent, and not executed as far as we know.
    doubtful: bool,
}

/// Bytes of the credential that callbacks are sent with, at most: a name of 255 bytes, 16 groups
/// (RFC 5531, appendix A).
const SEC_BYTES: usize = name_bytes(255) + allocated(2 * 16 * size_of::<u32>());
/// Bytes that a back channel takes beside itself.
pub(crate) const BACK_CHANNEL_BYTES: usize = allocated(CONNS_PER_SESSION_MAX * size_of::<ConnId>())
    + allocated(BACK_SLOTS_MAX as usize * size_of::<BackSlot>())
    + SEC_BYTES;

impl BackChannel {
    pub(crate) fn new(attrs: ChannelAttrs, cb_program: u32, sec: Option<CallbackSec>) -> Self {
        let slots = if is_usable(&attrs) { attrs.maxrequests as usize } else { 0 };
        BackChannel {
            attrs,
            cb_program,
            sec,
            wanted: false,
            conns: Vec::new(),
            slots: vec![BackSlot::default(); slots],
        }
    }

    /// Whether callbacks can be sent once a connection is bound.
    pub(crate) fn is_usable(&self) -> bool {
        self.sec.is_some() && !self.slots.is_empty()
    }

    /// Whether callbacks can be sent now.
    pub(crate) fn is_up(&self) -> bool {
        self.is_usable() && !self.conns.is_empty()
    }

    /// Whether the client wants it and it is not there: SEQ4_STATUS_CB_PATH_DOWN_SESSION.
    pub(crate) fn is_down(&self) -> bool {
        self.wanted && !self.is_up()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn is_bound(&self, conn: ConnId) -> bool {
        self.conns.contains(&conn)
    }

    pub(crate) fn bind(&mut self, conn: ConnId) {
        self.wanted = true;
        self.conns.retain(|c| *c != conn);
        if self.conns.len() >= CONNS_PER_SESSION_MAX {
            self.conns.remove(0);
        }
        self.conns.push(conn);
    }

    pub(crate) fn unbind(&mut self, conn: ConnId) {
        self.conns.retain(|c| *c != conn);
    }

    /// BACKCHANNEL_CTL.
    pub(crate) fn control(&mut self, cb_program: u32, sec: CallbackSec) {
        self.cb_program = cb_program;
        self.sec = Some(sec);
    }

    /// Takes a slot and the connection bound last (older ones are more likely dead). Slots with
    /// an unanswered or refused request come last: their sequence id must be used again, and the
    /// client may take the new request for a retry of a lost one.
    pub(crate) fn begin(
        &mut self,
        clientid: ClientId,
        sessionid: SessionId,
        minorversion: u32,
    ) -> Option<Callback> {
        let conn = *self.conns.last()?;
        let sec = self.sec.clone()?;
        let free = || self.slots.iter().enumerate().filter(|(_, s)| !s.busy);
        let (index, _) = free().min_by_key(|(_, s)| s.doubtful)?;
        let slot = self.slots.get_mut(index)?;
        slot.busy = true;
        let sequenceid = slot.seen.next();
        let highest = self.slots.iter().rposition(|s| s.busy).unwrap_or(index);
        Some(Callback {
            clientid,
            conn,
            cb_program: self.cb_program,
            minorversion,
            sec,
            sequence: CbSequenceArgs {
                sessionid,
                sequenceid,
                slotid: slot_id(index),
                highest_slotid: slot_id(highest),
                cachethis: false,
                referring_call_lists: NoReferringCalls,
            },
            request_bytes_max: self.attrs.maxrequestsize as usize,
        })
    }

    /// Ends a callback: see [`crate::Sessions::callback_end`].
    pub(crate) fn end(&mut self, cb: &Callback, answered: bool) {
        let Some(slot) = self.slot_of(cb) else { return };
        slot.busy = false;
        slot.doubtful = !answered;
        if answered {
            slot.seen = cb.sequence.sequenceid;
        } else {
            self.unbind(cb.conn);
        }
    }

    /// Ends a callback that was refused: see [`crate::Sessions::callback_refused`].
    pub(crate) fn end_refused(&mut self, cb: &Callback) {
        if let Some(slot) = self.slot_of(cb) {
            slot.busy = false;
            slot.doubtful = true;
        }
    }

    /// The slot of a callback that is under way.
    fn slot_of(&mut self, cb: &Callback) -> Option<&mut BackSlot> {
        let index = usize::try_from(cb.sequence.slotid.0).ok()?;
        let under_way = |s: &&mut BackSlot| s.busy && s.seen.next() == cb.sequence.sequenceid;
        self.slots.get_mut(index).filter(under_way)
    }
}

/// Slots of a back channel are at most [`crate::limits::BACK_SLOTS_MAX`].
fn slot_id(index: usize) -> SlotId {
    SlotId(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
