//! The transition table of the records of one client owner.

use std::net::IpAddr;

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;
use crate::testing::*;
use crate::{SessionLimits, Sessions};

/// One client owner. "Same" and "other" verifiers and principals are by its records: the confirmed
/// one, else the unconfirmed one.
struct Owner {
    sessions: Sessions,
    now: Millis,
    /// Makes verifiers, client ids and connections that were not there before.
    count: u8,
}

const COURTESY_MS: u64 = 10 * LEASE_MS;
const ALICE: Principal = Principal::Sys { uid: 1000 };

impl Owner {
    fn new() -> Owner {
        let limits = SessionLimits { sessions_per_client_max: 1, ..SessionLimits::default() };
        Owner { sessions: sessions_with(limits), now: NOW, count: 0 }
    }

    fn record(&self, confirmed: bool) -> Option<&Client> {
        self.sessions.clients().find(|c| c.is_confirmed() == confirmed)
    }

    fn model(&self) -> Option<&Client> {
        self.record(true).or(self.record(false))
    }

    fn describe(&self) -> String {
        let lease = |c: &Client| match c.lease_passed(self.now, LEASE_MS) {
            true => "lease passed",
            false => "lease valid",
        };
        let confirmed = self.record(true).map(|c| {
            let sessions = if c.sessions().is_empty() { ", no session" } else { "" };
            format!("confirmed, {}{sessions}", lease(c))
        });
        let host = |confirmed| self.record(confirmed).map(|c| c.host);
        let elsewhere = match (host(true), host(false)) {
            (Some(a), Some(b)) if a != b => ", of another host",
            _ => "",
        };
        let unconfirmed =
            self.record(false).map(|c| format!("unconfirmed, {}{elsewhere}", lease(c)));
        let all: Vec<String> = confirmed.into_iter().chain(unconfirmed).collect();
        if all.is_empty() { "no record".into() } else { all.join("; ") }
    }

    fn exchange_id(&mut self, same_verifier: bool, same_principal: bool, flags: u32) -> Outcome {
        let host = self.model().map_or(0, host_of);
        self.exchange_id_from(host, same_verifier, same_principal, flags)
    }

    fn restart_elsewhere(&mut self) -> Outcome {
        let host = self.model().map_or(0, |c| 1 - host_of(c));
        self.exchange_id_from(host, false, true, 0)
    }

    fn exchange_id_from(
        &mut self,
        host: u8,
        same_verifier: bool,
        same_principal: bool,
        flags: u32,
    ) -> Outcome {
        self.count += 1;
        let mut args = exchange_id_args("host", self.count, flags);
        let mut who = ROOT;
        if let Some(model) = self.model() {
            let other = if model.principal() == ROOT { ALICE } else { ROOT };
            who = if same_principal { model.principal() } else { other };
            if same_verifier {
                args.clientowner.verifier = model.owner().verifier;
            }
        }
        let random = u32::from(self.count);
        match self.sessions.exchange_id(self.now, &args, &from_host(host, who), random, |_| false) {
            Ok(done) => Outcome::said(if done.purged.is_some() { "state dropped" } else { "" }),
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn create_session(&mut self, confirmed: bool, same_principal: bool, ahead: u32) -> Outcome {
        self.count += 1;
        let is_retry = ahead == u32::MAX;
        let room = |c: &&Client| is_retry || c.sessions().is_empty();
        let Some(client) = self.record(confirmed).filter(room) else { return Outcome::Never };
        let other = if client.principal() == ROOT { ALICE } else { ROOT };
        let who = if same_principal { client.principal() } else { other };
        let sequence = SequenceId(client.create_next.0.wrapping_add(ahead));
        let args = create_session_args(client.clientid(), sequence);
        let random = [self.count; 16];
        match self.sessions.create_session(self.now, &args, (&who, CONN), random, |_| false) {
            Ok(done) if !done.purged.is_empty() => Outcome::said("state of the other one dropped"),
            Ok(_) => Outcome::OK,
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn session(&self) -> Option<SessionId> {
        self.record(true).and_then(|c| c.sessions().first().copied())
    }

    fn sequence(&mut self) -> Outcome {
        let Some(session) = self.session() else { return Outcome::Never };
        // A slot that no table of this length comes to twice.
        let args = sequence_args(session, u32::from(self.count), 1);
        self.count += 1;
        match self.sessions.sequence(self.now, &args, CONN, &ENVELOPE) {
            crate::SequenceOutcome::New(_) => Outcome::OK,
            other => panic!("a new request on a free slot: {other:?}"),
        }
    }

    fn destroy_clientid(&mut self, confirmed: bool, holds: bool) -> Outcome {
        let Some(id) = self.record(confirmed).map(Client::clientid) else { return Outcome::Never };
        Outcome::of(self.sessions.destroy_clientid(id, holds))
    }

    fn drop_those(&mut self, gone: Vec<ClientId>) -> Outcome {
        gone.iter().for_each(|id| self.sessions.drop_client(*id));
        if gone.is_empty() { Outcome::Never } else { Outcome::OK }
    }
}

/// The last byte of the address that a record was asked for from: 0 or 1.
fn host_of(client: &Client) -> u8 {
    match client.address() {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => panic!("{address}"),
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let update = exchgid::UPD_CONFIRMED_REC_A;
    let about = "The records of one client owner, which may have one session: RFC 8881 §8.3, \
                 §8.4.3, §18.35-§18.37, §18.50.";
    let machine = Machine::new(about, Owner::new, Owner::describe)
        .on("EXCHANGE_ID", |o| o.exchange_id(true, true, 0))
        .on("EXCHANGE_ID, other verifier", |o| o.exchange_id(false, true, 0))
        .on("EXCHANGE_ID, other verifier, other host", Owner::restart_elsewhere)
        .on("EXCHANGE_ID, other principal", |o| o.exchange_id(true, false, 0))
        .on("EXCHANGE_ID, update", move |o| o.exchange_id(true, true, update))
        .on("EXCHANGE_ID, update, other verifier", move |o| o.exchange_id(false, true, update))
        .on("EXCHANGE_ID, update, other principal", move |o| o.exchange_id(true, false, update))
        .on("CREATE_SESSION of the confirmed", |o| o.create_session(true, true, 0))
        .on("CREATE_SESSION of the confirmed, retry", |o| o.create_session(true, true, u32::MAX))
        .on("CREATE_SESSION of the confirmed, one skipped", |o| o.create_session(true, true, 1))
        .on("CREATE_SESSION of the unconfirmed", |o| o.create_session(false, true, 0))
        .on("SEQUENCE", Owner::sequence)
        .on("DESTROY_SESSION", |o| match o.session() {
            Some(session) => Outcome::of(o.sessions.destroy_session(session, CONN)),
            None => Outcome::Never,
        })
        .on("DESTROY_CLIENTID of the confirmed", |o| o.destroy_clientid(true, false))
        .on("DESTROY_CLIENTID of the confirmed, with state", |o| o.destroy_clientid(true, true))
        .on("DESTROY_CLIENTID of the unconfirmed", |o| o.destroy_clientid(false, false))
        .on("lease passes", |o| {
            o.now = Millis(o.now.0 + LEASE_MS + 1);
            Outcome::OK
        })
        .on("swept", |o| {
            let gone = o.sessions.outstayed(o.now, COURTESY_MS, |_| false);
            o.drop_those(gone)
        })
        .on("in another's way", |o| match o.record(true).map(Client::clientid) {
            Some(id) if o.sessions.drop_expired_client(id, o.now) => Outcome::OK,
            Some(_) => Outcome::said("stays"),
            None => Outcome::Never,
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "client", &machine.table());
}
