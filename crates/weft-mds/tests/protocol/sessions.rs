//! Clients, sessions and slots: RFC 8881 §2.10, §18.33-§18.37, §18.46, §18.50, §18.51.

use std::time::Duration;

use weft_nfs::{
    ClientId, NfsStat, OpArgs, OpOk, SequenceId, SessionId, create_session_flags, exchgid, ops::*,
    seq4_status,
};
use weft_server::rpc::{NOBODY, ServerLimits};
use weft_state::SessionLimits;
use weft_xdr::rpc::{self, CallHeader, OpaqueAuth};

use crate::support::*;

/// The same request again.
async fn again(c: &mut Client, ops: &[OpArgs]) -> Reply {
    c.bare(ops).await
}

/// A retry over a new connection gets the same bytes, and is not executed again: a second MKDIR
/// would be EXIST.
#[tokio::test]
async fn replay_after_reconnect_is_byte_identical() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let ops = c.compound().cachethis().putrootfh().op(mkdir("d")).getfh().into_ops();
    let first = c.bare(&ops).await.ok();
    c.wire = Wire::connect(cluster.address()).await;
    let second = again(&mut c, &ops).await.ok();
    assert_eq!(first.raw, second.raw);
    c.compound().putrootfh().op(mkdir("d")).expect(NfsStat::EXIST).await;
}

/// A failed request is replayed with its failure, though what made it fail is gone meanwhile.
#[tokio::test]
async fn failures_are_replayed_too() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let ops = c.compound().cachethis().putrootfh().lookup("x").into_ops();
    let first = c.bare(&ops).await.is(NfsStat::NOENT);
    c.compound().slot(1).putrootfh().op(mkdir("x")).send().await.ok();
    assert_eq!(again(&mut c, &ops).await.raw, first.raw);
}

/// Two copies of a request sent at once are executed once: the second is a replay, or told to
/// come back.
#[tokio::test]
async fn copies_in_flight_are_executed_once() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let ops = c.compound().cachethis().putrootfh().op(mkdir("once")).into_ops();
    let args = compound_args("", 2, &ops);
    let credential = c.credential.clone();
    let first = c.wire.send_compound(&credential, &args).await;
    let second = c.wire.send_compound(&credential, &args).await;
    let first = c.wire.nfs_reply(first).await.ok();
    let second = c.wire.nfs_reply(second).await;
    assert!(second.raw == first.raw || second.status() == NfsStat::DELAY, "{second:?}");
    assert_eq!(again(&mut c, &ops).await.raw, first.raw);
}

/// A long reply that nobody asked to keep is gone; the slot goes on.
#[tokio::test]
async fn retry_of_an_uncached_reply() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let target = "t".repeat(2000);
    let make = c.compound().putrootfh().op(symlink("l", &target)).getfh();
    let fh = make.send().await.ok().fh();
    let ops = c.compound().putfh(&fh).op(OpArgs::Readlink).into_ops();
    c.bare(&ops).await.ok();
    let retried = again(&mut c, &ops).await.is(NfsStat::RETRY_UNCACHED_REP);
    assert_eq!(retried.len(), 1);
    c.renew().await;
}

/// Sequence ids that are neither the next nor the last are refused, and change nothing.
#[tokio::test]
async fn misordered_sequence_ids() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let at = c.sequence[0];
    for seq in [at + 2, at.wrapping_sub(1), at.wrapping_add(1 << 31)] {
        let ops = [sequence(c.sessionid, 0, seq, false)];
        c.bare(&ops).await.is(NfsStat::SEQ_MISORDERED);
    }
    let fresh = [sequence(c.sessionid, 5, 0, false)];
    c.bare(&fresh).await.is(NfsStat::SEQ_MISORDERED);
    c.renew().await;
}

/// Another request under the number of the last one is a false retry.
#[tokio::test]
async fn false_retry() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut ops = c.compound().cachethis().putrootfh().into_ops();
    c.bare(&ops).await.ok();
    ops.push(OpArgs::Getfh);
    again(&mut c, &ops).await.is(NfsStat::SEQ_FALSE_RETRY);
    // They differ far behind the head, after what may be a payload.
    let name = "n".repeat(3000);
    let ops = c.compound().cachethis().putrootfh().lookup(&name).getfh().into_ops();
    c.bare(&ops).await.is(NfsStat::NAMETOOLONG);
    again(&mut c, &ops).await.is(NfsStat::NAMETOOLONG);
    let mut other = ops;
    other.pop();
    other.push(OpArgs::Savefh);
    again(&mut c, &other).await.is(NfsStat::SEQ_FALSE_RETRY);
}

