//! The programs that judge the kernel's NFS client (`kernel_suites.rs`) judge `weft mount`:
//! pjdfstest, fsx, and our own stress test.
//!
//! Environment, as there: WEFT_FSX_OPERATIONS, WEFT_STRESS_OPERATIONS, WEFT_SEED.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::cluster::{Cluster, Options};
use support::mount::Mount;
use support::suites::{program, setting, unpassed};
use tempfile::TempDir;

/// Operations of one run of fsx; there are two, with and without mappings.
const FSX_OPERATIONS: u32 = 1_500;
/// Operations of each of the four processes of stress.
const STRESS_OPERATIONS: u32 = 400;
/// Tests of pjdfstest 0.2.2 that pass at the least: fewer means it was not run in earnest.
const PJDFSTEST_PASSES_MIN: usize = 384;
/// A suite that takes longer hangs, in seconds.
const SUITE_SECONDS: u32 = 500;
/// Our word for it in lists of what need not pass.
const HERE: &str = "fuse";

/// A mount, and a folder beside it.
struct Judged {
    mount: Mount,
    beside: TempDir,
    _cluster: Cluster,
}

impl Judged {
    fn start(arguments: &[&str]) -> Judged {
        let cluster = Cluster::start(Options::default());
        let mount = Mount::of(cluster.port(), arguments);
        Judged { mount, beside: tempfile::tempdir().expect("a folder"), _cluster: cluster }
    }

    /// Writes a file beside the mount; where it is.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.beside.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Runs a suite, which has an end.
    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        Command::new("timeout")
            .args(["--signal=KILL", &SUITE_SECONDS.to_string()])
            .arg(program)
            .args(arguments)
            .current_dir(self.beside.path())
            .output()
            .expect("timeout")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The suite that looks at every error of every call. It changes files behind the back of one user
/// as another, so the kernel asks every time.
#[test]
fn pjdfstest() {
    let Some(pjdfstest) = program("pjdfstest") else { return };
    let judged = Judged::start(&["--attributes-valid", "0"]);
    let second = judged.beside.path().join("second");
    std::fs::create_dir(&second).expect("a folder");
    let dir = judged.mount.path("pjdfstest");
    assert!(judged.mount.shell(0, "mkdir -m 777 pjdfstest").0);
    // Not the tests of read-only file systems, which remount: mount(8) has mount.fuse do that, and
    // it does not. `fuse.rs` has one of a mount that is read-only.
    let config = judged.write("pjdfstest.toml", &support::suites::pjdfstest_config());
    let arguments = ["-c", text(&config), "-p", text(&dir), "-s", text(&second)];
    let run = judged.run(&pjdfstest, &arguments);
    let said = support::suites::plain(&String::from_utf8_lossy(&run.stdout));
    assert!(said.contains("\nSummary: "), "it broke off: {}", support::words(&run));
    let passed = said.lines().filter(|line| line.ends_with(" ok")).count();
    let has: BTreeSet<String> = unpassed(&said);
    if let Some(kept) = std::env::var_os("WEFT_SUITE_OUT") {
        std::fs::write(kept, &said).expect("a file");
    }
    let expects = support::expected("tests/guest/pjdfstest-expected.txt", HERE);
    assert_eq!(has, expects, "left has, right expects");
    assert!(passed >= PJDFSTEST_PASSES_MIN, "passed {passed} only");
    judged.mount.unmount();
}

/// Random operations on one file, checked against what it must hold.
#[test]
fn fsx() {
    let Some(fsx) = program("fsx") else { return };
    let judged = Judged::start(&[]);
    let operations = setting("WEFT_FSX_OPERATIONS", FSX_OPERATIONS).to_string();
    let seed = setting("WEFT_SEED", std::process::id());
    for map in [0, 10] {
        let config = judged.write("fsx.toml", &support::suites::fsx_config(map));
        let number = (seed + map).to_string();
        let file = judged.mount.path(&format!("fsx-{map}"));
        let arguments = ["-f", text(&config), "-N", &operations, "-S", &number];
        let run = judged.run(&fsx, &[&arguments[..], &["-P", "."], &[text(&file)]].concat());
        assert!(run.status.success(), "seed {number}, maps {map}: {}", support::words(&run));
    }
    judged.mount.unmount();
}

/// Several processes, what they left, and what they left after a new mount.
#[test]
fn stress() {
    let judged = Judged::start(&[]);
    let stress = support::guest::compiled("stress", judged.beside.path());
    let operations = setting("WEFT_STRESS_OPERATIONS", STRESS_OPERATIONS).to_string();
    let seed = setting("WEFT_SEED", std::process::id()).to_string();
    let (dir, manifest) = (judged.mount.path("stress"), judged.beside.path().join("manifest"));
    let places = [text(&dir), text(&manifest)];
    let run = judged.run(&stress, &[&["run"], &places[..], &["4", &operations, &seed]].concat());
    assert!(run.status.success(), "seed {seed}: {}", support::words(&run));
    judged.mount.unmount();
    judged.mount.mount_again(&[]);
    let check = judged.run(&stress, &[&["check"], &places[..]].concat());
    assert!(check.status.success(), "seed {seed}, after a new mount: {}", support::words(&check));
    let removed = judged.mount.shell(0, "rm -r stress && ls");
    assert_eq!(removed, (true, String::new()));
    judged.mount.unmount();
}
