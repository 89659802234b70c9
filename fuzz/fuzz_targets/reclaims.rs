//! What clients do after a restart of the server, in any order and at any time: nobody reclaims who
//! was not known before or is done, and grace ends when nobody is awaited any more or by time, once.

#![no_main]

use std::collections::BTreeMap;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_state::{Ended, Grace, KnownClient, Millis};

/// How long grace is, without anybody reclaiming.
const GRACE_MS: u64 = 5000;
const OWNERS: u8 = 6;

/// What must be, written down once more.
struct Expected {
    /// Who may reclaim still: record, and whether it is awaited.
    waiting: BTreeMap<u8, (u64, bool)>,
    is_on: bool,
}

impl Expected {
    fn ended(&mut self, ended: Option<Ended>, now: Millis, awaited: bool) {
        let Some(ended) = ended else {
            assert!(!self.is_on || awaited && now.0 < 2 * GRACE_MS, "grace does not end");
            return;
        };
        assert!(self.is_on, "grace ends twice");
        assert!(now.0 >= GRACE_MS || !awaited, "grace ends while somebody is awaited");
        let mut records: Vec<_> = self.waiting.values().map(|(record, _)| *record).collect();
        records.sort_unstable();
        let mut incomplete = ended.incomplete;
        incomplete.sort_unstable();
        assert_eq!(incomplete, records, "whose records go");
        self.is_on = false;
        self.waiting.clear();
    }

    fn awaits(&self) -> bool {
        self.waiting.values().any(|(_, awaited)| *awaited)
    }
}

fuzz_target!(|data: &[u8]| {
    let [known, awaited, steps @ ..] = data else { return };
    let is = |set: &u8, owner: u8| set >> owner & 1 != 0;
    let before: Vec<u8> = (0..OWNERS).filter(|o| is(known, *o)).collect();
    let record = |o: &u8| KnownClient {
        record: u64::from(*o),
        ownerid: Bytes::copy_from_slice(&[*o]),
        awaited: is(awaited, *o),
        waited: 0,
    };
    let mut now = Millis(0);
    let mut grace = Grace::start(now, GRACE_MS, before.iter().map(record).collect());
    let waiting = before.iter().map(|o| (*o, (u64::from(*o), is(awaited, *o)))).collect();
    let mut expected = Expected { waiting, is_on: true };
    for step in steps {
        let (what, owner) = (step % 4, step / 4 % 8);
        match what {
            0 => now.0 += u64::from(step / 4) * 20,
            1 if grace.may_reclaim(&[owner]) => grace.reclaimed(now),
            2 => {
                let was_known = expected.waiting.contains_key(&owner);
                let ended = grace.client_done(&[owner]);
                assert!(ended.is_none() || was_known, "ended by who was not awaited");
                expected.waiting.remove(&owner);
                if ended.is_some() {
                    let awaits = expected.awaits();
                    expected.ended(ended, now, awaits);
                }
            }
            3 => {
                let awaits = expected.awaits();
                expected.ended(grace.tick(now), now, awaits);
            }
            _ => {}
        }
        assert_eq!(grace.is_on(), expected.is_on);
        for owner in 0..8 {
            let may = expected.is_on && expected.waiting.contains_key(&owner);
            assert_eq!(grace.may_reclaim(&[owner]), may, "owner {owner}");
        }
    }
});