/// Slots and sessions that do not exist.
#[tokio::test]
async fn unknown_slots_and_sessions() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let slots = c.granted.maxrequests;
    assert_eq!(slots, 64);
    let id = c.sessionid;
    c.bare(&[sequence(id, slots, 1, false)]).await.is(NfsStat::BADSLOT);
    c.bare(&[sequence(id, u32::MAX, 1, false)]).await.is(NfsStat::BADSLOT);
    c.bare(&[sequence(id, slots - 1, 1, false)]).await.ok();
    let OpArgs::Sequence(mut s) = sequence(id, 3, 1, false) else { unreachable!() };
    s.highest_slotid = weft_nfs::SlotId(slots);
    c.bare(&[OpArgs::Sequence(s)]).await.is(NfsStat::BAD_HIGH_SLOT);
    let mut forged = id.0;
    forged[15] ^= 1;
    c.bare(&[sequence(SessionId(forged), 0, 1, false)]).await.is(NfsStat::BADSESSION);
}

/// SEQUENCE stands first, and only there.
#[tokio::test]
async fn sequence_position() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let id = c.sessionid;
    let again = sequence(id, 1, 1, false);
    let reply = c.compound().putrootfh().op(again).expect(NfsStat::SEQUENCE_POS).await;
    assert_eq!(reply.len(), 3);
    let ops = [OpArgs::Putrootfh, sequence(id, 0, 99, false)];
    c.bare(&ops).await.is(NfsStat::OP_NOT_IN_SESSION);
}

/// What establishes sessions stands alone, and everything else needs one.
#[tokio::test]
async fn operations_that_stand_alone() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let exchange = OpArgs::ExchangeId(exchange_id(&ClientOptions::new("b")));
    let create = create_session(c.clientid, SequenceId(0), &c.options);
    let bind =
        BindConnToSessionArgs { sessionid: c.sessionid, dir: 1, use_conn_in_rdma_mode: false };
    let alone = [
        exchange.clone(),
        OpArgs::CreateSession(create),
        OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid }),
        OpArgs::DestroyClientid(DestroyClientidArgs { clientid: c.clientid }),
        OpArgs::BindConnToSession(bind.clone()),
    ];
    for op in alone {
        let reply = c.bare(&[op, OpArgs::Putrootfh]).await.is(NfsStat::NOT_ONLY_OP);
        assert_eq!(reply.len(), 1);
    }
    c.compound().op(OpArgs::BindConnToSession(bind)).expect(NfsStat::NOT_ONLY_OP).await;
    c.compound().op(exchange).expect(NfsStat::OK).await;
    for op in [OpArgs::Putrootfh, OpArgs::Getfh, reclaim_complete(), lookup("x")] {
        c.bare(&[op]).await.is(NfsStat::OP_NOT_IN_SESSION);
    }
}

/// More operations than negotiated are refused by SEQUENCE; exactly as many are fine.
#[tokio::test]
async fn too_many_operations() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let most = c.granted.maxoperations as usize;
    let mut ops = vec![sequence(c.sessionid, 1, 1, false)];
    ops.resize(most + 1, OpArgs::Putrootfh);
    c.bare(&ops).await.is(NfsStat::TOO_MANY_OPS);
    ops.pop();
    assert_eq!(c.bare(&ops).await.ok().len(), most);
}

/// Requests beyond the negotiated size, at the limit exactly.
#[tokio::test]
async fn request_too_big() {
    let cluster = Cluster::start().await;
    let mut options = ClientOptions::new("a");
    options.fore.maxrequestsize = 512;
    let mut c = Client::with(cluster.address(), options).await;
    // RPC header with the test's credential, tag, minor version, count, SEQUENCE, PUTROOTFH.
    let head = 24 + 8 + c.credential.body.len() + 8 + 12 + 36 + 4;
    let fits = "n".repeat(512 - head - 8);
    c.compound().putrootfh().lookup(&fits).expect(NfsStat::NAMETOOLONG).await;
    let over = format!("{fits}nnnn");
    let ops = c.compound().putrootfh().lookup(&over).into_ops();
    c.bare(&ops).await.is(NfsStat::REQ_TOO_BIG);
}

