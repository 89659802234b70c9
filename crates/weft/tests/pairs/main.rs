//! Two clients of any kinds, one file, any fault: what one has closed, the next open by the other
//! sees, whole. Pairs of clients act on files in turn by plans from a seed; a model says what each
//! must see; servers and links suffer meanwhile; every file is looked at once more by every client
//! 45 s after its last close.
//!
//! - `WEFT_PAIRS_MINUTES`: how long, in runs of five minutes with other clients and settings each:
//!   those whose pairs were tried least by the ledger.
//! - `WEFT_PAIRS_LEDGER`: the file in which the counts of all runs are kept.
//! - `WEFT_PAIRS_SECONDS`: how long a run takes.
//! - `WEFT_PAIRS_KINDS`: which clients a run has (`uml,uml,mount,library`).
//! - `WEFT_PAIRS_FAULTS`: which faults (`none`, or words as in `kill-mds,delay-all`).
//! - `WEFT_PAIRS_WITHOUT`: what there is not (`delegations,layouts`, or nothing).
//! - `WEFT_PAIRS_PLAN`: the one plan that all files have, SEED:CLASS as in what was found.
//! - `WEFT_PAIRS_SERVER`: another server, HOST:PORT, for kernels only; its links alone can suffer.
//! - `WEFT_SEED`: where chance begins.
//! - `WEFT_PYTHON`: where a Python with the package is.

mod excuses;
mod faults;
mod hands;
mod judge;
mod kinds;
mod ledger;
mod model;
mod ops;
mod pattern;
mod plan;
mod relay;
mod shrink;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use faults::{Fault, Site};
use hands::{Commands, Library, Pool};
use judge::{Instance, Judge};
use kinds::Kind;
use ledger::Ledger;
use relay::{Behind, Relay};
use support::guest::{Guest, Kernel, Report, compiled};
use support::mount::Mount;
use support::servers::{Plan, Servers};
use tempfile::TempDir;
use weft_client::blocking::Client;
use weft_client::fs::ClientOptions;
use weft_dev::{SeededRng, env};

/// Files at a time.
const AT_ONCE: usize = 6;
/// Who looks later.
const LOOKERS: usize = 2;
/// Hands of a client: both of a pair may be its.
const HANDS: usize = 2 * AT_ONCE + LOOKERS;
const DATA_SERVERS: u32 = 4;

/// A run of many.
const RUN: Duration = Duration::from_secs(300);
/// A run in every test run.
const SHORT: Duration = Duration::from_secs(60);

/// How a run goes.
struct Run {
    kinds: Vec<Kind>,
    faults: Vec<Fault>,
    time: Duration,
    seed: u64,
}

/// See the module.
#[test]
fn what_one_has_closed_the_next_open_sees() {
    support::require_root("to mount");
    let minutes: u64 = env("WEFT_PAIRS_MINUTES").unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(minutes * 60);
    let usual = if minutes > 0 { RUN } else { SHORT };
    let time = env("WEFT_PAIRS_SECONDS").map_or(usual, Duration::from_secs);
    let wanted = std::env::var("WEFT_PAIRS_FAULTS").unwrap_or_default();
    let chosen = |fault: &Fault| {
        wanted.is_empty() || wanted.split(',').any(|word| word == fault.to_string())
    };
    let all = match std::env::var("WEFT_PAIRS_SERVER") {
        Ok(_) => Fault::of_links(),
        Err(_) => Fault::all(),
    };
    let faults: Vec<Fault> = all.into_iter().filter(chosen).collect();
    let ledger = std::env::var("WEFT_PAIRS_LEDGER").map(PathBuf::from).ok();
    let mut seeds = SeededRng::new(support::seed());
    let mut found = 0;
    loop {
        let kinds = match std::env::var("WEFT_PAIRS_KINDS") {
            Ok(names) => names.split(',').map(Kind::parse).collect(),
            Err(_) if minutes > 0 => {
                Kind::least_tried(&ledger.as_deref().map(Ledger::read).unwrap_or_default())
            }
            Err(_) => in_every_test_run(),
        };
        let run = Run { kinds, faults: faults.clone(), time, seed: seeds.draw() };
        found += run.judge(ledger.as_deref());
        if Instant::now() >= deadline {
            break;
        }
    }
    assert_eq!(found, 0, "findings: see FOUND above");
}

