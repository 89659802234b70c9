//! Calls of the object store that may wait for the disk, and the threads they wait on: never one
//! that serves connections.

use std::{
    collections::{HashMap, VecDeque},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
};
use weft_nfs::{Failure, NfsStat};
use weft_store::objects::{ObjectError, ObjectId, ObjectStore, WriteVerifier};

use crate::status::object_status;

/// Threads of a data server that wait for its disk for clients. While all do, what else needs the
/// disk waits in line.
pub(crate) const CLIENT_THREADS_MAX: usize = 512;

/// Bytes of all calls that clients have under way at the disk. What a connection may have ends with
/// the connection, while its calls still wait for a disk that hangs: beyond this they are DELAY.
const CALL_BYTES_MAX: usize = 1 << 30;

/// What a call takes beside its data, at most.
const CALL_BYTES: usize = 1 << 10;

/// A larger write is worth a hand-over: the thread that serves the connection takes the next one
/// from the socket meanwhile.
const UNWAITING_BYTES_MAX: usize = 64 << 10;

/// Threads that wait in place of others. They are made when they are needed, and end when they are
/// not for ten seconds.
#[derive(Debug)]
pub(crate) struct DiskThreads(Option<Runtime>);

impl DiskThreads {
    /// Starts none yet, `max` at most later.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(max: usize) -> io::Result<Self> {
        let threads = Builder::new_current_thread()
            .thread_name("weft-disk")
            .max_blocking_threads(max)
            .build()?;
        Ok(DiskThreads(Some(threads)))
    }

    /// Runs a call on one of them.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.as_ref().expect("there until it is dropped").spawn_blocking(call)
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        // Without waiting for them: they may wait for a disk that never answers.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// The objects, as clients use them.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) store: Arc<ObjectStore>,
    threads: DiskThreads,
    /// What is left of [`CALL_BYTES_MAX`], in units of [`CALL_BYTES`].
    room: Arc<Semaphore>,
    /// Unstable writes that wait for an earlier one of the same object; an entry for each object
    /// that one is under way of.
    writes: Mutex<HashMap<ObjectId, VecDeque<Write>>>,
}

/// An unstable write, and who waits for it.
#[derive(Debug)]
struct Write {
    epoch: u32,
    offset: u64,
    data: Bytes,
    /// See [`ObjectStore::give_back_ahead`].
    ahead: Option<(u64, u64)>,
    done: oneshot::Sender<Result<WriteVerifier, ObjectError>>,
    room: OwnedSemaphorePermit,
}

/// The thread that carries out the unstable writes of an object. What it leaves, or all if it was
/// never started, is not written: who waits for that learns it.
struct Turn {
    disk: Arc<Disk>,
    id: ObjectId,
    over: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.disk.writes().remove(&self.id);
        }
    }
}

