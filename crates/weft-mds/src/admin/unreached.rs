//! Data servers that clients say they cannot reach (RFC 7862 §15.6, RFC 8435 §9.1), although the
//! metadata server may: a port that is closed between them, or an address that leads nowhere.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard},
};

use weft_state::Millis;
use weft_store::types::DataServerId;

/// A report is old after so long without another one.
const RECENT_MS: u64 = 60_000;
/// Pairs of a client and a data server remembered.
const PAIRS_MAX: usize = 4096;

/// A client, which may have ended since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reporter {
    /// Its machine, as far as one can tell.
    pub(crate) name: String,
    /// Address that it connected from.
    pub(crate) address: IpAddr,
}

/// A client and a data server.
pub(crate) type Pair = (Reporter, DataServerId);

/// Reports of clients that could not reach a data server, by both.
#[derive(Debug, Default)]
pub(crate) struct Unreached(Mutex<HashMap<Pair, Reports>>);

#[derive(Debug, Clone, Copy)]
struct Reports {
    count: u64,
    last: Millis,
}

impl Unreached {
    fn lock(&self) -> MutexGuard<'_, HashMap<Pair, Reports>> {
        self.0.lock().expect("unreached lock")
    }

    /// A client has reported a data server.
    pub(crate) fn told(&self, pair: Pair, now: Millis) {
        let mut all = self.lock();
        all.retain(|_, reports| now.since(reports.last) < RECENT_MS);
        if all.len() < PAIRS_MAX || all.contains_key(&pair) {
            let reports = all.entry(pair).or_insert(Reports { count: 0, last: now });
            (reports.count, reports.last) = (reports.count + 1, now);
        }
    }

    /// Reports of the last minute, by client and data server, and how many there were.
    pub(crate) fn recent(&self, now: Millis) -> Vec<(Pair, u64)> {
        let all = self.lock();
        let recent = all.iter().filter(|(_, reports)| now.since(reports.last) < RECENT_MS);
        let mut recent: Vec<_> =
            recent.map(|(pair, reports)| (pair.clone(), reports.count)).collect();
        recent.sort_unstable();
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports add up by client and data server, count for a minute, and are bounded.
    #[test]
    fn reports_count_for_a_minute() {
        let all = Unreached::default();
        let at = |ms| Millis(1000 + ms);
        let pair = |client: u64, id| {
            let address = IpAddr::from([192, 0, 2, 1]);
            (Reporter { name: format!("client {client}"), address }, DataServerId(id))
        };
        for (pair, ms) in [(pair(2, 1), 0), (pair(1, 9), 1), (pair(2, 1), 2)] {
            all.told(pair, at(ms));
        }
        assert_eq!(all.recent(at(3)), [(pair(1, 9), 1), (pair(2, 1), 2)]);
        assert_eq!(all.recent(at(1 + RECENT_MS)), [(pair(2, 1), 2)]);
        assert_eq!(all.recent(at(2 + RECENT_MS)), []);
        for client in 0..2 * PAIRS_MAX as u64 {
            all.told(pair(client, 1), at(3 + RECENT_MS));
        }
        assert_eq!(all.lock().len(), PAIRS_MAX);
    }
}
