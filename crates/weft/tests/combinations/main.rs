//! Every combination of the switches for small files, of the servers and of our client, does to
//! files what a plain model does: short sequences of steps by chance, with a kill and a start in
//! the middle, after which `weft fsck` finds nothing, and in the end no object is left.
//!
//! A failure names combination, seed and steps. `WEFT_SEED` chooses the seed, `WEFT_ROUNDS` how
//! many are tried from there on, `WEFT_STEPS` how many steps a sequence has, and
//! `WEFT_COMBINATION` the servers' switches: those whose names contain all its words.

mod model;
mod sequence;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod switches;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sequence::Sequence;
use support::cluster::{Cluster, Options, files_below};
use switches::{ClientSwitches, ServerSwitches};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use weft_dev::env;

/// Steps of a sequence, half of them before the restart.
const STEPS: u64 = 24;
/// Over all of which every file is striped.
const DATA_SERVERS: u32 = 3;
/// Servers at a time: they wait for disks and timers most of the time.
const AT_ONCE: usize = 4;
/// Time until nothing is left of what was removed.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
#[test]
fn every_combination_does_what_a_model_does() {
    let wanted = std::env::var("WEFT_COMBINATION").unwrap_or_default();
    let chosen = |s: &ServerSwitches| wanted.split(' ').all(|word| s.to_string().contains(word));
    let first = env("WEFT_SEED").unwrap_or(1);
    let rounds = first..first + env("WEFT_ROUNDS").unwrap_or(1);
    let all = rounds.flat_map(|seed| {
        let switches = ServerSwitches::all().into_iter().filter(chosen);
        switches.map(move |switches| (switches, seed))
    });
    let todo = Mutex::new(all);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                // The lock is let go before the work: not `while let`.
                loop {
                    let next = todo.lock().expect("no panic").next();
                    let Some((switches, seed)) = next else { return };
                    if !FAILED.load(Relaxed) {
                        combination(switches, seed);
                    }
                }
            });
        }
    });
}

/// One failure is enough.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Names the combination when something else than a sequence fails.
struct Title(String);

impl Drop for Title {
    fn drop(&mut self) {
        if std::thread::panicking() {
            FAILED.store(true, Relaxed);
            eprintln!("FAILED: {}", self.0);
        }
    }
}

/// All switches of clients at servers with these, side by side.
fn combination(switches: ServerSwitches, seed: u64) {
    let title = Title(format!("WEFT_SEED={seed} WEFT_COMBINATION='{switches}'"));
    let data_servers = DATA_SERVERS as usize;
    let options =
        Options { data_servers, lease_seconds: 2, grace_seconds: 1, ..Options::default() };
    let mut cluster = Cluster::configured(options, &switches.config());
    let server = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let steps = env("WEFT_STEPS").unwrap_or(STEPS) / 2;

    let sequences = (1..).zip(ClientSwitches::all()).map(|(number, client)| {
        let title = format!("{} {client}", title.0);
        async move {
            let sequence =
                Sequence::start(server, client, title, (number, seed << 8 | number)).await;
            sequence.run(steps).await.before_restart().await
        }
    });
    let sequences = side_by_side(&runtime, sequences);
    cluster.kill9();
    cluster.is_clean();
    cluster.start_again();
    let sequences = sequences.into_iter().map(|sequence| async move {
        sequence.after_restart().await.run(steps).await.finish(server).await;
    });
    side_by_side(&runtime, sequences);
    // Nothing is left but what waits for the next files.
    let objects = || files_below(&cluster.data_dir(), "objects") as u64;
    let ahead = || u64::from(DATA_SERVERS) * cluster.status().mds.files_ahead;
    support::until("end of the objects", PATIENCE, || (objects() == ahead()).then_some(()));
    cluster.stop();
    cluster.is_clean();
}

/// Runs all of them to their ends; the first panic is passed on.
fn side_by_side<T: Send + 'static>(
    runtime: &Runtime,
    all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    runtime.block_on(async {
        let mut tasks: JoinSet<T> = all.collect();
        let mut ended = Vec::new();
        while let Some(task) = tasks.join_next().await {
            match task {
                Ok(done) => ended.push(done),
                Err(failed) => {
                    // The others end first: they have nothing to say.
                    tasks.shutdown().await;
                    ended.clear();
                    std::panic::resume_unwind(failed.into_panic());
                }
            }
        }
        ended
    })
}
