//! Whatever clients do, their accounts are the sum of what the tables have, no share is exceeded,
//! and what is given back leaves nothing.

use std::net::IpAddr;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use weft_nfs::ops::{LockArgs, Locker, LockuArgs};
use weft_nfs::{ClientId, IoMode, LockType, Opaque, Seqid, StateOwner, Stateid, share};

use crate::client::client_bytes;
use crate::delegation::{DELEGATION_BYTES, REVOKED_BYTES};
use crate::layout::LAYOUT_BYTES;
use crate::lock_ranges::RANGE_BYTES;
use crate::testing::*;
use crate::{
    Asking, ConnId, FileKey, SequenceOutcome, SessionLimits, Sessions, State, StateLimits, Wanted,
};

const CLIENTS: usize = 5;
const FILES: u64 = 3;

fn client(n: usize) -> ClientId {
    ClientId(1 + n as u64)
}

fn name(n: usize) -> StateOwner {
    let bytes = vec![b'n'; [1, 30, 300, 1024][n % 4]];
    StateOwner { clientid: ClientId(0), owner: Opaque(Bytes::from(bytes)) }
}

/// What the tables have of a client, in bytes.
fn counted(state: &State, client: ClientId) -> usize {
    let Some(held) = state.held_by_client.get(&client) else { return 0 };
    let opens: usize = held.opens.iter().map(|no| state.opens.get(*no).unwrap().bytes()).sum();
    let locks: usize = held.locks.iter().map(|no| state.locks.get(*no).unwrap().bytes()).sum();
    let ranges: usize = held.locks.iter().map(|no| state.ranges_of(*no)).sum();
    opens
        + locks
        + ranges * RANGE_BYTES
        + held.layouts.len() * LAYOUT_BYTES
        + held.delegations.len() * DELEGATION_BYTES
        + held.revoked.len() * REVOKED_BYTES
        + state.lock_waiters.bytes_of(client)
}

/// One act of a client on a file; most are refused now and then.
fn act(state: &mut State, what: u8, c: usize, file: FileKey, n: usize) {
    let (client, owner) = (client(c), name(n));
    let access = if n.is_multiple_of(3) { share::ACCESS_BOTH } else { share::ACCESS_READ };
    let Ok(open) = state.open(client, &owner, file, access, 0) else { return };
    let kinds = [LockType::Write, LockType::Read, LockType::WriteBlocking, LockType::ReadBlocking];
    let locked = |state: &mut State| {
        let locker = Locker::New { open_stateid: open, lock_owner: name(n / 2) };
        let (offset, locktype) = (n as u64 % 50, kinds[n % 4]);
        let args = LockArgs { locktype, reclaim: false, offset, length: 9, locker };
        state.lock(client, file, &args).ok()
    };
    match what {
        0 => drop(state.close(client, &open, file)),
        1 | 2 => drop(locked(state)),
        3 => {
            let Some(lock_stateid) = locked(state) else { return };
            let (locktype, seqid, offset) = (LockType::Write, Seqid(0), n as u64 % 50 + 3);
            let args = LockuArgs { locktype, seqid, lock_stateid, offset, length: 2 };
            let _ = state.locku(client, file, &args);
        }
        4 | 5 => {
            let iomode = if what == 4 { IoMode::READ } else { IoMode::RW };
            if let Ok(holder) = state.layout_check(client, file, &open, iomode) {
                state.layout_granted(&holder, iomode);
            }
        }
        6 => drop(state.layout_return_all(client, None)),
        7 => drop(state.delegate(NOW, &reading(client, file, Wanted::Read))),
        8 => drop(state.delegate(NOW, &writing(client, file, Wanted::Write))),
        9 => {
            state.delegation_revoke(NOW, client, file);
        }
        10 => drop(state.drop_client(client)),
        11 => drop(state.lock_notices()),
        _ => state.layouts_forget(file),
    }
}

