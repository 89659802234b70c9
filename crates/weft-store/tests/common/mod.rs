//! A child process that can be killed: this test binary again, running one test by name.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use weft_store::engine::EngineKind;

/// Where a child finds its directory; absent in the parent.
const DIRECTORY_VARIABLE: &str = "WEFT_CRASH_DIRECTORY";
/// Which engine a child opens.
const ENGINE_VARIABLE: &str = "WEFT_CRASH_ENGINE";
/// Marks a child's lines among those of the test harness.
const MARK: &str = "@ ";

/// In a child: its directory and engine.
pub fn child_setup() -> Option<(PathBuf, EngineKind)> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE)?;
    let engine = std::env::var(ENGINE_VARIABLE).unwrap().parse().unwrap();
    Some((directory.into(), engine))
}

/// In a child: tells the parent something. The line is in the pipe when this returns.
pub fn tell(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// A child and what it tells.
pub struct Victim {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    /// Starts the test `name` of this binary as a child.
    pub fn start(name: &str, directory: &Path, engine: EngineKind) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        command.env(DIRECTORY_VARIABLE, directory).env(ENGINE_VARIABLE, engine.name());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing it tells; `None` when it is dead.
    pub fn next_line(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            // The harness prints the test's name on the same line.
            if let Some(at) = line.find(MARK) {
                return Some(line[at + MARK.len()..].to_owned());
            }
        }
    }

    /// Hears `count` lines, kills the child with SIGKILL while it goes on, and returns all it told
    /// before it died.
    pub fn kill_after(mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < count {
            told.push(self.next_line().expect("the child ended by itself"));
        }
        self.child.kill().unwrap();
        while let Some(line) = self.next_line() {
            told.push(line);
        }
        self.child.wait().unwrap();
        told
    }
}
