//! A cluster of separate processes on this machine: `weft mds` and a `weft ds` for each data
//! server, each with a folder of its own, so that each can be killed, stopped and filled alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::cluster::Ports;
use super::namespaces::Network;

/// Time for servers to serve, after whatever happened to them.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "0123456789abcdef0123456789abcdef\n";
/// Below it a lease is refused, and grace too.
const LEASE_SECONDS: u32 = 10;

/// The switch between clients and servers.
pub const DATA_WIRES: u8 = 0;
/// The switch between the metadata server and the data servers.
pub const CONTROL_WIRES: u8 = 1;

/// How a cluster is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub data_servers: u32,
    /// Data servers of one file.
    pub stripe_width: u32,
    /// Whether each file is whole on one data server, and clients are given flexfiles layouts.
    pub flexfiles: bool,
    /// Size of the metadata server's own disk in MiB, if it gets one.
    pub mds_disk_mib: Option<u32>,
    /// The same for each data server: new files pass over one that has far less room than others.
    pub ds_disk_mib: Option<u32>,
    /// Whether each server is a machine of its own (see [`Servers::network`]).
    pub wired: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            data_servers: 4,
            stripe_width: 4,
            flexfiles: false,
            mds_disk_mib: None,
            ds_disk_mib: None,
            wired: false,
        }
    }
}

/// What a server is started with beside its configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct With<'a> {
    pub arguments: &'a [&'a str],
    pub environment: &'a [(&'static str, OsString)],
    /// Lines of a data server's configuration.
    pub config: &'a str,
}

/// The processes; dropping it kills them and removes their data.
pub struct Servers {
    dir: TempDir,
    ports: Ports,
    plan: Plan,
    running: BTreeMap<String, Child>,
    disks: Vec<PathBuf>,
    network: Option<Network>,
    /// Who stands between the metadata server and a data server.
    between: BTreeMap<u32, SocketAddr>,
    /// Ports by which clients come to data servers, if not their own.
    doors: BTreeMap<u32, u16>,
    /// More lines of the metadata server's `[export]`.
    export: String,
}

impl Servers {
    /// Starts all of them on fresh data and waits until every one is reached.
    pub fn start(plan: Plan) -> Self {
        let mut servers = Self::prepare(plan);
        for id in 1..=plan.data_servers {
            servers.start_ds(id);
        }
        servers.start_mds();
        servers.until_reachable(plan.data_servers);
        servers
    }

    /// Folders, secret, ports and an empty volume, but no process.
    pub fn prepare(plan: Plan) -> Self {
        let dir = tempfile::Builder::new().prefix("weft-faults.").tempdir().expect("a folder");
        let ports = Ports::free();
        let network = plan.wired.then(|| network(plan.data_servers));
        let mut servers = Self {
            dir,
            ports,
            plan,
            running: BTreeMap::new(),
            disks: Vec::new(),
            network,
            between: BTreeMap::new(),
            doors: BTreeMap::new(),
            export: String::new(),
        };
        servers.write_secret("secret", SECRET);
        let data_servers = (1..=plan.data_servers).map(|id| (ds(id), plan.ds_disk_mib));
        for (name, mib) in data_servers.chain([("mds".to_owned(), plan.mds_disk_mib)]) {
            if let Some(mib) = mib {
                servers.mount_disk(&name, mib);
            }
        }
        servers.init_mds();
        servers
    }

    /// A file that is a cluster secret.
    pub fn write_secret(&self, name: &str, secret: &str) {
        let path = self.path(name);
        std::fs::write(&path, secret).expect("a secret");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("a private secret");
    }

    /// Makes the volume of the metadata server, which has none.
    pub fn init_mds(&self) {
        let config = self.path("mds.toml");
        std::fs::write(&config, self.mds_config(|_| true)).expect("a configuration");
        let made = self.weft(&["init", "--config", config.to_str().expect("a plain path")]);
        assert!(made.status.success(), "weft init: {}", super::words(&made));
    }

