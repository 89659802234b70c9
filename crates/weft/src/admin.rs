//! The admin service of a metadata server: where it is, and asking it over HTTP.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use clap::Args;
use serde::de::DeserializeOwned;
use weft::address::{Host, HostPort};

use crate::{endpoints::Endpoints, outcome::Outcome};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Port of the admin service unless told otherwise, on the loopback address.
const ADMIN_PORT: u16 = 8049;
/// Where `weft up` keeps its data unless told otherwise.
const DIR_DEFAULT: &str = ".weft";

/// How long an answer may take before it is said that it does.
const SOON: Duration = Duration::from_secs(1);

/// Asks the admin service at an address; whoever waits for it reads so.
pub fn told_of_waiting<R>(address: SocketAddr, ask: impl FnOnce() -> R) -> R {
    let (answered, waits) = mpsc::channel::<()>();
    let tell = move || {
        if waits.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
            eprintln!("weft: waiting for the admin service at {address}: no answer so far");
        }
    };
    let watch = thread::spawn(tell);
    let answer = ask();
    drop(answered);
    // It has nothing to tell, and nothing is left of it.
    let _ = watch.join();
    answer
}

/// Options that say which cluster is asked.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Admin address of the metadata server [default: that of ./.weft, else 127.0.0.1:8049].
    #[arg(long, value_name = "HOST:PORT", env = "WEFT_ADMIN")]
    admin: Option<HostPort>,
    /// Directory of a `weft up`, instead of an address.
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    dir: Option<PathBuf>,
}

impl AdminArgs {
    /// Those of the cluster whose admin service is at an address.
    pub fn at(admin: SocketAddr) -> AdminArgs {
        let host = Host::Ip(admin.ip());
        AdminArgs { admin: Some(HostPort { host, port: Some(admin.port()) }), dir: None }
    }

    /// Whether anything says where the admin service is.
    pub fn is_known(&self) -> bool {
        self.admin.is_some()
            || self.dir.is_some()
            || Endpoints::load(Path::new(DIR_DEFAULT)).is_ok_and(|found| found.is_some())
    }

    /// The addresses of the admin service, of which the first that answers is asked.
    ///
    /// # Errors
    /// The directory has never been used by `weft up`.
    fn addresses(&self) -> Outcome<Vec<SocketAddr>> {
        if let Some(admin) = &self.admin {
            return Ok(admin.resolve(ADMIN_PORT)?);
        }
        let dir = self.dir.clone().unwrap_or_else(|| PathBuf::from(DIR_DEFAULT));
        match (Endpoints::load(&dir), &self.dir) {
            (Ok(Some(endpoints)), _) => Ok(vec![endpoints.admin]),
            (Ok(None), None) => Ok(vec![(std::net::Ipv4Addr::LOCALHOST, ADMIN_PORT).into()]),
            (_, Some(dir)) if !dir.exists() => {
                Err(format!("{}: no such directory", dir.display()).into())
            }
            (_, Some(dir)) if !dir.is_dir() => {
                Err(format!("{}: a file, not a directory of `weft up`", dir.display()).into())
            }
            (Ok(None), Some(dir)) => {
                Err(format!("{}: `weft up` has never used this directory", dir.display()).into())
            }
            (Err(e), _) => Err(e.into()),
        }
    }

    /// Why nobody answered, and what to do about it.
    fn nobody(&self, address: SocketAddr, why: &ureq::Error) -> String {
        if self.is_known() {
            let hint = match (&self.admin, &self.dir) {
                (None, Some(dir)) => format!(" (is `weft up` running on {}?)", dir.display()),
                (None, None) => format!(" (is `weft up` running on {DIR_DEFAULT}?)"),
                (Some(_), _) => " (is the metadata server running?)".to_owned(),
            };
            return format!("no answer from the admin service at {address}: {why}{hint}");
        }
        format!(
            "no cluster in ./{DIR_DEFAULT}, and no answer at {address}: {why} (--dir names the \
             directory of a `weft up`, --admin the admin address of a `weft mds`)"
        )
    }

    /// Sends a request to the first address that takes it.
    fn send<R>(&self, request: impl Fn(SocketAddr) -> Result<R, ureq::Error>) -> Outcome<R> {
        let mut failure = "the admin service has no address".to_owned();
        for address in self.addresses()? {
            match told_of_waiting(address, || request(address)) {
                Ok(answer) => return Ok(answer),
                Err(e) => failure = self.nobody(address, &e),
            }
        }
        Err(failure.into())
    }

    /// Asks the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or with an error.
    pub fn ask<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
        let mut answer = self.send(|at| agent.get(format!("http://{at}{path}")).call())?;
        Ok(serde_json::from_slice(&answer.body_mut().read_to_vec()?)?)
    }

    /// Posts a change to the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or why it refuses.
    pub fn tell<T: DeserializeOwned>(&self, path: &str, what: &serde_json::Value) -> Outcome<T> {
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT));
        let agent: ureq::Agent = agent.http_status_as_error(false).build().into();
        let mut answer = self.send(|at| {
            let post = agent.post(format!("http://{at}{path}"));
            post.header("Content-Type", "application/json").send(what.to_string().as_bytes())
        })?;
        let body = answer.body_mut().read_to_vec()?;
        if !answer.status().is_success() {
            let refusal: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = refusal["error"].as_str().map_or(answer.status().to_string(), str::to_owned);
            return Err(why.into());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}
