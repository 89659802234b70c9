//! The life of layout stateids and of recalls.

use weft_nfs::{NfsStat, share};

use super::*;
use crate::Wanted;
use crate::testing::*;

const NOTHING: LayoutReturned =
    LayoutReturned { remaining: None, had_rw: false, finished_recall: false };

/// A table where both clients have the file open for read and write.
fn opened() -> (State, Stateid, Stateid) {
    let mut state = new_state();
    let a = state.open(A, &owner("a"), FILE, share::ACCESS_BOTH, 0).unwrap();
    let b = state.open(B, &owner("b"), FILE, share::ACCESS_BOTH, 0).unwrap();
    (state, a, b)
}

fn get(state: &mut State, stateid: Stateid, iomode: IoMode) -> Result<Stateid, Refusal> {
    let holder = state.layout_check(A, FILE, &stateid, iomode)?;
    Ok(state.layout_granted(&holder, iomode))
}

fn seqid(stateid: Stateid, n: u32) -> Stateid {
    Stateid { seqid: Seqid(n), ..stateid }
}

/// RFC 8881 §12.5.3, Linux §3.3: one `other` until everything is returned, seqid 1 first and by
/// one with each grant, return and recall; afterwards a new `other`.
#[test]
fn life_of_a_layout_stateid() {
    let (mut state, open, _) = opened();
    let s1 = get(&mut state, open, IoMode::READ).unwrap();
    let s2 = get(&mut state, s1, IoMode::RW).unwrap();
    let returned = state.layout_return(A, FILE, &s2, IoMode::READ).unwrap();
    let s3 = returned.remaining.unwrap();
    assert!(!returned.had_rw && !returned.finished_recall);
    assert_eq!([s1, s2, s3].map(|s| s.seqid.0), [1, 2, 3]);
    assert!([s2, s3].iter().all(|s| s.other == s1.other));
    let returned = state.layout_return(A, FILE, &s3, IoMode::ANY).unwrap();
    assert_eq!(returned, LayoutReturned { had_rw: true, ..NOTHING });
    let again = get(&mut state, seqid(open, 0), IoMode::READ).unwrap();
    assert_eq!(again.seqid, Seqid(1));
    assert_ne!(again.other, s1.other);
}

/// Proves that a client that forgot its layout (and asks with the open stateid) gets the same
/// stateid, one further.
#[test]
fn open_stateid_while_a_layout_is_out() {
    let (mut state, open, _) = opened();
    let s1 = get(&mut state, open, IoMode::RW).unwrap();
    let s2 = get(&mut state, open, IoMode::RW).unwrap();
    assert_eq!(s2, seqid(s1, 2));
    assert_eq!(state.layouts_on(FILE).len(), 1);
}

/// Parallel LAYOUTGETs: any seqid up to the current one; 0 and later ones are refused.
#[test]
fn layoutget_seqids() {
    let (mut state, open, _) = opened();
    let s1 = get(&mut state, open, IoMode::READ).unwrap();
    get(&mut state, s1, IoMode::READ).unwrap();
    let s3 = get(&mut state, s1, IoMode::READ).unwrap();
    assert_eq!(s3.seqid, Seqid(3));
    let zero = get(&mut state, seqid(s1, 0), IoMode::READ);
    assert_eq!(why(zero), Reason::StateidZeroSeqid);
    assert_eq!(why(get(&mut state, seqid(s1, 4), IoMode::READ)), Reason::StateidFuture);
}

/// Modes: ANY is not granted; read-write needs a write open, also with the layout's stateid.
#[test]
fn layoutget_modes() {
    let mut state = new_state();
    let read = state.open(A, &owner("r"), FILE, share::ACCESS_READ, 0).unwrap();
    assert_eq!(why(get(&mut state, read, IoMode::ANY)), Reason::IoModeInvalid);
    assert_eq!(why(get(&mut state, read, IoMode(7))), Reason::IoModeInvalid);
    assert_eq!(why(get(&mut state, read, IoMode::RW)), Reason::OpenMode);
    let layout = get(&mut state, read, IoMode::READ).unwrap();
    assert_eq!(why(get(&mut state, layout, IoMode::RW)), Reason::OpenMode);
    state.open(A, &owner("w"), FILE, share::ACCESS_WRITE, 0).unwrap();
    assert!(get(&mut state, layout, IoMode::RW).is_ok());
}

