//! What the end-to-end tests share: a running server (`Cluster`), a guest with the unmodified Linux
//! client (`Guest`), and the few facts about this machine that decide what can run here.
//!
//! Every integration test is a program of its own and uses only a part of this module.
#![allow(dead_code, reason = "each program uses a part")]

pub mod cluster;
pub mod disk;
pub mod guest;
pub mod hook;
pub mod load;
pub mod namespaces;
pub mod pair;
pub mod servers;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

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

/// What a program said, for a failure message.
pub fn words(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
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
