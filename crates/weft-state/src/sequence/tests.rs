//! Every outcome of SEQUENCE, connection binding, and the status flags.

use weft_nfs::ops::{CallbackSec, CallbackSecs};

use super::*;
use crate::testing::*;

fn bind_args(sessionid: SessionId, dir: u32) -> BindConnToSessionArgs {
    BindConnToSessionArgs { sessionid, dir, use_conn_in_rdma_mode: true }
}

fn flags_of(s: &mut Sessions, sessionid: SessionId, slot: u32) -> u32 {
    let done = new_request(sequence(s, &sequence_args(sessionid, slot, 1)));
    done.ok.status_flags
}

/// Slot outcomes new, in progress, replay: the reply comes back exactly.
#[test]
fn new_in_progress_replay() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let mut args = sequence_args(sessionid, 3, 1);
    args.cachethis = true;
    let done = new_request(sequence(&mut s, &args));
    let expected = InSession {
        clientid,
        sessionid,
        slotid: SlotId(3),
        sequenceid: SequenceId(1),
        ok: SequenceOk {
            sessionid,
            sequenceid: SequenceId(1),
            slotid: SlotId(3),
            highest_slotid: SlotId(63),
            target_highest_slotid: SlotId(63),
            status_flags: 0,
        },
        cachethis: true,
        response_bytes_max: (1 << 20) + 700,
        cached_bytes_max: 5000,
        minorversion: 1,
    };
    assert_eq!(done, expected);
    assert_eq!(refused(sequence(&mut s, &args)), Reason::InProgress);
    let reply = Bytes::from_static(b"the reply");
    s.complete(&done, Some(reply.clone()));
    assert_eq!(sequence(&mut s, &args), SequenceOutcome::Replay(reply));
    new_request(sequence(&mut s, &sequence_args(sessionid, 3, 2)));
}

/// Slot outcomes uncached retry, false retry, misordered; other slots are not concerned.
#[test]
fn uncached_false_misordered() {
    let mut s = sessions();
    let (_, sessionid) = client_with_session(&mut s, "linux");
    let args = sequence_args(sessionid, 0, 1);
    let ask =
        |s: &mut Sessions, digest| s.sequence(NOW, &args, CONN, &Envelope { digest, ..ENVELOPE });
    let done = new_request(ask(&mut s, 5));
    s.complete(&done, None);
    assert_eq!(refused(ask(&mut s, 5)), Reason::RetryUncached);
    assert_eq!(refused(ask(&mut s, 6)), Reason::FalseRetry);
    for bad in [0, 3] {
        let answer = sequence(&mut s, &sequence_args(sessionid, 0, bad));
        assert_eq!(refused(answer), Reason::SlotMisordered);
    }
    new_request(sequence(&mut s, &sequence_args(sessionid, 1, 1)));
}

/// Proves that a reply over the cached size is not kept, one of just that size is.
#[test]
fn kept_replies_are_limited() {
    let mut s = sessions();
    let (_, sessionid) = client_with_session(&mut s, "linux");
    for (slot, bytes, kept) in [(0, 5000, true), (1, 5001, false)] {
        let args = sequence_args(sessionid, slot, 1);
        let done = new_request(sequence(&mut s, &args));
        s.complete(&done, Some(Bytes::from(vec![0; bytes])));
        let replayed = matches!(sequence(&mut s, &args), SequenceOutcome::Replay(_));
        assert_eq!(replayed, kept);
    }
}

/// Both sides of session, slot, highest slot, operations and request size.
#[test]
fn limits_of_a_request() {
    let mut s = sessions();
    let (_, sessionid) = client_with_session(&mut s, "linux");
    let unknown = sequence(&mut s, &sequence_args(SessionId([9; 16]), 0, 1));
    assert_eq!(refused(unknown), Reason::SessionUnknown);
    assert_eq!(refused(sequence(&mut s, &sequence_args(sessionid, 64, 1))), Reason::SlotUnknown);
    let mut args = sequence_args(sessionid, 63, 1);
    args.highest_slotid = SlotId(64);
    assert_eq!(refused(sequence(&mut s, &args)), Reason::HighSlotUnknown);
    args.highest_slotid = SlotId(63);
    let bytes_max = (1 << 20) + 1000;
    let ask = |s: &mut Sessions, request_bytes, op_count| {
        s.sequence(NOW, &args, CONN, &Envelope { request_bytes, op_count, ..ENVELOPE })
    };
    assert_eq!(refused(ask(&mut s, 100, 9)), Reason::TooManyOps);
    assert_eq!(refused(ask(&mut s, bytes_max + 1, 8)), Reason::RequestTooBig);
    new_request(ask(&mut s, bytes_max, 8));
}