/// Whether a layout may be read by follows from the open it is asked for with, or, if it is asked
/// for with the layout itself, from any that the client has.
#[test]
fn layouts_to_read() {
    let mut state = new_state();
    let reads = |state: &State, stateid: &Stateid, iomode| {
        state.layout_check(A, FILE, stateid, iomode).unwrap().reads
    };
    let write = state.open(A, &owner("w"), FILE, share::ACCESS_WRITE, 0).unwrap();
    let layout = get(&mut state, write, IoMode::RW).unwrap();
    for stateid in [write, layout] {
        for iomode in [IoMode::READ, IoMode::RW] {
            assert!(!reads(&state, &stateid, iomode), "{iomode:?}");
        }
    }
    let read = state.open(A, &owner("r"), FILE, share::ACCESS_READ, 0).unwrap();
    let found = [read, layout, write].map(|stateid| reads(&state, &stateid, IoMode::READ));
    assert_eq!(found, [true, true, false]);
    state.close(A, &read, FILE).unwrap();
    assert!(!reads(&state, &layout, IoMode::RW));
}

/// Stateids of others, of other files, special ones; and a layout's where I/O is checked.
#[test]
fn stateids_are_checked() {
    let (mut state, open, b) = opened();
    let layout = get(&mut state, open, IoMode::RW).unwrap();
    assert_eq!(why(get(&mut state, b, IoMode::READ)), Reason::StateidForeign);
    assert_eq!(why(get(&mut state, Stateid::ANONYMOUS, IoMode::READ)), Reason::StateidSpecial);
    let answer = state.layout_check(A, OTHER_FILE, &layout, IoMode::READ);
    assert_eq!(why(answer), Reason::StateidOfOtherFile);
    assert_eq!(why(state.layout_check(B, FILE, &layout, IoMode::READ)), Reason::StateidForeign);
    assert_eq!(why(state.check_io(A, &layout, FILE, IoAccess::Read)), Reason::StateidKind);
    assert_eq!(why(state.layout_return(A, FILE, &open, IoMode::ANY)), Reason::StateidKind);
    assert_eq!(why(state.layout_commit_check(A, FILE, &open)), Reason::StateidKind);
    assert_eq!(state.test_stateid(A, &layout), NfsStat::OK);
    assert_eq!(why(state.free_stateid(A, &layout)), Reason::StillInUse);
}

/// LAYOUTRETURN does not take back what was granted after the seqid it knows of, but does not
/// mind a recall or return in between.
#[test]
fn layoutreturn_seqids() {
    let (mut state, open, _) = opened();
    let s1 = get(&mut state, open, IoMode::READ).unwrap();
    let s2 = get(&mut state, s1, IoMode::RW).unwrap();
    assert_eq!(why(state.layout_return(A, FILE, &s1, IoMode::ANY)), Reason::StateidOld);
    let zero = state.layout_return(A, FILE, &seqid(s1, 0), IoMode::ANY);
    assert_eq!(why(zero), Reason::StateidZeroSeqid);
    let future = state.layout_return(A, FILE, &seqid(s1, 3), IoMode::ANY);
    assert_eq!(why(future), Reason::StateidFuture);
    assert_eq!(why(state.layout_return(A, FILE, &s2, IoMode(0))), Reason::IoModeInvalid);
    state.recall_begin(NOW, A, FILE).unwrap();
    let returned = state.layout_return(A, FILE, &s2, IoMode::ANY).unwrap();
    assert_eq!(returned, LayoutReturned { remaining: None, had_rw: true, finished_recall: true });
}

/// Linux before 7.2 loops on OLD_STATEID: LAYOUTCOMMIT takes every seqid given out so far.
#[test]
fn layoutcommit_takes_old_seqids() {
    let (mut state, open, _) = opened();
    let s1 = get(&mut state, open, IoMode::READ).unwrap();
    assert_eq!(why(state.layout_commit_check(A, FILE, &s1)), Reason::IoModeInvalid);
    get(&mut state, s1, IoMode::RW).unwrap();
    state.recall_begin(NOW, A, FILE).unwrap();
    for n in 0..=3 {
        assert_eq!(state.layout_commit_check(A, FILE, &seqid(s1, n)), Ok(()));
    }
    let future = state.layout_commit_check(A, FILE, &seqid(s1, 4));
    assert_eq!(why(future), Reason::StateidFuture);
}

