//! EXCHANGE_ID and CREATE_SESSION of users on hosts that say they are one another, in any order:
//! nobody ends a client of another host or user that is in use.

#![no_main]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_nfs::{
    ClientId, Opaque, SequenceId, SessionId, SlotId, Verifier,
    ops::{
        CallbackSec, CallbackSecs, ChannelAttrs, ClientOwner, CreateSessionArgs, ExchangeIdArgs,
        ImplIds, RdmaIrd, SequenceArgs, ServerOwner, StateProtectArgs,
    },
};
use weft_state::{
    ConnId, Envelope, Identity, Millis, Origin, Principal, SequenceOutcome, SessionLimits, Sessions,
};

const LEASE_MS: u64 = 90_000;
/// How long a session that is not used still counts as used.
const IN_USE_MS: u64 = 30_000;
const ENVELOPE: Envelope =
    Envelope { request_bytes: 200, reply_bytes_min: 80, op_count: 3, digest: 0 };

/// A record as who asked for it knows it.
#[derive(Clone, Copy)]
struct Known {
    clientid: ClientId,
    next: SequenceId,
    from: Origin,
    renewed: Millis,
}

#[derive(Default)]
struct Model {
    known: BTreeMap<ClientId, Known>,
    sessions: Vec<(SessionId, ClientId, u32)>,
    holding: BTreeSet<ClientId>,
    steps: u32,
}

impl Model {
    /// A record has ended for another's sake: was it in nobody's use?
    fn ended(&mut self, gone: ClientId, by: &Origin, now: Millis) {
        let Some(old) = self.known.remove(&gone) else { return };
        let holds = self.holding.remove(&gone);
        let has_session = self.sessions.iter().any(|(_, client, _)| *client == gone);
        self.sessions.retain(|(_, client, _)| *client != gone);
        let unused = now.since(old.renewed);
        let same_user = old.from.principal == by.principal;
        let own = same_user && old.from.address == by.address;
        let session_counts = has_session && (!same_user || unused <= IN_USE_MS);
        let in_use = unused <= LEASE_MS && (holds || session_counts);
        assert!(own || !in_use, "a client in use ends");
    }
}

fn sessions() -> Sessions {
    let identity = Identity {
        server_owner: ServerOwner { minor_id: 0, major_id: Opaque(Bytes::from_static(b"fuzz")) },
        scope: Opaque(Bytes::from_static(b"fuzz")),
        roles: weft_nfs::exchgid::USE_PNFS_MDS,
        clientid_high: 7,
        impl_id: None,
    };
    Sessions::new(identity, SessionLimits::default(), LEASE_MS)
}

fn exchange_id(owner: u8, verifier: u8, flags: u32) -> ExchangeIdArgs {
    let ownerid = Opaque(Bytes::copy_from_slice(&[owner]));
    ExchangeIdArgs {
        clientowner: ClientOwner { verifier: Verifier([verifier; 8]), ownerid },
        flags,
        state_protect: StateProtectArgs::None,
        client_impl_id: ImplIds(None),
    }
}

fn create_session(clientid: ClientId, sequence: SequenceId) -> CreateSessionArgs {
    let channel = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 4096,
        maxresponsesize: 4096,
        maxresponsesize_cached: 1024,
        maxoperations: 8,
        maxrequests: 4,
        rdma_ird: RdmaIrd(None),
    };
    CreateSessionArgs {
        clientid,
        sequence,
        flags: 0,
        fore_chan_attrs: channel,
        back_chan_attrs: channel,
        cb_program: 1,
        sec_parms: CallbackSecs(vec![CallbackSec::None]),
    }
}

fn origin(byte: u8) -> Origin {
    let principal = match byte / 4 % 3 {
        0 => Principal::None,
        n => Principal::Sys { uid: u32::from(n) },
    };
    Origin { principal, address: IpAddr::from([10, 0, 0, byte % 4]) }
}

fn step(s: &mut Sessions, m: &mut Model, now: &mut Millis, [what, who, more]: [u8; 3]) {
    m.steps += 1;
    let holding = m.holding.clone();
    let holds = |client: ClientId| holding.contains(&client);
    let from = origin(who);
    let one = |list: Vec<ClientId>| list.get(usize::from(more) % list.len().max(1)).copied();
    let known = one(m.known.keys().copied().collect()).and_then(|id| m.known.get(&id).copied());
    match (what % 8, known) {
        (0 | 1, _) => {
            let flags = if what & 8 != 0 { weft_nfs::exchgid::UPD_CONFIRMED_REC_A } else { 0 };
            let args = exchange_id(more % 3, more / 3 % 3, flags);
            let Ok(done) = s.exchange_id(*now, &args, &from, m.steps, holds) else { return };
            done.purged.into_iter().for_each(|gone| m.ended(gone, &from, *now));
            let (clientid, next) = (done.ok.clientid, done.ok.sequenceid);
            let new = Known { clientid, next, from, renewed: *now };
            m.known.entry(clientid).or_insert(new).next = next;
        }
        (2 | 3, Some(known)) => {
            let args = create_session(known.clientid, known.next);
            let as_who = (&from.principal, ConnId(1));
            let mut random = [0; 16];
            random[..4].copy_from_slice(&m.steps.to_be_bytes());
            let Ok(made) = s.create_session(*now, &args, as_who, random, holds) else { return };
            made.purged.into_iter().for_each(|gone| m.ended(gone, &known.from, *now));
            m.sessions.push((made.ok.sessionid, known.clientid, 0));
            let record = m.known.get_mut(&known.clientid).expect("it is known");
            (record.next, record.renewed) = (made.ok.sequence.next(), *now);
        }
        (4, _) if !m.sessions.is_empty() => {
            let at = usize::from(more) % m.sessions.len();
            let (sessionid, client, last) = &mut m.sessions[at];
            *last += 1;
            let args = SequenceArgs {
                sessionid: *sessionid,
                sequenceid: SequenceId(*last),
                slotid: SlotId(0),
                highest_slotid: SlotId(0),
                cachethis: false,
            };
            match s.sequence(*now, &args, ConnId(1), &ENVELOPE) {
                SequenceOutcome::New(in_session) => s.complete(&in_session, None),
                other => panic!("a session of a client that nobody ended: {other:?}"),
            }
            m.known.get_mut(client).expect("its client is known").renewed = *now;
        }
        (5, _) => now.0 += u64::from(more) * 500,
        (6, Some(known)) if m.sessions.iter().any(|(_, c, _)| *c == known.clientid) => {
            m.holding.insert(known.clientid);
        }
        (7, Some(known)) => {
            let busy = holds(known.clientid)
                || m.sessions.iter().any(|(_, client, _)| *client == known.clientid);
            if s.destroy_clientid(known.clientid, holds(known.clientid)).is_ok() {
                assert!(!busy, "a client in use is destroyed");
                m.known.remove(&known.clientid);
            }
        }
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let (mut sessions, mut model, mut now) = (sessions(), Model::default(), Millis(1_000_000));
    for bytes in data.chunks_exact(3) {
        step(&mut sessions, &mut model, &mut now, [bytes[0], bytes[1], bytes[2]]);
    }
});
