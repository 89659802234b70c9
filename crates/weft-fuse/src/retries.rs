//! Threads that were answered ESTALE, and look the path up again before they ask once more.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The kernel looks up and asks again at once; what a thread does later is something else.
const AT_ONCE: Duration = Duration::from_secs(10);
/// From so many on, those that are over are dropped.
const MANY: usize = 256;

/// A thread's number and its user. Threads of foreign pid namespaces all have number 0, and a file
/// that one user opened is not for another.
pub type Thread = (u32, u32);

/// Threads that received ESTALE, since when, and the result of each thread's lookup since. On
/// ESTALE the kernel looks every name of the path up again, and asks once more; a second ESTALE
/// reaches the program (`do_filp_open`, fs/namei.c; `retry_estale`, include/linux/namei.h). Between
/// that lookup and that request other clients may give the name to another file: the result is kept
/// until then, in a form that outlives the name.
pub struct Retries<T>(Mutex<HashMap<Thread, Retry<T>>>);

struct Retry<T> {
    since: Instant,
    flags: i32,
    found: Option<(u64, T)>,
}

impl<T> Retry<T> {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > AT_ONCE
    }
}

impl<T> Default for Retries<T> {
    fn default() -> Self {
        Retries(Mutex::default())
    }
}

impl<T: Clone> Retries<T> {
    /// A thread is told ESTALE, which wants to open with these flags of `open(2)`.
    pub fn begin(&self, thread: Thread, flags: i32, now: Instant) {
        let mut told = self.lock();
        if told.len() > MANY {
            told.retain(|_, retry| !retry.is_over(now));
        }
        told.insert(thread, Retry { since: now, flags, found: None });
    }

    /// The flags of a thread that looks up what it was told ESTALE for.
    pub fn under_way(&self, thread: Thread, now: Instant) -> Option<i32> {
        self.lock().get(&thread).filter(|retry| !retry.is_over(now)).map(|retry| retry.flags)
    }

    /// A name of the path led a thread to this number; what was found by an earlier name goes.
    pub fn found(&self, thread: Thread, number: u64, what: T) {
        if let Some(retry) = self.lock().get_mut(&thread) {
            retry.found = Some((number, what));
        }
    }

    /// Result of the thread's lookup, if its inode has this number.
    pub fn what(&self, thread: Thread, number: u64, now: Instant) -> Option<T> {
        let told = self.lock();
        let (found, what) =
            told.get(&thread).filter(|retry| !retry.is_over(now))?.found.as_ref()?;
        (*found == number).then(|| what.clone())
    }

    /// The thread has what it asked for, or was told that it is not there.
    pub fn end(&self, thread: Thread) {
        self.lock().remove(&thread);
    }

    /// Forgets the threads that did not ask again in time.
    pub fn end_overdue(&self, now: Instant) {
        self.lock().retain(|_, retry| !retry.is_over(now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Thread, Retry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lookup of one thread, of the last name of its path, counts for its next request only.
    #[test]
    fn what_was_found() {
        let (retries, now) = (Retries::default(), Instant::now());
        retries.found((1, 0), 10, "nobody asks again");
        assert_eq!(retries.what((1, 0), 10, now), None);
        retries.begin((1, 0), 0, now);
        retries.begin((2, 0), 2, now);
        assert_eq!(
            [1, 2, 3].map(|thread| retries.under_way((thread, 0), now)),
            [Some(0), Some(2), None]
        );
        retries.found((1, 0), 10, "a directory");
        retries.found((1, 0), 11, "a file");
        assert_eq!(retries.what((1, 0), 10, now), None);
        assert_eq!(retries.what((2, 0), 11, now), None);
        assert_eq!(retries.what((1, 7), 11, now), None, "a file that another user opened");
        assert_eq!(retries.what((1, 0), 11, now), Some("a file"));
        retries.end((1, 0));
        assert_eq!(retries.what((1, 0), 11, now), None);
        assert_eq!([1, 2].map(|thread| retries.under_way((thread, 0), now)), [None, Some(2)]);
    }

    #[test]
    fn not_for_ever() {
        let (retries, now) = (Retries::default(), Instant::now());
        let later = now + 2 * AT_ONCE;
        retries.begin((1, 0), 0, now);
        retries.found((1, 0), 10, "a file");
        retries.end_overdue(now);
        assert_eq!(retries.what((1, 0), 10, now), Some("a file"));
        assert_eq!(retries.what((1, 0), 10, later), None);
        retries.end_overdue(later);
        assert!(retries.lock().is_empty());
        for thread in 0..10_000 {
            retries.begin((thread, 0), 0, now + 2 * AT_ONCE * thread);
        }
        assert!(retries.lock().len() <= MANY + 1);
    }
}
