//! Durable creates of empty files in one directory: full OPEN (create) and CLOSE, each client
//! with a session and a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use weft_client::{ClientError, fs::Client, session::Session};
use weft_nfs::{
    Attrs, ClientId, Component, FileHandle, OpArgs, OpNum, OpOk, Opaque, Seqid, StateOwner, ops::*,
    share,
};
use weft_server::report::ClusterStatus;

use crate::{
    context::{Context, alternating},
    disk,
    outcome::Outcome,
    report::{Row, Sample},
    servers::{Meter, Servers},
    workers,
};

/// Clients at once in the parallel case.
pub(crate) const CLIENTS: usize = 64;
/// How many times a single client's rate all together are to reach.
const GOAL_SPEEDUP: f64 = 20.0;
/// Memory of the servers in all of the benchmarks, MiB.
pub(crate) const GOAL_RSS_MIB: f64 = 256.0;
/// Wants no delegation: RFC 8881 §18.16.3.
const WANT_NO_DELEG: u32 = 0x0400;

/// Measures one client and many, and what the store and the disk do alone.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let limit = duration(context);
    let runtime = workers::runtime()?;
    let servers = Servers::start(&context.weft, &context.disk.join("cluster"), 4)?;
    let creators = runtime.block_on(Creators::new(&servers, CLIENTS))?;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    let mut alone: [Vec<Sample>; 5] = Default::default();
    let dir = &context.disk;
    for _ in 0..context.repeats {
        one.push(runtime.block_on(creators.run(&servers, 1, limit))?);
        many.push(runtime.block_on(creators.run(&servers, CLIENTS, limit))?);
        alone[0].push(disk::append_and_sync(dir, limit)?);
        alone[1].push(disk::engine_commits(dir, limit, 1, disk::RECORD_BYTES)?);
        alone[2].push(disk::engine_commits(dir, limit, disk::BATCH, disk::RECORD_BYTES)?);
        alone[3].push(runtime.block_on(disk::volume_creates(dir, limit, 1))?);
        alone[4].push(runtime.block_on(disk::volume_creates(dir, limit, CLIENTS as u64))?);
    }
    let [sync, single, grouped, volume_one, volume_many] = &alone;
    let one = Row::new("1 client", "creates/s", &one);
    let volume_one = Row::new("volume alone, 1 task", "creates/s", volume_one);
    let volume_many = Row::new("volume alone, 64 tasks", "creates/s", volume_many);
    let many = Row::new("64 clients", "creates/s", &many).against(&one);
    let met = many.ratio() >= GOAL_SPEEDUP;
    let share = Row::single("64 clients, of the volume's rate", "", many.median);
    let share = share.against(&volume_many);
    let many = many.goal("at least 20", met);
    let memory = memory_goal(&[&one, &many]);
    Ok(vec![
        Row::new("append and fdatasync", "syncs/s", sync),
        Row::new("engine, batches of 1", "records/s", single),
        Row::new("engine, batches of 64", "records/s", grouped),
        volume_one,
        volume_many,
        one,
        many,
        share,
        memory,
    ])
}

/// Measures creates with 1, 4 and 16 data servers, and the messages these get meanwhile.
pub(crate) fn bench_data_servers(context: &Context) -> Outcome<Vec<Row>> {
    const COUNTS: [u32; 3] = [1, 4, 16];
    let runtime = workers::runtime()?;
    let mut samples: [Vec<Sample>; 3] = Default::default();
    let (mut operations, mut wakeups, mut idle) = (0, 0, 0);
    for repeat in 0..context.repeats {
        for i in alternating(repeat, COUNTS.len()) {
            let servers = Servers::start(&context.weft, &context.disk.join("cluster"), COUNTS[i])?;
            // Asking for the status wakes every data server: not next to counting that.
            let before = operations_of_data_servers(&servers.status()?);
            let creators = runtime.block_on(Creators::new(&servers, CLIENTS))?;
            let (woken, limit) = (|| servers.process().wakeups("weft-ds"), duration(context));
            let started = woken()?;
            samples[i].push(runtime.block_on(creators.run(&servers, CLIENTS, limit))?);
            let ended = woken()?;
            std::thread::sleep(limit);
            wakeups += ended - started;
            idle += woken()? - ended;
            operations += operations_of_data_servers(&servers.status()?) - before;
        }
    }
    let name = |n: u32| format!("64 clients, {n} data servers");
    let [one, four, sixteen] = &samples;
    let one = Row::new(name(1), "creates/s", one);
    // Empty files have no objects: that their creates do not grow dearer is no goal by itself.
    let row = |n, samples: &[Sample]| Row::new(name(n), "creates/s", samples).against(&one);
    let (four, sixteen) = (row(4, four), row(16, sixteen));
    let ops = Row::single("NFS operations at data servers", "", operations as f64);
    let woken = Row::single("wake-ups of data servers", "", wakeups as f64);
    let idle = Row::single("the same in as long without creates", "", idle as f64);
    let memory = memory_goal(&[&one, &four, &sixteen]);
    let ops = ops.goal_counted("none", operations == 0);
    Ok(vec![one, four, sixteen, ops, woken, idle, memory])
}

