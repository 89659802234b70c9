//! The table of clients and sessions: EXCHANGE_ID, CREATE_SESSION, their ends, and leases.
//! RFC 8881 §2.4, §2.10, §8.3, §18.35-§18.37, §18.50, §18.51.

use std::collections::BTreeMap;

use weft_nfs::ops::{
    ClientOwner, CreateSessionArgs, CreateSessionOk, ExchangeIdArgs, ExchangeIdOk, ImplId, ImplIds,
    ServerOwner, StateProtectArgs, StateProtectOk,
};
use weft_nfs::{ClientId, Opaque, SequenceId, SessionId, create_session_flags, exchgid};

use crate::backchannel::{BackChannel, usable_sec};
use crate::channel::{Grant, negotiate};
use crate::client::{
    Client, ExchangeIdCase, IMPL_NAME_BYTES_MAX, Origin, Principal, client_bytes, exchange_id_case,
};
use crate::host::Host;
use crate::ids::{ConnId, Millis, detached};
use crate::limits::SessionLimits;
use crate::memory::{Budget, Full, MemoryUse, Want, host_share, is_crowded};
use crate::refusal::{Reason, Refusal};
use crate::session::{SESSION_BYTES, Session};

/// The `csa_sequence` a new client begins with. Any would do (§18.35.3), but there are clients
/// that count on 1.
const FIRST_CREATE: SequenceId = SequenceId(1);

/// The identity of this server; one for every process role with a client table of its own (design
/// D4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `eir_server_owner`: its major id differs from that of every other client table.
    pub server_owner: ServerOwner,
    /// `eir_server_scope`: stable over restarts, else Linux does not reclaim.
    pub scope: Opaque,
    /// The `exchgid::USE_PNFS_*` or `USE_NON_PNFS` bits to answer.
    pub roles: u32,
    /// Random for every process start: the high half of client ids.
    pub clientid_high: u32,
    /// `eir_server_impl_id`.
    pub impl_id: Option<ImplId>,
}

/// A client that CREATE_SESSION has just confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedClient {
    /// Identifier of the client.
    pub clientid: ClientId,
    /// Its owner, for the durable record.
    pub owner: ClientOwner,
    /// Where it came from.
    pub host: Host,
}

/// What EXCHANGE_ID did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeIdOutcome {
    /// What the reply says.
    pub ok: ExchangeIdOk,
    /// Another principal's client of the same owner, that held nothing, already forgotten here
    /// (case 3): the server must drop what it knows of it now.
    pub purged: Option<ClientId>,
}

/// What CREATE_SESSION did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSessionOutcome {
    /// What the reply says.
    pub ok: CreateSessionOk,
    /// The client, if this confirmed it (not when it was confirmed before, nor in a retry).
    pub confirmed: Option<ConfirmedClient>,
    /// Earlier incarnations, already forgotten here: the server must drop their state now.
    pub purged: Vec<ClientId>,
}

/// All clients and sessions of one server.
#[derive(Debug)]
pub struct Sessions {
    pub(crate) identity: Identity,
    pub(crate) limits: SessionLimits,
    pub(crate) lease_ms: u64,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    records_by_owner: BTreeMap<Opaque, OwnerRecords>,
    session_last: u32,
    /// The memory that all of this takes.
    pub(crate) budget: Budget,
}

/// The records of one client owner: at most one of each (§18.35.4).
#[derive(Debug, Default, Clone, Copy)]
struct OwnerRecords {
    confirmed: Option<ClientId>,
    unconfirmed: Option<ClientId>,
}

impl Sessions {
    /// An empty table. `lease_ms` is the lease time in milliseconds.
    pub fn new(identity: Identity, limits: SessionLimits, lease_ms: u64) -> Self {
        Sessions {
            identity,
            budget: Budget::new(limits.memory_bytes),
            limits,
            lease_ms,
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            records_by_owner: BTreeMap::new(),
            session_last: 0,
        }
    }

