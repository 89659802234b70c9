//! Clients that work at the same time, and how their time is told.

use std::{sync::Arc, time::Instant};

use tokio::{sync::Barrier, task::JoinSet};
use weft_client::fs::FsError;

use super::{
    Outcome,
    report::Sample,
    servers::{Meter, Servers},
};

/// Algorithm 1 of P3: all members start together, each takes its own time, and the longest one
/// is that of the phase. `work` gets each member and gives it back; all together they do
/// `operations`. Members come back in their order.
///
/// # Errors
/// The first failure of a member.
pub(super) async fn phase<M, W>(
    servers: &Servers,
    members: Vec<M>,
    operations: usize,
    work: impl Fn(M) -> W,
) -> Outcome<(Vec<M>, Sample)>
where
    M: Send + 'static,
    W: Future<Output = Result<M, FsError>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(members.len()));
    let meter = Meter::start(servers)?;
    let mut tasks = JoinSet::new();
    for (index, member) in members.into_iter().enumerate() {
        let (barrier, work) = (barrier.clone(), work(member));
        tasks.spawn(async move {
            barrier.wait().await;
            let started = Instant::now();
            let member = work.await?;
            Ok::<_, FsError>((index, member, started.elapsed().as_secs_f64()))
        });
    }
    let mut back = Vec::new();
    let mut longest_s = 0.0_f64;
    while let Some(done) = tasks.join_next().await {
        let (index, member, elapsed_s) = done??;
        longest_s = longest_s.max(elapsed_s);
        back.push((index, member));
    }
    back.sort_by_key(|(index, _)| *index);
    let sample = meter.rate(operations as f64, longest_s)?;
    Ok((back.into_iter().map(|(_, member)| member).collect(), sample))
}
