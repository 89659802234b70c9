//! The commands for users of files: they need no root and no mount, and their exit status is 0 only
//! when all is done.

mod copy;
mod list;
mod names;
mod stat;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Subcommand};
use weft_client::fs::{Client, ClientOptions};

use crate::{admin::AdminArgs, outcome::Outcome};

/// The port NFS is on when none is given.
const NFS_PORT: u16 = 2049;
/// How long an address may take to answer at all.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// A user in front of a terminal waits this long for a server; transfers ride out a restart.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Options that say which server a command talks to, and how.
#[derive(Debug, Clone, Args)]
pub struct ServerArg {
    /// Metadata server, HOST or HOST:PORT.
    #[arg(long, env = "WEFT_SERVER", default_value = "127.0.0.1:2049", global = true)]
    pub server: String,
    /// Ask for one thing at a time, as clients without whole-file requests and listings with
    /// attributes do: for comparison.
    #[arg(long, global = true)]
    pub one_by_one: bool,
}

/// Commands on files and directories.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Copy a local file to the cluster; done means durable on every data server.
    Put {
        /// Local file.
        source: PathBuf,
        /// Remote file, or directory to put it in.
        destination: PathBuf,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Copy a file from the cluster; the local name appears when it is complete.
    Get {
        /// Remote file.
        source: PathBuf,
        /// Local file, or directory to put it in.
        destination: PathBuf,
        #[command(flatten)]
        server: ServerArg,
    },
    /// List a directory.
    Ls {
        /// Remote directory or file.
        #[arg(default_value = "/")]
        path: PathBuf,
        /// With mode, owner, size and time.
        #[arg(short, long)]
        long: bool,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Show a file's attributes, and where its bytes are.
    Stat {
        /// Remote path.
        path: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArg,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove files or empty directories.
    Rm {
        /// Remote paths.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// With everything below.
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Make directories.
    Mkdir {
        /// Remote paths.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Those above too; existing ones are fine.
        #[arg(short, long)]
        parents: bool,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Give a file or directory another name.
    Mv {
        /// Remote path.
        source: PathBuf,
        /// New remote path, or directory to move it into.
        destination: PathBuf,
        #[command(flatten)]
        server: ServerArg,
    },
}

impl ClientCommand {
    fn server(&self) -> &ServerArg {
        match self {
            ClientCommand::Put { server, .. }
            | ClientCommand::Get { server, .. }
            | ClientCommand::Ls { server, .. }
            | ClientCommand::Stat { server, .. }
            | ClientCommand::Rm { server, .. }
            | ClientCommand::Mkdir { server, .. }
            | ClientCommand::Mv { server, .. } => server,
        }
    }
}

/// Runs a command on a runtime of its own.
///
/// # Errors
/// What the user should read; the exit status is then not 0.
pub fn run(command: ClientCommand) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    runtime.block_on(connect_and_run(command))
}

async fn connect_and_run(command: ClientCommand) -> Outcome {
    let addr = resolve(&command.server().server)?;
    probe(addr).await?;
    let eager = !command.server().one_by_one;
    let options = ClientOptions { patience: CONNECT_PATIENCE, eager, ..ClientOptions::default() };
    let client = Client::connect(addr, options).await?;
    let done = execute(&client, command).await;
    client.close().await;
    done
}

/// Fails at once if no server answers at the address, which may be wrong. A server that goes away
/// later is waited for.
async fn probe(addr: SocketAddr) -> Outcome {
    let connected = tokio::time::timeout(PROBE_PATIENCE, tokio::net::TcpStream::connect(addr));
    let why = match connected.await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(e)) => e.to_string(),
        Err(_) => "no answer".into(),
    };
    Err(format!("no server at {addr}: {why} (is it running? --server or WEFT_SERVER name another)")
        .into())
}

async fn execute(client: &Client, command: ClientCommand) -> Outcome {
    match command {
        ClientCommand::Put { source, destination, .. } => {
            copy::put(client, &source, &destination).await
        }
        ClientCommand::Get { source, destination, .. } => {
            copy::get(client, &source, &destination).await
        }
        ClientCommand::Ls { path, long, server } => {
            list::ls(client, &path, long, server.one_by_one).await
        }
        ClientCommand::Stat { path, json, admin, .. } => {
            stat::stat(client, &path, json, &admin).await
        }
        ClientCommand::Rm { paths, recursive, .. } => names::rm(client, &paths, recursive).await,
        ClientCommand::Mkdir { paths, parents, .. } => names::mkdir(client, &paths, parents).await,
        ClientCommand::Mv { source, destination, .. } => {
            names::mv(client, &source, &destination).await
        }
    }
}

fn resolve(server: &str) -> Outcome<SocketAddr> {
    let found = match server.to_socket_addrs() {
        Ok(mut addrs) => addrs.next(),
        Err(_) => (server, NFS_PORT).to_socket_addrs().ok().and_then(|mut addrs| addrs.next()),
    };
    found.ok_or_else(|| format!("{server}: no such server").into())
}
