//! `weft restore`: a backup becomes the directory of a metadata server.

use std::{
    fs::File,
    io::{BufReader, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use weft_server::{
    clock::{Clock, random},
    identity::hex,
};
use weft_store::{
    engine::EngineKind,
    types::Timestamp,
    volume::{Restore, RestoreReport, restore},
};

use crate::{
    outcome::{Outcome, OutputError},
    utc::utc,
};

/// Options of `weft restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// What `weft backup` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Data directory of the metadata server that shall serve it: a new or an empty one
    /// (DIR/mds of a `weft up` on DIR).
    #[arg(long, value_name = "DIR")]
    mds: PathBuf,
    /// Which engine shall keep the volume, as `engine` in the configuration.
    #[arg(long, value_enum, default_value_t = Engine::Fjall)]
    engine: Engine,
}

/// The engines that a volume can be kept by.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    /// Log-structured.
    Fjall,
    /// A B+tree.
    Redb,
}

/// Restores, and says what, and what comes next.
pub fn run(args: &RestoreArgs) -> Outcome {
    let file = args.file.display();
    let named = |e: &dyn std::fmt::Display| format!("{file}: {e}");
    let input = File::open(&args.file).map_err(|e| named(&e))?;
    let (seconds, nanos) = Clock::default().wall();
    let how = Restore {
        engine: match args.engine {
            Engine::Fjall => EngineKind::Fjall,
            Engine::Redb => EngineKind::Redb,
        },
        id: random(),
        now: Timestamp { seconds, nanos },
    };
    let done = restore(BufReader::new(input), &args.mds.join("volume"), &how);
    let report = done.map_err(|e| format!("nothing was restored: {}", named(&e)))?;
    let findings = report.checked.findings.iter().map(|finding| format!("{finding}\n"));
    let told = findings.collect::<String>() + &told(&report, &args.mds)?;
    std::io::stdout().write_all(told.as_bytes()).map_err(OutputError::from)?;
    match report.checked.findings_count {
        0 => Ok(()),
        n => Err(format!("restored, but the volume in {file} had {n} faults, told above").into()),
    }
}

fn told(report: &RestoreReport, mds: &Path) -> Outcome<String> {
    let identity = report.header.identity()?;
    let (lsn, time) = (report.header.lsn.0, utc(report.header.time.seconds));
    let (inodes, files) = (report.summary.inodes, report.files);
    Ok(format!(
        "Restored to {}: volume {} as of mutation {lsn}, {time}: {inodes} inodes, {files} of them \
         files.\n\
         The directory that it had before must never be started again: from the first start of \
         this one on, its data servers refuse it.\n\
         Next: start the metadata server on this directory, and when all data servers are \
         reached, `weft check`: it names the files whose data is gone or newer than the backup. \
         Data of files made since belongs to no file now; it is kept until you remove it.\n",
        mds.display(),
        hex(&identity.uuid),
    ))
}
