//! Peers that mean harm, or are broken: whatever they send, the server lives, the others are
//! served, and memory stays bounded.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use weft_dev::SeededRng;
use weft_nfs::{
    AttrNo, FileHandle, NFS_PROGRAM, NFS_V4, NfsStat, OpArgs, OpNum, SessionId, Stateid, ops::*,
};
use weft_server::rpc::ServerLimits;
use weft_xdr::{
    Encode, Writer,
    record::{self, LAST_FRAGMENT},
    rpc::{self, CallHeader, OpaqueAuth, Reply as RpcReply},
};

use crate::support::*;

/// Resident memory of this process, bytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Garbage on the socket ends that connection, and no other.
#[tokio::test]
async fn garbage() {
    let cluster = Cluster::start().await;
    let mut good = Client::mount(&cluster, "good").await;
    let mut random = SeededRng::new(1);
    for n in 0..200 {
        let mut wire = Wire::connect(cluster.address()).await;
        let len = 1 + random.index(300);
        let bytes = random.bytes(len);
        if n % 2 == 0 {
            wire.raw(&bytes).await;
        } else {
            wire.record(&bytes).await;
        }
    }
    let mut wire = Wire::connect(cluster.address()).await;
    wire.record(&[0xff; 40]).await;
    wire.closed().await;
    good.renew().await;
}

/// A record announced beyond the limit, or made of empty fragments, ends its connection before
/// anything is reserved for it.
#[tokio::test]
async fn oversized_records() {
    let cluster = Cluster::start().await;
    let mut good = Client::mount(&cluster, "good").await;
    let too_long = 5u32 << 20;
    for header in [u32::MAX, LAST_FRAGMENT | too_long, too_long, 0] {
        let mut wire = Wire::connect(cluster.address()).await;
        wire.raw(&header.to_be_bytes()).await;
        wire.closed().await;
    }
    // The sum of the fragments counts, too.
    let mut wire = Wire::connect(cluster.address()).await;
    for _ in 0..5 {
        wire.raw(&(1u32 << 20).to_be_bytes()).await;
        wire.raw(&vec![0; 1 << 20]).await;
    }
    wire.closed().await;
    good.renew().await;
}

/// A request that drips in byte by byte, and in fragments of one byte, is answered all the same.
#[tokio::test]
async fn drips() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut w = Writer::new();
    rpc::call(&mut w, 77, &nfs_call(&user(0, 0)));
    w.raw(&compound_args("", 2, &[sequence(c.sessionid, 1, 1, false)]));
    let call = w.into_bytes();
    let mut wire = Wire::connect(cluster.address()).await;
    for byte in [&record::header(call.len())[..], &call].concat() {
        wire.raw(&[byte]).await;
    }
    wire.nfs_reply(77).await.ok();
    let (last, rest) = call.split_last().unwrap();
    for byte in rest {
        wire.raw(&[0, 0, 0, 1, *byte]).await;
    }
    wire.raw(&[0x80, 0, 0, 1, *last]).await;
    // The same request again: its replay, under the same transaction id.
    wire.nfs_reply(77).await.ok();
    c.renew().await;
}

/// A valid COMPOUND cut off at every byte is refused, one way or the other, and the session goes
/// on.
#[tokio::test]
async fn truncated_at_every_byte() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let credential = c.credential.clone();
    let make = |c: &mut Client| {
        let ops = c.compound().cachethis().putrootfh().open_create("f").getfh();
        compound_args("tag", 2, &ops.getattr(&[AttrNo::SIZE]).into_ops())
    };
    let whole = make(&mut c);
    let sequence_end = 4 + 4 + 8 + 4 + 32;
    let mut refused = 0;
    for cut in 0..whole.len() {
        let args = if cut < sequence_end { whole.clone() } else { make(&mut c) };
        let xid = c.wire.send_compound(&credential, &args[..cut]).await;
        match c.wire.reply(xid).await {
            (RpcReply::GarbageArgs, _) => assert!(cut < 16, "{cut}"),
            (RpcReply::Success, body) => {
                assert_eq!(Reply::new(body).status(), NfsStat::BADXDR, "{cut}");
                refused += 1;
            }
            other => panic!("{cut}: {other:?}"),
        }
        if cut == sequence_end - 1 {
            c.sequence[0] -= 1;
        }
    }
    assert_eq!(refused, whole.len() - 16);
    c.renew().await;
}

