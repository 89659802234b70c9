//! Clients that work at the same time, and how their time is measured.

use std::{path::PathBuf, sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::{runtime::Runtime, sync::Barrier, task::JoinSet};
use weft_client::{
    ClientError,
    fs::{Client, ClientOptions, FsError, OpenOptions},
    io::IoPolicy,
};

use crate::{
    outcome::Outcome,
    report::Sample,
    servers::{Meter, Servers},
    setup::{Setup, Technique},
};

/// Bytes between the places written to warm up: the smallest stripe unit.
const STRIPE_UNIT: u64 = 1 << 20;
/// Bytes after which [`content`] repeats.
pub(crate) const CONTENT_PERIOD: usize = 251;

/// The runtime of clients in this process: as many threads as `weft put` has.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Algorithm 1 of P3: all members start together, each takes its own time, and the longest one
/// is that of the phase. `work` gets each member and gives it back; all together they do
/// `operations`. Members come back in their order.
///
/// # Errors
/// The first failure of a member.
pub(crate) async fn phase<M, W>(
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

/// Clients that have met every data server: connecting is no part of any phase.
///
/// # Errors
/// They cannot.
pub(crate) async fn clients(
    servers: &Servers,
    setup: Setup,
    data_servers: u32,
    count: usize,
) -> Outcome<Vec<Client>> {
    let mut clients = Vec::new();
    for number in 0..count {
        let eager = setup.has(Technique::EagerIo);
        let policy = IoPolicy::direct();
        let options = ClientOptions { eager, policy, ..ClientOptions::default() };
        let client = servers.client_with(options);
        let client = client.await?;
        meet(&client, data_servers, number, Bytes::from_static(b"x")).await?;
        clients.push(client);
    }
    Ok(clients)
}

/// Lets a client write this to every data server, so that it is connected to them; `number` is its
/// own.
///
/// # Errors
/// It cannot.
pub(crate) async fn meet(
    client: &Client,
    data_servers: u32,
    number: usize,
    data: Bytes,
) -> Result<(), FsError> {
    let path = format!("/warm-up-{number}");
    let file = client.open(&path, OpenOptions::replace(0o644)).await?;
    for stripe in 0..u64::from(data_servers) {
        file.write_at(stripe * STRIPE_UNIT, data.clone()).await?;
    }
    file.close().await?;
    client.remove(&path).await
}

/// Content of a file: each byte follows from its place, so that what is misplaced is seen.
pub(crate) fn content(len: usize) -> Bytes {
    Bytes::from_iter((0..len).map(|n| (n % CONTENT_PERIOD) as u8))
}

/// A file or directory is not as it was made.
pub(crate) fn wrong(path: impl Into<PathBuf>, what: &'static str) -> FsError {
    FsError { path: path.into(), error: ClientError::Invalid(what) }
}
