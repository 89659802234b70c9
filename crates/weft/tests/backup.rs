//! Backup and restore with real processes: what a backup has, what the restored volume and its data
//! servers make of each other, and what is left when either command is killed or has no room.

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::cluster::{Cluster, Options};
use support::words;

const MIB: usize = 1 << 20;

fn cluster() -> Cluster {
    Cluster::start(Options { lease_seconds: 2, grace_seconds: 1, ..Options::default() })
}

/// A file with the bytes of a seed.
fn source(dir: &Path, seed: u64, bytes: usize) -> String {
    let path = dir.join(format!("source-{seed}-{bytes}"));
    std::fs::write(&path, support::pattern(seed, bytes)).expect("a source");
    path.to_str().expect("a plain path").to_owned()
}

fn put(cluster: &Cluster, dir: &Path, name: &str, seed: u64, bytes: usize) {
    ok(cluster, &["put", &source(dir, seed, bytes), name]);
}

fn ok(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = cluster.weft(arguments);
    assert!(output.status.success(), "weft {arguments:?}: {}{}", words(&output), cluster.log());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn fails(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = cluster.weft(arguments);
    assert!(!output.status.success(), "weft {arguments:?} succeeded: {}", words(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a name holds; an error of `get` is `None`.
fn got(cluster: &Cluster, dir: &Path, name: &str) -> Option<Vec<u8>> {
    let target = dir.join("got");
    let _ = std::fs::remove_file(&target);
    let output = cluster.weft(&["get", name, target.to_str().expect("a plain path")]);
    output.status.success().then(|| std::fs::read(&target).expect("what was got"))
}

fn has(cluster: &Cluster, dir: &Path, name: &str, seed: u64, bytes: usize) {
    let found = got(cluster, dir, name).unwrap_or_else(|| panic!("{name}: {}", cluster.log()));
    assert!(found == support::pattern(seed, bytes), "{name}: other bytes ({})", found.len());
}

fn backup(cluster: &Cluster, file: &Path) -> String {
    let (file, dir) = (file.to_str().expect("plain"), cluster.data_dir());
    ok(cluster, &["backup", file, "--dir", dir.to_str().expect("plain")])
}

fn restored(cluster: &Cluster, file: &Path) -> String {
    let (file, mds) = (file.to_str().expect("plain"), cluster.data_dir().join("mds"));
    ok(cluster, &["restore", file, "--mds", mds.to_str().expect("plain")])
}

fn set_aside(cluster: &Cluster, name: &str) -> PathBuf {
    let aside = cluster.data_dir().join(name);
    std::fs::rename(cluster.data_dir().join("mds"), &aside).expect("moved aside");
    aside
}

/// A backup that is taken while somebody writes; then more of everything happens, the volume is
/// restored, and served on the same data servers: what was untouched is right, what is new gets
/// numbers and objects that nobody had, what was removed is an error, and no byte is another's.
#[test]
fn a_restored_volume_mixes_nothing() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (dir, mut cluster) = (scratch.path(), cluster());
    for seed in 0..4 {
        put(&cluster, dir, &format!("/large-{seed}"), seed, 5 * MIB);
        put(&cluster, dir, &format!("/small-{seed}"), 100 + seed, 3000);
    }
    put(&cluster, dir, "/grows", 50, 3000);
    let (file, stop) = (dir.join("volume.bak"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (cluster, stop) = (&cluster, &stop);
        scope.spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::SeqCst) {
                put(
                    cluster,
                    dir,
                    &format!("/beside-{n}"),
                    1000 + n,
                    if n % 2 == 0 { 2 * MIB } else { 9 },
                );
                n += 1;
            }
        });
        let told = backup(cluster, &file);
        assert!(told.contains("as of mutation"), "{told}");
        stop.store(true, Ordering::SeqCst);
    });
    let private = std::fs::metadata(&file).expect("a backup").permissions().mode() & 0o777;
    assert_eq!(private, 0o600);
    // What happens after the backup: made, removed, replaced, grown from small to large, renamed.
    for seed in 10..14 {
        put(&cluster, dir, &format!("/later-{seed}"), seed, 6 * MIB);
    }
    ok(&cluster, &["rm", "/large-1"]);
    ok(&cluster, &["rm", "/small-1"]);
    put(&cluster, dir, "/large-2", 20, 7 * MIB);
    put(&cluster, dir, "/grows", 51, 9 * MIB);
    ok(&cluster, &["mv", "/small-2", "/moved"]);
    cluster.stop();
    set_aside(&cluster, "mds-old");
    let told = restored(&cluster, &file);
    assert!(told.contains("weft check"), "{told}");
    cluster.start_again();
    for seed in [0, 3] {
        has(&cluster, dir, &format!("/large-{seed}"), seed, 5 * MIB);
    }
    for seed in 0..4 {
        has(&cluster, dir, &format!("/small-{seed}"), 100 + seed, 3000);
    }
    has(&cluster, dir, "/grows", 50, 3000);
    fails(&cluster, &["stat", "/later-10"]);
    fails(&cluster, &["stat", "/moved"]);
    // New files never take the place of those that the restored volume does not know.
    for seed in 30..36 {
        put(&cluster, dir, &format!("/new-{seed}"), seed, 2 * MIB);
        has(&cluster, dir, &format!("/new-{seed}"), seed, 2 * MIB);
    }
    // The remains of a file that was large after the backup do not show when it grows again.
    put(&cluster, dir, "/grows", 52, 2 * MIB);
    has(&cluster, dir, "/grows", 52, 2 * MIB);
    // Removed since: an error, or what it was; overwritten in place: the newer bytes, and not more
    // of them than the backup knows.
    let removed = got(&cluster, dir, "/large-1");
    assert!(removed.is_none_or(|found| found == support::pattern(1, 5 * MIB)), "wrong bytes");
    let replaced = got(&cluster, dir, "/large-2");
    let newer = support::pattern(20, 7 * MIB);
    assert!(replaced.is_none_or(|found| found == newer[..5 * MIB]), "wrong bytes");
    for name in ["/large-1", "/large-2"] {
        ok(&cluster, &["rm", name]);
    }
    cluster.stop();
    cluster.start_again();
    for seed in 30..36 {
        has(&cluster, dir, &format!("/new-{seed}"), seed, 2 * MIB);
    }
}