/// Replies beyond the negotiated size: the limit counts the RPC header (RFC 8881 §18.36.3).
#[tokio::test]
async fn reply_too_big() {
    /// xid, type, accepted, empty verifier, success.
    const RPC_HEADER_BYTES: u32 = 24;
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let make = c.compound().putrootfh().op(symlink("l", &"t".repeat(1000))).getfh();
    let fh = make.send().await.ok().fh();
    let reply = c.compound().putfh(&fh).op(OpArgs::Readlink).send().await.ok();
    let exact = u32::try_from(reply.raw.len()).unwrap() + RPC_HEADER_BYTES;
    for (room, status) in [(exact, NfsStat::OK), (exact - 4, NfsStat::REP_TOO_BIG)] {
        let mut options = ClientOptions::new(&format!("small {room}"));
        options.fore.maxresponsesize = room;
        let mut small = Client::with(cluster.address(), options).await;
        assert_eq!(small.granted.maxresponsesize, room);
        small.compound().putfh(&fh).op(OpArgs::Readlink).expect(status).await;
        small.renew().await;
    }
    let cases = [(exact, NfsStat::OK), (exact - 4, NfsStat::REP_TOO_BIG_TO_CACHE)];
    for (room, status) in cases {
        let mut options = ClientOptions::new(&format!("small to cache {room}"));
        options.fore.maxresponsesize_cached = room;
        let mut small = Client::with(cluster.address(), options).await;
        let ask = small.compound().cachethis().putfh(&fh).op(OpArgs::Readlink);
        ask.expect(status).await;
        small.compound().putfh(&fh).op(OpArgs::Readlink).expect(NfsStat::OK).await;
    }
}

/// A change that might not fit the reply is refused before it is made; where not even the result
/// of SEQUENCE can be kept, SEQUENCE itself is (RFC 8881 §2.10.6.4), and its slot stays as it was.
#[tokio::test]
async fn nothing_is_changed_without_room_for_the_reply() {
    let cluster = Cluster::start().await;
    for cached in [0, 79] {
        let mut options = ClientOptions::new(&format!("cached {cached}"));
        options.fore.maxresponsesize_cached = cached;
        let mut c = Client::with(cluster.address(), options).await;
        let seq = c.sequence[0] + 1;
        let asked = c.bare(&[sequence(c.sessionid, 0, seq, true)]).await;
        assert_eq!(asked.is(NfsStat::REP_TOO_BIG_TO_CACHE).len(), 1);
        c.bare(&[sequence(c.sessionid, 0, seq, false)]).await.ok();
    }
    for cached in [80, 100, 180] {
        let mut options = ClientOptions::new(&format!("cached {cached}"));
        options.fore.maxresponsesize_cached = cached;
        let mut c = Client::with(cluster.address(), options).await;
        let make = c.compound().cachethis().putrootfh().op(mkdir("d"));
        make.expect(NfsStat::REP_TOO_BIG_TO_CACHE).await;
        c.compound().cachethis().expect(NfsStat::OK).await;
        c.compound().putrootfh().lookup("d").expect(NfsStat::NOENT).await;
    }
    let mut options = ClientOptions::new("short");
    options.fore.maxresponsesize = 180;
    let mut c = Client::with(cluster.address(), options).await;
    c.compound().putrootfh().op(mkdir("d")).expect(NfsStat::REP_TOO_BIG).await;
    c.compound().putrootfh().lookup("d").expect(NfsStat::NOENT).await;
}

/// A full table of clients: those that never confirmed give way, the confirmed stay.
#[tokio::test]
async fn floods_of_clients() {
    let limits = SessionLimits { clients_max: 16, ..SessionLimits::default() };
    let cluster = Cluster::with(Options { limits, ..Options::default() }).await;
    let mut first = Client::mount(&cluster, "first").await;
    let mut wire = Wire::connect(cluster.address()).await;
    for n in 0..100 {
        let options = ClientOptions::new(&format!("flood {n}"));
        exchange(&mut wire, &user(0, 0), &options).await;
    }
    first.renew().await;
    let mut others = Vec::new();
    for n in 0..7 {
        others.push(Client::mount(&cluster, &format!("confirmed {n}")).await);
    }
    let late = exchange_id(&ClientOptions::new("late"));
    assert_eq!(exchange_status(&mut wire, &user(0, 0), late).await, NfsStat::DELAY);
    for c in &mut others {
        c.renew().await;
    }
}

