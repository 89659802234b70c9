//! What the servers log during a sequence: a fault that the same seed does not show again has to
//! be understood from what was said the first time.

use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use tracing_subscriber::EnvFilter;

/// Lines kept; a sequence logs some hundred.
const LINES_MAX: usize = 400;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn lines() -> MutexGuard<'static, VecDeque<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes one event, a line, with each call.
struct Line;

impl io::Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut lines = lines();
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(event).trim_end().to_owned());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From here on the log is that of another sequence.
pub fn begin() {
    static SUBSCRIBED: OnceLock<()> = OnceLock::new();
    SUBSCRIBED.get_or_init(|| {
        let filter = EnvFilter::new("info,weft_mds=debug,weft_ds=debug,weft_store=debug");
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        log.with_writer(|| Line).init();
    });
    lines().clear();
}

/// What was logged since [`begin`], the last of it if it was much.
pub fn told() -> String {
    lines().iter().cloned().collect::<Vec<_>>().join("\n")
}