/// A LAYOUTCOMMIT overtaken by its LAYOUTRETURN or by NOMATCHING_LAYOUT still counts; after a
/// revocation it does not. A second LAYOUTRETURN finds nothing and says so.
#[test]
fn layoutcommit_after_return() {
    let (mut state, open, b) = opened();
    let s = get(&mut state, open, IoMode::RW).unwrap();
    state.layout_return(A, FILE, &s, IoMode::ANY).unwrap();
    assert_eq!(state.layout_commit_check(A, FILE, &s), Ok(()));
    assert_eq!(state.layout_return(A, FILE, &s, IoMode::ANY), Ok(NOTHING));
    assert_eq!(why(state.layout_commit_check(B, FILE, &s)), Reason::StateidUnknown);
    assert_eq!(why(state.layout_commit_check(A, OTHER_FILE, &s)), Reason::StateidUnknown);

    let s = get(&mut state, open, IoMode::RW).unwrap();
    state.recall_begin(NOW, A, FILE).unwrap();
    assert!(state.recall_done(A, FILE));
    assert_eq!(state.layout_commit_check(A, FILE, &s), Ok(()));

    let s = get(&mut state, open, IoMode::RW).unwrap();
    let overdue = state.layouts_expire(NOW, A);
    assert!(overdue.iter().all(|o| state.layout_revoke(o)) && overdue.len() == 1);
    assert_eq!(why(state.layout_commit_check(A, FILE, &s)), Reason::StateidUnknown);
    assert_eq!(state.test_stateid(A, &s), NfsStat::BAD_STATEID);
    assert_eq!(why(get(&mut state, s, IoMode::RW)), Reason::StateidUnknown);
    assert!(state.check_io(B, &b, FILE, IoAccess::Write).is_ok());
}

/// Both sides of how many returned layouts are remembered; read-only ones do not count.
#[test]
fn returned_layouts_are_limited() {
    let (mut state, open, _) = opened();
    let mut cycle = |iomode| {
        let s = get(&mut state, open, iomode).unwrap();
        state.layout_return(A, FILE, &s, IoMode::ANY).unwrap();
        s
    };
    let first = cycle(IoMode::RW);
    let second = cycle(IoMode::RW);
    for _ in 0..RETURNED_LAYOUTS_MAX - 1 {
        cycle(IoMode::READ);
        cycle(IoMode::RW);
    }
    assert_eq!(why(state.layout_commit_check(A, FILE, &first)), Reason::StateidUnknown);
    assert_eq!(state.layout_commit_check(A, FILE, &second), Ok(()));
    state.drop_client(A);
    assert_eq!(why(state.layout_commit_check(A, FILE, &second)), Reason::StateidUnknown);
}

/// The life of a recall: seqid one above the last, no second one, nothing granted meanwhile,
/// ended by a full return only.
#[test]
fn life_of_a_recall() {
    let (mut state, open, b) = opened();
    assert_eq!(state.recall_begin(NOW, A, FILE), None, "nothing is held");
    let s1 = get(&mut state, open, IoMode::READ).unwrap();
    let s2 = get(&mut state, s1, IoMode::RW).unwrap();
    assert_eq!(state.recall_stateid(A, FILE), None);
    let recall = state.recall_begin(NOW, A, FILE).unwrap();
    assert_eq!(recall, seqid(s1, 3));
    assert_eq!(state.recall_begin(NOW, A, FILE), None, "being recalled already");
    assert_eq!(state.recall_stateid(A, FILE), Some(recall));
    for stateid in [s2, recall, open] {
        assert_eq!(why(get(&mut state, stateid, IoMode::READ)), Reason::RecallOut);
    }
    let holder = state.layout_check(B, FILE, &b, IoMode::RW).unwrap();
    state.layout_granted(&holder, IoMode::RW);
    let part = state.layout_return(A, FILE, &recall, IoMode::RW).unwrap();
    assert!(part.had_rw && !part.finished_recall);
    assert_eq!(why(get(&mut state, open, IoMode::READ)), Reason::RecallOut);
    let rest = state.layout_return(A, FILE, &part.remaining.unwrap(), IoMode::ANY).unwrap();
    assert_eq!(rest, LayoutReturned { finished_recall: true, ..NOTHING });
    assert!(get(&mut state, open, IoMode::READ).is_ok());
}