/// A host has its share of the table: beyond it, its clients wait, and those of others do not.
#[tokio::test]
async fn floods_of_clients_of_one_host() {
    let limits = SessionLimits { clients_per_host_max: 4, ..SessionLimits::default() };
    let cluster = Cluster::with(Options { limits, ..Options::default() }).await;
    let mut greedy = Vec::new();
    for n in 0..4 {
        greedy.push(Client::mount(&cluster, &format!("greedy {n}")).await);
    }
    let late = exchange_id(&ClientOptions::new("late"));
    let mut wire = Wire::connect(cluster.address()).await;
    let refused = exchange_status(&mut wire, &user(0, 0), late.clone()).await;
    assert_eq!(refused, NfsStat::DELAY);
    let mut elsewhere = Wire::connect_from([127, 0, 0, 2], cluster.address()).await;
    assert_eq!(exchange_status(&mut elsewhere, &user(0, 0), late).await, NfsStat::OK);
    for c in &mut greedy {
        c.renew().await;
    }
}

/// A client's sessions are counted.
#[tokio::test]
async fn too_many_sessions() {
    let limits = SessionLimits { sessions_per_client_max: 3, ..SessionLimits::default() };
    let cluster = Cluster::with(Options { limits, ..Options::default() }).await;
    let mut wire = Wire::connect(cluster.address()).await;
    let options = ClientOptions::new("a");
    let known = exchange(&mut wire, &user(0, 0), &options).await;
    let mut create = create_session(known.clientid, known.sequenceid, &options);
    for n in 0..4 {
        let reply = wire.compound(&user(0, 0), 2, &[OpArgs::CreateSession(create.clone())]).await;
        assert_eq!(reply.status(), if n < 3 { NfsStat::OK } else { NfsStat::NOSPC });
        create.sequence = create.sequence.next();
    }
}

/// Minor versions other than 1 and 2: no operation is looked at.
#[tokio::test]
async fn other_minor_versions() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    for minor in [0, 3, u32::MAX] {
        let reply = wire.compound(&user(0, 0), minor, &[OpArgs::Putrootfh]).await;
        let reply = reply.is(NfsStat::MINOR_VERS_MISMATCH);
        assert_eq!(reply.len(), 0);
    }
}

/// The tag comes back; one that is no UTF-8 is INVAL, one that is too long cannot be decoded.
#[tokio::test]
async fn tags() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let xid = wire.send_compound(&user(0, 0), &compound_args("häppchen", 2, &[])).await;
    let reply = wire.nfs_reply(xid).await.ok();
    assert_eq!(reply.compound.tag.0, "häppchen".as_bytes());
    let mut bad = compound_args("abcd", 2, &[]).to_vec();
    bad[4] = 0xff;
    let xid = wire.send_compound(&user(0, 0), &bad).await;
    wire.nfs_reply(xid).await.is(NfsStat::INVAL);
    let long = compound_args(&"x".repeat(1025), 2, &[]);
    let xid = wire.send_compound(&user(0, 0), &long).await;
    assert_eq!(wire.reply(xid).await.0, rpc::Reply::GarbageArgs);
}

async fn exchange_status(wire: &mut Wire, credential: &OpaqueAuth, a: ExchangeIdArgs) -> NfsStat {
    wire.compound(credential, 2, &[OpArgs::ExchangeId(a)]).await.status()
}

/// Arguments of EXCHANGE_ID that are refused, and what the answer says of the server.
#[tokio::test]
async fn exchange_id_arguments() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let options = ClientOptions::new("a");
    let root = user(0, 0);
    let mut a = exchange_id(&options);
    a.flags = exchgid::CONFIRMED_R;
    assert_eq!(exchange_status(&mut wire, &root, a).await, NfsStat::INVAL);
    let mut a = exchange_id(&options);
    a.state_protect = StateProtectArgs::Ssv;
    assert_eq!(exchange_status(&mut wire, &root, a).await, NfsStat::ENCR_ALG_UNSUPP);
    let ok = exchange(&mut wire, &root, &options).await;
    assert_eq!(ok.flags & exchgid::MASK_PNFS, exchgid::USE_PNFS_MDS);
    assert_eq!(ok.flags & exchgid::CONFIRMED_R, 0);
}