    /// Starts the metadata server on the data it had.
    pub fn start_mds(&mut self) {
        self.start_mds_with(With::default());
    }

    /// The same, with more than that.
    pub fn start_mds_with(&mut self, with: With<'_>) {
        let text = self.mds_config(|_| true);
        self.spawn_with("mds", "mds", &text, with);
    }

    /// Starts a metadata server that does not know of this data server, and waits for its end.
    pub fn mds_without(&self, id: u32) -> Output {
        let path = self.path("without.toml");
        std::fs::write(&path, self.mds_config(|one| one != id)).expect("a configuration");
        let mut command = Command::new("timeout");
        command.arg("60").arg(super::weft_binary()).args(["mds", "--config"]).arg(&path);
        command.output().expect("weft starts")
    }

    fn mds_config(&self, has: impl Fn(u32) -> bool) -> String {
        let mut text = self.config("mds", self.ports.first, "secret");
        text += &format!("admin_socket = \"{}\"\n", self.admin_socket().display());
        let ids: Vec<u32> = (1..=self.plan.data_servers).filter(|id| has(*id)).collect();
        let width = ids.len().min(self.plan.stripe_width as usize);
        text += &format!("lease_s = {LEASE_SECONDS}\n");
        text += &match self.plan.flexfiles {
            true => "layout_type = \"flexfiles\"\n".to_owned(),
            false => format!("stripe_width = {width}\n"),
        };
        for id in ids {
            let (port, place) = (self.ds_port(id), id as usize + 1);
            let (control, data) = match self.network {
                // To a wildcard address, clients are told the one by which they came.
                None => ("127.0.0.1".to_owned(), "0.0.0.0".to_owned()),
                Some(_) => {
                    (format!("10.212.{CONTROL_WIRES}.{place}"), Network::address(id as usize))
                }
            };
            let reached = format!("{control}:{port}");
            let control = self.between.get(&id).map_or(reached, SocketAddr::to_string);
            text += &format!(
                "[[data_server]]\nid = {id}\ncontrol = \"{control}\"\n\
                 addresses = [\"{data}:{}\"]\n",
                self.doors.get(&id).unwrap_or(&port)
            );
        }
        text + super::ROOT_MAY_EVERYTHING + &self.export
    }

    /// New files are striped over this many data servers from now on; nothing is restarted.
    pub fn stripe_over(&mut self, width: u32) {
        self.plan.stripe_width = width;
        let read = || self.logs_of("mds").matches("was read again").count();
        let before = read();
        std::fs::write(self.path("mds.toml"), self.mds_config(|_| true)).expect("a configuration");
        self.signal("mds", "HUP");
        super::until("another width", PATIENCE, || (read() > before).then_some(()));
    }

    /// The metadata server reaches this data server only by way of that address, once it is
    /// started again.
    pub fn reach_by(&mut self, id: u32, address: SocketAddr) {
        self.between.insert(id, address);
    }

    /// Clients are told this port of a data server, once the metadata server is started again.
    pub fn clients_come_by(&mut self, id: u32, port: u16) {
        self.doors.insert(id, port);
    }

    /// More lines of the metadata server's `[export]`, once it is started again.
    pub fn export(&mut self, lines: &str) {
        lines.clone_into(&mut self.export);
    }

    /// Where a data server listens.
    pub fn ds_address(&self, id: u32) -> SocketAddr {
        ([127, 0, 0, 1], self.ds_port(id)).into()
    }

    /// Starts a data server on the data it had.
    pub fn start_ds(&mut self, id: u32) {
        self.start_ds_as(id, id, "secret");
    }

    /// Starts a data server that accepts this volume once, whatever it knows of it.
    pub fn start_ds_adopting(&mut self, id: u32, volume: &str) {
        self.start_ds_with(id, With { arguments: &["--adopt", volume], ..With::default() });
    }

