//! CLONE and COPY that are interrupted, by `kill -9` of the metadata server or of a data server and
//! by a disk that is full or becomes so: between files of different widths, small and large, at
//! places that line up and that do not, over bytes that were there, over themselves and over each
//! other. Each word of the destination is what it was or what it was to become, no other file has
//! changed, what was acknowledged is all there, the same change is done when it is asked for again,
//! and in the end no object is left and `weft fsck` finds nothing.
//!
//! A failure names its seed. `WEFT_SEED` chooses the seed, and `WEFT_ROUNDS` how many faults there
//! are. The data servers are on XFS disks that can share blocks: these tests need root.

mod jobs;
mod marks;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jobs::{End, File, Job, Pair, Signal};
use rustix::fs::{FallocateFlags, fallocate};
use support::disk::{Disk, Kind};
use support::servers::{Plan, Servers, ds};
use tokio::runtime::Runtime;
use weft_client::Identity;
use weft_client::{
    fs::{Client, ClientOptions, OpenOptions},
    io::IoPolicy,
};
use weft_dev::{SeededRng, env};
use weft_nfs::NfsStat;

const DATA_SERVERS: u32 = 3;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Disk of the data servers, which takes no more than is in use.
const DISK_MIB: u64 = 2048;
/// That of data server 1 where it is to be full.
const SMALL_DISK_MIB: u64 = 512;
/// That of the volume there.
const VOLUME_MIB: u32 = 256;
/// One in so many times it is the volume's disk.
const VOLUME_EVERY: u64 = 4;
/// How long they go on when it is, and at most if nobody met it.
const FULL: Duration = Duration::from_millis(800);
const FULL_MOST: Duration = Duration::from_millis(2500);
/// Faults of a test, unless WEFT_ROUNDS says otherwise.
const ROUNDS: u64 = 4;
/// Bytes of the files of each job, about, and of the largest it makes. Those of the first are large
/// enough for copies that go on in the background.
const SIZES: [(u64, u64); 4] =
    [(34 * MIB, 40 * MIB), (12 * MIB, 24 * MIB), (6 * MIB, 12 * MIB), (30 * KIB, 100 * KIB)];
/// Files of a job.
const FILES: u32 = 3;
/// Time for servers to serve again, and for what is done again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the interrupted wait: what they began is not to be done by asking again.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// See the module.
#[test]
fn interrupted_by_kill_9() {
    let mut run = Run::start(DISK_MIB, None);
    for round in 0..env("WEFT_ROUNDS").unwrap_or(ROUNDS) {
        run.write_anew();
        let victim = match round % 2 {
            0 => "mds".to_owned(),
            _ => ds(1 + run.random.below(u64::from(DATA_SERVERS)) as u32),
        };
        let pause = Duration::from_millis(50 + run.random.below(600));
        run.during(false, |run| {
            std::thread::sleep(pause);
            run.signal.near.store(true, Ordering::Release);
            run.servers.kill9(&victim);
        });
        run.start_again(&victim);
        run.verify(&format!("{victim} was killed after {pause:?}"));
        run.do_again();
    }
    run.end();
}