proptest! {
    /// Opens, locks, layouts, delegations and their ends, by clients of two hosts and one that
    /// nobody announced, with room for a few of each.
    #[test]
    fn state_is_accounted_for(
        steps in vec((0..13u8, 0..CLIENTS, 0..FILES, 0..200usize), 1..200)
    ) {
        let memory_bytes = 64 << 10;
        let mut state = State::new(1, StateLimits { memory_bytes, ..StateLimits::default() });
        for c in 0..CLIENTS - 1 {
            state.admit(client(c), IpAddr::from([10, 0, 0, u8::from(c > 2)]).into());
        }
        let mut freed: Vec<(ClientId, Stateid)> = Vec::new();
        for (what, c, object, n) in steps {
            let file = FileKey { volume: 1, object };
            let possible = n.is_multiple_of(2);
            let asking = Asking { possible, ..reading(client(c), file, Wanted::Any) };
            if let Ok(given) = state.delegate(NOW, &asking) {
                let given = given.stateid;
                freed.push((client(c), given));
            }
            act(&mut state, what, c, file, n);
            if let Some((client, stateid)) = freed.get(n) {
                let _ = state.free_stateid(*client, stateid);
            }
            state.budget.check();
            for c in 0..CLIENTS {
                prop_assert_eq!(state.budget.of_client(client(c)), counted(&state, client(c)));
            }
        }
        for c in 0..CLIENTS {
            state.drop_client(client(c));
        }
        prop_assert_eq!(state.memory().used, 0);
        prop_assert_eq!(state.clients().count(), 0);
    }

    /// Clients and sessions that come and go, with room for a few, and slots that are taken back
    /// and given again.
    #[test]
    fn sessions_are_accounted_for(
        steps in vec((0..6u8, 0..6usize, 0..4usize, 0..90u32), 1..150)
    ) {
        let limits = SessionLimits { memory_bytes: 3 << 20, ..SessionLimits::default() };
        let mut s = sessions_with(limits);
        for (what, owner, size, n) in steps {
            let ownerid = format!("{owner}{}", "x".repeat([0, 40, 400, 1000][size]));
            let records: Vec<_> = s.clients().map(|c| (c.clientid, c.create_next)).collect();
            let picked = records.get(n as usize % records.len().max(1)).copied();
            match (what, picked) {
                (0 | 1, _) => {
                    let args = exchange_id_args(&ownerid, u8::try_from(n % 3).unwrap(), 0);
                    let origin = from_host(u8::try_from(owner % 3).unwrap(), ROOT);
                    let _ = s.exchange_id(NOW, &args, &origin, n, |_| false);
                }
                (2 | 3, Some((client, sequence))) => {
                    let mut args = create_session_args(client, sequence);
                    args.fore_chan_attrs.maxresponsesize_cached = 100 * n;
                    let _ = s.create_session(NOW, &args, (&ROOT, ConnId(1)), [7; 16], |_| false);
                }
                (4, Some((client, _))) => s.drop_client(client),
                (5, Some((client, _))) => {
                    let session = s.clients[&client].sessions().first().copied();
                    session.into_iter().for_each(|id| s.destroy_session(id, CONN).unwrap());
                }
                (_, _) => {}
            }
            let sessions: Vec<_> = s.sessions.keys().copied().collect();
            for id in sessions {
                for number in 1..4 {
                    let args = sequence_args(id, n % 20, number);
                    if let SequenceOutcome::New(done) = sequence(&mut s, &args) {
                        s.complete(&done, None);
                    }
                }
            }
            s.budget.check();
            for client in s.clients() {
                let sessions = client.sessions().iter().map(|id| s.sessions[id].bytes());
                let counted = client_bytes(&client.owner.ownerid) + sessions.sum::<usize>();
                prop_assert_eq!(s.budget.of_client(client.clientid), counted);
            }
        }
        let all: Vec<_> = s.clients().map(crate::Client::clientid).collect();
        all.into_iter().for_each(|client| s.drop_client(client));
        prop_assert_eq!(s.memory().used, 0);
    }
}

/// Sessions shrink on every slot that asks, and what they give back is theirs no more: a table
/// that is used by many has room for more of them.
#[test]
fn crowds_share_slots() {
    let limits = SessionLimits { memory_bytes: 4 << 20, ..SessionLimits::default() };
    let mut s: Sessions = sessions_with(limits);
    let mut all = Vec::new();
    for n in 0..40 {
        let args = exchange_id_args(&format!("{n}"), 1, 0);
        let asked = s.exchange_id(NOW, &args, &from_host(n, ROOT), u32::from(n), |_| true);
        let Ok(known) = asked else { break };
        let create = create_session_args(known.ok.clientid, known.ok.sequenceid);
        let Ok(made) = s.create_session(NOW, &create, (&ROOT, CONN), [n; 16], |_| false) else {
            break;
        };
        all.push((made.ok.sessionid, 0));
        for (session, used) in &mut all {
            for _ in 0..2 {
                *used += 1;
                let done = new_request(sequence(&mut s, &sequence_args(*session, 0, *used)));
                s.complete(&done, None);
            }
        }
        s.budget.check();
    }
    assert_eq!(all.len(), 40, "many clients, each with a few slots");
}