    /// Starts a data server on the data it had, with more than its configuration.
    pub fn start_ds_with(&mut self, id: u32, with: With<'_>) {
        let name = ds(id);
        let common = self.config(&name, self.ds_port(id), "secret");
        // Half of them write past the page cache, where the disk can.
        let cache = if id.is_multiple_of(2) { "direct" } else { "auto" };
        let text = format!("{common}id = {id}\ncache = \"{cache}\"\n{}", with.config);
        self.spawn_with("ds", &name, &text, with);
    }

    /// Starts the data server at the place of `place` with another number or secret.
    pub fn start_ds_as(&mut self, place: u32, id: u32, secret: &str) {
        let name = ds(place);
        let text = format!("{}id = {id}\n", self.config(&name, self.ds_port(place), secret));
        self.spawn("ds", &name, &text);
    }

    /// Kills as a power cut would.
    pub fn kill9(&mut self, name: &str) {
        let mut process = self.running.remove(name).expect("it is running");
        process.kill().expect("kill");
        process.wait().expect("wait");
    }

    /// Ends a server in order, as its service manager does, and waits for that.
    pub fn stop(&mut self, name: &str) {
        self.signal(name, "TERM");
        let mut process = self.running.remove(name).expect("it is running");
        let ended = process.wait().expect("wait");
        assert!(ended.success(), "{name}: {ended}{}", self.logs());
    }

    /// Kills the metadata server and starts it again at once.
    pub fn restart_mds(&mut self) {
        self.kill9("mds");
        self.start_mds();
    }

    /// Stops a server as SIGSTOP does, and waits until none of its threads runs any more: the
    /// signal alone returns before that.
    pub fn pause(&self, name: &str) {
        self.signal(name, "STOP");
        super::until_stopped(self.pid(name));
    }

    /// Process id of a server that was started.
    pub fn pid(&self, name: &str) -> u32 {
        self.running[name].id()
    }

    /// Lets a paused server go on.
    pub fn resume(&self, name: &str) {
        self.signal(name, "CONT");
    }

    fn signal(&self, name: &str, signal: &str) {
        let pid = self.running[name].id().to_string();
        let sent = super::run("kill", &[&format!("-{signal}"), &pid]);
        assert!(sent.status.success(), "kill: {}", super::words(&sent));
    }

    /// Port of the metadata server, on every address of this machine.
    pub fn port(&self) -> u16 {
        self.ports.first
    }