/// See the module. The disk of a data server, or now and then that of the volume, has no room, or
/// so little that it is soon used up, when they begin or while they are at it.
#[test]
fn interrupted_by_a_full_disk() {
    let mut run = Run::start(SMALL_DISK_MIB, Some(VOLUME_MIB));
    let mut refused = 0;
    for round in 1..=env("WEFT_ROUNDS").unwrap_or(ROUNDS) {
        run.write_anew();
        let few = SMALL_DISK_MIB / 16 * MIB + run.random.below(6 * MIB);
        let left = if run.random.one_in(2) { 0 } else { few };
        let volume = round % VOLUME_EVERY == 0;
        let left = if volume { None } else { Some(left) };
        let pause = Duration::from_millis(run.random.below(300));
        let early = run.random.one_in(3);
        if early {
            run.fill(left);
        }
        run.during(early, |run| {
            std::thread::sleep(pause);
            run.signal.near.store(true, Ordering::Release);
            if !early {
                run.fill(left);
            }
            let full = Instant::now();
            std::thread::sleep(FULL);
            while !run.signal.met.load(Ordering::Acquire) && full.elapsed() < FULL_MOST {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let when = if early { "before".to_owned() } else { format!("after {pause:?}") };
        run.verify(&format!("{left:?} bytes were left {when}"));
        refused += run.refusals();
        run.free();
        run.do_again();
    }
    assert!(refused > 0, "nobody met the full disk");
    run.fill(Some(0));
    run.end();
}

/// A cluster, its disks, and what is known of its files.
struct Run {
    seed: u64,
    random: SeededRng,
    runtime: Runtime,
    // The servers go before their disks.
    servers: Servers,
    disks: Vec<Disk>,
    jobs: Vec<Job>,
    pair: Pair,
    signal: Arc<Signal>,
    /// Files that were ever written.
    marks: u64,
    /// Files of which some was done and some was not.
    partly: usize,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FAILED: WEFT_SEED={}", self.seed);
        }
    }
}

impl Run {
    /// Data server 1 has a disk of its own of so many MiB; the volume may have one.
    fn start(first_mib: u64, mds_disk_mib: Option<u32>) -> Run {
        let seed = env("WEFT_SEED").unwrap_or(1);
        let disks = vec![Disk::new(Kind::Xfs, first_mib), Disk::new(Kind::Xfs, DISK_MIB)];
        let data_servers = DATA_SERVERS;
        let plan = Plan { data_servers, stripe_width: 3, mds_disk_mib, ..Plan::default() };
        let mut servers = Servers::prepare(plan);
        for id in 1..=DATA_SERVERS {
            let at = disks[usize::from(id > 1)].at().join(ds(id));
            std::fs::create_dir(&at).expect("a folder");
            symlink(at, servers.data_dir(&ds(id))).expect("a link");
            servers.start_ds(id);
        }
        servers.start_mds();
        servers.until_reachable(DATA_SERVERS);
        let mut random = SeededRng::new(seed);
        let file = |name| File { name, words: Vec::new() };
        let job = |(n, (_, largest)): (usize, (u64, u64))| Job {
            files: (0..FILES).map(|f| file(format!("/{n}/{f}"))).collect(),
            largest,
            random: SeededRng::new(random.draw()),
            pending: None,
            done: 0,
        };
        let jobs = SIZES.into_iter().enumerate().map(job).collect();
        let files = ["/pair/one", "/pair/other"].map(|name| file(name.to_owned()));
        let pair = Pair { files, random: SeededRng::new(random.draw()), ended: None, done: 0 };
        let runtime = Runtime::new().expect("a runtime");
        let signal = Arc::default();
        let (marks, partly) = (0, 0);
        let mut run =
            Run { seed, random, runtime, servers, disks, jobs, pair, signal, marks, partly };
        run.write_all();
        run
    }

    fn client(&self, patience: Duration) -> Client {
        self.connect(patience, true)
    }

    /// One that reads at the data servers, or sends everything to the metadata server.
    fn connect(&self, patience: Duration, layouts: bool) -> Client {
        let address: SocketAddr = ([127, 0, 0, 1], self.servers.port()).into();
        let identity = Identity::from(bytes::Bytes::from_static(b"clones and copies"));
        let options = ClientOptions {
            patience,
            data_server_patience: patience,
            identity: Some(identity),
            layouts,
            policy: IoPolicy::direct(),
            ..ClientOptions::default()
        };
        self.runtime.block_on(Client::connect(address, options)).expect("a client")
    }

    /// Every file, each over another number of data servers.
    fn write_all(&mut self) {
        let dirs = (0..SIZES.len()).map(|n| format!("/{n}")).chain(["/pair".to_owned()]);
        let client = self.client(PATIENCE);
        dirs.for_each(|dir| self.runtime.block_on(client.mkdir(dir, 0o755)).expect("mkdir"));
        self.runtime.block_on(client.close());
        for width in 1..=FILES {
            self.servers.stripe_over(width);
            for job in 0..SIZES.len() {
                self.write(job, width as usize - 1);
            }
        }
        self.write_pair();
    }

    /// Some files are replaced by others, so that not all become the same in time.
    fn write_anew(&mut self) {
        let width = 1 + self.random.below(u64::from(DATA_SERVERS));
        self.servers.stripe_over(width as u32);
        for job in 0..SIZES.len() {
            let file = self.random.index(FILES as usize);
            self.write(job, file);
        }
        self.write_pair();
    }

    /// A file of a job gets new bytes, and a new place; half have a hole.
    fn write(&mut self, job: usize, file: usize) {
        self.marks += 1;
        let bytes = SIZES[job].0 + self.random.below(SIZES[job].0 / 64) * marks::WORD;
        let mut words = marks::marked(self.marks, bytes);
        let hole = self.random.index(words.len());
        if self.random.one_in(2) {
            let end = (hole + words.len() / 5).min(words.len() - 1);
            words[hole..end].fill(0);
        }
        let file = &mut self.jobs[job].files[file];
        file.words = words;
        let (file, hole) = (file.clone(), hole as u64 * marks::WORD);
        self.replace(&file, hole);
    }

    fn write_pair(&mut self) {
        for n in 0..2 {
            self.marks += 1;
            self.pair.files[n].words = marks::marked(self.marks, 8 * MIB);
            let file = self.pair.files[n].clone();
            self.replace(&file, 0);
        }
    }

    /// A new file by this name, which has a hole if there are zeros at this byte.
    fn replace(&self, file: &File, hole: u64) {
        let client = self.client(PATIENCE);
        self.runtime.block_on(async {
            // The first time there is none.
            let _ = client.remove(&file.name).await;
            let opened = open_new(&client, &file.name).await;
            let zeros = file.words[(hole / marks::WORD) as usize..].iter();
            let zeros = zeros.take_while(|word| **word == 0).count() as u64 * marks::WORD;
            let bytes = bytes::Bytes::from(marks::to_bytes(&file.words));
            let (begin, end) = (hole as usize, (hole + zeros) as usize);
            opened.write_at(0, bytes.slice(..begin)).await.expect("write");
            opened.write_at(end as u64, bytes.slice(end..)).await.expect("write");
            opened.close().await.expect("close");
            client.close().await;
        });
    }

    /// Lets all of them clone and copy while something happens, or after it has, and until they
    /// have ended.
    fn during(&mut self, already: bool, fault: impl FnOnce(&mut Run)) {
        self.signal = Arc::default();
        self.signal.near.store(already, Ordering::Release);
        let client = self.client(IMPATIENCE);
        let spawn = |job: Job| self.runtime.spawn(job.run(client.clone(), self.signal.clone()));
        let jobs: Vec<_> = std::mem::take(&mut self.jobs).into_iter().map(spawn).collect();
        let pair = self.pair.clone().run(client.clone(), self.signal.clone());
        let pair = self.runtime.spawn(pair);
        fault(self);
        self.signal.stop.store(true, Ordering::Release);
        let ended = self.runtime.block_on(async {
            let mut ended = Vec::new();
            for job in jobs {
                ended
                    .push(tokio::time::timeout(PATIENCE, job).await.expect("an end").expect("job"));
            }
            let pair = tokio::time::timeout(PATIENCE, pair).await.expect("an end");
            (ended, pair.expect("a pair"))
        });
        (self.jobs, self.pair) = ended;
    }

    /// Starts a server that was killed, and waits until all is served.
    fn start_again(&mut self, name: &str) {
        match name.strip_prefix("ds") {
            Some(id) => self.servers.start_ds(id.parse().expect("a number")),
            None => self.servers.start_mds(),
        }
        // Who was there before is back, by which grace ends.
        let client = self.client(PATIENCE);
        self.runtime.block_on(client.close());
        self.servers.until_reachable(DATA_SERVERS);
    }

    /// Holds every file against what is known, and takes what is there for known.
    fn verify(&mut self, fault: &str) {
        let layouts = self.random.one_in(2);
        let client = self.connect(PATIENCE, layouts);
        let read = |name: &str| {
            let read = self.runtime.block_on(jobs::read(&client, name));
            read.unwrap_or_else(|e| panic!("{name}: {e}{}", self.servers.logs()))
        };
        for job in &mut self.jobs {
            let target = job.pending.map(|(change, _)| change.target);
            for n in 0..job.files.len() {
                let (name, before) = (&job.files[n].name, &job.files[n].words);
                let pending = job.pending.filter(|_| target == Some(n));
                let after = pending.map_or_else(|| before.clone(), |(c, _)| job.after(&c));
                let seen = read(name);
                let log = format!("{fault}, {:?}", job.pending);
                marks::explained(name, before, &after, &seen, &log);
                if let Some((change, End::Part(bytes))) = pending {
                    let copied = change.words(bytes);
                    assert!(seen[copied.clone()] == after[copied], "{name} is not copied: {log}");
                }
                let partly = seen != *before && seen != after;
                self.partly += usize::from(partly);
                job.files[n].words = seen;
            }
        }
        let [one, other] = self.pair.files.each_ref();
        for file in [one, other] {
            marks::explained(&file.name, &one.words, &other.words, &read(&file.name), fault);
        }
        self.runtime.block_on(client.close());
    }

    /// What was interrupted is done when it is asked for again, and is exact. Or else the file is
    /// made longer: nothing that was begun shows behind its end.
    fn do_again(&mut self) {
        let client = self.client(PATIENCE);
        let (mut interrupted, mut done) = (Vec::new(), self.pair.done);
        for job in &mut self.jobs {
            done += std::mem::take(&mut job.done);
            let Some((change, end)) = job.pending.take() else { continue };
            interrupted.push(end);
            let grows = self.random.one_in(2);
            let change = if grows { job.growth(&change) } else { change };
            let after = job.after(&change);
            let name = &job.files[change.target].name;
            support::until("room", PATIENCE, || {
                let end = self.runtime.block_on(job.carry_out(&client, &change));
                let full = end == End::Refused(NfsStat::NOSPC);
                let again = full || matches!(end, End::Part(_) | End::Ended);
                assert!(again || end == End::Done, "{name}: {change:?} again: {end:?}");
                (end == End::Done).then_some(())
            });
            let seen = self.runtime.block_on(jobs::read(&client, name)).expect("a file");
            marks::explained(name, &after, &after, &seen, &format!("{change:?} again"));
            job.acknowledge(&change);
        }
        self.pair.ended = None;
        self.pair.done = 0;
        eprintln!("{done} done; interrupted: {interrupted:?}; in part so far: {}", self.partly);
        self.runtime.block_on(client.close());
    }

    /// Takes what the disk of data server 1 has, but for so many bytes; or what the volume's has.
    fn fill(&self, left: Option<u64>) {
        let Some(left) = left else {
            self.servers.fill("mds", 0);
            return;
        };
        let disk = self.disks[0].at();
        let mut rest = std::fs::File::create(disk.join("rest")).expect("a file");
        let told = rustix::fs::statvfs(&disk).expect("its space");
        let mut more = (told.f_bavail * told.f_frsize).saturating_sub(left);
        let filler = std::fs::File::create(disk.join("taken")).expect("a file");
        // The servers take some of it meanwhile.
        let taken = |len| fallocate(&filler, FallocateFlags::empty(), 0, len).is_ok();
        while more > 0 && !taken(more) {
            more = more.saturating_sub(MIB);
        }
        if left == 0 {
            while rest.write_all(&[7; 4096]).is_ok() {}
        }
    }

    fn free(&self) {
        let disk = self.disks[0].at();
        let of_volume = self.servers.data_dir("mds").join("filler");
        for file in [disk.join("taken"), disk.join("rest"), of_volume] {
            // Some of them are there.
            let _ = std::fs::remove_file(file);
        }
    }

    /// How many were refused or not done to their ends, each for want of room.
    fn refusals(&self) -> usize {
        let jobs = self.jobs.iter().filter_map(|job| Some(job.pending?.1));
        let ends: Vec<End> = jobs.chain(self.pair.ended).collect();
        let full = End::Refused(NfsStat::NOSPC);
        let is_of_it = |end: &End| *end == full || matches!(end, End::Part(_) | End::Ended);
        assert!(ends.iter().all(is_of_it), "{ends:?}{}", self.servers.logs());
        ends.len()
    }

    /// All is removed: nothing is left, and nothing is to be repaired.
    fn end(mut self) {
        let client = self.client(PATIENCE);
        let all = self.jobs.iter().flat_map(|job| &job.files).chain(&self.pair.files);
        for file in all {
            self.runtime.block_on(client.remove(&file.name)).expect("remove");
        }
        self.runtime.block_on(client.close());
        support::until("end of the objects", PATIENCE, || {
            (1..=DATA_SERVERS).all(|id| self.servers.objects(id).0 == 0).then_some(())
        });
        let names = (1..=DATA_SERVERS).map(ds).chain(["mds".to_owned()]);
        names.for_each(|name| self.servers.kill9(&name));
        self.servers.fsck();
    }
}

/// A new file; a volume that was full makes none for some seconds.
async fn open_new(client: &Client, name: &str) -> weft_client::fs::File {
    let began = Instant::now();
    loop {
        match client.open(name, OpenOptions::replace(0o644)).await {
            Err(e) if e.error.status() == Some(NfsStat::NOSPC) && began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            opened => return opened.unwrap_or_else(|e| panic!("{name}: {e}")),
        }
    }
}
