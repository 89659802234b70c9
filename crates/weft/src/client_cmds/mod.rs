//! The commands for users of files: they need no root and no mount, and their exit status is 0 only
//! when all is done. Others: `main`.

mod clusters;
mod connect;
mod cp;
mod glob;
mod interrupt;
mod list;
mod names;
mod pattern;
mod quote;
mod stat;
mod waits;

use std::path::PathBuf;

use clap::Subcommand;

use crate::{admin::AdminArgs, outcome::Outcome};
use clusters::Clusters;
use connect::ServerArg;
pub use connect::connect_to;
pub use interrupt::{Interrupted, Interrupts};
pub use quote::{one_line, printable};

/// Commands on files and directories.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Copy local files to the cluster; done means durable on every data server. A file that is
    /// there is replaced when the new one is complete, and never by a part of it; the new one gets
    /// its mode and access control list (and, as root, its owner), other hard links keep the old
    /// one.
    Put(cp::PutArgs),
    /// Copy files from the cluster; the local name appears when the file is complete. Devices and
    /// fifos are written into, links are followed.
    Get(cp::GetArgs),
    /// Copy between clusters, or between a cluster and this machine: many files at a time, holes
    /// as holes. What fails is told, and the rest goes on. Done means durable.
    Cp(cp::CpArgs),
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
            ClientCommand::Put(args) => &args.server,
            ClientCommand::Get(args) => &args.server,
            ClientCommand::Cp(args) => &args.server,
            ClientCommand::Ls { server, .. }
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
    run_to_end(connect_and_run(command))
}

/// Runs what a client does on a runtime of its own.
///
/// # Errors
/// As its work; there can be no runtime.
pub fn run_to_end(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    let done = runtime.block_on(work);
    // A thread may still wait for standard input, or for a reader of a fifo.
    runtime.shutdown_background();
    done
}

/// However it ends, by itself or by a signal, the servers are told, so that nobody has to wait for
/// what this client has left. A second signal ends it at once.
async fn connect_and_run(command: ClientCommand) -> Outcome {
    let mut interrupts = Interrupts::new()?;
    let mut clusters = Clusters::new(command.server().clone());
    let done = tokio::select! {
        done = execute(&mut clusters, command) => done,
        interrupted = interrupts.next() => Err(interrupted.into()),
    };
    tokio::select! {
        () = clusters.close() => done,
        interrupted = interrupts.next() => Err(interrupted.into()),
    }
}

async fn execute(clusters: &mut Clusters, command: ClientCommand) -> Outcome {
    match command {
        ClientCommand::Put(args) => cp::put(clusters, args).await,
        ClientCommand::Get(args) => cp::get(clusters, args).await,
        ClientCommand::Cp(args) => cp::cp(clusters, args).await,
        ClientCommand::Ls { path, long, server } => {
            list::ls(&*clusters.usual().await?, &path, long, server.one_by_one).await
        }
        ClientCommand::Stat { path, json, admin, .. } => {
            stat::stat(&*clusters.usual().await?, &path, json, &admin).await
        }
        ClientCommand::Rm { paths, recursive, .. } => {
            names::rm(&*clusters.usual().await?, &paths, recursive).await
        }
        ClientCommand::Mkdir { paths, parents, .. } => {
            names::mkdir(&*clusters.usual().await?, &paths, parents).await
        }
        ClientCommand::Mv { source, destination, .. } => {
            names::mv(&*clusters.usual().await?, &source, &destination).await
        }
    }
}
