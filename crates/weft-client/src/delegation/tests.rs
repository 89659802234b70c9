//! Grants, recalls, returns, and opens that rely on them, in every order that they can come in.

use bytes::Bytes;
use proptest::prelude::*;
use weft_nfs::Seqid;

use super::*;

type Table = Delegations<u32, u32>;

fn fh(n: u64) -> FileHandle {
    FileHandle(Bytes::copy_from_slice(&n.to_be_bytes()))
}

fn stateid(n: u8) -> Stateid {
    Stateid { seqid: Seqid(1), other: [n; 12] }
}

fn numbered(n: u64) -> Stateid {
    let mut other = [0; 12];
    other[..8].copy_from_slice(&n.to_be_bytes());
    Stateid { seqid: Seqid(1), other }
}

fn grant(n: u8) -> Grant {
    Grant {
        stateid: stateid(n),
        kind: Kind::Read,
        is_recalled: false,
        ask: Ask(1),
        losses: 0,
        since: 5,
        change: 9,
    }
}

fn back(file: u64, n: u8) -> Return {
    Return { fh: fh(file), stateid: stateid(n), is_to_write: false }
}

/// The return of what is not known: it may be one to write.
fn unknown(file: u64, n: u8) -> Recalled {
    Recalled::Returns(Return { is_to_write: true, ..back(file, n) })
}

/// One is held from its grant to its recall; the recall is asked for once, and the file is known
/// until the return is answered.
#[test]
fn held_until_it_is_wanted_back() {
    let mut table = Table::default();
    assert!(table.held(&fh(1), 0).is_none());
    assert_eq!(table.granted(&fh(1), &grant(1)), Granted::New);
    assert!(table.held(&fh(1), 0).is_some() && table.held(&fh(2), 0).is_none());
    assert_eq!(table.recalled(&fh(1), &stateid(2)), unknown(1, 2), "of another state");
    assert!(table.held(&fh(1), 0).is_some());
    assert_eq!(table.recalled(&fh(1), &stateid(1)), Recalled::Returns(back(1, 1)));
    assert!(table.held(&fh(1), 0).is_none());
    assert_eq!(table.recalled(&fh(1), &stateid(1)), Recalled::Returning);
    table.returned(&back(1, 1));
    assert_eq!(table.recalled(&fh(1), &stateid(1)), unknown(1, 1));
    assert!(table.known.is_empty() && table.count() == 0);
}

/// §2.10.6.3: a recall that overtakes the grant is answered by returning what is not known yet; the
/// grant that comes after it is of nothing.
#[test]
fn a_recall_overtakes_the_grant() {
    let mut table = Table::default();
    let (one, two) = (table.asks(), table.asks());
    assert_eq!(table.recalled(&fh(1), &stateid(1)), unknown(1, 1));
    assert_eq!(table.recalled(&fh(1), &stateid(1)), Recalled::Returning);
    table.returned(&Return { is_to_write: true, ..back(1, 1) });
    table.answered(two);
    let later = table.asks();
    assert_eq!(table.granted(&fh(1), &grant(1)), Granted::Gone);
    assert!(table.held(&fh(1), 0).is_none());
    table.answered(one);
    assert!(table.recalled.is_empty(), "all that were under way then are answered");
    table.answered(later);
}

/// A recall that overtakes the answer which makes more of a delegation names the newer stateid: it
/// is returned by that, and the answer grants nothing any more.
#[test]
fn a_recall_overtakes_an_upgrade() {
    let mut table = Table::default();
    table.granted(&fh(1), &grant(1));
    let ask = table.asks();
    let newer = Stateid { seqid: Seqid(2), ..stateid(1) };
    let returned = Return { stateid: newer, ..back(1, 1) };
    assert_eq!(table.recalled(&fh(1), &newer), Recalled::Returns(returned.clone()));
    table.returned(&returned);
    let more = Grant { stateid: newer, kind: Kind::Write, ask, ..grant(1) };
    assert_eq!(table.granted(&fh(1), &more), Granted::Gone);
    assert!(table.held(&fh(1), 0).is_none() && table.known.is_empty());
}

/// One that is returned here while the server makes more of it goes back by the newer stateid, if
/// that comes before the return is refused; if it comes after that it is granted.
#[test]
fn a_return_meets_an_upgrade() {
    let newer = Stateid { seqid: Seqid(2), ..stateid(1) };
    let more = Grant { stateid: newer, kind: Kind::Write, ..grant(1) };
    for comes_before in [true, false] {
        let mut table = Table::default();
        table.granted(&fh(1), &grant(1));
        let returned = table.of_file(&fh(1)).unwrap();
        assert_eq!(table.newer(&returned), None);
        if comes_before {
            assert_eq!(table.granted(&fh(1), &more), Granted::Gone);
            assert_eq!(table.newer(&returned).unwrap().stateid, newer);
        }
        table.returned(&returned);
        if !comes_before {
            assert_eq!(table.granted(&fh(1), &more), Granted::New);
        }
        assert_eq!(table.held(&fh(1), 0).is_some(), !comes_before);
    }
}