/// The cases of §18.35.4 that a confirmed record decides.
#[tokio::test]
async fn exchange_id_on_a_confirmed_record() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut wire = Wire::connect(cluster.address()).await;
    let (root, other) = (user(0, 0), user(1000, 1000));
    let again = exchange(&mut wire, &root, &c.options).await;
    assert_eq!(again.clientid, c.clientid);
    assert_ne!(again.flags & exchgid::CONFIRMED_R, 0);
    let update = |verifier| {
        let options = ClientOptions { verifier, ..c.options.clone() };
        let flags = exchgid::UPD_CONFIRMED_REC_A;
        ExchangeIdArgs { flags, ..exchange_id(&options) }
    };
    assert_eq!(exchange_status(&mut wire, &root, update(1)).await, NfsStat::OK);
    assert_eq!(exchange_status(&mut wire, &root, update(2)).await, NfsStat::NOT_SAME);
    assert_eq!(exchange_status(&mut wire, &other, update(1)).await, NfsStat::PERM);
    let mut unknown = update(1);
    unknown.clientowner.ownerid = weft_nfs::Opaque(bytes::Bytes::from_static(b"nobody"));
    assert_eq!(exchange_status(&mut wire, &root, unknown).await, NfsStat::NOENT);
    // Another principal wants the owner, whose client holds an open.
    c.file("f").await;
    let collision = exchange_id(&c.options);
    assert_eq!(exchange_status(&mut wire, &other, collision).await, NfsStat::CLID_INUSE);
    c.renew().await;
}

/// A client that restarted: its old session works until the new incarnation is confirmed.
#[tokio::test]
async fn client_restart_ends_the_old_incarnation() {
    let cluster = Cluster::start().await;
    let mut old = Client::mount(&cluster, "a").await;
    let (fh, _) = old.file("f").await;
    let options = ClientOptions { verifier: 2, ..old.options.clone() };
    let mut wire = Wire::connect(cluster.address()).await;
    let ok = exchange(&mut wire, &user(0, 0), &options).await;
    assert_ne!(ok.clientid, old.clientid);
    old.renew().await;
    let mut new = Client::with(cluster.address(), options).await;
    let id = old.sessionid;
    old.bare(&[sequence(id, 1, 1, false)]).await.is(NfsStat::BADSESSION);
    // Its opens are gone: nothing stands in the way of a denying one.
    let deny = OpenArgs { share_deny: 3, ..open("o", OpenClaim::Fh) };
    new.compound().putfh(&fh).open(deny).expect(NfsStat::OK).await;
}

/// CREATE_SESSION: its own replay protection, and its refusals.
#[tokio::test]
async fn create_session_outcomes() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let (root, options) = (user(0, 0), ClientOptions::new("a"));
    let known = exchange(&mut wire, &root, &options).await;
    let good = create_session(known.clientid, known.sequenceid, &options);
    let unknown = CreateSessionArgs { clientid: ClientId(1), ..good.clone() };
    let misordered =
        CreateSessionArgs { sequence: SequenceId(!known.sequenceid.0), ..good.clone() };
    let flags = CreateSessionArgs { flags: 8, ..good.clone() };
    let mut small = good.clone();
    small.fore_chan_attrs.maxrequestsize = 16;
    let mut empty = good.clone();
    empty.fore_chan_attrs.maxrequests = 0;
    let refused = [
        (unknown, NfsStat::STALE_CLIENTID),
        (misordered, NfsStat::SEQ_MISORDERED),
        (flags, NfsStat::INVAL),
        (small, NfsStat::TOOSMALL),
        (empty, NfsStat::INVAL),
    ];
    for (args, status) in refused {
        let what = format!("{args:?}");
        let reply = wire.compound(&root, 2, &[OpArgs::CreateSession(args)]).await;
        assert_eq!(reply.status(), status, "{what}");
    }
    let ops = [OpArgs::CreateSession(good.clone())];
    wire.compound(&user(7, 7), 2, &ops).await.is(NfsStat::CLID_INUSE);
    let first = wire.compound(&root, 2, &ops).await.ok();
    let second = wire.compound(&root, 2, &ops).await.ok();
    assert_eq!(first.raw, second.raw);
    let next = CreateSessionArgs { sequence: good.sequence.next(), ..good };
    let third = wire.compound(&root, 2, &[OpArgs::CreateSession(next)]).await.ok();
    assert_ne!(first.raw, third.raw);
}

