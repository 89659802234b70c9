//! The admin service of a metadata server: where it is, and asking it over HTTP.

mod http;

use std::{
    io::Read,
    path::{Path, PathBuf},
    str::FromStr,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use clap::Args;
use serde::de::DeserializeOwned;
use weft::{
    address::HostPort,
    admin_token::AdminToken,
    config::{ADMIN_PORT, ADMIN_SOCKET, MdsConfig},
};

use crate::{endpoints::Endpoints, outcome::Outcome};

pub use http::{Answer, Place};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a long answer may take to begin.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest refusal that is read, bytes.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
/// Where `weft up` keeps its data unless told otherwise.
const DIR_DEFAULT: &str = ".weft";
/// Where the configuration of a `weft mds` is, usually.
const CONFIG_DEFAULT: &str = "/etc/weft/mds.toml";

/// How long an answer may take before it is said that it does.
const SOON: Duration = Duration::from_secs(1);

/// Asks the admin service at a place; whoever waits for it reads so.
fn told_of_waiting<R>(place: &Place, ask: impl FnOnce() -> R) -> R {
    let (answered, waits) = mpsc::channel::<()>();
    let place = place.to_string();
    let tell = move || {
        if waits.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
            eprintln!("weft: waiting for the admin service at {place}: no answer so far");
        }
    };
    let watch = thread::spawn(tell);
    let answer = ask();
    drop(answered);
    // It has nothing to tell, and nothing is left of it.
    let _ = watch.join();
    answer
}

/// An admin service as people name it: what has a slash is a Unix socket.
#[derive(Debug, Clone)]
enum Named {
    Socket(PathBuf),
    Tcp(HostPort),
}

impl FromStr for Named {
    type Err = <HostPort as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') {
            return Ok(Named::Socket(text.into()));
        }
        text.parse().map(Named::Tcp)
    }
}

/// Options that say which cluster is asked.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Admin service of the metadata server: its Unix socket (a path with a slash), or its TCP
    /// address with --token-file [default: that of ./.weft, else that of /etc/weft/mds.toml, else
    /// /run/weft/admin.sock].
    #[arg(long, value_name = "PATH|HOST:PORT", env = "WEFT_ADMIN")]
    admin: Option<Named>,
    /// File with the token for a TCP address (admin_token_file of the server).
    #[arg(long, value_name = "FILE", env = "WEFT_ADMIN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Directory of a `weft up`, instead of --admin.
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    dir: Option<PathBuf>,
    /// Configuration of the `weft mds`, instead of --admin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["admin", "dir"])]
    config: Option<PathBuf>,
}

impl AdminArgs {
    /// Those of the cluster whose admin service is at a socket.
    pub fn at(socket: &Path) -> AdminArgs {
        let admin = Some(Named::Socket(socket.to_owned()));
        AdminArgs { admin, token_file: None, dir: None, config: None }
    }

    /// Whether anything says where the admin service is.
    pub fn is_known(&self) -> bool {
        self.admin.is_some()
            || self.dir.is_some()
            || self.config.is_some()
            || Endpoints::load(Path::new(DIR_DEFAULT)).is_ok_and(|found| found.is_some())
    }

    /// Where the admin service is; the first place that answers is asked.
    ///
    /// # Errors
    /// The directory has never been used by `weft up`; the configuration cannot be read.
    fn places(&self) -> Outcome<Vec<Place>> {
        match &self.admin {
            Some(Named::Socket(path)) => return Ok(vec![Place::Socket(path.clone())]),
            Some(Named::Tcp(address)) => {
                let found = address.resolve(ADMIN_PORT)?;
                return Ok(found.into_iter().map(Place::Tcp).collect());
            }
            None => {}
        }
        let socket = match (&self.config, &self.dir) {
            (Some(file), _) => MdsConfig::load(file)?.admin_socket().to_owned(),
            (None, Some(dir)) => of_up(dir)?,
            (None, None) => match Endpoints::load(Path::new(DIR_DEFAULT))? {
                Some(endpoints) => endpoints.admin,
                None => of_this_machine()?,
            },
        };
        Ok(vec![Place::Socket(socket)])
    }

