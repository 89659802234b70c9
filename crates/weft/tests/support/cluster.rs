//! A metadata server and its data servers in one process: started, asked, killed, started again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::{self, net::UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use weft::config::MdsConfig;

/// Time a server gets to say that it is serving, and to leave after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(60);
/// First and last port tried: below Linux's ephemeral range, so that no outgoing connection takes a
/// port between a kill and the restart.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Ports left to one cluster: the metadata server's, and room for its neighbours.
const PORTS_EACH: u16 = 20;

/// Name of the configuration, beside the data.
const CONFIG: &str = "mds.toml";

/// A configuration with every technique for small files off.
pub const ALL_OFF: &str = include_str!("all-off.toml");

/// How `weft up` is started.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub data_servers: usize,
    pub lease_seconds: u32,
    pub grace_seconds: u32,
    /// What the data servers keep in the page cache.
    pub cache: &'static str,
}

impl Default for Options {
    fn default() -> Self {
        Self { data_servers: 4, lease_seconds: 10, grace_seconds: 10, cache: "auto" }
    }
}

/// What one server moved and did since it started.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Payload bytes of WRITE.
    pub bytes_in: u64,
    /// Payload bytes of READ.
    pub bytes_out: u64,
    pub operations: BTreeMap<String, u64>,
    /// Files to come whose objects are made already.
    pub files_ahead: u64,
    /// FENCEs that the metadata server has sent to data servers.
    pub fences: u64,
}

/// `weft status --json`, by role.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub mds: Counters,
    /// By data-server id.
    pub data_servers: BTreeMap<u64, Counters>,
}

/// A running server; dropping it kills the process and removes its data.
pub struct Cluster {
    dir: TempDir,
    data: PathBuf,
    ports: Ports,
    options: Options,
    process: Option<Child>,
    admin: Option<PathBuf>,
}

/// A server that was started and has not said yet that it serves.
pub type Starting = mpsc::Receiver<String>;

impl Cluster {
    /// Starts a server on fresh data and waits until it serves. WEFT_TEST_CONFIG names a file with
    /// its configuration, to see whether tests hold with another than the default.
    pub fn start(options: Options) -> Self {
        let config = std::env::var_os("WEFT_TEST_CONFIG").map(|file| {
            std::fs::read_to_string(file).expect("the configuration WEFT_TEST_CONFIG names")
        });
        Self::configured(options, &config.unwrap_or_default())
    }

    /// The same with a configuration: the text of a file for `weft mds`.
    pub fn configured(options: Options, config: &str) -> Self {
        let mut cluster = Self::prepare(options, config);
        cluster.start_again();
        cluster
    }

    /// The same with its data on a disk of its own, mounted at `disk`.
    pub fn on_disk(options: Options, config: &str, disk: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("weft-test.").tempdir().expect("a folder");
        let mut cluster = Self::prepare_on(dir, disk.to_owned(), options, config);
        cluster.start_again();
        cluster
    }

    /// Folders and ports, but no process.
    pub fn prepare(options: Options, config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("weft-test.").tempdir().expect("a folder");
        let data = dir.path().join("data");
        Self::prepare_on(dir, data, options, config)
    }

    /// The same with the data in a folder of the caller's.
    pub fn prepare_on(dir: TempDir, data: PathBuf, options: Options, config: &str) -> Self {
        std::fs::write(dir.path().join(CONFIG), for_root(config)).expect("the configuration");
        Self { dir, data, ports: Ports::free(), options, process: None, admin: None }
    }

    /// The configuration it was given.
    pub fn config(&self) -> MdsConfig {
        MdsConfig::load(&self.dir.path().join(CONFIG)).expect("a configuration")
    }

    /// Gives it another configuration, from the next start on.
    pub fn configure(&self, config: &str) {
        std::fs::write(self.dir.path().join(CONFIG), for_root(config)).expect("the configuration");
    }

    /// Starts the process on the data and the port it had.
    pub fn start_again(&mut self) {
        let starting = self.spawn(&[]);
        self.serves(&starting);
    }