/// What the server grants is never more than asked, and persistence is not granted.
#[tokio::test]
async fn create_session_grants() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let options = ClientOptions::new("a");
    let known = exchange(&mut wire, &user(0, 0), &options).await;
    let mut args = create_session(known.clientid, known.sequenceid, &options);
    args.flags |= create_session_flags::PERSIST;
    args.fore_chan_attrs = channel(u32::MAX, u32::MAX);
    args.fore_chan_attrs.maxoperations = u32::MAX;
    let ops = [OpArgs::CreateSession(args.clone())];
    let reply = wire.compound(&user(0, 0), 2, &ops).await.ok();
    let Ok(OpOk::CreateSession(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(ok.flags, create_session_flags::CONN_BACK_CHAN);
    assert_eq!(ok.fore_chan_attrs.maxrequests, 64);
    assert_eq!(ok.fore_chan_attrs.maxoperations, 64);
    assert!(ok.fore_chan_attrs.maxrequestsize >= 1 << 20);
    assert_eq!(ok.back_chan_attrs.maxrequestsize, args.back_chan_attrs.maxrequestsize);
}

fn bind(sessionid: SessionId, dir: u32) -> OpArgs {
    OpArgs::BindConnToSession(BindConnToSessionArgs {
        sessionid,
        dir,
        use_conn_in_rdma_mode: false,
    })
}

/// BIND_CONN_TO_SESSION: which directions are granted, and which refused.
#[tokio::test]
async fn bind_conn_to_session() {
    let cluster = Cluster::start().await;
    let c = Client::mount(&cluster, "a").await;
    let mut wire = Wire::connect(cluster.address()).await;
    for (asked, granted) in [(1, 1), (2, 2), (3, 3), (7, 3)] {
        let reply = wire.compound(&user(0, 0), 2, &[bind(c.sessionid, asked)]).await.ok();
        let Ok(OpOk::BindConnToSession(ok)) = &reply.last().result else { panic!("{reply:?}") };
        assert_eq!(ok.dir, granted, "asked {asked}");
        assert!(!ok.use_conn_in_rdma_mode);
    }
    wire.compound(&user(0, 0), 2, &[bind(c.sessionid, 4)]).await.is(NfsStat::INVAL);
    let unknown = SessionId([9; 16]);
    wire.compound(&user(0, 0), 2, &[bind(unknown, 1)]).await.is(NfsStat::BADSESSION);
}

/// The flags of SEQUENCE tell of a lost back channel until another connection is bound.
#[tokio::test]
async fn lost_back_channel_is_told() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    assert_eq!(c.renew().await.sequence().status_flags, 0);
    let open = cluster.connections();
    c.wire = Wire::connect(cluster.address()).await;
    eventually("end of the first connection", || cluster.connections() == open).await;
    let down = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    let mut flags = 0;
    for _ in 0..1000 {
        flags = c.renew().await.sequence().status_flags;
        if flags != 0 {
            break;
        }
    }
    assert_eq!(flags, down);
    let id = c.sessionid;
    c.bare(&[bind(id, 3)]).await.ok();
    assert_eq!(c.renew().await.sequence().status_flags, 0);
}

/// DESTROY_SESSION: over a bound connection, and as the last operation of its own COMPOUND.
#[tokio::test]
async fn destroy_session() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid });
    let mut stranger = Wire::connect(cluster.address()).await;
    let reply = stranger.compound(&user(0, 0), 2, std::slice::from_ref(&destroy)).await;
    reply.is(NfsStat::CONN_NOT_BOUND_TO_SESSION);
    let early = c.compound().op(destroy.clone()).putrootfh();
    early.expect(NfsStat::NOT_ONLY_OP).await;
    c.compound().op(destroy.clone()).expect(NfsStat::OK).await;
    let id = c.sessionid;
    c.bare(&[sequence(id, 0, 99, false)]).await.is(NfsStat::BADSESSION);
    c.bare(&[destroy]).await.is(NfsStat::BADSESSION);
}

/// DESTROY_CLIENTID: not while there are sessions.
#[tokio::test]
async fn destroy_clientid() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let destroy = [OpArgs::DestroyClientid(DestroyClientidArgs { clientid: c.clientid })];
    c.bare(&destroy).await.is(NfsStat::CLIENTID_BUSY);
    let session = OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid });
    c.bare(&[session]).await.ok();
    c.bare(&destroy).await.ok();
    c.bare(&destroy).await.is(NfsStat::STALE_CLIENTID);
}