/// A few of each that are quick.
fn in_every_test_run() -> Vec<Kind> {
    let newest = Kind::Kernel(Kernel::Uml);
    let mut kinds = vec![newest, newest, Kind::Mount, Kind::Mount, Kind::Library, Kind::Commands];
    match std::env::var("WEFT_PYTHON") {
        Ok(_) => kinds.push(Kind::Python),
        Err(_) if support::in_ci() => panic!("no WEFT_PYTHON; in CI no kind may be left out"),
        Err(_) => eprintln!("SKIPPED: the Python package, which `./dev python` builds"),
    }
    kinds
}

/// The model, and the hand that kernels have, against a local disk.
#[test]
fn the_model_agrees_with_a_local_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let pool = Arc::new(Pool::default());
    let judge_port = pool.listen();
    let hand = compiled("hand", dir.path());
    let place = dir.path().join("files");
    make_dirs(&place);
    let mut both = ["local-1", "local-2"].map(|name| hands_on(&hand, judge_port, name, &place));
    let instance = |name: &str| Instance {
        name: name.to_owned(),
        kind: Kind::Local,
        can: Kind::Local.can(2),
        options: String::new(),
    };
    let roster = ["local-1", "local-2"].map(instance).to_vec();
    let judge = Judge::new(pool, roster, Ledger::default());
    let mut rng = SeededRng::new(support::seed());
    for n in 0..300 {
        let class = n % plan::CLASSES.len();
        let plan = plan::plan(rng.draw(), class, [Kind::Local.can(2); 2]);
        assert!(judge.life(&plan, [0, 1]).is_none(), "{plan:#?}");
    }
    judge.pool.end();
    both.iter_mut().for_each(|child| assert!(child.wait().expect("a hand").success()));
}

fn make_dirs(place: &Path) {
    for n in 0..judge::DIRS {
        std::fs::create_dir_all(place.join(format!("d{n}"))).expect("a folder");
    }
}

/// Processes that act on a folder of this machine.
fn hands_on(hand: &Path, judge_port: u16, name: &str, dir: &Path) -> Child {
    let mut command = Command::new(hand);
    command.args(["127.0.0.1", &judge_port.to_string(), name]).arg(dir).arg(HANDS.to_string());
    command.stdin(Stdio::null()).spawn().expect("a hand")
}

/// What runs beside the judge until it has ended.
#[derive(Default)]
struct Clients<'s> {
    roster: Vec<Instance>,
    mounts: Vec<Mount>,
    children: Vec<Child>,
    guests: Vec<ScopedJoinHandle<'s, Report>>,
}

