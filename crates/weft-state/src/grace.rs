//! The grace period after a restart: RFC 8881 §8.4.2, §9.11.2.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::ids::Millis;

/// A client that reclaims nothing for so long has done with it, or is gone.
const RECLAIM_PAUSE_MS: u64 = 2000;

/// Parts of a grace period by which the time that a client was awaited in vain is counted.
pub const GRACE_PARTS: u8 = 8;

/// A client of before the restart, by its durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownClient {
    /// Id of the record.
    pub record: u64,
    /// Its `co_ownerid`.
    pub ownerid: Bytes,
    /// Whether the server waits for it: its lease was valid as far as is known.
    pub awaited: bool,
    /// Parts of a grace period, of [`GRACE_PARTS`], in which it was awaited before this start and
    /// did not complete its reclaim. The server waits for the rest.
    pub waited: u8,
}

/// The grace period: which clients of before the restart may still reclaim. It ends when all those
/// that are awaited have sent RECLAIM_COMPLETE, or by time; while something is being reclaimed it
/// is extended, to twice the time at most. Each client is awaited for one period in all, over
/// however many restarts.
#[derive(Debug)]
pub struct Grace {
    begun: Millis,
    grace_ms: u64,
    /// Whole parts that have passed, as told by [`Grace::parts_passed`].
    parts_told: u8,
    /// When it ends although clients are still reclaiming.
    ends_at_last: Millis,
    last_reclaim: Option<Millis>,
    /// Who has not completed its reclaim, by `co_ownerid`.
    waiting: BTreeMap<Bytes, Waiting>,
    is_on: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    record: u64,
    /// Until when the server waits for this client; never if it is not awaited.
    awaited_until: Option<Millis>,
}

/// The end of a grace period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Durable records of clients that did not complete their reclaim: to be deleted before
    /// others are given anything, so that they cannot reclaim after the next restart what others
    /// had in between (§8.4.3). One that is back gets a new record with what it holds next.
    pub incomplete: Vec<u64>,
}

/// A grace period that is on, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraceLeft {
    /// Milliseconds until it ends by time; 0 if it goes on only because somebody is reclaiming.
    pub left_ms: u64,
    /// Who is awaited, by `co_ownerid`.
    pub awaited: Vec<Bytes>,
}

impl Grace {
    /// A grace period of `grace_ms` for the clients with durable records. It is on until the first
    /// [`Grace::tick`], and longer only if somebody is awaited.
    pub fn start(now: Millis, grace_ms: u64, known: Vec<KnownClient>) -> Self {
        let after = |ms: u64| Millis(now.0.saturating_add(ms));
        let parts_left = |k: &KnownClient| match k.awaited {
            true => u64::from(GRACE_PARTS.saturating_sub(k.waited)),
            false => 0,
        };
        let waiting = known.into_iter().map(|k| {
            let parts_left = Some(parts_left(&k)).filter(|left| *left > 0);
            let part_ms = grace_ms.div_ceil(GRACE_PARTS.into());
            let left_ms = parts_left.map(|left| left.saturating_mul(part_ms).min(grace_ms));
            (k.ownerid, Waiting { record: k.record, awaited_until: left_ms.map(after) })
        });
        Grace {
            begun: now,
            grace_ms,
            parts_told: 0,
            ends_at_last: after(grace_ms.saturating_mul(2)),
            last_reclaim: None,
            waiting: waiting.collect(),
            is_on: true,
        }
    }

    /// Whole parts of the grace period, of [`GRACE_PARTS`], that have passed since it began: if
    /// another has since the last call, and it is on.
    pub fn parts_passed(&mut self, now: Millis) -> Option<u8> {
        let parts = u64::from(GRACE_PARTS) * now.since(self.begun) / self.grace_ms.max(1);
        let parts = u8::try_from(parts).unwrap_or(GRACE_PARTS).min(GRACE_PARTS);
        let is_news = self.is_on && parts > self.parts_told;
        is_news.then(|| {
            self.parts_told = parts;
            parts
        })
    }

