//! Share reservations, upgrade, downgrade, close, and the stateids of I/O.

use std::net::IpAddr;

use weft_nfs::NfsStat;

use super::*;
use crate::memory::Budget;
use crate::testing::*;
use crate::{Reason, StateLimits};

const R: u32 = share::ACCESS_READ;
const W: u32 = share::ACCESS_WRITE;
const RW: u32 = share::ACCESS_BOTH;

/// The table of RFC 8881 §9.7: every share against every other.
#[test]
fn share_reservation_table() {
    for (a, b) in Share::all().flat_map(|a| Share::all().map(move |b| (a, b))) {
        let mut state = new_state();
        state.open(A, &owner("a"), FILE, a.access, a.deny).unwrap();
        let expected = a.access & b.deny == 0 && a.deny & b.access == 0;
        let conflict = state.open_check(B, &owner("b"), FILE, b.access, b.deny).is_err();
        assert_eq!(!conflict, expected, "{a:?} then {b:?}");
        let answer = state.open(B, &owner("b"), FILE, b.access, b.deny);
        assert_eq!(answer.is_ok(), expected);
        if let Err(refusal) = answer {
            assert_eq!(refusal.because, Reason::ShareDenied);
        }
        assert!(state.open(B, &owner("b"), OTHER_FILE, b.access, b.deny).is_ok());
    }
}

/// Proves that an owner does not conflict with itself but does with the same name elsewhere.
#[test]
fn own_shares_do_not_conflict() {
    let mut state = new_state();
    state.open(A, &owner("x"), FILE, R, share::DENY_WRITE).unwrap();
    assert!(state.open(A, &owner("x"), FILE, W, 0).is_ok());
    assert_eq!(why(state.open(A, &owner("y"), FILE, W, 0)), Reason::ShareDenied);
    assert_eq!(why(state.open(B, &owner("x"), FILE, W, 0)), Reason::ShareDenied);
}

/// Linux orders OPEN replies by seqid: it starts at 1 and grows by one with every change, under
/// the same `other`.
#[test]
fn seqid_starts_at_one_and_counts() {
    let mut state = new_state();
    let first = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    let second = state.open(A, &owner("x"), FILE, W, 0).unwrap();
    let third = state.open_downgrade(A, &second, FILE, R, 0).unwrap();
    assert_eq!([first, second, third].map(|s| s.seqid.0), [1, 2, 3]);
    assert_eq!(first.other, third.other);
    let other = state.open(A, &owner("y"), FILE, R, 0).unwrap();
    assert_eq!(other.seqid, Seqid(1));
    assert_ne!(other.other, first.other);
}

/// Proves that wants are ignored, and shares out of range refused.
#[test]
fn share_arguments() {
    let mut state = new_state();
    assert!(state.open(A, &owner("x"), FILE, R | 0x0030_0400, 0).is_ok());
    assert_eq!(why(state.open(A, &owner("x"), FILE, 0, 0)), Reason::ShareInvalid);
    assert_eq!(why(state.open(A, &owner("x"), FILE, R, 4)), Reason::ShareInvalid);
    assert!(state.open(A, &owner("x"), FILE, R, 3).is_ok());
}

/// RFC 8881 §18.18.3: only unions of what was opened; the rest of the reservation is released.
#[test]
fn downgrade() {
    let mut state = new_state();
    let both = state.open(A, &owner("x"), FILE, RW, share::DENY_WRITE).unwrap();
    assert_eq!(
        why(state.open_downgrade(A, &both, FILE, R, share::DENY_WRITE)),
        Reason::DowngradeInvalid,
        "READ alone was never opened"
    );
    let s = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    assert_eq!(why(state.open(B, &owner("b"), FILE, W, 0)), Reason::ShareDenied);
    assert_eq!(why(state.open_downgrade(A, &s, FILE, RW, 0)), Reason::DowngradeInvalid);
    let s = state.open_downgrade(A, &s, FILE, R, 0).unwrap();
    assert!(state.open(B, &owner("b"), FILE, W, 0).is_ok());
    assert_eq!(why(state.check_io(A, &s, FILE, IoAccess::Write)), Reason::OpenMode);
    assert_eq!(why(state.open_downgrade(A, &s, FILE, RW, 0)), Reason::DowngradeInvalid);
}