/// Both sides of the time a recall may take, and that returned ones are not overdue.
#[test]
fn recalls_overdue() {
    let (mut state, open, b) = opened();
    get(&mut state, open, IoMode::RW).unwrap();
    let holder = state.layout_check(B, FILE, &b, IoMode::READ).unwrap();
    state.layout_granted(&holder, IoMode::READ);
    state.recall_begin(NOW, A, FILE).unwrap();
    state.recall_begin(Millis(NOW.0 + 10), B, FILE).unwrap();
    let at = |state: &State, ms| -> Vec<_> {
        let overdue = state.recalls_overdue(Millis(NOW.0 + ms), 100);
        overdue.into_iter().map(|o| (o.client, o.file, o.rw)).collect()
    };
    assert_eq!(at(&state, 99), vec![]);
    assert_eq!(at(&state, 100), vec![(A, FILE, true)]);
    assert_eq!(at(&state, 110), vec![(A, FILE, true), (B, FILE, false)]);
    assert!(state.recall_done(A, FILE) && !state.recall_done(B, FILE));
    assert_eq!(at(&state, 1000), vec![]);
    assert!(!state.recall_done(A, FILE), "nothing left");
}

/// A client whose lease has passed comes back before its layout is taken away: it is granted
/// nothing on the file until then. What it is granted after it returned that layout is not taken
/// for it: the data servers were told of the other one only.
#[test]
fn what_is_revoked_is_the_layout_that_was_overdue() {
    let (mut state, open, _) = opened();
    let read = get(&mut state, open, IoMode::READ).unwrap();
    let overdue = state.layouts_expire(NOW, A);
    let expected = Overdue { client: A, file: FILE, stateid: read, rw: false };
    assert_eq!(overdue, vec![expected]);
    assert_eq!(why(get(&mut state, read, IoMode::RW)), Reason::RecallOut);
    assert_eq!(why(get(&mut state, open, IoMode::RW)), Reason::RecallOut);
    assert_eq!(state.recalls_overdue(NOW, 0), overdue, "until it is gone");
    state.layout_return(A, FILE, &read, IoMode::ANY).unwrap();
    get(&mut state, open, IoMode::RW).unwrap();
    assert!(!state.layout_revoke(&expected));
    assert!(state.rw_layouts(FILE), "the new one stays");
    let overdue = state.layouts_expire(NOW, A);
    assert!(overdue[0].rw && state.layout_revoke(&overdue[0]));
    assert_eq!(state.layouts_on(FILE), vec![]);
    assert!(get(&mut state, open, IoMode::RW).is_ok());
}

/// Proves what is listed on a file, through grant, recall, return and the end of a client.
#[test]
fn layouts_on_a_file() {
    let (mut state, open, b) = opened();
    let s = get(&mut state, open, IoMode::READ).unwrap();
    assert!(!state.rw_layouts(FILE));
    let holder = state.layout_check(B, FILE, &b, IoMode::RW).unwrap();
    let sb = state.layout_granted(&holder, IoMode::RW);
    state.recall_begin(NOW, B, FILE).unwrap();
    let info = |client, stateid, rw, recalled_at| LayoutInfo { client, stateid, rw, recalled_at };
    let expected = vec![info(A, s, false, None), info(B, seqid(sb, 2), true, Some(NOW))];
    assert_eq!(state.layouts_on(FILE), expected);
    assert!(state.rw_layouts(FILE) && state.layouts_on(OTHER_FILE).is_empty());
    assert_eq!(state.drop_client(B).rw_layouts, vec![FILE]);
    assert_eq!(state.layouts_on(FILE), vec![info(A, s, false, None)]);
    assert!(state.layouts.recalls.is_empty());
}

