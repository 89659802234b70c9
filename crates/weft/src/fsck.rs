//! `weft fsck`: every record of a volume against every other, and the objects of data servers
//! against the volume, in both directions. It repairs nothing: crashes leave nothing to repair.

pub mod files;
mod objects;
mod report;
mod stores;

use std::path::{Path, PathBuf};

use clap::Args;
use weft_store::{
    engine::{self, EngineError},
    volume::{Volume, VolumeConfig},
};

pub use report::{FaultyObject, Report};

use crate::outcome::{NotChecked, Outcome, OutputError};

/// Options of `weft fsck`.
#[derive(Debug, Args)]
pub struct FsckArgs {
    /// Directory of a `weft up`: its metadata server and all its data servers.
    #[arg(long, value_name = "DIR", default_value = ".weft", conflicts_with = "mds")]
    dir: PathBuf,
    /// Data directory of a `weft mds`, instead of --dir.
    #[arg(long, value_name = "DIR")]
    mds: Option<PathBuf>,
    /// Data directories of `weft ds`, beside --mds: all of them, for what is missing is a finding.
    #[arg(long, value_name = "DIR", requires = "mds")]
    ds: Vec<PathBuf>,
    /// Print JSON: an object a line for each finding, and one for the end.
    #[arg(long)]
    json: bool,
}

/// Checks, and says what is wrong; an error if anything is, another one if it could not be checked.
/// A cluster that runs cannot be checked: its directories are in use (`weft check` asks it).
pub fn run(args: &FsckArgs) -> Outcome {
    let mut report = Report::new(args.json);
    let checked = check(args, &mut report);
    checked.map_err(|e| if e.is::<OutputError>() { e } else { Box::new(NotChecked(e)) })?;
    report.end()
}

fn check(args: &FsckArgs, report: &mut Report) -> Outcome {
    let mds = args.mds.clone().unwrap_or_else(|| args.dir.join("mds"));
    let volume = open_volume(&mds)?;
    let dirs = match &args.mds {
        Some(_) => args.ds.clone(),
        None => stores::of_up(&args.dir)?,
    };
    let checked = volume.fsck()?;
    report.volume(&checked)?;
    let stores = stores::open(&volume, &dirs, report)?;
    files::check(&volume, &stores, report)?;
    for store in &stores {
        objects::check(&volume, store, report)?;
    }
    Ok(())
}

/// Opens the volume of a metadata server that does not run: checking makes none.
pub fn open_volume(mds: &Path) -> Outcome<Volume> {
    let dir = mds.join("volume");
    let none = || {
        let dir = dir.display();
        format!(
            "{dir}: there is no volume here (--dir names the directory of a `weft up`, --mds and \
             --ds those of its servers)"
        )
    };
    let engine = engine::kind_of(&dir).ok_or_else(none)?;
    let opened = Volume::open(&dir, &VolumeConfig { engine, ..VolumeConfig::default() });
    opened.map_err(|e| match e {
        EngineError::InUse(_) => {
            format!("{e}: stop the cluster first; `weft check` looks while it serves").into()
        }
        e => e.into(),
    })
}