/// Proves that a request whose session ends under it completes without harm.
#[test]
fn completion_after_the_session_is_gone() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let done = new_request(sequence(&mut s, &sequence_args(sessionid, 0, 1)));
    s.drop_client(clientid);
    s.complete(&done, Some(Bytes::new()));
    assert!(s.sessions.is_empty() && s.clients.is_empty());
}

/// RFC 8881 §2.10.3.1: a SEQUENCE binds its connection to the fore channel, which then may
/// destroy the session.
#[test]
fn sequence_binds_the_connection() {
    let mut s = sessions();
    let (_, sessionid) = client_with_session(&mut s, "linux");
    s.sequence(NOW, &sequence_args(sessionid, 0, 1), ConnId(2), &ENVELOPE);
    s.conn_closed(ConnId(2));
    assert_eq!(why(s.destroy_session(sessionid, ConnId(2))), Reason::NotBound);
    s.sequence(NOW, &sequence_args(sessionid, 1, 1), ConnId(3), &ENVELOPE);
    assert_eq!(s.destroy_session(sessionid, ConnId(3)), Ok(()));
}

/// Both sides of the limit of connections: the oldest is forgotten.
#[test]
fn connections_of_a_session_are_limited() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let max = crate::limits::CONNS_PER_SESSION_MAX as u64;
    for n in 0..max - 1 {
        s.seen(NOW, sessionid, ConnId(100 + n));
    }
    assert!(s.has_back_channel(clientid), "the connection of CREATE_SESSION is still there");
    s.seen(NOW, sessionid, ConnId(100 + max));
    assert!(!s.has_back_channel(clientid));
    assert!(!s.sessions.get(&sessionid).unwrap().is_bound(CONN));
    assert!(s.sessions.get(&sessionid).unwrap().is_bound(ConnId(100)));
}

/// The life of a back channel as Linux sees it: the connection dies, the flags say so, it binds
/// with FORE_OR_BOTH and must get BOTH.
#[test]
fn back_channel_lost_and_bound_again() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    assert_eq!(flags_of(&mut s, sessionid, 0), 0);
    s.conn_closed(CONN);
    let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    assert_eq!(flags_of(&mut s, sessionid, 1), down);
    assert!(!s.has_back_channel(clientid));
    let ok = s.bind_conn_to_session(NOW, &bind_args(sessionid, 3), ConnId(2)).unwrap();
    assert_eq!(ok, BindConnToSessionOk { sessionid, dir: 3, use_conn_in_rdma_mode: false });
    assert_eq!(flags_of(&mut s, sessionid, 2), 0);
    assert_eq!(s.callback_begin(clientid).unwrap().conn, ConnId(2));
}

/// Proves that the session's flag and the client's flag differ while another session is up.
#[test]
fn cb_path_down_is_for_all_sessions() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "linux", 1);
    let first = create_session(&mut s, peer).ok.sessionid;
    let next = create_session_args(peer.clientid, peer.sequence.next());
    let second =
        s.create_session(NOW, &next, (&ROOT, ConnId(2)), [8; 16], |_| true).unwrap().ok.sessionid;
    s.conn_closed(CONN);
    s.sequence(NOW, &sequence_args(first, 0, 1), ConnId(2), &ENVELOPE);
    assert_eq!(flags_of(&mut s, first, 1), seq4_status::CB_PATH_DOWN_SESSION);
    assert_eq!(flags_of(&mut s, second, 0), 0);
}

/// Proves that a client that never asked for a back channel is not nagged about it.
#[test]
fn no_back_channel_wanted_no_flags() {
    let mut s = sessions();
    let peer = exchange_id(&mut s, "plain", 1);
    let mut args = create_session_args(peer.clientid, peer.sequence);
    args.flags = 0;
    let outcome = s.create_session(NOW, &args, (&ROOT, CONN), [1; 16], |_| true).unwrap();
    assert_eq!(outcome.ok.flags, 0);
    assert_eq!(flags_of(&mut s, outcome.ok.sessionid, 0), 0);
    assert_eq!(s.callback_begin(peer.clientid), None);
}

