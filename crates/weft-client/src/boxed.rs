//! Futures that are compiled here.
//!
//! The body of an `async fn` is compiled by each crate, program and test that awaits it, with all
//! that it awaits in turn. Where a way into this crate is long, what its public face calls is a
//! [`Boxed`] or [`Spawned`] future instead: one allocation a call, and its users compile nothing of
//! what is behind it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{begun::begin, error::ClientError};

/// A future behind a pointer.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Work that has begun, and goes on to its end whoever waits for it.
pub(crate) struct Spawned<T>(oneshot::Receiver<Result<T, ClientError>>);

impl<T: Send + 'static> Spawned<T> {
    /// Begins it, in this thread: not for a caller who holds what it needs.
    pub(crate) fn new(work: impl Future<Output = Result<T, ClientError>> + Send + 'static) -> Self {
        let (to, result) = oneshot::channel();
        begin(&Handle::current(), async move {
            let _ = to.send(work.await);
        });
        Spawned(result)
    }
}

impl<T> Future for Spawned<T> {
    type Output = Result<T, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| ended.unwrap_or(Err(ClientError::Closed)))
    }
}
