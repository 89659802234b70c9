//! The transition table of a delegation.

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;
use crate::testing::*;

/// What one client has of one file, and the stateid it was given last.
struct Held {
    state: State,
    last: Stateid,
}

impl Held {
    fn new() -> Held {
        let mut state = new_state();
        state.open(A, &owner("a"), FILE, share::ACCESS_READ, 0).unwrap();
        Held { state, last: Stateid { seqid: Seqid(1), other: [9; 12] } }
    }

    fn describe(&self) -> String {
        let no = self.state.delegations.no_of(A, FILE);
        let is_recalled = no.is_some_and(|no| self.state.delegations.is_recalled(no));
        let held = match no.and_then(|no| self.state.delegations.get(no)) {
            None => "none",
            Some(_) if !is_recalled => "held",
            Some(Delegation { disowned: false, .. }) => "recalled",
            Some(Delegation { disowned: true, .. }) => "recalled, unknown to the client",
        };
        let writes = self.state.is_delegated_to_write(A, FILE);
        let revoked = self.state.held_by_client.get(&A).map(|h| &h.revoked);
        let last = self.state.parse(&self.last).map(|(_, no)| no);
        let is_last = last.is_ok_and(|no| revoked.is_some_and(|r| r.contains(&no)));
        let older = revoked.map_or(0, |r| r.len()) > usize::from(is_last);
        let contended = self.state.delegations.contended.knows(FILE);
        let also = [
            (contended, ", wanted back lately"),
            (writes, ", to write"),
            (is_last, ", revoked"),
            (older, ", an older one revoked"),
        ];
        also.iter().filter(|(is, _)| *is).fold(held.to_string(), |text, (_, more)| text + more)
    }

    fn want(&mut self, wanted: Wanted) -> Outcome {
        self.ask(&reading(A, FILE, wanted))
    }

    /// Opens to write, and closes once it is answered: the delegation is in place of the open.
    fn want_to_write(&mut self, wanted: Wanted) -> Outcome {
        let open = self.state.open(A, &owner("writer"), FILE, share::ACCESS_WRITE, 0).unwrap();
        let asked = self.ask(&writing(A, FILE, wanted));
        self.state.close(A, &open, FILE).unwrap();
        asked
    }

    fn ask(&mut self, asking: &Asking) -> Outcome {
        match self.state.delegate(NOW, asking) {
            Ok(granted) => {
                self.last = granted.stateid;
                Outcome::said(format!("{:?}", granted.kind))
            }
            Err(why) => Outcome::said(format!("none: {why:?}")),
        }
    }

    fn answer(&mut self, known: bool) -> Outcome {
        let recalled = self.state.delegations_overdue(NOW, 0, 0);
        if recalled.is_empty() {
            return Outcome::Never;
        }
        self.state.delegation_answered(A, &self.last, known);
        Outcome::OK
    }
}

fn others_open(h: &mut Held, access: u32) -> Outcome {
    Outcome::of(h.state.open_check(B, &owner("b"), FILE, access, 0))
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "A delegation of one client on one file: RFC 8881 §10.2, §10.4, §18.6, §18.38.";
    let machine = Machine::new(about, Held::new, Held::describe)
        .on("OPEN that wants one", |h| h.want(Wanted::Read))
        .on("OPEN that wants none", |h| h.want(Wanted::Nothing))
        .on("OPEN to read that wants one to write", |h| h.want(Wanted::Write))
        .on("OPEN to write that wants one", |h| h.want_to_write(Wanted::Any))
        .on("OPEN to write that wants one to read", |h| h.want_to_write(Wanted::Read))
        .on("OPEN while it is changed", |h| {
            h.state.begin_change(FILE);
            let told = h.want(Wanted::Read);
            h.state.end_change(FILE);
            told
        })
        .on("another's OPEN to write", |h| others_open(h, share::ACCESS_WRITE))
        .on("another's OPEN to read", |h| others_open(h, share::ACCESS_READ))
        .on("OPEN of CLAIM_DELEG_CUR_FH", |h| {
            Outcome::of(h.state.delegation_check(A, &h.last, FILE))
        })
        .on("READ", |h| Outcome::of(h.state.check_io(A, &h.last, FILE, crate::IoAccess::Read)))
        .on("WRITE", |h| Outcome::of(h.state.check_io(A, &h.last, FILE, crate::IoAccess::Write)))
        .on("recall begins", |h| match h.state.delegation_recall(NOW, A, FILE, RecallFor::Change) {
            Some(_) => Outcome::said("CB_RECALL"),
            None => Outcome::OK,
        })
        .on("CB_RECALL answered", |h| h.answer(true))
        .on("CB_RECALL answered BAD_STATEID", |h| h.answer(false))
        .on("recall overdue", |h| {
            let overdue = h.state.delegations_overdue(NOW, 0, 0);
            for (client, file) in &overdue {
                h.state.delegation_revoke(NOW, *client, *file);
            }
            if overdue.is_empty() { Outcome::Never } else { Outcome::OK }
        })
        .on("DELEGRETURN", |h| Outcome::of(h.state.delegation_return(A, &h.last, FILE)))
        .on("the file is gone", |h| {
            h.state.delegations_forget(FILE);
            Outcome::OK
        })
        .on("TEST_STATEID", |h| Outcome::said(h.state.test_stateid(A, &h.last)))
        .on("FREE_STATEID", |h| Outcome::of(h.state.free_stateid(A, &h.last)))
        .on("client dropped", |h| {
            h.state.drop_client(A);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "delegation", &machine.table());
}