    /// Whether requests that are not reclaims are to be answered GRACE.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the client of this `co_ownerid` was known before the restart and has not completed
    /// its reclaim. Outside of grace ([`Grace::is_on`]) nobody may: NO_GRACE.
    pub fn may_reclaim(&self, ownerid: &[u8]) -> bool {
        self.is_on && self.waiting.contains_key(ownerid)
    }

    /// Something was reclaimed: the period does not end in the middle of it.
    pub fn reclaimed(&mut self, now: Millis) {
        self.last_reclaim = Some(now);
    }

    /// A client has sent RECLAIM_COMPLETE, or will never come. Tells if that ended the period.
    pub fn client_done(&mut self, ownerid: &[u8]) -> Option<Ended> {
        let done = self.waiting.remove(ownerid);
        if done.is_some() && self.is_on && !self.awaits_somebody() { self.end() } else { None }
    }

    /// Who is awaited, and for how long; absent when it is over.
    pub fn left(&self, now: Millis) -> Option<GraceLeft> {
        let awaited = self.waiting.iter().filter(|(_, w)| w.awaited_until.is_some());
        let awaited = awaited.map(|(ownerid, _)| ownerid.clone()).collect();
        let ends = self.ends().unwrap_or_default();
        self.is_on.then(|| GraceLeft { left_ms: ends.0.saturating_sub(now.0), awaited })
    }

    /// When it ends by time; absent if nobody is awaited.
    fn ends(&self) -> Option<Millis> {
        self.waiting.values().filter_map(|w| w.awaited_until).max()
    }

    fn awaits_somebody(&self) -> bool {
        self.ends().is_some()
    }

    fn is_reclaiming(&self, now: Millis) -> bool {
        self.last_reclaim.is_some_and(|at| now.since(at) < RECLAIM_PAUSE_MS)
    }

    /// Lets time pass. Tells of the end of the period if this is it.
    pub fn tick(&mut self, now: Millis) -> Option<Ended> {
        let is_late = self.ends().is_none_or(|ends| now >= ends && !self.is_reclaiming(now));
        let over = self.is_on && (is_late || now >= self.ends_at_last);
        if over { self.end() } else { None }
    }

    fn end(&mut self) -> Option<Ended> {
        self.is_on = false;
        let left = std::mem::take(&mut self.waiting).into_values();
        Some(Ended { incomplete: left.map(|w| w.record).collect() })
    }
}

#[cfg(test)]
mod transitions;

#[cfg(test)]
mod tests {
    use super::*;

    fn known(record: u64, ownerid: &'static [u8], awaited: bool) -> KnownClient {
        KnownClient { record, ownerid: Bytes::from_static(ownerid), awaited, waited: 0 }
    }

    fn grace() -> Grace {
        Grace::start(Millis(1000), 500, vec![known(1, b"a", true), known(2, b"b", true)])
    }

    /// Proves that the period is not ended in the middle of reclaims (both sides of the pause),
    /// and that they cannot extend it for ever.
    #[test]
    fn reclaims_extend_it() {
        let mut g = grace();
        g.reclaimed(Millis(1499));
        assert_eq!(g.tick(Millis(1500)), None);
        assert_eq!(g.tick(Millis(1999)), None);
        g.reclaimed(Millis(1999));
        assert!(g.tick(Millis(2000)).is_some(), "twice the time");
        let mut g = Grace::start(Millis(0), 10_000, vec![known(1, b"a", true)]);
        g.reclaimed(Millis(9000));
        assert_eq!(g.tick(Millis(10_999)), None);
        assert!(g.is_on() && g.may_reclaim(b"a"));
        assert!(g.tick(Millis(11_000)).is_some());
    }