/// `weft backup` as a child that can be killed.
fn start(arguments: &[&str]) -> Child {
    Command::new(support::weft_binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weft starts")
}

/// Reads a request whole: closing a socket that has something to read breaks what was written.
fn read_request(stream: &mut UnixStream) {
    let (mut asked, mut piece) = (Vec::new(), [0; 4096]);
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(bytes @ 1..) => asked.extend_from_slice(&piece[..bytes]),
            _ => return,
        }
    }
}

/// A server that answers at a socket as the admin service does, and sends so much of a backup; then
/// it ends the connection, or waits until it is told to.
fn half_a_server(socket: PathBuf, body: Vec<u8>, hangs: bool) -> String {
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a caller");
            read_request(&mut stream);
            let length = body.len() + usize::from(hangs);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            if hangs {
                std::thread::sleep(Duration::from_secs(600));
            }
        }
    });
    socket.to_str().expect("plain").to_owned()
}

/// A backup of a stopped volume with some hundred files, for what is done to it afterwards.
fn a_backup(dir: &Path) -> (Cluster, PathBuf) {
    let mut cluster = cluster();
    for n in 0..40 {
        put(&cluster, dir, &format!("/file-{n}"), n, 40_000);
    }
    cluster.stop();
    let (file, mds) = (dir.join("whole.bak"), cluster.data_dir().join("mds"));
    let mds = mds.to_str().expect("plain");
    ok(&cluster, &["backup", file.to_str().expect("plain"), "--mds", mds]);
    (cluster, file)
}

/// A backup that comes half, from a server that dies, is an error, and no file; killed at any
/// moment it leaves none of that name either; and the next one takes no notice of what is left.
#[test]
fn half_a_backup_has_no_name() {
    let scratch = tempfile::tempdir().expect("a folder");
    let dir = scratch.path();
    let (cluster, whole) = a_backup(dir);
    let whole = std::fs::read(whole).expect("a backup");
    let target = dir.join("target.bak");
    let name = target.to_str().expect("plain");
    let partial = dir.join("target.bak.partial");
    for cut in [0, 1, 30, 100, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let server = half_a_server(dir.join(format!("ends-{cut}")), whole[..cut].to_vec(), false);
        let why = fails(&cluster, &["backup", name, "--admin", &server]);
        assert!(why.contains("no backup was made"), "{cut}: {why}");
        assert!(!target.exists() && !partial.exists(), "{cut}");
        let server = half_a_server(dir.join(format!("hangs-{cut}")), whole[..cut].to_vec(), true);
        let mut victim = start(&["backup", name, "--admin", &server]);
        support::until("all that was sent is written", Duration::from_secs(30), || {
            std::fs::metadata(&partial).ok().filter(|there| there.len() == cut as u64)
        });
        victim.kill().expect("killed");
        victim.wait().expect("dead");
        assert!(!target.exists(), "{cut}");
    }
    assert!(partial.exists(), "nothing was left to take no notice of");
    let server = half_a_server(dir.join("whole"), whole.clone(), false);
    ok(&cluster, &["backup", name, "--admin", &server]);
    assert!(std::fs::read(&target).expect("a backup") == whole && !partial.exists());
    let why = fails(&cluster, &["backup", name, "--admin", &server]);
    assert!(why.contains("replaces nothing"), "{why}");
}