/// Counts that promise more than there is: no allocation follows them.
#[tokio::test]
async fn huge_counts() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let credential = c.credential.clone();
    let before = resident();
    for count in [100_000u32, u32::MAX] {
        let first = [
            (sequence(c.sessionid, 3, 1, false), NfsStat::TOO_MANY_OPS),
            (OpArgs::Putrootfh, NfsStat::OP_NOT_IN_SESSION),
            (OpArgs::ExchangeId(exchange_id(&c.options)), NfsStat::NOT_ONLY_OP),
        ];
        for (op, status) in first {
            let mut args = compound_args("", 2, &[op]).to_vec();
            args[8..12].copy_from_slice(&count.to_be_bytes());
            let xid = c.wire.send_compound(&credential, &args).await;
            let reply = c.wire.nfs_reply(xid).await.is(status);
            assert_eq!(reply.len(), 1);
        }
    }
    // Lists, bitmaps, names and attribute lists of four thousand million items.
    let lists: [(OpNum, &[u32]); 6] = [
        (OpNum::TEST_STATEID, &[u32::MAX]),
        (OpNum::GETATTR, &[u32::MAX]),
        (OpNum::LOOKUP, &[u32::MAX]),
        (OpNum::PUTFH, &[u32::MAX]),
        (OpNum::VERIFY, &[1, 1, u32::MAX]),
        (OpNum::VERIFY, &[u32::MAX]),
    ];
    for (op, words) in lists {
        let ops = c.compound().putrootfh().op(OpArgs::Unread(op)).into_ops();
        let mut args = compound_args("", 2, &ops).to_vec();
        words.iter().for_each(|w| args.extend_from_slice(&w.to_be_bytes()));
        let xid = c.wire.send_compound(&credential, &args).await;
        let reply = c.wire.nfs_reply(xid).await.is(NfsStat::BADXDR);
        assert_eq!(reply.last().op, op);
    }
    assert!(resident() < before + (256 << 20));
}

/// Replies to callbacks that were never made are ignored; broken ones end the connection.
#[tokio::test]
async fn replies_never_asked_for() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    for xid in [0, 1, 2, u32::MAX] {
        let mut w = Writer::new();
        rpc::reply(&mut w, xid, &RpcReply::Success);
        NfsStat::OK.encode(&mut w);
        let reply = w.into_bytes();
        c.wire.record(&reply).await;
    }
    c.renew().await;
    c.wire.record(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9]).await;
    c.wire.closed().await;
    c.wire = Wire::connect(cluster.address()).await;
    c.renew().await;
}

/// Thousands of connections that come and go leave nothing behind.
#[tokio::test]
async fn connections_come_and_go() {
    let cluster = Cluster::start().await;
    let mut good = Client::mount(&cluster, "good").await;
    let call = {
        let mut w = Writer::new();
        rpc::call(&mut w, 1, &CallHeader { procedure: 0, ..nfs_call(&OpaqueAuth::NONE) });
        w.into_bytes()
    };
    for round in 0..40 {
        let mut open = Vec::new();
        for n in 0..100 {
            let mut stream = TcpStream::connect(cluster.address()).await.unwrap();
            match n % 3 {
                0 => {}
                1 => stream.write_all(&[0x80, 0, 0]).await.unwrap(),
                _ => {
                    stream.write_all(&record::header(call.len())).await.unwrap();
                    stream.write_all(&call).await.unwrap();
                }
            }
            open.push(stream);
        }
        drop(open);
        if round % 10 == 0 {
            good.renew().await;
        }
    }
    eventually("end of the connections", || cluster.connections() == 1).await;
    good.renew().await;
}

/// One host has its share of connections: what is beyond it is closed, other hosts are served, and
/// what ends makes room.
#[tokio::test]
async fn connections_of_one_host() {
    let server = ServerLimits { connections_per_host_max: 5, ..ServerLimits::default() };
    let cluster = Cluster::with(Options { server, ..Options::default() }).await;
    let mut good = Client::mount(&cluster, "good").await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(Wire::connect(cluster.address()).await);
    }
    Wire::connect(cluster.address()).await.closed().await;
    let mut other = Wire::connect_from([127, 0, 0, 2], cluster.address()).await;
    let call = exchange_id(&ClientOptions::new("other"));
    let ops = [OpArgs::ExchangeId(call)];
    other.compound(&user(0, 0), 2, &ops).await.ok();
    good.renew().await;
    held.pop();
    eventually("end of a connection", || cluster.connections() == 5).await;
    let mut again = Wire::connect(cluster.address()).await;
    again.compound(&user(0, 0), 2, &ops).await.ok();
}

