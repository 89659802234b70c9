//! A disk that hangs as long as the test wants, through a library that is loaded before all others
//! (`gate.c`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::support::{run, until, words};

/// Time for a call to come to the gate.
const PATIENCE: Duration = Duration::from_secs(60);

/// What passes it: kinds of calls, each of which can be held up.
pub struct Gate(PathBuf);

impl Gate {
    /// An open one, in a folder of its own.
    pub fn new(folder: PathBuf) -> Self {
        std::fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    /// Variables for the environment of a server: its calls below `dir` pass the gate.
    pub fn environment(&self, dir: &Path) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", library().into()),
            ("WEFT_GATE", self.0.clone().into()),
            ("WEFT_GATE_BELOW", dir.into()),
        ]
    }

    /// From now on calls of this kind wait.
    pub fn close(&self, kind: &str) {
        std::fs::write(self.0.join(kind), "").expect("a gate");
    }

    /// They go on.
    pub fn open(&self, kind: &str) {
        std::fs::remove_file(self.0.join(kind)).expect("a gate");
    }

    /// Returns when a call of this kind waits for a file whose path has this in it.
    pub fn until_waiting(&self, kind: &str, path: &str) {
        let is_it = |line: &str| line.starts_with(kind) && line.contains(path);
        until(&format!("{kind} of {path} at the gate"), PATIENCE, || {
            let waiting = std::fs::read_to_string(self.0.join("waiting")).unwrap_or_default();
            waiting.lines().any(is_it).then_some(())
        });
    }
}

/// Builds the library, once for all tests of this process.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hung_disk/gate.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gate-{}.so", std::process::id()));
        let to = library.to_str().expect("a plain path");
        let built = run("cc", &["-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", to, source]);
        assert!(built.status.success(), "cc: {}", words(&built));
        library
    })
}