/// RFC 8881 §18.34.3: every direction, on sessions that can and cannot have a back channel.
#[test]
fn bind_directions() {
    let mut s = sessions();
    let (_, able) = client_with_session(&mut s, "linux");
    let peer = exchange_id(&mut s, "gss", 1);
    let mut args = create_session_args(peer.clientid, peer.sequence);
    args.sec_parms = CallbackSecs(vec![CallbackSec::Gss]);
    let unable =
        s.create_session(NOW, &args, (&ROOT, CONN), [1; 16], |_| true).unwrap().ok.sessionid;
    let mut ask = |session, dir| {
        let answer = s.bind_conn_to_session(NOW, &bind_args(session, dir), ConnId(9));
        answer.map(|ok| ok.dir).map_err(|r| r.because)
    };
    assert_eq!([1, 2, 3, 7].map(|d| ask(able, d)), [Ok(1), Ok(2), Ok(3), Ok(3)]);
    let none = Err(Reason::NoBackChannel);
    assert_eq!([1, 2, 3, 7].map(|d| ask(unable, d)), [Ok(1), none, Ok(1), none]);
    for unknown in [0, 4, 5, 6, 8] {
        assert_eq!(ask(able, unknown), Err(Reason::DirectionUnknown));
        assert_eq!(ask(unable, unknown), Err(Reason::DirectionUnknown));
    }
    assert_eq!(ask(SessionId([0; 16]), 3), Err(Reason::SessionUnknown));
}

/// Proves that status flags stay until taken back, and one-time ones are told once.
#[test]
fn status_flags() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let (sticky, once) = (seq4_status::LEASE_MOVED, seq4_status::RECALLABLE_STATE_REVOKED);
    s.status_flag(clientid, sticky, true);
    s.status_flag_once(clientid, once);
    assert_eq!(flags_of(&mut s, sessionid, 0), sticky | once);
    assert_eq!(flags_of(&mut s, sessionid, 1), sticky);
    s.status_flag(clientid, sticky, false);
    assert_eq!(flags_of(&mut s, sessionid, 2), 0);
}

/// Proves that BACKCHANNEL_CTL changes program and security, and refuses what cannot be used.
#[test]
fn backchannel_ctl() {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    let mut args = BackchannelCtlArgs {
        cb_program: 0x4000_0001,
        sec_parms: CallbackSecs(vec![CallbackSec::Gss]),
    };
    let answer = s.backchannel_ctl(sessionid, &args);
    assert_eq!(why(answer), Reason::CallbackSecUnsupported);
    args.sec_parms = CallbackSecs(vec![]);
    assert_eq!(s.backchannel_ctl(sessionid, &args), Ok(()));
    assert_eq!(s.callback_begin(clientid).unwrap().cb_program, 0x4000_0001);
}