/// Read-write layouts outlive CLOSE, and keep their client busy: their holder may still write.
#[test]
fn rw_layouts_outlive_close() {
    let (mut state, open, _) = opened();
    let s = get(&mut state, open, IoMode::RW).unwrap();
    state.close(A, &open, FILE).unwrap();
    assert!(state.client_has_state(A));
    let s = get(&mut state, s, IoMode::RW).expect("it was read-write already");
    // The read part goes with the read-write one: nobody would return it any more.
    let s = get(&mut state, s, IoMode::READ).unwrap();
    let returned = state.layout_return(A, FILE, &s, IoMode::RW).unwrap();
    assert_eq!(returned, LayoutReturned { had_rw: true, ..NOTHING });
    assert!(!state.client_has_state(A));
}

/// Of two layouts the read-write one is returned, as Linux does; the last CLOSE of the client takes
/// the other one for returned, whoever else has the file open, and its stateid is unknown then.
#[test]
fn read_layouts_go_with_the_last_close() {
    let (mut state, open, _) = opened();
    let second = state.open(A, &owner("second"), FILE, share::ACCESS_READ, 0).unwrap();
    let s = get(&mut state, open, IoMode::READ).unwrap();
    let s = get(&mut state, s, IoMode::RW).unwrap();
    let s = state.layout_return(A, FILE, &s, IoMode::RW).unwrap().remaining.unwrap();
    state.close(A, &open, FILE).unwrap();
    assert_eq!(state.test_stateid(A, &s), NfsStat::OK, "it is open still");
    state.close(A, &second, FILE).unwrap();
    assert_eq!(state.layouts_on(FILE), vec![]);
    assert!(!state.client_has_state(A));
    assert_eq!(state.test_stateid(A, &s), NfsStat::BAD_STATEID);
    assert_eq!(why(get(&mut state, s, IoMode::READ)), Reason::StateidUnknown);
    assert_eq!(state.layout_commit_check(A, FILE, &s), Ok(()), "of what was read-write once");
    assert_eq!(state.layout_return(A, FILE, &s, IoMode::ANY), Ok(NOTHING));
}

/// A LAYOUTGET that was checked before the CLOSE, and is checked again to be granted.
#[test]
fn close_overtakes_layoutget() {
    for iomode in [IoMode::READ, IoMode::RW] {
        let (mut state, open, _) = opened();
        let s = get(&mut state, open, IoMode::READ).unwrap();
        for stateid in [open, s] {
            state.layout_check(A, FILE, &stateid, iomode).unwrap();
        }
        state.close(A, &open, FILE).unwrap();
        for stateid in [open, s] {
            let late = state.layout_check(A, FILE, &stateid, iomode);
            assert_eq!(why(late), Reason::StateidUnknown);
        }
    }
}

/// A recall of what is only for reading any more ends with the last CLOSE.
#[test]
fn close_ends_the_recall_of_a_read_layout() {
    let (mut state, open, _) = opened();
    let s = get(&mut state, open, IoMode::READ).unwrap();
    get(&mut state, s, IoMode::RW).unwrap();
    let recall = state.recall_begin(NOW, A, FILE).unwrap();
    state.layout_return(A, FILE, &recall, IoMode::RW).unwrap();
    assert!(state.recall_stateid(A, FILE).is_some());
    state.close(A, &open, FILE).unwrap();
    assert_eq!(state.recall_stateid(A, FILE), None);
    assert_eq!(state.recalls_overdue(NOW, 0), vec![]);
}

