//! Grants, conflicts, recall, revocation and return.

use weft_nfs::NfsStat;

use super::*;
use crate::limits::CONTENDED_MS;
use crate::testing::*;
use crate::{IoAccess, Reason, StateLimits};

const R: u32 = share::ACCESS_READ;
const W: u32 = share::ACCESS_WRITE;

/// A table where A holds a read delegation on the file.
fn delegated() -> (State, Stateid) {
    let mut state = new_state();
    state.open(A, &owner("a"), FILE, R, 0).unwrap();
    let stateid = asked(&mut state, A).unwrap();
    (state, stateid)
}

fn asked(state: &mut State, client: ClientId) -> Result<Stateid, NoDelegation> {
    state.delegate(NOW, &reading(client, FILE, Wanted::Read)).map(|granted| granted.stateid)
}

/// The wants of RFC 8881 §18.16.3; bits of later versions are no preference.
#[test]
fn wants() {
    let table = [
        (0, Wanted::NoPreference),
        (0x100, Wanted::Read),
        (0x200, Wanted::Write),
        (0x300, Wanted::Any),
        (0x400, Wanted::Nothing),
        (0x500, Wanted::Cancel),
        (0x600, Wanted::NoPreference),
        (0x0021_0000, Wanted::NoPreference),
    ];
    for (bits, wanted) in table {
        assert_eq!(Wanted::of(bits | R), wanted, "{bits:#x}");
    }
}

/// Proves that without a want a reader gets one, unless one on the file was wanted back lately.
#[test]
fn granted_unless_contended() {
    let mut state = new_state();
    let plainly = |state: &mut State, client, now| {
        let asking = reading(client, FILE, Wanted::NoPreference);
        state.delegate(Millis(now), &asking).map(|granted| granted.stateid)
    };
    let given = plainly(&mut state, A, 0).unwrap();
    assert!(plainly(&mut state, B, 0).is_ok());
    state.delegation_recall(Millis(1000), A, FILE, RecallFor::Change);
    state.delegation_return(A, &given, FILE).unwrap();
    assert_eq!(plainly(&mut state, A, 1001), Err(NoDelegation::NotAsked));
    let asks = state.delegate(Millis(1001), &reading(A, FILE, Wanted::Read));
    assert_eq!(asks, Err(NoDelegation::Contention), "nor for asking");
    state.delegation_revoke(Millis(1000), A, FILE);
    assert_eq!(plainly(&mut state, A, 1000 + CONTENDED_MS - 1), Err(NoDelegation::NotAsked));
    assert!(plainly(&mut state, A, 1000 + 2 * CONTENDED_MS).is_ok());
}

/// Proves each reason for granting none, and that reasons are given only to a client that asked.
#[test]
fn reasons_for_none() {
    let mut state = new_state();
    let mut none = |wanted| state.delegate(NOW, &reading(A, FILE, wanted)).unwrap_err();
    assert_eq!(none(Wanted::Nothing), NoDelegation::NotWanted);
    assert_eq!(none(Wanted::Cancel), NoDelegation::Cancelled);
    assert_eq!(none(Wanted::Write), NoDelegation::WriteUnsupported);
    let mut unreachable = |wanted| {
        let asking = Asking { possible: false, ..reading(A, FILE, wanted) };
        state.delegate(NOW, &asking).unwrap_err()
    };
    assert_eq!(unreachable(Wanted::Read), NoDelegation::Resource);
    let reclaim = Wanted::Reclaim(DelegationKind::Read);
    assert_eq!(unreachable(reclaim), NoDelegation::NotAsked);

    for (access, deny) in [(W, 0), (R, share::DENY_READ)] {
        let open = state.open(B, &owner("b"), FILE, access, deny).unwrap();
        assert_eq!(asked(&mut state, A), Err(NoDelegation::Contention));
        state.close(B, &open, FILE).unwrap();
    }
    state.open(B, &owner("b"), FILE, R, share::DENY_WRITE).unwrap();
    state.begin_change(FILE);
    state.begin_change(FILE);
    state.end_change(FILE);
    assert_eq!(asked(&mut state, A), Err(NoDelegation::Contention));
    state.end_change(FILE);
    assert!(asked(&mut state, A).is_ok());
    assert_eq!(asked(&mut state, A), Err(NoDelegation::Resource), "it has one");
}