/// Large records that are announced and do not come take no memory and, beyond a limit, no room
/// from others: those of another host are received at once, those of the same host when what
/// dawdles has been closed.
#[tokio::test]
async fn half_sent_records() {
    const RECORD: u32 = 4 << 20;
    let server = ServerLimits {
        unfinished_bytes_max: 800 << 20,
        unfinished_bytes_per_host_max: 400 << 20,
        unfinished_patience: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let cluster = Cluster::with(Options { data_servers: 1, server, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "good").await;
    let (fh, open) = c.file("f").await;
    let before = resident();
    let mut dawdling = Vec::new();
    // As many as fit, and one whose room another needs.
    for _ in 0..100 {
        let mut wire = Wire::connect_from([127, 0, 0, 9], cluster.address()).await;
        wire.raw(&(LAST_FRAGMENT | RECORD).to_be_bytes()).await;
        wire.raw(&[0; 20_000]).await;
        dawdling.push(wire);
    }
    let data = vec![7; 512 << 10];
    c.compound().putfh(&fh).op(write(open, 0, &data)).expect(NfsStat::OK).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{} MiB for records of 20 KB", grown >> 20);
    let mut same = Wire::connect_from([127, 0, 0, 9], cluster.address()).await;
    let garbage = vec![0xff; 1 << 20];
    same.record(&garbage).await;
    // Received whole, and then found to be garbage.
    same.closed().await;
    // Whose time was over first depends on the threads that serve them.
    let mut given_up: JoinSet<()> =
        dawdling.into_iter().map(|mut wire| async move { wire.closed().await }).collect();
    given_up.join_next().await.expect("one of them").expect("it was closed");
    c.renew().await;
}

/// A client that asks and asks and never reads: it stalls itself, nobody else, and what waits
/// for it is bounded.
#[tokio::test]
async fn a_client_that_never_reads() {
    const READ_BYTES: u32 = 1 << 19;
    let cluster = Cluster::striped(1).await;
    let mut good = Client::mount(&cluster, "good").await;
    let (fh, stateid) = good.file("f").await;
    let data = vec![7; READ_BYTES as usize];
    good.compound().putfh(&fh).op(write(stateid, 0, &data)).send().await.ok();
    let mut sessions = Vec::new();
    for n in 0..8 {
        sessions.push(Client::mount(&cluster, &format!("greedy{n}")).await);
    }
    let before = resident();
    let mut stream = TcpStream::connect(cluster.address()).await.unwrap();
    let sent = ask_until_stalled(&mut stream, &sessions, |head| {
        // The long tag fills the socket's buffers sooner.
        let ops = [head, putfh(&fh), read(Stateid::ANONYMOUS, 0, READ_BYTES)];
        compound_args(&"t".repeat(1000), 2, &ops)
    });
    let sent = sent.await;
    assert!(sent > 100, "{sent} requests were taken");
    for _ in 0..50 {
        good.renew().await;
    }
    let grown = resident().saturating_sub(before);
    // 8 MiB of replies, and what the sockets and the other tests of the process hold.
    assert!(grown < 96 << 20, "{} MiB after {sent} requests", grown >> 20);
    // It is served when it reads at last.
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.unwrap();
    assert_ne!(u32::from_be_bytes(head) & LAST_FRAGMENT, 0);
}

/// Many connections that take no reply: together they have the share of their host, whoever else
/// comes from it waits until they are closed for that, and other hosts are served meanwhile.
#[tokio::test]
async fn unread_replies_are_shared() {
    const READ_BYTES: u32 = 1 << 19;
    const CONNECTIONS: usize = 24;
    let server = ServerLimits {
        reply_bytes_max: 32 << 20,
        reply_bytes_per_host_max: 8 << 20,
        reply_patience: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let cluster = Cluster::with(Options { data_servers: 1, server, ..Options::default() }).await;
    let mut good = Client::mount(&cluster, "good").await;
    let (fh, stateid) = good.file("f").await;
    let data = vec![7; READ_BYTES as usize];
    good.compound().putfh(&fh).op(write(stateid, 0, &data)).send().await.ok();
    let from = [127, 0, 0, 9];
    let options = ClientOptions { from, ..ClientOptions::new("neighbour") };
    let mut neighbour = Client::with(cluster.address(), options).await;
    let before = resident();
    let mut greedy = Vec::new();
    for n in 0..CONNECTIONS {
        let options = ClientOptions { from, ..ClientOptions::new(&format!("greedy{n}")) };
        let c = Client::with(cluster.address(), options).await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut stream = socket.connect(cluster.address()).await.unwrap();
        let mut calls = Vec::new();
        for slot in 1..40 {
            let mut w = Writer::new();
            rpc::call(&mut w, slot, &nfs_call(&user(0, 0)));
            let head = sequence(c.sessionid, slot, 1, false);
            let ops = [head, putfh(&fh), read(Stateid::ANONYMOUS, 0, READ_BYTES)];
            w.raw(&compound_args("", 2, &ops));
            let call = w.into_bytes();
            calls.extend_from_slice(&record::header(call.len()));
            calls.extend_from_slice(&call);
        }
        stream.write_all(&calls).await.unwrap();
        greedy.push((c, stream));
    }
    let look = || read(Stateid::ANONYMOUS, 0, READ_BYTES);
    for _ in 0..5 {
        good.compound().putfh(&fh).op(look()).expect(NfsStat::OK).await;
    }
    let waiting = neighbour.compound().putfh(&fh).op(look()).begin().await;
    let early = neighbour.wire.reply_within(waiting, Duration::from_millis(500)).await;
    assert!(early.is_none(), "its host has its share");
    let grown = resident().saturating_sub(before);
    assert!(grown < 96 << 20, "{} MiB for {CONNECTIONS} connections", grown >> 20);
    // Small ones take no room; and those that take nothing are closed for the one that waits.
    neighbour.wire.nfs_reply(waiting).await.ok();
    neighbour.renew().await;
}

/// Sends requests on all slots of these sessions, over and over, until none is taken any more;
/// how many were.
async fn ask_until_stalled(
    stream: &mut TcpStream,
    sessions: &[Client],
    args: impl Fn(OpArgs) -> Bytes,
) -> u32 {
    const ENOUGH: u32 = 100_000;
    let mut sent = 0;
    for seq in 1.. {
        for (c, slot) in sessions.iter().flat_map(|c| (1..64).map(move |slot| (c, slot))) {
            let mut w = Writer::new();
            rpc::call(&mut w, sent, &nfs_call(&user(0, 0)));
            w.raw(&args(sequence(c.sessionid, slot, seq, false)));
            let call = w.into_bytes();
            let record = [&record::header(call.len())[..], &call].concat();
            let patience = Duration::from_millis(500);
            match tokio::time::timeout(patience, stream.write_all(&record)).await {
                Ok(done) => done.unwrap(),
                Err(_) => return sent,
            }
            sent += 1;
            assert!(sent < ENOUGH, "it is never stalled");
        }
    }
    sent
}

/// Programs, versions and procedures that are not here, and another RPC version.
#[tokio::test]
async fn not_nfs() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let nfs = nfs_call(&OpaqueAuth::NONE);
    let cases = [
        (CallHeader { program: 100_005, ..nfs.clone() }, RpcReply::ProgUnavail),
        (CallHeader { version: 3, ..nfs.clone() }, RpcReply::ProgMismatch(NFS_V4, NFS_V4)),
        (CallHeader { procedure: 2, ..nfs.clone() }, RpcReply::ProcUnavail),
        (CallHeader { procedure: 0, ..nfs.clone() }, RpcReply::Success),
        (nfs.clone(), RpcReply::GarbageArgs),
    ];
    for (header, expected) in cases {
        let what = format!("{header:?}");
        let xid = wire.call(&header, &[]).await;
        assert_eq!(wire.reply(xid).await.0, expected, "{what}");
    }
    assert_eq!(NFS_PROGRAM, 100_003);
    let mut w = Writer::new();
    for word in [4242, 0, 3, NFS_PROGRAM, NFS_V4, 0, 0, 0, 0, 0] {
        w.u32(word);
    }
    let call = w.into_bytes();
    wire.record(&call).await;
    assert_eq!(wire.reply(4242).await.0, RpcReply::RpcMismatch);
}

/// Another client's stateids are worth nothing, in any operation that takes one.
#[tokio::test]
async fn stateids_of_others() {
    let cluster = Cluster::striped(1).await;
    let mut victim = Client::mount(&cluster, "victim").await;
    let mut thief = Client::mount(&cluster, "thief").await;
    let (fh, open) = victim.file("f").await;
    let lock = lock_new(open, "lo", weft_nfs::LockType::Write, 0, 10);
    let lock = victim.compound().putfh(&fh).op(OpArgs::Lock(lock)).send().await.ok().stateid();
    let get = OpArgs::Layoutget(layoutget(open, weft_nfs::IoMode::RW));
    let layout = victim.compound().putfh(&fh).op(get).send().await.ok().stateid();
    for stolen in [open, lock, layout] {
        let ops = [
            read(stolen, 0, 1),
            write(stolen, 0, b"x"),
            setattr(stolen, size(3)),
            close(stolen),
            downgrade(stolen, 1, 0),
            locku(stolen, 0, 10),
            OpArgs::FreeStateid(FreeStateidArgs { stateid: stolen }),
            OpArgs::Layoutget(layoutget(stolen, weft_nfs::IoMode::RW)),
            OpArgs::Layoutreturn(layoutreturn(stolen, weft_nfs::IoMode::ANY)),
        ];
        for op in ops {
            let what = format!("{op:?}");
            let reply = thief.compound().putfh(&fh).op(op).send().await;
            assert_eq!(reply.status(), NfsStat::BAD_STATEID, "{what}");
        }
    }
    victim.compound().putfh(&fh).op(locku(lock, 0, 10)).expect(NfsStat::OK).await;
    victim.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
}

/// Stateids made up from a real one: every bit flipped once leads to a refusal.
#[tokio::test]
async fn forged_stateids() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    for bit in 0..96 {
        let mut forged = open;
        forged.other[bit / 8] ^= 1 << (bit % 8);
        c.compound().putfh(&fh).op(read(forged, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    }
}

/// Requests that random changes turn into something else, against a server that others use.
/// Seeded: the same in every run.
#[tokio::test]
async fn mutated_requests() {
    const ROUNDS: usize = 6000;
    let cluster = Cluster::striped(1).await;
    let mut good = Client::mount(&cluster, "good").await;
    let mut bad = Client::mount(&cluster, "bad").await;
    let (fh, stateid) = bad.file("f").await;
    let requests = valid_requests(&mut bad, &fh, stateid).await;
    let credential = bad.credential.clone();
    let before = resident();
    let mut random = SeededRng::new(0x5eed);
    let (mut answered, mut deep) = (0, 0);
    for round in 0..ROUNDS {
        let ops = requests[random.index(requests.len())].clone();
        let slot = 1 + random.index(60) as u32;
        let mut all = vec![bad.next_sequence(slot, random.index(2) == 0)];
        all.extend(ops);
        let mut args = compound_args("", 2, &all).to_vec();
        // Mostly behind the SEQUENCE, so that the operations themselves are reached.
        let from = if random.index(8) == 0 { 12 } else { 52 };
        mutate(&mut args, from, &mut random);
        let xid = bad.wire.send_compound(&credential, &args).await;
        match bad.wire.reply_or_end(xid).await {
            Some((_, body)) => {
                answered += 1;
                // Status, tag, count, SEQUENCE with its result, and something of another.
                deep += usize::from(body.len() > 12 + 44);
            }
            None => bad.wire = Wire::connect(cluster.address()).await,
        }
        if round % 500 == 0 {
            good.renew().await;
            bad = again(bad, &cluster).await;
        }
    }
    assert_eq!(answered, ROUNDS, "a COMPOUND is always answered");
    assert!(deep > ROUNDS / 2, "{deep} of {ROUNDS} got past SEQUENCE");
    good.compound().putrootfh().open_create("still here").expect(NfsStat::OK).await;
    assert!(resident() < before + (512 << 20));
}

/// A new session of the same client, since its slots are out of step by now.
async fn again(old: Client, cluster: &Cluster) -> Client {
    let verifier = old.options.verifier + 1;
    Client::with(cluster.address(), ClientOptions { verifier, ..old.options }).await
}

/// Changes a few words, bytes or lengths of a request from some byte on.
fn mutate(args: &mut Vec<u8>, from: usize, random: &mut SeededRng) {
    const INTERESTING: [u32; 8] = [0, 1, 2, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
    for _ in 0..1 + random.index(4) {
        let at = from + random.index(args.len() - from);
        let word = at & !3;
        match random.index(4) {
            0 => args[at] ^= 1 << random.index(8),
            1 => args[at] = random.draw() as u8,
            2 if word + 4 <= args.len() => {
                let value = INTERESTING[random.index(INTERESTING.len())];
                args[word..word + 4].copy_from_slice(&value.to_be_bytes());
            }
            _ if args.len() > 60 => args.truncate(at.max(60)),
            _ => args.push(0),
        }
    }
}

/// One of nearly every operation, after a PUTFH of the root or a file.
async fn valid_requests(c: &mut Client, fh: &FileHandle, s: Stateid) -> Vec<Vec<OpArgs>> {
    let everything = weft_nfs::Attrs::KNOWN.without(&weft_nfs::Bitmap::of(&[
        AttrNo::TIME_ACCESS_SET,
        AttrNo::TIME_MODIFY_SET,
        AttrNo::MODE_UMASK,
    ]));
    let lock = lock_new(s, "lo", weft_nfs::LockType::Write, 0, 10);
    let verify = VerifyArgs { attrs: Box::new(mode(0o644)) };
    let on_file = [
        OpArgs::Getattr(GetattrArgs { request: everything }),
        setattr(s, weft_nfs::Attrs { size: Some(5), ..mode(0o640) }),
        OpArgs::Open(open("o", OpenClaim::Fh)),
        OpArgs::Lock(lock),
        lockt("lo", weft_nfs::LockType::Read, 0, 1),
        locku(s, 0, 10),
        read(s, 0, 100),
        write(s, 0, &[7; 100]),
        OpArgs::Commit(CommitArgs { offset: 0, count: 0 }),
        OpArgs::Layoutget(layoutget(s, weft_nfs::IoMode::RW)),
        OpArgs::Layoutreturn(layoutreturn(s, weft_nfs::IoMode::ANY)),
        OpArgs::Layoutcommit(layoutcommit(s, Some(3))),
        OpArgs::Verify(verify),
        OpArgs::TestStateid(TestStateidArgs { stateids: vec![s; 3] }),
        OpArgs::FreeStateid(FreeStateidArgs { stateid: s }),
        downgrade(s, 1, 0),
        access(0x3f),
    ];
    let in_root = [
        OpArgs::Open(open_create("o", "new")),
        mkdir("dir"),
        symlink("link", "target"),
        remove("dir"),
        rename("new", "newer"),
        link("linked"),
        lookup("f"),
        OpArgs::Readdir(readdir(0, 4096, &[AttrNo::TYPE, AttrNo::SIZE])),
        OpArgs::Secinfo(SecinfoArgs { name: "f".into() }),
        OpArgs::ExchangeId(exchange_id(&ClientOptions::new("fuzz"))),
        OpArgs::CreateSession(create_session(c.clientid, weft_nfs::SequenceId(1), &c.options)),
        OpArgs::DestroySession(DestroySessionArgs { sessionid: SessionId([1; 16]) }),
        OpArgs::BackchannelCtl(BackchannelCtlArgs {
            cb_program: 7,
            sec_parms: CallbackSecs(vec![CallbackSec::None]),
        }),
        OpArgs::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: weft_nfs::DeviceId([0; 16]),
            layout_type: weft_nfs::LayoutType::NFSV4_1_FILES,
            maxcount: 4096,
            notify_types: weft_nfs::Bitmap::EMPTY,
        }),
    ];
    let file = on_file.into_iter().map(|op| vec![putfh(fh), op, OpArgs::Getfh]);
    let root = in_root.into_iter().map(|op| vec![OpArgs::Putrootfh, OpArgs::Savefh, op]);
    let all: Vec<_> = file.chain(root).collect();
    // They are what they claim to be: each is decoded as a whole.
    for ops in &all {
        let reply = c.compound();
        let reply = ops.iter().cloned().fold(reply, |r, op| r.op(op)).send().await;
        assert_ne!(reply.status(), NfsStat::BADXDR, "{ops:?}");
    }
    all
}

/// Random bytes as the arguments of every operation there is.
#[tokio::test]
async fn random_arguments() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let credential = c.credential.clone();
    let mut random = SeededRng::new(77);
    for op in OpNum::ALL.iter().chain(&[OpNum(0), OpNum(999)]) {
        for _ in 0..20 {
            let ops = c.compound().putrootfh().op(OpArgs::Unread(*op)).into_ops();
            let mut args = compound_args("", 2, &ops).to_vec();
            let len = random.index(200);
            args.extend(random.bytes(len));
            let xid = c.wire.send_compound(&credential, &args).await;
            let (reply, body) = c.wire.reply(xid).await;
            assert_eq!(reply, RpcReply::Success);
            drop::<Bytes>(body);
        }
    }
    c.renew().await;
}