/// The memory of the servers as a row with its goal.
pub(crate) fn memory_goal(rows: &[&Row]) -> Row {
    let most = rows.iter().map(|r| r.server_rss_mib).fold(0.0, f64::max);
    let row = Row::single("server memory at most", "MiB", most);
    row.goal_counted("below 256 MiB", most < GOAL_RSS_MIB)
}

fn operations_of_data_servers(status: &ClusterStatus) -> u64 {
    let data_servers = status.servers.iter().filter(|s| s.role == "ds");
    data_servers.map(|s| s.activity.operations.values().sum::<u64>()).sum()
}

fn duration(context: &Context) -> Duration {
    Duration::from_secs(if context.quick { 2 } else { 5 })
}

/// Clients that create files in one directory.
pub(crate) struct Creators {
    clients: Vec<Client>,
    dir: FileHandle,
    /// Names are used once.
    next: Arc<AtomicU64>,
}

/// Where the files are made.
pub(crate) const DIRECTORY: &str = "/files";

impl Creators {
    /// Connects the clients and makes the directory.
    pub(crate) async fn new(servers: &Servers, clients: usize) -> Outcome<Creators> {
        let mut connected = Vec::new();
        for _ in 0..clients {
            connected.push(servers.client().await?);
        }
        let first = connected.first().ok_or("no clients")?;
        first.mkdir(DIRECTORY, 0o777).await?;
        let name = Component(Bytes::from_static(DIRECTORY.as_bytes()).slice(1..));
        let ops = vec![OpArgs::Putrootfh, OpArgs::Lookup(LookupArgs { name }), OpArgs::Getfh];
        let done = first.session().compound(ops).await?;
        let Some(OpOk::Getfh(dir)) = done.into_iter().next_back() else {
            return Err("GETFH answered with something else".into());
        };
        Ok(Creators { clients: connected, dir: dir.object, next: Arc::default() })
    }

    /// The first `clients` clients create until the time is up: creates/s.
    pub(crate) async fn run(
        &self,
        servers: &Servers,
        clients: usize,
        limit: Duration,
    ) -> Outcome<Sample> {
        let meter = Meter::start(servers)?;
        let started = Instant::now();
        let made = self.create(clients, move |_| started.elapsed() < limit).await?;
        meter.rate(made as f64, started.elapsed().as_secs_f64())
    }

    /// The first `clients` clients create, one file after the other, while `more` says so of the
    /// number of the next file. Returns how many they made.
    pub(crate) async fn create(
        &self,
        clients: usize,
        more: impl Fn(u64) -> bool + Clone + Send + Sync + 'static,
    ) -> Outcome<u64> {
        let mut tasks = tokio::task::JoinSet::new();
        for client in self.clients.iter().take(clients) {
            let (session, dir) = (client.session().clone(), self.dir.clone());
            let (next, more) = (self.next.clone(), more.clone());
            tasks.spawn(async move {
                let mut made = 0u64;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if !more(number) {
                        return Ok::<u64, ClientError>(made);
                    }
                    create_one(&session, &dir, number).await?;
                    made += 1;
                }
            });
        }
        let mut made = 0;
        while let Some(done) = tasks.join_next().await {
            made += done??;
        }
        Ok(made)
    }
}

/// OPEN with creation, and CLOSE: two round trips, as a mounted client does it.
async fn create_one(session: &Session, dir: &FileHandle, number: u64) -> Result<(), ClientError> {
    let name = Component(Bytes::from(format!("file-{number:012}")));
    let owner = Opaque(Bytes::copy_from_slice(&number.to_be_bytes()));
    let open = OpArgs::Open(OpenArgs {
        seqid: Seqid(0),
        share_access: share::ACCESS_WRITE | WANT_NO_DELEG,
        share_deny: share::DENY_NONE,
        owner: StateOwner { clientid: ClientId(0), owner },
        openhow: Some(CreateHow::Guarded(Box::new(Attrs {
            mode: Some(0o644),
            ..Attrs::default()
        }))),
        claim: OpenClaim::Null(name),
    });
    let put_dir = OpArgs::Putfh(PutfhArgs { object: dir.clone() });
    let mut done = session.compound(vec![put_dir, open, OpArgs::Getfh]).await?.into_iter();
    let (Some(_), Some(OpOk::Open(open)), Some(OpOk::Getfh(fh))) =
        (done.next(), done.next(), done.next())
    else {
        return Err(ClientError::unexpected(OpNum::OPEN));
    };
    let put_file = OpArgs::Putfh(PutfhArgs { object: fh.object });
    let close = OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid: open.stateid });
    session.compound(vec![put_file, close]).await.map(drop)
}
