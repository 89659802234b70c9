//! Power cuts: what a server had acknowledged is there when it starts from what reached its disks,
//! and it starts. Whole servers on loop devices with ext4 and XFS, with either engine, with the
//! techniques for small files on and off, on one device and on several.
//!
//! `WEFT_CUTS` says how many cuts each combination gets, `WEFT_SEED` where chance begins. Needs
//! root; `./dev long cuts` runs many, `./dev long syncs` every sync that is left out.

mod disks;
mod first_start;
mod left_out;
#[path = "../support/mod.rs"]
mod support;
mod syncs;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use disks::{Cut, Disks, Fs};
use support::changes::{self, Known};
use support::cluster::{ALL_OFF, Cluster, Options};
use weft_dev::{SeededRng, env};

/// Time for whatever must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that clients work before a cut: this, and by chance up to as much again twice.
const WORK: Duration = Duration::from_millis(100);
/// Over more than one of which every larger file is striped.
const DATA_SERVERS: usize = 2;
/// Largest file of the clients: on both data servers.
const LARGEST: u64 = 3 << 20;

/// A server on devices of its own.
struct Server {
    disks: Disks,
    cluster: Cluster,
}

impl Server {
    fn prepare(fs: Fs, split: bool, cache: &'static str, config: &str) -> Self {
        support::require_root("a loop device");
        let disks = Disks::new(fs, split);
        let dir = tempfile::Builder::new().prefix("weft-cuts.").tempdir().expect("a folder");
        let options =
            Options { data_servers: DATA_SERVERS, lease_seconds: 2, grace_seconds: 1, cache };
        let cluster = Cluster::prepare_on(dir, disks.data(), options, config);
        Self { disks, cluster }
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.cluster.port()).into()
    }

    /// Cuts the power; nothing runs afterwards.
    fn cut(&mut self, cut: Cut) {
        if cut == Cut::Copied {
            self.cluster.pause();
        }
        self.disks.cut(cut, || self.cluster.kill9());
    }
}

/// A combination of what a server stands on and how it works.
#[derive(Clone, Copy, Debug)]
struct Cell {
    fs: Fs,
    engine: &'static str,
    all_off: bool,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for fs in Fs::ALL {
        for engine in ["fjall", "redb"] {
            cells.extend([false, true].map(|all_off| Cell { fs, engine, all_off }));
        }
    }
    cells
}

impl Cell {
    fn config(self) -> String {
        format!("engine = \"{}\"\n{}", self.engine, if self.all_off { ALL_OFF } else { "" })
    }
}

/// Every combination is cut while clients make, write, cut, rename and remove files. From what the
/// cut left `weft fsck` finds nothing, the server starts, and every file is what was acknowledged
/// or what was under way; the next cut follows on that. Replicated files are so whichever copy is
/// read.
#[test]
fn nothing_acknowledged_is_lost() {
    let mut random = SeededRng::new(support::seed());
    let cuts = env("WEFT_CUTS").unwrap_or(1);
    let mut done = 0;
    for cell in cells() {
        let mut left = cuts;
        // Half of them on one device, half on several.
        let mut split = random.below(2) == 1;
        while left > 0 {
            let now = left.min(cuts.div_ceil(2));
            done += cut_while_working(cell, split, now, &mut random);
            left -= now;
            split = !split;
        }
    }
    assert!(done > 8 * cuts, "hardly anything was done: {done}");
}

/// How many changes were acknowledged.
fn cut_while_working(cell: Cell, split: bool, cuts: u64, random: &mut SeededRng) -> u64 {
    // Those on several devices write past the page cache.
    let cache = if split { "direct" } else { "auto" };
    let mut server = Server::prepare(cell.fs, split, cache, &cell.config());
    let known: Vec<Arc<Mutex<Known>>> = changes::known(LARGEST);
    let mut how = Vec::new();
    // By chance, a directory of replicated files.
    let (replicated, mut copied) = (random.below(2) == 1, 0);
    server.cluster.start_again();
    if replicated {
        changes::in_runtime(changes::replicate(server.address()));
    }
    for _ in 0..cuts {
        let cut = Cut::ALL[random.below(2) as usize];
        how.push(cut);
        changes::in_runtime(async {
            let workers = changes::begin_all(server.address(), &known, random.draw() >> 8);
            tokio::time::sleep(WORK + WORK.mul_f64(random.below(2000) as f64 / 1000.0)).await;
            if cut == Cut::ShutDown {
                changes::disks_go(&known);
            }
            server.cut(cut);
            changes::end(workers, || server.cluster.log()).await;
        });
        server.cluster.is_clean();
        server.cluster.start_again();
        changes::in_runtime(changes::verify(server.address(), &known));
        if replicated {
            copied += changes::are_alike(&known, |path| server.cluster.admin_get(path));
            changes::in_runtime(changes::verify(server.address(), &known));
        }
    }
    changes::remove_all(server.address(), &known);
    server.cluster.stop();
    server.cluster.is_clean();
    let done = changes::acknowledged(&known);
    eprintln!(
        "{cell:?}, split {split}, replicated {replicated} ({copied}): {how:?}, {done} \
         acknowledged changes"
    );
    done
}
