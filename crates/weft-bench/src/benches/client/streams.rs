//! A large file read into memory: by plain sockets, by the library, and through the mount.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::runtime::Runtime;
use weft_client::{
    fs::{Client, OpenOptions},
    io::{IoPolicy, MemoryRegion},
};

use super::setting::{DATA_SERVERS, measured, options};
use crate::{
    benches::loopback::{Direction, Peer},
    context::Context,
    disk::{self, BLOCK_BYTES},
    outcome::Outcome,
    process::Process,
    report::{Cpu, MIB, Row, Sample},
    servers::Servers,
    weft::Weft,
};

/// Share of the loopback limit that the library is to reach.
const GOAL_OF_LOOPBACK: f64 = 0.6;
/// Share of the library's rate that the mount is to reach.
const GOAL_OF_LIBRARY: f64 = 0.6;
/// The same of what it reads a processor second.
const GOAL_OF_LIBRARY_CPU: f64 = 0.75;
/// Memory that a program has the library read into at a time.
const REGION_BYTES: usize = 64 << 20;
/// The file.
const PATH: &str = "/stream";
/// How long a mount may take to come.
const MOUNT_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Samples {
    loopback: Vec<Sample>,
    files: Vec<Sample>,
    library: Vec<Sample>,
    blocks: Vec<Sample>,
    mount: Vec<Sample>,
}

/// Measures a file of 1 GiB, a quarter of it with `--quick`.
pub(super) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes: u64 = if context.quick { 256 << 20 } else { 1 << 30 };
    let runtime = Runtime::new()?;
    let peer = Peer::start()?;
    let servers = Servers::start(&context.weft, &context.memory.join("client"), DATA_SERVERS)?;
    runtime.block_on(put(&servers, PATH, bytes))?;
    let mut samples = Samples::default();
    let mounts = Path::new("/dev/fuse").exists();
    for _ in 0..context.repeats {
        samples.loopback.push(peer.measure(Direction::In, bytes, None)?);
        samples.files.push(peer.measure_files(bytes, &context.memory)?);
        samples.library.push(library(&runtime, &servers, bytes)?);
        samples.blocks.push(blocks(&runtime, &servers, bytes)?);
        if mounts {
            samples.mount.push(mount(context, &servers, bytes)?);
        }
    }
    Ok(rows(&samples))
}

fn rows(samples: &Samples) -> Vec<Row> {
    let loopback = Row::new("loopback, receiving", "MiB/s", &samples.loopback);
    let library = Row::new("library, 64 MiB of memory at a time", "MiB/s", &samples.library);
    let library = library.against(&loopback);
    let met = library.ratio() >= GOAL_OF_LOOPBACK;
    let library = library.goal(format!("at least {GOAL_OF_LOOPBACK:.2}"), met);
    let blocks = Row::new("library, 1 MiB at a time", "MiB/s", &samples.blocks);
    let blocks = blocks.against(&loopback);
    let mut rows = vec![loopback];
    if !samples.mount.is_empty() {
        let mount = Row::new("mount, 1 MiB at a time", "MiB/s", &samples.mount);
        let mount = mount.against(&blocks);
        let met = mount.ratio() >= GOAL_OF_LIBRARY;
        rows.push(mount.goal(format!("at least {GOAL_OF_LIBRARY:.2}"), met));
        let by_cpu = |name, samples: &[Sample]| {
            let each: Vec<Sample> = samples.iter().map(|sample| by_cpu(*sample)).collect();
            Row::new(name, "MiB/CPU s", &each)
        };
        let of_library = by_cpu("library, 1 MiB at a time, a processor second", &samples.blocks);
        let of_mount = by_cpu("mount, a processor second", &samples.mount).against(&of_library);
        let met = of_mount.ratio() >= GOAL_OF_LIBRARY_CPU;
        rows.push(of_library);
        rows.push(of_mount.goal(format!("at least {GOAL_OF_LIBRARY_CPU:.2}"), met));
    }
    let files = Row::new("loopback, receiving files into 64 MiB", "MiB/s", &samples.files);
    let of_files = Row::new("library, 64 MiB of memory at a time", "MiB/s", &samples.library);
    let of_files = of_files.against(&files);
    rows.splice(1..1, [files, library, blocks, of_files]);
    rows
}

/// A rate by processor seconds of client and servers instead of wall time.
fn by_cpu(sample: Sample) -> Sample {
    let amount = sample.value * sample.wall_s;
    let cpu_s = sample.cpu.client_s + sample.cpu.server_s;
    Sample { value: amount / cpu_s.max(f64::MIN_POSITIVE), ..sample }
}