    /// EXCHANGE_ID. `holds_state` tells which clients hold opens, locks or layouts: an owner that
    /// another principal claims is given up if its client holds none and has no sessions, or has
    /// let its lease pass (case 3). Another host may not end what is in use (case 5).
    ///
    /// `random` chooses the client id, so that a stranger cannot guess and confirm it.
    /// SP4_MACH_CRED is answered with SP4_NONE: there is no RPCSEC_GSS.
    ///
    /// # Errors
    /// INVAL, ENCR_ALG_UNSUPP, CLID_INUSE, NOENT, NOT_SAME, PERM, DELAY.
    ///
    /// Source: RFC 8881 §18.35.4.
    pub fn exchange_id(
        &mut self,
        now: Millis,
        args: &ExchangeIdArgs,
        from: &Origin,
        random: u32,
        holds_state: impl Fn(ClientId) -> bool,
    ) -> Result<ExchangeIdOutcome, Refusal> {
        if args.flags & !exchgid::MASK_A != 0 {
            return Err(Reason::FlagsUnknown.into());
        }
        if args.state_protect == StateProtectArgs::Ssv {
            return Err(Reason::SsvUnsupported.into());
        }
        let ownerid = &args.clientowner.ownerid;
        let records = self.records_by_owner.get(ownerid).copied().unwrap_or_default();
        let confirmed = records.confirmed.and_then(|id| self.clients.get(&id));
        let lease_ms = self.lease_ms;
        let idle = |c: &Client| {
            let holds = !c.sessions.is_empty() || holds_state(c.clientid);
            c.lease_passed(now, lease_ms) || !holds
        };
        let may_go = |c: &Client| match c.principal == from.principal {
            true => c.may_go(now, lease_ms, holds_state(c.clientid)),
            false => idle(c),
        };
        let has_unconfirmed = records.unconfirmed.is_some();
        let case = exchange_id_case(args, from, confirmed, has_unconfirmed, may_go);
        let answering = if case.answers_confirmed()? { confirmed } else { None };
        let (clientid, purged) = match answering {
            Some(c) => (c.clientid, None),
            None => {
                let added = self.add_unconfirmed(now, args, from, random, records.unconfirmed)?;
                let replaced = records.confirmed.filter(|_| case == ExchangeIdCase::CollisionIdle);
                replaced.into_iter().for_each(|old| self.drop_client(old));
                (added, replaced)
            }
        };
        // RFC 7862 §14.1.4.
        let fences_ops = args.flags & exchgid::SUPP_FENCE_OPS != 0;
        self.clients.get_mut(&clientid).into_iter().for_each(|c| c.fences_ops |= fences_ops);
        Ok(ExchangeIdOutcome { ok: self.exchange_id_ok(clientid), purged })
    }

    fn exchange_id_ok(&self, clientid: ClientId) -> ExchangeIdOk {
        let client = self.clients.get(&clientid);
        let flag = |has: bool, flag: u32| if has { flag } else { 0 };
        let confirmed = flag(client.is_some_and(|c| c.confirmed), exchgid::CONFIRMED_R);
        let fences = flag(client.is_some_and(|c| c.fences_ops), exchgid::SUPP_FENCE_OPS);
        ExchangeIdOk {
            clientid,
            sequenceid: client.map(|c| c.create_next).unwrap_or_default(),
            flags: self.identity.roles | confirmed | fences,
            state_protect: StateProtectOk::None,
            server_owner: self.identity.server_owner.clone(),
            server_scope: self.identity.scope.clone(),
            server_impl_id: ImplIds(self.identity.impl_id.clone()),
        }
    }

