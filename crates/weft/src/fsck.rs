//! `weft fsck`: every record of a volume against every other, and the objects of data servers
//! against the volume, in both directions. It repairs nothing: crashes leave nothing to repair.

mod files;
mod objects;
mod stores;

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use weft_store::{
    engine,
    volume::{Checked, Volume, VolumeConfig},
};

use crate::outcome::{NotChecked, Outcome, OutputError};

/// How often a person is told how far it is.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

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
    let none = || format!("{}: there is no volume here", dir.display());
    let engine = engine::kind_of(&dir).ok_or_else(none)?;
    Ok(Volume::open(&dir, &VolumeConfig { engine, ..VolumeConfig::default() })?)
}

/// What was found so far: said as it is found, and counted.
pub struct Report {
    json: bool,
    findings: u64,
    /// When a person was last told how far it is; none is there if absent.
    told: Option<Instant>,
}

impl Report {
    /// Nothing was found yet.
    pub fn new(json: bool) -> Self {
        let watched = std::io::stderr().is_terminal() && !json;
        Report { json, findings: 0, told: watched.then(Instant::now) }
    }

    /// Something is wrong: what kind of thing, in words, and what scripts want to know of it.
    pub fn wrong(&mut self, kind: &str, what: &str, of: &serde_json::Value) -> Outcome {
        self.findings += 1;
        let mut line = serde_json::json!({ "finding": kind, "text": what });
        if let (Some(line), Some(more)) = (line.as_object_mut(), of.as_object()) {
            line.extend(more.clone());
        }
        self.say(what, &line)
    }

    /// Something that is not wrong.
    pub fn say(&mut self, words: &str, json: &serde_json::Value) -> Outcome {
        let line = if self.json { json.to_string() } else { words.to_owned() };
        Ok(writeln!(std::io::stdout(), "{line}").map_err(OutputError::from)?)
    }

    /// Tells a person how far it is, now and then.
    pub fn progress(&mut self, words: impl FnOnce() -> String) {
        let Some(told) = self.told.as_mut().filter(|told| told.elapsed() >= PROGRESS_EVERY) else {
            return;
        };
        *told = Instant::now();
        // Nothing is lost with it.
        let _ = write!(std::io::stderr(), "\r{:<60}\r", words());
    }

    fn volume(&mut self, checked: &Checked) -> Outcome {
        for finding in &checked.findings {
            self.wrong("volume", finding, &serde_json::Value::Null)?;
        }
        self.findings += checked.findings_count - checked.findings.len() as u64;
        let Checked { inodes, entries, orphans, intents, xattrs, blocks, reserved, .. } = checked;
        let words = format!(
            "volume: {inodes} inodes, {entries} names, {orphans} orphans, {intents} intents, \
             {xattrs} extended attributes, {blocks} blocks of small files, \
             {reserved} reserved numbers"
        );
        let counts = serde_json::json!({ "volume": {
            "inodes": inodes, "names": entries, "orphans": orphans, "intents": intents,
            "xattrs": xattrs, "blocks": blocks, "reserved": reserved,
        }});
        self.say(&words, &counts)
    }

    /// What came of it.
    pub fn end(mut self) -> Outcome {
        let findings = self.findings;
        let end = serde_json::json!({ "clean": findings == 0, "findings": findings });
        match findings {
            0 => self.say("clean", &end),
            _ if self.json => {
                self.say("", &end)?;
                Err(format!("{findings} findings").into())
            }
            _ => Err(format!("{findings} findings").into()),
        }
    }
}
