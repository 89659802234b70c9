//! A bad neighbour: what one client that does its worst costs another one that looks at a file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinSet};
use weft_client::{
    fs::{Client, FsError, OpenOptions},
    limits::OPS_MAX,
};
use weft_nfs::{
    AttrNo, Attrs, Bitmap, FileHandle, OpArgs, OpOk, Verifier,
    ops::{CreateArgs, CreateType, GetattrArgs, LookupArgs, PutfhArgs, ReaddirArgs, RenameArgs},
};

use crate::{
    context::Context,
    outcome::Outcome,
    report::{Row, Sample},
    requests::SETTINGS,
    servers::{Meter, Servers},
    workers,
};

/// Most that 99 of 100 GETATTRs of the other client may take, ms.
const GOAL_MS: f64 = 5.0;
/// Requests that the neighbour has under way: what Linux has at most.
const TASKS: usize = 64;
/// Between two GETATTRs of the other client.
const PAUSE: Duration = Duration::from_millis(1);
/// Levels of the deep tree, near the most that a directory is moved below.
const DEPTH: usize = 990;
/// Operations of a large COMPOUND beside SEQUENCE and PUTFH.
const OPERATIONS: usize = OPS_MAX as usize - 2;
/// Bytes of a READDIR reply.
const LISTING_BYTES: u32 = 1 << 20;
/// Bytes of a small write.
const WRITE_BYTES: usize = 512;

/// What the neighbour does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    DeepRename,
    Listing,
    RandomLookup,
    OpenClose,
    CreateRemove,
    LargeCompound,
    SmallWrite,
    RemoveMany,
}

const ACTS: [(Act, &str); 9] = [
    (Act::Nothing, "alone"),
    (Act::DeepRename, "moves into a deep tree"),
    (Act::Listing, "READDIR of 1 MiB"),
    (Act::RandomLookup, "lookups at random"),
    (Act::OpenClose, "OPEN, CLOSE"),
    (Act::CreateRemove, "OPEN that makes, CLOSE, REMOVE"),
    (Act::LargeCompound, "COMPOUNDs of 30 GETATTRs"),
    (Act::SmallWrite, "writes of 512 bytes, data server"),
    (Act::RemoveMany, "removals of files with bytes"),
];

/// The servers, and the neighbour.
struct House {
    servers: Servers,
    runtime: Runtime,
    client: Arc<Client>,
    stage: Arc<Stage>,
}

/// What is there for the acts.
struct Stage {
    root: FileHandle,
    deep: FileHandle,
    listed: FileHandle,
    entries: usize,
    /// Files with objects, to be removed.
    doomed: usize,
}

/// Every act beside the same looking.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let (entries, seconds) = if context.quick { (10_000, 2) } else { (100_000, 10) };
    let dir = context.disk.join("cluster");
    let servers = Servers::start_with(&context.weft, &dir, 2, SETTINGS)?;
    let runtime = workers::runtime()?;
    let client = Arc::new(runtime.block_on(servers.client())?);
    let stage = Arc::new(runtime.block_on(Stage::make(&client, entries))?);
    let house = House { servers, runtime, client, stage };
    let mut rows = Vec::new();
    for (act, name) in ACTS {
        let mut seen = [const { Vec::new() }; 4];
        for _ in 0..context.repeats {
            let time = Duration::from_secs(seconds);
            let figures = house.measure(act, time)?;
            seen.iter_mut().zip(figures).for_each(|(all, one)| all.push(one));
        }
        let [half, most, longest, done] = seen;
        let most = Row::new(format!("{name}: p99"), "ms", &most);
        let met = most.most < GOAL_MS;
        rows.push(Row::new(format!("{name}: p50"), "ms", &half));
        rows.push(most.goal("below 5 ms", met));
        rows.push(Row::new(format!("{name}: longest"), "ms", &longest));
        if act != Act::Nothing {
            rows.push(Row::new(format!("{name}: acts"), "/s", &done));
        }
    }
    Ok(rows)
}

