//! What two clients of the library see of each other's files, with everything that is cached:
//! whoever opens a file after another has closed it sees what that one wrote (close-to-open,
//! RFC 8881 §10.3.1), and each client always sees what it has written itself.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{Cluster, Options, open_export};
use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions},
    io::{FileIo, IoPolicy, Source},
};
use weft_mds::{Delegated, Export, SmallFiles};

/// Bytes that are written and read together.
const BLOCK: u64 = 1000;
/// Blocks of a file: up to behind the first stripe unit.
const BLOCKS: usize = 1060;
/// Where blocks are written: at the beginning, where a file leaves the metadata server, and where
/// the second stripe unit begins.
const PLACES: [(usize, usize); 3] = [(0, 8), (60, 70), (1040, BLOCKS)];

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn place(&mut self) -> usize {
        let (from, end) = PLACES[self.roll(PLACES.len())];
        from + self.roll(end - from)
    }
}

/// What a block was, and since when; nothing: it was behind the end of the file.
type History = Vec<(usize, Option<u8>)>;

/// A file as it should be.
struct Model {
    blocks: Vec<History>,
    now: usize,
    /// What was written by then has been made visible by a close or commit.
    published: usize,
    /// Who may write: the client that has it open for writing.
    writer: Option<usize>,
}

impl Model {
    fn new() -> Model {
        Model { blocks: vec![vec![(0, None)]; BLOCKS], now: 1, published: 0, writer: None }
    }

    fn current(&self, at: usize) -> Option<u8> {
        self.blocks[at].last().expect("it begins with one").1
    }

    fn set(&mut self, at: usize, value: Option<u8>) {
        if self.current(at) != value {
            self.blocks[at].push((self.now, value));
        }
    }

    fn write(&mut self, at: usize, value: u8) {
        self.now += 1;
        for before in 0..at {
            if self.current(before).is_none() {
                self.set(before, Some(0));
            }
        }
        self.set(at, Some(value));
    }

    fn truncate(&mut self, blocks: usize) {
        self.now += 1;
        for at in 0..BLOCKS {
            match self.current(at) {
                None if at < blocks => self.set(at, Some(0)),
                Some(_) if at >= blocks => self.set(at, None),
                _ => {}
            }
        }
    }

    /// What may be seen of a block by who has opened the file at some time.
    fn allowed(&self, at: usize, since: usize) -> Vec<Option<u8>> {
        let history = &self.blocks[at];
        let first = history.partition_point(|(time, _)| *time <= since).saturating_sub(1);
        history[first..].iter().map(|(_, value)| *value).collect()
    }
}

/// An open file of a client.
struct Open {
    io: Arc<FileIo>,
    /// By path, if it was opened by that.
    file: Option<File>,
    since: usize,
    reads: bool,
    writes: bool,
}

/// Two clients and two files.
struct Run {
    dice: Dice,
    clients: Vec<Client>,
    models: Vec<Model>,
    /// By client and file.
    opens: Vec<Vec<Option<Open>>>,
    names: Vec<String>,
    log: String,
}

impl Run {
    async fn step(&mut self, n: usize) {
        let (who, what) = (self.dice.roll(2), self.dice.roll(2));
        let act = self.dice.roll(12);
        let _ = write!(self.log, "\n{n}: client {who}, file {what}: ");
        if self.opens[who][what].is_none() {
            return self.open(who, what).await;
        }
        match act {
            0 | 1 => self.close(who, what).await,
            2 => self.truncate(who, what).await,
            3 => self.commit(who, what).await,
            4..=7 => self.write(who, what).await,
            _ => self.read(who, what).await,
        }
    }

    async fn open(&mut self, who: usize, what: usize) {
        let model = &mut self.models[what];
        let writes = model.writer.is_none() && self.dice.roll(2) == 0;
        let truncate = writes && self.dice.roll(4) == 0;
        let _ = write!(self.log, "open, writes {writes}, truncate {truncate}");
        let create = writes.then_some(0o644);
        // Who only writes may be delegated the file.
        let reads = !writes || self.dice.roll(2) == 0;
        let options =
            OpenOptions { read: reads, write: writes, create, truncate, ..OpenOptions::read() };
        let since = model.published;
        if writes {
            model.writer = Some(who);
        }
        let by_handle = !truncate && self.dice.roll(2) == 0;
        let _ = write!(self.log, ", by handle {by_handle}");
        let (client, name) = (&self.clients[who], &self.names[what]);
        let (io, file) = match by_handle {
            true => {
                let fh = client.node(name).await.unwrap().fh;
                let options = OpenOptions { create: None, ..options };
                (client.nodes().open_node(&fh, options).await.unwrap().io, None)
            }
            false => match client.open(name, options).await {
                Ok(file) => (file.io().clone(), Some(file)),
                Err(e) => panic!("{e}\n{}", self.log),
            },
        };
        if truncate {
            model.truncate(0);
        }
        self.opens[who][what] = Some(Open { io, file, since, reads, writes });
    }

    async fn close(&mut self, who: usize, what: usize) {
        let Some(open) = self.opens[who][what].take() else { return };
        let _ = write!(self.log, "close");
        match open.file {
            Some(file) => file.close().await.unwrap(),
            None => open.io.close().await.unwrap(),
        }
        if open.writes {
            let model = &mut self.models[what];
            (model.writer, model.published) = (None, model.now);
        }
    }

    async fn commit(&mut self, who: usize, what: usize) {
        let Some(open) = &self.opens[who][what] else { return };
        let _ = write!(self.log, "commit");
        open.io.commit().await.unwrap();
        if open.writes {
            self.models[what].published = self.models[what].now;
        }
    }

