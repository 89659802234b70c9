//! From what a user calls a server to a session with it.

use std::{
    ffi::OsStr,
    io::ErrorKind,
    net::SocketAddr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};
use weft::address::{HostPort, NFS_PORT, Source};
use weft_client::{
    Identity, OnWait, WaitReason, Waiting,
    core::{Backoff, Role},
    fs::{Client, ClientBuilder, ClientOptions, FsError},
    io::IoPolicy,
    url::Url,
};
use weft_nfs::NfsStat;

use super::waits;
use crate::outcome::Outcome;

/// How long an address may take to answer at all.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// A user in front of a terminal waits this long for a server, also for one that refuses
/// connections when the command begins; transfers ride out a restart.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How often who waits for an address is told so.
const TELL_EVERY: Duration = Duration::from_millis(600);

/// Options that say which server a command talks to, and how.
#[derive(Debug, Clone, Args)]
pub struct ServerArg {
    /// Metadata server: HOST, HOST:PORT, or as mount takes it, HOST:/PATH; IPv6 addresses in
    /// brackets. Remote paths begin at PATH.
    #[arg(
        long,
        env = "WEFT_SERVER",
        value_name = "HOST",
        default_value = "127.0.0.1:2049",
        global = true
    )]
    pub server: String,
    /// Ask for one thing at a time, as clients without whole-file requests and listings with
    /// attributes do: for comparison.
    #[arg(long, global = true)]
    pub one_by_one: bool,
}

/// A client, and the directory of the server that paths begin at.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) address: SocketAddr,
    root: PathBuf,
}

impl Remote {
    /// Connects to the first of the server's addresses that answers.
    pub(super) async fn connect(server: &ServerArg) -> Outcome<Remote> {
        let options = ClientOptions {
            patience: CONNECT_PATIENCE,
            eager: !server.one_by_one,
            policy: IoPolicy::direct(),
            delegations: false,
            ..ClientOptions::default()
        };
        let (client, root) = connect_to(&server.server, options).await?;
        Ok(Remote { address: client.session().addr(), client, root })
    }

    /// Connects to the server of a URL; paths begin at the root of what it exports.
    pub(super) async fn open(url: &Url, one_by_one: bool) -> Outcome<Remote> {
        let on_wait = waits::on_stderr();
        let server = format!("{}:{}", url.host, url.port).parse()?;
        let patience = url.options.patience.unwrap_or(CONNECT_PATIENCE);
        let address = find(&server, patience, &on_wait).await?;
        let options = ClientOptions {
            patience: CONNECT_PATIENCE,
            eager: !one_by_one,
            // What is copied is used once, and what is compared is asked of the servers.
            policy: IoPolicy::direct(),
            delegations: false,
            identity: Some(Identity::of_user(address)?),
            on_wait: Some(on_wait),
            ..ClientOptions::default()
        };
        let builder = ClientBuilder::from(options).url_options(&url.options);
        let client = builder.connect(address).await?;
        Ok(Remote { address, client, root: "/".into() })
    }

    /// A path of the server's as a user finds it again from anywhere.
    pub(super) fn show(&self, path: &Path) -> String {
        let address = self.address;
        let port =
            if address.port() == NFS_PORT { String::new() } else { format!(":{}", address.port()) };
        let host = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        format!("weft://{host}{port}{}", Path::new("/").join(path).display())
    }

    /// A failure, with the server, the path, and what to try.
    pub(super) fn failed(&self, e: &FsError) -> String {
        let hint = match e.error.status() {
            Some(NfsStat::ACCESS | NfsStat::PERM) => {
                " (`weft stat` shows whose it is and its mode)"
            }
            Some(NfsStat::NOENT) => " (`weft ls` shows what is there)",
            Some(NfsStat::NOSPC) => " (`weft df` shows how much there is)",
            Some(NfsStat::DELAY) => " (`weft status` says which servers are away)",
            _ => "",
        };
        format!("{}: {}{hint}", self.show(&e.path), e.error)
    }

    /// A path of the user's as the server has it.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        below(&self.root, path)
    }
}

/// A client of the first of a server's addresses that answers, under the identity of this user, and
/// the directory that was named with the server. Waits are told on standard error.
///
/// # Errors
/// What the user should read.
pub async fn connect_to(source: &str, options: ClientOptions) -> Outcome<(Client, PathBuf)> {
    let source: Source = source.parse()?;
    let on_wait = waits::on_stderr();
    let address = find(&source.server, CONNECT_PATIENCE, &on_wait).await?;
    let options = ClientOptions {
        identity: Some(Identity::of_user(address)?),
        on_wait: Some(on_wait),
        ..options
    };
    Ok((Client::connect(address, options).await?, source.path.into()))
}

