//! xfstests on FUSE mounts of this machine: `weft mount`, and libfuse's example that passes all on
//! to a local file system.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::clusters::{Clusters, DISK_MIB};
use super::outcomes::{FAILED, Outcomes, names, note};
use super::support;
use super::support::disk::{Disk, Kind};
use super::{MOUNT, PASSTHROUGH, test_seconds};

/// What runs xfstests, with the names that it has for the two kinds of mounts.
const SCRIPT: &str = "tests/fuse/xfstests.sh";
/// Mounts and processes of a test's own: what it leaves behind ends with it.
const ALONE: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"];
/// What libfuse's example is called, and how its folder is named in the environment.
const EXAMPLE: &str = "passthrough_ll";
const EXAMPLE_AT: &str = "WEFT_PASSTHROUGH";

/// Runs tests on a kind of mount, saying each outcome when it is known.
pub fn judge(server: &str, xfstests: &Path, list: &str) -> Outcomes {
    support::require_root("to mount for others");
    let programs = tempfile::tempdir().expect("a folder");
    let run = |program: &Path, name: &str, dirs: [String; 2]| {
        fs::copy(program, programs.path().join(name)).expect("the program that serves mounts");
        run(server, xfstests, &programs, dirs, list)
    };
    if server == PASSTHROUGH {
        let disks = [(); 2].map(|()| Disk::new(Kind::Xfs, DISK_MIB));
        let example = support::folder(EXAMPLE_AT).expect(EXAMPLE_AT).join(EXAMPLE);
        return run(&example, EXAMPLE, disks.each_ref().map(|disk| text(&disk.at())));
    }
    let clusters = Clusters::start();
    let dirs = clusters.ports().map(|port| format!("127.0.0.1:{port}:/"));
    let outcomes = run(&support::weft_binary(), "weft", dirs);
    clusters.are_clean();
    outcomes
}

fn run(
    server: &str,
    xfstests: &Path,
    programs: &TempDir,
    dirs: [String; 2],
    list: &str,
) -> Outcomes {
    let nowhere = tempfile::tempdir().expect("a folder");
    let out = match std::env::var_os("WEFT_XFSTESTS_OUT") {
        Some(out) => PathBuf::from(out).join(server),
        None => nowhere.path().to_owned(),
    };
    fs::create_dir_all(&out).expect("a folder");
    let said = out.join("check.txt");
    let served = if server == MOUNT { "weft" } else { server };
    let mut child = Command::new("unshare")
        .args(ALONE)
        .args(["sh", "-c", "exec 3>&1 >&2; exec sh \"$@\"", "sh"])
        .arg(support::repository().join(SCRIPT))
        .arg(served)
        .args([xfstests, programs.path()])
        .args(dirs)
        .arg(test_seconds().to_string())
        .arg(&out)
        .args(list.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&said).expect("a file"))
        .spawn()
        .expect("unshare");
    let mut outcomes = Outcomes::new();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        note(server, &mut outcomes, &line.expect("text")).expect("an outcome");
    }
    child.wait().expect("its end");
    let said = || fs::read_to_string(&said).expect("what it said");
    assert!(!outcomes.is_empty(), "{server}: nothing was run\n{}", said());
    if names(&outcomes, FAILED).next().is_some() {
        eprintln!("{}", said());
    }
    outcomes
}

fn text(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}
