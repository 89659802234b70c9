//! The transition table of a layout.

use weft_dev::{Machine, Outcome, assert_snapshot};
use weft_nfs::share;

use super::*;
use crate::testing::*;

/// What one client has of one file: an open for reading and writing, maybe a layout, and the
/// layout stateid it was given last.
struct Held {
    state: State,
    open: Stateid,
    last: Stateid,
}

impl Held {
    fn new() -> Held {
        let mut state = new_state();
        let open = state.open(A, &owner("a"), FILE, share::ACCESS_BOTH, 0).unwrap();
        Held { state, open, last: Stateid { seqid: Seqid(1), other: [9; 12] } }
    }

    fn describe(&self) -> String {
        let no = self.state.layouts.no_of(A, FILE);
        let open = if self.state.is_open(FILE) { "" } else { ", nothing open" };
        let Some(layout) = no.and_then(|no| self.state.layouts.get(no)) else {
            let returned = self.state.was_returned(A, FILE, &self.last);
            return format!(
                "none{}{open}",
                if returned { ", read-write one returned" } else { "" }
            );
        };
        let held = match (layout.read, layout.rw) {
            (true, true) => "READ and RW",
            (true, false) if layout.was_rw => "READ, was RW",
            (true, false) => "READ",
            (false, _) => "RW",
        };
        let recalled = no.is_some_and(|no| self.state.layouts.is_recalled(no));
        format!("{held}{}{open}", if recalled { ", recalled" } else { "" })
    }

    fn get(&mut self, stateid: Stateid, iomode: IoMode) -> Outcome {
        match self.state.layout_check(A, FILE, &stateid, iomode) {
            Ok(holder) => {
                self.last = self.state.layout_granted(&holder, iomode);
                Outcome::OK
            }
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn give_back(&mut self, iomode: IoMode) -> Outcome {
        match self.state.layout_return(A, FILE, &self.last, iomode) {
            Ok(done) => {
                self.last = done.remaining.unwrap_or(self.last);
                let said = [(done.had_rw, "to be settled"), (done.finished_recall, "recall ended")];
                let said: Vec<_> = said.iter().filter(|(is, _)| *is).map(|(_, s)| *s).collect();
                Outcome::said(said.join(", "))
            }
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn revoke(&mut self, overdue: Vec<Overdue>) -> Outcome {
        let fenced = overdue.iter().filter(|o| o.rw).count();
        overdue.iter().for_each(|o| assert!(self.state.layout_revoke(o)));
        match (overdue.is_empty(), fenced) {
            (true, _) => Outcome::Never,
            (false, 0) => Outcome::OK,
            (false, _) => Outcome::said("fenced before"),
        }
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "The layout of one client on one file: RFC 8881 §12.5, §18.42-§18.44, §20.3.";
    let machine = Machine::new(about, Held::new, Held::describe)
        .on("LAYOUTGET of READ by the open", |h| h.get(h.open, IoMode::READ))
        .on("LAYOUTGET of RW by the open", |h| h.get(h.open, IoMode::RW))
        .on("LAYOUTGET of READ by the layout", |h| h.get(h.last, IoMode::READ))
        .on("LAYOUTGET of RW by the layout", |h| h.get(h.last, IoMode::RW))
        .on("LAYOUTCOMMIT", |h| Outcome::of(h.state.layout_commit_check(A, FILE, &h.last)))
        .on("LAYOUTERROR, LAYOUTSTATS", |h| {
            Outcome::of(h.state.layout_report_check(A, FILE, &h.last))
        })
        .on("LAYOUTRETURN of READ", |h| h.give_back(IoMode::READ))
        .on("LAYOUTRETURN of RW", |h| h.give_back(IoMode::RW))
        .on("LAYOUTRETURN of ANY", |h| h.give_back(IoMode::ANY))
        .on("LAYOUTRETURN of everything", |h| {
            h.state.layout_return_all(A, None);
            Outcome::OK
        })
        .on("recall begins", |h| match h.state.recall_begin(NOW, A, FILE) {
            Some(stateid) => {
                h.last = stateid;
                Outcome::said("CB_LAYOUTRECALL")
            }
            None => Outcome::OK,
        })
        .on("CB_LAYOUTRECALL answered DELAY", |h| match h.state.recall_stateid(A, FILE) {
            Some(_) => Outcome::said("sent again"),
            None => Outcome::Never,
        })
        .on("CB_LAYOUTRECALL answered NOMATCHING_LAYOUT", |h| {
            if h.state.recall_stateid(A, FILE).is_none() {
                return Outcome::Never;
            }
            let rw = h.state.recall_done(A, FILE);
            Outcome::said(if rw { "to be settled" } else { "" })
        })
        .on("recall overdue", |h| {
            let overdue = h.state.recalls_overdue(NOW, 0);
            h.revoke(overdue)
        })
        .on("lease passed", |h| {
            let overdue = h.state.layouts_expire(NOW, A);
            h.revoke(overdue)
        })
        .on("CLOSE", |h| Outcome::of(h.state.close(A, &h.open, FILE)))
        .on("the file is gone", |h| {
            h.state.layouts_forget(FILE);
            Outcome::OK
        })
        .on("TEST_STATEID", |h| Outcome::said(h.state.test_stateid(A, &h.last)))
        .on("FREE_STATEID", |h| Outcome::of(h.state.free_stateid(A, &h.last)))
        .on("client dropped", |h| {
            h.state.drop_client(A);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "layout", &machine.table());
}
