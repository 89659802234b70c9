//! What happens on sessions: SEQUENCE, connections, and callbacks. RFC 8881 §2.10.3, §2.10.6,
//! §18.33, §18.34, §18.46.

use bytes::Bytes;
use weft_nfs::ops::{
    BackchannelCtlArgs, BindConnToSessionArgs, BindConnToSessionOk, SequenceArgs, SequenceOk,
};
use weft_nfs::{ClientId, SequenceId, SessionId, SlotId, seq4_status};

use crate::backchannel::{Callback, usable_sec};
use crate::ids::{ConnId, Millis};
use crate::limits::{SLOTS_MIN, SLOTS_WHEN_CROWDED};
use crate::memory::{Budget, Want};
use crate::refusal::{Reason, Refusal};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::slot::{Admission, slot_bytes};

/// A request admitted by SEQUENCE: proof that it runs in a session, once. It ends with
/// [`Sessions::complete`], always, else its slot stays busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InSession {
    /// Client that the session belongs to.
    pub clientid: ClientId,
    /// Identifier of the session.
    pub sessionid: SessionId,
    /// The slot taken.
    pub slotid: SlotId,
    /// The request's number on the slot.
    pub sequenceid: SequenceId,
    /// The answer to SEQUENCE.
    pub ok: SequenceOk,
    /// Whether the client asks that the reply be kept.
    pub cachethis: bool,
    /// Most bytes of the reply: beyond, REP_TOO_BIG.
    pub response_bytes_max: usize,
    /// Most bytes of a reply that is kept: beyond, REP_TOO_BIG_TO_CACHE if `cachethis`.
    pub cached_bytes_max: usize,
    /// Minor version of the session, as noted by [`Sessions::note_minorversion`].
    pub minorversion: u32,
}

/// What is known of the request a SEQUENCE stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Bytes of the whole request.
    pub request_bytes: usize,
    /// Bytes of the reply if nothing follows the result of SEQUENCE.
    pub reply_bytes_min: usize,
    /// Operations of the COMPOUND, SEQUENCE included.
    pub op_count: usize,
    /// A hash of the request that tells a retry from another request under the same number; 0 if
    /// unknown.
    pub digest: u64,
}

/// What a SEQUENCE turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SequenceOutcome {
    /// A new request: execute it.
    New(InSession),
    /// A retry: send this reply again, exactly.
    Replay(Bytes),
    /// Refused; the slot is as before.
    Refused(Refusal),
}

/// `channel_dir_from_client4` and `channel_dir_from_server4`: RFC 8881 §18.34.
mod dir {
    pub(super) const FORE: u32 = 1;
    pub(super) const BACK: u32 = 2;
    /// Also the answer CDFS4_BOTH.
    pub(super) const FORE_OR_BOTH: u32 = 3;
    pub(super) const BOTH: u32 = 3;
    pub(super) const BACK_OR_BOTH: u32 = 7;
}

impl Sessions {
    /// SEQUENCE: takes the slot of a new request, finds the reply of a retried one, renews the
    /// lease and binds the connection to the fore channel (both unless refused).
    ///
    /// Refusals: BADSESSION, BADSLOT, BAD_HIGH_SLOT, TOO_MANY_OPS, REQ_TOO_BIG, REP_TOO_BIG,
    /// REP_TOO_BIG_TO_CACHE, SEQ_MISORDERED, SEQ_FALSE_RETRY, RETRY_UNCACHED_REP, DELAY (the same
    /// request is still being executed; or the slot was not used before, the client was asked to
    /// use fewer, and memory runs short: Linux asks again on it after 15 s).
    ///
    /// Source: RFC 8881 §18.46.3, §2.10.6.1, §2.10.6.4.
    pub fn sequence(
        &mut self,
        now: Millis,
        args: &SequenceArgs,
        conn: ConnId,
        request: &Envelope,
    ) -> SequenceOutcome {
        match self.admit(args, request) {
            Err(reason) => SequenceOutcome::Refused(reason.into()),
            Ok(admission) => {
                self.seen(now, args.sessionid, conn);
                match admission {
                    Admission::Replay(reply) => SequenceOutcome::Replay(reply),
                    Admission::New => match self.begin(args, request.digest) {
                        Some(in_session) => SequenceOutcome::New(in_session),
                        None => SequenceOutcome::Refused(Reason::SessionUnknown.into()),
                    },
                }
            }
        }
    }

