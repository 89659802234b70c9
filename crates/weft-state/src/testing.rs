//! Fixtures of this crate's tests: a table with one Linux-like client.

use bytes::Bytes;
use weft_nfs::ops::{
    CallbackSec, CallbackSecs, ChannelAttrs, ClientOwner, CreateSessionArgs, ExchangeIdArgs,
    ImplIds, RdmaIrd, SequenceArgs, ServerOwner, StateProtectArgs,
};
use weft_nfs::{
    ClientId, Opaque, SequenceId, SessionId, SlotId, StateOwner, Verifier, create_session_flags,
    exchgid, share,
};

use crate::{
    Asking, ConnId, CreateSessionOutcome, Envelope, FileKey, Identity, InSession, Millis, Origin,
    Principal, Reason, Refusal, SequenceOutcome, SessionLimits, Sessions, State, StateLimits,
    Wanted,
};

pub(crate) const ROOT: Principal = Principal::Sys { uid: 0 };
pub(crate) const CONN: ConnId = ConnId(1);
pub(crate) const LEASE_MS: u64 = 90_000;
pub(crate) const NOW: Millis = Millis(1_000_000);
pub(crate) const FILE: FileKey = FileKey { volume: 1, object: 10 };
pub(crate) const OTHER_FILE: FileKey = FileKey { volume: 1, object: 11 };
pub(crate) const A: ClientId = ClientId(1);
pub(crate) const B: ClientId = ClientId(2);

/// That principal on host 0.
pub(crate) fn from(principal: Principal) -> Origin {
    from_host(0, principal)
}

pub(crate) fn from_host(host: u8, principal: Principal) -> Origin {
    Origin { principal, address: std::net::IpAddr::from([10, 0, 0, host]) }
}

/// A small request.
pub(crate) const ENVELOPE: Envelope =
    Envelope { request_bytes: 200, reply_bytes_min: 80, op_count: 3, digest: 0 };

pub(crate) fn opaque(s: &str) -> Opaque {
    Opaque(Bytes::copy_from_slice(s.as_bytes()))
}

pub(crate) fn owner(s: &str) -> StateOwner {
    StateOwner { clientid: ClientId(0), owner: opaque(s) }
}

/// A client that has just opened a file to read it asks for a delegation.
pub(crate) fn reading(client: ClientId, file: FileKey, wanted: Wanted) -> Asking {
    let (access, change, own_changes) = (share::ACCESS_READ, 1, 0);
    let (possible, to_write) = (true, true);
    Asking { client, file, wanted, access, change, own_changes, possible, to_write }
}

/// The same of one that has opened it to write.
pub(crate) fn writing(client: ClientId, file: FileKey, wanted: Wanted) -> Asking {
    Asking { access: share::ACCESS_WRITE, ..reading(client, file, wanted) }
}

/// An empty table of state, with the limits that servers have.
pub(crate) fn new_state() -> State {
    State::new(1, StateLimits::default())
}

pub(crate) fn sessions_with(limits: SessionLimits) -> Sessions {
    let identity = Identity {
        server_owner: ServerOwner { minor_id: 0, major_id: opaque("mds") },
        scope: opaque("scope"),
        roles: exchgid::USE_PNFS_MDS,
        clientid_high: 0xabcd_0123,
        impl_id: None,
    };
    Sessions::new(identity, limits, LEASE_MS)
}

pub(crate) fn sessions() -> Sessions {
    sessions_with(SessionLimits::default())
}

pub(crate) fn exchange_id_args(ownerid: &str, verifier: u8, flags: u32) -> ExchangeIdArgs {
    ExchangeIdArgs {
        clientowner: ClientOwner { verifier: Verifier([verifier; 8]), ownerid: opaque(ownerid) },
        flags,
        state_protect: StateProtectArgs::None,
        client_impl_id: ImplIds(None),
    }
}

/// What Linux 6.12 asks for.
pub(crate) fn create_session_args(clientid: ClientId, sequence: SequenceId) -> CreateSessionArgs {
    let fore = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: (1 << 20) + 1000,
        maxresponsesize: (1 << 20) + 700,
        maxresponsesize_cached: 5000,
        maxoperations: 8,
        maxrequests: 64,
        rdma_ird: RdmaIrd(None),
    };
    let back = ChannelAttrs {
        maxrequestsize: 4096,
        maxresponsesize: 4096,
        maxresponsesize_cached: 0,
        maxoperations: 2,
        maxrequests: 16,
        ..fore
    };
    CreateSessionArgs {
        clientid,
        sequence,
        flags: create_session_flags::PERSIST | create_session_flags::CONN_BACK_CHAN,
        fore_chan_attrs: fore,
        back_chan_attrs: back,
        cb_program: 0x4000_0000,
        sec_parms: CallbackSecs(vec![CallbackSec::None]),
    }
}

/// A client as it sees itself: what EXCHANGE_ID gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) clientid: ClientId,
    pub(crate) sequence: SequenceId,
}

pub(crate) fn exchange_id(s: &mut Sessions, ownerid: &str, verifier: u8) -> Peer {
    let args = exchange_id_args(ownerid, verifier, 0x101);
    let random = ownerid.bytes().map(u32::from).sum::<u32>() + u32::from(verifier);
    let ok = s.exchange_id(NOW, &args, &from(ROOT), random, |_| true).unwrap().ok;
    Peer { clientid: ok.clientid, sequence: ok.sequenceid }
}

pub(crate) fn create_session(s: &mut Sessions, peer: Peer) -> CreateSessionOutcome {
    let args = create_session_args(peer.clientid, peer.sequence);
    s.create_session(NOW, &args, (&ROOT, CONN), [7; 16], |_| true).unwrap()
}

/// A confirmed client with one session.
pub(crate) fn client_with_session(s: &mut Sessions, ownerid: &str) -> (ClientId, SessionId) {
    let peer = exchange_id(s, ownerid, 1);
    (peer.clientid, create_session(s, peer).ok.sessionid)
}

pub(crate) fn sequence_args(sessionid: SessionId, slot: u32, sequence: u32) -> SequenceArgs {
    SequenceArgs {
        sessionid,
        sequenceid: SequenceId(sequence),
        slotid: SlotId(slot),
        highest_slotid: SlotId(slot),
        cachethis: false,
    }
}

pub(crate) fn sequence(s: &mut Sessions, args: &SequenceArgs) -> SequenceOutcome {
    s.sequence(NOW, args, CONN, &ENVELOPE)
}

#[track_caller]
pub(crate) fn new_request(outcome: SequenceOutcome) -> InSession {
    match outcome {
        SequenceOutcome::New(in_session) => in_session,
        other => panic!("expected a new request: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(outcome: SequenceOutcome) -> Reason {
    match outcome {
        SequenceOutcome::Refused(r) => r.because,
        other => panic!("expected a refusal: {other:?}"),
    }
}

/// The reason of a refusal.
#[track_caller]
pub(crate) fn why<T: std::fmt::Debug>(result: Result<T, Refusal>) -> Reason {
    result.unwrap_err().because
}