/// DESTROY_CLIENTID while the client holds opens, but no session any more.
#[tokio::test]
async fn destroy_clientid_with_state() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.file("f").await;
    let session = OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid });
    c.bare(&[session]).await.ok();
    let destroy = OpArgs::DestroyClientid(DestroyClientidArgs { clientid: c.clientid });
    c.bare(&[destroy]).await.is(NfsStat::CLIENTID_BUSY);
}

/// RECLAIM_COMPLETE comes first, and once.
#[tokio::test]
async fn reclaim_complete_comes_first() {
    let cluster = Cluster::start().await;
    let options = ClientOptions { reclaim_complete: false, ..ClientOptions::new("a") };
    let mut c = Client::with(cluster.address(), options).await;
    c.compound().putrootfh().open_create("f").expect(NfsStat::GRACE).await;
    let one_fs = || OpArgs::ReclaimComplete(ReclaimCompleteArgs { one_fs: true });
    c.compound().op(one_fs()).expect(NfsStat::NOFILEHANDLE).await;
    c.compound().putrootfh().op(one_fs()).expect(NfsStat::OK).await;
    c.compound().op(reclaim_complete()).expect(NfsStat::OK).await;
    c.compound().op(reclaim_complete()).expect(NfsStat::COMPLETE_ALREADY).await;
    c.compound().putrootfh().open_create("f").expect(NfsStat::OK).await;
}

/// A client that is silent for its lease is forgotten, with its opens, once they stand in
/// somebody's way; one that renews is not.
#[tokio::test]
async fn leases_expire() {
    let cluster = Cluster::with(Options { lease_s: 1, ..Options::default() }).await;
    let mut silent = Client::mount(&cluster, "silent").await;
    let mut other = Client::mount(&cluster, "other").await;
    let (fh, _) = silent.file("f").await;
    let deny = || OpenArgs { share_deny: 3, ..open("o", OpenClaim::Fh) };
    other.compound().putfh(&fh).open(deny()).expect(NfsStat::SHARE_DENIED).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while other.compound().putfh(&fh).open(deny()).send().await.status() != NfsStat::OK {
        assert!(std::time::Instant::now() < deadline, "the lease never ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let id = silent.sessionid;
    silent.bare(&[sequence(id, 1, 1, false)]).await.is(NfsStat::BADSESSION);
    other.renew().await;
}

/// BACKCHANNEL_CTL takes what it can use.
#[tokio::test]
async fn backchannel_ctl() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let with = |secs| {
        let sec_parms = CallbackSecs(secs);
        OpArgs::BackchannelCtl(BackchannelCtlArgs { cb_program: 0x4000_0002, sec_parms })
    };
    c.compound().op(with(vec![CallbackSec::None])).expect(NfsStat::OK).await;
    c.compound().op(with(vec![CallbackSec::Gss])).expect(NfsStat::NOENT).await;
}

/// Flavors: AUTH_NONE is nobody, AUTH_SYS must be well-formed, others are too weak.
#[tokio::test]
async fn flavors() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    c.public_dir("d").await;
    let ops = c.compound().putrootfh().lookup("d").open_create("f").into_ops();
    c.wire.compound(&OpaqueAuth::NONE, 2, &ops).await.ok();
    let look = c.compound().putrootfh().lookup("d").lookup("f");
    let attrs = look.getattr(&[weft_nfs::AttrNo::OWNER]).send().await.ok().attrs();
    assert_eq!(attrs.owner, Some(weft_nfs::attr::numeric_owner(NOBODY)));
    let body = bytes::Bytes::from_static(b"nonsense");
    let refused = [(rpc::AuthFlavor::SYS, 1), (rpc::AuthFlavor::GSS, 5), (rpc::AuthFlavor(99), 5)];
    for (flavor, stat) in refused {
        let bad = OpaqueAuth { flavor, body: body.clone() };
        let xid = c.wire.send_compound(&bad, &compound_args("", 2, &[])).await;
        assert_eq!(c.wire.reply(xid).await.0, rpc::Reply::AuthError(stat));
    }
}

