//! The grace period after a restart: RFC 8881 §8.4.2, §9.11.2.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::Millis;

/// The grace period: which clients of before the restart may still reclaim. It ends when all of
/// them have sent RECLAIM_COMPLETE, or by time.
#[derive(Debug)]
pub struct Grace {
    ends: Millis,
    waiting: BTreeMap<Bytes, Waiting>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    record: u64,
    came: bool,
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
    /// Durable records of clients that never came back: to be deleted, so that they cannot
    /// reclaim after the next restart what others may have been given since (§8.4.3).
    pub never_came: Vec<u64>,
}

impl Grace {
    /// A grace period of `grace_ms` for the clients with durable records: record id and
    /// `co_ownerid`. Without any there is nothing to wait for: it is over at once.
    pub fn start(now: Millis, grace_ms: u64, known: Vec<(u64, Bytes)>) -> Self {
        let phase = if known.is_empty() { Phase::Over } else { Phase::On };
        let waiting = known.into_iter().map(|(record, id)| (id, Waiting { record, came: false }));
        Grace { ends: Millis(now.0.saturating_add(grace_ms)), waiting: waiting.collect(), phase }
    }

    /// Whether requests that are not reclaims are to be answered GRACE.
    pub fn is_on(&self, now: Millis) -> bool {
        self.phase == Phase::On && now < self.ends
    }

    /// Whether the client of this `co_ownerid` was known before the restart and has not completed
    /// its reclaim. Outside of grace ([`Grace::is_on`]) nobody may: NO_GRACE.
    pub fn may_reclaim(&self, ownerid: &[u8]) -> bool {
        self.phase == Phase::On && self.waiting.contains_key(ownerid)
    }

    /// A client is back (its new incarnation was confirmed): its record is not one of those that
    /// never came, even if the period ends before its RECLAIM_COMPLETE.
    pub fn client_came(&mut self, ownerid: &[u8]) {
        if let Some(w) = self.waiting.get_mut(ownerid) {
            w.came = true;
        }
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

    /// Lets time pass. Tells the end of the period once, however it came.
    pub fn tick(&mut self, now: Millis) -> Option<Ended> {
        let over = match self.phase {
            Phase::On => now >= self.ends,
            Phase::OverUntold => true,
            Phase::Over => false,
        };
        if !over {
            return None;
        }
        self.phase = Phase::Over;
        let left = std::mem::take(&mut self.waiting);
        let never_came = left.into_values().filter(|w| !w.came).map(|w| w.record).collect();
        Some(Ended { never_came })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grace() -> Grace {
        let known = vec![(1, Bytes::from_static(b"a")), (2, Bytes::from_static(b"b"))];
        Grace::start(Millis(1000), 500, known)
    }

    /// Proves that a server nobody knew does not wait.
    #[test]
    fn nobody_known_no_grace() {
        let mut g = Grace::start(Millis(0), 500, Vec::new());
        assert!(!g.is_on(Millis(0)));
        assert_eq!(g.tick(Millis(1000)), None);
    }

    /// Proves that the last RECLAIM_COMPLETE ends it early, and that the end is told once.
    #[test]
    fn ends_when_all_are_done() {
        let mut g = grace();
        assert!(g.may_reclaim(b"a") && !g.may_reclaim(b"stranger"));
        assert!(!g.client_done(b"stranger"));
        assert!(!g.client_done(b"a"));
        assert!(!g.may_reclaim(b"a") && g.may_reclaim(b"b"));
        assert!(g.is_on(Millis(1499)));
        assert!(g.client_done(b"b"));
        assert!(!g.is_on(Millis(1001)));
        assert_eq!(g.tick(Millis(1001)), Some(Ended { never_came: Vec::new() }));
        assert_eq!(g.tick(Millis(1002)), None);
    }

    /// Proves that time ends it (both sides of the limit), and who is forgotten then.
    #[test]
    fn ends_by_time_and_names_who_never_came() {
        let mut g = grace();
        g.client_came(b"a");
        assert_eq!(g.tick(Millis(1499)), None);
        assert!(g.is_on(Millis(1499)) && !g.is_on(Millis(1500)));
        assert_eq!(g.tick(Millis(1500)), Some(Ended { never_came: vec![2] }));
        assert!(!g.may_reclaim(b"a"));
        assert_eq!(g.tick(Millis(1501)), None);
    }
}