impl House {
    /// The times of GETATTRs while the neighbour acts: p50, p99, longest; and acts a second.
    fn measure(&self, act: Act, time: Duration) -> Outcome<[Sample; 4]> {
        self.runtime.block_on(self.stage.prepare(&self.client, act))?;
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let meter = Meter::start(&self.servers)?;
        let started = Instant::now();
        let mut neighbour = JoinSet::new();
        let tasks = if act == Act::Nothing { 0 } else { TASKS };
        for task in 0..tasks {
            let acting = self.acting(act, task, (ends.clone(), done.clone()));
            neighbour.spawn_on(acting, self.runtime.handle());
        }
        let times = look(&self.servers, time, &ends);
        ends.store(true, Relaxed);
        let wall_s = started.elapsed().as_secs_f64();
        let acts = meter.rate(done.load(Relaxed) as f64, wall_s)?;
        while let Some(ended) = self.runtime.block_on(neighbour.join_next()) {
            ended??;
        }
        let times = times?;
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        let of = |value| Sample { value, ..acts };
        Ok([of(at(0.5)), of(at(0.99)), of(at(1.0)), acts])
    }

    /// One of the neighbour's tasks: acts until all end, or until nothing is left to do.
    fn acting(
        &self,
        act: Act,
        task: usize,
        (ends, done): (Arc<AtomicBool>, Arc<AtomicU64>),
    ) -> impl Future<Output = Result<(), FsError>> + Send + use<> {
        let (client, stage) = (self.client.clone(), self.stage.clone());
        async move {
            for turn in 0.. {
                // What was moved there is moved back, for those who measure next.
                let is_as_found = turn % 2 == 0;
                if ends.load(Relaxed) && is_as_found || !stage.act(&client, act, task, turn).await?
                {
                    break;
                }
                done.fetch_add(1, Relaxed);
            }
            ends.store(true, Relaxed);
            Ok(())
        }
    }
}

/// GETATTRs of a client of its own, on a thread of its own, while the neighbour acts: their times,
/// ms, the shortest first.
fn look(servers: &Servers, time: Duration, ends: &AtomicBool) -> Outcome<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = servers.client().await?;
        let root = handle(&client, vec![OpArgs::Putrootfh]).await?;
        let (mut times, started) = (Vec::new(), Instant::now());
        while times.is_empty() || started.elapsed() < time && !ends.load(Relaxed) {
            let asked = Instant::now();
            client.session().compound(vec![putfh(&root), getattr()]).await?;
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(PAUSE).await;
        }
        client.close().await;
        times.sort_by(f64::total_cmp);
        Ok(times)
    })
}

impl Stage {
    async fn make(client: &Arc<Client>, entries: usize) -> Outcome<Stage> {
        let root = handle(client, vec![OpArgs::Putrootfh]).await?;
        let mut deep = root.clone();
        for level in 0..DEPTH {
            deep = handle(client, vec![putfh(&deep), mkdir(&format!("l{level}"))]).await?;
        }
        for task in 0..TASKS {
            client.mkdir(format!("/moved-{task}"), 0o755).await?;
            make_file(client, &format!("/opened-{task}")).await?;
        }
        client.mkdir("/listed", 0o755).await?;
        many(client, entries, |n| format!("/listed/{n}"), false).await?;
        let listed = vec![OpArgs::Putrootfh, lookup("listed")];
        let listed = handle(client, listed).await?;
        client.mkdir("/doomed", 0o755).await?;
        Ok(Stage { root, deep, listed, entries, doomed: entries / 5 })
    }

    /// What an act uses up.
    async fn prepare(&self, client: &Arc<Client>, act: Act) -> Outcome {
        match act {
            Act::RemoveMany => many(client, self.doomed, |n| format!("/doomed/{n}"), true).await,
            _ => Ok(()),
        }
    }

