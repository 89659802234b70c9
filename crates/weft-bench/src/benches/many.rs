//! Ten million files in one volume: how soon it serves again, in how much memory, and what its
//! operations cost beside those of a volume of ten thousand.

use std::{path::Path, sync::Arc, time::Instant};

use tokio::runtime::Runtime;
use weft_client::fs::{Client, OpenOptions};
use weft_store::{
    types::{Credential, InodeNo, StoreError, Timestamp},
    volume::{New, Volume, VolumeConfig},
};

use crate::{
    context::Context,
    outcome::Outcome,
    process::Process,
    report::{Cpu, Row, Sample},
    servers::{Meter, Servers},
    workers,
};

/// Files of a directory.
const FILES_EACH: u64 = 10_000;
/// Operations of one kind.
const OPERATIONS: u64 = 4_000;
/// Operations under way at once.
const TASKS: u64 = 16;
/// Makers of the files, which are made in the volume without a server.
const MAKERS: u64 = 256;
/// Longest start, seconds.
const GOAL_START_S: f64 = 10.0;
/// Most memory of the server, MiB.
const GOAL_MEMORY_MIB: f64 = 512.0;
/// A thousand times the files are ten more steps of a search than thirteen: half as fast, and some.
const GOAL_RATIO: f64 = 0.4;

/// What is measured of a volume.
#[derive(Debug, Clone, Copy)]
enum Work {
    Create,
    Stat,
    List,
    Remove,
}

const WORKS: [(Work, &str, &str); 4] = [
    (Work::Create, "create", "files/s"),
    (Work::Stat, "stat by path, at random", "files/s"),
    (Work::List, "list with attributes", "entries/s"),
    (Work::Remove, "remove", "files/s"),
];

/// Makes both volumes, serves them one after the other, and compares.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let directories: u64 = if context.quick { 100 } else { 1000 };
    let runtime = workers::runtime()?;
    let mut rows = vec![Row::single("files", "", (directories * FILES_EACH) as f64)];
    let (few, _) = measure(context, &runtime, 1)?;
    let (many, start) = measure(context, &runtime, directories)?;
    rows.extend(start);
    for ((_, name, unit), (few, many)) in WORKS.iter().zip(few.iter().zip(&many)) {
        let few = Row::new(format!("{name}, of {FILES_EACH}"), unit, few);
        let many = Row::new(*name, unit, many).against(&few);
        let met = many.ratio() >= GOAL_RATIO;
        rows.extend([few, many.goal("at least 0.4", met)]);
    }
    let most = rows.iter().map(|row| row.server_rss_mib).fold(0.0, f64::max);
    let met = most < GOAL_MEMORY_MIB;
    rows.push(Row::single("server memory at most", "MiB", most).goal_counted("below 512 MiB", met));
    Ok(rows)
}

/// One volume: samples of each work, and how it was made and started.
fn measure(
    context: &Context,
    runtime: &Runtime,
    directories: u64,
) -> Outcome<(Vec<Vec<Sample>>, Vec<Row>)> {
    let dir = context.disk.join(format!("files-{directories}"));
    let made = runtime.block_on(make(&dir.join("mds/volume"), directories))?;
    let began = Instant::now();
    let servers = Servers::start(&context.weft, &dir, 2)?;
    let start = Sample {
        value: began.elapsed().as_secs_f64(),
        wall_s: began.elapsed().as_secs_f64(),
        cpu: Cpu { server_s: servers.process().cpu_s()?, client_s: 0.0 },
        rss_bytes: servers.process().peak_rss_bytes()?,
    };
    let mut samples = vec![Vec::new(); WORKS.len()];
    for round in 0..u64::from(context.repeats) {
        for ((work, ..), samples) in WORKS.iter().zip(&mut samples) {
            samples.push(runtime.block_on(run(&servers, *work, directories, round))?);
        }
    }
    let made = Row::new("made, without a server", "files/s", &[made]);
    let start = Row::new("start", "s", &[start]);
    let met = start.median < GOAL_START_S;
    Ok((samples, vec![made, start.goal("below 10 s", met)]))
}

/// Fills a new volume.
async fn make(dir: &Path, directories: u64) -> Outcome<Sample> {
    let volume = Volume::make(dir, &VolumeConfig::default())?;
    let before = Process::own().cpu_s()?;
    let started = Instant::now();
    let mut makers = tokio::task::JoinSet::new();
    for maker in 0..MAKERS {
        let volume = volume.clone();
        makers.spawn(async move {
            for number in (maker..directories).step_by(MAKERS as usize) {
                make_directory(&volume, number).await?;
            }
            Ok::<(), StoreError>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    let client_s = Process::own().cpu_s()? - before;
    let cpu = Cpu { server_s: 0.0, client_s };
    let files = (directories * FILES_EACH) as f64;
    Ok(Sample::rate(files, started.elapsed().as_secs_f64(), cpu))
}

async fn make_directory(volume: &Volume, number: u64) -> Result<(), StoreError> {
    let (root, now) = (Credential::superuser(), Timestamp::default());
    let name = directory(number);
    let new = New::directory(0o755);
    let parent =
        volume.create(InodeNo::ROOT, name.trim_start_matches('/').as_bytes(), &new, &root, now);
    let parent = volume.confirm(parent).await?.inode.no;
    let mut last = None;
    for file in 0..FILES_EACH {
        volume.admit().await;
        let new = New::file(0o644);
        last = Some(volume.create(parent, format!("{file}").as_bytes(), &new, &root, now));
    }
    match last {
        Some(seen) => volume.confirm(seen).await.map(drop),
        None => Ok(()),
    }
}

fn directory(number: u64) -> String {
    format!("/d{number}")
}

/// One kind of work by several tasks of one client, on files spread over the whole volume.
async fn run(servers: &Servers, work: Work, directories: u64, round: u64) -> Outcome<Sample> {
    let client = Arc::new(servers.client().await?);
    let meter = Meter::start(servers)?;
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut done = 0;
            for n in (task..OPERATIONS).step_by(TASKS as usize) {
                let at = scattered(n + round * OPERATIONS, directories * FILES_EACH);
                done += operate(&client, work, (n + round * OPERATIONS, at)).await?;
                if matches!(work, Work::List) && done > OPERATIONS * 4 {
                    break;
                }
            }
            Ok::<u64, weft_client::fs::FsError>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = tasks.join_next().await {
        done += ended??;
    }
    meter.rate(done as f64, started.elapsed().as_secs_f64())
}

/// A number below the limit that is far from that of the one before.
fn scattered(n: u64, limit: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) % limit
}

/// One operation, with its number and the file it concerns; how much it counts.
async fn operate(
    client: &Client,
    work: Work,
    (number, file): (u64, u64),
) -> Result<u64, weft_client::fs::FsError> {
    let dir = directory(file / FILES_EACH);
    match work {
        Work::Create => {
            let options = OpenOptions { exclusive: true, ..OpenOptions::replace(0o644) };
            client.open(format!("{dir}/new-{number}"), options).await?.close().await?;
        }
        Work::Remove => client.remove(format!("{dir}/new-{number}")).await?,
        Work::Stat => drop(client.stat(format!("{dir}/{}", file % FILES_EACH)).await?),
        Work::List => {
            let mut listing = client.read_dir(&dir).await?;
            let mut entries = 0;
            while listing.next().await?.is_some() {
                entries += 1;
            }
            return Ok(entries);
        }
    }
    Ok(1)
}
