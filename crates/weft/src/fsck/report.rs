//! What a check found, said as it is found.

use std::{
    fmt::Display,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use weft_store::volume::Checked;

use crate::{
    client_cmds::one_line,
    outcome::{Outcome, OutputError},
};

/// How often a person is told how far it is.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// An object of a file with which something is wrong.
pub struct FaultyObject<'a> {
    /// A path of the file; one that was unlinked has none.
    pub path: Option<&'a str>,
    /// Inode number of the file.
    pub fileid: u64,
    /// Where the object is.
    pub data_server: u32,
    /// Bytes of the file are lost.
    pub lost: bool,
    /// What is wrong, in words.
    pub what: &'a dyn Display,
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

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.findings == 0
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

    /// Something is wrong with an object of a file, which is told by its path if it has one.
    pub fn object(&mut self, found: &FaultyObject<'_>) -> Outcome {
        let FaultyObject { path, fileid, data_server, lost, what } = found;
        let nameless = || format!("a file without a name, inode {fileid}");
        let path = path.map_or_else(nameless, str::to_owned);
        let kind = if *lost { "damaged" } else { "object" };
        let of = serde_json::json!({ "path": path, "fileid": fileid, "data_server": data_server });
        self.wrong(kind, &format!("{path}: data server {data_server}: {what}"), &of)
    }

    /// Something that is not wrong.
    pub fn say(&mut self, words: &str, json: &serde_json::Value) -> Outcome {
        let line = if self.json { json.to_string() } else { one_line(words) };
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

    /// What the records of the volume are, and what is wrong with them.
    pub(super) fn volume(&mut self, checked: &Checked) -> Outcome {
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