/// Makes a file of so many bytes.
///
/// # Errors
/// It cannot be made.
pub(crate) async fn put(servers: &Servers, path: &str, bytes: u64) -> Outcome {
    let client = servers.client().await?;
    let file = client.open(path, OpenOptions::replace(0o644)).await?;
    let block = Bytes::from(disk::block());
    for n in 0..bytes / BLOCK_BYTES as u64 {
        file.write_at(n * BLOCK_BYTES as u64, block.clone()).await?;
    }
    file.close().await?;
    client.close().await;
    Ok(())
}

/// Reads all of it into memory of this process, which is used again.
fn library(runtime: &Runtime, servers: &Servers, bytes: u64) -> Outcome<Sample> {
    let client = runtime.block_on(servers.client_with(options(IoPolicy::default())))?;
    let memory = MemoryRegion::owned(vec![1; REGION_BYTES].into());
    let sample = measured((runtime, servers), bytes as f64 / MIB, async {
        let file = client.open(PATH, OpenOptions::read()).await?;
        for at in (0..bytes).step_by(REGION_BYTES) {
            let read = file.read_memory(at, Arc::clone(&memory)).await?;
            if read as u64 != (REGION_BYTES as u64).min(bytes - at) {
                return Err("a short read".into());
            }
        }
        Ok(file.close().await?)
    });
    runtime.block_on(close(client));
    sample
}

/// The same in blocks, one after another, as a program reads that knows nothing of stripes.
fn blocks(runtime: &Runtime, servers: &Servers, bytes: u64) -> Outcome<Sample> {
    let client = runtime.block_on(servers.client_with(options(IoPolicy::default())))?;
    let memory = MemoryRegion::owned(vec![1; BLOCK_BYTES].into());
    let sample = measured((runtime, servers), bytes as f64 / MIB, async {
        let file = client.open(PATH, OpenOptions::read()).await?;
        for at in (0..bytes).step_by(BLOCK_BYTES) {
            if file.read_memory(at, Arc::clone(&memory)).await? != BLOCK_BYTES {
                return Err("a short read".into());
            }
        }
        Ok(file.close().await?)
    });
    runtime.block_on(close(client));
    sample
}

async fn close(client: Client) {
    client.close().await;
}

/// The same through the kernel and the mount, with nothing cached anywhere.
fn mount(context: &Context, servers: &Servers, bytes: u64) -> Outcome<Sample> {
    let mount = Mount::new(&context.weft, servers, context.memory.join("mount"))?;
    let processes = [Process::own(), Process::new(mount.child.id()), servers.process()];
    let cpu_s = || processes.iter().map(|p| p.cpu_s()).collect::<Outcome<Vec<f64>>>();
    let (before, started) = (cpu_s()?, Instant::now());
    let mut file = File::open(mount.dir.join(&PATH[1..]))?;
    let (mut block, mut left) = (vec![0; BLOCK_BYTES], bytes);
    while left > 0 {
        let got = file.read(&mut block)?;
        if got == 0 {
            return Err("the mount has less of the file".into());
        }
        left -= got as u64;
    }
    drop(file);
    let wall_s = started.elapsed().as_secs_f64();
    let after = cpu_s()?;
    let spent = |n: usize| after[n] - before[n];
    let cpu = Cpu { server_s: spent(2), client_s: spent(0) + spent(1) };
    Ok(Sample::rate(bytes as f64 / MIB, wall_s, cpu).with_rss(servers.process().peak_rss_bytes()?))
}

/// A mount in a process of its own.
struct Mount {
    child: Child,
    dir: PathBuf,
}

impl Mount {
    fn new(weft: &Weft, servers: &Servers, dir: PathBuf) -> Outcome<Mount> {
        std::fs::create_dir_all(&dir)?;
        let source = servers.mds().to_string();
        let mut command = weft.command();
        command.args(["mount", "--foreground", &source]).arg(&dir).stdin(Stdio::null());
        let mount = Mount { child: command.stdout(Stdio::null()).spawn()?, dir };
        let started = Instant::now();
        while !mount.dir.join(&PATH[1..]).exists() {
            if started.elapsed() > MOUNT_PATIENCE {
                return Err("the mount does not come".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(mount)
    }
}

impl Drop for Mount {
    /// Takes it away, and waits for its process.
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.dir).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("weft-bench: {} is not unmounted", self.dir.display());
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
