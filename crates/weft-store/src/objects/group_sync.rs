//! One sync for all calls that wait: those that arrive while one runs share the next.

use std::sync::{Condvar, Mutex};

use super::error::ObjectError;
use crate::sync::{lock, wait};

/// Rounds of an expensive call. Each caller is covered by a round that began after it came.
#[derive(Debug, Default)]
pub struct GroupSync {
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    /// Number of rounds begun.
    begun: u64,
    /// Number of rounds ended: equal to `begun`, or one less while a round runs.
    ended: u64,
    /// The last failed round and its error.
    failed: Option<(u64, ObjectError)>,
    /// Callers waiting for a round, so that tests need not guess.
    #[cfg(test)]
    waiting: usize,
}

impl GroupSync {
    /// Returns when a round that began after this call has ended. `sync` is called if this caller
    /// is the one to run it.
    ///
    /// # Errors
    /// That of the covering round, or of the round that was running when the caller came: a
    /// failed sync forgets the data, so that the next one succeeds without it.
    pub fn run(&self, sync: impl FnOnce() -> Result<(), ObjectError>) -> Result<(), ObjectError> {
        let mut rounds = lock(&self.rounds);
        let concerns_from = rounds.ended + 1;
        let covered_by = rounds.begun + 1;
        while rounds.ended < covered_by {
            if rounds.begun == rounds.ended {
                rounds.begun += 1;
                drop(rounds);
                let result = sync();
                rounds = lock(&self.rounds);
                rounds.ended = rounds.begun;
                if let Err(e) = result {
                    rounds.failed = Some((rounds.ended, e));
                }
                self.ended.notify_all();
                break;
            }
            #[cfg(test)]
            {
                rounds.waiting += 1;
            }
            rounds = wait(&self.ended, rounds);
        }
        match rounds.failed {
            Some((round, e)) if round >= concerns_from => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread::{scope, yield_now},
    };

    use super::*;

    const FAILED: ObjectError = ObjectError::Io { doing: "test", errno: 5 };

    fn await_begun(group: &GroupSync) {
        while lock(&group.rounds).begun == 0 {
            yield_now();
        }
    }

    fn await_waiting(group: &GroupSync, n: usize) {
        while lock(&group.rounds).waiting < n {
            yield_now();
        }
    }

    /// Callers that come while a round runs are not covered by it, and share one next round.
    #[test]
    fn waiters_share_the_next_round() {
        let group = GroupSync::default();
        let rounds = AtomicUsize::new(0);
        let count = || {
            rounds.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let (go, wait) = mpsc::channel::<()>();
        scope(|s| {
            s.spawn(|| {
                group.run(move || {
                    wait.recv().unwrap();
                    Ok(())
                })
            });
            await_begun(&group);
            for _ in 0..8 {
                s.spawn(|| assert_eq!(group.run(count), Ok(())));
            }
            await_waiting(&group, 8);
            go.send(()).unwrap();
        });
        assert_eq!(rounds.load(Ordering::SeqCst), 1);
    }

    /// A failed round fails its runner and whoever came while it ran, and nobody later.
    #[test]
    fn failure_reaches_those_it_concerns() {
        let group = GroupSync::default();
        let (go, wait) = mpsc::channel::<()>();
        scope(|s| {
            let first = s.spawn(|| {
                group.run(move || {
                    wait.recv().unwrap();
                    Err(FAILED)
                })
            });
            await_begun(&group);
            let second = s.spawn(|| group.run(|| Ok(())));
            await_waiting(&group, 1);
            go.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Err(FAILED));
            assert_eq!(second.join().unwrap(), Err(FAILED));
        });
        assert_eq!(group.run(|| Ok(())), Ok(()));
    }
}
