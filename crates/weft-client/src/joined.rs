//! What tasks gave that were started together. The runtime may end under a task that waits for
//! others, as when a program exits: they are cancelled then, and that is no reason to panic.

use std::panic::resume_unwind;

use tokio::task::JoinSet;

use crate::error::ClientError;

/// What the next task gave, if there is one.
///
/// # Errors
/// Closed if it was cancelled.
///
/// # Panics
/// If it did.
pub(crate) async fn next<T: 'static>(tasks: &mut JoinSet<T>) -> Option<Result<T, ClientError>> {
    let ended = tasks.join_next().await?;
    Some(ended.map_err(|e| match e.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => ClientError::Closed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever waits for a task that is cancelled is told so.
    #[tokio::test]
    async fn cancelled_tasks_are_told() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { 1 });
        assert!(matches!(next(&mut tasks).await, Some(Ok(1))));
        tasks.spawn(std::future::pending());
        tasks.abort_all();
        assert!(matches!(next(&mut tasks).await, Some(Err(ClientError::Closed))));
        assert!(next(&mut tasks).await.is_none());
    }
}
