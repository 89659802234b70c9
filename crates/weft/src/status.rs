//! `weft status`: what each server has done.

use std::{
    error::Error,
    io::{ErrorKind, Write},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use serde::de::DeserializeOwned;
use weft_server::report::{ClusterStatus, IndirectStatus, ServerStatus};

use crate::{endpoints::Endpoints, threshold::in_words};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Where the metadata server listens for administrators unless told otherwise.
pub const ADMIN_DEFAULT: &str = "127.0.0.1:8049";

/// Options of `weft status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which cluster is asked.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Admin address of the metadata server [default: that of ./.weft, else 127.0.0.1:8049].
    #[arg(long, value_name = "ADDR:PORT", env = "WEFT_ADMIN")]
    admin: Option<SocketAddr>,
    /// Directory of a `weft up`, instead of an address.
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    dir: Option<PathBuf>,
}

impl AdminArgs {
    /// The cluster whose admin service is there.
    pub fn at(admin: SocketAddr) -> AdminArgs {
        AdminArgs { admin: Some(admin), dir: None }
    }

    /// The admin address meant.
    ///
    /// # Errors
    /// The directory has never been used by `weft up`.
    pub fn address(&self) -> Result<SocketAddr, Box<dyn Error>> {
        if let Some(address) = self.admin {
            return Ok(address);
        }
        let dir = self.dir.clone().unwrap_or_else(|| PathBuf::from(".weft"));
        match (Endpoints::load(&dir)?, &self.dir) {
            (Some(endpoints), _) => Ok(endpoints.admin),
            (None, Some(dir)) => {
                Err(format!("{}: not a directory of `weft up`", dir.display()).into())
            }
            (None, None) => Ok(ADMIN_DEFAULT.parse()?),
        }
    }

    /// Asks the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or with an error.
    pub fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Box<dyn Error>> {
        let address = self.address()?;
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
        let mut answer = agent
            .get(format!("http://{address}{path}"))
            .call()
            .map_err(|e| format!("no answer from the admin service at {address}: {e}"))?;
        Ok(serde_json::from_slice(&answer.body_mut().read_to_vec()?)?)
    }
}

impl AdminArgs {
    /// Tells the admin service something.
    ///
    /// # Errors
    /// Nobody answers there, or why it refuses.
    pub fn tell<T: DeserializeOwned>(
        &self,
        path: &str,
        what: &serde_json::Value,
    ) -> Result<T, Box<dyn Error>> {
        let address = self.address()?;
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT));
        let agent: ureq::Agent = agent.http_status_as_error(false).build().into();
        let mut answer = agent
            .post(format!("http://{address}{path}"))
            .header("Content-Type", "application/json")
            .send(what.to_string().as_bytes())
            .map_err(|e| format!("no answer from the admin service at {address}: {e}"))?;
        let body = answer.body_mut().read_to_vec()?;
        if !answer.status().is_success() {
            let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = told["error"].as_str().map_or(answer.status().to_string(), str::to_owned);
            return Err(why.into());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// Prints the status.
pub fn run(args: &StatusArgs) -> Result<(), Box<dyn Error>> {
    let status: ClusterStatus = args.admin.ask("/status")?;
    let text = if args.json { serde_json::to_string(&status)? + "\n" } else { table(&status) };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Who reads has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn table(status: &ClusterStatus) -> String {
    let mut out = format!("weft {}, up {} s\n", status.version, status.uptime_s);
    out += &format!(
        "{:<6} {:<22} {:>10} {:>12} {:>12} {:>10}\n",
        "SERVER", "ADDRESS", "OPS", "BYTES IN", "BYTES OUT", "MEMORY"
    );
    status.servers.iter().map(row).for_each(|row| out += &row);
    let IndirectStatus { writes, messages, .. } = status.indirect;
    out += &format!("{}; ", in_words(&status.threshold));
    out += &format!("{writes} writes for data servers came here, {messages} messages left\n");
    out
}

fn row(s: &ServerStatus) -> String {
    let name = s.id.map_or_else(|| s.role.clone(), |id| format!("{} {id}", s.role));
    if !s.reachable {
        let why = s.error.as_deref().unwrap_or("no reason given");
        return format!("{name:<6} {:<22} unreachable: {why}\n", s.address);
    }
    let ops: u64 = s.activity.operations.values().sum();
    format!(
        "{name:<6} {:<22} {ops:>10} {:>12} {:>12} {:>10}\n",
        s.address,
        bytes(s.activity.bytes_in),
        bytes(s.activity.bytes_out),
        bytes(s.activity.rss_bytes)
    )
}

/// Bytes for people.
pub fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}