/// Operations that are not built are NOTSUPP, those of 4.0 that 4.1 abolished too; numbers that
/// do not exist in the minor version are OP_ILLEGAL.
#[tokio::test]
async fn unknown_operations() {
    use weft_nfs::OpNum;
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let unread = |op| OpArgs::Unread(op);
    let not_built = [
        OpNum::DELEGPURGE,
        OpNum::OPENATTR,
        OpNum::OPEN_CONFIRM,
        OpNum::RENEW,
        OpNum::SETCLIENTID,
        OpNum::SETCLIENTID_CONFIRM,
        OpNum::RELEASE_LOCKOWNER,
        OpNum::GETDEVICELIST,
        OpNum::SET_SSV,
        OpNum::WANT_DELEGATION,
        OpNum::COPY_NOTIFY,
        OpNum::READ_PLUS,
        OpNum::WRITE_SAME,
    ];
    for op in not_built {
        let reply = c.compound().putrootfh().op(unread(op)).expect(NfsStat::NOTSUPP).await;
        assert_eq!(reply.last().op, op);
    }
    for op in [OpNum(0), OpNum(1), OpNum(2), OpNum(76), OpNum::ILLEGAL, OpNum(u32::MAX)] {
        let reply = c.compound().op(unread(op)).expect(NfsStat::OP_ILLEGAL).await;
        assert_eq!(reply.last().op, OpNum::ILLEGAL);
    }
    let options = ClientOptions { minor: 1, ..ClientOptions::new("41") };
    let mut old = Client::with(cluster.address(), options).await;
    let seek = old.compound().putrootfh().op(unread(OpNum::SEEK));
    seek.expect(NfsStat::OP_ILLEGAL).await;
}

/// Bytes behind the last operation: it is malformed and not executed; the session goes on.
#[tokio::test]
async fn trailing_bytes_are_refused() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    for extra in [1, 4, 1000] {
        let ops = c.compound().putrootfh().op(mkdir("d")).into_ops();
        let mut args = compound_args("", 2, &ops).to_vec();
        args.resize(args.len() + extra, 0);
        let credential = c.credential.clone();
        let xid = c.wire.send_compound(&credential, &args).await;
        let reply = c.wire.nfs_reply(xid).await.is(NfsStat::BADXDR);
        assert_eq!((reply.len(), reply.last().op), (3, weft_nfs::OpNum::CREATE));
    }
    c.compound().putrootfh().lookup("d").expect(NfsStat::NOENT).await;
    let mut nothing = compound_args("", 2, &[]).to_vec();
    nothing.push(0);
    let credential = c.credential.clone();
    let xid = c.wire.send_compound(&credential, &nothing).await;
    assert_eq!(c.wire.reply(xid).await.0, rpc::Reply::GarbageArgs);
    c.renew().await;
}

/// A connection to which no session is bound ends after a while, whatever is asked on it; one
/// with a session stays, however silent, until the session goes.
#[tokio::test]
async fn connections_without_a_session_end() {
    let idle = Duration::from_secs(1);
    let server = ServerLimits { idle, ..ServerLimits::default() };
    let cluster = Cluster::with(Options { server, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    for _ in 0..2 {
        let mut stranger = Wire::connect(cluster.address()).await;
        let null = CallHeader { procedure: 0, ..nfs_call(&OpaqueAuth::NONE) };
        loop {
            let xid = stranger.call(&null, &[]).await;
            if stranger.reply_or_end(xid).await.is_none() {
                break;
            }
            tokio::time::sleep(idle / 20).await;
        }
    }
    c.renew().await;
    let id = c.sessionid;
    c.bare(&[OpArgs::DestroySession(DestroySessionArgs { sessionid: id })]).await.ok();
    c.wire.closed().await;
}

/// Arguments that cannot be decoded end the COMPOUND with BADXDR under the operation's number.
#[tokio::test]
async fn bad_xdr_names_its_operation() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let ops = c.compound().putrootfh().lookup("abc").into_ops();
    let mut args = compound_args("", 2, &ops).to_vec();
    args.truncate(args.len() - 4);
    let credential = c.credential.clone();
    let xid = c.wire.send_compound(&credential, &args).await;
    let reply = c.wire.nfs_reply(xid).await.is(NfsStat::BADXDR);
    assert_eq!((reply.len(), reply.last().op), (3, weft_nfs::OpNum::LOOKUP));
    c.renew().await;
}