/// A layout that is kept beyond its open may still write.
#[test]
fn write_layouts_exclude_delegations() {
    let mut state = new_state();
    let open = state.open(B, &owner("b"), FILE, W, 0).unwrap();
    let holder = state.layout_check(B, FILE, &open, weft_nfs::IoMode::RW).unwrap();
    state.layout_granted(&holder, weft_nfs::IoMode::RW);
    state.close(B, &open, FILE).unwrap();
    assert_eq!(asked(&mut state, A), Err(NoDelegation::Contention));
}

/// Proves who is told that a small file stays: the holder, and who asks with an open that is
/// younger than the delegation to write, also if that was one to read before.
#[test]
fn small_files_stay_for_holders() {
    let mut state = new_state();
    let small = FileAsked { size: 7, change: 1 };
    let before = state.open(A, &owner("before"), FILE, R, 0).unwrap();
    let reads = asked(&mut state, A).unwrap();
    assert_eq!(state.small_file(A, FILE, &before, small), SmallFile::Leaves);
    let with = state.open(A, &owner("with"), FILE, W, 0).unwrap();
    let granted = state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap();
    assert_eq!((granted.kind, granted.stateid.other), (DelegationKind::Write, reads.other));
    let after = state.open(A, &owner("after"), FILE, W, 0).unwrap();
    let holder = state.layout_check(A, FILE, &with, weft_nfs::IoMode::RW).unwrap();
    let layout = state.layout_granted(&holder, weft_nfs::IoMode::RW);
    let empty = FileAsked { size: 0, change: 2 };
    let mut table = vec![
        (before, small, SmallFile::Leaves),
        (with, small, SmallFile::Leaves),
        (layout, small, SmallFile::Leaves),
        (granted.stateid, small, SmallFile::Stays),
        (after, small, SmallFile::Stays),
        (granted.stateid, empty, SmallFile::Leaves),
        (after, empty, SmallFile::Stays),
    ];
    for (stateid, asked, told) in &table {
        assert_eq!(state.small_file(A, FILE, stateid, *asked), *told, "{stateid:?} {asked:?}");
    }
    state.note_resized_by(A, &granted.stateid);
    assert_eq!(state.small_file(A, FILE, &granted.stateid, empty), SmallFile::Stays);
    // Who says with an open that it wants what it has opens the file at the server all the same.
    let again = state.open(A, &owner("again"), FILE, W, 0).unwrap();
    assert_eq!(state.small_file(A, FILE, &again, small), SmallFile::Stays);
    let granted = state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap();
    assert_eq!(state.small_file(A, FILE, &again, small), SmallFile::Leaves);
    state.delegation_return(A, &granted.stateid, FILE).unwrap();
    table.retain(|(stateid, ..)| stateid.other != granted.stateid.other);
    for (stateid, asked, _) in table {
        assert_eq!(state.small_file(A, FILE, &stateid, asked), SmallFile::Leaves, "{stateid:?}");
    }
}

/// Both sides of each limit.
#[test]
fn limits() {
    let mut state = new_state();
    state.budget.fill(A, Want::Extra, 2 * DELEGATION_BYTES - 1);
    assert!(asked(&mut state, A).is_ok());
    let other = state.delegate(NOW, &reading(A, OTHER_FILE, Wanted::Read));
    assert_eq!(other.unwrap_err(), NoDelegation::Resource);
    assert!(asked(&mut state, B).is_ok());
    let c = ClientId(3);
    state.budget.take(ClientId(4), StateLimits::default().memory_bytes / 4 * 3);
    assert_eq!(asked(&mut state, c), Err(NoDelegation::Resource), "all have three quarters");
    assert!(state.open(c, &owner("c"), FILE, 1, 0).is_ok());
}

