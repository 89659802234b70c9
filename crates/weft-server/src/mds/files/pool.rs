//! Files to come whose objects are made ahead (P3.1; ADR 7): a number and a place each, reserved in the
//! volume before any object is made, so that none is ever forgotten. Whoever makes a file takes one,
//! in the mutation that makes the inode, and sends no message.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::Notify;
use weft_store::types::{Reserved, StoreError};

use crate::data_servers::DataServerError;
use crate::mds::{
    Mds,
    creation::{ObjectCreation, Precreate},
};

/// Pause while a data server does not make objects.
const PAUSE: Duration = Duration::from_secs(1);
/// Reservations looked at together.
const LOOK_BATCH: usize = 512;

impl Precreate {
    /// How many numbers to reserve now, with objects of so many ready, and of so many wanted but not
    /// made because a data server is away. The others get more meanwhile, but not without end.
    fn to_reserve(self, ready: usize, unmade: usize) -> usize {
        if ready < self.low && unmade < self.batch { self.batch } else { 0 }
    }
}

/// Reserved numbers whose objects are there.
#[derive(Debug, Default)]
pub(in crate::mds) struct Pool {
    ready: Mutex<VecDeque<Reserved>>,
    /// Reserved before this start; their objects may be there or not.
    left_over: Mutex<Vec<Reserved>>,
    /// Wakes the task that fills it.
    taken: Notify,
}

impl Pool {
    fn ready(&self) -> MutexGuard<'_, VecDeque<Reserved>> {
        self.ready.lock().expect("pool lock")
    }

    /// One for a new file.
    pub(in crate::mds) fn take(&self) -> Option<Reserved> {
        let taken = self.ready().pop_front();
        self.taken.notify_one();
        taken
    }

    /// It was not needed.
    pub(in crate::mds) fn put_back(&self, reserved: Reserved) {
        self.ready().push_front(reserved);
    }

    fn left_over(&self) -> MutexGuard<'_, Vec<Reserved>> {
        self.left_over.lock().expect("pool lock")
    }
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

/// What was reserved before this start serves again if new files are still placed that way; else
/// its objects are to be removed.
pub(in crate::mds) fn take_up_reserved(mds: &Mds) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let found = mds.volume.reserved(after, LOOK_BATCH).value?;
        let Some(last) = found.last() else { return Ok(()) };
        after = Some(last.ino);
        for reserved in found {
            if mds.precreates().is_some() && mds.places_like(&reserved.placement) {
                mds.pool.left_over().push(reserved);
            } else {
                mds.volume.give_up_reserved(reserved.ino).value?;
            }
        }
    }
}

impl Mds {
    /// How objects are made ahead, if they are: files that begin in the volume have none.
    fn precreates(&self) -> Option<Precreate> {
        match self.creation {
            ObjectCreation::Precreate(how) if !self.stuffs() => Some(how),
            _ => None,
        }
    }

    /// Files to come whose objects are made; absent unless objects are made ahead.
    pub fn files_ahead(&self) -> Option<usize> {
        self.precreates().map(|_| self.pool.ready().len())
    }

    /// Keeps the pool filled, for ever.
    pub(in crate::mds) async fn run_pool(&self) {
        let Some(how) = self.precreates() else { return };
        let mut unmade = std::mem::take(&mut *self.pool.left_over());
        loop {
            match self.fill(how, &mut unmade).await {
                Ok(Round::Enough) => self.pool.taken.notified().await,
                Ok(Round::Made) => {}
                Ok(Round::Waiting) => tokio::time::sleep(PAUSE).await,
                Err(e) => {
                    tracing::error!(error = %e, "cannot make objects ahead");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn fill(&self, how: Precreate, unmade: &mut Vec<Reserved>) -> Result<Round, StoreError> {
        let count = how.to_reserve(self.pool.ready().len(), unmade.len());
        if count == 0 && unmade.is_empty() {
            return Ok(Round::Enough);
        }
        let places: Result<Vec<_>, _> = (0..count).map(|_| self.next_placement()).collect();
        // Without any data server there is nothing to make.
        let Ok(places) = places else { return Ok(Round::Waiting) };
        // Durable first: objects that nobody knows of would stay for ever.
        unmade.extend(self.volume.confirm(self.volume.reserve(&places)).await?);
        let wanted = unmade.len();
        *unmade = self.make_ahead(std::mem::take(unmade)).await?;
        Ok(if unmade.len() < wanted { Round::Made } else { Round::Waiting })
    }

    /// Makes the objects of reserved numbers; those that could not be made.
    async fn make_ahead(&self, wanted: Vec<Reserved>) -> Result<Vec<Reserved>, StoreError> {
        let (mut asked, mut files, mut unmade) = (Vec::new(), Vec::new(), Vec::new());
        for reserved in wanted {
            match self.striped_at(reserved.ino, &reserved.placement, 0) {
                Some(file) => {
                    asked.push(reserved);
                    files.push(file);
                }
                None => {
                    self.volume.give_up_reserved(reserved.ino).value?;
                }
            }
        }
        let made = self.data_servers.create(&files).await;
        for (reserved, made) in asked.into_iter().zip(made) {
            match made {
                Ok(()) => self.pool.ready().push_back(reserved),
                // The data server knows of a removal: such a number is of no use.
                Err(DataServerError::Fenced { .. }) => {
                    self.volume.give_up_reserved(reserved.ino).value?;
                    self.reap.notify_one();
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

    /// More is reserved below the mark, a whole batch, and while objects of less than a batch wait for
    /// a data server; both sides of both limits.
    #[test]
    fn the_pool_is_filled_below_its_mark() {
        let how = Precreate { low: 10, batch: 4 };
        let rows = [((0, 0), 4), ((9, 0), 4), ((10, 0), 0), ((11, 0), 0), ((9, 3), 4), ((9, 4), 0)];
        for ((ready, unmade), wanted) in rows {
            assert_eq!(how.to_reserve(ready, unmade), wanted, "{ready} ready, {unmade} unmade");
        }
    }
}
