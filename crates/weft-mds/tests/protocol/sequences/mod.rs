//! Sequences of operations that no sane client sends, by several clients at once, against a
//! metadata server and its data servers: everything is answered or ends the connection, nothing
//! panics, memory stays bounded, and a well-behaved client is served all the while.
//!
//! Seeded. `WEFT_FUZZ_SEED` chooses the seed, `WEFT_FUZZ_RUNS` how many seeds from there on are
//! tried, each with a cluster of its own.

mod generate;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, Once,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use weft_dev::{SeededRng, env};
use weft_nfs::{AttrNo, ClientId, FileHandle, NfsStat, OpArgs, OpOk, SessionId, ops::CreateType};
use weft_xdr::rpc::{OpaqueAuth, Reply as RpcReply};

use self::generate::{Generator, Known};
use crate::{hostile::resident, support::*};

/// Requests of each peer in one run.
const ROUNDS: usize = 3000;
/// Peers of the metadata server; each data server has one, too.
const PEERS: usize = 6;
const DATA_SERVERS: u32 = 2;
/// Slots of the peers' sessions.
const SLOTS: u32 = 8;
/// What everything together may add to the memory of the process.
const GROWTH_BYTES_MAX: u64 = 512 << 20;

/// Panics in threads of servers; those of tests are counted by the test harness.
static SERVER_PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of threads that are no test's: their names have no path of a test in them.
fn count_server_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if !thread.name().is_some_and(|name| name.contains("::") || name == "main") {
                SERVER_PANICS.fetch_add(1, Relaxed);
            }
            before(info);
        }));
    });
}

/// A session as one peer uses it: the last sequence id of each slot.
struct Session {
    id: SessionId,
    last: [u32; SLOTS as usize],
}

/// One that means harm.
struct Peer {
    name: String,
    address: SocketAddr,
    credential: OpaqueAuth,
    wire: Wire,
    sessions: Vec<Session>,
    /// Sessions made so far.
    made: u64,
    known: Arc<Mutex<Known>>,
    random: SeededRng,
    at_data_server: bool,
    answers_callbacks: bool,
    /// Operations after SEQUENCE that went well.
    done: usize,
}

impl Peer {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// A new client with a session, in place of an older one of the same name perhaps.
    async fn establish(&mut self) {
        for _ in 0..20 {
            self.made += 1;
            let owner = format!("{}-{}", self.name, self.random.index(3));
            let options = ClientOptions {
                verifier: self.made,
                fore: channel(SLOTS, 1 << 20),
                ..ClientOptions::new(&owner)
            };
            let known = exchange(&mut self.wire, &self.credential, &options).await;
            let create = create_session(known.clientid, known.sequenceid, &options);
            let ops = [OpArgs::CreateSession(create)];
            let reply = self.wire.compound(&self.credential, 2, &ops).await;
            // Somebody may have destroyed the client meanwhile.
            let Some(Ok(OpOk::CreateSession(made))) =
                reply.compound.results.last().map(|r| &r.result)
            else {
                continue;
            };
            let mut session = Session { id: made.sessionid, last: [0; SLOTS as usize] };
            session.last[0] = 1;
            let complete = [sequence(session.id, 0, 1, false), reclaim_complete()];
            if self.send(&complete).await != Some(NfsStat::OK) {
                continue;
            }
            self.noted(known.clientid, session.id);
            self.sessions.push(session);
            return;
        }
        panic!("{} gets no session", self.name);
    }

    fn noted(&self, client: ClientId, session: SessionId) {
        let mut known = self.known();
        known.clients.insert(0, client);
        known.clients.truncate(16);
        known.sessions.insert(0, session);
        known.sessions.truncate(16);
    }

    async fn reconnect(&mut self) {
        self.wire = Wire::connect(self.address).await;
    }

    fn operations(&mut self, most: usize) -> Vec<OpArgs> {
        let known = self.known().clone();
        Generator::new(&known, &mut self.random, self.at_data_server).request(most)
    }

    /// One request, or one misdeed on the connection.
    async fn round(&mut self) {
        if self.sessions.is_empty() {
            self.establish().await;
        }
        match self.random.index(60) {
            0 => self.reconnect().await,
            1 => {
                let bytes = self.random.bytes(3);
                self.wire.raw(&[&[0x80, 0, 1][..], &bytes].concat()).await;
                self.reconnect().await;
            }
            2 | 3 => {
                let known = self.known().clone();
                let op = Generator::new(&known, &mut self.random, self.at_data_server).alone();
                self.send(&[op]).await;
            }
            4 if self.sessions.len() < 3 => self.establish().await,
            5 => {
                // Asked and not waited for.
                let mut ops = vec![self.next(true)];
                ops.extend(self.operations(6));
                let args = compound_args("", 2, &ops);
                self.wire.send_compound(&self.credential, &args).await;
                self.reconnect().await;
            }
            _ => {
                let ops = self.operations(12);
                let cachethis = self.random.index(3) == 0;
                self.compound(ops, cachethis).await;
            }
        }
        if self.answers_callbacks {
            for callback in self.wire.callbacks_here() {
                const ANSWERS: [NfsStat; 3] = [NfsStat::OK, NfsStat::DELAY, NfsStat::BADHANDLE];
                let status = ANSWERS[self.random.index(3)];
                self.wire.answer(&callback, status).await;
            }
        }
    }