/// Proves that opens of others that exclude reading alone wait for the recall, their readers do
/// not, and the holder's own opens never do.
#[test]
fn conflicting_opens_wait() {
    let (mut state, stateid) = delegated();
    for (access, deny) in [(W, 0), (share::ACCESS_BOTH, 0), (R, share::DENY_BOTH)] {
        let answer = state.open_check(B, &owner("b"), FILE, access, deny);
        let expected = if deny == 0 { Reason::Delegated } else { Reason::ShareDenied };
        assert_eq!(why(answer), expected);
    }
    assert!(state.open_check(B, &owner("b"), FILE, R, share::DENY_WRITE).is_ok());
    assert!(state.open(A, &owner("a2"), FILE, W, 0).is_ok());
    assert_eq!(state.delegation_holders(FILE, A), Vec::new());
    assert_eq!(state.delegation_holders(FILE, B), vec![A]);
    state.delegation_return(A, &stateid, FILE).unwrap();
    assert!(state.open(B, &owner("b"), FILE, W, 0).is_ok());
}

/// Proves that a delegation's stateid reads and does not write, and is checked like others.
#[test]
fn stateids_of_delegations() {
    let (mut state, stateid) = delegated();
    assert_eq!(stateid.seqid, Seqid(1));
    assert!(state.check_io(A, &stateid, FILE, IoAccess::Read).is_ok());
    assert_eq!(why(state.check_io(A, &stateid, FILE, IoAccess::Write)), Reason::OpenMode);
    assert!(state.layout_check(A, FILE, &stateid, weft_nfs::IoMode::READ).is_ok());
    assert!(state.delegation_check(A, &stateid, FILE).is_ok());
    let foreign = state.delegation_check(B, &stateid, FILE);
    assert_eq!(why(foreign), Reason::StateidForeign);
    let other_file = state.delegation_check(A, &stateid, OTHER_FILE);
    assert_eq!(why(other_file), Reason::StateidOfOtherFile);
    let open = state.open(A, &owner("x"), FILE, R, 0).unwrap();
    assert_eq!(why(state.delegation_return(A, &open, FILE)), Reason::StateidKind);
    assert_eq!(why(state.close(A, &stateid, FILE)), Reason::StateidKind);
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::OK);
    assert_eq!(why(state.free_stateid(A, &stateid)), Reason::StillInUse);
    assert!(state.client_has_state(A));
}

/// Proves that a recall begins once, is overdue at its limit, and that what is revoked says so
/// until it is freed.
#[test]
fn recall_and_revocation() {
    let (mut state, stateid) = delegated();
    assert_eq!(state.delegation_recall(NOW, B, FILE, RecallFor::Change), None);
    assert_eq!(state.delegation_recall(NOW, A, FILE, RecallFor::Change), Some(stateid));
    assert_eq!(state.delegation_recall(NOW, A, FILE, RecallFor::Change), None);
    assert!(state.is_delegated(A, &stateid));
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 99), 100, 1000), Vec::new());
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 100), 100, 1000), vec![(A, FILE)]);
    // Who is kept from writing has as long from the last time that he was, and not for ever.
    assert!(state.delegation_kept(Millis(NOW.0 + 90), A, FILE));
    assert!(!state.delegation_kept(Millis(NOW.0 + 150), A, FILE), "no news");
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 249), 100, 1000), Vec::new());
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 250), 100, 1000), vec![(A, FILE)]);
    state.delegation_kept(Millis(NOW.0 + 950), A, FILE);
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 999), 100, 1000), Vec::new());
    assert_eq!(state.delegations_overdue(Millis(NOW.0 + 1000), 100, 1000), vec![(A, FILE)]);
    assert!(!state.has_revoked(A));
    state.delegation_revoke(NOW, A, FILE);
    assert!(state.has_revoked(A) && !state.is_delegated(A, &stateid));
    assert!(state.open_check(B, &owner("b"), FILE, W, 0).is_ok());
    let revoked = Reason::DelegationRevoked;
    assert_eq!(why(state.check_io(A, &stateid, FILE, IoAccess::Read)), revoked);
    assert_eq!(why(state.delegation_return(A, &stateid, FILE)), revoked);
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::DELEG_REVOKED);
    assert_eq!(state.test_stateid(B, &stateid), NfsStat::BAD_STATEID);
    assert_eq!(state.free_stateid(A, &stateid), Ok(()));
    assert!(!state.has_revoked(A));
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::BAD_STATEID);
}