    /// Adds a record in place of the owner's unconfirmed one, if it had one.
    fn add_unconfirmed(
        &mut self,
        now: Millis,
        args: &ExchangeIdArgs,
        from: &Origin,
        random: u32,
        replaced: Option<ClientId>,
    ) -> Result<ClientId, Reason> {
        let host = Host::from(from.address);
        let bytes = client_bytes(&args.clientowner.ownerid);
        let same_host = |old: &ClientId| self.clients.get(old).is_some_and(|c| c.host == host);
        if !replaced.as_ref().is_some_and(same_host) {
            self.make_room_for_client(host, bytes)?;
        }
        replaced.into_iter().for_each(|old| self.drop_client(old));
        let owner = ClientOwner {
            verifier: args.clientowner.verifier,
            ownerid: Opaque(detached(&args.clientowner.ownerid.0)),
        };
        let clientid = self.next_clientid(random);
        self.records_by_owner.entry(owner.ownerid.clone()).or_default().unconfirmed =
            Some(clientid);
        let client = Client {
            clientid,
            owner,
            principal: from.principal,
            address: from.address,
            host,
            impl_name: args.client_impl_id.0.as_ref().map(impl_name),
            confirmed: false,
            create_next: FIRST_CREATE,
            create_refused: false,
            created_last: None,
            renewed: now,
            reclaim_complete: false,
            fences_ops: false,
            status: 0,
            status_once: 0,
            sessions: Vec::new(),
        };
        self.clients.insert(clientid, client);
        self.budget.admit(clientid, host);
        self.budget.take(clientid, bytes);
        Ok(clientid)
    }

    /// A client id that no record has, chosen by `random`: a stranger who could count would
    /// confirm others' records.
    fn next_clientid(&self, random: u32) -> ClientId {
        let high = u64::from(self.identity.clientid_high) << 32;
        let ids = (0..=u32::MAX).map(|n| ClientId(high | u64::from(random.wrapping_add(n))));
        let mut free = ids.filter(|id| !self.clients.contains_key(id));
        free.next().unwrap_or(ClientId(high))
    }

    /// Unconfirmed records hold nothing: they give way to a newcomer, those of its own host first,
    /// then those of hosts that have more than it, the oldest of them first.
    fn make_room_for_client(&mut self, host: Host, bytes: usize) -> Result<(), Reason> {
        loop {
            let of_host = self.budget.clients_of(host);
            let has_room = of_host < self.records_share(host);
            if has_room && self.budget.left_for_new(host) >= bytes {
                return Ok(());
            }
            // Memory that others hold is theirs: a record of theirs takes next to none of it.
            let has_more = |other: Host| !has_room && self.budget.clients_of(other) > of_host;
            let may_go = |c: &&Client| !c.confirmed && (c.host == host || has_more(c.host));
            let gives_way = self.clients.values().filter(may_go);
            let first = gives_way.min_by_key(|c| (c.host != host, c.renewed));
            let id = first.map(|c| c.clientid).ok_or(Reason::TooManyClients)?;
            self.drop_client(id);
        }
    }

    /// How many records the clients of a host may have.
    fn records_share(&self, host: Host) -> usize {
        let of_others = self.clients.len().saturating_sub(self.budget.clients_of(host));
        host_share(self.limits.clients_max, of_others).min(self.limits.clients_per_host_max)
    }