/// Proves that a session gives slots back when they run short: only once the client knows on the
/// slot it asks on, uses none of them, and none is busy; and that it gets them again, fresh.
#[test]
fn slots_shrink_and_grow() {
    const LAST: u32 = SLOTS_WHEN_CROWDED as u32 - 1;
    let mut s = sessions();
    let (_, sessionid) = client_with_session(&mut s, "linux");
    let mut next = [0; 64];
    let mut ask = |s: &mut Sessions, slot: u32, highest: u32| {
        next[slot as usize] += 1;
        let mut args = sequence_args(sessionid, slot, next[slot as usize]);
        args.highest_slotid = SlotId(highest);
        let done = new_request(sequence(s, &args));
        let ok = done.ok.clone();
        (done, ok.highest_slotid.0, ok.target_highest_slotid.0)
    };
    let (busy, ..) = ask(&mut s, 20, 20);
    let (other, all) = (ClientId(99), s.limits.memory_bytes);
    s.budget.take(other, all * 3 / 4);
    let mut asked = |s: &mut Sessions, slot, highest| {
        let (done, highest, target) = ask(s, slot, highest);
        s.complete(&done, None);
        (highest, target)
    };
    assert_eq!(asked(&mut s, 0, 0), (63, LAST), "told for the first time");
    assert_eq!(asked(&mut s, 0, 20), (63, LAST), "it uses them");
    assert_eq!(asked(&mut s, 1, 1), (63, LAST), "this slot was not told");
    assert_eq!(asked(&mut s, 0, 0), (63, LAST), "slot 20 is busy");
    s.complete(&busy, None);
    assert_eq!(asked(&mut s, 9, 9), (63, LAST), "asking on one of them");
    let before = s.memory().used;
    assert_eq!(asked(&mut s, 0, 1), (LAST, LAST));
    let one = slot_bytes(&s.sessions[&sessionid].fore);
    assert_eq!(before - s.memory().used, (21 - SLOTS_WHEN_CROWDED) * one, "20 was the last used");
    let refusal = |slot, highest| {
        let args = sequence_args(sessionid, slot, 1);
        SequenceArgs { highest_slotid: SlotId(highest), ..args }
    };
    let beyond = refused(sequence(&mut s, &refusal(LAST + 1, LAST + 1)));
    assert_eq!(beyond, Reason::SlotUnknown);
    let beyond = refused(sequence(&mut s, &refusal(2, LAST + 1)));
    assert_eq!(beyond, Reason::HighSlotUnknown);
    s.budget.give_back(other, all / 8);
    assert_eq!(asked(&mut s, 0, 0), (LAST, LAST), "neither short nor plenty");
    s.budget.give_back(other, all / 2 + all / 8);
    assert_eq!(asked(&mut s, 0, 0), (63, 63));
    assert_eq!(s.memory().used, before - all * 3 / 4 - (21 - SLOTS_WHEN_CROWDED) * one);
    new_request(sequence(&mut s, &sequence_args(sessionid, 20, 1)));
}

/// Both sides of what there must be for a slot that was not used yet, as the client is told before:
/// a few while a quarter is left, many while half is. What is in place stays usable, and what is
/// refused succeeds later, under the same number.
#[test]
fn slots_are_taken_when_used() {
    const LAST: u32 = SLOTS_WHEN_CROWDED as u32 - 1;
    let mut s = sessions();
    let (client, sessionid) = client_with_session(&mut s, "linux");
    let one = slot_bytes(&s.sessions[&sessionid].fore);
    let other = ClientId(99);
    let mut number = 0;
    let mut told = |s: &mut Sessions| {
        number += 1;
        let done = new_request(sequence(s, &sequence_args(sessionid, 0, number)));
        s.complete(&done, None);
        assert_eq!(done.ok.highest_slotid.0, 63, "none was taken back");
        done.ok.target_highest_slotid.0
    };
    // Leaves so many bytes for this.
    let leave = |s: &mut Sessions, want: Want, bytes: usize| {
        s.budget.forget(other);
        let left = want.of(s.limits.memory_bytes) - s.memory().used;
        s.budget.take(other, left - bytes);
    };
    assert_eq!(told(&mut s), 63);
    leave(&mut s, Want::Comfort, 10 * one - 1);
    assert_eq!(told(&mut s), 10, "two are in place, and there is room for nine");
    let beyond = sequence_args(sessionid, 11, 1);
    assert_eq!(refused(sequence(&mut s, &beyond)), Reason::NoMemoryForSlot);
    leave(&mut s, Want::Extra, 6 * one);
    assert_eq!(told(&mut s), LAST);
    assert_eq!(refused(sequence(&mut s, &beyond)), Reason::NoMemoryForSlot);
    let before = s.budget.of_client(client);
    let last = sequence_args(sessionid, LAST, 1);
    leave(&mut s, Want::Extra, 6 * one - 1);
    assert_eq!(told(&mut s), LAST - 1);
    assert_eq!(refused(sequence(&mut s, &last)), Reason::NoMemoryForSlot);
    assert_eq!(s.budget.of_client(client), before, "nothing was changed");
    leave(&mut s, Want::Need, 0);
    assert_eq!(told(&mut s), 1);
    let done = new_request(sequence(&mut s, &sequence_args(sessionid, 1, 1)));
    s.complete(&done, None);
    leave(&mut s, Want::Extra, 6 * one);
    new_request(sequence(&mut s, &last));
    assert_eq!(s.budget.of_client(client), before + 6 * one);
    leave(&mut s, Want::Comfort, 3 * one);
    new_request(sequence(&mut s, &sequence_args(sessionid, 10, 1)));
}