    fn admit(&self, args: &SequenceArgs, request: &Envelope) -> Result<Admission, Reason> {
        let session = self.sessions.get(&args.sessionid).ok_or(Reason::SessionUnknown)?;
        if args.slotid > session.highest_slotid() {
            return Err(Reason::SlotUnknown);
        }
        if args.highest_slotid > session.highest_slotid() {
            return Err(Reason::HighSlotUnknown);
        }
        if request.op_count > session.fore.maxoperations as usize {
            return Err(Reason::TooManyOps);
        }
        if request.request_bytes > session.fore.maxrequestsize as usize {
            return Err(Reason::RequestTooBig);
        }
        let admission = session.judge(args.slotid, args.sequenceid, request.digest)?;
        let (bytes, want) = session.bytes_to_place(args.slotid);
        if bytes > 0 && !self.budget.has_room(session.clientid, bytes, want) {
            return Err(Reason::NoMemoryForSlot);
        }
        // A reply that is to be kept must be (§2.10.6.4): nothing is executed that could not be.
        if request.reply_bytes_min > session.fore.maxresponsesize as usize {
            return Err(Reason::ReplyTooBig);
        }
        if args.cachethis && request.reply_bytes_min > session.fore.maxresponsesize_cached as usize
        {
            return Err(Reason::ReplyTooBigToCache);
        }
        Ok(admission)
    }

    /// A sign of life of a session's client over a connection.
    fn seen(&mut self, now: Millis, sessionid: SessionId, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(&sessionid) else { return };
        session.bind_fore(conn);
        if let Some(client) = self.clients.get_mut(&session.clientid) {
            client.renewed = client.renewed.max(now);
        }
    }

    fn begin(&mut self, args: &SequenceArgs, digest: u64) -> Option<InSession> {
        let status_flags = self.take_status_flags(args.sessionid)?;
        let target_highest_slotid = self.resize_session(args)?;
        let session = self.sessions.get_mut(&args.sessionid)?;
        session.slot_mut(args.slotid)?.begin(args.sequenceid, digest);
        Some(InSession {
            clientid: session.clientid,
            sessionid: args.sessionid,
            slotid: args.slotid,
            sequenceid: args.sequenceid,
            ok: SequenceOk {
                sessionid: args.sessionid,
                sequenceid: args.sequenceid,
                slotid: args.slotid,
                highest_slotid: session.highest_slotid(),
                target_highest_slotid,
                status_flags,
            },
            cachethis: args.cachethis,
            response_bytes_max: session.fore.maxresponsesize as usize,
            cached_bytes_max: session.fore.maxresponsesize_cached as usize,
            minorversion: session.minorversion,
        })
    }

    /// Puts the slot that is asked on in place, as [`Sessions::admit`] found that it can be, and
    /// tells the client how many it may use; slots go back to the server while memory runs short.
    fn resize_session(&mut self, args: &SequenceArgs) -> Option<SlotId> {
        let session = self.sessions.get_mut(&args.sessionid)?;
        let (client, budget) = (session.clientid, &mut self.budget);
        let (more, _) = session.bytes_to_place(args.slotid);
        session.place(args.slotid);
        budget.take(client, more);
        let bytes = session.bytes();
        let wanted = slots_wanted(session, budget);
        let target = session.resize(args, wanted);
        budget.give_back(client, bytes - session.bytes());
        Some(target)
    }

    /// `sr_status_flags`: what was set by [`Sessions::status_flag`], and the state of the back
    /// channels the client asked for. Linux binds a back channel again only when told (§18.46.3).
    fn take_status_flags(&mut self, sessionid: SessionId) -> Option<u32> {
        let session = self.sessions.get(&sessionid)?;
        let client = self.clients.get(&session.clientid)?;
        let backs = || client.sessions.iter().filter_map(|s| self.sessions.get(s)).map(|s| &s.back);
        let mut flags = client.status | client.status_once;
        if backs().any(|b| b.is_wanted()) && !backs().any(|b| b.is_up()) {
            flags |= seq4_status::CB_PATH_DOWN;
        }
        if session.back.is_down() {
            flags |= seq4_status::CB_PATH_DOWN_SESSION;
        }
        let clientid = session.clientid;
        self.clients.get_mut(&clientid)?.status_once = 0;
        Some(flags)
    }

