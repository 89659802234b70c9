//! No silent waits: what a command waits for is said on standard error, soon and then seldom.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use weft_client::{OnWait, Waiting};

/// A wait that is over sooner is not worth a line.
const SOON: Duration = Duration::from_millis(700);
/// Between two lines about one wait.
const SELDOM: Duration = Duration::from_secs(15);
/// Without a word for so long, a wait is over, and the next one is another.
const OVER: Duration = Duration::from_secs(4);

/// Says on standard error what is waited for.
pub(super) fn on_stderr() -> OnWait {
    let waits: Mutex<HashMap<SocketAddr, Wait>> = Mutex::default();
    Arc::new(move |waiting: &Waiting| {
        let now = Instant::now();
        let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = waits.entry(waiting.server).or_insert_with(|| Wait::new(now));
        if wait.is_worth_saying(now) {
            let since = now.saturating_duration_since(wait.since).as_secs();
            match since {
                0 | 1 => eprintln!("weft: {waiting}"),
                _ => eprintln!("weft: {waiting} ({since} s so far)"),
            }
        }
    })
}

/// One wait for one server.
struct Wait {
    since: Instant,
    heard: Instant,
    said: Option<Instant>,
}

impl Wait {
    fn new(now: Instant) -> Wait {
        Wait { since: now, heard: now, said: None }
    }

    /// Notes that the wait goes on, or a new one begins.
    fn is_worth_saying(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.heard) > OVER {
            *self = Wait::new(now);
        }
        self.heard = now;
        let worth = match self.said {
            None => now.saturating_duration_since(self.since) >= SOON,
            Some(said) => now.saturating_duration_since(said) >= SELDOM,
        };
        if worth {
            self.said = Some(now);
        }
        worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first line comes within two seconds of a client's tries (which are a second apart at
    /// most), the next ones seldom; short waits, however many, say nothing; one that comes after a
    /// while begins anew.
    #[test]
    fn when_it_is_said() {
        let start = Instant::now();
        let said = |at: &[u64]| {
            let mut wait = Wait::new(start + Duration::from_millis(at[0]));
            let said =
                at.iter().filter(|ms| wait.is_worth_saying(start + Duration::from_millis(**ms)));
            said.copied().collect::<Vec<_>>()
        };
        assert_eq!(said(&[0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270]), [1270]);
        let long: Vec<u64> = (0..40).map(|s| s * 1000).collect();
        assert_eq!(said(&long), [1000, 16_000, 31_000]);
        assert_eq!(said(&[0, 500, 6_000, 6_500, 12_000]), [0; 0]);
        assert_eq!(said(&[0, 1000, 6_000, 7_000]), [1000, 7_000]);
    }
}