    /// CREATE_SESSION: makes a session, binds `conn` to it, and confirms the client if it was
    /// not. A retry (the last `csa_sequence` again) gets the same answer. `random` makes the
    /// session id hard to guess; `holds_state` is as for [`Sessions::exchange_id`].
    ///
    /// # Errors
    /// STALE_CLIENTID, SEQ_MISORDERED, CLID_INUSE, INVAL, TOOSMALL, NOSPC, DELAY. After one that
    /// concerns the session asked for, `csa_sequence` may stay or go on by one.
    ///
    /// Source: RFC 8881 §18.36.4.
    pub fn create_session(
        &mut self,
        now: Millis,
        args: &CreateSessionArgs,
        (who, conn): (&Principal, ConnId),
        random: [u8; 16],
        holds_state: impl Fn(ClientId) -> bool,
    ) -> Result<CreateSessionOutcome, Refusal> {
        let client = self.clients.get(&args.clientid).ok_or(Reason::ClientUnknown)?;
        if let Some(ok) = client.judge_create(args.sequence)? {
            let ok = ok.clone();
            self.bind_created(&ok, conn);
            return Ok(CreateSessionOutcome { ok, confirmed: None, purged: Vec::new() });
        }
        let unreplaced = self.may_replace(now, client, holds_state);
        let grant = match unreplaced.and_then(|()| self.grant(args, who, client)) {
            Ok(grant) => grant,
            Err(reason) => {
                let client = self.clients.get_mut(&args.clientid);
                client.into_iter().for_each(|c| c.create_refused = true);
                return Err(reason.into());
            }
        };
        let (confirmed, purged) = self.confirm(args.clientid);
        let back = BackChannel::new(grant.back, args.cb_program, usable_sec(&args.sec_parms));
        let ok = CreateSessionOk {
            sessionid: self.next_sessionid(random),
            sequence: args.sequence,
            flags: grant.flags,
            fore_chan_attrs: grant.fore,
            back_chan_attrs: grant.back,
        };
        self.add_session(now, &ok, Session::new(args.clientid, grant.fore, back));
        self.bind_created(&ok, conn);
        Ok(CreateSessionOutcome { ok, confirmed, purged })
    }

    /// Whether the incarnation may end that would, if this client is confirmed now: what it held
    /// when this one asked for its record is long past.
    fn may_replace(
        &self,
        now: Millis,
        client: &Client,
        holds_state: impl Fn(ClientId) -> bool,
    ) -> Result<(), Reason> {
        let confirmed = self.confirmed(&client.owner.ownerid);
        let elsewhere = confirmed.filter(|c| !client.confirmed && c.host != client.host);
        let may_go = |c: &Client| c.may_go(now, self.lease_ms, holds_state(c.clientid));
        if elsewhere.is_none_or(may_go) { Ok(()) } else { Err(Reason::ClientElsewhere) }
    }

    /// What a new session of a client would get.
    fn grant(
        &self,
        args: &CreateSessionArgs,
        who: &Principal,
        client: &Client,
    ) -> Result<Grant, Reason> {
        if !client.confirmed && client.principal != *who {
            return Err(Reason::ConfirmPrincipal);
        }
        if client.sessions.len() >= self.limits.sessions_per_client_max {
            return Err(Reason::TooManySessions);
        }
        let left = self.budget.left(client.clientid, Want::Need).saturating_sub(SESSION_BYTES);
        negotiate(args, &self.limits, left).map_err(|reason| {
            let own = self.budget.tightest(client.clientid) == Full::Client;
            match reason {
                Reason::NoMemoryForSession if own => Reason::TooManySessions,
                reason => reason,
            }
        })
    }

    fn add_session(&mut self, now: Millis, ok: &CreateSessionOk, session: Session) {
        self.budget.take(session.clientid, session.bytes());
        if let Some(client) = self.clients.get_mut(&session.clientid) {
            client.sessions.push(ok.sessionid);
            client.create_next = ok.sequence.next();
            client.create_refused = false;
            client.created_last = Some(ok.clone());
            client.renewed = now;
        }
        self.sessions.insert(ok.sessionid, session);
    }

    /// Binds the connection of a CREATE_SESSION; the session may be gone if it is a retry.
    fn bind_created(&mut self, ok: &CreateSessionOk, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(&ok.sessionid) else { return };
        if ok.flags & create_session_flags::CONN_BACK_CHAN != 0 {
            session.bind_both(conn);
        } else {
            session.bind_fore(conn);
        }
    }

