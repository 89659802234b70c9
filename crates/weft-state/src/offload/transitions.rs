//! The transition table of an offloaded copy.

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;
use crate::testing::{A, FILE};

/// The copy that a client began last.
struct Last {
    offloads: Offloads,
    stateid: Stateid,
}

impl Last {
    fn new() -> Last {
        let never = Stateid { seqid: weft_nfs::Seqid(1), other: [9; 12] };
        Last { offloads: Offloads::new(1), stateid: never }
    }

    fn describe(&self) -> String {
        let no = parse_offload(1, &self.stateid).ok();
        match no.and_then(|no| self.offloads.offloads.get(&no)) {
            None => "none".into(),
            Some(o) => {
                let state = if o.ended.is_some() { "ended" } else { "running" };
                let why = match (o.cancelled, o.abandoned) {
                    (_, true) => ", client gone",
                    (true, false) => ", cancelled",
                    (false, false) => "",
                };
                format!("{state}{why}")
            }
        }
    }

    /// What the copying task does when it looks.
    fn looks(&mut self, ended: bool) -> Outcome {
        if !self.describe().starts_with("running") {
            return Outcome::Never;
        }
        let wanted = match ended {
            false => self.offloads.progress(&self.stateid, 5),
            true => self.offloads.end(&self.stateid, 5, NfsStat::OK),
        };
        Outcome::said(match (wanted, ended) {
            (true, false) => "goes on",
            (true, true) => "CB_OFFLOAD",
            (false, _) => "stops, forgotten next",
        })
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "A copy that goes on after its reply: RFC 7862 §4.8, §15.8, §15.9, §16.1.";
    let machine = Machine::new(about, Last::new, Last::describe)
        .on("COPY", |l| {
            if l.describe() != "none" {
                return Outcome::Never;
            }
            l.stateid = l.offloads.begin(A, FILE).unwrap();
            Outcome::OK
        })
        .on("a part is copied", |l| l.looks(false))
        .on("all is copied, or it failed", |l| l.looks(true))
        .on("OFFLOAD_STATUS", |l| match l.offloads.status(A, FILE, &l.stateid) {
            Ok(OffloadProgress { ended: None, .. }) => Outcome::said("goes on"),
            Ok(OffloadProgress { ended: Some(status), .. }) => Outcome::said(status),
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        })
        .on("OFFLOAD_CANCEL", |l| Outcome::of(l.offloads.cancel(A, FILE, &l.stateid)))
        .on("CB_OFFLOAD answered, or stopped", |l| {
            if ["none", "running"].contains(&l.describe().as_str()) {
                return Outcome::Never;
            }
            l.offloads.forget(&l.stateid);
            Outcome::OK
        })
        .on("client dropped", |l| {
            l.offloads.drop_client(A);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "offload", &machine.table());
}