    /// Ends an admitted request and frees its slot. With a reply, retries get it again: give one
    /// when `cachethis` is set or the reply is small, and of at most `cached_bytes_max` bytes,
    /// since it is kept as it is, with the buffer it is a slice of. Without, retries are answered
    /// RETRY_UNCACHED_REP. Of no effect if the session is gone.
    pub fn complete(&mut self, done: &InSession, reply: Option<Bytes>) {
        let session = self.sessions.get_mut(&done.sessionid);
        if let Some(slot) = session.and_then(|s| s.slot_mut(done.slotid)) {
            let fits = |r: &Bytes| r.len() <= done.cached_bytes_max;
            slot.complete(done.sequenceid, reply.filter(fits));
        }
    }

    /// The minor version that a client speaks: the greatest of its sessions; 1 without any.
    pub fn minorversion_of(&self, client: ClientId) -> u32 {
        let sessions = self.clients.get(&client).map(|c| c.sessions()).unwrap_or_default();
        let minor = sessions.iter().filter_map(|id| self.sessions.get(id)).map(|s| s.minorversion);
        minor.max().unwrap_or(1)
    }

    /// Notes the minor version of a session's COMPOUNDs (1 until noted). Linux wants callbacks in
    /// the minor version of the mount; call it once CREATE_SESSION has succeeded.
    pub fn note_minorversion(&mut self, sessionid: SessionId, minorversion: u32) {
        if let Some(session) = self.sessions.get_mut(&sessionid) {
            session.minorversion = minorversion;
        }
    }

    /// BIND_CONN_TO_SESSION: both directions are granted whenever the client accepts both (Linux
    /// asks for FORE_OR_BOTH and reconnects unless it gets BOTH). Renews the lease.
    ///
    /// # Errors
    /// BADSESSION; INVAL for an unknown direction, or the back channel of a session that has none.
    ///
    /// Source: RFC 8881 §18.34.3.
    pub fn bind_conn_to_session(
        &mut self,
        now: Millis,
        args: &BindConnToSessionArgs,
        conn: ConnId,
    ) -> Result<BindConnToSessionOk, Refusal> {
        let session = self.sessions.get_mut(&args.sessionid).ok_or(Reason::SessionUnknown)?;
        let granted = match (args.dir, session.back.is_usable()) {
            (dir::FORE, _) | (dir::FORE_OR_BOTH, false) => dir::FORE,
            (dir::FORE_OR_BOTH | dir::BACK_OR_BOTH, true) => dir::BOTH,
            (dir::BACK, true) => dir::BACK,
            (dir::BACK | dir::BACK_OR_BOTH, false) => return Err(Reason::NoBackChannel.into()),
            (_, _) => return Err(Reason::DirectionUnknown.into()),
        };
        bind(session, granted, conn);
        self.seen_client(now, args.sessionid);
        Ok(BindConnToSessionOk {
            sessionid: args.sessionid,
            dir: granted,
            use_conn_in_rdma_mode: false,
        })
    }

    fn seen_client(&mut self, now: Millis, sessionid: SessionId) {
        let clientid = self.sessions.get(&sessionid).map(|s| s.clientid);
        if let Some(client) = clientid.and_then(|id| self.clients.get_mut(&id)) {
            client.renewed = client.renewed.max(now);
        }
    }

    /// BACKCHANNEL_CTL.
    ///
    /// # Errors
    /// BADSESSION; NOENT if none of the offered securities can be used.
    ///
    /// Source: RFC 8881 §18.33.3.
    pub fn backchannel_ctl(
        &mut self,
        sessionid: SessionId,
        args: &BackchannelCtlArgs,
    ) -> Result<(), Refusal> {
        let session = self.sessions.get_mut(&sessionid).ok_or(Reason::SessionUnknown)?;
        let sec = usable_sec(&args.sec_parms).ok_or(Reason::CallbackSecUnsupported)?;
        session.back.control(args.cb_program, sec);
        Ok(())
    }

    /// A connection is gone: unbinds it everywhere.
    pub fn conn_closed(&mut self, conn: ConnId) {
        self.sessions.values_mut().for_each(|s| s.unbind(conn));
    }

    /// Whether a connection is bound to any session.
    pub fn is_conn_bound(&self, conn: ConnId) -> bool {
        self.sessions.values().any(|s| s.is_bound(conn))
    }