/// Proves that nothing is remembered of a revoked delegation that its client does not know.
#[test]
fn disowned_delegations_are_not_remembered() {
    let (mut state, stateid) = delegated();
    state.delegation_recall(NOW, A, FILE, RecallFor::Change);
    state.delegation_answered(A, &stateid, false);
    assert!(state.is_delegated(A, &stateid), "the grant may still be on its way");
    state.delegation_revoke(NOW, A, FILE);
    assert!(!state.has_revoked(A));
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::BAD_STATEID);
}

/// Proves that a client that knew the delegation when it was asked again is told that it was
/// revoked: it trusts what it cached until then.
#[test]
fn recalls_that_overtook_the_grant_are_forgotten() {
    let (mut state, stateid) = delegated();
    state.delegation_recall(NOW, A, FILE, RecallFor::Change);
    state.delegation_answered(A, &stateid, false);
    state.delegation_answered(A, &stateid, true);
    state.delegation_answered(B, &stateid, false);
    state.delegation_revoke(NOW, A, FILE);
    assert!(state.has_revoked(A));
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::DELEG_REVOKED);
}

/// Proves that what is remembered of revoked delegations is bounded.
#[test]
fn revoked_ones_are_bounded() {
    let mut state = new_state();
    let files = (0..=REVOKED_MAX as u64).map(|object| FileKey { volume: 1, object });
    for file in files.clone() {
        state.delegate(NOW, &reading(A, file, Wanted::Read)).unwrap();
    }
    for file in files {
        state.delegation_revoke(NOW, A, file);
    }
    assert_eq!(state.held(A).revoked.len(), REVOKED_MAX);
}

/// Proves that a dropped client leaves nothing behind.
#[test]
fn delegations_go_with_their_client() {
    let (mut state, stateid) = delegated();
    state.drop_client(A);
    assert_eq!(state.test_stateid(A, &stateid), NfsStat::BAD_STATEID);
    assert!(state.delegations.by_no.is_empty() && state.delegations.by_holder.is_empty());
    assert!(state.open(B, &owner("b"), FILE, W, 0).is_ok());
}

/// One of a directory: none where one was wanted back, also if that took long, and none to who has
/// yet to free one that was taken away; and nobody waits for it after a restart.
#[test]
fn directories() {
    let mut state = new_state();
    let of = |state: &mut State, now, client| {
        let asking = reading(client, FILE, Wanted::Directory);
        state.delegate(Millis(now), &asking).map(|granted| granted.stateid)
    };
    let held = of(&mut state, 0, A).unwrap();
    assert!(!state.client_could_reclaim(A));
    assert!(state.delegation_recall(Millis(0), A, FILE, RecallFor::Change).is_some());
    let late = 10 * CONTENDED_MS;
    state.delegation_revoke(Millis(late), A, FILE);
    assert_eq!(of(&mut state, late, A), Err(NoDelegation::Contention));
    assert_eq!(of(&mut state, late, B), Err(NoDelegation::Contention));
    let later = late + 3 * CONTENDED_MS;
    assert_eq!(of(&mut state, later, A), Err(NoDelegation::Resource));
    state.free_stateid(A, &held).unwrap();
    assert!(of(&mut state, later, A).is_ok());
    state.delegations_forget(FILE);
    assert!(state.delegation_holders(FILE, B).is_empty());
}

