//! Files to come whose objects are made ahead (P3.1; ADR 7): a number and a place each, reserved in
//! the volume before any object is made, so that none is ever forgotten. Whoever makes a file takes
//! one, in the mutation that makes the inode, and sends no message.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::Notify;
use weft_store::types::{Reserved, StoreError};

use super::{reaper::Reaper, shared::Shared};
use crate::data_servers::DataServerError;

/// How many objects are made ahead of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precreate {
    /// With fewer files' objects ready, more are made.
    pub low: usize,
    /// For so many files at once.
    pub batch: usize,
}

/// Pause while a data server does not make objects.
const PAUSE: Duration = Duration::from_secs(1);
/// Reservations looked at together.
const LOOK_BATCH: usize = 512;

impl Precreate {
    /// How many numbers to reserve now, with objects of so many ready to be taken, and of so many
    /// wanted but not made because a data server is away. The others get more meanwhile, but not
    /// without end.
    fn to_reserve(self, ready: usize, unmade: usize) -> usize {
        if ready < self.low && unmade < self.batch { self.batch } else { 0 }
    }
}

/// Reserved numbers whose objects are there.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    reaper: Arc<Reaper>,
    how: Precreate,
    ready: Mutex<VecDeque<Reserved>>,
    /// Reserved before this start; their objects may be there or not.
    left_over: Mutex<Vec<Reserved>>,
    /// Wakes the task that fills it.
    taken: Notify,
}

/// What one look at the pool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There is enough.
    Enough,
    /// More objects are ready.
    Made,
    /// A data server is waited for.
    Waiting,
}

/// What was reserved before this start serves again if objects are still made ahead and new files
/// still placed that way; else its objects are to be removed.
fn left_over(shared: &Shared, serves: bool) -> Result<Vec<Reserved>, StoreError> {
    let (mut after, mut kept) = (None, Vec::new());
    loop {
        let found = shared.volume.reserved(after, LOOK_BATCH).unconfirmed()?;
        let Some(last) = found.last() else { return Ok(kept) };
        after = Some(last.ino);
        for reserved in found {
            if serves && shared.placements.places_like(&reserved.placement) {
                kept.push(reserved);
            } else {
                shared.volume.give_up_reserved(reserved.ino).unconfirmed()?;
            }
        }
    }
}

impl Pool {
    /// The pool of a volume; `None` unless objects are made ahead.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        reaper: &Arc<Reaper>,
        how: Option<Precreate>,
    ) -> Result<Option<Self>, StoreError> {
        let left_over = Mutex::new(left_over(shared, how.is_some())?);
        Ok(how.map(|how| Pool {
            shared: shared.clone(),
            reaper: reaper.clone(),
            how,
            ready: Mutex::default(),
            left_over,
            taken: Notify::new(),
        }))
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Reserved>> {
        self.ready.lock().expect("pool lock")
    }

    /// Files to come whose objects are made.
    pub(crate) fn len(&self) -> usize {
        self.ready().len()
    }

    /// One for a new file, whose data servers are up and have room.
    pub(crate) fn take(&self) -> Option<Reserved> {
        let taken = {
            let mut ready = self.ready();
            let serves = ready.iter().position(|r| self.serves(r));
            serves.and_then(|at| ready.remove(at))
        };
        self.taken.notify_one();
        taken
    }

    fn serves(&self, reserved: &Reserved) -> bool {
        self.shared.placements.serves(reserved.placement.device)
    }

    /// How many could be taken now, and those that others are made instead of: their data servers
    /// are down or full, and too many such wait for them already.
    fn look(&self) -> (usize, Vec<Reserved>) {
        let mut ready = self.ready();
        let (serving, mut waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut *ready).into_iter().partition(|r| self.serves(r));
        let surplus = waiting.len().saturating_sub(self.how.low + self.how.batch);
        let given_up = waiting.drain(..surplus).collect();
        let usable = serving.len();
        ready.extend(serving.into_iter().chain(waiting));
        (usable, given_up)
    }

    /// It was not needed.
    pub(crate) fn put_back(&self, reserved: Reserved) {
        self.ready().push_front(reserved);
    }

    /// Keeps the pool filled, for ever.
    pub(crate) async fn run(&self) {
        let mut unmade = std::mem::take(&mut *self.left_over.lock().expect("pool lock"));
        loop {
            match self.fill(&mut unmade).await {
                Ok(Round::Enough) => self.taken.notified().await,
                Ok(Round::Made) => {}
                Ok(Round::Waiting) => tokio::time::sleep(PAUSE).await,
                Err(e) => {
                    tracing::error!(error = %e, "cannot make objects ahead");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn fill(&self, unmade: &mut Vec<Reserved>) -> Result<Round, StoreError> {
        let (usable, given_up) = self.look();
        for reserved in given_up {
            self.shared.volume.give_up_reserved(reserved.ino).unconfirmed()?;
            self.reaper.wake();
        }
        let room = self.shared.volume.has_room();
        let count = if room { self.how.to_reserve(usable, unmade.len()) } else { 0 };
        if count == 0 && unmade.is_empty() {
            return Ok(if room { Round::Enough } else { Round::Waiting });
        }
        let mut places = Vec::with_capacity(count);
        for _ in 0..count {
            // Without any data server there is nothing to make.
            let Ok(place) = self.shared.placements.next(None).await else {
                return Ok(Round::Waiting);
            };
            places.push(place);
        }
        // Durable first: objects that nobody knows of would stay for ever.
        let volume = &self.shared.volume;
        unmade.extend(volume.confirm(volume.reserve(&places)).await?);
        let wanted = unmade.len();
        *unmade = self.make_ahead(std::mem::take(unmade)).await?;
        Ok(if unmade.len() < wanted { Round::Made } else { Round::Waiting })
    }

    /// Makes the objects of reserved numbers; those that could not be made.
    async fn make_ahead(&self, wanted: Vec<Reserved>) -> Result<Vec<Reserved>, StoreError> {
        let (mut asked, mut files, mut unmade) = (Vec::new(), Vec::new(), Vec::new());
        for reserved in wanted {
            match self.shared.placements.striped_at(reserved.ino, &reserved.placement, 0) {
                Some(file) => {
                    asked.push(reserved);
                    files.push(file);
                }
                None => {
                    self.shared.volume.give_up_reserved(reserved.ino).unconfirmed()?;
                }
            }
        }
        let made = self.shared.data_servers.create(&files).await;
        for (reserved, made) in asked.into_iter().zip(made) {
            match made {
                Ok(()) => self.ready().push_back(reserved),
                // The data server knows of a removal: such a number is of no use.
                Err(DataServerError::Fenced { .. }) => {
                    self.shared.volume.give_up_reserved(reserved.ino).unconfirmed()?;
                    self.reaper.wake();
                }
                Err(e) => {
                    tracing::debug!(object = reserved.ino.0, error = %e, "not made ahead");
                    unmade.push(reserved);
                }
            }
        }
        Ok(unmade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More is reserved below the mark, a whole batch, and while objects of less than a batch wait
    /// for a data server; both sides of both limits.
    #[test]
    fn the_pool_is_filled_below_its_mark() {
        let how = Precreate { low: 10, batch: 4 };
        let rows = [((0, 0), 4), ((9, 0), 4), ((10, 0), 0), ((11, 0), 0), ((9, 3), 4), ((9, 4), 0)];
        for ((ready, unmade), wanted) in rows {
            assert_eq!(how.to_reserve(ready, unmade), wanted, "{ready} ready, {unmade} unmade");
        }
    }
}