/// Proves that CLOSE ends the stateid, and says when the file is closed for everybody.
#[test]
fn close() {
    let mut state = new_state();
    let a = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    let b = state.open(B, &owner("x"), FILE, R, 0).unwrap();
    assert!(state.is_open(FILE) && !state.is_open(OTHER_FILE));
    let closed = state.close(A, &a, FILE).unwrap();
    assert_eq!(closed, Closed { stateid: Stateid::INVALID, last_open_of_file: false });
    assert_eq!(why(state.close(A, &a, FILE)), Reason::StateidUnknown);
    assert!(!state.client_has_state(A) && state.client_has_state(B));
    assert!(state.close(B, &b, FILE).unwrap().last_open_of_file);
    assert!(!state.is_open(FILE) && state.files.is_empty() && state.opens.by_owner.is_empty());
}

/// RFC 8881 §8.2.2: whose, which file, which seqid, which instance.
#[test]
fn stateids_are_checked() {
    let mut state = new_state();
    let first = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    let now = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    let io = |client, stateid: Stateid, file| {
        state.check_io(client, &stateid, file, IoAccess::Read).map_err(|r| r.because)
    };
    assert!(io(A, now, FILE).is_ok());
    assert!(io(A, Stateid { seqid: Seqid(0), ..now }, FILE).is_ok(), "0 is the latest");
    assert_eq!(io(A, first, FILE), Err(Reason::StateidOld));
    let future = Stateid { seqid: Seqid(3), ..now };
    assert_eq!(io(A, future, FILE), Err(Reason::StateidFuture));
    assert_eq!(io(B, now, FILE), Err(Reason::StateidForeign));
    assert_eq!(io(A, now, OTHER_FILE), Err(Reason::StateidOfOtherFile));
    assert_eq!(io(A, Stateid::INVALID, FILE), Err(Reason::StateidSpecial));
    assert_eq!(io(A, Stateid::CURRENT, FILE), Err(Reason::StateidSpecial));
    let restarted = State::new(2, StateLimits::default());
    let answer = restarted.check_io(A, &now, FILE, IoAccess::Read);
    assert_eq!(answer.unwrap_err().status, NfsStat::BAD_STATEID);
}

/// Gh ganesha 801: TEST_STATEID of an earlier instance is BAD_STATEID, never STALE_STATEID.
#[test]
fn test_stateid_statuses() {
    let mut state = new_state();
    let first = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    let now = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    assert_eq!(state.test_stateid(A, &now), NfsStat::OK);
    assert_eq!(state.test_stateid(A, &first), NfsStat::OLD_STATEID);
    assert_eq!(state.test_stateid(B, &now), NfsStat::BAD_STATEID);
    assert_eq!(state.test_stateid(A, &Stateid::ANONYMOUS), NfsStat::BAD_STATEID);
    assert_eq!(State::new(2, StateLimits::default()).test_stateid(A, &now), NfsStat::BAD_STATEID);
    assert_eq!(why(state.free_stateid(A, &now)), Reason::StillInUse);
}

/// Access modes: writing needs a write open; reading is allowed to any (clients fill pages), but
/// permission to read does not follow from a write open.
#[test]
fn open_modes() {
    let mut state = new_state();
    let read = state.open(A, &owner("r"), FILE, R, 0).unwrap();
    let write = state.open(A, &owner("w"), FILE, W, 0).unwrap();
    assert_eq!(why(state.check_io(A, &read, FILE, IoAccess::Write)), Reason::OpenMode);
    assert!(state.check_io(A, &write, FILE, IoAccess::Write).is_ok());
    let reads = |state: &State, stateid| state.check_io(A, &stateid, FILE, IoAccess::Read).unwrap();
    assert_eq!(reads(&state, write), IoHolder { client: A, open: false });
    assert_eq!(reads(&state, read), IoHolder { client: A, open: true });
    let both = state.open(A, &owner("w"), FILE, R, 0).unwrap();
    assert_eq!(reads(&state, both), IoHolder { client: A, open: true });
}

/// RFC 8881 §8.2.3: special stateids obey denials, except READ with the bypass one.
#[test]
fn special_stateids() {
    let mut state = new_state();
    let io = |state: &State, stateid, access| {
        state.check_io(B, &stateid, FILE, access).map(|h| h.open).map_err(|r| r.because)
    };
    let anonymous = Stateid::ANONYMOUS;
    assert_eq!(io(&state, anonymous, IoAccess::Write), Ok(false));
    state.open(A, &owner("x"), FILE, R, share::DENY_BOTH).unwrap();
    assert_eq!(io(&state, anonymous, IoAccess::Read), Err(Reason::IoDenied));
    assert_eq!(io(&state, anonymous, IoAccess::Write), Err(Reason::IoDenied));
    assert_eq!(io(&state, Stateid::READ_BYPASS, IoAccess::Read), Ok(false));
    assert_eq!(io(&state, Stateid::READ_BYPASS, IoAccess::Write), Err(Reason::IoDenied));
}

