//! The way back from a guest script to the test: `host WORD...` in the guest becomes a call of a
//! closure here, over two named pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The request that ends the service; no guest script uses it.
const QUIT: &str = "quit-hook";

/// The two pipes and the program the rig runs for each `host` command.
pub struct Hook {
    request: PathBuf,
    reply: PathBuf,
    program: PathBuf,
}

impl Hook {
    /// Makes the pipes and the program in `dir`.
    pub fn new(dir: &Path) -> Self {
        let hook = Self {
            request: dir.join("hook.request"),
            reply: dir.join("hook.reply"),
            program: dir.join("hook.sh"),
        };
        for pipe in [&hook.request, &hook.reply] {
            let made = super::run("mkfifo", &[pipe.to_str().expect("a plain path")]);
            assert!(made.status.success(), "mkfifo: {}", super::words(&made));
        }
        let text = format!(
            "#!/bin/sh\necho \"$*\" >'{}'\nread -r status <'{}'\nexit \"$status\"\n",
            hook.request.display(),
            hook.reply.display()
        );
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&hook.program)
            .expect("a hook program");
        file.write_all(text.as_bytes()).expect("a hook program");
        hook
    }

    /// What `--hook` gets.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Answers requests until [`Hook::quit`]; a request is refused (status 1) with the closure's
    /// error, which comes back in the list.
    pub fn serve(&self, mut answer: impl FnMut(&str) -> Result<(), String>) -> Vec<String> {
        // Both pipes stay open for reading and writing, so that neither end ever blocks an open.
        let open = |path| File::options().read(true).write(true).open(path).expect("a pipe");
        let mut reply = open(&self.reply);
        let mut errors = Vec::new();
        for line in BufReader::new(open(&self.request)).lines() {
            let line = line.expect("a request");
            if line == QUIT {
                break;
            }
            // A panic must not leave the guest waiting for its answer until its time is over.
            let outcome = catch_unwind(AssertUnwindSafe(|| answer(line.trim())));
            let status = match outcome.unwrap_or_else(|_| Err("panicked (see above)".to_owned())) {
                Ok(()) => 0,
                Err(error) => {
                    errors.push(format!("host {line}: {error}"));
                    1
                }
            };
            writeln!(reply, "{status}").expect("a reply");
        }
        errors
    }

    /// Ends [`Hook::serve`], now or whenever it starts.
    pub fn quit(&self) -> File {
        let open = File::options().read(true).write(true).open(&self.request);
        let mut request = open.expect("a pipe");
        writeln!(request, "{QUIT}").expect("a request");
        request // the line lives as long as somebody holds the pipe open
    }
}
