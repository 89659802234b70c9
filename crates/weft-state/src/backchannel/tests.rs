//! Callbacks: slots, sequence ids, and what happens when no answer comes.

use super::*;
use crate::Sessions;
use crate::testing::*;

fn with_client() -> (Sessions, ClientId, SessionId) {
    let mut s = sessions();
    let (clientid, sessionid) = client_with_session(&mut s, "linux");
    (s, clientid, sessionid)
}

/// Proves that the first callback is complete and that an answered slot goes on by one.
#[test]
fn callbacks_one_after_another() {
    let (mut s, clientid, sessionid) = with_client();
    s.note_minorversion(sessionid, 2);
    let first = s.callback_begin(clientid).unwrap();
    let expected = Callback {
        clientid,
        conn: CONN,
        cb_program: 0x4000_0000,
        minorversion: 2,
        sec: CallbackSec::None,
        sequence: CbSequenceArgs {
            sessionid,
            sequenceid: SequenceId(1),
            slotid: SlotId(0),
            highest_slotid: SlotId(0),
            cachethis: false,
            referring_call_lists: NoReferringCalls,
        },
        request_bytes_max: 4096,
    };
    assert_eq!(first, expected);
    s.callback_end(&first, true);
    let second = s.callback_begin(clientid).unwrap();
    assert_eq!((second.sequence.slotid, second.sequence.sequenceid), (SlotId(0), SequenceId(2)));
}

/// Both sides of the limit of callbacks under way.
#[test]
fn callbacks_are_limited_by_slots() {
    let (mut s, clientid, _) = with_client();
    let all: Vec<_> = (0..16).map(|_| s.callback_begin(clientid).unwrap()).collect();
    assert_eq!(s.callback_begin(clientid), None);
    let slots: Vec<_> = all.iter().map(|c| c.sequence.slotid.0).collect();
    assert_eq!(slots, (0..16).collect::<Vec<_>>());
    s.callback_end(&all[4], true);
    let again = s.callback_begin(clientid).unwrap();
    assert_eq!((again.sequence.slotid, again.sequence.highest_slotid), (SlotId(4), SlotId(15)));
}

/// Proves that an unanswered callback takes its connection out of the back channel, that its slot
/// is used last, and with the same number again.
#[test]
fn unanswered_callback() {
    let (mut s, clientid, sessionid) = with_client();
    let lost = s.callback_begin(clientid).unwrap();
    s.callback_end(&lost, false);
    assert_eq!(s.callback_begin(clientid), None);
    assert!(!s.has_back_channel(clientid));
    let bind =
        weft_nfs::ops::BindConnToSessionArgs { sessionid, dir: 3, use_conn_in_rdma_mode: false };
    s.bind_conn_to_session(NOW, &bind, ConnId(2)).unwrap();
    let slots: Vec<_> = (0..16).map(|_| s.callback_begin(clientid).unwrap().sequence).collect();
    assert!(slots[..15].iter().all(|c| c.slotid != SlotId(0)));
    assert_eq!((slots[15].slotid, slots[15].sequenceid), (SlotId(0), SequenceId(1)));
}

/// Linux `nfs4_callback_sequence` refuses with DELAY before it counts: the number is used again,
/// other slots first, and the connection stays.
#[test]
fn refused_callback() {
    let (mut s, clientid, _) = with_client();
    let first = s.callback_begin(clientid).unwrap();
    s.callback_refused(&first);
    let slots: Vec<_> = (0..16).map(|_| s.callback_begin(clientid).unwrap().sequence).collect();
    assert!(slots[..15].iter().all(|c| c.slotid != SlotId(0)));
    assert_eq!(slots[15], CbSequenceArgs { highest_slotid: SlotId(15), ..first.sequence });
}

/// Proves that an end that is late, doubled or of a dead session changes nothing.
#[test]
fn stale_ends_are_ignored() {
    let (mut s, clientid, _) = with_client();
    let first = s.callback_begin(clientid).unwrap();
    s.callback_end(&first, true);
    s.callback_end(&first, true);
    let second = s.callback_begin(clientid).unwrap();
    s.callback_end(&first, false);
    assert!(s.has_back_channel(clientid));
    assert_eq!(second.sequence.sequenceid, SequenceId(2));
    s.drop_client(clientid);
    s.callback_end(&second, true);
    assert_eq!(s.callback_begin(clientid), None);
}

/// Proves the choice of security: AUTH_SYS first, then AUTH_NONE (also for an empty list).
#[test]
fn security_choice() {
    let sys = CallbackSec::Sys(auth_sys());
    let choose = |list: &[CallbackSec]| usable_sec(&CallbackSecs(list.to_vec()));
    assert_eq!(choose(&[CallbackSec::None, sys.clone()]), Some(sys));
    assert_eq!(choose(&[CallbackSec::Gss, CallbackSec::None]), Some(CallbackSec::None));
    assert_eq!(choose(&[]), Some(CallbackSec::None));
    assert_eq!(choose(&[CallbackSec::Gss]), None);
}

fn auth_sys() -> weft_xdr::rpc::AuthSys {
    weft_xdr::rpc::AuthSys {
        stamp: 1,
        machine: bytes::Bytes::from_static(b"host"),
        uid: 0,
        gid: 0,
        gids: vec![1],
    }
}
