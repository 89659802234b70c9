//! The session core's transitions, without sockets.

use weft_nfs::SlotId;

use super::*;

fn core(role: Role) -> Core {
    Core::new(CoreConfig {
        minorversion: 2,
        owner_id: Bytes::from_static(b"me"),
        verifier: Verifier([1; 8]),
        role,
        slots: 4,
        back_channel: role == Role::Mds,
    })
}

fn exchange_ok(id: u64) -> ExchangeIdOk {
    ExchangeIdOk {
        clientid: ClientId(id),
        sequenceid: SequenceId(7),
        flags: exchgid::USE_PNFS_MDS,
        state_protect: StateProtectOk::None,
        server_owner: ServerOwner { minor_id: 0, major_id: Opaque::default() },
        server_scope: Opaque::default(),
        server_impl_id: ImplIds(None),
    }
}

fn session_ok(n: u8, slots: u32) -> CreateSessionOk {
    let attrs = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1 << 20,
        maxresponsesize: 1 << 20,
        maxresponsesize_cached: 4096,
        maxoperations: 8,
        maxrequests: slots,
        rdma_ird: RdmaIrd(None),
    };
    CreateSessionOk {
        sessionid: SessionId([n; 16]),
        sequence: SequenceId(7),
        flags: 0,
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
    }
}

fn ready(role: Role, now: Instant) -> Core {
    let mut core = core(role);
    core.exchanged(&exchange_ok(9));
    core.created(&session_ok(1, 4), now).unwrap();
    core.reclaimed(Some(Duration::from_secs(90)));
    assert_eq!(core.step(), Step::Ready);
    core
}

fn sequence_ok(core: &Core, slot: &Slot, target: u32, flags: u32) -> SequenceOk {
    SequenceOk {
        sessionid: core.session_id().unwrap(),
        sequenceid: slot.sequence(),
        slotid: slot.id(),
        highest_slotid: SlotId(3),
        target_highest_slotid: SlotId(target),
        status_flags: flags,
    }
}

/// From nothing to ready: what is sent, in order; a data server needs no RECLAIM_COMPLETE.
#[test]
fn establishing_takes_these_steps() {
    let now = Instant::now();
    for role in [Role::Mds, Role::Ds] {
        let mut core = core(role);
        let Step::ExchangeId(args) = core.step() else { panic!() };
        let role_flag =
            if role == Role::Mds { exchgid::USE_PNFS_MDS } else { exchgid::USE_PNFS_DS };
        assert_eq!(args.flags, role_flag);
        core.exchanged(&exchange_ok(9));
        let Step::CreateSession(args) = core.step() else { panic!() };
        assert_eq!((args.clientid, args.sequence), (ClientId(9), SequenceId(7)));
        // A lost reply: the very same request again.
        assert_eq!(core.step(), Step::CreateSession(args));
        core.created(&session_ok(1, 4), now).unwrap();
        if role == Role::Mds {
            assert_eq!(core.step(), Step::ReclaimComplete);
            core.reclaimed(Some(Duration::from_secs(90)));
            assert_eq!(core.renew_at(), Some(now + Duration::from_secs(30)));
        }
        assert_eq!(core.step(), Step::Ready);
    }
}

/// What each refusal of a step leads to.
#[test]
fn refused_steps() {
    let now = Instant::now();
    let mut c = core(Role::Mds);
    let step = c.step();
    assert_eq!(c.step_failed(&step, NfsStat::DELAY), StepFailure::Later);
    let inuse = NfsStat::CLID_INUSE;
    assert_eq!(c.step_failed(&step, inuse), StepFailure::Fatal(inuse));
    c.exchanged(&exchange_ok(9));
    let step = c.step();
    assert_eq!(c.step_failed(&step, NfsStat::STALE_CLIENTID), StepFailure::Changed);
    assert!(matches!(c.step(), Step::ExchangeId(_)));
    assert_eq!(c.losses(), 1);

    let mut c = ready(Role::Mds, now);
    c.connection_lost();
    let step = c.step();
    assert!(matches!(step, Step::BindConnection(_)));
    assert_eq!(c.step_failed(&step, NfsStat::BADSESSION), StepFailure::Changed);
    assert!(matches!(c.step(), Step::CreateSession(a) if a.sequence == SequenceId(8)));
    c.created(&session_ok(2, 4), now).unwrap();
    assert_eq!(c.step(), Step::Ready, "reclaim is said once for each client record");
    assert_eq!(c.losses(), 0);

    let mut tiny = session_ok(1, 0);
    assert!(core(Role::Ds).created(&tiny, now).is_err());
    tiny.fore_chan_attrs.maxrequests = 1;
    tiny.fore_chan_attrs.maxrequestsize = 512;
    assert!(core(Role::Ds).created(&tiny, now).is_err());
}

