//! `weft mds` and `weft ds`: one server from its configuration file.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weft::{
    config::{DsConfig, MdsConfig},
    start::{self, RunningDs, RunningMds},
};
use weft_server::identity::{ClusterSecrets, IdentityError, unhex};

use crate::outcome::Outcome;

/// How long a server that is asked to stop waits for its last changes: on a full disk they may
/// wait for ever.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Options of `weft mds`, and of `weft ds` too.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Options of `weft ds`.
#[derive(Debug, Args)]
pub struct DsArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Accept this volume when it comes, once: beside others, or though it is older than what this
    /// data server has seen of it. What it does not know of is then lost. The uuid is in the
    /// refusal, which the metadata server logs and `weft status` shows.
    #[arg(long, value_name = "VOLUME-UUID", value_parser = volume_uuid)]
    adopt: Option<VolumeUuid>,
}

/// The name of a volume.
#[derive(Debug, Clone, Copy)]
pub struct VolumeUuid(pub [u8; 16]);

/// Reads a volume's uuid.
///
/// # Errors
/// It is none.
pub fn volume_uuid(text: &str) -> Result<VolumeUuid, String> {
    unhex(text).map(VolumeUuid).ok_or_else(|| "not 32 hexadecimal digits".into())
}

/// The runtime of everything that is not NFS traffic: HTTP, signals.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// Lets the process open as many files as the system allows it: the usual limit is a compromise for
/// programs that use `select`, and a server has an open file for each connection and each object
/// that is in use.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(e) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(error = %e, "the number of open files stays limited");
    }
}

/// Takes all permissions of group and others off the files that this process makes from now on.
/// Engines make theirs with whatever the umask leaves (0644 by default), and the files have names
/// and contents of users' files in them.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// What a server is asked for by signals.
pub struct Signals {
    /// SIGTERM and SIGINT, once the server serves.
    stops: Option<[Signal; 2]>,
    hangup: Signal,
    /// Whether a terminal was there to go away.
    on_terminal: bool,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To stop: SIGTERM, Ctrl-C, or the terminal is gone.
    Stop,
    /// To read the configuration again: SIGHUP.
    Reload,
}

impl Signals {
    /// From here on SIGHUP does not end the process by itself. SIGTERM and SIGINT still do: a start
    /// may take long, and leaves nothing that the next one cannot go on from.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn listen() -> std::io::Result<Signals> {
        let hangup = signal(SignalKind::hangup())?;
        Ok(Signals { stops: None, hangup, on_terminal: std::io::stdout().is_terminal() })
    }

    /// The server has started: from here on no signal ends the process by itself.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn started(&mut self) -> std::io::Result<()> {
        self.stops = Some([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]);
        Ok(())
    }

    /// The next thing asked for.
    pub async fn next(&mut self) -> Asked {
        let Signals { stops, hangup, on_terminal } = self;
        let stop = async {
            match stops {
                Some([term, int]) => tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => Asked::Stop,
            _ = hangup.recv() => {
                let gone = *on_terminal && !std::io::stdout().is_terminal();
                if gone { Asked::Stop } else { Asked::Reload }
            }
        }
    }

    /// Resolves when the process is asked to stop. Who has nothing to reload says so.
    pub async fn stopped(&mut self) {
        while self.next().await == Asked::Reload {
            tracing::warn!("SIGHUP: nothing is read again here; a restart is needed");
        }
    }
}

/// Waits until the process is asked to stop.
///
/// # Errors
/// The server cannot go on: the process is to end with a status, and to be started again.
pub async fn until_stopped(running: &RunningMds, signals: &mut Signals) -> Outcome {
    tokio::select! {
        () = signals.stopped() => Ok(()),
        failure = running.failed() => Err(failure.into()),
    }
}

/// Stops a metadata server: what is on its way becomes durable, if the disk has room for it, and
/// unless the process is asked to stop once more.
pub async fn stop(running: &RunningMds, signals: &mut Signals) {
    let why = tokio::select! {
        () = running.mds.stop() => return,
        () = tokio::time::sleep(STOP_PATIENCE) => "found no room on the disk",
        () = signals.stopped() => "were not waited for",
    };
    tracing::warn!("the last changes {why}; nobody was told they are done");
}