/// Both sides of each limit of opens; upgrades are not new opens.
#[test]
fn opens_are_limited() {
    let mut state = new_state();
    let one = open_bytes(&owner("1").owner.0);
    state.budget = Budget::new(4 * one);
    for n in 1..=5 {
        state.admit(ClientId(n), IpAddr::from([10, 0, 0, 1 + n as u8 % 2]).into());
    }
    let first = state.open(A, &owner("1"), FILE, R, 0).unwrap();
    assert_eq!(why(state.open(A, &owner("2"), FILE, R, 0)), Reason::TooManyOpens);
    assert!(state.open(A, &owner("1"), FILE, W, 0).is_ok());
    state.open(B, &owner("1"), FILE, R, 0).unwrap();
    assert_eq!(why(state.open(ClientId(5), &owner("1"), FILE, R, 0)), Reason::TooManyOpens);
    let latest = Stateid { seqid: Seqid(0), ..first };
    state.close(A, &latest, FILE).unwrap();
    assert!(state.check_room_for_open(ClientId(5), &owner("1")).is_ok());
    let longer = state.check_room_for_open(ClientId(5), &owner(&"1".repeat(100)));
    assert_eq!(why(longer), Reason::TooManyOpens);
    assert!(state.open(ClientId(5), &owner("1"), FILE, R, 0).is_ok());
}

/// A client that opens file after file has what one client may have, with the limits that servers
/// run with, and others open as before.
#[test]
fn a_million_opens() {
    let mut state = new_state();
    let file = |object| FileKey { volume: 1, object };
    let opened = (0..1_000_000).filter(|n| state.open(A, &owner("o"), file(*n), R, 0).is_ok());
    let opened = opened.count();
    let one = open_bytes(&owner("o").owner.0);
    let share = StateLimits::default().memory_bytes / 4;
    assert!(opened * one <= share && (opened + 1) * one > share - share / 32, "{opened}");
    assert_eq!(why(state.open(A, &owner("o"), file(1 << 40), R, 0)), Reason::TooManyOpens);
    assert!(state.open(B, &owner("o"), file(1 << 40), R, 0).is_ok());
    assert!(!state.is_crowded_for(A));
    assert_eq!(state.drop_client(A).closed.len(), opened);
    assert_eq!(state.memory().used, one, "that of the other");
}

/// Proves that dropping a client releases everything, and names what must be followed up.
#[test]
fn drop_client() {
    let mut state = new_state();
    let open = state.open(A, &owner("x"), FILE, RW, share::DENY_WRITE).unwrap();
    state.open(A, &owner("x"), OTHER_FILE, R, 0).unwrap();
    state.open(B, &owner("x"), OTHER_FILE, R, 0).unwrap();
    let holder = state.layout_check(A, FILE, &open, weft_nfs::IoMode::RW).unwrap();
    state.layout_granted(&holder, weft_nfs::IoMode::RW);
    assert_eq!(state.clients().collect::<Vec<_>>(), vec![A, B]);
    let dropped = state.drop_client(A);
    assert_eq!(state.clients().collect::<Vec<_>>(), vec![B]);
    assert_eq!(dropped.closed, vec![FILE]);
    assert_eq!(dropped.rw_layouts, vec![FILE]);
    assert!(!state.client_has_state(A) && !state.is_open(FILE) && state.is_open(OTHER_FILE));
    assert_eq!(state.drop_client(A), crate::Dropped::default());
    assert!(state.open(B, &owner("x"), FILE, W, 0).is_ok());
}

/// Proves that exactly the clients whose opens conflict with a share are named, once each.
#[test]
fn holders_of_conflicting_shares() {
    let mut state = new_state();
    state.open(A, &owner("reader"), FILE, R, 0).unwrap();
    state.open(A, &owner("writer"), FILE, W, 0).unwrap();
    state.open(A, &owner("both"), FILE, RW, 0).unwrap();
    state.open(B, &owner("reader"), FILE, R, 0).unwrap();
    state.open(B, &owner("denier"), OTHER_FILE, R, share::DENY_WRITE).unwrap();
    let c = ClientId(3);
    assert_eq!(state.share_holders(c, FILE, R, share::DENY_WRITE), vec![A]);
    assert_eq!(state.share_holders(c, FILE, R, share::DENY_READ), vec![A, B]);
    assert_eq!(state.share_holders(B, FILE, R, share::DENY_READ), vec![A], "not itself");
    assert_eq!(state.share_holders(c, OTHER_FILE, W, 0), vec![B]);
    assert_eq!(state.share_holders(c, OTHER_FILE, R, 0), Vec::new());
}

