//! The session client as a state machine without I/O, clock or random numbers (RFC 8881 §2.10,
//! §8.4): which request establishes the session next, which slot a request goes out on, what a
//! failed SEQUENCE means, when the lease must be renewed.
//!
//! The shell ([`crate::session`]) asks [`Core::step`] what to send, sends it, and tells the
//! outcome. Requests take a [`Slot`] and give it back, saying whether the server consumed its
//! sequence id; a slot of an earlier session (its epoch is old) is given back into nothing.

mod backoff;
mod idempotence;
mod slots;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_nfs::{
    ClientId, NfsStat, Opaque, SequenceId, SessionId, Verifier, callback::CB_VERSION,
    create_session_flags, exchgid, ops::*, seq4_status,
};

use crate::limits;
pub use backoff::Backoff;
pub use idempotence::first_unrepeatable;
pub use slots::{Slot, SlotTable};

/// Program number our callbacks are called under. Any will do: the connection tells which client is
/// meant.
pub const CB_PROGRAM: u32 = 0x4000_0000 + CB_VERSION;

/// What the session is for: RFC 8881 §13.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A metadata server: opens, layouts, and data when there is no layout.
    Mds,
    /// A data server: data only.
    Ds,
}

/// What the core is made with.
#[derive(Debug, Clone)]
pub struct CoreConfig {
    /// 1 or 2.
    pub minorversion: u32,
    /// Unique to this client and the same over its reconnections.
    pub owner_id: Bytes,
    /// Random per client instance.
    pub verifier: Verifier,
    /// What the session is for.
    pub role: Role,
    /// Slots asked for.
    pub slots: u32,
    /// Whether callbacks can be answered.
    pub back_channel: bool,
}

/// What must be sent next to have a usable session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make ourselves known.
    ExchangeId(ExchangeIdArgs),
    /// Give up a session that we can no longer use but the server may still keep.
    DestroySession(SessionId),
    /// Make a session.
    CreateSession(CreateSessionArgs),
    /// Use the new connection as a back channel again.
    BindConnection(BindConnToSessionArgs),
    /// Say that nothing (more) is reclaimed, and learn the lease.
    ReclaimComplete,
    /// Nothing: requests may go out.
    Ready,
}

/// What a failed step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepFailure {
    /// Wait, then ask for the step again.
    Later,
    /// Another step is next.
    Changed,
    /// No use trying again.
    Fatal(NfsStat),
}

/// What a failed SEQUENCE means for its request, which was not executed by this sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceFailure {
    /// Same slot, same sequence id, after a wait.
    Later,
    /// The connection must be bound first; then same slot, same sequence id.
    Rebind,
    /// The request was executed before, and its reply is not kept.
    ReplyGone,
    /// The session is of no more use; a new one is made.
    NewSession,
    /// The request itself cannot be sent.
    Refused,
}

/// How far the server can be relied on to call before it takes something away: what it granted
/// since it last forgot us, and last took something, is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How often the server has forgotten us.
    pub losses: u64,
    /// How often it was learnt that it had taken something away.
    pub revocations: u64,
}

/// The session client's state.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    client: Option<Client>,
    session: Option<Established>,
    discarded: Option<SessionId>,
    reclaim_pending: bool,
    bind_pending: bool,
    last_bind: Option<Instant>,
    epoch: u64,
    losses: u64,
    /// How often a reply was the first to say that state was revoked.
    revocations: u64,
    /// Whether the last reply said that some is, which was not freed yet.
    is_revoked: bool,
    /// Whether nobody has been told of the last revocation.
    revocation_untold: bool,
    server_flags: u32,
    server: ServerName,
    lease: Duration,
    renewed: Option<Instant>,
}

/// Who a server says it is: the same at each of its addresses (RFC 8881 §2.10.5), so two that are
/// equal are one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerName {
    /// `so_major_id` of its owner (RFC 8881 §2.5): servers of two owners are two servers.
    pub owner: Bytes,
    /// `eir_server_scope`: within which servers filehandles mean the same (RFC 8881 §2.10.4).
    pub scope: Bytes,
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    create_sequence: SequenceId,
}

#[derive(Debug)]
struct Established {
    id: SessionId,
    slots: SlotTable,
    fore: ChannelAttrs,
}

impl Core {
    /// A client that has not talked to its server yet.
    pub fn new(config: CoreConfig) -> Core {
        Core {
            config,
            client: None,
            session: None,
            discarded: None,
            reclaim_pending: false,
            bind_pending: false,
            last_bind: None,
            epoch: 0,
            losses: 0,
            revocations: 0,
            is_revoked: false,
            revocation_untold: false,
            server_flags: 0,
            server: ServerName::default(),
            lease: limits::LEASE_ASSUMED,
            renewed: None,
        }
    }

