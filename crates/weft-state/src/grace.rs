//! The grace period after a restart: RFC 8881 §8.4.2, §9.11.2.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::ids::Millis;

/// A client that reclaims nothing for so long has done with it, or is gone.
const RECLAIM_PAUSE_MS: u64 = 2000;

/// The grace period: which clients of before the restart may still reclaim. It ends when all of
/// them have sent RECLAIM_COMPLETE, or by time; while something is being reclaimed it is extended,
/// to twice the time at most.
#[derive(Debug)]
pub struct Grace {
    ends: Millis,
    /// When it ends although clients are still reclaiming.
    ends_at_last: Millis,
    last_reclaim: Option<Millis>,
    /// Record by `co_ownerid`.
    waiting: BTreeMap<Bytes, u64>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    On,
    /// Over, and [`Grace::tick`] has not said so yet.
    OverUntold,
    Over,
}

/// The end of a grace period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Durable records of clients that did not complete their reclaim: to be deleted before
    /// others are given anything, so that they cannot reclaim after the next restart what others
    /// had in between (§8.4.3). One that is back gets a new record with its RECLAIM_COMPLETE.
    pub incomplete: Vec<u64>,
}

impl Grace {
    /// A grace period of `grace_ms` for the clients with durable records: record id and
    /// `co_ownerid`. Without any there is nothing to wait for: it is over at once.
    pub fn start(now: Millis, grace_ms: u64, known: Vec<(u64, Bytes)>) -> Self {
        let phase = if known.is_empty() { Phase::Over } else { Phase::On };
        let waiting = known.into_iter().map(|(record, id)| (id, record)).collect();
        let after = |ms: u64| Millis(now.0.saturating_add(ms));
        let (ends, ends_at_last) = (after(grace_ms), after(grace_ms.saturating_mul(2)));
        Grace { ends, ends_at_last, last_reclaim: None, waiting, phase }
    }

    /// Whether requests that are not reclaims are to be answered GRACE.
    /// By time it ends with [`Grace::tick`], so that [`Ended::incomplete`] comes first.
    pub fn is_on(&self) -> bool {
        self.phase == Phase::On
    }

    /// Whether the client of this `co_ownerid` was known before the restart and has not completed
    /// its reclaim. Outside of grace ([`Grace::is_on`]) nobody may: NO_GRACE.
    pub fn may_reclaim(&self, ownerid: &[u8]) -> bool {
        self.phase == Phase::On && self.waiting.contains_key(ownerid)
    }

    /// Something was reclaimed: the period does not end in the middle of it.
    pub fn reclaimed(&mut self, now: Millis) {
        self.last_reclaim = Some(now);
    }

    /// A client has sent RECLAIM_COMPLETE. Says whether that ended the period.
    pub fn client_done(&mut self, ownerid: &[u8]) -> bool {
        if self.waiting.remove(ownerid).is_none() || self.phase != Phase::On {
            return false;
        }
        if self.waiting.is_empty() {
            self.phase = Phase::OverUntold;
        }
        self.waiting.is_empty()
    }

    fn is_reclaiming(&self, now: Millis) -> bool {
        self.last_reclaim.is_some_and(|at| now.since(at) < RECLAIM_PAUSE_MS)
    }

    /// Lets time pass. Tells the end of the period once, however it came.
    pub fn tick(&mut self, now: Millis) -> Option<Ended> {
        let over = match self.phase {
            Phase::On => now >= self.ends_at_last || now >= self.ends && !self.is_reclaiming(now),
            Phase::OverUntold => true,
            Phase::Over => false,
        };
        if !over {
            return None;
        }
        self.phase = Phase::Over;
        Some(Ended { incomplete: std::mem::take(&mut self.waiting).into_values().collect() })
    }
}

#[cfg(test)]
mod transitions;

#[cfg(test)]
mod tests {
    use super::*;

    fn grace() -> Grace {
        let known = vec![(1, Bytes::from_static(b"a")), (2, Bytes::from_static(b"b"))];
        Grace::start(Millis(1000), 500, known)
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
        let mut g = Grace::start(Millis(0), 10_000, vec![(1, Bytes::from_static(b"a"))]);
        g.reclaimed(Millis(9000));
        assert_eq!(g.tick(Millis(10_999)), None);
        assert!(g.is_on() && g.may_reclaim(b"a"));
        assert!(g.tick(Millis(11_000)).is_some());
    }

    /// Proves that a server nobody knew does not wait.
    #[test]
    fn nobody_known_no_grace() {
        let mut g = Grace::start(Millis(0), 500, Vec::new());
        assert!(!g.is_on());
        assert_eq!(g.tick(Millis(1000)), None);
    }

    /// Proves that the last RECLAIM_COMPLETE ends it early, and that the end is reported once.
    #[test]
    fn ends_when_all_are_done() {
        let mut g = grace();
        assert!(g.may_reclaim(b"a") && !g.may_reclaim(b"stranger"));
        assert!(!g.client_done(b"stranger"));
        assert!(!g.client_done(b"a"));
        assert!(!g.may_reclaim(b"a") && g.may_reclaim(b"b"));
        assert!(g.is_on());
        assert!(g.client_done(b"b"));
        assert!(!g.is_on());
        assert_eq!(g.tick(Millis(1001)), Some(Ended { incomplete: Vec::new() }));
        assert_eq!(g.tick(Millis(1002)), None);
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
