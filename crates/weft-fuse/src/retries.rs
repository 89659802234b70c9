//! Threads that were told to look a name up again before they open the file.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The kernel looks up and opens again at once; what a thread does later is something else.
const AT_ONCE: Duration = Duration::from_secs(10);
/// From so many on, those that are over are dropped.
const MANY: usize = 256;

/// Threads whose open was answered ESTALE, and since when. On that the kernel looks every name of
/// the path up again, and opens once more; a second ESTALE is what the program sees
/// (`do_filp_open`, fs/namei.c).
#[derive(Default)]
pub struct Retries(Mutex<HashMap<u32, Instant>>);

impl Retries {
    /// True for the first open of a thread, which is to look the name up then; not for the next.
    pub fn is_first(&self, thread: u32, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |at: Instant| now.saturating_duration_since(at) > AT_ONCE;
        if told.len() > MANY {
            told.retain(|_, at| !is_over(*at));
        }
        match told.remove(&thread) {
            Some(at) if !is_over(at) => false,
            _ => {
                told.insert(thread, now);
                true
            }
        }
    }

    /// The name that the thread looked up is not there: no open follows.
    pub fn gives_up(&self, thread: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread after another is told, each once for an open, however many lists come between.
    #[test]
    fn once_for_each_open() {
        let (retries, now) = (Retries::default(), Instant::now());
        assert!(retries.is_first(1, now) && retries.is_first(2, now));
        assert!(!retries.is_first(1, now));
        assert!(retries.is_first(1, now));
        retries.gives_up(1);
        assert!(retries.is_first(1, now), "an open that came to nothing counts for no other");
        assert!(!retries.is_first(2, now));
        assert!(retries.is_first(3, now) && retries.is_first(3, now + 2 * AT_ONCE));
    }

    #[test]
    fn not_for_ever() {
        let (retries, now) = (Retries::default(), Instant::now());
        for thread in 0..10_000 {
            assert!(retries.is_first(thread, now + AT_ONCE * thread));
        }
        assert!(retries.0.lock().unwrap().len() <= MANY + 1);
    }
}