    // ---- establishing

    /// What must be sent next.
    pub fn step(&self) -> Step {
        let Some(client) = &self.client else {
            return Step::ExchangeId(self.exchange_id_args());
        };
        if let Some(old) = self.discarded {
            return Step::DestroySession(old);
        }
        let Some(session) = &self.session else {
            return Step::CreateSession(self.create_session_args(client));
        };
        if self.bind_pending {
            return Step::BindConnection(BindConnToSessionArgs {
                sessionid: session.id,
                dir: if self.config.back_channel { FORE_OR_BOTH } else { FORE },
                use_conn_in_rdma_mode: false,
            });
        }
        if self.reclaim_pending { Step::ReclaimComplete } else { Step::Ready }
    }

    /// EXCHANGE_ID succeeded.
    pub fn exchanged(&mut self, ok: &ExchangeIdOk) {
        // §18.35.3: the sequence id counts only for a record that is not confirmed yet.
        self.client = Some(Client { id: ok.clientid, create_sequence: ok.sequenceid });
        self.server_flags = ok.flags;
        self.server = ServerName {
            owner: ok.server_owner.major_id.0.clone(),
            scope: ok.server_scope.0.clone(),
        };
        self.session = None;
        self.reclaim_pending = self.config.role == Role::Mds;
    }

    /// CREATE_SESSION succeeded.
    ///
    /// # Errors
    /// A session without a single slot, or too small for any request, is of no use.
    pub fn created(&mut self, ok: &CreateSessionOk, now: Instant) -> Result<(), StepFailure> {
        let fore = ok.fore_chan_attrs;
        let least = limits::ENVELOPE_BYTES / 2;
        if fore.maxrequests == 0 || fore.maxoperations < 2 || fore.maxrequestsize < least {
            return Err(StepFailure::Fatal(NfsStat::TOOSMALL));
        }
        if let Some(client) = &mut self.client {
            client.create_sequence = client.create_sequence.next();
        }
        self.epoch += 1;
        let slots = fore.maxrequests.min(self.config.slots).min(limits::SLOTS_MAX);
        self.session =
            Some(Established { id: ok.sessionid, slots: SlotTable::new(self.epoch, slots), fore });
        self.bind_pending = false;
        self.renewed = Some(now);
        Ok(())
    }

    /// DESTROY_SESSION was answered, no matter how.
    pub fn destroyed(&mut self) {
        self.discarded = None;
    }

    /// BIND_CONN_TO_SESSION succeeded.
    pub fn bound(&mut self, now: Instant) {
        self.bind_pending = false;
        self.last_bind = Some(now);
    }

    /// RECLAIM_COMPLETE succeeded; the server told its lease time, if it does.
    pub fn reclaimed(&mut self, lease: Option<Duration>) {
        self.reclaim_pending = false;
        if let Some(lease) = lease.filter(|l| !l.is_zero()) {
            self.lease = lease;
        }
    }

    /// A step's operation failed.
    pub fn step_failed(&mut self, step: &Step, status: NfsStat) -> StepFailure {
        if matches!(status, NfsStat::DELAY | NfsStat::GRACE | NfsStat::BACK_CHAN_BUSY) {
            return StepFailure::Later;
        }
        match (step, status) {
            (Step::DestroySession(_), _) => {
                self.destroyed();
                StepFailure::Changed
            }
            (Step::CreateSession(_), NfsStat::STALE_CLIENTID | NfsStat::SEQ_MISORDERED) => {
                self.client_lost();
                StepFailure::Changed
            }
            (Step::ReclaimComplete, NfsStat::COMPLETE_ALREADY) => {
                self.reclaimed(None);
                StepFailure::Changed
            }
            (Step::BindConnection(_) | Step::ReclaimComplete, _) if is_session_gone(status) => {
                self.session_lost(self.epoch, false);
                StepFailure::Changed
            }
            (_, status) => StepFailure::Fatal(status),
        }
    }

    // ---- losing

    /// The connection is gone: the next one must be bound as back channel. The fore channel
    /// needs no binding without state protection (§2.10.3.1).
    pub fn connection_lost(&mut self) {
        self.bind_pending = self.session.is_some() && self.config.back_channel;
    }

    /// The session of this epoch can no longer be used. `kept` says whether the server may
    /// still keep it.
    pub fn session_lost(&mut self, epoch: u64, kept: bool) {
        if epoch != self.epoch {
            return;
        }
        if let Some(session) = self.session.take() {
            self.discarded = kept.then_some(session.id);
            self.bind_pending = false;
        }
    }

    /// The server does not know us any more: all our opens and layouts are gone.
    fn client_lost(&mut self) {
        self.client = None;
        self.session = None;
        self.discarded = None;
        self.is_revoked = false;
        self.losses += 1;
    }