/// What is remembered of recalls is bounded; with more, what was asked for by then goes back, and
/// what is asked for later is held.
#[test]
fn recalls_are_remembered_within_bounds() {
    let mut table = Table::default();
    let ask = table.asks();
    let most = u64::try_from(limits::RECALLS_REMEMBERED).unwrap();
    for n in 0..=most {
        assert!(matches!(table.recalled(&fh(1), &numbered(n)), Recalled::Returns(_)));
        assert!(table.recalled.len() <= limits::RECALLS_REMEMBERED);
    }
    let unknown = Grant { stateid: numbered(most), ask, ..grant(0) };
    assert!(matches!(table.granted(&fh(1), &unknown), Granted::Returns(_)));
    let later = table.asks();
    let fresh = Grant { stateid: numbered(most + 1), ask: later, ..grant(0) };
    assert_eq!(table.granted(&fh(1), &fresh), Granted::New);
}

/// One that is recalled as it is granted is returned; one that becomes more is the same one, and a
/// new one takes the place of one that is on its way back.
#[test]
fn grants_of_a_file_that_is_known() {
    let mut table = Table::default();
    let recalled = Grant { is_recalled: true, ..grant(1) };
    assert_eq!(table.granted(&fh(1), &recalled), Granted::Returns(back(1, 1)));
    assert_eq!(table.granted(&fh(1), &grant(1)), Granted::Gone, "it is being returned");
    assert_eq!(table.granted(&fh(1), &grant(2)), Granted::New);
    table.returned(&back(1, 1));
    assert_eq!(table.held(&fh(1), 0), Some((Kind::Read, 5)));
    let more = Grant { kind: Kind::Write, ..grant(2) };
    assert_eq!(table.granted(&fh(1), &more), Granted::Held);
    assert_eq!(table.held(&fh(1), 0), Some((Kind::Write, 5)));
    assert_eq!(table.count(), 1);
}

/// A server that has forgotten us has forgotten them.
#[test]
fn a_loss_ends_all() {
    let mut table = Table::default();
    table.granted(&fh(1), &grant(1));
    assert!(table.held(&fh(1), 1).is_none() && table.known.is_empty() && table.count() == 0);
}

/// Only whom the server has let read the file opens it without asking, and no longer than until
/// its attributes are changed here.
#[test]
fn who_opens_without_asking() {
    let mut table = Table::default();
    table.granted(&fh(1), &grant(1));
    assert_eq!(table.opens(&fh(1), 0, &7), None);
    table.opened(&fh(1), 4, (Some(7), 39));
    assert_eq!(table.opens(&fh(1), 0, &7), None, "asked before the grant");
    table.opened(&fh(1), 5, (None, 40));
    assert_eq!(table.opens(&fh(1), 0, &7), None, "he opened it to write");
    table.opened(&fh(1), 6, (Some(7), 41));
    assert_eq!(table.opens(&fh(1), 0, &7), Some((stateid(1), 5, 41)));
    assert_eq!(table.opens(&fh(1), 0, &8), None, "another user");
    assert!(table.join(&fh(1), &stateid(1)) && !table.join(&fh(1), &stateid(2)));
    let change = table.changes_attributes(&fh(1));
    table.attributes_changed(&fh(1), 7, (change, None));
    assert_eq!(table.opens(&fh(1), 0, &7), None);
    table.opened(&fh(1), 6, (Some(7), 41));
    assert_eq!(table.opens(&fh(1), 0, &7), None, "asked before the change");
    table.opened(&fh(1), 7, (Some(7), 41));
    assert!(table.opens(&fh(1), 0, &7).is_some());
    table.recalled(&fh(1), &stateid(1));
    assert!(!table.join(&fh(1), &stateid(1)), "it is wanted back");
    for user in 0..2 * limits::DELEGATION_READERS_MAX {
        table.opened(&fh(1), 8, (Some(u32::try_from(user).unwrap()), 42));
        assert!(table.known[&fh(1)].readers.len() <= limits::DELEGATION_READERS_MAX);
    }
}

