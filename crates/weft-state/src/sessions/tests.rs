//! CREATE_SESSION, the ends of sessions and clients, leases and limits.

use weft_nfs::NfsStat;
use weft_nfs::ops::{CallbackSec, CallbackSecs, ChannelAttrs, RdmaIrd};

use super::*;
use crate::limits::SLOTS_MIN;
use crate::memory::Want;
use crate::slot::slot_bytes;
use crate::testing::*;

fn attempt(s: &mut Sessions, args: &CreateSessionArgs) -> Result<CreateSessionOutcome, Refusal> {
    s.create_session(NOW, args, (&ROOT, CONN), [3; 16], |_| true)
}

/// Proves that a fresh Linux mount works: EXCHANGE_ID twice (trunking discovery, state manager),
/// CREATE_SESSION, RECLAIM_COMPLETE.
#[test]
fn linux_fresh_mount() {
    let mut s = sessions();
    exchange_id(&mut s, "linux", 1);
    let peer = exchange_id(&mut s, "linux", 1);
    let outcome = create_session(&mut s, peer);
    assert_eq!(outcome.confirmed.unwrap().clientid, peer.clientid);
    assert!(outcome.purged.is_empty());
    assert!(!s.reclaim_is_complete(peer.clientid));
    assert_eq!(s.reclaim_complete(peer.clientid), Ok(()));
    assert!(s.reclaim_is_complete(peer.clientid));
    assert_eq!(why(s.reclaim_complete(peer.clientid)), Reason::ReclaimDoneBefore);
    assert!(s.is_live(peer.clientid, NOW));
}

/// Linux `nfs4_purge_lease`: CONFIRMED_R without a session of its own makes the client confirm an
/// all-ones verifier, then its real one; each confirmation drops the incarnation before.
#[test]
fn linux_purge_lease() {
    let mut s = sessions();
    let (left_over, _) = client_with_session(&mut s, "linux");
    let args = exchange_id_args("linux", 1, 0x101);
    let ok = s.exchange_id(NOW, &args, &from(ROOT), 1, |_| true).unwrap().ok;
    assert_eq!((ok.clientid, ok.flags & exchgid::CONFIRMED_R), (left_over, exchgid::CONFIRMED_R));

    let purging = exchange_id(&mut s, "linux", 0xff);
    assert_eq!(create_session(&mut s, purging).purged, vec![left_over]);
    let real = exchange_id(&mut s, "linux", 1);
    assert_eq!(create_session(&mut s, real).purged, vec![purging.clientid]);
    assert_eq!(s.clients().map(|c| c.clientid()).collect::<Vec<_>>(), vec![real.clientid]);
    assert_eq!(s.sessions.len(), 1);
}

/// Proves that what Linux asks for is granted within what it accepts.
#[test]
fn grants_are_within_what_was_asked() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let asked = create_session_args(peer.clientid, peer.sequence);
    let ok = attempt(&mut s, &asked).unwrap().ok;
    assert_eq!(ok.flags, create_session_flags::CONN_BACK_CHAN, "PERSIST is never granted");
    assert_eq!(ok.fore_chan_attrs, asked.fore_chan_attrs);
    assert_eq!(ok.back_chan_attrs, asked.back_chan_attrs);
    assert_eq!(ok.sequence, peer.sequence);
}

/// Proves that greedy wishes are cut to the limits.
#[test]
fn grants_are_within_the_limits() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "greedy", 1);
    let mut args = create_session_args(peer.clientid, peer.sequence);
    args.fore_chan_attrs = ChannelAttrs {
        headerpadsize: 64,
        maxrequestsize: u32::MAX,
        maxresponsesize: u32::MAX,
        maxresponsesize_cached: u32::MAX,
        maxoperations: u32::MAX,
        maxrequests: u32::MAX,
        rdma_ird: RdmaIrd(Some(1)),
    };
    args.back_chan_attrs.maxrequests = u32::MAX;
    let ok = attempt(&mut s, &args).unwrap().ok;
    let limits = SessionLimits::default();
    let expected = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: limits.request_bytes_max,
        maxresponsesize: limits.response_bytes_max,
        maxresponsesize_cached: limits.cached_bytes_max,
        maxoperations: limits.ops_max,
        maxrequests: limits.slots_max,
        rdma_ird: RdmaIrd(None),
    };
    assert_eq!(ok.fore_chan_attrs, expected);
    assert_eq!(ok.back_chan_attrs.maxrequests, 16);
}