    /// A SEQUENCE: mostly the right one.
    fn next(&mut self, cachethis: bool) -> OpArgs {
        let at = self.random.index(self.sessions.len());
        let session = &mut self.sessions[at];
        let slot = self.random.index(SLOTS as usize);
        let last = &mut session.last[slot];
        match self.random.index(40) {
            0 => sequence(session.id, slot as u32, *last, cachethis),
            1 => sequence(session.id, slot as u32, last.wrapping_add(2), cachethis),
            2 => sequence(session.id, slot as u32 + 1000, 1, cachethis),
            _ => {
                *last = last.wrapping_add(1);
                sequence(session.id, slot as u32, *last, cachethis)
            }
        }
    }

    async fn compound(&mut self, ops: Vec<OpArgs>, cachethis: bool) {
        let first = self.next(cachethis);
        let OpArgs::Sequence(s) = &first else { unreachable!("a SEQUENCE") };
        let session = s.sessionid;
        let mut all = vec![first];
        all.extend(ops);
        match self.send(&all).await {
            Some(NfsStat::BADSESSION | NfsStat::DEADSESSION) => {
                self.sessions.retain(|s| s.id != session);
            }
            // The slot may be out of step for good.
            Some(NfsStat::SEQ_MISORDERED | NfsStat::SEQ_FALSE_RETRY)
                if self.random.index(20) > 0 => {}
            Some(NfsStat::OK | NfsStat::BADSLOT) => {}
            _ => self.sessions.retain(|s| s.id != session),
        }
    }

    /// Sends a COMPOUND and learns from its reply; the status of its first operation, if it was
    /// answered.
    async fn send(&mut self, ops: &[OpArgs]) -> Option<NfsStat> {
        let args = compound_args("", 1 + u32::from(self.random.index(8) > 0), ops);
        let xid = self.wire.send_compound(&self.credential, &args).await;
        let Some((reply, body)) = self.wire.reply_or_end(xid).await else {
            panic!("{}: the connection ended on {ops:?}", self.name);
        };
        assert_eq!(reply, RpcReply::Success);
        let reply = Reply::new(body);
        let results = &reply.compound.results;
        self.done += results.iter().skip(1).filter(|r| r.result.is_ok()).count();
        let mut known = self.known.lock().unwrap();
        known.learn(results, &mut self.random);
        for (op, result) in ops.iter().zip(results) {
            if let (OpArgs::Putfh(a), NfsStat::STALE) = (op, result.status()) {
                known.forget(&a.object);
            }
        }
        results.first().map(|r| r.status())
    }
}

/// The client that everything is for: makes a file, writes, reads it back and removes it.
async fn works(good: &mut Client, dir: &FileHandle, n: usize) {
    let name = format!("file-{n}");
    let reply = good.compound().putfh(dir).open_create(&name).getfh().send().await.ok();
    let (fh, open) = (reply.fh(), reply.stateid());
    let data = name.repeat(100);
    good.compound().putfh(&fh).op(write(open, 0, data.as_bytes())).send().await.ok();
    let read = good.compound().putfh(&fh).op(read(open, 0, 4096)).send().await.ok();
    assert_eq!(read.data().0, data.as_bytes());
    good.compound().putfh(&fh).op(close(open)).send().await.ok();
    good.compound().putfh(dir).op(remove(&name)).send().await.ok();
}

async fn run(seed: u64) {
    let options = Options { data_servers: DATA_SERVERS, lease_s: 3, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut good = Client::mount(&cluster, "good").await;
    let make = create(CreateType::Directory, "private", mode(0o700));
    let dir = good.compound().putrootfh().op(make).getfh().send().await.ok().fh();
    let known = Known { handles: vec![good.public_dir("public").await], ..Known::default() };
    let known = Arc::new(Mutex::new(known));
    let before = resident();
    let mut tasks = Vec::new();
    for n in 0..PEERS + DATA_SERVERS as usize {
        let address = match n.checked_sub(PEERS) {
            Some(index) => cluster.data_server(index),
            None => cluster.address(),
        };
        let mut peer = Peer {
            name: format!("peer{n}"),
            address,
            credential: user(1000 + n as u32 / 4, 1000),
            wire: Wire::connect(address).await,
            sessions: Vec::new(),
            made: 0,
            known: known.clone(),
            random: SeededRng::new((seed << 8) + n as u64 + 1),
            at_data_server: n >= PEERS,
            answers_callbacks: n % 2 == 0,
            done: 0,
        };
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                peer.round().await;
            }
            peer.done
        }));
    }
    let mut n = 0;
    while tasks.iter().any(|t| !t.is_finished()) {
        works(&mut good, &dir, n).await;
        n += 1;
    }
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("every request is answered");
    }
    works(&mut Client::mount(&cluster, "another").await, &dir, n).await;
    good.compound().putrootfh().getattr(&[AttrNo::SIZE]).send().await.ok();
    assert_eq!(SERVER_PANICS.load(Relaxed), 0, "panics in a server");
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "{} MiB more", grown >> 20);
    assert!(done > ROUNDS, "only {done} operations did anything");
    println!(
        "seed {seed}: {done} operations done, {n} files by the good client, {grown} bytes more"
    );
}

/// See the module.
#[tokio::test]
async fn of_nasty_operations() {
    count_server_panics();
    let first = env("WEFT_FUZZ_SEED").unwrap_or(1);
    for seed in first..first + env("WEFT_FUZZ_RUNS").unwrap_or(1) {
        eprintln!("WEFT_FUZZ_SEED={seed}");
        run(seed).await;
    }
}
