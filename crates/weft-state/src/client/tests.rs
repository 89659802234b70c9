//! The cases of EXCHANGE_ID, RFC 8881 §18.35.4, by their numbers.

use weft_nfs::NfsStat;
use weft_nfs::ops::StateProtectArgs;

use super::*;
use crate::testing::*;
use crate::{Refusal, Sessions};

const UPDATE: u32 = exchgid::UPD_CONFIRMED_REC_A;
const ALICE: Principal = Principal::Sys { uid: 1000 };

fn ask(
    s: &mut Sessions,
    verifier: u8,
    flags: u32,
    who: &Principal,
) -> Result<(ClientId, bool), Refusal> {
    let args = exchange_id_args("host", verifier, flags);
    let ok = s.exchange_id(NOW, &args, &from(*who), 5, |_| true)?.ok;
    Ok((ok.clientid, ok.flags & exchgid::CONFIRMED_R != 0))
}

/// The whole table: (what is recorded) x (update, principal, verifier), so that no combination
/// changes its case unseen.
#[test]
fn case_table() {
    let mut s = sessions();
    let (clientid, _) = client_with_session(&mut s, "host");
    let confirmed = s.client(clientid).unwrap();
    let mut table = String::new();
    for (name, record, unconfirmed) in
        [("none", None, false), ("unconfirmed", None, true), ("confirmed", Some(confirmed), false)]
    {
        for (flags, who, verifier) in [0, UPDATE]
            .into_iter()
            .flat_map(|f| [ROOT, ALICE].map(|who| (f, who)))
            .flat_map(|(f, who)| [1, 2].map(|v| (f, who, v)))
        {
            let args = exchange_id_args("host", verifier, flags);
            let case = exchange_id_case(&args, &from(who), record, unconfirmed, |_| false);
            let update = if flags == 0 { "" } else { " update" };
            let other = if who == ROOT { "" } else { " other-principal" };
            let restart = if verifier == 1 { "" } else { " other-verifier" };
            table += &format!("{name}{update}{other}{restart}: {case:?}\n");
        }
    }
    let expected = "\
none: NewOwner
none other-verifier: NewOwner
none other-principal: NewOwner
none other-principal other-verifier: NewOwner
none update: UpdateUnknown
none update other-verifier: UpdateUnknown
none update other-principal: UpdateUnknown
none update other-principal other-verifier: UpdateUnknown
unconfirmed: ReplaceUnconfirmed
unconfirmed other-verifier: ReplaceUnconfirmed
unconfirmed other-principal: ReplaceUnconfirmed
unconfirmed other-principal other-verifier: ReplaceUnconfirmed
unconfirmed update: UpdateUnknown
unconfirmed update other-verifier: UpdateUnknown
unconfirmed update other-principal: UpdateUnknown
unconfirmed update other-principal other-verifier: UpdateUnknown
confirmed: SameIncarnation
confirmed other-verifier: ClientRestart
confirmed other-principal: CollisionInUse
confirmed other-principal other-verifier: CollisionInUse
confirmed update: Update
confirmed update other-verifier: UpdateVerifier
confirmed update other-principal: UpdatePrincipal
confirmed update other-principal other-verifier: UpdatePrincipal
";
    assert_eq!(table, expected);
}

/// Case 1: a new owner gets an unconfirmed record whose id has the random high half, and a random
/// low half that no other record has.
#[test]
fn case_1_new_owner() {
    let mut s = sessions();
    let (id, confirmed) = ask(&mut s, 1, 0x101, &ROOT).unwrap();
    assert!(!confirmed);
    assert_eq!(id.0 >> 32, 0xabcd_0123);
    assert!(!s.client(id).unwrap().is_confirmed());
    let other = exchange_id_args("other", 1, 0);
    let other = s.exchange_id(NOW, &other, &from(ROOT), 5, |_| true).unwrap().ok.clientid;
    assert_eq!((id.0 & 0xffff_ffff, other.0 & 0xffff_ffff), (5, 6), "asked for the same");
}

/// Case 2: the same incarnation again gets the same confirmed record, and keeps its session.
#[test]
fn case_2_same_incarnation() {
    let mut s = sessions();
    let (id, session) = client_with_session(&mut s, "host");
    assert_eq!(ask(&mut s, 1, 0, &ROOT), Ok((id, true)));
    new_request(sequence(&mut s, &sequence_args(session, 0, 1)));
}

/// Case 3: another principal is refused while the client holds state or has sessions under a valid
/// lease, and replaces it at once otherwise.
#[test]
fn case_3_collision() {
    let mut s = sessions();
    let (old, session) = client_with_session(&mut s, "host");
    assert_eq!(why(ask(&mut s, 1, 0, &ALICE)), Reason::ClientInUse);

    let args = exchange_id_args("host", 1, 0);
    let with_session = s.exchange_id(NOW, &args, &from(ALICE), 5, |_| false);
    assert_eq!(why(with_session), Reason::ClientInUse);
    s.destroy_session(session, CONN).unwrap();
    let outcome = s.exchange_id(NOW, &args, &from(ALICE), 5, |_| false).unwrap();
    assert_ne!(outcome.ok.clientid, old);
    assert_eq!(outcome.purged, Some(old));
    assert!(s.client(old).is_none());

    let create = create_session_args(outcome.ok.clientid, outcome.ok.sequenceid);
    s.create_session(NOW, &create, (&ALICE, CONN), [1; 16], |_| true).unwrap();
    let later = Millis(NOW.0 + LEASE_MS + 1);
    let replaced = s.exchange_id(later, &args, &from(ROOT), 6, |_| true).unwrap();
    assert_eq!(replaced.purged, Some(create.clientid), "the lease has passed");
}