/// Both sides of the smallest channels, and unknown flags.
#[test]
fn unusable_channels_are_refused() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let good = create_session_args(peer.clientid, peer.sequence);
    let mut tries: Vec<(Reason, CreateSessionArgs)> = Vec::new();
    let mut bad = |reason, change: fn(&mut CreateSessionArgs)| {
        let mut args = good.clone();
        change(&mut args);
        tries.push((reason, args));
    };
    bad(Reason::FlagsUnknown, |a| a.flags = 8);
    bad(Reason::ChannelTooSmall, |a| a.fore_chan_attrs.maxrequestsize = 127);
    bad(Reason::ChannelTooSmall, |a| a.fore_chan_attrs.maxresponsesize = 127);
    bad(Reason::ChannelEmpty, |a| a.fore_chan_attrs.maxrequests = 0);
    bad(Reason::ChannelEmpty, |a| a.fore_chan_attrs.maxoperations = 0);
    bad(Reason::ChannelTooSmall, |a| a.back_chan_attrs.maxrequestsize = 511);
    bad(Reason::ChannelTooSmall, |a| a.back_chan_attrs.maxoperations = 1);
    bad(Reason::ChannelTooSmall, |a| a.back_chan_attrs.maxrequests = 0);
    bad(Reason::ChannelTooSmall, |a| {
        a.flags = 0;
        a.back_chan_attrs.maxoperations = 1;
    });
    for (reason, args) in tries {
        assert_eq!(why(attempt(&mut s, &args)), reason);
    }
    assert!(!s.client(peer.clientid).unwrap().is_confirmed(), "refused: nothing happened");
    let mut small = good.clone();
    small.fore_chan_attrs.maxrequestsize = 128;
    small.fore_chan_attrs.maxresponsesize = 128;
    small.back_chan_attrs.maxrequestsize = 512;
    small.back_chan_attrs.maxrequests = 1;
    assert!(attempt(&mut s, &small).is_ok());
}

/// RFC 8881 §18.36.4: a retry is answered from the cache, other numbers are misordered.
#[test]
fn create_session_is_exactly_once() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let at =
        |n: u32| create_session_args(peer.clientid, SequenceId(peer.sequence.0.wrapping_add(n)));
    assert_eq!(why(attempt(&mut s, &at(u32::MAX))), Reason::CreateMisordered, "nothing to retry");
    assert_eq!(why(attempt(&mut s, &at(1))), Reason::CreateMisordered);
    let first = attempt(&mut s, &at(0)).unwrap();
    let again = attempt(&mut s, &at(0)).unwrap();
    assert_eq!(first.ok, again.ok);
    assert_eq!((again.confirmed, again.purged), (None, Vec::new()));
    assert_eq!(s.sessions.len(), 1);
    assert_eq!(why(attempt(&mut s, &at(2))), Reason::CreateMisordered);
    let second = attempt(&mut s, &at(1)).unwrap();
    assert_ne!(first.ok.sessionid, second.ok.sessionid, "even with the same random bytes");
    assert_eq!(why(attempt(&mut s, &at(0))), Reason::CreateMisordered);
    let refusal = attempt(&mut s, &at(9)).unwrap_err();
    assert_eq!(refusal.status, NfsStat::SEQ_MISORDERED);
}

