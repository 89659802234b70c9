//! The servers under test: `weft up` in a process of its own.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde::Deserialize;
use weft_client::{
    fs::{Client, ClientOptions},
    io::IoPolicy,
};
use weft_server::report::ClusterStatus;

use crate::{
    outcome::Outcome,
    process::Process,
    report::{Cpu, Sample},
    weft::Weft,
};

/// How long servers may take to stop when asked.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at that.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// More clients than there are privileged ports do the work as root.
const EXPORT: &str = "[export]\nroot_squash = false\nprivileged_ports = false\n";

/// Where running servers are, as `weft up --json` prints it.
#[derive(Debug, Deserialize)]
struct Endpoints {
    mds: SocketAddr,
    admin: PathBuf,
}

/// A metadata server and data servers, running.
pub(crate) struct Servers {
    weft: Weft,
    child: Child,
    endpoints: Endpoints,
    dir: PathBuf,
}

impl Servers {
    /// Starts them on an empty directory.
    ///
    /// # Errors
    /// They do not start.
    pub(crate) fn start(weft: &Weft, dir: &Path, data_servers: u32) -> Outcome<Servers> {
        Self::start_with(weft, dir, data_servers, "")
    }

    /// The same with settings of the metadata server, as its configuration file has them.
    ///
    /// # Errors
    /// They do not start.
    pub(crate) fn start_with(
        weft: &Weft,
        dir: &Path,
        data_servers: u32,
        settings: &str,
    ) -> Outcome<Servers> {
        std::fs::create_dir_all(dir)?;
        let config = dir.join("bench.toml");
        std::fs::write(&config, format!("{settings}\n{EXPORT}"))?;
        let mut child = weft
            .command()
            .args(["up", "--json", "--listen", "127.0.0.1:0", "--dir"])
            .arg(dir)
            .args(["--data-servers", &data_servers.to_string(), "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no output of the servers")?;
        BufReader::new(stdout).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(endpoints) => {
                Ok(Servers { weft: weft.clone(), child, endpoints, dir: dir.to_path_buf() })
            }
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("the servers did not start: {e}").into())
            }
        }
    }

    /// The process of all of them.
    pub(crate) fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// Where clients connect.
    pub(crate) fn mds(&self) -> SocketAddr {
        self.endpoints.mds
    }

    /// Where the data servers have their sockets for clients of this host.
    pub(crate) fn local_sockets(&self) -> PathBuf {
        self.dir.join("local")
    }

    /// A new client with a session of its own, which keeps nothing: servers are measured.
    ///
    /// # Errors
    /// It cannot connect.
    pub(crate) async fn client(&self) -> Outcome<Client> {
        let policy = IoPolicy::direct();
        self.client_with(ClientOptions { policy, ..ClientOptions::default() }).await
    }

    /// The same with options.
    ///
    /// # Errors
    /// It cannot connect.
    pub(crate) async fn client_with(&self, options: ClientOptions) -> Outcome<Client> {
        Ok(Client::connect(self.mds(), options).await?)
    }

    /// What each server says it has done. Asking is itself a message to every data server.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn status(&self) -> Outcome<ClusterStatus> {
        Ok(serde_json::from_slice(&self.admin(&["status", "--json"])?)?)
    }

    /// Sets the write threshold; opens from now on are told.
    ///
    /// # Errors
    /// No answer, or it is refused.
    pub(crate) fn set_threshold(&self, bytes: u64) -> Outcome {
        self.admin(&["threshold", &bytes.to_string()]).map(drop)
    }

    /// What a command of the administrator prints.
    fn admin(&self, command: &[&str]) -> Outcome<Vec<u8>> {
        let mut asked = self.weft.command();
        let asked = asked.args(command).arg("--admin").arg(&self.endpoints.admin).output()?;
        if !asked.status.success() {
            return Err(String::from_utf8_lossy(&asked.stderr).into());
        }
        Ok(asked.stdout)
    }
}

/// What work costs the servers and this process from here on.
pub(crate) struct Meter {
    server: Process,
    own_before_s: f64,
    server_before_s: f64,
}

impl Meter {
    /// Starts to count.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn start(servers: &Servers) -> Outcome<Meter> {
        let server = servers.process();
        let (own_before_s, server_before_s) = (Process::own().cpu_s()?, server.cpu_s()?);
        Ok(Meter { server, own_before_s, server_before_s })
    }

    /// The rate of an amount that was done in some seconds, with its costs.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn rate(self, amount: f64, wall_s: f64) -> Outcome<Sample> {
        let client_s = Process::own().cpu_s()? - self.own_before_s;
        let cpu = Cpu { server_s: self.server.cpu_s()? - self.server_before_s, client_s };
        Ok(Sample::rate(amount, wall_s, cpu).with_rss(self.server.peak_rss_bytes()?))
    }
}

impl Drop for Servers {
    /// Stops the servers and removes what they stored.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let started = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if started.elapsed() > STOP_PATIENCE {
                eprintln!("weft-bench: the servers do not stop: killed");
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