/// Case 4: an unconfirmed record is replaced: its id is unknown from then on.
#[test]
fn case_4_replace_unconfirmed() {
    let mut s = sessions();
    let first = exchange_id(&mut s, "host", 1);
    let (second, _) = ask(&mut s, 1, 0, &ROOT).unwrap();
    assert_ne!(first.clientid, second);
    let args = create_session_args(first.clientid, first.sequence);
    let answer = s.create_session(NOW, &args, (&ROOT, CONN), [0; 16], |_| true);
    assert_eq!(why(answer), Reason::ClientUnknown);
    assert_eq!(s.clients().count(), 1);
}

/// Case 5: after a client restart the old incarnation lives until the new one is confirmed.
#[test]
fn case_5_client_restart() {
    let mut s = sessions();
    let (old, session) = client_with_session(&mut s, "host");
    let new = exchange_id(&mut s, "host", 2);
    assert_ne!(new.clientid, old);
    new_request(sequence(&mut s, &sequence_args(session, 0, 1)));
    assert_eq!(create_session(&mut s, new).purged, vec![old]);
    assert!(s.client(old).is_none());
    assert_eq!(refused(sequence(&mut s, &sequence_args(session, 0, 2))), Reason::SessionUnknown);
}

/// Case 5 from another host ends nothing that is in use: state as long as its lease is valid,
/// sessions for a while after they were used. An address more, of the same incarnation, is no
/// restart.
#[test]
fn case_5_from_another_host() {
    let ask = |later: u64, holds: bool, verifier: u8, flags: u32| {
        let mut s = sessions();
        let (old, _) = client_with_session(&mut s, "host");
        let args = exchange_id_args("host", verifier, flags);
        let now = Millis(NOW.0 + later);
        let answer = s.exchange_id(now, &args, &from_host(1, ROOT), 5, |_| holds);
        answer.map(|outcome| outcome.ok.clientid == old).map_err(|r| r.because)
    };
    let elsewhere = Err(Reason::ClientElsewhere);
    let table = [
        (0, true, elsewhere),
        (LEASE_MS, true, elsewhere),
        (LEASE_MS + 1, true, Ok(false)),
        (0, false, elsewhere),
        (SESSION_IN_USE_MS, false, elsewhere),
        (SESSION_IN_USE_MS + 1, false, Ok(false)),
    ];
    for (later, holds, answer) in table {
        assert_eq!(ask(later, holds, 2, 0), answer, "{later} ms later, state: {holds}");
    }
    assert_eq!(ask(0, true, 1, 0), Ok(true));
    assert_eq!(ask(0, true, 1, UPDATE), Ok(true));
}

/// Case 6: update of the confirmed record keeps its id.
#[test]
fn case_6_update() {
    let mut s = sessions();
    let (id, _) = client_with_session(&mut s, "host");
    assert_eq!(ask(&mut s, 1, UPDATE, &ROOT), Ok((id, true)));
}

/// Cases 7 to 9: updates that fit no confirmed record.
#[test]
fn cases_7_8_9_update_refused() {
    let mut s = sessions();
    let refusal = ask(&mut s, 1, UPDATE, &ROOT).unwrap_err();
    assert_eq!((refusal.status, refusal.because), (NfsStat::NOENT, Reason::UpdateUnknown));
    client_with_session(&mut s, "host");
    let refusal = ask(&mut s, 2, UPDATE, &ROOT).unwrap_err();
    assert_eq!((refusal.status, refusal.because), (NfsStat::NOT_SAME, Reason::UpdateVerifier));
    let refusal = ask(&mut s, 1, UPDATE, &ALICE).unwrap_err();
    assert_eq!((refusal.status, refusal.because), (NfsStat::PERM, Reason::UpdatePrincipal));
}

/// Proves that unknown flags, reply-only flags and SSV are refused, each known flag accepted.
#[test]
fn arguments_are_checked() {
    let mut s = sessions();
    for bad in [exchgid::CONFIRMED_R, 0x8, 0x200] {
        assert_eq!(why(ask(&mut s, 1, bad, &ROOT)), Reason::FlagsUnknown);
    }
    assert!(ask(&mut s, 1, exchgid::MASK_A & !UPDATE, &ROOT).is_ok());
    let mut args = exchange_id_args("host", 1, 0);
    args.state_protect = StateProtectArgs::Ssv;
    assert_eq!(why(s.exchange_id(NOW, &args, &from(ROOT), 0, |_| true)), Reason::SsvUnsupported);
}

/// Linux refuses a mount when any other flag than roles and CONFIRMED_R comes back.
#[test]
fn reply_flags_are_roles_and_confirmed() {
    let mut s = sessions();
    let args = exchange_id_args("host", 1, 0x4_0103);
    let ok = s.exchange_id(NOW, &args, &from(ROOT), 9, |_| true).unwrap().ok;
    assert_eq!(ok.flags, exchgid::USE_PNFS_MDS);
    assert_eq!(ok.sequenceid, SequenceId(1));
    create_session(&mut s, Peer { clientid: ok.clientid, sequence: ok.sequenceid });
    let ok = s.exchange_id(NOW, &args, &from(ROOT), 9, |_| true).unwrap().ok;
    assert_eq!(ok.flags, exchgid::USE_PNFS_MDS | exchgid::CONFIRMED_R);
    assert_eq!(ok.sequenceid, SequenceId(2));
}
