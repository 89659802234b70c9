//! `weft mount`: the cluster in a directory of this machine, through FUSE.
//!
//! It comes back when the directory is mounted; a process in the background serves it from then on.
//! That process is this program again, started with `--foreground`, which says on its standard
//! output that it is ready.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::Args;
use weft_client::fs::{Client, ClientOptions};
use weft_fuse::{Mount, MountOptions};
use weft_io::LocalDir;

use crate::{
    client_cmds::{Interrupts, connect_to, run_to_end},
    outcome::Outcome,
};

mod in_use;
mod options;
mod signals;

pub(crate) use options::from_mount;

/// What the process in the background says when the directory is mounted.
const READY: &str = "ready";
/// How long programs wait for a server, in seconds, unless told otherwise: longer than a restart,
/// even of its machine. Who waits cannot be killed: the kernel wants an answer of ours first.
const PATIENCE_S: u64 = 600;
/// Mode of a new log, before the umask.
const LOG_MODE: u32 = 0o666;

/// Options of `weft mount`.
#[derive(Debug, Clone, Args)]
pub struct MountArgs {
    /// Metadata server, and the directory of it to mount: HOST, HOST:PORT, HOST:/PATH.
    source: String,
    /// Directory of this machine to mount on.
    dir: PathBuf,
    /// Nothing can be changed through it.
    #[arg(long)]
    read_only: bool,
    /// Nothing on it can be started as a program.
    #[arg(long)]
    no_exec: bool,
    /// Only who mounts it may use it, also if that is root.
    #[arg(long)]
    private: bool,
    /// Seconds for which names and attributes are believed; 0 asks every time.
    #[arg(long, default_value_t = 1, value_name = "SECONDS")]
    attributes_valid: u64,
    /// How long programs wait for a server that does not answer, before an error.
    #[arg(long, default_value_t = PATIENCE_S, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Stay in the foreground; Ctrl-C unmounts.
    #[arg(short, long)]
    foreground: bool,
    /// File to which the process in the background appends what goes wrong; no link or fifo.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Options as in fstab: ro, noexec, private, attributes-valid=SECONDS, patience=SECONDS,
    /// log=FILE, and those that are for mount alone.
    #[arg(short, value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Says when it is ready, and leaves the terminal.
    #[arg(long, hide = true, requires = "foreground")]
    ready: bool,
}

/// Mounts, and comes back when that is done or has failed.
///
/// # Errors
/// What the user should read.
pub fn run(args: &MountArgs) -> Outcome {
    let args = &with_options(args)?;
    if !args.foreground {
        return in_background(args);
    }
    if args.ready {
        // A process group's leader cannot; nothing depends on it but signals of the terminal.
        let _ = rustix::process::setsid();
    }
    run_to_end(serve(args))
}

/// The same with what `-o` says.
fn with_options(args: &MountArgs) -> Outcome<MountArgs> {
    let options = options::parse(&args.options)?;
    Ok(MountArgs {
        read_only: args.read_only || options.read_only,
        no_exec: args.no_exec || options.no_exec,
        private: args.private || options.private,
        attributes_valid: options.attributes_valid.unwrap_or(args.attributes_valid),
        patience: options.patience.unwrap_or(args.patience),
        log: options.log.or_else(|| args.log.clone()),
        ..args.clone()
    })
}

/// Starts this program again, and waits until it is ready.
fn in_background(args: &MountArgs) -> Outcome {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--ready"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut said)?;
    }
    if said.trim_end() == READY {
        return Ok(());
    }
    // It has said why, on our standard error.
    let status = child.wait()?;
    Err(format!("{} is not mounted ({status})", args.dir.display()).into())
}

async fn serve(args: &MountArgs) -> Outcome {
    let mut interrupts = Interrupts::new()?;
    if args.ready {
        interrupts.outlive_terminal();
    }
    let patience = Duration::from_secs(args.patience);
    let log = args.log.as_deref().map(open_log).transpose()?;
    let options = ClientOptions { patience, ..ClientOptions::default() };
    let mounting = async {
        let (client, root) = connect_to(&args.source, options).await?;
        let mount = mount(&client, &root, args).await;
        Outcome::Ok((client, mount?))
    };
    let (client, mount) = tokio::select! {
        mounted = mounting => mounted?,
        interrupted = interrupts.next() => return Err(interrupted.into()),
    };
    let ending = mount.ending();
    if args.ready {
        say_ready(log)?;
    }
    let ended = tokio::select! {
        served = mount.serve() => Ok(served?),
        () = signals::asked_twice(&mut interrupts, &ending) => signals::end_now(&ending).await,
    };
    tokio::select! {
        () = client.close() => ended,
        _ = interrupts.next() => ended,
    }
}

async fn mount(client: &Client, root: &Path, args: &MountArgs) -> Outcome<Mount> {
    let defaults = MountOptions::default();
    let options = MountOptions {
        source: args.source.clone(),
        read_only: args.read_only,
        no_exec: args.no_exec,
        allow_other: defaults.allow_other && !args.private,
        attributes_valid: Duration::from_secs(args.attributes_valid),
        ..defaults
    };
    let root = client.node(root).await?;
    Ok(Mount::new(client, &root, &args.dir, &options).await?)
}

/// Opens the log for appending. It is written as root for long: no link leads it elsewhere, and no
/// fifo keeps the mount waiting.
fn open_log(path: &Path) -> Outcome<File> {
    let opened = LocalDir::of_entry(path);
    let opened = opened.and_then(|(dir, name)| dir.open_to_append(name, LOG_MODE));
    Ok(opened.map_err(|e| format!("--log {}: {e}", path.display()))?)
}

/// Tells who waits for it, and lets go of the terminal.
fn say_ready(log: Option<File>) -> Outcome {
    println!("{READY}");
    std::io::stdout().flush()?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(log.as_ref().unwrap_or(&nowhere))?;
    Ok(())
}