/// Proves that after a refused CREATE_SESSION both the same and the next number work: Linux
/// counts most refusals, others do not.
#[test]
fn a_refused_create_session_may_or_may_not_count() {
    for counts in [0, 1] {
        let mut s = sessions();
        let peer = exchange_id(&mut s, "linux", 1);
        let mut args = create_session_args(peer.clientid, peer.sequence);
        args.fore_chan_attrs.maxrequests = 0;
        assert_eq!(why(attempt(&mut s, &args)), Reason::ChannelEmpty);
        let next = SequenceId(peer.sequence.0 + counts);
        assert!(attempt(&mut s, &create_session_args(peer.clientid, next)).is_ok());
        let after = create_session_args(peer.clientid, SequenceId(next.0 + 2));
        assert_eq!(why(attempt(&mut s, &after)), Reason::CreateMisordered);
    }
}

/// Proves that only the principal of the EXCHANGE_ID confirms a client.
#[test]
fn another_principal_cannot_confirm() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let args = create_session_args(peer.clientid, peer.sequence);
    let answer = s.create_session(NOW, &args, (&Principal::None, CONN), [0; 16], |_| true);
    assert_eq!(why(answer), Reason::ConfirmPrincipal);
    assert!(attempt(&mut s, &args).is_ok());
}

/// Proves that callbacks are not promised with a security that cannot be used.
#[test]
fn no_back_channel_with_gss_only() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let mut args = create_session_args(peer.clientid, peer.sequence);
    args.sec_parms = CallbackSecs(vec![CallbackSec::Gss]);
    assert_eq!(attempt(&mut s, &args).unwrap().ok.flags, 0);
    assert!(!s.has_back_channel(peer.clientid));
    assert_eq!(s.callback_begin(peer.clientid), None);
}

/// Both sides of the limit of sessions, and that destroying one makes room.
#[test]
fn sessions_per_client_are_limited() {
    let limits = SessionLimits { sessions_per_client_max: 2, ..SessionLimits::default() };
    let mut s = sessions_with(limits);
    let peer = exchange_id(&mut s, "linux", 1);
    let at = |n| create_session_args(peer.clientid, SequenceId(peer.sequence.0 + n));
    let first = attempt(&mut s, &at(0)).unwrap().ok.sessionid;
    attempt(&mut s, &at(1)).unwrap();
    assert_eq!(why(attempt(&mut s, &at(2))), Reason::TooManySessions);
    s.destroy_session(first, CONN).unwrap();
    attempt(&mut s, &at(2)).unwrap();
}

/// Proves that what is granted is what was asked, however little is left; and that sessions without
/// room for their first slots are refused until there is.
#[test]
fn slots_of_all_sessions_are_limited() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "first");
    let peers = ["late", "last"].map(|name| exchange_id(&mut s, name, 1));
    let [late, last] = peers.map(|peer| create_session_args(peer.clientid, peer.sequence));
    let one = slot_bytes(&s.sessions[&sessionid].fore);
    let leave = |s: &mut Sessions, bytes: usize| {
        s.budget.forget(ClientId(99));
        let free = s.limits.memory_bytes - s.memory().used;
        s.budget.take(ClientId(99), free - bytes);
    };
    // Of what is left a host may have what it does not have more of than it leaves.
    let wanted = SESSION_BYTES + SLOTS_MIN * one;
    let of_host = s.memory().used;
    leave(&mut s, 2 * wanted + of_host);
    assert_eq!(attempt(&mut s, &late).unwrap().ok.fore_chan_attrs.maxrequests, 64);
    leave(&mut s, 2 * wanted + of_host + wanted - 1);
    assert_eq!(why(attempt(&mut s, &last)), Reason::NoMemoryForSession);
    s.destroy_session(sessionid, CONN).unwrap();
    assert!(attempt(&mut s, &last).is_ok());
    assert!(s.client(clientid).unwrap().sessions().is_empty());
}