/// What each failure of SEQUENCE means, and what happens to the session.
#[test]
fn failed_sequences() {
    use SequenceFailure::*;
    let table = [
        (NfsStat::DELAY, Later, true),
        (NfsStat::CONN_NOT_BOUND_TO_SESSION, Rebind, true),
        (NfsStat::RETRY_UNCACHED_REP, ReplyGone, true),
        (NfsStat::BADSESSION, NewSession, false),
        (NfsStat::DEADSESSION, NewSession, false),
        (NfsStat::STALE_CLIENTID, NewSession, false),
        (NfsStat::SEQ_MISORDERED, NewSession, false),
        (NfsStat::SEQ_FALSE_RETRY, NewSession, false),
        (NfsStat::BADSLOT, NewSession, false),
        (NfsStat::BAD_HIGH_SLOT, NewSession, false),
        (NfsStat::REQ_TOO_BIG, Refused, true),
    ];
    for (status, meaning, kept) in table {
        let mut c = ready(Role::Ds, Instant::now());
        let slot = c.acquire().unwrap();
        assert_eq!(c.sequence_failed(&slot, status), meaning, "{status}");
        assert_eq!(c.session_id().is_some(), kept, "{status}");
    }
}

/// A sequence id moves on exactly when the server has used it; slots run out and come back;
/// the server's wish for fewer slots is kept.
#[test]
fn slots() {
    let now = Instant::now();
    let mut c = ready(Role::Ds, now);
    let slot = c.acquire().unwrap();
    assert_eq!((slot.id(), slot.sequence()), (SlotId(0), SequenceId(1)));
    c.release(&slot, false);
    let slot = c.acquire().unwrap();
    assert_eq!(slot.sequence(), SequenceId(1));
    c.release(&slot, true);
    let all: Vec<Slot> = std::iter::from_fn(|| c.acquire()).collect();
    assert_eq!(all.len(), 4);
    assert_eq!(all[0].sequence(), SequenceId(2));
    assert_eq!(c.sequence(&all[0], false).unwrap().highest_slotid, SlotId(3));
    let ok = sequence_ok(&c, &all[0], 1, 0);
    assert!(c.sequenced(&all[0], &ok, now));
    all.into_iter().for_each(|s| c.release(&s, true));
    let held: Vec<Slot> = std::iter::from_fn(|| c.acquire()).collect();
    assert_eq!(held.len(), 2, "slots 0 and 1");
    let other = SequenceOk { slotid: SlotId(1), ..sequence_ok(&c, &held[0], 3, 0) };
    assert!(!c.sequenced(&held[0], &other, now), "another slot's reply");
}

/// A slot in doubt takes its session with it: the old one is destroyed, a new one made, and
/// slots of the old one mean nothing any more.
#[test]
fn a_poisoned_slot_replaces_the_session() {
    let now = Instant::now();
    let mut c = ready(Role::Ds, now);
    let (doubtful, other) = (c.acquire().unwrap(), c.acquire().unwrap());
    c.poison(&doubtful);
    assert_eq!(c.step(), Step::DestroySession(SessionId([1; 16])));
    assert!(c.acquire().is_none());
    c.destroyed();
    assert!(matches!(c.step(), Step::CreateSession(_)));
    c.created(&session_ok(2, 4), now).unwrap();
    assert!(c.sequence(&other, false).is_none());
    c.release(&other, true);
    assert_eq!(c.acquire().unwrap().sequence(), SequenceId(1));
}

