//! `weft mds` and `weft ds`: one server from its configuration file.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use weft::{
    config::{DsConfig, MdsConfig},
    start::{self, RunningMds},
};
use weft_server::identity::ClusterSecret;

use crate::outcome::Outcome;

/// How long a server that is asked to stop waits for its last changes: on a full disk they may
/// wait for ever.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Options of `weft mds` and `weft ds`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
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

/// Resolves when the process is asked to stop.
///
/// # Errors
/// Signals cannot be waited for.
pub async fn stopped() -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

/// Waits until the process is asked to stop, and stops the metadata server.
///
/// # Errors
/// The server cannot go on: the process is to end with a status, and to be started again.
pub async fn until_stopped(running: &RunningMds) -> Outcome {
    tokio::select! {
        asked = stopped() => asked?,
        failure = running.failed() => return Err(failure.into()),
    }
    if tokio::time::timeout(STOP_PATIENCE, running.mds.stop()).await.is_err() {
        tracing::warn!("the last changes found no room on the disk; nobody was told they are done");
    }
    Ok(())
}

/// Runs a metadata server until it is asked to stop.
pub fn mds(args: &ServeArgs) -> Outcome {
    raise_descriptor_limit();
    let config = MdsConfig::load(&args.config)?;
    let secret = ClusterSecret::load(&config.cluster_secret_file)?;
    runtime()?.block_on(async {
        let listener = start::listen(config.listen).await?;
        let admin = start::listen(config.admin_listen).await?;
        let running = start::mds(&config, &secret, listener, admin).await?;
        println!("weft mds: serving on {}, admin on {}", running.address, running.admin);
        until_stopped(&running).await
    })
}

/// Runs a data server until it is asked to stop.
pub fn ds(args: &ServeArgs) -> Outcome {
    raise_descriptor_limit();
    let config = DsConfig::load(&args.config)?;
    let secret = ClusterSecret::load(&config.cluster_secret_file)?;
    runtime()?.block_on(async {
        let listener = start::listen(config.listen).await?;
        let running = start::ds(&config, &secret, listener, 1).await?;
        println!("weft ds {}: serving on {}", config.id, running.address);
        stopped().await?;
        Ok(())
    })
}