/// Runs a metadata server until it is asked to stop.
pub fn mds(args: &ServeArgs) -> Outcome {
    raise_descriptor_limit();
    keep_files_private();
    let config = MdsConfig::load(&args.config)?;
    let secret = load_secret(&config.cluster_secret_file)?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let listener = start::listen(config.listen).await?;
        let admin = start::admin_doors(&config).await?;
        let running = start::mds(&config, &secret, listener, admin).await?;
        signals.started()?;
        let tcp = running.admin_tcp.map_or_else(String::new, |tcp| format!(" and {tcp}"));
        let (address, admin) = (running.address, running.admin.display());
        println!("weft mds: serving on {address}, admin on {admin}{tcp}");
        tell_who_may_do_what(&running);
        let mut current = config;
        loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Reload => reload(&running, &mut current, &args.config),
                    Asked::Stop => break,
                },
                failure = running.failed() => return Err(failure.into()),
            }
        }
        stop(&running, &mut signals).await;
        Ok(())
    })
}

/// Says what the export is. Whoever reads may be gone; the server is not.
fn tell_who_may_do_what(running: &RunningMds) {
    let mut out = std::io::stdout();
    for line in running.who_may_do_what() {
        let _ = writeln!(out, "weft mds: {line}");
    }
}

/// Reads the configuration again; says what came of it.
fn reload(running: &RunningMds, current: &mut MdsConfig, file: &Path) {
    let read = MdsConfig::load(file).map_err(|e| e.to_string());
    let named = |why| format!("{}: {why}", file.display());
    let done = read.and_then(|new| {
        let secrets = load_secret(&new.cluster_secret_file).map_err(|e| e.to_string())?;
        start::reload(running, current, &new, &secrets).map_err(named).map(|()| new)
    });
    match done {
        Ok(new) => {
            *current = new;
            // Whoever reads may be gone; the server is not.
            let _ = writeln!(std::io::stdout(), "weft mds: {} was read again", file.display());
            tell_who_may_do_what(running);
        }
        Err(why) => tracing::error!("SIGHUP: the configuration stays as it was: {why}"),
    }
}

/// Reads the secrets of a data server's cluster again; says what came of it.
fn reload_secrets(running: &RunningDs, config: &DsConfig) {
    let file = &config.cluster_secret_file;
    match load_secret(file) {
        Ok(secrets) => {
            running.control.use_secrets(&secrets);
            // Whoever reads may be gone; the server is not.
            let done = format!("weft ds {}: {} was read again", config.id, file.display());
            let _ = writeln!(std::io::stdout(), "{done}; all else wants a restart");
        }
        Err(why) => tracing::error!("SIGHUP: the secrets stay as they were: {why}"),
    }
}

/// The cluster secret, or which file it should be in and how to make one.
fn load_secret(path: &Path) -> Outcome<ClusterSecrets> {
    ClusterSecrets::load(path).map_err(|e| {
        let missing = matches!(&e, IdentityError::File { source, .. }
            if source.kind() == std::io::ErrorKind::NotFound);
        if missing {
            let path = path.display();
            format!(
                "there is no cluster secret: all servers of a cluster share one, in {path} \
                 (cluster_secret_file). Make it once and copy it to every server: \
                 (umask 077; openssl rand -hex 32 > {path})"
            )
            .into()
        } else {
            e.into()
        }
    })
}

/// Runs a data server until it is asked to stop.
pub fn ds(args: &DsArgs) -> Outcome {
    raise_descriptor_limit();
    keep_files_private();
    let mut config = DsConfig::load(&args.serve.config)?;
    config.adopt = args.adopt.map(|VolumeUuid(uuid)| uuid);
    let secret = load_secret(&config.cluster_secret_file)?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let listener = start::listen(config.listen).await?;
        let running = start::ds(&config, &secret, listener, 1).await?;
        signals.started()?;
        println!("weft ds {}: serving on {}", config.id, running.address);
        while signals.next().await == Asked::Reload {
            reload_secrets(&running, &config);
        }
        Ok(())
    })
}
