//! Nothing acknowledged is lost: `weft mkdir` and `weft put` that ended with status 0 are there,
//! byte for byte, after the whole server was killed in the middle of the next ones.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::cluster::{Cluster, Options};

const KILLS: usize = 50;
/// Rounds from one check of all data to the next.
const FSCK_EVERY: usize = 5;
/// Empty, tiny, one block, more than a small file, and more than one stripe unit on each of four
/// data servers.
const SIZES: [usize; 5] = [0, 100, 8 << 10, 100 << 10, (5 << 20) + 12_345];
/// Time for the acknowledgements that a round waits for.
const ROUND: Duration = Duration::from_secs(60);
/// Time for a command to notice that its server is dead, before it is killed too.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// One acknowledged file: its folder was acknowledged before it.
#[derive(Clone, Debug)]
struct Put {
    folder: String,
    seed: u64,
    length: usize,
}

#[test]
fn acknowledged_operations_survive_kill_9() {
    let dir = tempfile::tempdir().expect("a folder");
    let options =
        Options { lease_seconds: 2, grace_seconds: 1, cache: "direct", ..Options::default() };
    let mut cluster = Cluster::start(options);
    let mut all = Vec::new();
    for round in 0..KILLS {
        let acknowledged = write_until_killed(&mut cluster, dir.path(), round);
        if round % FSCK_EVERY == 0 {
            cluster.is_clean();
        }
        cluster.start_again();
        for put in &acknowledged {
            verify(&cluster, dir.path(), put, round);
        }
        all.extend(acknowledged);
    }
    for put in &all {
        verify(&cluster, dir.path(), put, KILLS);
    }
    assert!(all.len() >= KILLS, "only {} operations were acknowledged", all.len());
}

/// Writes without pause, kills the server after one to seven acknowledgements, and returns what
/// was acknowledged.
fn write_until_killed(cluster: &mut Cluster, dir: &Path, round: usize) -> Vec<Put> {
    let enough = 1 + round * 5 % 7;
    let acknowledged = Mutex::new(Vec::new());
    let server = format!("127.0.0.1:{}", cluster.port());
    let killed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write_all(&server, dir, round, &killed, &acknowledged));
        let deadline = Instant::now() + ROUND;
        while acknowledged.lock().expect("no panic").len() < enough && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A delay that differs from round to round lands the kill in different places.
        std::thread::sleep(Duration::from_micros(round as u64 * 937 % 20_000));
        cluster.kill9();
        killed.store(true, Ordering::Release);
    });
    let acknowledged = acknowledged.into_inner().expect("no panic");
    let count = acknowledged.len();
    assert!(count >= enough, "round {round}: {count} acknowledgements\n{}", cluster.log());
    acknowledged
}

/// One folder and one file after the other, until the server is killed.
fn write_all(
    server: &str,
    dir: &Path,
    round: usize,
    killed: &AtomicBool,
    acknowledged: &Mutex<Vec<Put>>,
) {
    let source = dir.join("source");
    let source = source.to_str().expect("a plain path");
    for number in 0.. {
        if killed.load(Ordering::Acquire) {
            return;
        }
        let seed = (round * 1000 + number) as u64;
        let length = SIZES[(round + number) % SIZES.len()];
        let put = Put { folder: format!("/round-{round}-{number}"), seed, length };
        std::fs::write(source, support::pattern(seed, length)).expect("a source file");
        if weft_ok(server, killed, &["mkdir", &put.folder])
            && weft_ok(server, killed, &["put", source, &format!("{}/file", put.folder)])
        {
            acknowledged.lock().expect("no panic").push(put);
        }
    }
}

/// Runs a command; once the server is dead it may end by itself, else it is killed soon after.
fn weft_ok(server: &str, killed: &AtomicBool, arguments: &[&str]) -> bool {
    let mut command = Command::new(support::weft_binary())
        .args(arguments)
        .env("WEFT_SERVER", server)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("weft starts");
    let mut given_up = None;
    loop {
        if let Some(status) = command.try_wait().expect("wait") {
            return status.success();
        }
        if killed.load(Ordering::Acquire)
            && given_up.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS
        {
            command.kill().expect("kill");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn verify(cluster: &Cluster, dir: &Path, put: &Put, round: usize) {
    let copy = dir.join("copy");
    let got =
        cluster.weft(&["get", &format!("{}/file", put.folder), copy.to_str().expect("plain")]);
    let log = || cluster.log();
    assert!(got.status.success(), "{put:?} after {round}: {}{}", support::words(&got), log());
    let bytes = std::fs::read(&copy).expect("the copy");
    let same = bytes == support::pattern(put.seed, put.length);
    assert!(
        same,
        "{put:?} after round {round}: {} bytes, not those written\n{}",
        bytes.len(),
        log()
    );
    std::fs::remove_file(&copy).expect("the copy");
}