/// Both sides of a client's own share of memory for sessions.
#[test]
fn memory_of_a_client_is_limited() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "greedy", 1);
    let args = create_session_args(peer.clientid, peer.sequence);
    let one = SESSION_BYTES + SLOTS_MIN * slot_bytes(&args.fore_chan_attrs);
    let taken = s.budget.fill(peer.clientid, Want::Need, one - 1);
    assert_eq!(why(attempt(&mut s, &args)), Reason::TooManySessions);
    s.budget.give_back(peer.clientid, taken);
    s.budget.fill(peer.clientid, Want::Need, one);
    attempt(&mut s, &args).unwrap();
}

/// Both sides of the memory for client records: unconfirmed ones give way, also to one of another
/// host that takes the place of its owner's; but not those of who has less.
#[test]
fn memory_of_clients_is_limited() {
    let mut s = sessions();
    let bytes = client_bytes(&opaque("a"));
    s.budget = Budget::new(5 * bytes);
    let ask = |s: &mut Sessions, host: u8, owner: &str| {
        let (args, random) = (exchange_id_args(owner, 1, 0), u32::from(owner.as_bytes()[0]));
        let asked = s.exchange_id(NOW, &args, &from_host(host, ROOT), random, |_| true);
        asked.map(|o| o.ok.clientid).map_err(|r| r.because)
    };
    let a = ask(&mut s, 1, "a").unwrap();
    let b = ask(&mut s, 1, "b").unwrap();
    let c = ask(&mut s, 2, "c").unwrap();
    let d = ask(&mut s, 1, "d").unwrap();
    assert!(s.client(a).is_none() && s.client(b).is_some(), "the oldest of host 1");
    for client in [b, d] {
        s.clients.get_mut(&client).unwrap().confirmed = true;
    }
    assert_eq!(ask(&mut s, 1, "c"), Err(Reason::TooManyClients), "host 1 has its share");
    assert!(s.client(c).is_some(), "and took nothing from host 2");
    let long = "long".repeat(256);
    assert_eq!(ask(&mut s, 3, &long), Err(Reason::TooManyClients), "more than a client's share");
    s.budget.check();
}

/// Both sides of the limit of clients: unconfirmed records give way, oldest first.
#[test]
fn clients_are_limited() {
    let mut s = sessions_with(SessionLimits { clients_max: 4, ..SessionLimits::default() });
    let (kept, _) = client_with_session(&mut s, "confirmed");
    let oldest = exchange_id(&mut s, "one", 1);
    let newer = exchange_id(&mut s, "two", 1);
    assert!(s.client(oldest.clientid).is_none());
    assert!(s.client(kept).is_some());
    create_session(&mut s, newer);
    let full = s.exchange_id(NOW, &exchange_id_args("three", 1, 0), &from(ROOT), 0, |_| true);
    assert_eq!(why(full), Reason::TooManyClients);
    let known = s.exchange_id(NOW, &exchange_id_args("two", 1, 0), &from(ROOT), 0, |_| true);
    assert!(known.is_ok(), "those that are in stay in");
}

/// Both sides of a host's share: what is beyond it costs that host's own unconfirmed records, and
/// nobody else anything; and a host that has nearly used it up gets no courtesy.
#[test]
fn clients_of_a_host_are_limited() {
    let limits =
        SessionLimits { clients_max: 100, clients_per_host_max: 4, ..SessionLimits::default() };
    let mut s = sessions_with(limits);
    let ask = |s: &mut Sessions, host: u8, owner: &str| {
        let (args, random) = (exchange_id_args(owner, 1, 0), u32::from(owner.as_bytes()[0]));
        let asked = s.exchange_id(NOW, &args, &from_host(host, ROOT), random, |_| true);
        let ok = asked.map_err(|r| r.because)?.ok;
        Ok::<_, Reason>(Peer { clientid: ok.clientid, sequence: ok.sequenceid })
    };
    let waiting = ask(&mut s, 1, "of another host").unwrap();
    for owner in ["a", "b", "c"] {
        let peer = ask(&mut s, 2, owner).unwrap();
        create_session(&mut s, peer);
    }
    let fourth = ask(&mut s, 2, "d").unwrap();
    let fifth = ask(&mut s, 2, "e").unwrap();
    assert!(s.client(fourth.clientid).is_none(), "the oldest unconfirmed one of this host");
    assert!(s.client(waiting.clientid).is_some());
    create_session(&mut s, fifth);
    assert_eq!(ask(&mut s, 2, "f").unwrap_err(), Reason::TooManyClients);
    let other = ask(&mut s, 1, "g").unwrap();
    create_session(&mut s, other);
    let past = Millis(NOW.0 + LEASE_MS + 1);
    let outstayed = s.outstayed(past, 1_000_000, |_| false);
    assert!(!outstayed.contains(&other.clientid));
    assert_eq!(outstayed.len(), 1 + 4, "the unconfirmed one, and the crowd of host 2");
}

