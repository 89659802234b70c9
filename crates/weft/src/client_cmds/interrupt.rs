//! Ctrl-C, SIGTERM, and the end of its terminal: the command says goodbye to its servers, for a
//! moment at most.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
}

impl Interrupts {
    /// From now on they no longer end the process by themselves.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn new() -> io::Result<Interrupts> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Interrupts { interrupt, terminate, hangup: signal(SignalKind::hangup())? })
    }

    /// The next one.
    pub async fn next(&mut self) -> Interrupted {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        };
        Interrupted(kind.as_raw_value())
    }
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
