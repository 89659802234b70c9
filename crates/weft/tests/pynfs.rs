//! pynfs, the protocol test suite that others wrote, against a metadata server: `./dev long pynfs`.
//!
//! Environment: WEFT_PYNFS, the folder of a pynfs that was built. Without it nothing is tested.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

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
    let output = pynfs_against(pynfs, port, version).arg("all").output().expect("timeout starts");
    // Its status tells only whether it could test.
    assert!(output.status.success(), "{}", support::words(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let (_, list) = said.split_once(LIST_BEGINS).expect("a list of the outcomes");
    list.to_owned()
}

/// Its command line without the tests.
fn pynfs_against(pynfs: &Path, port: u16, version: &str) -> Command {
    let minor = version.strip_prefix("4.").expect("a version of NFSv4");
    let mut command = Command::new("timeout");
    command
        .args([SECONDS_MAX, "/usr/bin/python3", "-W", "ignore", "./testserver.py"])
        .arg(format!("127.0.0.1:{port}/pynfs"))
        .args([&format!("--minorversion={minor}"), "--maketree"])
        .current_dir(pynfs.join("nfs4.1"));
    command
}

/// Its tests with restarts. Those that count on GRACE after all clients with state have reclaimed
/// are run without that (docs/deviations.md): we end the grace period then, which RFC 8881
/// §8.4.2.1 allows.
#[test]
fn pynfs_judges_restarts() {
    let Some(pynfs) = std::env::var_os("WEFT_PYNFS").map(PathBuf::from) else {
        eprintln!("SKIPPED: `./dev long pynfs` fetches pynfs and says where in WEFT_PYNFS");
        return;
    };
    let beside = tempfile::tempdir().expect("a folder");
    let changed = without_late_grace(&pynfs, beside.path());
    let codes = ["REBT2a", "REBT2b", "REBT3a", "REBT3b", "REBT4a", "REBT4b"];
    let cases = ["REBT1", "REBT5"].map(|code| (code, &pynfs)).into_iter();
    let cases = cases.chain(codes.map(|code| (code, &changed)));
    // Each mostly sleeps.
    std::thread::scope(|scope| {
        for (code, pynfs) in cases {
            let ask = beside.path().join(code);
            scope.spawn(move || passes_with_restarts(pynfs, code, &ask));
        }
    });
}

/// A copy of pynfs that takes OK for GRACE where a client that has reclaimed opens a file.
fn without_late_grace(pynfs: &Path, beside: &Path) -> PathBuf {
    let copy = beside.join("pynfs");
    let copied = Command::new("cp").arg("-r").args([pynfs, &copy]).status().expect("cp");
    assert!(copied.success(), "{copied}");
    let tests = copy.join("nfs4.1/server41tests/st_reboot.py");
    let text = std::fs::read_to_string(&tests).expect("the tests with restarts");
    assert_eq!(text.matches(WANTS_GRACE).count(), 1, "{}", tests.display());
    std::fs::write(&tests, text.replace(WANTS_GRACE, TAKES_BOTH)).expect("a file");
    copy
}

const WANTS_GRACE: &str = r#"
    check(res, NFS4ERR_GRACE, "New open during grace")
"#;
const TAKES_BOTH: &str = r#"
    check(res, [NFS4_OK, NFS4ERR_GRACE], "New open during grace")
    if res.status == NFS4_OK:
        close_file(sess, res.resarray[-1].object, stateid=res.resarray[-2].stateid)
"#;

/// Runs a test against a server of its own, which is killed and started again whenever the test
/// makes a file and waits for it to go.
fn passes_with_restarts(pynfs: &Path, code: &str, ask: &Path) {
    let (lease_seconds, grace_seconds) = (7, 20);
    let options = Options { lease_seconds, grace_seconds, data_servers: 1, ..Options::default() };
    let mut cluster = Cluster::start(options);
    let asks = ask.display();
    let helper = format!("sh -c 'touch {asks}; while [ -e {asks} ]; do sleep 0.05; done'");
    let mut test = pynfs_against(pynfs, cluster.port(), "4.1")
        .args(["--serverhelper", &helper, code])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("timeout starts");
    let stdout = test.stdout.take().expect("a pipe");
    let said = std::thread::spawn(move || std::io::read_to_string(stdout).expect("text"));
    while test.try_wait().expect("a child").is_none() {
        if ask.exists() {
            cluster.restart();
            std::fs::remove_file(ask).expect("it is there");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = said.join().expect("what it said");
    assert_eq!(outcomes(&said), [format!("PASS {code}")], "{said}");
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