/// A restoration that is killed after any part of the backup leaves nothing that is a volume, and
/// can be done again; so does a damaged one.
#[test]
fn a_killed_restoration_leaves_no_volume() {
    let scratch = tempfile::tempdir().expect("a folder");
    let dir = scratch.path();
    let (mut cluster, file) = a_backup(dir);
    let whole = std::fs::read(&file).expect("a backup");
    set_aside(&cluster, "mds-old");
    let mds = cluster.data_dir().join("mds");
    let (volume, mds) = (mds.join("volume"), mds.to_str().expect("plain"));
    for part in [0, 1, 2, 5, 9] {
        // One each: what the last one left unread may still be in its pipe.
        let pipe = dir.join(format!("pipe-{part}"));
        assert!(support::run("mkfifo", &[pipe.to_str().expect("plain")]).status.success());
        let mut victim = start(&["restore", pipe.to_str().expect("plain"), "--mds", mds]);
        let mut input = std::fs::File::options().write(true).open(&pipe).expect("the pipe");
        // What fits the pipe at the end may not have been read, all else has.
        if let Err(e) = input.write_all(&whole[..whole.len() * part / 10]) {
            let ended = victim.wait_with_output().expect("ended");
            panic!("{part}: it does not read: {e}; {}", support::words(&ended));
        }
        victim.kill().expect("killed");
        victim.wait().expect("dead");
        assert!(!volume.exists(), "{part}");
    }
    let mut bad = whole.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    let damaged = dir.join("damaged.bak");
    std::fs::write(&damaged, bad).expect("a damaged backup");
    let why = fails(&cluster, &["restore", damaged.to_str().expect("plain"), "--mds", mds]);
    assert!(why.contains("nothing was restored") && why.contains("damaged"), "{why}");
    assert!(!volume.exists());
    // At some moment after the last byte: what has the name is whole.
    for delay_ms in [0, 3, 10, 30, 100] {
        let mut victim = start(&["restore", file.to_str().expect("plain"), "--mds", mds]);
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ = victim.kill();
        victim.wait().expect("dead");
        if volume.exists() {
            let aside = dir.join(format!("whole-{delay_ms}"));
            std::fs::rename(mds, &aside).expect("moved");
            let data = cluster.data_dir();
            let stores = (1..=4).map(|id| data.join(format!("ds-{id}")).display().to_string());
            let stores: Vec<String> = stores.collect();
            let stores = stores.iter().flat_map(|store| ["--ds", store]);
            let fsck = ["fsck", "--mds", aside.to_str().expect("plain")];
            ok(&cluster, &fsck.into_iter().chain(stores).collect::<Vec<_>>());
        }
    }
    restored(&cluster, &file);
    cluster.start_again();
    for n in 0..40 {
        has(&cluster, dir, &format!("/file-{n}"), n, 40_000);
    }
    let why = fails(&cluster, &["restore", file.to_str().expect("plain"), "--mds", mds]);
    assert!(why.contains("is not empty"), "{why}");
}

/// A disk without room for the backup is an error that says so; nothing of it stays, and what
/// serves goes on.
#[test]
fn a_full_disk_takes_no_half_backup() {
    support::require_root("mounting a small disk");
    let scratch = tempfile::tempdir().expect("a folder");
    let (dir, cluster) = (scratch.path(), cluster());
    for n in 0..40 {
        put(&cluster, dir, &format!("/file-{n}"), n, 40_000);
    }
    let disk = dir.join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let at = disk.to_str().expect("plain");
    let mounted = support::run("mount", &["-t", "tmpfs", "-o", "size=512k", "none", at]);
    assert!(mounted.status.success(), "{}", words(&mounted));
    let (file, data) = (disk.join("b.bak"), cluster.data_dir());
    let data = data.to_str().expect("plain");
    let why = fails(&cluster, &["backup", file.to_str().expect("plain"), "--dir", data]);
    let left = std::fs::read_dir(&disk).expect("the disk").count();
    assert!(support::run("umount", &[at]).status.success());
    assert!(why.contains("no backup was made") && why.contains("No space left"), "{why}");
    assert_eq!(left, 0);
    put(&cluster, dir, "/after", 99, MIB);
    backup(&cluster, &dir.join("b.bak"));
}
