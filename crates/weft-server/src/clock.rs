//! The only clocks of the servers: monotonic time for leases, wall time for timestamps.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weft_state::Millis;

/// Time sources, read once per COMPOUND.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { started: Instant::now() }
    }
}

impl Clock {
    /// Milliseconds since the process started.
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Wall time as seconds and nanoseconds since 1970.
    pub fn wall(&self) -> (i64, u32) {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(d) => (i64::try_from(d.as_secs()).unwrap_or(i64::MAX), d.subsec_nanos()),
            Err(e) => (-i64::try_from(e.duration().as_secs()).unwrap_or(i64::MAX), 0),
        }
    }
}

/// Random bytes from the operating system.
///
/// # Panics
/// When the system has no entropy source: nothing here is safe then.
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    getrandom::fill(&mut out).expect("the operating system supplies random numbers");
    out
}