/// A client that holds a delegation opens the file by itself after its last CLOSE: its read layout
/// goes with the delegation, returned or revoked, unless the file was opened again.
#[test]
fn read_layouts_stay_with_a_delegation() {
    let mut state = new_state();
    let reading = |state: &mut State| {
        let open = state.open(A, &owner("a"), FILE, share::ACCESS_READ, 0).unwrap();
        let delegation = state.delegate(NOW, &reading(A, FILE, Wanted::Read)).unwrap().stateid;
        let layout = get(state, open, IoMode::READ).unwrap();
        state.close(A, &open, FILE).unwrap();
        (delegation, layout)
    };
    let (delegation, s) = reading(&mut state);
    let s = get(&mut state, s, IoMode::READ).unwrap();
    state.delegation_return(A, &delegation, FILE).unwrap();
    assert_eq!(state.test_stateid(A, &s), NfsStat::BAD_STATEID);
    assert!(!state.client_has_state(A));

    let (_, s) = reading(&mut state);
    state.delegation_revoke(NOW, A, FILE);
    assert_eq!(state.test_stateid(A, &s), NfsStat::BAD_STATEID);

    let mut state = new_state();
    let (delegation, s) = reading(&mut state);
    state.open(A, &owner("a"), FILE, share::ACCESS_READ, 0).unwrap();
    state.delegation_return(A, &delegation, FILE).unwrap();
    assert_eq!(state.test_stateid(A, &s), NfsStat::OK);
}

/// Nothing is kept of a file that is gone, read-write layouts and recalls included; other files
/// are left alone.
#[test]
fn layouts_of_a_file_that_is_gone() {
    let (mut state, open, b) = opened();
    let s = get(&mut state, open, IoMode::RW).unwrap();
    let holder = state.layout_check(B, FILE, &b, IoMode::READ).unwrap();
    state.layout_granted(&holder, IoMode::READ);
    let other = state.open(A, &owner("a"), OTHER_FILE, share::ACCESS_READ, 0).unwrap();
    let holder = state.layout_check(A, OTHER_FILE, &other, IoMode::READ).unwrap();
    state.layout_granted(&holder, IoMode::READ);
    state.recall_begin(NOW, A, FILE).unwrap();
    state.layouts_forget(FILE);
    assert_eq!(state.layouts_on(FILE), vec![]);
    assert_eq!(state.recalls_overdue(NOW, 0), vec![]);
    assert_eq!(state.test_stateid(A, &s), NfsStat::BAD_STATEID);
    assert_eq!(why(state.layout_commit_check(A, FILE, &s)), Reason::StateidUnknown);
    assert_eq!(state.layouts_on(OTHER_FILE).len(), 1);
    assert_eq!(state.drop_client(A).rw_layouts, vec![]);
}

/// Proves that LAYOUTRETURN of a volume leaves other volumes alone.
#[test]
fn return_of_a_volume_and_of_all() {
    let (mut state, open, _) = opened();
    let elsewhere = FileKey { volume: 2, object: 10 };
    let open2 = state.open(A, &owner("a"), elsewhere, share::ACCESS_READ, 0).unwrap();
    get(&mut state, open, IoMode::RW).unwrap();
    let holder = state.layout_check(A, elsewhere, &open2, IoMode::READ).unwrap();
    state.layout_granted(&holder, IoMode::READ);
    assert_eq!(state.layout_return_all(A, Some(3)), vec![]);
    assert_eq!(state.layout_return_all(A, Some(1)), vec![(FILE, true)]);
    assert_eq!(state.layout_return_all(A, None), vec![(elsewhere, false)]);
    assert_eq!(state.layout_return_all(A, None), vec![]);
    assert_eq!(state.layout_return_all(ClientId(99), None), vec![]);
}

/// Both sides of each limit; more of a layout that is held is not a new one.
#[test]
fn layouts_are_limited() {
    let (mut state, open, b) = opened();
    let more = state.open(A, &owner("a"), OTHER_FILE, share::ACCESS_READ, 0).unwrap();
    state.budget.fill(A, Want::Extra, LAYOUT_BYTES);
    get(&mut state, open, IoMode::READ).unwrap();
    let over = state.layout_check(A, OTHER_FILE, &more, IoMode::READ);
    assert_eq!(why(over), Reason::TooManyLayouts);
    assert!(get(&mut state, open, IoMode::RW).is_ok());
    let taken = state.budget.fill(B, Want::Extra, LAYOUT_BYTES - 1);
    let over = state.layout_check(B, FILE, &b, IoMode::READ).unwrap_err();
    assert_eq!(over.status, NfsStat::LAYOUTUNAVAILABLE);
    assert!(state.open(B, &owner("b"), OTHER_FILE, 1, 0).is_ok(), "opens have room left");
    state.budget.give_back(B, taken);
    assert!(state.layout_check(B, FILE, &b, IoMode::READ).is_ok());
}