    /// One act, as part of many; false when there is nothing left to do.
    async fn act(
        &self,
        client: &Client,
        act: Act,
        task: usize,
        turn: usize,
    ) -> Result<bool, FsError> {
        let session = client.session();
        let fails = |e| FsError { path: "/".into(), error: e };
        match act {
            Act::Nothing => return Ok(false),
            Act::DeepRename => {
                let name = format!("moved-{task}");
                let (from, to) = match turn % 2 {
                    0 => (&self.root, &self.deep),
                    _ => (&self.deep, &self.root),
                };
                let ops = vec![putfh(from), OpArgs::Savefh, putfh(to), rename(&name)];
                session.compound(ops).await.map_err(fails)?;
            }
            Act::Listing => {
                let ops = vec![putfh(&self.listed), readdir()];
                session.compound(ops).await.map_err(fails)?;
            }
            Act::RandomLookup => {
                let n = scattered(turn * TASKS + task, self.entries);
                let ops = vec![putfh(&self.listed), lookup(&n.to_string()), getattr()];
                session.compound(ops).await.map_err(fails)?;
            }
            Act::OpenClose => {
                let path = format!("/opened-{task}");
                client.open(path, OpenOptions::read()).await?.close().await?;
            }
            Act::CreateRemove => {
                let path = format!("/made-{task}");
                client.open(&path, OpenOptions::replace(0o644)).await?.close().await?;
                client.remove(path).await?;
            }
            Act::LargeCompound => {
                let mut ops = vec![putfh(&self.root)];
                ops.resize_with(1 + OPERATIONS, getattr);
                session.compound(ops).await.map_err(fails)?;
            }
            Act::SmallWrite => small_writes(client, task, turn).await?,
            Act::RemoveMany => {
                let n = turn * TASKS + task;
                if n >= self.doomed {
                    return Ok(false);
                }
                client.remove(format!("/doomed/{n}")).await?;
            }
        }
        Ok(true)
    }
}

/// Writes of a file that is open meanwhile, one after the other.
async fn small_writes(client: &Client, task: usize, turn: usize) -> Result<(), FsError> {
    const WRITES: usize = 16;
    let file = client.open(format!("/opened-{task}"), OpenOptions::replace(0o644)).await?;
    for n in 0..WRITES {
        let offset = ((turn * WRITES + n) * WRITE_BYTES) as u64;
        file.write_at(offset, workers::content(WRITE_BYTES)).await?;
    }
    file.close().await
}

/// Makes files, several at a time, with some bytes or none.
async fn many(
    client: &Arc<Client>,
    count: usize,
    name: impl Fn(usize) -> String,
    with_bytes: bool,
) -> Outcome {
    let mut makers = JoinSet::new();
    for maker in 0..TASKS {
        let client = client.clone();
        let names: Vec<_> = (maker..count).step_by(TASKS).map(&name).collect();
        makers.spawn(async move {
            for name in names {
                if with_bytes {
                    make_file(&client, &name).await?;
                } else {
                    let file = client.open(name, OpenOptions::replace(0o644)).await?;
                    file.close().await?;
                }
            }
            Ok::<(), FsError>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

async fn make_file(client: &Client, path: &str) -> Result<(), FsError> {
    let file = client.open(path, OpenOptions::replace(0o644)).await?;
    file.write_at(0, workers::content(WRITE_BYTES)).await?;
    file.close().await
}

/// The filehandle that these operations come to.
async fn handle(client: &Client, mut ops: Vec<OpArgs>) -> Outcome<FileHandle> {
    ops.push(OpArgs::Getfh);
    match client.session().compound(ops).await?.pop() {
        Some(OpOk::Getfh(found)) => Ok(found.object),
        other => Err(format!("no filehandle: {other:?}").into()),
    }
}

fn putfh(fh: &FileHandle) -> OpArgs {
    OpArgs::Putfh(PutfhArgs { object: fh.clone() })
}

fn lookup(name: &str) -> OpArgs {
    OpArgs::Lookup(LookupArgs { name: name.into() })
}

fn rename(name: &str) -> OpArgs {
    OpArgs::Rename(RenameArgs { oldname: name.into(), newname: name.into() })
}

fn mkdir(name: &str) -> OpArgs {
    let attrs = Box::new(Attrs { mode: Some(0o755), ..Attrs::default() });
    OpArgs::Create(CreateArgs { objtype: CreateType::Directory, name: name.into(), attrs })
}

/// What `ls -l` asks for.
const ATTRS: Bitmap = Bitmap::of(&[
    AttrNo::TYPE,
    AttrNo::CHANGE,
    AttrNo::SIZE,
    AttrNo::FILEID,
    AttrNo::MODE,
    AttrNo::NUMLINKS,
    AttrNo::OWNER,
    AttrNo::OWNER_GROUP,
    AttrNo::TIME_MODIFY,
]);

fn getattr() -> OpArgs {
    OpArgs::Getattr(GetattrArgs { request: ATTRS })
}

fn readdir() -> OpArgs {
    OpArgs::Readdir(ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier::default(),
        dircount: LISTING_BYTES,
        maxcount: LISTING_BYTES,
        attr_request: ATTRS,
    })
}

/// A number below the limit that is far from that of the one before.
fn scattered(n: usize, limit: usize) -> usize {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) % limit
}