    async fn truncate(&mut self, who: usize, what: usize) {
        let Some(open) = self.opens[who][what].as_ref().filter(|o| o.writes) else { return };
        let blocks = self.dice.place();
        let by_path = self.dice.roll(2) == 0;
        let _ = write!(self.log, "truncate to {blocks}, by path {by_path}");
        let size = blocks as u64 * BLOCK;
        match by_path {
            true => self.clients[who].truncate(&self.names[what], size).await.unwrap(),
            false => open.io.truncate(size).await.unwrap(),
        }
        self.models[what].truncate(blocks);
    }

    async fn write(&mut self, who: usize, what: usize) {
        let Some(open) = self.opens[who][what].as_ref().filter(|o| o.writes) else { return };
        let at = self.dice.place();
        let value = 1 + self.dice.roll(255) as u8;
        let _ = write!(self.log, "write {value} to {at}");
        let data = Bytes::from(vec![value; BLOCK as usize]);
        open.io.write(at as u64 * BLOCK, BLOCK, &Source::bytes(data)).await.unwrap();
        self.models[what].write(at, value);
    }

    async fn read(&mut self, who: usize, what: usize) {
        let Some(open) = self.opens[who][what].as_ref().filter(|o| o.reads) else { return };
        let (at, count) = (self.dice.place(), 1 + self.dice.roll(30));
        let count = count.min(BLOCKS - at);
        let _ = write!(self.log, "read {count} from {at}");
        let len = count * BLOCK as usize;
        let read = open.io.read(at as u64 * BLOCK, len).await.unwrap();
        let model = &self.models[what];
        for (n, at) in (at..at + count).enumerate() {
            let (from, end) = (n * BLOCK as usize, (n + 1) * BLOCK as usize);
            let seen: Vec<Option<u8>> = match read.get(from..end) {
                Some(bytes) => bytes.iter().map(|b| Some(*b)).collect(),
                // A write of another that crosses into the next stripe unit is under way: data
                // servers have one part of it and not the other.
                None => {
                    let there = read.get(from..).unwrap_or_default().iter();
                    there.map(|b| Some(*b)).chain([None]).collect()
                }
            };
            // Who writes it, or belongs to the same client, sees exactly what is there.
            let mut allowed = match model.writer == Some(who) {
                true => vec![model.current(at)],
                false => model.allowed(at, open.since),
            };
            if model.writer != Some(who) && allowed.contains(&None) {
                // Another client cut the file: what this one still takes for a part of it is zeros.
                allowed.push(Some(0));
            }
            let wrong = seen.iter().find(|value| !allowed.contains(value));
            assert!(wrong.is_none(), "block {at}: {wrong:?}, not {allowed:?}\n{}", self.log);
        }
    }
}

fn policy(dice: &mut Dice) -> IoPolicy {
    IoPolicy {
        gather_below: [0, 64, u32::MAX, u32::MAX][dice.roll(4)],
        keeps: dice.roll(4) != 0,
        read_ahead_bytes: [0, 3000, 8 << 20][dice.roll(3)],
        cache_bytes: [1, 64 << 10, 1 << 20, 256 << 20][dice.roll(4)],
    }
}

/// How many sequences of acts a test tries, or for how long.
enum Long {
    Seeds(u64),
    Until(Instant),
}

impl Long {
    /// WEFT_SEEDS (40), or WEFT_ALTERNATE_MINUTES.
    fn told() -> Long {
        let told = |name| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
        match told("WEFT_ALTERNATE_MINUTES") {
            Some(minutes) => Long::Until(Instant::now() + Duration::from_secs(60 * minutes)),
            None => Long::Seeds(told("WEFT_SEEDS").unwrap_or(40)),
        }
    }

    fn has(&self, seed: u64) -> bool {
        match self {
            Long::Seeds(seeds) => seed <= *seeds,
            Long::Until(end) => Instant::now() < *end,
        }
    }
}

/// Random acts of two clients with random policies, against a plain model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_open_sees_the_others_close() {
    let delegated = Delegated { writes: true, ..Delegated::default() };
    let export = Export { delegated, ..open_export() };
    let small_files = SmallFiles::OFF;
    let options = Options { data_servers: 2, small_files, export, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let long = Long::told();
    for seed in (1..).take_while(|seed| long.has(*seed)) {
        if seed % 1000 == 0 {
            eprintln!("{seed} sequences begun");
        }
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut log = format!("seed {seed}");
        let mut clients = Vec::new();
        for _ in 0..2 {
            let policy = policy(&mut dice);
            let _ = write!(log, "\n{policy:?}");
            // Some read by descriptor what is on this host.
            let local_sockets = (dice.roll(2) == 0).then(|| cluster.local_sockets());
            let delegations = dice.roll(4) != 0;
            let _ = write!(log, ", delegations {delegations}");
            let options =
                ClientOptions { policy, local_sockets, delegations, ..ClientOptions::default() };
            clients.push(Client::connect(cluster.address(), options).await.unwrap());
        }
        let names: Vec<String> = (0..2).map(|n| format!("/file-{seed}-{n}")).collect();
        for name in &names {
            clients[0].write_file(name, 0o644, Bytes::new()).await.unwrap();
        }
        let models = vec![Model::new(), Model::new()];
        let opens = vec![vec![None, None], vec![None, None]];
        let mut run = Run { dice, clients, models, opens, names, log };
        for n in 0..200 {
            run.step(n).await;
        }
        for (who, what) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            run.close(who, what).await;
        }
        for client in run.clients {
            client.close().await;
        }
    }
}
