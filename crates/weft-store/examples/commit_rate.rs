//! How many durable creates a volume does, by engine, concurrency and coalescing (P3.3's ablation).
//!
//! `cargo run --release -p weft-store --example commit_rate -- DIRECTORY [SECONDS]`

use std::path::Path;
use std::time::{Duration, Instant};

use weft_store::engine::EngineKind;
use weft_store::types::{Credential, InodeNo, Timestamp};
use weft_store::volume::{CommitPolicy, New, Volume, VolumeConfig};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let seconds = arguments.next().map_or(2, |raw| raw.parse().expect("seconds"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    println!("engine  workers  coalesce  creates/s  creates/sync");
    for engine in EngineKind::ALL {
        for (workers, coalesce) in [(1, true), (16, true), (64, true), (64, false)] {
            let at = Path::new(&directory).join(format!("{}-{workers}-{coalesce}", engine.name()));
            let commit = CommitPolicy { coalesce, ..CommitPolicy::default() };
            let config = VolumeConfig { engine, commit, ..VolumeConfig::default() };
            let volume = Volume::make(&at, &config).unwrap();
            let started = Instant::now();
            let until = started + Duration::from_secs(seconds);
            let made = runtime.block_on(run(&volume, workers, until));
            let rate = made as f64 / started.elapsed().as_secs_f64();
            let stats = volume.stats().value.unwrap();
            let shared = stats.mutations as f64 / stats.batches as f64;
            let name = engine.name();
            println!("{name:6}  {workers:7}  {coalesce:8}  {rate:9.0}  {shared:12.1}");
        }
    }
}

/// Each worker creates in its own directory, one after the other, until the time is up.
async fn run(volume: &Volume, workers: u64, until: Instant) -> u64 {
    let root = Credential::superuser();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..workers {
        let now = Timestamp::default();
        let name = format!("dir-{worker}");
        let dir = volume.create(InodeNo::ROOT, name.as_bytes(), &New::directory(0o755), &root, now);
        let dir = volume.confirm(dir).await.unwrap().inode.no;
        let (volume, root) = (volume.clone(), root.clone());
        tasks.spawn(async move {
            let mut made = 0u64;
            while Instant::now() < until {
                let name = format!("file-{made:08}");
                volume.admit().await;
                let seen = volume.create(dir, name.as_bytes(), &New::file(0o644), &root, now);
                volume.confirm(seen).await.unwrap();
                made += 1;
            }
            made
        });
    }
    tasks.join_all().await.into_iter().sum()
}
