//! What `weft fsck` and `weft check` say.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use serde_json::Value;

use super::acts::Stray;
use super::expected::{Expected, Fault};
use super::support::cluster::Cluster;
use super::support::{weft_binary, words};

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    faults: BTreeMap<(u64, u32), Fault>,
    strays: BTreeSet<Stray>,
    paths: BTreeSet<(u64, String)>,
    said: String,
}

/// Of servers that are down.
pub fn fsck(cluster: &Cluster) -> Findings {
    findings(cluster, "fsck")
}

/// Of servers that run.
pub fn check(cluster: &Cluster) -> Findings {
    findings(cluster, "check")
}

fn findings(cluster: &Cluster, command: &str) -> Findings {
    // One that looks at something again and again would never end.
    let mut limited = Command::new("timeout");
    limited.arg("60").arg(weft_binary()).args([command, "--json", "--dir"]);
    let output = limited.arg(cluster.data_dir()).output().expect("weft starts");
    Findings::parse(&output)
}

impl Findings {
    fn parse(output: &Output) -> Self {
        let said = words(output);
        let mut found = Findings::default();
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let mut count = 0;
        for line in lines.iter().filter(|line| line["finding"].is_string()) {
            count += 1;
            found.one(line);
        }
        let end = lines.last().unwrap_or_else(|| panic!("no end: {said}"));
        assert_eq!(end["findings"].as_u64(), Some(count), "{said}");
        assert_eq!(output.status.code(), Some(i32::from(count > 0)), "{said}");
        found.said = said;
        found
    }

    fn one(&mut self, line: &Value) {
        let number = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("{key} in {line}"));
        let small = |key: &str| u32::try_from(number(key)).expect("32 bits");
        let text = line["text"].as_str().expect("text");
        let is_new = match line["finding"].as_str() {
            Some("unaccounted") => {
                self.strays.insert((small("data_server"), small("volume"), number("object")))
            }
            Some("damaged" | "object") => {
                let fault = match text {
                    _ if text.contains(": lost bytes: ") => Fault::Lost,
                    _ if text.contains(": fence epoch ") => Fault::Fenced,
                    _ if text.contains("too long for a file") => Fault::TooLong,
                    _ => panic!("{line}"),
                };
                let path = line["path"].as_str().expect("a path").to_owned();
                self.paths.insert((number("fileid"), path));
                self.faults.insert((number("fileid"), small("data_server")), fault).is_none()
            }
            _ => panic!("{line}"),
        };
        assert!(is_new, "twice: {line}");
    }

    /// Expects these findings, and no others.
    pub fn are(&self, expected: &Expected, when: &str) {
        assert_eq!(self.faults, expected.faults, "{when}: {}", self.said);
        assert_eq!(self.strays, expected.strays, "{when}: {}", self.said);
        for (number, path) in &self.paths {
            let is_name = expected.names.get(number).is_some_and(|names| names.contains(path));
            assert!(is_name, "{when}: {path} is no name of {number}: {}", self.said);
        }
    }
}
