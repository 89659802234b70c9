//! How many connections the admin service has at once, of each way to it, and for how long. Who has
//! not asked anything yet makes room for a newcomer; who has asked is answered.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// Connections that have not shown yet that they may ask.
pub(super) const SILENT_MAX: usize = 32;
/// Connections that are being answered.
const ASKED_MAX: usize = 32;
/// How long the head of a request may take, from the connection on.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long its body and the answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// The seats of one way to the admin service.
#[derive(Debug)]
pub(super) struct Seats {
    /// Longest there first.
    silent: Mutex<VecDeque<(u64, AbortHandle)>>,
    asked: Arc<Semaphore>,
}

/// The seat of one connection, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the connection ends, whatever it does; `None`: never.
    until: Option<Instant>,
    /// Of one that has asked.
    _asked: Option<OwnedSemaphorePermit>,
}

/// Whoever panicked has left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    pub(super) fn new() -> Arc<Self> {
        let asked = Arc::new(Semaphore::new(ASKED_MAX));
        Arc::new(Seats { silent: Mutex::default(), asked })
    }

    /// Serves a connection on a task of its own. With all seats of the silent taken, the one that
    /// has been silent for longest ends.
    pub(super) fn admit<F>(self: &Arc<Self>, id: u64, serve: impl FnOnce(Arc<Seat>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let until = Some(Instant::now() + HEAD_PATIENCE);
        let state = Mutex::new(State { until, _asked: None });
        let seat = Arc::new(Seat { seats: self.clone(), id, state });
        let serving = serve(seat.clone());
        let longest = {
            // Held until it is in the list, from which its task takes it.
            let mut silent = lock(&self.silent);
            let task = tokio::spawn(async move {
                tokio::select! {
                    () = serving => {}
                    () = seat.overdue() => {}
                }
            });
            silent.push_back((id, task.abort_handle()));
            if silent.len() > SILENT_MAX { silent.pop_front() } else { None }
        };
        longest.inspect(|(_, task)| task.abort());
    }

    fn no_longer_silent(&self, id: u64) {
        lock(&self.silent).retain(|(other, _)| *other != id);
    }
}

impl Seat {
    /// The connection has asked, and may. `limited`: it is answered in time or not at all. False if
    /// too many are being answered.
    pub(super) fn asks(&self, limited: bool) -> bool {
        let Ok(permit) = self.seats.asked.clone().try_acquire_owned() else { return false };
        self.seats.no_longer_silent(self.id);
        let until = limited.then(|| Instant::now() + ANSWER_PATIENCE);
        *lock(&self.state) = State { until, _asked: Some(permit) };
        true
    }

    async fn overdue(&self) {
        loop {
            let until = lock(&self.state).until;
            match until {
                Some(until) if until <= Instant::now() => return,
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.no_longer_silent(self.id);
    }
}
