//! `weft mount` under signals: how it ends while programs use it.

mod support;

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use support::cluster::{Cluster, Options};
use tempfile::TempDir;

const NOBODY: u32 = 65534;
/// Time for what takes a moment, on a busy machine.
const SOON: Duration = Duration::from_secs(20);
const WRITTEN: usize = 300_000;

/// Writes to a file, says so, and keeps it open until its standard input has a line.
const WRITER: &str = "import os,sys
f=os.open(sys.argv[1],os.O_WRONLY|os.O_CREAT); os.write(f,b'x'*300000)
print('written',flush=True); sys.stdin.readline()";

/// A mount in the foreground, and a program that has a file of it open.
struct Busy {
    mount: Child,
    user: Child,
    said: PathBuf,
    at: PathBuf,
    cluster: Cluster,
    _beside: TempDir,
}

impl Busy {
    /// The mount and its user are of this user of the machine.
    fn start(uid: u32) -> Busy {
        support::require_root("to become somebody else");
        let options = Options { lease_seconds: 3, grace_seconds: 3, ..Options::default() };
        let cluster = Cluster::start(options);
        let made = cluster.weft(&["mkdir", "/d"]);
        assert!(made.status.success(), "{}", support::words(&made));
        let given = cluster.weft(&["chown", &uid.to_string(), "/d"]);
        assert!(given.status.success(), "{}", support::words(&given));
        let beside = tempfile::tempdir().expect("a folder");
        fs::set_permissions(beside.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let (at, said) = (beside.path().join("mount"), beside.path().join("said"));
        fs::create_dir(&at).expect("a folder");
        chown(&at, Some(uid), Some(uid)).expect("an owner");
        let binary = beside.path().join("weft");
        support::copy_weft(&binary);
        let source = format!("weft://127.0.0.1:{}/d", cluster.port());
        let mount = Command::new(&binary)
            .args(["mount", "--foreground", &source])
            .arg(&at)
            .uid(uid)
            .gid(uid)
            .current_dir("/")
            .stdin(Stdio::null())
            .stderr(File::create(&said).expect("a file"))
            .spawn()
            .expect("weft starts");
        support::until("mount", SOON, || is_mounted(&at).then_some(()));
        let user = Command::new("python3")
            .args(["-c", WRITER])
            .arg(at.join("f"))
            .uid(uid)
            .gid(uid)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut busy = Busy { mount, user, said, at, cluster, _beside: beside };
        let mut written = [0; 8];
        busy.user.stdout.as_mut().expect("a pipe").read_exact(&mut written).expect("it writes");
        busy
    }

    fn signal(&self, name: &str) {
        let sent = support::run("kill", &[name, &self.mount.id().to_string()]);
        assert!(sent.status.success(), "kill: {}", support::words(&sent));
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("what it said")
    }

    /// Waits until it says who is in its way: the program, its number and its file.
    fn says_who_uses_it(&self) {
        let wanted = format!("python3 ({}) uses {}", self.user.id(), self.at.join("f").display());
        support::until("word of who uses it", SOON, || self.said().contains(&wanted).then_some(()));
        assert!(self.said().contains("busy"), "{}", self.said());
    }

    /// Waits until it ends.
    fn ends(&mut self) -> ExitStatus {
        support::until("end", SOON, || self.mount.try_wait().expect("its end"))
    }

    /// Bytes that another client reads.
    fn has_all(&self) {
        let kept = self.cluster.weft(&["get", "/d/f", "-"]);
        assert_eq!(kept.stdout.len(), WRITTEN, "{}", support::words(&kept));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
        // The mount closes the user's open files, if it is there.
        for child in [&mut self.mount, &mut self.user] {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.said());
        }
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let at = at.to_str().expect("a plain path");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(at))
}

/// The first signal saves what was written, says who uses the mount, and ends it after them.
#[test]
fn a_busy_mount_ends_after_its_users() {
    for uid in [0, NOBODY] {
        let mut busy = Busy::start(uid);
        busy.signal("-TERM");
        busy.says_who_uses_it();
        assert!(busy.mount.try_wait().expect("no end").is_none() && is_mounted(&busy.at));
        busy.user.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
        assert!(busy.ends().success(), "{}", busy.said());
        assert!(!is_mounted(&busy.at));
        busy.has_all();
    }
}

/// Data written before the first signal are on the servers when the mount says so.
#[test]
fn a_signal_saves_what_was_written() {
    let mut busy = Busy::start(0);
    busy.signal("-INT");
    support::until("word of saving", SOON, || busy.said().contains("is saved").then_some(()));
    busy.mount.kill().expect("kill");
    busy.mount.wait().expect("its end");
    busy.has_all();
}

/// The second signal ends a mount that is in use, which loses nothing that was written.
#[test]
fn a_second_signal_ends_a_busy_mount() {
    for uid in [0, NOBODY] {
        let mut busy = Busy::start(uid);
        busy.signal("-TERM");
        busy.says_who_uses_it();
        busy.signal("-TERM");
        assert!(busy.ends().success(), "{}", busy.said());
        assert!(!is_mounted(&busy.at));
        busy.has_all();
    }
}

/// A command that waits for a client which does not answer says with which operation on which name.
#[test]
fn a_wait_is_named() {
    let busy = Busy::start(0);
    busy.signal("-STOP");
    support::until_stopped(busy.mount.id());
    let removed = busy.cluster.weft(&["rm", "/d/f"]);
    busy.signal("-CONT");
    let said = support::words(&removed);
    assert!(removed.status.success() && said.contains(": REMOVE of f: "), "{said}");
}

/// The second signal ends a mount whose server does not answer; the exit status says that
/// something was not saved.
#[test]
fn a_second_signal_tells_what_is_lost() {
    let mut busy = Busy::start(0);
    busy.cluster.pause();
    busy.signal("-TERM");
    busy.says_who_uses_it();
    busy.signal("-INT");
    assert_eq!(busy.ends().code(), Some(1), "{}", busy.said());
    assert!(busy.said().contains("not saved"), "{}", busy.said());
    assert!(!is_mounted(&busy.at));
}