/// What came with a change of attributes is what the file has now, unless another change was under
/// way at any time of it.
#[test]
fn changes_of_attributes_tell() {
    let mut table = Table::default();
    table.granted(&fh(1), &grant(1));
    table.opened(&fh(1), 5, (Some(7), 40));
    let change = table.changes_attributes(&fh(1));
    table.opened(&fh(1), 6, (Some(7), 41));
    table.attributes_changed(&fh(1), 8, (change, Some((5, 42))));
    assert_eq!(table.told(&fh(1), 0), Some(42));
    assert_eq!(table.opens(&fh(1), 0, &7), None, "who may has to be asked again");
    table.opened(&fh(1), 7, (None, 41));
    assert_eq!(table.told(&fh(1), 0), Some(42), "asked before the change had ended");
    let [first, second] = [1, 2].map(|_| table.changes_attributes(&fh(1)));
    table.attributes_changed(&fh(1), 9, (second, Some((8, 44))));
    assert_eq!(table.told(&fh(1), 0), None);
    let third = table.changes_attributes(&fh(1));
    for (change, told) in [(first, 43), (third, 45)] {
        table.attributes_changed(&fh(1), 10, (change, Some((9, told))));
        assert_eq!(table.told(&fh(1), 0), None);
    }
    // One that began before the file was delegated ends while another is under way.
    let change = table.changes_attributes(&fh(1));
    let returned = table.of_file(&fh(1)).unwrap();
    table.returned(&returned);
    table.granted(&fh(1), &Grant { since: 11, ..grant(2) });
    table.attributes_changed(&fh(1), 12, (change, Some((11, 46))));
    assert_eq!(table.told(&fh(1), 0), None, "of before this delegation");
    let other = table.changes_attributes(&fh(1));
    table.attributes_changed(&fh(1), 14, (change, None));
    table.attributes_changed(&fh(1), 15, (other, Some((13, 47))));
    assert_eq!(table.told(&fh(1), 0), None, "it may lack what ended after it was asked for");
}

/// Beyond the bound the longest unused ones go back, but for those that an open relies on.
#[test]
fn the_longest_unused_go_back() {
    let mut table = Table::default();
    let most = u64::try_from(limits::DELEGATIONS_MAX).unwrap();
    for n in 0..=most {
        assert!(table.surplus().is_empty());
        table.granted(&fh(n), &Grant { stateid: numbered(n), ..grant(0) });
    }
    assert!(table.held(&fh(0), 0).is_some(), "used again");
    assert!(table.join(&fh(1), &numbered(1)), "an open relies on it");
    let gone: Vec<_> = table.surplus().into_iter().map(|back| back.fh).collect();
    assert_eq!(gone.len(), limits::DELEGATIONS_MAX / limits::DELEGATIONS_RETURNED_SHARE);
    assert_eq!(gone[0], fh(2));
    assert!(
        table.held(&fh(0), 0).is_some()
            && table.held(&fh(1), 0).is_some()
            && table.held(&fh(2), 0).is_none()
    );
    table.leave(&fh(1));
    assert_eq!(table.all_but(2).len(), table.known.len() - gone.len() - 2);
    assert_eq!(table.count(), 2);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Answer,
    Grant(u64, u8, bool),
    Recall(u64, u8),
    Use(u64, u64),
    Open(u64, u32),
    Returned(u64, u8),
    AllBut(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = || 0..3_u64;
    // No state is one of two files.
    let state = || (file(), 0..4_u8).prop_map(|(f, n)| (f, n * 3 + u8::try_from(f).unwrap()));
    let step = prop_oneof![
        Just(Step::Ask),
        Just(Step::Answer),
        (state(), any::<bool>()).prop_map(|((f, s), r)| Step::Grant(f, s, r)),
        state().prop_map(|(f, s)| Step::Recall(f, s)),
        (file(), 0..2_u64).prop_map(|(f, l)| Step::Use(f, l)),
        (file(), 0..3_u32).prop_map(|(f, u)| Step::Open(f, u)),
        state().prop_map(|(f, s)| Step::Returned(f, s)),
        (0..3_usize).prop_map(Step::AllBut),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Whatever happens in whatever order: what was wanted back is not held until it is granted
    /// anew, and the order of use names exactly what is held.
    #[test]
    fn what_is_wanted_back_is_not_held(steps in steps()) {
        let mut table = Table::default();
        for step in steps {
            match step {
                Step::Ask => _ = table.asks(),
                Step::Answer => {
                    if let Some(first) = table.asking.first().copied() {
                        table.answered(first);
                    }
                }
                Step::Grant(f, s, is_recalled) => {
                    let granted = table.granted(&fh(f), &Grant { is_recalled, ..grant(s) });
                    let is_held = matches!(granted, Granted::New | Granted::Held);
                    prop_assert_eq!(is_held, table.held(&fh(f), 0).is_some()
                        && table.known[&fh(f)].stateid == stateid(s));
                }
                Step::Recall(f, s) => {
                    let known = table.known.get(&fh(f)).map(|known| known.stateid);
                    table.recalled(&fh(f), &stateid(s));
                    prop_assert!(known != Some(stateid(s)) || table.held(&fh(f), 0).is_none());
                }
                Step::Use(f, losses) => drop(table.opens(&fh(f), losses, &1)),
                Step::Open(f, user) => table.opened(&fh(f), 9, (Some(user), 1)),
                Step::Returned(f, s) => table.returned(&back(f, s)),
                Step::AllBut(n) => {
                    table.all_but(n);
                    prop_assert!(table.count() <= n);
                }
            }
            let held = table.known.iter().filter_map(|(fh, known)| Some((known.used?, fh.clone())));
            let mut order = table.to_read.clone();
            order.extend(table.to_write.clone());
            prop_assert_eq!(held.collect::<BTreeMap<_, _>>(), order);
        }
    }
}
