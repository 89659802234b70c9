//! The transition table of an open.

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;
use crate::testing::*;

/// What one owner has of one file, and the stateid it was given last.
struct Held {
    state: State,
    last: Stateid,
}

const R: u32 = share::ACCESS_READ;
const W: u32 = share::ACCESS_WRITE;
const RW: u32 = share::ACCESS_BOTH;
const DENY_W: u32 = share::DENY_WRITE;

impl Held {
    fn new() -> Held {
        let last = Stateid { seqid: Seqid(1), other: [9; 12] };
        Held { state: new_state(), last }
    }

    fn open(&self) -> Option<&Open> {
        self.state.opens.by_no.values().next()
    }

    /// The shares that were opened; their union is what the open allows and denies.
    fn describe(&self) -> String {
        let Some(open) = self.open() else { return "closed".into() };
        let parts: Vec<Share> = Share::all().filter(|s| open.seen & s.bit() != 0).collect();
        assert_eq!(parts.iter().copied().reduce(Share::union), Some(open.share));
        let parts: Vec<_> = parts.iter().map(|s| name(s.access, s.deny)).collect();
        format!("open {}", parts.join(", "))
    }

    fn given(&mut self, answer: Result<Stateid, Refusal>) -> Outcome {
        match answer {
            Ok(stateid) => {
                self.last = stateid;
                Outcome::OK
            }
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }
}

fn name(access: u32, deny: u32) -> String {
    let access = ["-", "r", "w", "rw"][access as usize];
    format!("{access}{}", if deny == 0 { "" } else { " deny w" })
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "The open of one owner on one file, by the shares it is the union of: RFC 8881 \
                 §9.7-§9.9, §18.2, §18.16, §18.18; I/O §9.1.2.";
    let mut machine = Machine::new(about, Held::new, Held::describe);
    for (access, deny) in [(R, 0), (W, 0), (R, DENY_W)] {
        machine = machine.on(format!("OPEN {}", name(access, deny)), move |h| {
            let answer = h.state.open(A, &owner("a"), FILE, access, deny);
            h.given(answer)
        });
    }
    for (access, deny) in [(R, 0), (W, 0), (R, DENY_W), (RW, 0)] {
        machine = machine.on(format!("OPEN_DOWNGRADE to {}", name(access, deny)), move |h| {
            let answer = h.state.open_downgrade(A, &h.last, FILE, access, deny);
            h.given(answer)
        });
    }
    for (access, deny) in [(R, 0), (W, 0), (R, DENY_W)] {
        machine = machine.on(format!("another's OPEN {}", name(access, deny)), move |h| {
            Outcome::of(h.state.open_check(B, &owner("b"), FILE, access, deny))
        });
    }
    for (what, access) in [("READ", IoAccess::Read), ("WRITE", IoAccess::Write)] {
        machine = machine
            .on(what, move |h| Outcome::of(h.state.check_io(A, &h.last, FILE, access)))
            .on(format!("{what} by the anonymous stateid"), move |h| {
                Outcome::of(h.state.check_io(A, &Stateid::ANONYMOUS, FILE, access))
            });
    }
    let machine = machine
        .on("READ by an older seqid", |h| {
            let older = Stateid { seqid: Seqid(h.last.seqid.0.wrapping_sub(1000)), ..h.last };
            Outcome::of(h.state.check_io(A, &older, FILE, IoAccess::Read))
        })
        .on("FREE_STATEID", |h| Outcome::of(h.state.free_stateid(A, &h.last)))
        .on("CLOSE", |h| Outcome::of(h.state.close(A, &h.last, FILE)))
        .on("client dropped", |h| {
            h.state.drop_client(A);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "open", &machine.table());
}