/// Proves that a client's opens of a file are one record, which follows every change of them.
#[test]
fn opens_of_a_client_add_up() {
    let mut state = new_state();
    let holders = |state: &State, deny| state.share_holders(B, FILE, R, deny);
    let mut opens: Vec<_> = (0..100)
        .map(|n| state.open(A, &owner(&format!("reader {n}")), FILE, R, 0).unwrap())
        .collect();
    assert!(!state.has_open(A, FILE, IoAccess::Write));
    opens[7] = state.open(A, &owner("reader 7"), FILE, W, 0).unwrap();
    assert!(state.has_open(A, FILE, IoAccess::Write));
    assert_eq!(holders(&state, share::DENY_WRITE), vec![A]);
    opens[7] = state.open_downgrade(A, &opens[7], FILE, R, 0).unwrap();
    assert!(!state.has_open(A, FILE, IoAccess::Write));
    assert_eq!(holders(&state, share::DENY_WRITE), Vec::new());
    assert_eq!(holders(&state, share::DENY_READ), vec![A]);
    assert_eq!(state.opens.client_shares.len(), 1);
    for open in opens {
        assert!(state.has_open(A, FILE, IoAccess::Read));
        state.close(A, &open, FILE).unwrap();
    }
    assert!(!state.has_open(A, FILE, IoAccess::Read));
    assert!(state.opens.client_shares.is_empty());
}

/// Both sides of the point from which room runs short.
#[test]
fn crowded_with_opens() {
    let mut state = new_state();
    state.budget = Budget::new(4 * open_bytes(&owner("a").owner.0));
    for (client, crowded) in [(A, false), (B, false), (ClientId(3), true)] {
        state.open(client, &owner("a"), FILE, R, 0).unwrap();
        assert_eq!(state.is_crowded_for(A), crowded, "{client:?}");
    }
}

/// RFC 8881 §18.18.3 over every pair of shares: an open may be downgraded to the shares it is the
/// union of, to nothing else, and excludes from then on what is left of it.
#[test]
fn every_upgrade_and_downgrade() {
    for (a, b) in Share::all().flat_map(|a| Share::all().map(move |b| (a, b))) {
        for to in Share::all() {
            let mut state = new_state();
            state.open(A, &owner("a"), FILE, a.access, a.deny).unwrap();
            let both = state.open(A, &owner("a"), FILE, b.access, b.deny).unwrap();
            let answer = state.open_downgrade(A, &both, FILE, to.access, to.deny);
            let left = match [a, b, a.union(b)].contains(&to) {
                true => to,
                false => {
                    assert_eq!(why(answer), Reason::DowngradeInvalid, "{a:?} {b:?} to {to:?}");
                    a.union(b)
                }
            };
            for other in Share::all() {
                let excluded = other.access & left.deny != 0 || other.deny & left.access != 0;
                let check = state.open_check(B, &owner("b"), FILE, other.access, other.deny);
                assert_eq!(check.is_err(), excluded, "{left:?} against {other:?}");
            }
        }
    }
}

/// RFC 8881 §8.2.2: the seqid of a stateid goes from its greatest value to 1, and what was before
/// is old.
#[test]
fn seqids_of_opens_wrap() {
    let mut state = new_state();
    let first = state.open(A, &owner("a"), FILE, R, 0).unwrap();
    state.opens.by_no.values_mut().for_each(|o| o.seqid = Seqid(u32::MAX));
    let last = Stateid { seqid: Seqid(u32::MAX), ..first };
    assert_eq!(state.test_stateid(A, &last), NfsStat::OK);
    let wrapped = state.open(A, &owner("a"), FILE, W, 0).unwrap();
    assert_eq!(wrapped, Stateid { seqid: Seqid(1), ..first });
    assert_eq!(state.test_stateid(A, &last), NfsStat::OLD_STATEID);
    assert_eq!(state.test_stateid(A, &wrapped), NfsStat::OK);
}
