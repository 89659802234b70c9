//! What a server syncs, through a library that is loaded before all others (`syncs.c`): it writes
//! down each sync, leaves some out, or stops the server before one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::support::{run, words};

/// The loaded library and its settings.
pub struct Syncs {
    log: PathBuf,
    settings: Vec<(&'static str, OsString)>,
}

/// One sync of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sync {
    pub left_out: bool,
    pub path: PathBuf,
}

impl Syncs {
    /// Writes down what is synced, in this file.
    pub fn logged(log: PathBuf) -> Self {
        let settings = vec![("WEFT_SYNCS_LOG", log.clone().into())];
        Self { log, settings }
    }

    /// Leaves out the syncs of paths that match the pattern, where a `*` stands for one name.
    pub fn without(mut self, pattern: &str) -> Self {
        self.settings.push(("WEFT_SYNCS_OFF", pattern.into()));
        self
    }

    /// Stops the server before the sync of this number, the first being 1.
    pub fn stopped_before(mut self, number: usize) -> Self {
        self.settings.push(("WEFT_SYNCS_STOP", number.to_string().into()));
        self
    }

    /// Variables for the server's environment.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let library = ("LD_PRELOAD", library().into());
        self.settings.iter().cloned().chain([library]).collect()
    }

    /// The syncs so far.
    pub fn seen(&self) -> Vec<Sync> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let of_line = |line: &str| {
            let (_number, rest) = line.split_once(' ')?;
            let (how, path) = rest.split_once(' ')?;
            Some(Sync { left_out: how == "off", path: path.into() })
        };
        text.lines().map(|line| of_line(line).expect("a line of syncs.c")).collect()
    }
}

/// Builds the library, once for all tests of this process.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/power_cuts/syncs.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("syncs-{}.so", std::process::id()));
        let to = library.to_str().expect("a plain path");
        let built = run("cc", &["-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", to, source]);
        assert!(built.status.success(), "cc: {}", words(&built));
        library
    })
}
