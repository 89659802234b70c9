//! pynfs, the protocol test suite that others wrote, against a metadata server: `./dev long pynfs`.
//!
//! Environment: WEFT_PYNFS, the folder of a pynfs that was built. Without it nothing is tested.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use support::cluster::{Cluster, Options};

/// Seconds that a version may take. Two minutes are usual: some tests wait for a lease to end.
const SECONDS_MAX: &str = "1200";
/// The line before the list of outcomes.
const LIST_BEGINS: &str = "\n**************************************************\n";

#[test]
fn pynfs_judges_4_1() {
    passes("4.1", 181);
}

#[test]
fn pynfs_judges_4_2() {
    passes("4.2", 196);
}

/// Runs its `all` for a version: the tests that do not pass are the expected ones, and `passes`
/// others were run.
fn passes(version: &str, passes: usize) {
    let Some(pynfs) = std::env::var_os("WEFT_PYNFS") else {
        eprintln!("SKIPPED: `./dev long pynfs` fetches pynfs and says where in WEFT_PYNFS");
        return;
    };
    let cluster = Cluster::start(Options::default());
    let said = run(Path::new(&pynfs), cluster.port(), version);
    let (passed, others): (BTreeSet<_>, BTreeSet<_>) =
        outcomes(&said).into_iter().partition(|line| line.starts_with("PASS "));
    eprintln!("vers={version}:\n{said}");
    let expected = support::expected("tests/pynfs-expected.txt", version);
    assert_eq!(others, expected, "vers={version}: left has, right expects");
    assert_eq!(passed.len(), passes, "vers={version}: left passed, right did before");
}

/// The list with which pynfs ends; before, it says what its own client does.
fn run(pynfs: &Path, port: u16, version: &str) -> String {
    let minor = version.strip_prefix("4.").expect("a version of NFSv4");
    let output = Command::new("timeout")
        .args([SECONDS_MAX, "/usr/bin/python3", "-W", "ignore", "./testserver.py"])
        .arg(format!("127.0.0.1:{port}/pynfs"))
        .args([&format!("--minorversion={minor}"), "--maketree", "all"])
        .current_dir(pynfs.join("nfs4.1"))
        .output()
        .expect("timeout starts");
    // Its status tells only whether it could test.
    assert!(output.status.success(), "{}", support::words(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let (_, list) = said.split_once(LIST_BEGINS).expect("a list of the outcomes");
    list.to_owned()
}

/// `OUTCOME CODE` of each test that was asked for: its lines are `CODE module.name : OUTCOME`.
fn outcomes(said: &str) -> Vec<String> {
    let outcome = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [code, _, ":", outcome] = words[..] else { return None };
        Some(format!("{outcome} {code}"))
    };
    said.lines().filter_map(outcome).collect()
}