    /// Proves that a client is awaited for one period in all: both ends of what is left after
    /// former starts, whose parts are told once each.
    #[test]
    fn each_is_awaited_for_one_period_in_all() {
        let waited = |waited| vec![KnownClient { waited, ..known(1, b"a", true) }];
        let (mut parts, mut at) = (0, Millis(0));
        let mut g = Grace::start(at, 800, waited(0));
        for ms in 0..800 {
            at = Millis(ms);
            assert_eq!(g.tick(at), None);
            if let Some(passed) = g.parts_passed(at) {
                parts += 1;
                assert_eq!((u64::from(passed) * 100, passed), (ms, parts));
            }
        }
        assert_eq!(parts, GRACE_PARTS - 1);
        for parts in 1..GRACE_PARTS {
            let mut g = Grace::start(at, 800, waited(parts));
            let left_ms = 800 - 100 * u64::from(parts);
            assert_eq!(g.left(at).unwrap().left_ms, left_ms);
            assert_eq!(g.tick(Millis(at.0 + left_ms - 1)), None);
            assert!(g.may_reclaim(b"a"));
            assert!(g.tick(Millis(at.0 + left_ms)).is_some());
        }
        let mut g = Grace::start(at, 800, waited(GRACE_PARTS));
        assert_eq!(g.tick(at), Some(Ended { incomplete: vec![1] }));
        assert_eq!(g.parts_passed(Millis(at.0 + 800)), None, "it is over");
        let all = vec![known(2, b"b", true), KnownClient { waited: 7, ..known(1, b"a", true) }];
        let mut g = Grace::start(at, 800, all);
        assert_eq!(g.tick(Millis(at.0 + 799)), None, "another is awaited for longer");
        assert!(g.may_reclaim(b"a"));
    }

    /// Proves that a server does not wait that awaits nobody, and that whoever is known without
    /// being awaited loses its record before anybody else is given anything.
    #[test]
    fn nobody_awaited_no_grace() {
        let mut g = Grace::start(Millis(0), 500, Vec::new());
        assert_eq!(g.tick(Millis(0)), Some(Ended { incomplete: Vec::new() }));
        assert_eq!((g.is_on(), g.tick(Millis(1000))), (false, None));
        let mut g = Grace::start(Millis(0), 500, vec![known(4, b"late", false)]);
        assert!(g.is_on() && g.may_reclaim(b"late"));
        assert_eq!(g.tick(Millis(0)), Some(Ended { incomplete: vec![4] }));
        assert!(!g.is_on() && !g.may_reclaim(b"late"));
    }

    /// Proves that who is not awaited may reclaim for as long as the others are awaited, that the
    /// period does not wait for it, and that one that reclaimed is not forgotten.
    #[test]
    fn who_is_not_awaited_may_come_in_time() {
        let all = || vec![known(1, b"a", true), known(2, b"b", false), known(3, b"c", false)];
        let mut g = Grace::start(Millis(0), 500, all());
        assert!(g.may_reclaim(b"b"));
        assert_eq!(g.client_done(b"b"), None);
        assert_eq!(g.tick(Millis(1)), None);
        let left = GraceLeft { left_ms: 499, awaited: vec![Bytes::from_static(b"a")] };
        assert_eq!(g.left(Millis(1)), Some(left));
        assert_eq!(g.client_done(b"a"), Some(Ended { incomplete: vec![3] }));
        assert_eq!(g.left(Millis(1)), None);
    }

    /// Proves that the last RECLAIM_COMPLETE ends it early, and that the end is reported once.
    #[test]
    fn ends_when_all_are_done() {
        let mut g = grace();
        assert!(g.may_reclaim(b"a") && !g.may_reclaim(b"stranger"));
        assert_eq!(g.client_done(b"stranger"), None);
        assert_eq!(g.client_done(b"a"), None);
        assert!(!g.may_reclaim(b"a") && g.may_reclaim(b"b"));
        assert!(g.is_on());
        assert_eq!(g.client_done(b"b"), Some(Ended { incomplete: Vec::new() }));
        assert!(!g.is_on());
        assert_eq!((g.client_done(b"b"), g.tick(Millis(1002))), (None, None));
    }

    /// Proves that time ends it (both sides of the limit), and which clients are forgotten then.
    #[test]
    fn ends_by_time_and_names_who_did_not_complete() {
        let mut g = grace();
        g.client_done(b"a");
        assert_eq!(g.tick(Millis(1499)), None);
        assert!(g.is_on());
        assert_eq!(g.tick(Millis(1500)), Some(Ended { incomplete: vec![2] }));
        assert!(!g.is_on());
        assert!(!g.may_reclaim(b"b"));
        assert_eq!(g.tick(Millis(1501)), None);
    }
}