    /// Sets or takes back a SEQ4_STATUS bit of a client, reported with every SEQUENCE until taken
    /// back. Linux acts on a bit every time it sees it: what is never taken back keeps its state
    /// manager busy for ever.
    pub fn status_flag(&mut self, clientid: ClientId, flag: u32, on: bool) {
        if let Some(client) = self.clients.get_mut(&clientid) {
            client.status = if on { client.status | flag } else { client.status & !flag };
        }
    }

    /// Reports a SEQ4_STATUS bit with the client's next new SEQUENCE only. This suits
    /// RECALLABLE_STATE_REVOKED for layouts: Linux drops all layouts when it sees the bit, and
    /// never sends the FREE_STATEID that would tell when to take it back.
    pub fn status_flag_once(&mut self, clientid: ClientId, flag: u32) {
        if let Some(client) = self.clients.get_mut(&clientid) {
            client.status_once |= flag;
        }
    }

    /// Whether callbacks can reach the client now.
    pub fn has_back_channel(&self, clientid: ClientId) -> bool {
        let sessions = self.clients.get(&clientid).map(|c| c.sessions.as_slice());
        let up = |s: &SessionId| self.sessions.get(s).is_some_and(|s| s.back.is_up());
        sessions.unwrap_or_default().iter().any(up)
    }

    /// Begins a callback: takes a free slot of a session with a back channel that is up; it ends
    /// with [`Sessions::callback_end`] or [`Sessions::callback_refused`]. None if
    /// there is no such session ([`Sessions::has_back_channel`]) or all its slots are taken.
    pub fn callback_begin(&mut self, clientid: ClientId) -> Option<Callback> {
        let client = self.clients.get(&clientid)?;
        let sessions = &mut self.sessions;
        client.sessions.iter().find_map(|id| {
            let session = sessions.get_mut(id)?;
            session.back.begin(clientid, *id, session.minorversion)
        })
    }

    /// Ends a callback. `answered` means that the client accepted its CB_SEQUENCE, whatever came
    /// after. RETRY_UNCACHED_REP to CB_SEQUENCE counts as that too: the slot's last user was
    /// executed but its answer lost, and this callback was taken for it: begin again.
    ///
    /// Unanswered (connection lost, timeout) leaves the slot's sequence id in doubt: it is used
    /// last, with the same number. The connection no longer counts as back channel, so that the
    /// client learns CB_PATH_DOWN and binds one again.
    pub fn callback_end(&mut self, cb: &Callback, answered: bool) {
        if let Some(session) = self.sessions.get_mut(&cb.sequence.sessionid) {
            session.back.end(cb, answered);
        }
    }

    /// Ends a callback whose CB_SEQUENCE itself was refused (DELAY, BADSESSION, SEQ_MISORDERED…):
    /// its number was not used up. Linux answers DELAY there while it drains its slots.
    pub fn callback_refused(&mut self, cb: &Callback) {
        if let Some(session) = self.sessions.get_mut(&cb.sequence.sessionid) {
            session.back.end_refused(cb);
        }
    }
}

/// How many slots a client may use now: as many as it was granted from the first half of the
/// memory, a few from the next quarter; from there on what it has in place, until that is needed
/// for others.
fn slots_wanted(session: &Session, budget: &Budget) -> usize {
    let (client, placed) = (session.clientid, session.placed());
    let room = |want, most: usize| match budget.left(client, want) / slot_bytes(&session.fore) {
        0 => 0,
        more => most.min(placed + more),
    };
    let granted = session.fore.maxrequests as usize;
    let kept = if budget.is_nearly_full_for(client) {
        SLOTS_MIN
    } else if budget.is_crowded_for(client) {
        SLOTS_WHEN_CROWDED
    } else {
        granted
    };
    let wanted = placed.min(kept).max(SLOTS_MIN);
    wanted.max(room(Want::Extra, SLOTS_WHEN_CROWDED)).max(room(Want::Comfort, granted)).min(granted)
}

fn bind(session: &mut Session, granted: u32, conn: ConnId) {
    match granted {
        dir::FORE => session.bind_fore(conn),
        dir::BACK => session.back.bind(conn),
        _ => session.bind_both(conn),
    }
}

#[cfg(test)]
mod tests;
