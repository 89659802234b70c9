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
    sync::oneshot,
    task::JoinHandle,
};
use weft_nfs::{Failure, NfsStat};
use weft_store::objects::{ObjectError, ObjectId, ObjectStore, WriteVerifier};

use crate::status::object_status;

/// Threads of a data server that wait for its disk for clients. While all do, what else needs the
/// disk waits in line, as many calls as connections may have under way.
pub(crate) const CLIENT_THREADS_MAX: usize = 512;

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
    done: oneshot::Sender<Result<WriteVerifier, ObjectError>>,
}

impl Disk {
    /// With no threads yet.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(store: Arc<ObjectStore>) -> io::Result<Arc<Self>> {
        let threads = DiskThreads::new(CLIENT_THREADS_MAX)?;
        Ok(Arc::new(Disk { store, threads, writes: Mutex::default() }))
    }

    /// Runs a call of the object store that may wait for the disk.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&ObjectStore) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.store.clone();
        done(self.threads.run(move || call(&store)).await)
    }

    /// [`ObjectStore::write`].
    ///
    /// The writes of an object go one after another on one thread: they would only wait for each
    /// other in the file system, and it costs one hand-over for all that came together.
    pub(crate) async fn write(
        self: &Arc<Self>,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        data: Bytes,
    ) -> Result<WriteVerifier, Failure> {
        // No hand-over for small ones, where the file system can promise that it will not wait.
        if data.len() <= UNWAITING_BYTES_MAX
            && let Some(written) = self.store.write_open(id, epoch, offset, &data)
        {
            return written.map_err(|e| object_status(&e).into());
        }
        let (done_here, written) = oneshot::channel();
        self.submit(id, Write { epoch, offset, data, done: done_here });
        done(written.await)
    }

    fn submit(self: &Arc<Self>, id: ObjectId, write: Write) {
        let mut writes = self.writes();
        if let Some(waiting) = writes.get_mut(&id) {
            return waiting.push_back(write);
        }
        writes.insert(id, VecDeque::new());
        drop(writes);
        let disk = self.clone();
        // Nobody waits for it: each write has its own answer.
        drop(self.threads.run(move || disk.write_all(id, write)));
    }

    /// Carries out a write, and those of the same object that came meanwhile.
    fn write_all(&self, id: ObjectId, first: Write) {
        let mut next = Some(first);
        while let Some(Write { epoch, offset, data, done }) = next {
            // A panic fails this write, whose sender is dropped, and none of the others.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                // An error if nobody waits any more.
                let _ = done.send(self.store.write(id, epoch, offset, &data));
            }));
            next = self.next(id);
        }
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

/// The outcome of a call on another thread.
fn done<T, E: std::fmt::Display>(outcome: Result<Result<T, ObjectError>, E>) -> Result<T, Failure> {
    match outcome {
        Ok(done) => done.map_err(|e| object_status(&e).into()),
        Err(error) => {
            tracing::error!(%error, "the object store panicked");
            Err(NfsStat::SERVERFAULT.into())
        }
    }
}