    // ---- requests

    /// The session's epoch: it grows with every session made.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How often the server has forgotten us, and all our state with us.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Takes a free slot; none when all are busy or there is no session.
    pub fn acquire(&mut self) -> Option<Slot> {
        self.session.as_mut()?.slots.acquire()
    }

    /// The SEQUENCE of a request on this slot; none when its session is gone.
    pub fn sequence(&self, slot: &Slot, cachethis: bool) -> Option<SequenceArgs> {
        let session = self.session.as_ref().filter(|_| slot.epoch() == self.epoch)?;
        Some(SequenceArgs {
            sessionid: session.id,
            sequenceid: slot.sequence(),
            slotid: slot.id(),
            highest_slotid: session.slots.highest_busy(),
            cachethis,
        })
    }

    /// Gives a slot back. `consumed` says whether the server has used up the sequence id.
    pub fn release(&mut self, slot: &Slot, consumed: bool) {
        if let Some(session) = self.session.as_mut().filter(|_| slot.epoch() == self.epoch) {
            session.slots.release(slot, consumed);
        }
    }

    /// Gives up a slot whose last request may or may not have reached the server. The sequence
    /// id is unusable both ways, so the session is replaced.
    pub fn poison(&mut self, slot: &Slot) {
        self.session_lost(slot.epoch(), true);
    }

    /// A SEQUENCE succeeded: the lease is renewed, slots may have to be given up, and the flags
    /// may call for action.
    /// False if the reply is to another request, and the session out of step.
    pub fn sequenced(&mut self, slot: &Slot, ok: &SequenceOk, sent: Instant) -> bool {
        let Some(session) = self.session.as_mut().filter(|_| slot.epoch() == self.epoch) else {
            return true;
        };
        if ok.sessionid != session.id || ok.slotid != slot.id() || ok.sequenceid != slot.sequence()
        {
            return false;
        }
        session.slots.retarget(ok.target_highest_slotid);
        let is_revoked = ok.status_flags & REVOKED != 0;
        if is_revoked && !self.is_revoked {
            self.revocations += 1;
            self.revocation_untold = true;
        }
        self.is_revoked = is_revoked;
        self.renewed = self.renewed.max(Some(sent));
        let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
        let recently = self.last_bind.is_some_and(|at| sent < at + REBIND_PAUSE);
        if self.config.back_channel && ok.status_flags & down != 0 && !recently {
            self.bind_pending = true;
            self.last_bind = Some(sent);
        }
        true
    }

    /// What a SEQUENCE's failure means.
    pub fn sequence_failed(&mut self, slot: &Slot, status: NfsStat) -> SequenceFailure {
        match status {
            NfsStat::DELAY => SequenceFailure::Later,
            NfsStat::CONN_NOT_BOUND_TO_SESSION => {
                self.bind_pending = self.session.is_some();
                SequenceFailure::Rebind
            }
            NfsStat::RETRY_UNCACHED_REP => SequenceFailure::ReplyGone,
            s if is_session_gone(s) => {
                self.session_lost(slot.epoch(), false);
                SequenceFailure::NewSession
            }
            NfsStat::SEQ_MISORDERED
            | NfsStat::SEQ_FALSE_RETRY
            | NfsStat::BADSLOT
            | NfsStat::BAD_HIGH_SLOT => {
                self.session_lost(slot.epoch(), true);
                SequenceFailure::NewSession
            }
            _ => SequenceFailure::Refused,
        }
    }

    // ---- what was negotiated

    /// When the lease should be renewed if nothing else renews it: a third of it has passed.
    /// None without a session.
    pub fn renew_at(&self) -> Option<Instant> {
        self.session.as_ref()?;
        self.renewed.map(|at| at + self.lease / 3)
    }

    /// The server's lease as far as it is known.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How far the server can be relied on now. Not at all when the lease may have ended, since it
    /// need not wait for us any more (RFC 8881 §8.3), and while it says that some state is revoked
    /// (§8.4.3): which, has yet to be found out.
    pub fn standing(&self, now: Instant) -> Option<Standing> {
        let is_live = !self.believed_for(now).is_zero();
        let Core { losses, revocations, .. } = *self;
        (is_live && !self.is_revoked).then_some(Standing { losses, revocations })
    }

    /// How long it can be taken for granted, without another answer of the server, that it keeps
    /// what it granted.
    pub fn believed_for(&self, now: Instant) -> Duration {
        // The server's clock began when the reply was on its way, or the session made: a part of
        // the lease is left for that.
        let believed = self.lease - self.lease / LEASE_MARGIN;
        self.renewed.map_or(Duration::ZERO, |at| (at + believed).saturating_duration_since(now))
    }

    /// How often it was learnt that the server had taken something away.
    pub fn revocations(&self) -> u64 {
        self.revocations
    }