    /// The same with these variables in its environment; it may not serve yet.
    pub fn spawn(&mut self, environment: &[(&str, OsString)]) -> Starting {
        assert!(self.process.is_none(), "the server is running already");
        let log = File::options().create(true).append(true).open(self.log_path()).expect("log");
        let mut child = Command::new(super::weft_binary())
            .args(["up", "--json", "--listen", &format!("0.0.0.0:{}", self.ports.first)])
            .args(["--data-servers", &self.options.data_servers.to_string()])
            .args(["--lease", &self.options.lease_seconds.to_string()])
            .args(["--grace", &self.options.grace_seconds.to_string()])
            .args(["--cache", self.options.cache])
            .arg("--config")
            .arg(self.dir.path().join(CONFIG))
            .arg("--dir")
            .arg(self.data_dir())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("weft starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        self.process = Some(child);
        first_line(stdout)
    }

    /// Waits until it serves; where, as it says it.
    pub fn serves(&mut self, starting: &Starting) -> Value {
        let ready = match starting.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("weft up printed no ready line ({error})\n{}", self.log()),
        };
        let ready: Value = serde_json::from_str(&ready)
            .unwrap_or_else(|error| panic!("weft up --json printed {ready:?}: {error}"));
        assert_eq!(address(&ready["mds"]).port(), self.ports.first, "not the port asked for");
        let data_servers = ready["data_servers"].as_array().map_or(0, Vec::len);
        assert_eq!(data_servers, self.options.data_servers, "in {ready}");
        self.admin = Some(ready["admin"].as_str().expect("a socket").into());
        ready
    }

    /// Stops the process as SIGSTOP does, and waits until none of its threads runs.
    pub fn pause(&self) {
        let sent = super::run("kill", &["-STOP", &self.pid().to_string()]);
        assert!(sent.status.success(), "kill: {}", super::words(&sent));
        super::until_stopped(self.pid());
    }

    /// Port of the metadata server, on every address of this machine.
    pub fn port(&self) -> u16 {
        self.ports.first
    }

    /// Its process id, which changes when it is started again.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server is running").id()
    }

    /// What a URL of the admin service says; the status code is not looked at.
    pub fn admin_get(&self, path: &str) -> String {
        super::admin_get(self.admin_socket(), path)
    }

    /// Unix socket of the admin service.
    pub fn admin_socket(&self) -> &Path {
        self.admin.as_deref().expect("the server has been started")
    }

    /// Folder of the server's data.
    pub fn data_dir(&self) -> PathBuf {
        self.data.clone()
    }

    /// Runs the `weft` command against this server.
    pub fn weft(&self, arguments: &[&str]) -> Output {
        Command::new(super::weft_binary())
            .args(arguments)
            .env("WEFT_SERVER", format!("127.0.0.1:{}", self.ports.first))
            .stdin(Stdio::null())
            .output()
            .expect("weft starts")
    }

    /// What every server has counted so far.
    pub fn status(&self) -> Status {
        let admin = self.admin_socket().to_str().expect("a plain path");
        let output = self.weft(&["status", "--json", "--admin", admin]);
        assert!(output.status.success(), "weft status: {}", super::words(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let status: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("weft status --json printed {text:?}: {error}"));
        parse_status(&status)
    }

    /// Kills the process as a power cut would: no handler runs.
    pub fn kill9(&mut self) {
        let mut process = self.process.take().expect("the server is running");
        process.kill().expect("kill");
        process.wait().expect("wait");
    }

    /// Asks the process to leave (SIGTERM) and expects exit status 0.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("the server is running");
        let killed = super::run("kill", &["-TERM", &process.id().to_string()]);
        assert!(killed.status.success(), "kill: {}", super::words(&killed));
        let waited = std::time::Instant::now();
        loop {
            if let Some(status) = process.try_wait().expect("wait") {
                assert!(status.success(), "after SIGTERM: {status}\n{}", self.log());
                return;
            }
            if waited.elapsed() > PATIENCE {
                process.kill().expect("kill");
                process.wait().expect("wait");
                panic!("the server ignores SIGTERM\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the process has ended by itself; its status.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        let mut process = self.process.take().expect("the server is running");
        let waited = std::time::Instant::now();
        loop {
            match process.try_wait().expect("wait") {
                Some(status) => return status,
                None if waited.elapsed() > PATIENCE => {
                    process.kill().expect("kill");
                    process.wait().expect("wait");
                    panic!("the server does not end\n{}", self.log());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Expects `weft fsck` to find nothing amiss in the volume of the server, which is down: what
    /// it left behind needs no repair, and nothing is left that belongs to no file.
    pub fn is_clean(&self) {
        assert!(self.process.is_none(), "the server is running");
        let data = self.data_dir();
        let checked = self.weft(&["fsck", "--dir", data.to_str().expect("a plain path")]);
        let said = String::from_utf8_lossy(&checked.stdout);
        let clean = checked.status.success() && said.ends_with("clean\n");
        assert!(clean, "weft fsck: {}", super::words(&checked));
    }

    /// Kill and start again on the same data and port.
    pub fn restart(&mut self) {
        self.kill9();
        self.start_again();
    }

    /// The end of what the server logged.
    pub fn log(&self) -> String {
        let text = std::fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        format!("server log:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"))
    }

    pub fn log_path(&self) -> std::path::PathBuf {
        self.dir.path().join("server.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Nothing more can be done about a process that cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// The configuration with what tests need beside it, unless they say themselves who may do what:
/// root of guests is root, and who has more connections than there are privileged ports is
/// believed.
fn for_root(config: &str) -> String {
    let says_so = config.contains("[export]");
    format!("{config}\n{}", if says_so { "" } else { super::ROOT_MAY_EVERYTHING })
}

/// The one line on stdout that says where the server listens; an error once there will be none.
fn first_line(stdout: ChildStdout) -> Starting {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        // An error or the end of the stream is told apart from silence by the channel closing.
        if let Some(Ok(line)) = lines.next()
            && sender.send(line).is_ok()
        {
            lines.for_each(drop); // keeps the pipe open and empty as long as the server lives
        }
    });
    receiver
}

/// How many files there are in folders of this name below a folder, and in theirs.
pub fn files_below(dir: &Path, name: &str) -> usize {
    fn count(dir: &Path, name: &str, counts: bool) -> usize {
        let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
        let entries = entries.flatten().map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                count(&entry.path(), name, counts || entry.file_name() == name)
            }
            _ => usize::from(counts),
        });
        entries.sum()
    }
    count(dir, name, false)
}

/// The total length of all files below a folder: what a data server holds.
pub fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => bytes_below(&entry.path()),
            Ok(facts) => facts.len(),
            Err(_) => 0, // removed meanwhile
        })
        .sum()
}

