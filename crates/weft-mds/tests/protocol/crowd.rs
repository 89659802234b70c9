//! Many clients mount and work, and come back after the metadata server was killed: nobody is
//! refused anything. `./dev long clients` has ten thousand of them.

use std::{net::SocketAddr, time::Instant};

use tokio::task::JoinSet;
use weft_nfs::{
    ClientId, FileHandle, LockType, NfsStat, OpArgs, OpOk, SessionId, Stateid,
    ops::{LockArgs, OpenClaim},
};
use weft_state::{SessionLimits, StateLimits};

use crate::support::*;

/// Clients, unless `WEFT_CLIENTS` says otherwise.
const CLIENTS: usize = 500;
/// Hosts that they come from, each with one connection for all of its clients: this process would
/// need more descriptors than many systems give for two ends of one each.
const HOSTS: usize = 250;
/// What a machine with 24 GiB gives to state.
const MEMORY: usize = 1536 << 20;

/// A client with a file that it has open and locked.
struct Member {
    options: ClientOptions,
    clientid: ClientId,
    session: SessionId,
    sequence: u32,
    fh: FileHandle,
    open: Stateid,
}

/// The clients of a host.
struct Crew {
    host: usize,
    wire: Wire,
    members: Vec<Member>,
}

impl Member {
    /// EXCHANGE_ID and CREATE_SESSION.
    async fn mount(wire: &mut Wire, name: &str) -> Member {
        let options = ClientOptions::new(name);
        let known = exchange(wire, &user(0, 0), &options).await;
        let create = create_session(known.clientid, known.sequenceid, &options);
        let made = wire.compound(&user(0, 0), 2, &[OpArgs::CreateSession(create)]).await.ok();
        let Ok(OpOk::CreateSession(made)) = &made.last().result else { panic!("{made:?}") };
        Member {
            options,
            clientid: known.clientid,
            session: made.sessionid,
            sequence: 0,
            fh: FileHandle(bytes::Bytes::new()),
            open: Stateid::ANONYMOUS,
        }
    }

    /// A COMPOUND that must succeed.
    async fn ask(&mut self, wire: &mut Wire, ops: impl IntoIterator<Item = OpArgs>) -> Reply {
        self.sequence += 1;
        let first = sequence(self.session, 0, self.sequence, true);
        let ops: Vec<_> = std::iter::once(first).chain(ops).collect();
        let reply = wire.compound(&user(0, 0), self.options.minor, &ops).await;
        assert_eq!(reply.status(), NfsStat::OK, "{}: {:?}", self.options.owner, reply.last());
        reply
    }

    /// Makes its file, writes to it and locks it.
    async fn work(&mut self, wire: &mut Wire) {
        self.ask(wire, [reclaim_complete()]).await;
        let name = self.options.owner.clone();
        let make = OpArgs::Open(open_create("o", &name));
        let made = self.ask(wire, [OpArgs::Putrootfh, make, OpArgs::Getfh]).await;
        (self.fh, self.open) = (made.fh(), made.stateid());
        let lock = OpArgs::Lock(lock_new(self.open, "l", LockType::Write, 0, 9));
        self.ask(wire, [putfh(&self.fh), write(self.open, 0, name.as_bytes()), lock]).await;
    }

    /// Reclaims what it had.
    async fn reclaim(&mut self, wire: &mut Wire) {
        let open = OpArgs::Open(open("o", OpenClaim::Previous(0)));
        self.open = self.ask(wire, [putfh(&self.fh), open]).await.stateid();
        let lock = lock_new(self.open, "l", LockType::Write, 0, 9);
        let lock = OpArgs::Lock(LockArgs { reclaim: true, ..lock });
        self.ask(wire, [putfh(&self.fh), lock]).await;
        self.ask(wire, [reclaim_complete()]).await;
    }

    /// Reads what it wrote, and locks more.
    async fn go_on(&mut self, wire: &mut Wire) {
        let lock = OpArgs::Lock(lock_new(self.open, "m", LockType::Write, 20, 9));
        self.ask(wire, [putfh(&self.fh), lock]).await;
        let got = self.ask(wire, [putfh(&self.fh), read(self.open, 0, 99)]).await;
        assert_eq!(got.data().0, self.options.owner);
    }
}

impl Crew {
    async fn connect(host: usize, address: SocketAddr) -> Wire {
        Wire::connect_from([127, 1, (host / 250) as u8, 1 + (host % 250) as u8], address).await
    }

    async fn come(host: usize, count: usize, address: SocketAddr) -> Crew {
        let mut wire = Self::connect(host, address).await;
        let mut members = Vec::new();
        for n in 0..count {
            let mut member = Member::mount(&mut wire, &format!("client {n} of host {host}")).await;
            member.work(&mut wire).await;
            members.push(member);
        }
        Crew { host, wire, members }
    }

    async fn come_back(mut self, address: SocketAddr) -> Crew {
        self.wire = Self::connect(self.host, address).await;
        for before in &mut self.members {
            let member = Member::mount(&mut self.wire, &before.options.owner).await;
            assert_ne!(member.clientid, before.clientid);
            *before = Member { fh: before.fh.clone(), ..member };
            before.reclaim(&mut self.wire).await;
        }
        self
    }

    async fn go_on(mut self) -> Crew {
        for member in &mut self.members {
            member.go_on(&mut self.wire).await;
        }
        self
    }
}

/// Lets all hosts do something at once, and says how long it took them.
async fn all<F>(what: &str, doing: impl IntoIterator<Item = F>) -> Vec<Crew>
where
    F: Future<Output = Crew> + Send + 'static,
{
    let started = Instant::now();
    let done = doing.into_iter().collect::<JoinSet<_>>().join_all().await;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|t| t.parse::<u64>().unwrap()).sum();
    let processor_s = ticks as f64 / 100.0;
    println!("{what}: {:?}; {memory}; processor {processor_s} s so far", started.elapsed());
    done
}

/// The server has what it has on a machine with 24 GiB. Figures are of servers and clients
/// together, which are one process here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_come_back() {
    let clients = std::env::var("WEFT_CLIENTS").map_or(CLIENTS, |n| n.parse().unwrap());
    let mut cluster = Cluster::with(Options {
        on_disk: true,
        limits: SessionLimits::of_memory(MEMORY),
        state_limits: StateLimits::of_memory(MEMORY),
        ..Options::default()
    })
    .await;
    let address = cluster.address();
    let came = (0..HOSTS).map(|host| Crew::come(host, clients.div_ceil(HOSTS), address));
    let crews = all("mounted, made, written and locked a file", came).await;
    cluster.restart().await;
    let address = cluster.address();
    let back = crews.into_iter().map(|crew| crew.come_back(address));
    let crews = all("mounted again and reclaimed", back).await;
    all("read and locked more", crews.into_iter().map(Crew::go_on)).await;
}