    /// Why nobody answered, and what to do about it.
    fn nobody(&self, place: &Place, why: &std::io::Error) -> String {
        let denied = why.kind() == std::io::ErrorKind::PermissionDenied;
        let hint = match (&self.admin, &self.dir) {
            _ if denied => " (it is for root, the server's user and its admin_group)".to_owned(),
            (None, Some(dir)) => format!(" (is `weft up` running on {}?)", dir.display()),
            (None, None) if self.config.is_some() => " (is the metadata server running?)".into(),
            (None, None) if self.is_known() => {
                format!(" (is `weft up` running on {DIR_DEFAULT}?)")
            }
            (None, None) => {
                return format!(
                    "no cluster in ./{DIR_DEFAULT}, and no answer at {place}: {why} (--dir names \
                     the directory of a `weft up`, --config the configuration of a `weft mds`, \
                     --admin its socket or address)"
                );
            }
            (Some(_), _) => " (is the metadata server running?)".to_owned(),
        };
        format!("no answer from the admin service at {place}: {why}{hint}")
    }

    /// Why it wants to know who asks.
    fn stranger(&self, place: &Place) -> String {
        match &self.token_file {
            None => format!("the admin service at {place} wants its token (--token-file FILE)"),
            Some(file) => {
                let file = file.display();
                format!("the admin service at {place} has another token than {file}")
            }
        }
    }

    /// Asks the first place that answers; what is no success is an error. `else_`: what can be done
    /// where nobody answers.
    fn send(&self, question: http::Question<'_>, else_: &str) -> Outcome<(Place, Answer)> {
        let places = self.places()?;
        let is_tcp = places.iter().any(|place| matches!(place, Place::Tcp(_)));
        let token = self.token_file.as_ref().filter(|_| is_tcp);
        let token = token.map(|file| AdminToken::load(file)).transpose()?;
        let question = http::Question { token: token.as_ref(), ..question };
        let mut failure = "the admin service has no address".to_owned();
        for place in places {
            match told_of_waiting(&place, || http::ask(&place, &question)) {
                Ok(answer) if answer.status.is_success() => return Ok((place, answer)),
                Ok(answer) if answer.status.as_u16() == 401 => {
                    return Err(self.stranger(&place).into());
                }
                Ok(answer) => return Err(refusal(answer)?.into()),
                Err(e) => failure = self.nobody(&place, &e) + else_,
            }
        }
        Err(failure.into())
    }

    /// Asks the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or with an error.
    pub fn ask<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        let (json, token, patience, whole) = (None, None, TIMEOUT, true);
        parsed(self.send(http::Question { path, json, token, patience, whole }, "")?.1)
    }

    /// Posts a change to the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or why it refuses.
    pub fn tell<T: DeserializeOwned>(&self, path: &str, what: &serde_json::Value) -> Outcome<T> {
        let (json, token, patience, whole) = (Some(what.to_string()), None, TIMEOUT, true);
        parsed(self.send(http::Question { path, json, token, patience, whole }, "")?.1)
    }

    /// Asks for something long, to be read piece by piece; and where that is. `else_`: what can be
    /// done where nobody answers.
    ///
    /// # Errors
    /// Nobody answers there, or why it refuses.
    pub fn stream(&self, path: &str, else_: &str) -> Outcome<(Place, Answer)> {
        let (json, token, patience, whole) = (None, None, LONG_TIMEOUT, false);
        self.send(http::Question { path, json, token, patience, whole }, else_)
    }
}

/// The admin service of a `weft up`.
fn of_up(dir: &Path) -> Outcome<PathBuf> {
    let shown = dir.display();
    match Endpoints::load(dir) {
        Ok(Some(endpoints)) => Ok(endpoints.admin),
        _ if !dir.exists() => Err(format!("{shown}: no such directory").into()),
        _ if !dir.is_dir() => Err(format!("{shown}: a file, not a directory of `weft up`").into()),
        Ok(None) => Err(format!("{shown}: `weft up` has never used this directory").into()),
        Err(e) => Err(e.into()),
    }
}

/// That of the `weft mds` of this machine. Who may not read its configuration may still be one of
/// its administrators.
fn of_this_machine() -> Outcome<PathBuf> {
    let file = Path::new(CONFIG_DEFAULT);
    match std::fs::File::open(file) {
        Ok(_) => Ok(MdsConfig::load(file)?.admin_socket().to_owned()),
        Err(_) => Ok(ADMIN_SOCKET.into()),
    }
}

fn parsed<T: DeserializeOwned>(mut answer: Answer) -> Outcome<T> {
    let mut body = Vec::new();
    answer.read_to_end(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// What it says of a request that it does not do.
fn refusal(answer: Answer) -> Outcome<String> {
    let (status, mut body) = (answer.status, Vec::new());
    answer.take(REFUSAL_BYTES_MAX).read_to_end(&mut body)?;
    let refusal: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok(refusal["error"].as_str().map_or(status.to_string(), str::to_owned))
}
