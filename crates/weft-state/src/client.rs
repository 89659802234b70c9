//! Client records, and which case of EXCHANGE_ID a request is: RFC 8881 §18.35.4.

use std::net::IpAddr;

use weft_nfs::ops::{ClientOwner, CreateSessionOk, ExchangeIdArgs};
use weft_nfs::{ClientId, Opaque, SequenceId, SessionId, exchgid};

use crate::host::Host;
use crate::ids::Millis;
use crate::limits::SESSION_IN_USE_MS;
use crate::memory::{Budget, allocated, map_entry, name_bytes};
use crate::refusal::Reason;
use crate::state::HELD_BYTES;

/// The caller of an EXCHANGE_ID or CREATE_SESSION, as far as AUTH_NONE and AUTH_SYS can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys {
        /// The effective user.
        uid: u32,
    },
}

/// Where an EXCHANGE_ID came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Principal of the caller.
    pub principal: Principal,
    /// From which address.
    pub address: IpAddr,
}

/// A client record, confirmed or not.
#[derive(Debug)]
pub struct Client {
    pub(crate) clientid: ClientId,
    pub(crate) owner: ClientOwner,
    pub(crate) principal: Principal,
    /// Where it first came from.
    pub(crate) address: IpAddr,
    /// That host, of whose share it is.
    pub(crate) host: Host,
    pub(crate) impl_name: Option<String>,
    pub(crate) confirmed: bool,
    /// The `csa_sequence` of the next new CREATE_SESSION.
    pub(crate) create_next: SequenceId,
    /// Whether a CREATE_SESSION of that number was refused: see [`Client::judge_create`].
    pub(crate) create_refused: bool,
    /// The result of the last CREATE_SESSION, for its retries.
    pub(crate) created_last: Option<CreateSessionOk>,
    pub(crate) renewed: Millis,
    pub(crate) reclaim_complete: bool,
    /// It was told EXCHGID4_FLAG_SUPP_FENCE_OPS: what ends its sessions, or it, waits for its
    /// requests (RFC 7862 §14.1.4).
    pub(crate) fences_ops: bool,
    /// SEQ4_STATUS bits reported until taken back.
    pub(crate) status: u32,
    /// SEQ4_STATUS bits reported in the next new SEQUENCE reply only.
    pub(crate) status_once: u32,
    /// At most [`crate::SessionLimits::sessions_per_client_max`].
    pub(crate) sessions: Vec<SessionId>,
}

/// Longest implementation name kept for people to read.
pub(crate) const IMPL_NAME_BYTES_MAX: usize = 128;
/// A durable mark that a metadata server keeps of a client that holds something, in memory: a hash
/// map, which is at least 7/16 full, has it.
const MARK_BYTES: usize = 256;
/// Bytes that a client takes at most beside its sessions and its owner's name: its record, with
/// what [`crate::State`] and the server keep of everyone. An implementation name that is no UTF-8
/// grows to three times its length.
const CLIENT_BYTES: usize = map_entry::<ClientId, Client>()
    + map_entry::<Opaque, [Option<ClientId>; 2]>()
    + allocated(3 * IMPL_NAME_BYTES_MAX)
    + Budget::ACCOUNT_BYTES
    + HELD_BYTES
    + MARK_BYTES;

/// Bytes that a client takes beside its sessions; the name is in the record and in the mark.
pub(crate) fn client_bytes(ownerid: &Opaque) -> usize {
    CLIENT_BYTES + 2 * name_bytes(ownerid.0.len())
}

impl Client {
    /// Client id of the record.
    pub fn clientid(&self) -> ClientId {
        self.clientid
    }

    /// Its owner: verifier and the name it keeps over restarts.
    pub fn owner(&self) -> &ClientOwner {
        &self.owner
    }

    /// The caller that asked for the record.
    pub fn principal(&self) -> Principal {
        self.principal
    }

    /// Where it came from when it asked for the record.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What it says it is, for people to read.
    pub fn impl_name(&self) -> Option<&str> {
        self.impl_name.as_deref()
    }

    /// Whether CREATE_SESSION has confirmed it; only then can it hold state.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// When it last renewed its lease.
    pub fn renewed(&self) -> Millis {
        self.renewed
    }

    /// Sessions of the client, in the order of their creation.
    pub fn sessions(&self) -> &[SessionId] {
        &self.sessions
    }

    /// Whether another host may take its place (§18.35.4, case 5): it holds no state under a valid
    /// lease, and its sessions, which are soon made anew, have not been used for a while. So
    /// whoever comes back with another address after a crash waits no longer than needed.
    pub(crate) fn may_go(&self, now: Millis, lease_ms: u64, holds_state: bool) -> bool {
        let in_use = !self.sessions.is_empty() && now.since(self.renewed) <= SESSION_IN_USE_MS;
        self.lease_passed(now, lease_ms) || !holds_state && !in_use
    }