/// A back channel said to be down is bound again, but not over and over.
#[test]
fn a_broken_back_channel_is_bound_again() {
    let now = Instant::now();
    let mut c = ready(Role::Mds, now);
    let slot = c.acquire().unwrap();
    let down = sequence_ok(&c, &slot, 3, seq4_status::CB_PATH_DOWN_SESSION);
    assert!(c.sequenced(&slot, &down, now));
    assert!(matches!(c.step(), Step::BindConnection(_)));
    c.bound(now);
    assert!(c.sequenced(&slot, &down, now + Duration::from_secs(1)));
    assert_eq!(c.step(), Step::Ready);
    assert!(c.sequenced(&slot, &down, now + REBIND_PAUSE + Duration::from_secs(1)));
    assert!(matches!(c.step(), Step::BindConnection(_)));
}

/// Waits double to the longest one, and add up to the patience given.
#[test]
fn backoff_ends() {
    let patience = Duration::from_secs(5);
    let mut backoff = Backoff::new(patience);
    let waits: Vec<Duration> = std::iter::from_fn(|| backoff.next_wait()).collect();
    assert_eq!(waits.iter().sum::<Duration>(), patience);
    assert!(waits.windows(2).rev().skip(1).all(|w| w[1] >= w[0]), "{waits:?}");
    assert!(waits.iter().all(|w| *w <= limits::DELAY_MAX));
}

/// Payload sizes are powers of two that leave room for the envelope: both sides of the limit.
#[test]
fn payloads_fit_messages() {
    let with = |size: u32| {
        let mut c = core(Role::Ds);
        c.exchanged(&exchange_ok(9));
        let mut ok = session_ok(1, 4);
        ok.fore_chan_attrs.maxrequestsize = size;
        c.created(&ok, Instant::now()).unwrap();
        c.io_bytes_max().1
    };
    let whole = (1 << 20) + limits::DATA_ENVELOPE_BYTES;
    assert_eq!((with(whole), with(whole - 1)), (1 << 20, 512 << 10));
    assert_eq!((with(16 << 20), with(9000)), (1 << 20, 4096));
    assert_eq!(core(Role::Ds).io_bytes_max(), (1 << 20, 1 << 20));
}

/// What was granted is relied on for seven eighths of a lease after the last answer, not while the
/// server says that something is revoked; each revocation is told once, and what was granted before
/// it is told apart from what comes after.
#[test]
fn how_far_the_server_is_relied_on() {
    let now = Instant::now();
    let mut c = ready(Role::Mds, now);
    let first = Standing { losses: 0, revocations: 0 };
    let lease = Duration::from_secs(90);
    assert_eq!(c.standing(now + lease / 8 * 7 - Duration::from_secs(1)), Some(first));
    assert_eq!(c.standing(now + lease / 8 * 7), None);
    let slot = c.acquire().unwrap();
    let told = |c: &mut Core, flags| {
        let ok = sequence_ok(c, &slot, 3, flags);
        assert!(c.sequenced(&slot, &ok, now + lease));
        (c.standing(now + lease).map(|standing| standing.revocations), c.take_revocation())
    };
    assert_eq!(told(&mut c, 0), (Some(0), false));
    for flag in [
        seq4_status::EXPIRED_ALL_STATE_REVOKED,
        seq4_status::EXPIRED_SOME_STATE_REVOKED,
        seq4_status::ADMIN_STATE_REVOKED,
        seq4_status::RECALLABLE_STATE_REVOKED,
    ] {
        let before = c.revocations();
        assert_eq!(told(&mut c, flag), (None, true));
        assert_eq!(told(&mut c, flag), (None, false), "it is the same");
        assert_eq!(told(&mut c, 0), (Some(before + 1), false));
    }
    assert_eq!(told(&mut c, seq4_status::CB_PATH_DOWN).0, Some(4), "it says so before it revokes");
}
