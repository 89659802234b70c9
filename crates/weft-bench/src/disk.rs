//! The disk and the engine alone: what a durable operation costs before any protocol.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use weft_store::{
    engine::{self, Batch, EngineKind},
    reserve::Reserve,
    types::{Credential, InodeNo, Timestamp},
    volume::{New, Volume, VolumeConfig},
};

use crate::{
    outcome::Outcome,
    process::Process,
    report::{Cpu, MIB, Sample},
};

/// Bytes written at once where plain files are made.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of one record in the log of the plain sync benchmark, and of a value of the engine's.
pub(crate) const RECORD_BYTES: usize = 200;
/// Records in one batch of the engine's benchmark.
pub(crate) const BATCH: usize = 64;
/// Cache of the engine, bytes.
const CACHE_BYTES: u64 = 32 << 20;

/// Processor seconds of this process, all as the client's.
pub(crate) fn own_cpu(before: f64) -> Outcome<Cpu> {
    Ok(Cpu { server_s: 0.0, client_s: Process::own().cpu_s()? - before })
}

/// Bytes that do not repeat within a block.
pub(crate) fn block() -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let words = (0..BLOCK_BYTES / 8).flat_map(|_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x.to_be_bytes()
    });
    words.collect()
}

/// Takes and gives back so much memory, as a file in the directory does. What a virtual machine's
/// host has reclaimed costs ten times as much as what is merely free, and a measurement would tell
/// more of when the host did so than of us.
pub(crate) fn warm(dir: &Path, bytes: u64) -> Outcome {
    let name = dir.join("warm");
    let mut file = File::create(&name)?;
    let block = vec![0; BLOCK_BYTES];
    for _ in 0..bytes / BLOCK_BYTES as u64 {
        file.write_all(&block)?;
    }
    Ok(std::fs::remove_file(&name)?)
}

/// Writes a new file in large blocks and makes it durable: MiB/s.
pub(crate) fn write_and_sync(dir: &Path, bytes: u64) -> Outcome<Sample> {
    let before = Process::own().cpu_s()?;
    let path = dir.join("plain");
    let block = vec![7; BLOCK_BYTES];
    let started = Instant::now();
    let mut file = File::create(&path)?;
    for _ in 0..bytes / block.len() as u64 {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    let wall_s = started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(Sample::rate(bytes as f64 / MIB, wall_s, own_cpu(before)?))
}

/// Makes files of `bytes` from so many threads, each its own, and makes each durable: files/s.
pub(crate) fn durable_files(
    dir: &Path,
    threads: usize,
    each: usize,
    bytes: usize,
) -> Outcome<Sample> {
    let dir = dir.join("plain-files");
    std::fs::create_dir_all(&dir)?;
    let (before, data) = (Process::own().cpu_s()?, vec![7; bytes]);
    let started = Instant::now();
    by_threads(threads, each, |name| {
        let mut file = File::create(dir.join(name))?;
        file.write_all(&data)?;
        file.sync_data()
    })?;
    let wall_s = started.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&dir)?;
    Ok(Sample::rate((threads * each) as f64, wall_s, own_cpu(before)?))
}

/// Makes so many files from each thread, all at once; each has a name of its own.
pub(crate) fn by_threads(
    threads: usize,
    each: usize,
    make: impl Fn(&str) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let make_all =
        |thread: usize| (0..each).try_for_each(|index| make(&format!("{thread:03}-{index:06}")));
    std::thread::scope(|scope| {
        let start = |thread| scope.spawn(move || make_all(thread));
        let makers: Vec<_> = (0..threads).map(start).collect();
        makers.into_iter().try_for_each(|maker| maker.join().expect("no panic"))
    })
}

/// Appends a small record and syncs, again and again: syncs/s.
pub(crate) fn append_and_sync(dir: &Path, limit: Duration) -> Outcome<Sample> {
    let path = dir.join("log");
    let mut file = File::create(&path)?;
    let sample = repeat(limit, 1, |_| {
        file.write_all(&[7; RECORD_BYTES])?;
        Ok(file.sync_data()?)
    })?;
    std::fs::remove_file(&path)?;
    Ok(sample)
}

/// Commits batches of `records` to the engine by one thread, each of `record_bytes`: records/s.
pub(crate) fn engine_commits(
    dir: &Path,
    limit: Duration,
    records: usize,
    record_bytes: usize,
) -> Outcome<Sample> {
    let dir = dir.join("engine");
    std::fs::create_dir_all(&dir)?;
    let reserve = Arc::new(Reserve::open(&dir, 0)?);
    let engine = engine::open(EngineKind::default(), &reserve, CACHE_BYTES)?;
    let epoch = engine.acquire()?;
    let sample = repeat(limit, records, |n| {
        let mut batch = Batch::new();
        for i in 0..records {
            let key = (n * records as u64 + i as u64).to_be_bytes();
            batch.put(key.to_vec(), vec![7; record_bytes]);
        }
        Ok(engine.commit(&batch, epoch)?)
    })?;
    drop(engine);
    std::fs::remove_dir_all(&dir)?;
    Ok(sample)
}

/// Calls `work` until the time is up; each call counts `weight`.
fn repeat(limit: Duration, weight: usize, mut work: impl FnMut(u64) -> Outcome) -> Outcome<Sample> {
    let before = Process::own().cpu_s()?;
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < limit {
        work(done)?;
        done += 1;
    }
    let wall_s = started.elapsed().as_secs_f64();
    Ok(Sample::rate(done as f64 * weight as f64, wall_s, own_cpu(before)?))
}

/// Creates files in one directory of a volume in this process, without network or protocol:
/// creates/s.
pub(crate) async fn volume_creates(dir: &Path, limit: Duration, tasks: u64) -> Outcome<Sample> {
    let dir = dir.join("volume");
    let volume = Volume::make(&dir, &VolumeConfig::default())?;
    let before = Process::own().cpu_s()?;
    let started = Instant::now();
    let mut creators = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let volume = volume.clone();
        creators.spawn(async move {
            let (root, mut made) = (Credential::superuser(), 0u64);
            while started.elapsed() < limit {
                let name = format!("{task:02}-{made:08}");
                let new = New::file(0o644);
                volume.admit().await;
                let now = Timestamp::default();
                let seen = volume.create(InodeNo::ROOT, name.as_bytes(), &new, &root, now);
                volume.confirm(seen).await?;
                made += 1;
            }
            Ok::<u64, weft_store::types::StoreError>(made)
        });
    }
    let mut made = 0;
    while let Some(done) = creators.join_next().await {
        made += done??;
    }
    let sample = Sample::rate(made as f64, started.elapsed().as_secs_f64(), own_cpu(before)?);
    drop(volume);
    std::fs::remove_dir_all(&dir)?;
    Ok(sample)
}
