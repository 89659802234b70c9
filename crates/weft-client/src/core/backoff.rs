//! How long to wait before trying again.

use std::time::Duration;

use crate::limits;

/// Doubling waits with an end.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    left: Duration,
}

impl Backoff {
    /// Waits that add up to about `patience`.
    pub fn new(patience: Duration) -> Backoff {
        Backoff { next: limits::DELAY_MIN, left: patience }
    }

    /// The next wait; none when patience has run out.
    pub fn next_wait(&mut self) -> Option<Duration> {
        if self.left.is_zero() {
            return None;
        }
        let wait = self.next.min(self.left);
        self.left -= wait;
        self.next = (self.next * 2).min(limits::DELAY_MAX);
        Some(wait)
    }
}
