//! Databases on `weft mount`, each used by several processes at once: SQLite through two mounts and
//! through one, LMDB through one. Each process must read the records that all of them wrote.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::cluster::{Cluster, Options};
use support::mount::Mount;

/// Processes at once.
const PROCESSES: u32 = 4;
/// Transactions of each.
const TRANSACTIONS: u32 = 40;
const SCRIPT: &str = "tests/fuse/databases.py";
/// The system's own, which has the modules that `./dev test` installs.
const PYTHON: &str = "/usr/bin/python3";

/// Rollback journal: the processes take turns under the server's locks.
#[test]
fn sqlite_on_two_mounts() {
    is_right_on("sqlite-delete", 2);
}

/// Write-ahead log: all processes map its index, so they must be on one machine.
#[test]
fn sqlite_with_a_write_ahead_log() {
    is_right_on("sqlite-wal", 1);
}

/// LMDB reads through a mapping and writes with `pwrite`.
#[test]
fn lmdb() {
    is_right_on("lmdb", 1);
}

fn is_right_on(engine: &str, mounts: usize) {
    let cluster = Cluster::start(Options::default());
    let mounts: Vec<_> = (0..mounts).map(|_| Mount::of(cluster.port(), &[])).collect();
    finished(process(engine, &mounts[0].path("database"), 0, "0"));
    let processes: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let path = mounts[number as usize % mounts.len()].path("database");
            process(engine, &path, number, &TRANSACTIONS.to_string())
        })
        .collect();
    processes.into_iter().for_each(|child| drop(finished(child)));
    for mount in &mounts {
        let made = finished(process(engine, &mount.path("database"), 0, "check"));
        assert_eq!(made, (PROCESSES * TRANSACTIONS).to_string());
    }
    mounts.iter().for_each(Mount::unmount);
}

fn process(engine: &str, path: &Path, number: u32, count: &str) -> Child {
    let script: PathBuf = support::repository().join(SCRIPT);
    Command::new(PYTHON)
        .arg(script)
        .arg(engine)
        .arg(path)
        .args([&number.to_string(), count])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python")
}

/// Waits for a process that must succeed, and returns its output.
fn finished(child: Child) -> String {
    let said = child.wait_with_output().expect("its end");
    assert!(said.status.success(), "{}", support::words(&said));
    String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
}
