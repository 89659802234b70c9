//! The commands for users of files: they need no root and no mount, and their exit status is 0 only
//! when all is done. Others: `main`.

mod acts;
mod clusters;
mod connect;
mod cp;
mod find;
mod glob;
mod human;
mod in_force;
mod interrupt;
mod layout;
mod list;
mod mode;
mod names;
mod own_status;
mod pattern;
mod quote;
mod stat;
mod tree;
mod troubles;
mod umask;
mod usage;
mod waits;

use std::path::PathBuf;

use clap::Subcommand;

use crate::{admin::AdminArgs, outcome::Outcome};
use clusters::Clusters;
pub use connect::connect_to;
use connect::{ServerArg, remote_path};
pub use find::ONE_DASH;
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
    /// List directories.
    Ls(list::LsArgs),
    /// Write files to standard output, one after another.
    Cat(find::CatArgs),
    /// Find files by name, type and size.
    Find(find::FindArgs),
    /// Show how much room files and directories need at the servers.
    Du(usage::DuArgs),
    /// Show how much room there is.
    Df(usage::DfArgs),
    /// Change modes.
    Chmod(acts::ChmodArgs),
    /// Change owners and groups.
    Chown(acts::ChownArgs),
    /// Make files that are not there, and set the times of others to now.
    Touch(acts::TouchArgs),
    /// Give a file one more name, or make a symbolic link.
    Ln(acts::LnArgs),
    /// Have the servers make durable what any client has written. What these commands write needs
    /// none: it is durable when they end.
    Sync(acts::SyncArgs),
    /// Choose how the files of a directory are spread over data servers, or show it.
    Layout(layout::LayoutArgs),
    /// Show a file's attributes, and where its bytes are.
    Stat {
        /// Remote path; with --client also weft://HOST/PATH?OPTION=VALUE.
        path: PathBuf,
        /// How a client's data travel instead (cache, read-ahead, layouts and so on), and what
        /// decides that: this URL, the server, or nobody.
        #[arg(long)]
        client: bool,
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
        #[arg(value_parser = remote_path())]
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
        #[arg(value_parser = remote_path())]
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
        #[arg(value_parser = remote_path())]
        source: PathBuf,
        /// New remote path, or directory to move it into.
        #[arg(value_parser = remote_path())]
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
            ClientCommand::Ls(args) => &args.server,
            ClientCommand::Cat(args) => &args.server,
            ClientCommand::Find(args) => &args.server,
            ClientCommand::Du(args) => &args.server,
            ClientCommand::Df(args) => &args.server,
            ClientCommand::Chmod(args) => &args.on.server,
            ClientCommand::Chown(args) => &args.on.server,
            ClientCommand::Touch(args) => &args.server,
            ClientCommand::Ln(args) => &args.server,
            ClientCommand::Sync(args) => &args.server,
            ClientCommand::Layout(args) => args.server(),
            ClientCommand::Stat { server, .. }
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
        ClientCommand::Ls(args) => list::ls(clusters, args).await,
        ClientCommand::Cat(args) => find::cat(clusters, args).await,
        ClientCommand::Find(args) => find::find(clusters, args).await,
        ClientCommand::Du(args) => usage::du(clusters, args).await,
        ClientCommand::Df(args) => usage::df(clusters, args).await,
        ClientCommand::Chmod(args) => acts::chmod(clusters, args).await,
        ClientCommand::Chown(args) => acts::chown(clusters, args).await,
        ClientCommand::Touch(args) => acts::touch(clusters, args).await,
        ClientCommand::Ln(args) => acts::ln(clusters, args).await,
        ClientCommand::Sync(args) => acts::sync(clusters, args).await,
        ClientCommand::Stat { path, client: true, json, .. } => {
            in_force::stat(clusters, &path, json).await
        }
        ClientCommand::Layout(args) => layout::layout(clusters, args).await,
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