impl Run {
    /// How much was found.
    fn judge(&self, path: Option<&Path>) -> usize {
        let mut rng = SeededRng::new(self.seed);
        let dir = tempfile::tempdir().expect("a folder");
        let mut site = site(&mut rng);
        let pool = Arc::new(Pool::default());
        let judge_port = pool.listen();
        for n in 0..judge::DIRS {
            if let Some(servers) = &site.servers {
                servers.weft_ok(&["mkdir", &format!("/d{n}")]);
            }
        }
        let ledger = path.map(Ledger::read).unwrap_or_default();
        std::thread::scope(|scope| {
            let start = Start { dir: &dir, judge_port, port: site.relays[0].port, time: self.time };
            let mut clients = Clients::default();
            for kind in &self.kinds {
                start.client(*kind, &pool, &mut rng, scope, &mut clients);
            }
            let mut judge = Judge::new(pool.clone(), clients.roster.clone(), ledger);
            judge.only = only_plan();
            self.session(&judge, &mut site, &mut rng);
            let findings = judge.findings.lock().expect("no panic").clone();
            if let (Some(servers), false) = (&site.servers, findings.is_empty()) {
                // A client that was asked in vain for a lease, on a machine that is too busy for
                // it, has lost what it had.
                servers
                    .logs_of("mds")
                    .lines()
                    .filter(|line| line.contains("revoked"))
                    .for_each(|line| eprintln!("{line}"));
            }
            if let Some(first) = findings.iter().find(|finding| finding.faults.is_empty()) {
                eprintln!("{first}; the shortest: {:#?}", shrink::shrink(&judge, first));
            }
            pool.end();
            let Clients { mounts, mut children, guests, .. } = clients;
            for child in &mut children {
                assert!(child.wait().expect("a hand").success(), "a hand ended early");
            }
            for guest in guests {
                guest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            mounts.iter().for_each(Mount::unmount);
            self.report(&judge, path)
        })
    }

    /// Files, faults, and a last look.
    fn session(&self, judge: &Judge, site: &mut Site, rng: &mut SeededRng) {
        let deadline = Instant::now() + self.time;
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                let seed = rng.draw();
                scope.spawn(move || judge.work(seed));
            }
            for _ in 0..LOOKERS {
                scope.spawn(|| judge.look_later());
            }
            let mut next = self.faults.iter().cycle().skip(rng.index(self.faults.len().max(1)));
            while Instant::now() < deadline {
                let before = judge.tries.load(Relaxed);
                // A few tries without a fault between any two.
                let quiet = Instant::now() + Duration::from_secs(20);
                while judge.tries.load(Relaxed) < before + 40
                    && Instant::now() < quiet.min(deadline)
                {
                    std::thread::sleep(Duration::from_millis(100));
                }
                if let Some(fault) = next.next()
                    && Instant::now() < deadline
                {
                    judge.until_somebody_writes(Duration::from_secs(5));
                    std::thread::sleep(Duration::from_millis(rng.below(60)));
                    judge.fault(&fault.to_string(), true);
                    site.suffer(*fault, rng);
                    judge.fault(&fault.to_string(), false);
                }
            }
            judge.stopped.store(true, Relaxed);
        });
    }

    fn report(&self, judge: &Judge, path: Option<&Path>) -> usize {
        let ledger = judge.ledger.lock().expect("no panic");
        eprintln!("{ledger}");
        if let Some(path) = path {
            ledger.write(path);
        }
        for instance in &judge.roster {
            eprintln!("{}: {}", instance.name, instance.options);
        }
        eprintln!("excused: {:?}", judge.excuses.lock().expect("no panic"));
        let (tries, later) = (judge.tries.load(Relaxed), judge.looked_later.load(Relaxed));
        let findings = judge.findings.lock().expect("no panic");
        let found = findings.len();
        eprintln!(
            "{tries} tries, {later} files looked at later, {found} findings, seed {}",
            self.seed
        );
        assert!(tries > 0 && later > 0, "nothing was tried");
        found
    }
}

/// Whether a run goes without something: as `WEFT_PAIRS_WITHOUT` says, else by chance.
fn is_without(what: &str, rng: &mut SeededRng, one_in: u64) -> bool {
    let by_chance = rng.one_in(one_in);
    let said = std::env::var("WEFT_PAIRS_WITHOUT");
    said.map_or(by_chance, |words| words.split(',').any(|word| word == what))
}

/// The plan that was asked for, told step by step.
fn only_plan() -> Option<(u64, usize)> {
    let said = std::env::var("WEFT_PAIRS_PLAN").ok()?;
    let (seed, class) = said.split_once(':').expect("SEED:CLASS");
    let only = (seed.parse().expect("a seed"), class.parse().expect("a class"));
    let can = Kind::Local.can(2);
    eprintln!(
        "the only plan, for clients that can do all: {:#?}",
        plan::plan(only.0, only.1, [can; 2])
    );
    Some(only)
}

/// Servers, each behind a relay.
fn site(rng: &mut SeededRng) -> Site {
    if let Ok(other) = std::env::var("WEFT_PAIRS_SERVER") {
        let other = Behind::Address(other.parse().expect("HOST:PORT"));
        return Site { servers: None, relays: vec![Relay::start(other, rng.draw())] };
    }
    let plan = Plan { data_servers: DATA_SERVERS, ..Plan::default() };
    let mut servers = Servers::prepare(plan);
    let mut relays = vec![Relay::start(Behind::Port(servers.port()), rng.draw())];
    for id in 1..=DATA_SERVERS {
        let own = Behind::Port(servers.ds_address(id).port());
        let relay = Relay::start(own, rng.draw());
        servers.clients_come_by(id, relay.port);
        servers.start_ds(id);
        relays.push(relay);
    }
    if is_without("delegations", rng, 4) {
        eprintln!("without write delegations");
        servers.export("write_delegations = false\n");
    }
    servers.start_mds();
    servers.until_reachable(DATA_SERVERS);
    Site { servers: Some(servers), relays }
}