    /// Whether something was revoked, once for each time that this was learnt.
    pub fn take_revocation(&mut self) -> bool {
        std::mem::take(&mut self.revocation_untold)
    }

    /// The session's id.
    pub fn session_id(&self) -> Option<SessionId> {
        self.session.as_ref().map(|s| s.id)
    }

    /// The client's id.
    pub fn client_id(&self) -> Option<ClientId> {
        self.client.as_ref().map(|c| c.id)
    }

    /// EXCHANGE_ID flags of the server.
    pub fn server_flags(&self) -> u32 {
        self.server_flags
    }

    /// Who the server says it is, as it said last.
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Largest READ and WRITE payloads that fit the session's messages, in bytes.
    pub fn io_bytes_max(&self) -> (u32, u32) {
        // A power of two, so that requests stay aligned with pages and stripe units.
        let fit = |size: u32| {
            let room = size.saturating_sub(limits::DATA_ENVELOPE_BYTES).max(4096);
            1 << room.ilog2()
        };
        let Some(session) = &self.session else {
            return (limits::IO_BYTES, limits::IO_BYTES);
        };
        (
            fit(session.fore.maxresponsesize).min(limits::IO_BYTES),
            fit(session.fore.maxrequestsize).min(limits::IO_BYTES),
        )
    }

    /// Operations that a COMPOUND may have, SEQUENCE included.
    pub fn ops_max(&self) -> u32 {
        let granted = self.session.as_ref().map(|session| session.fore.maxoperations);
        granted.unwrap_or(limits::OPS_MAX).min(limits::OPS_MAX)
    }

    fn exchange_id_args(&self) -> ExchangeIdArgs {
        self.exchange_id_args_of(self.config.verifier)
    }

    /// EXCHANGE_ID of another incarnation of this client.
    pub fn exchange_id_args_of(&self, verifier: Verifier) -> ExchangeIdArgs {
        ExchangeIdArgs {
            clientowner: ClientOwner { verifier, ownerid: Opaque(self.config.owner_id.clone()) },
            flags: match self.config.role {
                Role::Mds => exchgid::USE_PNFS_MDS,
                Role::Ds => exchgid::USE_PNFS_DS,
            },
            state_protect: StateProtectArgs::None,
            client_impl_id: ImplIds(None),
        }
    }

    /// CREATE_SESSION but for the client id and its sequence.
    pub fn create_session_template(&self) -> CreateSessionArgs {
        self.create_session_args(&Client { id: ClientId(0), create_sequence: SequenceId(0) })
    }

    fn create_session_args(&self, client: &Client) -> CreateSessionArgs {
        let fore = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: limits::IO_BYTES + limits::ENVELOPE_BYTES,
            maxresponsesize: limits::IO_BYTES + limits::ENVELOPE_BYTES,
            maxresponsesize_cached: limits::CACHED_REPLY_BYTES,
            maxoperations: limits::OPS_MAX,
            maxrequests: self.config.slots,
            rdma_ird: RdmaIrd(None),
        };
        let back = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: limits::CALLBACK_BYTES_MAX,
            maxresponsesize: limits::CALLBACK_BYTES_MAX,
            maxresponsesize_cached: 0,
            maxoperations: 4,
            maxrequests: limits::BACK_SLOTS,
            rdma_ird: RdmaIrd(None),
        };
        CreateSessionArgs {
            clientid: client.id,
            sequence: client.create_sequence,
            flags: if self.config.back_channel { create_session_flags::CONN_BACK_CHAN } else { 0 },
            fore_chan_attrs: fore,
            back_chan_attrs: back,
            cb_program: CB_PROGRAM,
            sec_parms: CallbackSecs(vec![CallbackSec::None]),
        }
    }
}

/// State was taken away that we have to free (RFC 8881 §18.46.3).
const REVOKED: u32 = seq4_status::EXPIRED_ALL_STATE_REVOKED
    | seq4_status::EXPIRED_SOME_STATE_REVOKED
    | seq4_status::ADMIN_STATE_REVOKED
    | seq4_status::RECALLABLE_STATE_REVOKED;
/// One part in this many of a lease is not relied on.
const LEASE_MARGIN: u32 = 8;
/// `channel_dir_from_client4`.
const FORE: u32 = 1;
/// `channel_dir_from_client4`.
const FORE_OR_BOTH: u32 = 3;
/// A server that keeps saying the back channel is down is not asked to bind more often.
const REBIND_PAUSE: Duration = Duration::from_secs(30);

/// Whether the server no longer has the session.
fn is_session_gone(status: NfsStat) -> bool {
    matches!(status, NfsStat::BADSESSION | NfsStat::DEADSESSION | NfsStat::STALE_CLIENTID)
}
