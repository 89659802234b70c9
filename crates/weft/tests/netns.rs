//! Separate processes on separate machines: a metadata server, two data servers and a client, each
//! in a network namespace of its own, joined by a switch.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use support::cluster::bytes_below;
use support::namespaces::Network;

const MACHINES: [&str; 4] = ["mds", "ds1", "ds2", "client"];
const NFS_PORT: u16 = 2049;
const FILE_BYTES: usize = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// The servers of one test; dropping it kills them.
struct Servers {
    network: Network,
    dir: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // `ip netns exec` has become the server itself: this is its process id.
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            for machine in &MACHINES[..3] {
                let log = std::fs::read_to_string(self.dir.path().join(format!("{machine}.log")));
                eprintln!("{machine}: {}", log.unwrap_or_default());
            }
        }
    }
}

impl Servers {
    fn start() -> Self {
        let network = Network::new(&MACHINES);
        let dir = tempfile::Builder::new().prefix("weft-netns.").tempdir().expect("a folder");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").expect("a cluster secret");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&secret, private).expect("a private secret");
        let mut servers = Self { network, dir, processes: Vec::new() };
        for id in [1, 2] {
            let text = servers.data_server_config(id);
            servers.spawn("ds", &format!("ds{id}"), &text);
        }
        let text = servers.metadata_server_config();
        servers.init(&text);
        servers.spawn("mds", "mds", &text);
        servers
    }

    fn data_dir(&self, machine: &str) -> PathBuf {
        self.dir.path().join(format!("{machine}.data"))
    }

    fn common_config(&self, machine: &str, number: usize) -> String {
        format!(
            "listen = \"{}:{NFS_PORT}\"\ndir = \"{}\"\ncluster_secret_file = \"{}\"\n",
            Network::address(number),
            self.data_dir(machine).display(),
            self.dir.path().join("secret").display(),
        )
    }

    fn data_server_config(&self, id: usize) -> String {
        format!("{}id = {id}\n", self.common_config(&format!("ds{id}"), id))
    }

    fn metadata_server_config(&self) -> String {
        let mut text = self.common_config("mds", 0);
        for id in [1, 2] {
            let address = format!("{}:{NFS_PORT}", Network::address(id));
            text += &format!(
                "[[data_server]]\nid = {id}\ncontrol = \"{address}\"\naddresses = [\"{address}\"]\n"
            );
        }
        text += support::ROOT_MAY_EVERYTHING;
        text
    }

    /// Makes the volume of the metadata server.
    fn init(&self, config: &str) {
        let path = self.dir.path().join("mds.toml");
        std::fs::write(&path, config).expect("a configuration");
        self.weft_ok(&["init", "--config", path.to_str().expect("a plain path")]);
    }

    fn spawn(&mut self, role: &str, machine: &str, config: &str) {
        let path = self.dir.path().join(format!("{machine}.toml"));
        std::fs::write(&path, config).expect("a configuration");
        let log =
            std::fs::File::create(self.dir.path().join(format!("{machine}.log"))).expect("log");
        let process = self
            .network
            .command(machine, &support::weft_binary())
            .args([role, "--config"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("ip starts");
        self.processes.push(process);
    }

    /// Runs the `weft` command on the client machine.
    fn weft(&self, arguments: &[&str]) -> Output {
        self.network
            .command("client", &support::weft_binary())
            .args(arguments)
            .env("WEFT_SERVER", format!("{}:{NFS_PORT}", Network::address(0)))
            .stdin(Stdio::null())
            .output()
            .expect("ip starts")
    }

    fn weft_ok(&self, arguments: &[&str]) {
        let output = self.weft(arguments);
        assert!(output.status.success(), "weft {arguments:?}: {}", support::words(&output));
    }

    fn until_serving(&self) {
        let mut last = None;
        let serving = || {
            let output = self.weft(&["ls", "/"]);
            let done = output.status.success().then_some(());
            last = Some(output);
            done
        };
        support::until("answer from the servers", PATIENCE, serving);
    }
}

/// A client on a third machine puts and gets a file that both data servers hold a half of.
#[test]
fn separate_servers_share_the_bytes() {
    let servers = Servers::start();
    servers.until_serving();
    let source = servers.dir.path().join("source");
    let copy = servers.dir.path().join("copy");
    std::fs::write(&source, support::pattern(1, FILE_BYTES)).expect("a source file");
    servers.weft_ok(&["mkdir", "/folder"]);
    servers.weft_ok(&["put", plain(&source), "/folder/file"]);
    servers.weft_ok(&["get", "/folder/file", plain(&copy)]);
    let copied = std::fs::read(&copy).expect("the copy");
    assert!(copied == support::pattern(1, FILE_BYTES), "the copy differs from the source");
    for machine in ["ds1", "ds2"] {
        let held = bytes_below(&servers.data_dir(machine));
        assert!(held >= (FILE_BYTES as u64) * 2 / 5, "{machine} holds {held} bytes");
    }
    servers.weft_ok(&["mv", "/folder/file", "/moved"]);
    servers.weft_ok(&["stat", "/moved"]);
    servers.weft_ok(&["rm", "/moved"]);
    assert!(!servers.weft(&["stat", "/moved"]).status.success(), "a removed file is still there");
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}