/// A path of the server that is spoken with: `/PATH`, or as `weft cp` has it, `:/PATH`.
pub(super) fn remote_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|word| {
        let bytes = word.as_bytes();
        if bytes.starts_with(b"weft://") {
            let words = "URLs are for `weft cp`, `weft mount` and `weft stat --client`: here \
                         --server (or WEFT_SERVER) names the server, and the path is /PATH";
            return Err(words);
        }
        let of_server = bytes.strip_prefix(b":").filter(|path| path.starts_with(b"/"));
        Ok(PathBuf::from(OsStr::from_bytes(of_server.unwrap_or(bytes))))
    })
}

/// Whether a path means a directory, also where its last name is a link's: it ends with `/` or
/// `/.`.
pub(super) fn means_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/") || means_content(path)
}

/// Whether a path means what is in a directory.
pub(super) fn means_content(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/.")
}

/// A path below a root that `..` does not leave. The root of the server changes nothing.
fn below(root: &Path, path: &Path) -> PathBuf {
    if root == Path::new("/") {
        return path.to_path_buf();
    }
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => drop(inside.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let mut whole = root.join(inside);
    // `components` has left these out.
    if means_content(path) {
        whole.push(".");
    } else if means_directory(path) {
        whole.push("");
    }
    whole
}

/// The first address of a server that accepts connections. One that refuses is waited for: its
/// machine is there, and the server may be restarting. Where nobody answers, or the name is not
/// known, the address may be wrong, and that is told soon.
async fn find(server: &HostPort, patience: Duration, on_wait: &OnWait) -> Outcome<SocketAddr> {
    let asked = server.clone();
    let addresses = tokio::task::spawn_blocking(move || asked.resolve(NFS_PORT)).await??;
    let (deadline, mut backoff) = (Instant::now() + patience, Backoff::new(patience));
    let why = loop {
        let (mut failures, mut refused) = (Vec::new(), None);
        for address in &addresses {
            match probe(*address, on_wait).await {
                Ok(()) => return Ok(*address),
                Err(why) => {
                    refused = refused.or(why.is_refusal().then_some(*address));
                    failures.push(format!("{address}: {why}"));
                }
            }
        }
        let wait = backoff.next_wait().filter(|_| Instant::now() < deadline);
        let (Some(address), Some(wait)) = (refused, wait) else { break failures.join("; ") };
        on_wait(&Waiting {
            request: None,
            server: address,
            role: Role::Mds,
            why: WaitReason::Unreachable(refusal_in_words(patience).into()),
        });
        tokio::time::sleep(wait).await;
    };
    if let Some(meant) = server.with_brackets() {
        return Err(format!("no server at {why} (did you mean {meant}?)").into());
    }
    Err(format!("no server at {why} (is it running? --server or WEFT_SERVER name another)").into())
}

fn refusal_in_words(patience: Duration) -> String {
    let seconds = patience.as_secs();
    format!("it refuses connections; if it is being restarted, it has {seconds} s for that")
}

/// Why an address does not accept a connection.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("{0}")]
    Failed(#[from] std::io::Error),
    #[error("no answer")]
    Silent,
}

impl Unanswered {
    /// True if the machine answers and no server listens.
    fn is_refusal(&self) -> bool {
        matches!(self, Unanswered::Failed(e) if e.kind() == ErrorKind::ConnectionRefused)
    }
}

async fn probe(address: SocketAddr, on_wait: &OnWait) -> Result<(), Unanswered> {
    let connect = tokio::net::TcpStream::connect(address);
    let mut connect = std::pin::pin!(tokio::time::timeout(PROBE_PATIENCE, connect));
    loop {
        tokio::select! {
            connected = &mut connect => return match connected {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(e)) => Err(e.into()),
                Err(_) => Err(Unanswered::Silent),
            },
            () = tokio::time::sleep(TELL_EVERY) => on_wait(&Waiting {
                server: address,
                role: Role::Mds,
                why: WaitReason::NoAnswer,
                request: None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths stay below the directory that was given with the server.
    #[test]
    fn paths_below_a_root() {
        for (root, path, whole) in [
            ("/", "/a/../b", "/a/../b"),
            ("/", "a", "a"),
            ("/r", "/a", "/r/a"),
            ("/r/s", "a/./b/", "/r/s/a/b"),
            ("/r", "/../../x", "/r/x"),
            ("/r", "/", "/r"),
        ] {
            assert_eq!(below(Path::new(root), Path::new(path)), Path::new(whole), "{root} {path}");
        }
    }

    /// What a path means by its end stays.
    #[test]
    fn ends_of_paths_below_a_root() {
        for (path, whole) in
            [("/a/.", "/r/a/."), ("a/", "/r/a/"), ("/", "/r/"), ("a/./b", "/r/a/b")]
        {
            assert_eq!(below(Path::new("/r"), Path::new(path)).to_str(), Some(whole), "{path}");
        }
    }
}
