//! What the end-to-end tests share: a running server (`Cluster`), a guest with the unmodified Linux
//! client (`Guest`), and the few facts about this machine that decide what can run here.
//!
//! Every integration test is a program of its own and uses only a part of this module.
#![allow(dead_code, reason = "each program uses a part")]

pub mod bench;
pub mod changes;
pub mod cluster;
pub mod disk;
pub mod guest;
pub mod hook;
pub mod load;
pub mod mount;
pub mod namespaces;
pub mod pair;
pub mod racer;
pub mod servers;
pub mod suites;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What the administrator of clients allows whose root does the work, as these tests are.
pub const ROOT_MAY_EVERYTHING: &str = "[export]\nroot_squash = false\nprivileged_ports = false\n";

/// Whether a continuous-integration run asks for every test: nothing may be skipped there.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

/// Whether this process may make network namespaces and tap devices.
pub fn is_root() -> bool {
    run("id", &["-u"]).stdout == b"0\n"
}

/// Fails the test with instructions when it does not run as root.
pub fn require_root(what: &str) {
    assert!(
        is_root(),
        "{what} needs root. Run `./dev test` (it asks sudo), or run cargo test as root."
    );
}

/// The repository's own folder.
pub fn repository() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// `OUTCOME NAME` of each test of a suite that need not pass `here` (a kernel, a version), from the
/// list at this path in the repository: lines of `OUTCOME WHERE NAME REASON`, where WHERE is `all`
/// or names joined by commas.
pub fn expected(list: &str, here: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join(list)).expect("the expected failures");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let of_here = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [outcome, places, name, reason] = words[..] else { panic!("no reason in {line:?}") };
        assert!(!reason.trim().is_empty(), "no reason in {line:?}");
        let counts = places == "all" || places.split(',').any(|place| place == here);
        counts.then(|| format!("{outcome} {name}"))
    };
    lines.filter_map(of_here).collect()
}

/// Copies the program that is tested, to where another user gets at it. A process of its own does
/// that: what other threads start meanwhile would inherit the open file, and it could not be run.
pub fn copy_weft(to: &Path) {
    let copied = Command::new("cp").arg(weft_binary()).arg(to).status();
    assert!(copied.expect("cp").success(), "{}", to.display());
}

/// The folder of what `./dev xfstests` has fetched and built, by its variable; none, said so, where
/// it is not there.
pub fn folder(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        eprintln!("SKIPPED: `./dev xfstests` fetches xfstests and says where in {variable}");
    }
    found
}

/// The binary under test: ours, or the one named by WEFT_TEST_BINARY (a packaged one, say).
pub fn weft_binary() -> PathBuf {
    std::env::var_os("WEFT_TEST_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weft")), PathBuf::from)
}

/// Runs a host program to its end; panics only when it cannot be started.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}"))
}

/// What a URL of the admin service at a Unix socket says; the status code is not looked at.
pub fn admin_get(socket: &Path, path: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("admin");
    let asked = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::io::Write::write_all(&mut stream, asked.as_bytes()).expect("a request");
    std::io::read_to_string(stream).expect("an answer")
}

/// What a program said, for a failure message.
pub fn words(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Where chance begins: another place for every run, said so that `WEFT_SEED` can ask for it.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed =
        weft_dev::env("WEFT_SEED").unwrap_or_else(|| now.expect("a clock").as_millis() as u64);
    eprintln!("WEFT_SEED={seed}");
    seed
}

/// Polls until `done` gives a value; panics with `what` after `limit`.
pub fn until<T>(what: &str, limit: Duration, mut done: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(Instant::now() < deadline, "no {what} within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that depend on the seed and the position only, and do not repeat with any block size.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Waits until no thread of a process that was stopped runs any more: the signal alone returns
/// before that.
pub fn until_stopped(pid: u32) {
    until("a stopped process", Duration::from_secs(10), || is_stopped(pid).then_some(()));
}

/// Whether every thread of a process is stopped.
pub fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let states: Option<Vec<char>> = tasks.map(|task| state_of(&task.ok()?.path())).collect();
    states.is_some_and(|states| states.iter().all(|state| *state == 'T'))
}

/// State letter of a task (proc(5), /proc/PID/stat field 3); none when it has just ended.
fn state_of(task: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    // The name before it, in parentheses, may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}
