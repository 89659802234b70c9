//! Doing something on several data servers at once.

use std::future::Future;

use tokio::task::JoinSet;

use super::error::DataServerError;

/// Runs all to their ends, at once, and returns what they gave in the order of `jobs`.
///
/// # Panics
/// If one of them does.
pub(super) async fn all<T: Send + 'static>(
    jobs: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut jobs = jobs.into_iter().map(Box::pin);
    let (Some(first), second) = (jobs.next(), jobs.next()) else { return Vec::new() };
    let Some(second) = second else { return vec![first.await] };
    let mut running = JoinSet::new();
    for (at, job) in [first, second].into_iter().chain(jobs).enumerate() {
        running.spawn(async move { (at, job.await) });
    }
    let mut done = running.join_all().await;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, value)| value).collect()
}

/// What all gave, or why not: that one did not answer, if there is one, since what it was asked may
/// still be carried out and nothing else tells so.
///
/// # Errors
/// A failure of one of them.
pub(super) fn all_done<C: FromIterator<T>, T>(
    done: Vec<Result<T, DataServerError>>,
) -> Result<C, DataServerError> {
    let unanswered = |e: &&DataServerError| matches!(e, DataServerError::Unreachable { .. });
    let unanswered = done.iter().filter_map(|d| d.as_ref().err()).find(unanswered).cloned();
    match unanswered {
        Some(e) => Err(e),
        None => done.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use weft_store::types::DataServerId;

    use super::*;

    /// That one did not answer is told, whatever others said before it.
    #[test]
    fn silence_is_told_first() {
        let id = DataServerId(1);
        let (full, silent) =
            (DataServerError::NoSpace { id }, DataServerError::Unreachable { id, why: "".into() });
        let told = |done: &[Result<u8, &DataServerError>]| {
            all_done::<Vec<u8>, u8>(done.iter().map(|d| d.map_err(Clone::clone)).collect())
        };
        assert_eq!(told(&[Ok(1), Ok(2)]), Ok(vec![1, 2]));
        assert_eq!(told(&[Ok(1), Err(&full)]), Err(full.clone()));
        assert_eq!(told(&[Err(&full), Ok(1), Err(&silent)]), Err(silent.clone()));
    }

    /// Results come in the order of the jobs, whichever ends first; all of them run at once.
    #[tokio::test]
    async fn order_is_kept() {
        for n in [0usize, 1, 2, 5] {
            let (tell, _) = tokio::sync::broadcast::channel::<()>(8);
            let jobs: Vec<_> = (0..n)
                .map(|i| {
                    let (tell, mut told) = (tell.clone(), tell.subscribe());
                    async move {
                        // All but the last wait for the last.
                        if i + 1 == n {
                            tell.send(()).unwrap();
                        } else {
                            told.recv().await.unwrap();
                        }
                        i
                    }
                })
                .collect();
            assert_eq!(all(jobs).await, (0..n).collect::<Vec<_>>());
        }
    }
}
