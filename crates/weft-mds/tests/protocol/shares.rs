//! Four hosts take all that they are given and stay; a fifth is served at once.

use weft_nfs::{
    FileHandle, LockType, NfsStat, OpArgs, OpOk,
    ops::{CreateSessionOk, ExchangeIdOk, OpenClaim},
};
use weft_server::rpc::ServerLimits;
use weft_state::{SessionLimits, StateLimits};

use crate::support::*;

/// The hosts that were there first.
const HOSTS: std::ops::RangeInclusive<u8> = 1..=4;
/// State memory of the server: of it a quarter is for clients and sessions.
const MEMORY: usize = 16 << 20;
/// Client records of a server, and connections: a host may have a quarter.
const COUNT_MAX: usize = 64;
/// Opens in one COMPOUND.
const BATCH: usize = 24;

async fn cluster() -> Cluster {
    let limits = SessionLimits {
        clients_max: COUNT_MAX,
        clients_per_host_max: COUNT_MAX / 4,
        ..SessionLimits::of_memory(MEMORY)
    };
    let server = ServerLimits {
        connections_max: COUNT_MAX,
        connections_per_host_max: COUNT_MAX / 4,
        ..ServerLimits::default()
    };
    let state_limits = StateLimits::of_memory(MEMORY);
    Cluster::with(Options { limits, state_limits, server, ..Options::default() }).await
}

/// EXCHANGE_ID, unless it is told to come again.
async fn known(wire: &mut Wire, options: &ClientOptions) -> Option<ExchangeIdOk> {
    let ops = [OpArgs::ExchangeId(exchange_id(options))];
    let reply = wire.compound(&user(0, 0), options.minor, &ops).await;
    match &reply.last().result {
        Ok(OpOk::ExchangeId(ok)) => Some(ok.clone()),
        _ => {
            assert_eq!(reply.status(), NfsStat::DELAY);
            None
        }
    }
}

/// One more session of a client, unless there is no room.
async fn session(
    wire: &mut Wire,
    options: &ClientOptions,
    known: &ExchangeIdOk,
    last: Option<&CreateSessionOk>,
) -> Option<CreateSessionOk> {
    let number = last.map_or(known.sequenceid, |ok| ok.sequence.next());
    let ops = [OpArgs::CreateSession(create_session(known.clientid, number, options))];
    let reply = wire.compound(&user(0, 0), options.minor, &ops).await;
    match &reply.last().result {
        Ok(OpOk::CreateSession(ok)) => Some(ok.clone()),
        _ => {
            assert!([NfsStat::DELAY, NfsStat::NOSPC].contains(&reply.status()));
            None
        }
    }
}

/// Clients of a host come until one is refused, each with so many sessions: a session of each.
async fn crowd(cluster: &Cluster, host: u8, sessions: usize) -> (Wire, Vec<CreateSessionOk>) {
    let mut wire = Wire::connect_from([127, 0, 0, host], cluster.address()).await;
    let mut members = Vec::new();
    for n in 0.. {
        let options = ClientOptions::new(&format!("client {n} of host {host}"));
        let Some(known) = known(&mut wire, &options).await else { break };
        let mut last = None;
        for _ in 0..sessions {
            let Some(made) = session(&mut wire, &options, &known, last.as_ref()).await else {
                break;
            };
            last = Some(made);
        }
        let Some(made) = last else { break };
        members.push(made);
    }
    (wire, members)
}

/// Each member of a crowd renews its lease.
async fn stay((wire, members): &mut (Wire, Vec<CreateSessionOk>), seq: u32) {
    for member in members {
        let ops = [sequence(member.sessionid, 0, seq, false)];
        wire.compound(&user(0, 0), 2, &ops).await.ok();
    }
}

/// Connections of a host until one is closed, each with a request on it.
async fn connections(cluster: &Cluster, host: u8) -> Vec<Wire> {
    let mut open = Vec::new();
    while open.len() < COUNT_MAX / 4 {
        let mut wire = Wire::connect_from([127, 0, 0, host], cluster.address()).await;
        let args = compound_args("", 2, &[OpArgs::Putrootfh]);
        let xid = wire.send_compound(&user(0, 0), &args).await;
        if wire.reply_or_end(xid).await.is_none() {
            break;
        }
        open.push(wire);
    }
    open
}

/// A client opens a file with as many owners as it may.
async fn open_all_it_may(c: &mut Client, fh: &FileHandle) {
    let mut answered = NfsStat::OK;
    for first in (0..).step_by(BATCH) {
        if answered != NfsStat::OK {
            break;
        }
        let mut request = c.compound().putfh(fh);
        for n in first..first + BATCH {
            request = request.op(OpArgs::Open(open(&format!("{n:01024}"), OpenClaim::Fh)));
        }
        answered = request.send().await.status();
    }
    assert_eq!(answered, NfsStat::DELAY);
}

/// A host that was not there mounts, makes, opens, locks and reads a file.
async fn a_fifth_is_served(cluster: &Cluster) {
    let options = ClientOptions { from: [127, 0, 0, 5], ..ClientOptions::new("fifth") };
    let mut c = Client::with(cluster.address(), options).await;
    let (fh, open) = c.file("of the fifth").await;
    let lock = OpArgs::Lock(lock_new(open, "l", LockType::Write, 0, 9));
    let put = write(open, 0, b"bytes");
    c.compound().putfh(&fh).op(put).op(lock).send().await.ok();
    let got = c.compound().putfh(&fh).op(read(open, 0, 9)).send().await.ok();
    assert_eq!(got.data().0, "bytes");
}

#[tokio::test]
async fn connections_are_left_for_a_fifth_host() {
    let cluster = cluster().await;
    let mut all = Vec::new();
    for host in HOSTS {
        all.push(connections(&cluster, host).await);
    }
    a_fifth_is_served(&cluster).await;
}

/// Clients with so many sessions each come from each host until one is refused.
async fn crowds_leave_room(sessions: usize) {
    let cluster = cluster().await;
    let mut all = Vec::new();
    for host in HOSTS {
        all.push(crowd(&cluster, host, sessions).await);
    }
    for host in &mut all {
        stay(host, 1).await;
    }
    a_fifth_is_served(&cluster).await;
    for host in &mut all {
        stay(host, 2).await;
    }
}

#[tokio::test]
async fn client_records_are_left_for_a_fifth_host() {
    crowds_leave_room(1).await;
}

#[tokio::test]
async fn memory_for_sessions_is_left_for_a_fifth_host() {
    crowds_leave_room(16).await;
}

#[tokio::test]
async fn memory_for_opens_is_left_for_a_fifth_host() {
    let cluster = cluster().await;
    let (fh, _) = Client::mount(&cluster, "first").await.file("f").await;
    let mut all = Vec::new();
    for host in HOSTS {
        for n in 0..3 {
            let owner = format!("client {n} of host {host}");
            let options = ClientOptions { from: [127, 0, 0, host], ..ClientOptions::new(&owner) };
            let mut c = Client::with(cluster.address(), options).await;
            open_all_it_may(&mut c, &fh).await;
            all.push(c);
        }
    }
    for c in &mut all {
        c.renew().await;
    }
    a_fifth_is_served(&cluster).await;
    for c in &mut all {
        c.renew().await;
    }
}