    /// A path in this cluster's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Folder of a server's data.
    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.data"))
    }

    /// Fills a server's own disk until only this many bytes are left; removing the file that is
    /// returned makes room.
    pub fn fill(&self, name: &str, left: usize) -> PathBuf {
        let dir = self.data_dir(name);
        let told = super::run("df", &["-B1", "--output=avail", dir.to_str().expect("plain")]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let available: usize = told.lines().nth(1).expect("df").trim().parse().expect("a number");
        let filler = dir.join("filler");
        match std::fs::write(&filler, vec![0; available.saturating_sub(left)]) {
            // Others wrote more than that since the room was measured: now it is all taken.
            Err(e) if e.kind() == ErrorKind::StorageFull => {
                let file = File::options().write(true).open(&filler).expect("the filler");
                let len = file.metadata().expect("its size").len();
                file.set_len(len.saturating_sub(left as u64)).expect("room");
            }
            written => written.expect("the filler"),
        }
        filler
    }

    /// Object files of a data server: number and bytes.
    pub fn objects(&self, id: u32) -> (usize, u64) {
        let mut found = (0, 0);
        count_objects(&self.data_dir(&ds(id)).join("objects"), &mut found);
        found
    }

    /// The `weft` command against this cluster, to be run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program("client");
        command
            .args(arguments)
            .env("WEFT_SERVER", format!("{}:{}", self.mds_host(), self.ports.first))
            .env("WEFT_ADMIN", self.admin_socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the `weft` command.
    pub fn weft(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("weft starts")
    }

    /// The same, which must succeed.
    pub fn weft_ok(&self, arguments: &[&str]) -> String {
        let output = self.weft(arguments);
        let log = || self.logs();
        assert!(output.status.success(), "weft {arguments:?}: {}{}", super::words(&output), log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same, which must fail; what it said.
    pub fn weft_fails(&self, arguments: &[&str]) -> String {
        let output = self.weft(arguments);
        assert!(!output.status.success(), "weft {arguments:?} succeeded{}", self.logs());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A local file of these many bytes, a pattern of this seed.
    pub fn source(&self, seed: u64, bytes: usize) -> String {
        let path = self.path(&format!("source-{seed}"));
        std::fs::write(&path, super::pattern(seed, bytes)).expect("a source file");
        path.to_str().expect("a plain path").to_owned()
    }

    /// Gets a file and compares it with the pattern.
    pub fn verify(&self, remote: &str, seed: u64, bytes: usize) {
        let copy = self.path(&format!("copy-{}", remote.replace('/', "-")));
        self.weft_ok(&["get", remote, copy.to_str().expect("a plain path")]);
        let got = std::fs::read(&copy).expect("the copy");
        std::fs::remove_file(&copy).expect("the copy");
        assert_eq!(got.len(), bytes, "{remote} has another length{}", self.logs());
        let same = got == super::pattern(seed, bytes);
        assert!(same, "{remote} has other bytes than were put{}", self.logs());
    }

    /// `weft stat --json`.
    pub fn stat(&self, remote: &str) -> Value {
        let text = self.weft_ok(&["stat", "--json", remote]);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("weft stat printed {text:?}: {e}"))
    }

    /// The data server of a file that is on one only.
    pub fn home_of(&self, remote: &str) -> u32 {
        let stat = self.stat(remote);
        let id = stat["layout"]["stripes"][0]["data_server_id"].as_u64();
        id.and_then(|id| u32::try_from(id).ok()).unwrap_or_else(|| panic!("no home in {stat}"))
    }

    /// `weft status --json`, by name: whether it is reached and why not.
    /// Nothing while the metadata server does not answer.
    pub fn status(&self) -> BTreeMap<u64, (bool, String)> {
        self.answered_status().unwrap_or_default()
    }

    fn answered_status(&self) -> Option<BTreeMap<u64, (bool, String)>> {
        let output = self.weft(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).ok().map(|status| reachable(&status))
    }

    /// What a URL of the admin service says; the status code is not looked at.
    pub fn admin_get(&self, path: &str) -> String {
        super::admin_get(&self.admin_socket(), path)
    }

    /// Answer of `/health`.
    pub fn health(&self) -> Value {
        let told = self.admin_get("/health");
        let body = told.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|e| panic!("/health said {told:?}: {e}"))
    }

    /// How many times a server has said that it serves.
    pub fn served(&self, name: &str) -> usize {
        self.logs_of(name).matches("serving on").count()
    }

    /// Waits until the metadata server serves and reaches this many data servers.
    pub fn until_reachable(&self, count: u32) {
        super::until("answer from all servers", PATIENCE, || {
            let status = self.answered_status()?;
            let reached = status.values().filter(|(reached, _)| *reached).count();
            (reached == count as usize).then_some(())
        });
        // Not within grace either.
        self.weft_ok(&["ls", "/"]);
    }

    /// What every server logged.
    pub fn logs(&self) -> String {
        let names = (1..=self.plan.data_servers).map(ds).chain(["mds".into()]);
        let tail = |name: String| {
            let text = std::fs::read(self.log_path(&name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            format!("\n{name}:\n{}", lines[lines.len().saturating_sub(12)..].join("\n"))
        };
        names.map(tail).collect()
    }

    /// What one of them logged.
    pub fn logs_of(&self, name: &str) -> String {
        let text = std::fs::read(self.log_path(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    /// The machines: `mds`, `ds1`, `ds2`, …, and `client`, behind which a guest goes. All are on
    /// [`DATA_WIRES`]; on [`CONTROL_WIRES`] the metadata server reaches its data servers.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("machines were planned")
    }

    /// Address of the metadata server as its clients know it.
    pub fn mds_host(&self) -> String {
        match self.network {
            None => "127.0.0.1".to_owned(),
            Some(_) => Network::address(0),
        }
    }

    /// Checks everything with `weft fsck`; no server may be running.
    pub fn fsck(&self) {
        assert!(self.running.is_empty(), "servers are running");
        let mut fsck = Command::new(super::weft_binary());
        fsck.args(["fsck", "--mds"]).arg(self.data_dir("mds"));
        for id in 1..=self.plan.data_servers {
            fsck.arg("--ds").arg(self.data_dir(&ds(id)));
        }
        let checked = fsck.output().expect("weft starts");
        let clean = checked.status.success() && checked.stdout.ends_with(b"clean\n");
        assert!(clean, "weft fsck: {}{}", super::words(&checked), self.logs());
    }

    /// The binary, on this machine or on the named one.
    fn program(&self, machine: &str) -> Command {
        match &self.network {
            None => Command::new(super::weft_binary()),
            Some(network) => network.command(machine, &super::weft_binary()),
        }
    }

    /// Unix socket of the admin service.
    pub fn admin_socket(&self) -> PathBuf {
        self.path("admin.sock")
    }

    fn ds_port(&self, id: u32) -> u16 {
        self.ports.first + 1 + u16::try_from(id).expect("few data servers")
    }

    fn config(&self, name: &str, port: u16, secret: &str) -> String {
        format!(
            "listen = \"0.0.0.0:{port}\"\ndir = \"{}\"\ncluster_secret_file = \"{}\"\n",
            self.data_dir(name).display(),
            self.path(secret).display(),
        )
    }

    fn spawn(&mut self, role: &str, name: &str, config: &str) {
        self.spawn_with(role, name, config, With::default());
    }

    fn spawn_with(&mut self, role: &str, name: &str, config: &str, with: With<'_>) {
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, config).expect("a configuration");
        let log = File::options().create(true).append(true).open(self.log_path(name));
        let log = log.expect("a log");
        let process = self
            .program(name)
            .args([role, "--config"])
            .arg(&path)
            .args(with.arguments)
            .envs(with.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("weft starts");
        let before = self.running.insert(name.to_owned(), process);
        assert!(before.is_none(), "{name} is running already");
    }

    fn mount_disk(&mut self, name: &str, mib: u32) {
        super::require_root("a disk of its own");
        let dir = self.data_dir(name);
        std::fs::create_dir(&dir).expect("a folder");
        let at = dir.to_str().expect("a plain path");
        let mounted =
            super::run("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs", at]);
        assert!(mounted.status.success(), "mount: {}", super::words(&mounted));
        self.disks.push(dir);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in self.running.values_mut() {
            // Nothing more can be done about a process that cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
        for disk in &self.disks {
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

fn network(data_servers: u32) -> Network {
    let names: Vec<String> = (1..=data_servers).map(ds).collect();
    let servers: Vec<&str> =
        std::iter::once("mds").chain(names.iter().map(String::as_str)).collect();
    let mut network = Network::new(&[&servers[..], &["client"]].concat());
    network.wire(CONTROL_WIRES, &servers);
    network.route_through("client", servers.len(), &servers);
    network
}

/// The servers of a status, by number: whether each is reached and why not.
pub fn reachable(status: &Value) -> BTreeMap<u64, (bool, String)> {
    let servers = status["servers"].as_array().cloned().unwrap_or_default();
    let facts = |s: &Value| {
        let why = s["error"].as_str().unwrap_or_default().to_owned();
        Some((s["id"].as_u64()?, (s["reachable"].as_bool()?, why)))
    };
    servers.iter().filter_map(facts).collect()
}

/// The name of a data server.
pub fn ds(id: u32) -> String {
    format!("ds{id}")
}

fn count_objects(dir: &Path, found: &mut (usize, u64)) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(facts) if facts.is_dir() => count_objects(&entry.path(), found),
            Ok(facts) => {
                found.0 += 1;
                found.1 += facts.len();
            }
            Err(_) => {} // removed meanwhile
        }
    }
}
