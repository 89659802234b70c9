//! The runtime that blocking clients share, and what belongs to the process that made it.

use std::{
    sync::{OnceLock, PoisonError},
    thread::available_parallelism,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};

use crate::{error::ClientError, limits};

/// A process, and its runtime: which is never dropped, since after a fork its threads are not there
/// to be waited for.
static RUNTIME: std::sync::Mutex<Option<(u32, &'static Runtime)>> = std::sync::Mutex::new(None);

/// The runtime of this process.
fn shared() -> Result<Handle, ClientError> {
    let process = std::process::id();
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, runtime)) = runtime.filter(|(of, _)| *of == process) {
        return Ok(runtime.handle().clone());
    }
    let threads = available_parallelism().map_or(1, |n| n.get()).min(limits::BLOCKING_THREADS_MAX);
    let built = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("weft-client")
        .enable_all()
        .build()?;
    let built: &'static Runtime = Box::leak(Box::new(built));
    *runtime = Some((process, built));
    Ok(built.handle().clone())
}

/// Asked by each thread that waits, whether it is to give up.
static GIVES_UP: OnceLock<fn() -> bool> = OnceLock::new();

/// Has each thread that waits in a blocking call ask this about ten times a second
/// ([`limits::GIVE_UP_ASKED_EVERY`]): once it is true the call fails with
/// [`ClientError::Interrupted`], and what it had begun may be done or not. For interpreters, which
/// handle signals between two calls. The first one that is set stays.
pub fn give_up_when(asked: fn() -> bool) {
    let _ = GIVES_UP.set(asked);
}

/// Where blocking calls wait: the runtime, as the process that made a client has it.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    process: u32,
    runtime: Handle,
}

impl Waiter {
    pub(super) fn new() -> Result<Waiter, ClientError> {
        Ok(Waiter { process: std::process::id(), runtime: shared()? })
    }

    /// Waits for some work, unless it is to give up.
    fn wait_for<F: Future>(&self, work: F) -> Result<F::Output, ClientError> {
        let Some(gives_up) = GIVES_UP.get() else { return Ok(self.runtime.block_on(work)) };
        let mut work = Box::pin(work);
        loop {
            let done = async { timeout(limits::GIVE_UP_ASKED_EVERY, &mut work).await };
            if let Ok(done) = self.runtime.block_on(done) {
                return Ok(done);
            }
            // Outside of the runtime: a handler of signals may make blocking calls itself.
            if gives_up() {
                let _entered = self.runtime.enter();
                drop(work);
                return Err(ClientError::Interrupted);
            }
        }
    }

    /// Whether this is the process it was made in.
    fn is_at_home(&self) -> bool {
        self.process == std::process::id()
    }

    fn check(&self) -> Result<(), ClientError> {
        if !self.is_at_home() {
            return Err(ClientError::Forked(self.process));
        }
        match Handle::try_current() {
            Ok(_) => Err(ClientError::WouldStopRuntime),
            Err(_) => Ok(()),
        }
    }
}

/// Something with connections, of the process that made it. In a child of that process it is left
/// alone: to drop it there would take the parent's sockets off the parent's poller.
#[derive(Debug)]
pub(super) struct Ours<T> {
    waiter: Waiter,
    value: Option<T>,
}

impl<T> Ours<T> {
    pub(super) fn new(waiter: Waiter, value: T) -> Ours<T> {
        Ours { waiter, value: Some(value) }
    }

    pub(super) fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// The value, for what waits for nobody.
    pub(super) fn get(&self) -> Result<&T, ClientError> {
        self.waiter.check()?;
        self.value.as_ref().ok_or(ClientError::Closed)
    }

    /// Waits for what is made of the value.
    pub(super) fn wait<'a, F: Future>(
        &'a self,
        work: impl FnOnce(&'a T) -> F,
    ) -> Result<F::Output, ClientError> {
        let value = self.get()?;
        self.waiter.wait_for(async { work(value).await })
    }

    /// The same with the value for itself.
    pub(super) fn wait_mut<R>(
        &mut self,
        work: impl AsyncFnOnce(&mut T) -> R,
    ) -> Result<R, ClientError> {
        self.waiter.check()?;
        let value = self.value.as_mut().ok_or(ClientError::Closed)?;
        self.waiter.wait_for(work(value))
    }

    /// Waits for what ends the value.
    pub(super) fn end<F: Future>(
        mut self,
        work: impl FnOnce(T) -> F,
    ) -> Result<F::Output, ClientError> {
        self.waiter.check()?;
        let value = self.value.take().ok_or(ClientError::Closed)?;
        self.waiter.wait_for(async { work(value).await })
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.waiter.is_at_home() {
            // What is dropped may have to say goodbye.
            let _entered = self.waiter.runtime.enter();
            drop(value);
        } else {
            std::mem::forget(value);
        }
    }
}

/// Waits for something that a value is made of.
pub(super) fn make<T, E: From<ClientError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<Ours<T>, E> {
    let waiter = Waiter::new()?;
    waiter.check()?;
    let value = waiter.wait_for(work)??;
    Ok(Ours::new(waiter, value))
}