    pub(crate) fn lease_passed(&self, now: Millis, lease_ms: u64) -> bool {
        now.since(self.renewed) > lease_ms
    }

    /// Judges `csa_sequence` (§18.36.4): `None` is a new request, `Some` the result to repeat.
    ///
    /// A refused request leaves nothing behind, so its retry is simply tried again; but clients
    /// do not agree whether it used up its number (Linux `_nfs4_proc_create_session` counts most
    /// refusals), so the number after it is as good.
    pub(crate) fn judge_create(
        &self,
        sequence: SequenceId,
    ) -> Result<Option<&CreateSessionOk>, Reason> {
        let skips = self.create_refused && sequence == self.create_next.next();
        if sequence == self.create_next || skips {
            return Ok(None);
        }
        let last = self.created_last.as_ref().filter(|ok| ok.sequence == sequence);
        last.map(Some).ok_or(Reason::CreateMisordered)
    }
}

/// The cases of RFC 8881 §18.35.4, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ExchangeIdCase {
    /// 1. The owner has no record.
    NewOwner,
    /// 2. Not an update, and the same incarnation is confirmed already.
    SameIncarnation,
    /// 3, first half. The owner is another principal's, who holds nothing: replaced at once.
    CollisionIdle,
    /// 3, second half. The owner is another principal's, who holds state: CLID_INUSE.
    CollisionInUse,
    /// 4. The owner has an unconfirmed record only: replaced.
    ReplaceUnconfirmed,
    /// 5. Another incarnation is confirmed: both live until the new one is confirmed.
    ClientRestart,
    /// 5, but of another host's client that is in use: CLID_INUSE. AUTH_SYS tells nobody's host,
    /// and Linux's owners can be guessed.
    RestartElsewhere,
    /// 6. Update of the confirmed record.
    Update,
    /// 7. Update, but nothing is confirmed.
    UpdateUnknown,
    /// 8. Update with another verifier.
    UpdateVerifier,
    /// 9. Update by another principal.
    UpdatePrincipal,
}

/// Finds the case. `may_go` tells whether a confirmed record holds nothing worth protecting from
/// another principal, or from another host.
pub(crate) fn exchange_id_case(
    args: &ExchangeIdArgs,
    from: &Origin,
    confirmed: Option<&Client>,
    has_unconfirmed: bool,
    may_go: impl Fn(&Client) -> bool,
) -> ExchangeIdCase {
    let update = args.flags & exchgid::UPD_CONFIRMED_REC_A != 0;
    let Some(c) = confirmed else {
        return match (update, has_unconfirmed) {
            (true, _) => ExchangeIdCase::UpdateUnknown,
            (false, true) => ExchangeIdCase::ReplaceUnconfirmed,
            (false, false) => ExchangeIdCase::NewOwner,
        };
    };
    let same_verifier = c.owner.verifier == args.clientowner.verifier;
    let same_principal = c.principal == from.principal;
    let same_host = c.host == Host::from(from.address);
    match (update, same_principal, same_verifier) {
        (true, false, _) => ExchangeIdCase::UpdatePrincipal,
        (true, true, false) => ExchangeIdCase::UpdateVerifier,
        (true, true, true) => ExchangeIdCase::Update,
        (false, true, true) => ExchangeIdCase::SameIncarnation,
        (false, true, false) if same_host || may_go(c) => ExchangeIdCase::ClientRestart,
        (false, true, false) => ExchangeIdCase::RestartElsewhere,
        (false, false, _) if may_go(c) => ExchangeIdCase::CollisionIdle,
        (false, false, _) => ExchangeIdCase::CollisionInUse,
    }
}

impl ExchangeIdCase {
    /// Whether the confirmed record answers (`true`), a new unconfirmed one does (`false`), or
    /// neither.
    pub(crate) fn answers_confirmed(self) -> Result<bool, Reason> {
        match self {
            ExchangeIdCase::NewOwner
            | ExchangeIdCase::ReplaceUnconfirmed
            | ExchangeIdCase::ClientRestart
            | ExchangeIdCase::CollisionIdle => Ok(false),
            ExchangeIdCase::SameIncarnation | ExchangeIdCase::Update => Ok(true),
            ExchangeIdCase::CollisionInUse => Err(Reason::ClientInUse),
            ExchangeIdCase::RestartElsewhere => Err(Reason::ClientElsewhere),
            ExchangeIdCase::UpdateUnknown => Err(Reason::UpdateUnknown),
            ExchangeIdCase::UpdateVerifier => Err(Reason::UpdateVerifier),
            ExchangeIdCase::UpdatePrincipal => Err(Reason::UpdatePrincipal),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