/// What a client needs to start.
struct Start<'a> {
    dir: &'a TempDir,
    judge_port: u16,
    /// Of the metadata server's relay.
    port: u16,
    time: Duration,
}

impl Start<'_> {
    /// With the Python of `./dev python`, in which the package is.
    fn python(&self, name: &str) -> Child {
        let python = std::env::var("WEFT_PYTHON").expect("WEFT_PYTHON: `./dev long pairs` sets it");
        let script = support::repository().join("tests/pairs/hand.py");
        let mut command = Command::new(Path::new(&python).join("bin/python"));
        command.arg(script).args(["127.0.0.1", &self.judge_port.to_string(), name]);
        command.args([format!("weft://127.0.0.1:{}/", self.port), HANDS.to_string()]);
        command.stdin(Stdio::null()).spawn().expect("python")
    }

    fn client<'s>(
        &self,
        kind: Kind,
        pool: &Pool,
        rng: &mut SeededRng,
        scope: &'s Scope<'s, '_>,
        clients: &mut Clients<'s>,
    ) {
        let nth = clients.roster.iter().filter(|other| other.kind == kind).count() + 1;
        let name = format!("{kind}-{nth}");
        let minor = if nth.is_multiple_of(2) { 1 } else { 2 };
        let hand = || compiled("hand", self.dir.path());
        let options = match kind {
            Kind::Kernel(kernel) => {
                let nconnect = if rng.one_in(2) { 1 } else { 4 };
                // Leaves COMMIT to close, so that faults are between the two; since Linux 5.12.
                let is_eager = rng.one_in(2) && kernel != Kernel::V5_10;
                let eager = if is_eager { ",write=eager" } else { "" };
                let options = format!("vers=4.{minor},nconnect={nconnect}{eager}");
                let guest = Guest::new(kernel, "pairs.sh").expect("this machine can run guests");
                let no_layouts = is_without("layouts", rng, 3);
                let guest = match no_layouts {
                    true => guest.kernel_parameter("module_blacklist=nfs_layout_nfsv41_files"),
                    false => guest,
                };
                let seconds = u32::try_from(self.time.as_secs()).expect("hours") + 400;
                let guest = guest.program("hand").seconds(seconds).argument(&name);
                let guest = guest.argument(self.port).argument(self.judge_port);
                let guest = guest.argument(HANDS).argument(&options);
                let no_host = |(): &mut (), _: &str| Err("not a command of this test".to_owned());
                clients.guests.push(scope.spawn(move || guest.run(&mut (), no_host)));
                format!("{options}{}", if no_layouts { ", no layouts" } else { "" })
            }
            Kind::Mount => {
                let valid = if rng.one_in(3) { "0" } else { "1" };
                let mount = Mount::of(self.port, &["--attributes-valid", valid]);
                clients.children.push(hands_on(&hand(), self.judge_port, &name, &mount.path("")));
                clients.mounts.push(mount);
                format!("--attributes-valid {valid}")
            }
            Kind::Library => {
                let options = ClientOptions { minorversion: minor, ..ClientOptions::default() };
                let server = ([127, 0, 0, 1], self.port).into();
                let client = Arc::new(Client::connect(server, options).expect("a client"));
                (0..HANDS).for_each(|_| pool.put(&name, Box::new(Library::of(client.clone()))));
                format!("minorversion {minor}")
            }
            Kind::Commands => {
                for n in 0..HANDS {
                    let dir = self.dir.path().join(format!("{name}-{n}"));
                    std::fs::create_dir(&dir).expect("a folder");
                    let server = format!("127.0.0.1:{}", self.port);
                    pool.put(&name, Box::new(Commands { server, dir }));
                }
                String::new()
            }
            Kind::Python => {
                clients.children.push(self.python(&name));
                String::new()
            }
            Kind::Local => panic!("a folder is no client"),
        };
        let can = kind.can(minor);
        clients.roster.push(Instance { name, kind, can, options });
    }
}