impl Disk {
    /// With no threads yet.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(store: Arc<ObjectStore>) -> io::Result<Arc<Self>> {
        let threads = DiskThreads::new(CLIENT_THREADS_MAX)?;
        let room = Arc::new(Semaphore::new(CALL_BYTES_MAX / CALL_BYTES));
        Ok(Arc::new(Disk { store, threads, room, writes: Mutex::default() }))
    }

    /// Runs a call of the object store that may wait for the disk, with so many bytes of data.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        bytes: usize,
        call: impl FnOnce(&ObjectStore) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, Failure> {
        let (store, room) = (self.store.clone(), self.room_for(bytes)?);
        let run = move || {
            let result = call(&store);
            drop(room);
            result
        };
        done(self.threads.run(run).await)
    }

    /// Room for a call with so many bytes of data, as long as it is under way.
    ///
    /// # Errors
    /// DELAY if the disk is so far behind that there is none.
    fn room_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit, NfsStat> {
        let units = u32::try_from(bytes / CALL_BYTES + 1).map_err(|_| NfsStat::DELAY)?;
        self.room.clone().try_acquire_many_owned(units).map_err(|_| NfsStat::DELAY)
    }

    /// [`ObjectStore::write`], and [`ObjectStore::give_back_ahead`] of a range.
    ///
    /// The writes of an object go one after another on one thread: they would only wait for each
    /// other in the file system, and it costs one hand-over for all that came together.
    pub(crate) async fn write(
        self: &Arc<Self>,
        id: ObjectId,
        epoch: u32,
        (offset, data): (u64, Bytes),
        ahead: Option<(u64, u64)>,
    ) -> Result<WriteVerifier, Failure> {
        let ahead = ahead.filter(|_| self.store.allocates_ahead());
        // No hand-over for small ones, where the file system can promise that it will not wait.
        if data.len() <= UNWAITING_BYTES_MAX
            && ahead.is_none()
            && let Some(written) = self.store.write_open(id, epoch, offset, &data)
        {
            return written.map_err(|e| object_status(&e).into());
        }
        let room = self.room_for(data.len())?;
        let (done_here, written) = oneshot::channel();
        self.submit(id, Write { epoch, offset, data, ahead, done: done_here, room });
        done(written.await)
    }

    /// [`ObjectStore::write_stable`], and [`ObjectStore::give_back_ahead`] of a range. No hand-over
    /// for small ones where there is no disk: the way there and back is what costs.
    pub(crate) async fn write_stable(
        &self,
        id: ObjectId,
        epoch: u32,
        (offset, data): (u64, Bytes),
        ahead: Option<(u64, u64)>,
    ) -> Result<WriteVerifier, Failure> {
        if data.len() <= UNWAITING_BYTES_MAX
            && let Some(written) = self.store.write_stable_open(id, epoch, offset, &data)
        {
            return written.map_err(|e| object_status(&e).into());
        }
        let written = self.call(data.len(), move |s| {
            let written = s.write_stable(id, epoch, offset, &data);
            ahead.into_iter().for_each(|range| s.give_back_ahead(id, range));
            written
        });
        written.await
    }

    /// [`ObjectStore::commit`].
    pub(crate) async fn commit(&self, id: ObjectId) -> Result<WriteVerifier, Failure> {
        match self.store.commit_open(id) {
            Some(committed) => committed.map_err(|e| object_status(&e).into()),
            None => self.call(0, move |s| s.commit(id)).await,
        }
    }

    fn submit(self: &Arc<Self>, id: ObjectId, write: Write) {
        let mut writes = self.writes();
        if let Some(waiting) = writes.get_mut(&id) {
            return waiting.push_back(write);
        }
        writes.insert(id, VecDeque::new());
        drop(writes);
        let turn = Turn { disk: self.clone(), id, over: false };
        // Nobody waits for it: each write has its own answer.
        drop(self.threads.run(move || turn.write_all(write)));
    }

    /// The next write of an object; its entry goes with the last.
    fn next(&self, id: ObjectId) -> Option<Write> {
        let mut writes = self.writes();
        let next = writes.get_mut(&id)?.pop_front();
        if next.is_none() {
            writes.remove(&id);
        }
        next
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<ObjectId, VecDeque<Write>>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Carries out a write, and those of the same object that came meanwhile.
    fn write_all(mut self, first: Write) {
        let mut next = Some(first);
        while let Some(Write { epoch, offset, data, ahead, done, room }) = next {
            // A panic fails this write, whose sender is dropped, and none of the others.
            let write = AssertUnwindSafe(|| self.disk.store.write(self.id, epoch, offset, &data));
            let written = catch_unwind(write);
            drop((data, room));
            if let Some(range) = ahead {
                self.disk.store.give_back_ahead(self.id, range);
            }
            if let Ok(written) = written {
                // An error if nobody waits any more.
                let _ = done.send(written);
            }
            next = self.disk.next(self.id);
        }
        self.over = true;
    }
}

/// The outcome of a call on another thread.
fn done<T, E: std::fmt::Display>(outcome: Result<Result<T, ObjectError>, E>) -> Result<T, Failure> {
    match outcome {
        Ok(done) => done.map_err(|e| object_status(&e).into()),
        Err(error) => {
            tracing::error!(%error, "the object store panicked, or had no thread");
            Err(NfsStat::SERVERFAULT.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDs;

    async fn serving() -> TestDs {
        let ds = TestDs::start(1).await;
        ds.serve_volume(1);
        ds
    }

    /// A write whose thread is never started fails, with those behind it, and later ones do not
    /// wait for it.
    #[tokio::test]
    async fn a_thread_that_is_not_started_leaves_nobody_waiting() {
        let ds = serving().await;
        let disk = ds.ds().disk.clone();
        let id = ObjectId { volume: 1, object: 1 };
        disk.writes().insert(id, VecDeque::new());
        let turn = Turn { disk: disk.clone(), id, over: false };
        let behind = tokio::spawn({
            let disk = disk.clone();
            async move { disk.write(id, 0, (0, Bytes::from_static(b"behind")), None).await }
        });
        while disk.writes()[&id].is_empty() {
            tokio::task::yield_now().await;
        }
        drop(turn);
        assert_eq!(behind.await.unwrap().map_err(|f| f.status), Err(NfsStat::SERVERFAULT));
        let later = disk.write(id, 0, (0, Bytes::from_static(b"later")), None).await;
        assert!(later.is_ok());
        // The thread answers first, and then looks for more.
        while !disk.writes().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// What waits for a disk that hangs is bounded, whoever still waits for its answer.
    #[tokio::test]
    async fn calls_are_bounded_in_bytes() {
        let ds = serving().await;
        let disk = ds.ds().disk.clone();
        let id = ObjectId { volume: 1, object: 1 };
        let rest = disk.room_for(CALL_BYTES_MAX - CALL_BYTES).unwrap();
        let refused = disk.write(id, 0, (0, Bytes::from_static(b"data")), None).await;
        assert_eq!(refused.map_err(|f| f.status), Err(NfsStat::DELAY));
        assert_eq!(disk.call(0, |_| Ok(())).await.map_err(|f| f.status), Err(NfsStat::DELAY));
        drop(rest);
        assert!(disk.write(id, 0, (0, Bytes::from_static(b"data")), None).await.is_ok());
        assert_eq!(disk.room.available_permits(), CALL_BYTES_MAX / CALL_BYTES);
    }
}