    /// Confirms a client if it was not, and forgets the incarnation it replaces.
    fn confirm(&mut self, clientid: ClientId) -> (Option<ConfirmedClient>, Vec<ClientId>) {
        let Some(client) = self.clients.get_mut(&clientid).filter(|c| !c.confirmed) else {
            return (None, Vec::new());
        };
        client.confirmed = true;
        let (owner, host) = (client.owner.clone(), client.host);
        let records = self.records_by_owner.entry(owner.ownerid.clone()).or_default();
        let replaced = records.confirmed;
        *records = OwnerRecords { confirmed: Some(clientid), unconfirmed: None };
        if let Some(old) = replaced {
            self.drop_client(old);
        }
        (Some(ConfirmedClient { clientid, owner, host }), replaced.into_iter().collect())
    }

    /// A session id: a counter, so that none is used twice, and randomness.
    fn next_sessionid(&mut self, random: [u8; 16]) -> SessionId {
        loop {
            self.session_last = self.session_last.wrapping_add(1);
            let mut id = random;
            for (byte, n) in id.iter_mut().zip(self.session_last.to_be_bytes()) {
                *byte = n;
            }
            if !self.sessions.contains_key(&SessionId(id)) {
                return SessionId(id);
            }
        }
    }

    /// DESTROY_SESSION, over a connection bound to the session, once nothing is
    /// [under way](Sessions::underway_on). A request that is still being executed on it runs to its
    /// end; its [`Sessions::complete`] then has no effect.
    ///
    /// # Errors
    /// BADSESSION, CONN_NOT_BOUND_TO_SESSION.
    ///
    /// Source: RFC 8881 §18.37.3.
    pub fn destroy_session(&mut self, sessionid: SessionId, conn: ConnId) -> Result<(), Refusal> {
        let clientid = self.bound_session(sessionid, conn)?.clientid;
        self.remove_session(sessionid);
        if let Some(client) = self.clients.get_mut(&clientid) {
            client.sessions.retain(|s| *s != sessionid);
            client.sessions.shrink_to_fit();
        }
        Ok(())
    }

    /// A session that this connection may end.
    pub(crate) fn bound_session(
        &self,
        sessionid: SessionId,
        conn: ConnId,
    ) -> Result<&Session, Reason> {
        let session = self.sessions.get(&sessionid).ok_or(Reason::SessionUnknown)?;
        if session.is_bound(conn) { Ok(session) } else { Err(Reason::NotBound) }
    }

    fn remove_session(&mut self, sessionid: SessionId) {
        if let Some(session) = self.sessions.remove(&sessionid) {
            self.budget.give_back(session.clientid, session.bytes());
        }
    }

    /// DESTROY_CLIENTID; `has_state` says whether the client holds opens, locks or layouts.
    ///
    /// # Errors
    /// STALE_CLIENTID; CLIENTID_BUSY while it has sessions or state.
    ///
    /// Source: RFC 8881 §18.50.3.
    pub fn destroy_clientid(&mut self, clientid: ClientId, has_state: bool) -> Result<(), Refusal> {
        let client = self.clients.get(&clientid).ok_or(Reason::ClientUnknown)?;
        if !client.sessions.is_empty() {
            return Err(Reason::ClientHasSessions.into());
        }
        if has_state {
            return Err(Reason::ClientHasState.into());
        }
        self.drop_client(clientid);
        Ok(())
    }

    /// RECLAIM_COMPLETE for all file systems (`rca_one_fs` false).
    ///
    /// # Errors
    /// STALE_CLIENTID; COMPLETE_ALREADY the second time.
    ///
    /// Source: RFC 8881 §18.51.
    pub fn reclaim_complete(&mut self, clientid: ClientId) -> Result<(), Refusal> {
        let client = self.clients.get_mut(&clientid).ok_or(Reason::ClientUnknown)?;
        if client.reclaim_complete {
            return Err(Reason::ReclaimDoneBefore.into());
        }
        client.reclaim_complete = true;
        Ok(())
    }

