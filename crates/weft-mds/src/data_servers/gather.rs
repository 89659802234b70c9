//! Gathering small writes (P0.5): those to one object that come while others are under way,
//! from whichever client, leave as few messages. No timer: a lone write leaves at once, and what
//! waits, waits for the one before it.
//!
//! The handle names the queue, so what leaves together is of one object and one epoch; a newer
//! epoch never waits for an older one. Whoever sends a write holds the file's `Writing` (of
//! `files::records`) until its answer is here, so a truncation waits for what waits here.
//! When a message is not answered it may still be carried out later: what waited for it must not
//! be written with the same epoch, since the late one could land on top. It is told to look again,
//! as if the object were fenced already, and finds a newer epoch.

mod queue;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use weft_nfs::StableHow;
use weft_server::report::IndirectStatus;
use weft_xdr::Payload;

use super::{error::DataServerError, server::Server};
use queue::{Arrival, Queue, Run, Write};

/// Largest WRITE that waits for others, bytes; a larger one gains nothing.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Largest message of gathered ones, bytes.
const RUN_BYTES_MAX: u64 = 1 << 20;

/// Where a message goes.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) server: Arc<Server>,
    /// Of the object, with the epoch.
    pub(super) handle: Bytes,
}

/// What a data server answered to a message.
#[derive(Debug, Clone)]
pub(super) struct Written {
    /// Its verifiers; more than one if it restarted between the parts of the message.
    pub(super) verifiers: Vec<[u8; 8]>,
    pub(super) committed: StableHow,
}

type Answer = Result<Written, DataServerError>;

/// A part of a message, and who waits for its end.
#[derive(Debug)]
struct Part {
    data: Bytes,
    done: oneshot::Sender<Answer>,
}

/// The writes on their way to data servers.
#[derive(Debug)]
pub(super) struct Gather {
    /// Whether writes wait for each other at all.
    gathers: bool,
    /// By handle, as long as something is under way with it.
    queues: Mutex<HashMap<Bytes, Queue<Part>>>,
    writes: AtomicU64,
    messages: AtomicU64,
}

impl Gather {
    pub(super) fn new(gathers: bool) -> Arc<Gather> {
        let (writes, messages) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Gather { gathers, queues: Mutex::default(), writes, messages })
    }

    /// Counts a write that came.
    pub(super) fn came(&self) {
        self.writes.fetch_add(1, Relaxed);
    }

    pub(super) fn status(&self) -> IndirectStatus {
        let (writes, messages) = (self.writes.load(Relaxed), self.messages.load(Relaxed));
        let waiting = self.lock().values().map(Queue::waiting).sum::<usize>() as u64;
        IndirectStatus { writes, messages, waiting }
    }

    /// Writes a range of an object, with others if it is small. It returns when nothing of it is
    /// under way any more.
    pub(super) async fn write(
        self: Arc<Self>,
        target: Target,
        offset: u64,
        data: Bytes,
        stable: StableHow,
    ) -> Answer {
        if !self.gathers || data.is_empty() || data.len() > GATHERED_BYTES_MAX {
            return self.message(&target, offset, data, stable).await;
        }
        let id = target.server.id;
        let (done, answer) = oneshot::channel();
        let (len, what) = (data.len() as u64, Part { data, done });
        match self.arrive(&target.handle, Write { offset, len, stable, what }) {
            Arrival::Leaves(run) => self.carry(target, run).await,
            Arrival::Waits => {}
            Arrival::Passes(Part { data, .. }) => {
                return self.message(&target, offset, data, stable).await;
            }
        }
        let given_up = || DataServerError::Unreachable { id, why: "the write was given up".into() };
        answer.await.unwrap_or_else(|_| Err(given_up()))
    }

    /// Sends a run, answers those that wait for it, and starts the next ones.
    async fn carry(self: Arc<Self>, target: Target, run: Run<Part>) {
        let under_way = UnderWay { gather: &self, target: &target, offset: run.offset };
        let (parts, waiters): (Vec<_>, Vec<_>) =
            run.parts.into_iter().map(|p| (p.data, p.done)).unzip();
        let answer = self.message(&target, run.offset, joined(parts), run.stable).await;
        let next = match &answer {
            // Dropped, it gives up what waits.
            Err(DataServerError::Unreachable { .. }) => Vec::new(),
            _ => under_way.end(),
        };
        for waiter in waiters {
            // Who does not wait any more needs no answer.
            let _ = waiter.send(answer.clone());
        }
        for run in next {
            self.start(target.clone(), run);
        }
    }

    /// In a task of its own: whoever waits for one of a run must not take the others along when
    /// it goes.
    fn start(self: &Arc<Self>, target: Target, run: Run<Part>) {
        tokio::spawn(self.clone().carry(target, run));
    }

    async fn message(
        &self,
        Target { server, handle }: &Target,
        mut offset: u64,
        mut data: Bytes,
        stable: StableHow,
    ) -> Answer {
        let session = server.session().await?;
        let mut written = Written { verifiers: Vec::new(), committed: StableHow::FILE_SYNC };
        while !data.is_empty() {
            self.messages.fetch_add(1, Relaxed);
            let part = Payload::Bytes(data.clone());
            let done = session.ds_write(handle.clone(), offset, part, stable).await;
            let done = done.map_err(|e| server.noted(DataServerError::of_client(server.id, &e)))?;
            server.told_verifier(done.verifier.0);
            written.verifiers.push(done.verifier.0);
            written.committed = written.committed.min(done.committed);
            // The session has checked that the count is of what was sent, and not nothing.
            let count = data.len().min(done.count as usize);
            data = data.slice(count..);
            offset += count as u64;
        }
        Ok(written)
    }

    fn arrive(&self, handle: &Bytes, write: Write<Part>) -> Arrival<Part> {
        let mut queues = self.lock();
        let queue = queues.entry(handle.clone()).or_insert_with(|| Queue::new(RUN_BYTES_MAX));
        queue.arrive(write)
    }

    /// Changes the queue of a handle; one that is idle then is forgotten.
    fn change<R>(&self, handle: &Bytes, with: impl FnOnce(&mut Queue<Part>) -> Vec<R>) -> Vec<R> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(handle) else { return Vec::new() };
        let result = with(queue);
        if queue.is_idle() {
            queues.remove(handle);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Queue<Part>>> {
        self.queues.lock().expect("gather lock")
    }
}

/// A run under way. Dropped without an answer, what waited is to look again.
struct UnderWay<'a> {
    gather: &'a Gather,
    target: &'a Target,
    offset: u64,
}

impl UnderWay<'_> {
    /// It was answered: the runs that leave now.
    fn end(self) -> Vec<Run<Part>> {
        let next = self.gather.change(&self.target.handle, |q| q.ended(self.offset));
        std::mem::forget(self);
        next
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let id = self.target.server.id;
        for waiter in self.gather.change(&self.target.handle, |q| q.give_up(self.offset)) {
            let _ = waiter.done.send(Err(DataServerError::Fenced { id }));
        }
    }
}

/// One message of several parts; a single one is not copied.
fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut all = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all.freeze()
}