fn parse_status(status: &Value) -> Status {
    let mut parsed = Status::default();
    for server in status["servers"].as_array().expect("servers") {
        let counters = Counters {
            bytes_in: number(&server["bytes_in"]),
            bytes_out: number(&server["bytes_out"]),
            operations: server["operations"]
                .as_object()
                .expect("operations")
                .iter()
                .map(|(name, count)| (name.clone(), number(count)))
                .collect(),
            files_ahead: server["files_ahead"].as_u64().unwrap_or(0),
            fences: server["control_messages"]["FENCE"].as_u64().unwrap_or(0),
        };
        match server["role"].as_str() {
            Some("mds") => parsed.mds = counters,
            Some("ds") => {
                parsed.data_servers.insert(number(&server["id"]), counters);
            }
            role => panic!("a server of role {role:?} in {status}"),
        }
    }
    parsed
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

fn address(value: &Value) -> SocketAddr {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value} is not an address"))
}

/// A row of ports that no other cluster of this or another test process uses, also while its
/// servers are down. Told to others by a name that the system forgets with the process.
pub struct Ports {
    pub first: u16,
    _claim: UnixListener,
}

impl Ports {
    /// One of which no port is in use by anybody.
    pub fn free() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let rows = (PORTS.end - PORTS.start) / PORTS_EACH;
        let start = u16::try_from(std::process::id() % u32::from(rows)).expect("less than rows");
        for _ in 0..rows {
            let row = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % rows;
            let first = PORTS.start + row * PORTS_EACH;
            if let Some(_claim) = claim(first)
                && (first..first + PORTS_EACH).all(|p| TcpListener::bind(("0.0.0.0", p)).is_ok())
            {
                return Self { first, _claim };
            }
        }
        panic!("no free row of {PORTS_EACH} ports in {PORTS:?}");
    }
}

fn claim(first: u16) -> Option<UnixListener> {
    let name = format!("weft-test-ports-{first}");
    let name = unix::net::SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&name).ok()
}