    /// Whether this incarnation of the client has completed its reclaim.
    pub fn reclaim_is_complete(&self, clientid: ClientId) -> bool {
        self.clients.get(&clientid).is_some_and(|c| c.reclaim_complete)
    }

    /// Forgets a client and its sessions, if it is there.
    pub fn drop_client(&mut self, clientid: ClientId) {
        let Some(client) = self.clients.remove(&clientid) else { return };
        for sessionid in client.sessions {
            self.remove_session(sessionid);
        }
        self.budget.forget(clientid);
        let Some(records) = self.records_by_owner.get_mut(&client.owner.ownerid) else { return };
        records.confirmed.take_if(|id| *id == clientid);
        records.unconfirmed.take_if(|id| *id == clientid);
        if records.confirmed.is_none() && records.unconfirmed.is_none() {
            self.records_by_owner.remove(&client.owner.ownerid);
        }
    }

    /// The record of a client.
    pub fn client(&self, clientid: ClientId) -> Option<&Client> {
        self.clients.get(&clientid)
    }

    /// The confirmed record of a client owner.
    pub(crate) fn confirmed(&self, ownerid: &Opaque) -> Option<&Client> {
        let records = self.records_by_owner.get(ownerid);
        records.and_then(|r| r.confirmed).and_then(|id| self.clients.get(&id))
    }

    /// Every client record, confirmed or not, by id.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    /// Whether the client is confirmed and its lease has not passed.
    pub fn is_live(&self, clientid: ClientId, now: Millis) -> bool {
        let live = |c: &Client| c.confirmed && !c.lease_passed(now, self.lease_ms);
        self.clients.get(&clientid).is_some_and(live)
    }

    /// Records, confirmed or not, whose lease has passed. They stay until
    /// [`Sessions::drop_client`]: a courteous server waits for a conflict, or until
    /// [`Sessions::outstayed`] says otherwise.
    pub fn expired(&self, now: Millis) -> Vec<ClientId> {
        let passed = |c: &&Client| c.lease_passed(now, self.lease_ms);
        self.clients.values().filter(passed).map(|c| c.clientid).collect()
    }

    /// Records whose lease has passed and that courtesy does not keep any longer: unconfirmed
    /// ones, which hold nothing; those that were silent for `courtesy_ms` beyond their lease; all
    /// if the table is getting full, those of a host whose share is, and those that `crowds` says
    /// hold what runs short.
    ///
    /// Source: RFC 8881 §8.4.3.
    pub fn outstayed(
        &self,
        now: Millis,
        courtesy_ms: u64,
        crowds: impl Fn(ClientId) -> bool,
    ) -> Vec<ClientId> {
        let crowded = is_crowded(self.clients.len(), self.limits.clients_max);
        let host_is_crowded = |c: &Client| {
            let many = is_crowded(self.budget.clients_of(c.host), self.records_share(c.host));
            many || self.budget.is_crowded_for(c.clientid)
        };
        let outstayed = |c: &&Client| {
            let kept =
                |c: &Client| c.confirmed && !crowded && !host_is_crowded(c) && !crowds(c.clientid);
            let long = self.lease_ms.saturating_add(courtesy_ms);
            c.lease_passed(now, self.lease_ms) && (c.lease_passed(now, long) || !kept(c))
        };
        self.clients.values().filter(outstayed).map(|c| c.clientid).collect()
    }

    /// The memory that all of this takes, and may take.
    pub fn memory(&self) -> MemoryUse {
        self.budget.memory()
    }

    /// Forgets a client unless its lease is valid; whether it did.
    pub fn drop_expired_client(&mut self, clientid: ClientId, now: Millis) -> bool {
        if self.is_live(clientid, now) {
            return false;
        }
        self.drop_client(clientid);
        true
    }
}

fn impl_name(id: &ImplId) -> String {
    let bytes = id.name.0.get(..IMPL_NAME_BYTES_MAX).unwrap_or(&id.name.0);
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod crowds;
#[cfg(test)]
mod tests;
