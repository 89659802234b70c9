//! Many clients of a small machine: all of them come in, and nobody stays with few slots.

use std::net::Ipv4Addr;

use weft_nfs::{NfsStat, SlotId};

use super::*;
use crate::SequenceOutcome;
use crate::testing::*;

const MIB: usize = 1 << 20;
/// What Linux asks for.
const SLOTS: u32 = 64;

/// A client as it sees itself, with one session.
struct Member {
    session: SessionId,
    /// The next sequence id of each slot.
    next: Vec<u32>,
    /// The highest slot it was asked to use, and the highest there is.
    target: u32,
    highest: u32,
}

struct Crowd {
    s: Sessions,
    members: Vec<Member>,
    /// Requests that were told to come again.
    delayed: usize,
}

impl Crowd {
    /// A client mounts: whether it was let in. One that is busy then uses all slots that it may.
    fn join(&mut self, n: u32, hosts: u32, busy: bool) -> bool {
        let asked = exchange_id_args(&format!("Linux NFSv4.2 host{n}"), 1, 0);
        let address = Ipv4Addr::from(0x0a00_0000 + n % hosts).into();
        let origin = Origin { principal: ROOT, address };
        let Ok(known) = self.s.exchange_id(NOW, &asked, &origin, n, |_| true) else { return false };
        let mut create = create_session_args(known.ok.clientid, known.ok.sequenceid);
        create.fore_chan_attrs.maxresponsesize_cached = 5120;
        let Ok(made) = self.s.create_session(NOW, &create, (&ROOT, CONN), [7; 16], |_| false)
        else {
            return false;
        };
        let highest = made.ok.fore_chan_attrs.maxrequests - 1;
        let next = vec![1; SLOTS as usize];
        self.members.push(Member { session: made.ok.sessionid, next, target: highest, highest });
        let member = self.members.len() - 1;
        (0..3).for_each(|_| self.requests(member, 1));
        if busy {
            self.requests(member, SLOTS);
        }
        true
    }

    /// So many requests at once, or as many as it may send.
    fn requests(&mut self, member: usize, most: u32) {
        let m = &mut self.members[member];
        let last = m.target.min(m.highest).min(most - 1);
        let mut begun = Vec::new();
        for slot in 0..=last {
            let mut args = sequence_args(m.session, slot, m.next[slot as usize]);
            args.highest_slotid = SlotId(last);
            match sequence(&mut self.s, &args) {
                SequenceOutcome::New(request) => {
                    m.next[slot as usize] += 1;
                    begun.push(request);
                }
                SequenceOutcome::Refused(r) if r.status == NfsStat::DELAY => self.delayed += 1,
                other => panic!("{other:?}"),
            }
        }
        for request in &begun {
            self.s.complete(request, None);
            (m.target, m.highest) =
                (request.ok.target_highest_slotid.0, request.ok.highest_slotid.0);
            m.next[m.highest as usize + 1..].fill(1);
        }
    }

    /// Each client renews its lease, or if it is busy sends what it may, twice.
    fn renew(&mut self, busy: bool) {
        for member in 0..self.members.len() {
            if busy {
                (0..2).for_each(|_| self.requests(member, SLOTS));
            } else {
                self.requests(member, 1);
            }
        }
        self.s.budget.check();
    }
}

/// So many clients of so many hosts mount a server, those that are refused again after each of
/// two rounds of renewals; then all but a few leave. How many waited each time.
fn come_and_go(limits: &SessionLimits, clients: u32, hosts: u32, busy: bool) -> [usize; 3] {
    let s = sessions_with(limits.clone());
    let mut crowd = Crowd { s, members: Vec::new(), delayed: 0 };
    let mut waiting: Vec<u32> = (0..clients).collect();
    let waited = [(); 3].map(|()| {
        waiting.retain(|n| !crowd.join(*n, hosts, busy));
        crowd.renew(busy);
        waiting.len()
    });
    let leaving = crowd.members.len().saturating_sub(8);
    for member in crowd.members.drain(..leaving) {
        crowd.s.destroy_session(member.session, CONN).unwrap();
    }
    crowd.renew(false);
    crowd.renew(false);
    for member in 0..crowd.members.len() {
        let m = &crowd.members[member];
        assert_eq!((m.target, m.highest), (SLOTS - 1, SLOTS - 1), "all that was asked for");
        crowd.requests(member, SLOTS);
    }
    crowd.s.budget.check();
    assert_eq!(crowd.delayed, 0, "whoever uses what it was told to is never sent away");
    waited
}

/// Login hosts and clusters at servers of a machine with 4 GiB, its data server one of four. Those
/// that use one slot come in at once, those that use all they may after one round at the latest.
#[test]
fn crowds_come_in() {
    let (mds, ds) = (SessionLimits::of_memory(256 * MIB), SessionLimits::of_data_server(64 * MIB));
    let waited = [(&mds, 500, 1), (&mds, 2000, 2000), (&ds, 500, 1), (&ds, 2000, 2000)]
        .map(|(l, clients, hosts)| [false, true].map(|b| come_and_go(l, clients, hosts, b)));
    let at_once = [[0; 3]; 2];
    assert_eq!(waited, [at_once, [[0; 3], [548, 0, 0]], at_once, at_once]);
    assert_eq!(come_and_go(&mds, 4000, 4000, false), [0; 3], "nearly as many as are counted");
}
