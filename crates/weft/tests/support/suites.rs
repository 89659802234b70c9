//! Suites that others wrote: where they are, how they are configured, what they say.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// A program that `./dev` installs; none, said so, where it did not (a failure in continuous
/// integration).
pub fn program(name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("WEFT_CACHE")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/weft")))?;
    let path = cache.join("programs/bin").join(name);
    if path.exists() {
        return Some(path);
    }
    let why = format!("{} is missing: `./dev test` installs it", path.display());
    assert!(!super::in_ci(), "{why}; in CI no suite may be left out");
    eprintln!("SKIPPED: {why}");
    None
}

/// What the environment says, or the default.
pub fn setting<T: FromStr<Err: Display>>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}

/// How pjdfstest is configured: as in `tests/guest/suites.sh`, without remounts.
pub fn pjdfstest_config() -> String {
    "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutime_now = {}\nutimensat = {}\n\
     [settings]\nnaptime = 0.01\nallow_remount = false\n[dummy_auth]\n\
     entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
        .to_owned()
}

/// How fsx is configured, with this weight of reads and writes through mappings: as there.
pub fn fsx_config(maps: u32) -> String {
    format!(
        "flen = 4194304\n[opsize]\nmin = 1\nmax = 131072\n[weights]\nclose_open = 1\n\
         invalidate = 1\nmapread = {maps}\nmapwrite = {maps}\nread = 10\nwrite = 10\ntruncate = 5\n\
         fsync = 1\nfdatasync = 1\nposix_fallocate = 2\npunch_hole = 3\nsendfile = 3\n\
         posix_fadvise = 1\ncopy_file_range = 3\n"
    )
}

/// A text without what terminals make colours of.
pub fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// `OUTCOME NAME` of each test of pjdfstest that did not pass.
pub fn unpassed(said: &str) -> BTreeSet<String> {
    let outcome = |line: &str| {
        let (name, outcome) = line.split_once(' ')?;
        let outcome = outcome.trim();
        matches!(outcome, "FAILED" | "skipped").then(|| format!("{outcome} {name}"))
    };
    said.lines().filter_map(outcome).collect()
}
