//! The transition table of the locks of one lock owner.

use weft_dev::{Machine, Outcome, assert_snapshot};

use super::*;
use crate::testing::*;

/// Two clients that have a file open, and the lock stateids each was given last. Only one range is
/// ever locked: what ranges do to each other is in `lock_ranges`.
struct Held {
    state: State,
    opens: [Stateid; 2],
    last: [Stateid; 2],
}

const CLIENTS: [ClientId; 2] = [A, B];
const NEVER_GIVEN: Stateid = Stateid { seqid: Seqid(1), other: [9; 12] };

impl Held {
    fn new() -> Held {
        let mut state = new_state();
        let open = |c| state.open(c, &owner("open"), FILE, share::ACCESS_BOTH, 0).unwrap();
        Held { opens: CLIENTS.map(open), state, last: [NEVER_GIVEN; 2] }
    }

    fn describe(&self) -> String {
        let [own, others] = [0, 1].map(|i| self.locked(i));
        let waits = if self.state.lock_waiters.has_any(FILE) { ", who waits" } else { "" };
        let open =
            if self.state.has_open(A, FILE, crate::IoAccess::Read) { "" } else { ", closed" };
        let unlocked = if self.state.lock_waiters.all_noticed() { "" } else { ", given up since" };
        format!("{own}{open}; other: {others}{waits}{unlocked}")
    }

    fn locked(&self, who: usize) -> &'static str {
        let no = self.state.locks.no_of(CLIENTS[who], FILE, &owner("lock").owner.0);
        let Some(no) = no else { return "no state" };
        let range = ByteRange::checked(0, 10).unwrap();
        let ranges = &self.state.files[&FILE].ranges;
        match (self.state.ranges_of(no), ranges.conflict(None, range, false)) {
            (0, _) => "nothing locked",
            (_, Some(_)) => "write lock",
            (_, None) => "read lock",
        }
    }

    fn lock(&mut self, who: usize, locktype: LockType, locker: Locker) -> Outcome {
        let args = LockArgs { locktype, reclaim: false, offset: 0, length: 10, locker };
        match self.state.lock(CLIENTS[who], FILE, &args) {
            Ok(stateid) => {
                self.last[who] = stateid;
                self.notices()
            }
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    /// What follows an event by which locks may have been given up.
    fn notices(&mut self) -> Outcome {
        let notices = self.state.lock_notices();
        Outcome::said(if notices.is_empty() { "" } else { "CB_NOTIFY_LOCK" })
    }

    fn new_owner(&self, who: usize) -> Locker {
        Locker::New { open_stateid: self.opens[who], lock_owner: owner("lock") }
    }

    fn unlock(&mut self, who: usize) -> Outcome {
        let (locktype, lock_stateid) = (LockType::Write, self.last[who]);
        let args =
            LockuArgs { locktype, seqid: Seqid(0), lock_stateid, offset: 0, length: u64::MAX };
        match self.state.locku(CLIENTS[who], FILE, &args) {
            Ok(stateid) => {
                self.last[who] = stateid;
                self.notices()
            }
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn test(&self, locktype: LockType) -> Outcome {
        let owner = owner("lock");
        Outcome::of(self.state.lockt(A, FILE, &LocktArgs { locktype, offset: 0, length: 1, owner }))
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "The locks of one owner on one file, and another owner: RFC 8881 §9.1-§9.6, \
                 §18.10-§18.12, §18.38, §20.11.";
    let by_stateid = |h: &Held| Locker::Existing { lock_stateid: h.last[0] };
    let machine = Machine::new(about, Held::new, Held::describe)
        .on("LOCK READ by the open", |h| h.lock(0, LockType::Read, h.new_owner(0)))
        .on("LOCK WRITE by the open", |h| h.lock(0, LockType::Write, h.new_owner(0)))
        .on("LOCK WRITE by the lock stateid", move |h| h.lock(0, LockType::Write, by_stateid(h)))
        .on("LOCKT READ", |h| h.test(LockType::Read))
        .on("LOCKT WRITE", |h| h.test(LockType::Write))
        .on("LOCKU", |h| h.unlock(0))
        .on("TEST_STATEID", |h| Outcome::said(h.state.test_stateid(A, &h.last[0])))
        .on("FREE_STATEID", |h| Outcome::of(h.state.free_stateid(A, &h.last[0])))
        .on("CLOSE", |h| match h.state.close(A, &h.opens[0], FILE) {
            Ok(_) => h.notices(),
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        })
        .on("other's LOCK READ", |h| h.lock(1, LockType::Read, h.new_owner(1)))
        .on("other's blocking LOCK WRITE", |h| h.lock(1, LockType::WriteBlocking, h.new_owner(1)))
        .on("other's LOCKU", |h| match h.locked(1) {
            "read lock" | "write lock" => h.unlock(1),
            _ => Outcome::Never,
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "lock", &machine.table());
}