/// One that is alone with the file and writes it gets one to write; a reader beside it, another
/// writer, a layout, or somebody else's change are in the way, its own are not.
#[test]
fn a_lone_writer_is_delegated_it() {
    let mut state = new_state();
    let ask = |state: &mut State| state.delegate(NOW, &writing(A, FILE, Wanted::Write));
    for access in [R, W] {
        let others = state.open(B, &owner("b"), FILE, access, 0).unwrap();
        assert_eq!(ask(&mut state), Err(NoDelegation::Contention), "{access}");
        state.close(B, &others, FILE).unwrap();
    }
    let others = asked(&mut state, B).unwrap();
    assert_eq!(ask(&mut state), Err(NoDelegation::Contention));
    state.delegation_return(B, &others, FILE).unwrap();
    let open = state.open(B, &owner("b"), FILE, W, 0).unwrap();
    let holder = state.layout_check(B, FILE, &open, weft_nfs::IoMode::RW).unwrap();
    state.layout_granted(&holder, weft_nfs::IoMode::RW);
    state.close(B, &open, FILE).unwrap();
    assert_eq!(ask(&mut state), Err(NoDelegation::Contention), "its layout is out");
    state.layouts_forget(FILE);
    state.begin_change(FILE);
    assert_eq!(ask(&mut state), Err(NoDelegation::Contention));
    let own = Asking { own_changes: 1, ..writing(A, FILE, Wanted::Write) };
    let off = Asking { to_write: false, ..own };
    assert_eq!(state.delegate(NOW, &off), Err(NoDelegation::WriteUnsupported));
    let any = Asking { wanted: Wanted::Any, ..off };
    assert_eq!(state.delegate(NOW, &any), Err(NoDelegation::WriteUnsupported));
    state.open(A, &owner("a"), FILE, W, 0).unwrap();
    let first = state.delegate(NOW, &own).unwrap();
    assert_eq!(first.kind, DelegationKind::Write);
    let any = Asking { wanted: Wanted::Any, ..own };
    assert_eq!(state.delegate(NOW, &any), Err(NoDelegation::Resource), "it has one");
    let again = state.delegate(NOW, &own).unwrap().stateid;
    assert_eq!((again.other, again.seqid), (first.stateid.other, Seqid(2)), "it says so");
    state.delegation_recall(NOW, A, FILE, RecallFor::Reading);
    assert_eq!(state.delegate(NOW, &own), Err(NoDelegation::Contention), "it is wanted back");
}

/// The delegation to read that the client has becomes the one to write: the same state, a later
/// stateid. Not while it is being recalled.
#[test]
fn a_reader_that_writes_keeps_its_delegation() {
    let (mut state, before) = delegated();
    let after = state.delegate(NOW, &writing(A, FILE, Wanted::NoPreference)).unwrap();
    assert_eq!(after.kind, DelegationKind::Write);
    assert_eq!((after.stateid.other, after.stateid.seqid), (before.other, Seqid(2)));
    assert!(state.check_io(A, &after.stateid, FILE, IoAccess::Write).unwrap().open);
    assert_eq!(why(state.delegation_return(A, &before, FILE)), Reason::StateidOld);
    state.delegation_return(A, &after.stateid, FILE).unwrap();

    let (mut state, _) = delegated();
    state.delegation_recall(NOW, A, FILE, RecallFor::Change);
    let asked = state.delegate(NOW, &writing(A, FILE, Wanted::Write));
    assert_eq!(asked, Err(NoDelegation::Contention));
}

