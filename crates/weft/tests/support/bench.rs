//! A cluster and a folder beside it, where the commands of users are run.

use std::{
    fs,
    io::Write,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use super::cluster::{Cluster, Options};

const MIB: usize = 1 << 20;
/// Longer than any of these commands waits for anything.
const LEASE: u32 = 3600;
/// Nobody is that slow.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// A cluster, and a folder to run commands in.
pub struct Bench {
    pub cluster: Cluster,
    pub dir: TempDir,
}

impl Bench {
    pub fn start() -> Bench {
        let options = Options {
            lease_seconds: LEASE,
            grace_seconds: LEASE,
            data_servers: 2,
            ..Options::default()
        };
        let dir = tempfile::tempdir().expect("a folder");
        Bench { cluster: Cluster::configured(options, ""), dir }
    }

    pub fn local(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a plain path").to_owned()
    }

    pub fn file(&self, name: &str, seed: u64, bytes: usize) -> String {
        let path = self.local(name);
        fs::write(&path, super::pattern(seed, bytes)).expect("a file");
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(super::weft_binary());
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env("WEFT_SERVER", format!("127.0.0.1:{}", self.cluster.port()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("weft starts")
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        ended(self.spawn(arguments))
    }

    pub fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        assert!(output.status.success(), "weft {arguments:?}: {}", super::words(&output));
        output.stdout
    }

    /// What it said; it must end with this status.
    pub fn fails(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = super::words(&output);
        assert_eq!(output.status.code(), Some(status), "weft {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub fn content(&self, remote: &str) -> Vec<u8> {
        self.ok(&["get", remote, "-"])
    }

    pub fn names(&self, remote: &str) -> Vec<String> {
        sorted_lines(&self.ok(&["ls", "-a", remote]))
    }

    /// Clients that the metadata server knows.
    pub fn clients(&self) -> u64 {
        let data = self.cluster.data_dir();
        let told = self.ok(&["status", "--json", "--dir", data.to_str().expect("a plain path")]);
        let status: Value = serde_json::from_slice(&told).expect("JSON");
        status["servers"][0]["clients"].as_u64().expect("a number")
    }

    /// A put of what is not there yet: it stands in the middle, with some of its bytes written.
    pub fn put_in_the_middle(&self, arguments: &[&str]) -> Child {
        let mut put = self.spawn(arguments);
        let mut stdin = put.stdin.take().expect("a pipe");
        stdin.write_all(&super::pattern(9, 9 * MIB)).expect("the put reads");
        put.stdin = Some(stdin);
        put
    }
}

pub fn sorted_lines(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The end of a process, which is not waited for without end.
pub fn ended(mut child: Child) -> Output {
    drop(child.stdin.take());
    let pid = child.id().to_string();
    let (done, waits) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        if waits.recv_timeout(PATIENCE).is_err() {
            super::run("kill", &["-KILL", &pid]);
        }
    });
    let output = child.wait_with_output().expect("wait");
    // It has ended already if it was killed.
    let _ = done.send(());
    watch.join().expect("the watch");
    output
}
