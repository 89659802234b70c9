//! The first start of a server, cut before each of its syncs: the next one makes what is missing,
//! and is never stopped by what is half made.

use std::path::Path;

use bytes::Bytes;
use weft_dev::SeededRng;

use super::disks::{Cut, Fs};
use super::support::cluster::{Cluster, Options};
use super::support::{changes, is_stopped, seed, until};
use super::syncs::Syncs;
use super::{PATIENCE, Server, env};

/// Cuts of each combination, unless WEFT_CUTS says otherwise; all there are, if it says more.
const CUTS: u64 = 2;

/// Every directory that the first start makes is synced into the one above it, before or after
/// something was made in it: nothing that is made durable inside counts without its own name.
#[test]
fn new_directories_are_synced_into_those_above() {
    for engine in ["fjall", "redb"] {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("not/yet/there");
        let place = tempfile::tempdir().expect("a folder");
        let options = Options { data_servers: 2, ..Options::default() };
        let config = format!("engine = \"{engine}\"\n");
        let mut cluster = Cluster::prepare_on(place, root.clone(), options, &config);
        let syncs = Syncs::logged(dir.path().join("log"));
        let starting = cluster.spawn(&syncs.environment());
        cluster.serves(&starting);
        let seen = syncs.seen();
        let is_synced = |path: &Path| seen.iter().any(|sync| sync.path == path);
        let above = [dir.path().to_owned(), dir.path().join("not"), dir.path().join("not/yet")];
        let of_servers = ["", "mds", "ds-1", "ds-2"].map(|name| root.join(name));
        for directory in above.iter().chain(&of_servers) {
            // As the kernel names it.
            let directory = directory.components().as_path();
            assert!(is_synced(directory), "{engine}: {} is not synced", directory.display());
        }
        assert!(is_synced(&root.join("mds/volume")), "{engine}: the volume's directory");
    }
}

/// See the module.
#[test]
fn a_first_start_is_cut_before_each_sync() {
    let mut random = SeededRng::new(seed());
    for fs in Fs::ALL {
        for engine in ["fjall", "redb"] {
            let config = format!("engine = \"{engine}\"\n");
            let all = syncs_of_a_first_start(fs, &config);
            let cuts = env("WEFT_CUTS").unwrap_or(CUTS).min(all);
            eprintln!("{fs:?}, {engine}: {cuts} of {all} syncs");
            // One by chance out of each of as many parts.
            for part in 0..cuts {
                let (from, to) = (part * all / cuts, (part + 1) * all / cuts);
                cut_before(from + random.below(to - from) + 1, fs, &config);
            }
        }
    }
}

/// How many syncs there are until the server serves.
fn syncs_of_a_first_start(fs: Fs, config: &str) -> u64 {
    let mut server = Server::prepare(fs, false, "auto", config);
    let syncs = Syncs::logged(server.disks.beside("log"));
    let starting = server.cluster.spawn(&syncs.environment());
    server.cluster.serves(&starting);
    syncs.seen().len() as u64
}

fn cut_before(number: u64, fs: Fs, config: &str) {
    let mut server = Server::prepare(fs, false, "auto", config);
    let syncs = Syncs::logged(server.disks.beside("log"));
    let environment = syncs.stopped_before(number as usize).environment();
    let _starting = server.cluster.spawn(&environment);
    let pid = server.cluster.pid();
    until("stop before a sync", PATIENCE, || is_stopped(pid).then_some(()));
    eprintln!("cut before sync {number}");
    server.cut(Cut::Copied);
    server.cluster.start_again();
    changes::in_runtime(async {
        let client = changes::connect(server.address()).await;
        let data = Bytes::from(vec![7; 200 << 10]);
        client.write_file("/file", 0o644, data.clone()).await.expect("a file");
        let read = client.read_file("/file", data.len()).await.expect("the file");
        assert!(read == data, "other bytes after a cut before sync {number}");
        client.close().await;
    });
    server.cluster.stop();
    server.cluster.is_clean();
}
