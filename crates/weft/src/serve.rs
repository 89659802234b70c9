//! `weft mds` and `weft ds`: one server from its configuration file.

use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use weft::{
    config::{DsConfig, MdsConfig},
    start,
};
use weft_server::identity::{ClusterSecret, unhex};

use crate::outcome::Outcome;

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
        stopped().await?;
        running.mds.stop().await;
        Ok(())
    })
}

/// Runs a data server until it is asked to stop.
pub fn ds(args: &DsArgs) -> Outcome {
    raise_descriptor_limit();
    let mut config = DsConfig::load(&args.serve.config)?;
    config.adopt = args.adopt.map(|VolumeUuid(uuid)| uuid);
    let secret = ClusterSecret::load(&config.cluster_secret_file)?;
    runtime()?.block_on(async {
        let listener = start::listen(config.listen).await?;
        let running = start::ds(&config, &secret, listener, 1).await?;
        println!("weft ds {}: serving on {}", config.id, running.address);
        stopped().await?;
        Ok(())
    })
}
