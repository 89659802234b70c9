//! Ctrl-C, SIGTERM, and the end of its terminal: the command says goodbye to its servers, for a
//! moment at most.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::own_status;

/// A signal asked the command to end.
#[derive(Debug, thiserror::Error)]
#[error("{}", word(*.0))]
pub struct Interrupted(i32);

fn word(number: i32) -> &'static str {
    match SignalKind::from_raw(number) {
        kind if kind == SignalKind::interrupt() => "interrupted",
        kind if kind == SignalKind::hangup() => "its terminal has gone",
        _ => "terminated",
    }
}

impl Interrupted {
    /// The exit status that shells give to a command that a signal has ended.
    pub fn exit_status(&self) -> u8 {
        u8::try_from(self.0).map_or(u8::MAX, |number| 128 | number)
    }
}

/// The signals that ask a command to end.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    outlives_terminal: bool,
}

impl Interrupts {
    /// From now on they no longer end the process by themselves.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn new() -> io::Result<Interrupts> {
        // `nohup` says so, before it becomes this program.
        let outlives_terminal = is_ignored(SignalKind::hangup());
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            outlives_terminal,
        })
    }

    /// What goes on in the background has nothing to do with a terminal.
    pub fn outlive_terminal(&mut self) {
        self.outlives_terminal = true;
    }

    /// The next one.
    pub async fn next(&mut self) -> Interrupted {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv(), if !self.outlives_terminal => {
                // It comes from the terminal, and again from the shell.
                self.outlives_terminal = true;
                SignalKind::hangup()
            }
        };
        Interrupted(kind.as_raw_value())
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let mask = own_status::field("SigIgn", 16).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 129, 130 and 143, as shells have it.
    #[test]
    fn statuses() {
        let of = |kind: SignalKind| Interrupted(kind.as_raw_value());
        assert_eq!(of(SignalKind::hangup()).exit_status(), 129);
        assert_eq!(of(SignalKind::interrupt()).exit_status(), 130);
        assert_eq!(of(SignalKind::terminate()).exit_status(), 143);
        assert_eq!(of(SignalKind::interrupt()).to_string(), "interrupted");
        assert_eq!(of(SignalKind::terminate()).to_string(), "terminated");
    }
}
