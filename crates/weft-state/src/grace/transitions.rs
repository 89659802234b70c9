//! The transition table of the grace period.

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;

const GRACE_MS: u64 = 60_000;

/// A server that three clients knew before it started, one of which it does not await; the time.
struct Restarted {
    grace: Grace,
    now: Millis,
}

impl Restarted {
    fn new() -> Restarted {
        let all: [(u64, &'static [u8], bool); 3] =
            [(1, b"a", true), (2, b"b", true), (3, b"late", false)];
        let known = all.map(|(record, ownerid, awaited)| {
            let ownerid = Bytes::from_static(ownerid);
            KnownClient { record, ownerid, awaited, waited: 0 }
        });
        let known = known.into();
        Restarted { grace: Grace::start(Millis(0), GRACE_MS, known), now: Millis(1) }
    }

    fn describe(&self) -> String {
        let waiting: Vec<_> = self.grace.waiting.keys().map(|id| id.escape_ascii()).collect();
        let waiting: Vec<_> = waiting.into_iter().map(|id| id.to_string()).collect();
        let time = match self.now {
            now if now >= self.grace.ends_at_last => ", twice its time is over",
            now if now >= Millis(GRACE_MS) => ", its time is over",
            _ => "",
        };
        let reclaiming = if self.grace.is_reclaiming(self.now) { ", reclaiming" } else { "" };
        match self.grace.is_on {
            true => format!("in grace for {}{reclaiming}{time}", waiting.join(" and ")),
            false => "over".into(),
        }
    }

    fn reclaim(&mut self, who: &[u8]) -> Outcome {
        if !self.grace.may_reclaim(who) {
            return Outcome::said("may not");
        }
        self.grace.reclaimed(self.now);
        Outcome::OK
    }

    fn complete(&mut self, who: &[u8]) -> Outcome {
        ended(self.grace.client_done(who))
    }

    fn until(&mut self, then: Millis) -> Outcome {
        if then <= self.now || !self.grace.is_on() {
            return Outcome::Never;
        }
        self.now = then;
        Outcome::OK
    }
}

fn ended(how: Option<Ended>) -> Outcome {
    match how {
        None => Outcome::OK,
        Some(Ended { incomplete }) if incomplete.is_empty() => Outcome::said("over"),
        Some(Ended { incomplete }) => {
            Outcome::said(format!("over, records of {} deleted", incomplete.len()))
        }
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "The grace period after a restart. Clients a and b are awaited, late is not: \
                 RFC 8881 §8.4.2, §9.11.2, §18.51.";
    let machine = Machine::new(about, Restarted::new, Restarted::describe)
        .on("a reclaims", |r| r.reclaim(b"a"))
        .on("a stranger reclaims", |r| r.reclaim(b"c"))
        .on("another request", |r| Outcome::said(if r.grace.is_on() { "waits" } else { "" }))
        .on("RECLAIM_COMPLETE of a", |r| r.complete(b"a"))
        .on("RECLAIM_COMPLETE of b", |r| r.complete(b"b"))
        .on("RECLAIM_COMPLETE of a stranger", |r| r.complete(b"c"))
        .on("RECLAIM_COMPLETE of late", |r| r.complete(b"late"))
        .on("look at the clock", |r| ended(r.grace.tick(r.now)))
        .on("two seconds pass", |r| {
            let reclaiming = r.grace.is_reclaiming(r.now);
            let then = Millis(r.now.0 + RECLAIM_PAUSE_MS);
            if reclaiming { r.until(then) } else { Outcome::Never }
        })
        .on("its time passes", |r| r.until(Millis(GRACE_MS)))
        .on("twice its time passes", |r| r.until(Millis(2 * GRACE_MS)));
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "grace", &machine.table());
}