/// RFC 8881 §18.37.3, §18.50.3: the order of ends.
#[test]
fn destroying_sessions_and_clients() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    assert_eq!(why(s.destroy_session(SessionId([0; 16]), CONN)), Reason::SessionUnknown);
    assert_eq!(why(s.destroy_session(sessionid, ConnId(99))), Reason::NotBound);
    assert_eq!(why(s.destroy_clientid(clientid, false)), Reason::ClientHasSessions);
    assert_eq!(s.destroy_session(sessionid, CONN), Ok(()));
    assert_eq!(why(s.destroy_clientid(clientid, true)), Reason::ClientHasState);
    assert_eq!(s.destroy_clientid(clientid, false), Ok(()));
    assert_eq!(why(s.destroy_clientid(clientid, false)), Reason::ClientUnknown);
    assert!(s.clients.is_empty() && s.sessions.is_empty() && s.records_by_owner.is_empty());
    assert_eq!(s.memory().used, 0);
}

/// Proves that a lease runs from the last SEQUENCE, that passing it drops nothing, and that a
/// late SEQUENCE revives it (courtesy).
#[test]
fn leases_pass_and_come_back() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let at_end = Millis(NOW.0 + LEASE_MS);
    let late = Millis(NOW.0 + LEASE_MS + 1);
    assert!(s.is_live(clientid, at_end) && s.expired(at_end).is_empty());
    assert!(!s.is_live(clientid, late));
    assert_eq!(s.expired(late), vec![clientid]);
    let outcome = s.sequence(late, &sequence_args(sessionid, 0, 1), CONN, &ENVELOPE);
    new_request(outcome);
    assert!(s.is_live(clientid, late) && s.expired(late).is_empty());
    assert!(!s.is_live(ClientId(5), NOW));
}

/// Proves which clients outstay a courtesy: at both sides of its end, unconfirmed ones at once,
/// everybody when the table is getting full; and that only the expired can be dropped as such.
#[test]
fn courtesy_ends() {
    const COURTESY_MS: u64 = 1000;
    let mut s = sessions_with(SessionLimits { clients_max: 7, ..SessionLimits::default() });
    let (client, _) = client_with_session(&mut s, "silent");
    let unconfirmed = exchange_id(&mut s, "never confirmed", 1).clientid;
    let at = |past_lease| Millis(NOW.0 + LEASE_MS + past_lease);
    let outstayed = |s: &Sessions, now| s.outstayed(now, COURTESY_MS, |_| false);
    assert_eq!(outstayed(&s, at(0)), Vec::new());
    assert_eq!(outstayed(&s, at(COURTESY_MS)), vec![unconfirmed]);
    assert!(outstayed(&s, at(COURTESY_MS + 1)).contains(&client));
    let crowds = |id| id == client;
    assert!(s.outstayed(at(0), COURTESY_MS, crowds).is_empty());
    assert!(s.outstayed(at(1), COURTESY_MS, crowds).contains(&client), "it holds too much");
    exchange_id(&mut s, "one more", 1);
    assert!(outstayed(&s, at(1)).contains(&client), "3 of 3 records are crowded");
    assert!(!s.drop_expired_client(client, at(0)));
    assert!(s.client(client).is_some());
    assert!(s.drop_expired_client(client, at(1)));
    assert!(s.client(client).is_none());
}
