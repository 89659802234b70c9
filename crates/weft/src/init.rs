//! `weft init`: makes the volume of a metadata server, which is a new and empty file system.

use std::path::PathBuf;

use clap::Args;
use weft::{config::MdsConfig, start};

use crate::outcome::Outcome;

/// Options of `weft init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Configuration file of the metadata server (TOML); its `dir` gets the volume.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Makes the volume; one that is there stays, and is an error.
pub fn run(args: &InitArgs) -> Outcome {
    let config = MdsConfig::load(&args.config)?;
    start::create_volume(&config)?;
    println!("A new, empty file system is in {}", config.dir.display());
    Ok(())
}