/// Nobody else opens the file while it is out, not to read either; what it allows the caller
/// without another look is what he opened it for.
#[test]
fn a_write_delegation_is_alone() {
    let mut state = new_state();
    let given = state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap().stateid;
    for access in [R, W] {
        let refused = state.open_check(B, &owner("b"), FILE, access, 0);
        assert_eq!(why(refused), Reason::Delegated);
        assert!(state.open_check(A, &owner("a"), FILE, access, 0).is_ok());
    }
    assert_eq!(state.delegated_writer(FILE, B), Some(A));
    assert_eq!(state.delegated_writer(FILE, A), None);
    let io = |access| state.check_io(A, &given, FILE, access).unwrap().open;
    assert!(io(IoAccess::Write));
    assert!(!io(IoAccess::Read), "whether he may read was not looked at");
    let holder = state.layout_check(A, FILE, &given, weft_nfs::IoMode::RW).unwrap();
    let layout = state.layout_granted(&holder, weft_nfs::IoMode::RW);
    assert!(state.layout_check(A, FILE, &layout, weft_nfs::IoMode::RW).is_ok());
}

/// A file that is delegated counts as open until the last of both is gone.
#[test]
fn a_delegation_keeps_the_file() {
    let mut state = new_state();
    let open = state.open(A, &owner("a"), FILE, W, 0).unwrap();
    let given = state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap().stateid;
    assert!(!state.close(A, &open, FILE).unwrap().last_open_of_file);
    assert!(state.is_open(FILE));
    assert!(state.delegation_return(A, &given, FILE).unwrap(), "it was the last");
    assert!(!state.is_open(FILE));

    let open = state.open(A, &owner("a"), FILE, W, 0).unwrap();
    let given = state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap().stateid;
    assert!(!state.delegation_return(A, &given, FILE).unwrap());
    assert!(state.close(A, &open, FILE).unwrap().last_open_of_file);

    state.delegate(NOW, &writing(A, FILE, Wanted::Write)).unwrap();
    assert!(state.delegation_revoke(NOW, A, FILE));
    state.delegate(NOW, &writing(B, OTHER_FILE, Wanted::Write)).unwrap();
    assert_eq!(state.drop_client(B).closed, [OTHER_FILE]);
}

/// Who writes and who reads take turns at first; then readers have theirs, and the writer none.
#[test]
fn readers_of_what_was_written() {
    let mut state = new_state();
    let unasked = |asking: Asking| Asking { wanted: Wanted::NoPreference, ..asking };
    let writing = unasked(writing(A, FILE, Wanted::Write));
    let given = state.delegate(NOW, &writing).unwrap().stateid;
    state.delegation_recall(NOW, A, FILE, RecallFor::Reading);
    state.delegation_return(A, &given, FILE).unwrap();
    for client in [A, B] {
        let reading = unasked(reading(client, FILE, Wanted::Read));
        let given = state.delegate(NOW, &reading).unwrap().stateid;
        state.delegation_return(client, &given, FILE).unwrap();
    }
    assert_eq!(state.delegate(NOW, &writing), Err(NoDelegation::NotAsked));
}

/// Who reclaims a right to write opens to write; who asks for one on a file that others want waits
/// like anybody, and so does who did not give one back.
#[test]
fn asking_is_not_enough() {
    let mut state = new_state();
    let reclaim = Wanted::Reclaim(DelegationKind::Write);
    let reads = state.delegate(NOW, &reading(A, FILE, reclaim));
    assert_eq!(reads, Err(NoDelegation::NotAsked));
    let given = state.delegate(NOW, &writing(A, FILE, reclaim)).unwrap().stateid;
    state.delegation_recall(NOW, A, FILE, RecallFor::Reading);
    state.delegation_return(A, &given, FILE).unwrap();
    let asks = state.delegate(NOW, &writing(A, FILE, Wanted::Write));
    assert_eq!(asks, Err(NoDelegation::Contention));
    state.delegate(NOW, &writing(A, OTHER_FILE, Wanted::Write)).unwrap();
    state.delegation_revoke(NOW, A, OTHER_FILE);
    let third = FileKey { volume: 1, object: 12 };
    let silent = state.delegate(NOW, &writing(A, third, Wanted::Write));
    assert_eq!(silent, Err(NoDelegation::Resource));
    assert!(state.delegate(NOW, &writing(B, third, Wanted::Write)).is_ok());
}
