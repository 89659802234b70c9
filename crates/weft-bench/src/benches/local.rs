//! Reading files of data servers on the same host: by descriptor (ADR 32), over TCP, and the same
//! requests to a plain file on the same file system (P4.2).

use std::{
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio::task::JoinSet;
use weft_client::{
    fs::{Client, ClientOptions, OpenOptions},
    io::{IoPolicy, MemoryRegion},
};
use weft_dev::SeededRng;

use crate::{
    context::{Context, alternating},
    disk::{self, BLOCK_BYTES, own_cpu},
    outcome::Outcome,
    process::Process,
    report::{MIB, Row, Sample},
    servers::{Meter, Servers},
    workers,
};

/// Share of the local file system that reading by descriptor is to reach.
const GOAL_OF_LOCAL: f64 = 0.8;
/// Name of the file in the cluster.
const REMOTE: &str = "/local";
const DATA_SERVERS: u32 = 4;
/// Who reads at a time, each with a request under way.
const READERS: u64 = 4;

/// What is read.
#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Bytes of a request.
    request: u64,
    /// Requests are anywhere; else each reader reads its part from front to back.
    random: bool,
}

const SHAPES: [Shape; 3] = [
    Shape { name: "4 MiB from front to back", request: 4 << 20, random: false },
    Shape { name: "1 MiB anywhere", request: 1 << 20, random: true },
    Shape { name: "64 KiB anywhere", request: 64 << 10, random: true },
];

impl Shape {
    /// The offsets of one reader's requests, in a file of so many bytes.
    fn offsets(self, bytes: u64, reader: u64) -> Vec<u64> {
        let each = bytes / READERS;
        let (count, slots) = (each / self.request, bytes / self.request);
        let mut rng = SeededRng::new(reader + 1);
        let at = |n: u64, rng: &mut SeededRng| match self.random {
            true => rng.below(slots) * self.request,
            false => reader * each + n * self.request,
        };
        (0..count).map(|n| at(n, &mut rng)).collect()
    }
}

/// Measures in memory and on the disk, where all is in the page cache.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes: u64 = if context.quick { 256 << 20 } else { 1 << 30 };
    let runtime = workers::runtime()?;
    let mut rows = Vec::new();
    for (medium, dir) in [("memory", &context.memory), ("disk", &context.disk)] {
        let servers = Servers::start(&context.weft, &dir.join("cluster"), DATA_SERVERS)?;
        let place = runtime.block_on(Place::make(&servers, dir, bytes))?;
        for shape in SHAPES {
            let mut samples: [Vec<Sample>; 3] = Default::default();
            for n in 0..context.repeats {
                for which in alternating(n, 3) {
                    let sample = match which {
                        0 => place.plain(shape)?,
                        1 => runtime.block_on(place.client(&servers, shape, &place.local))?,
                        _ => runtime.block_on(place.client(&servers, shape, &place.tcp))?,
                    };
                    samples[which].push(sample);
                }
            }
            let row = |what: &str, which: usize| {
                let name = format!("{what}, {medium}, {}", shape.name);
                Row::new(name, "MiB/s", &samples[which])
            };
            let plain = row("plain file", 0);
            let local = row("by descriptor", 1).against(&plain);
            let met = local.ratio() >= GOAL_OF_LOCAL;
            let tcp = row("over TCP", 2).against(&plain);
            rows.extend([plain, local.goal("at least 0.80", met), tcp]);
        }
        runtime.block_on(place.close())?;
    }
    Ok(rows)
}

/// The same bytes in a plain file and in the cluster, and who reads them there.
struct Place {
    file: PathBuf,
    bytes: u64,
    local: Client,
    tcp: Client,
}

impl Place {
    async fn make(servers: &Servers, dir: &Path, bytes: u64) -> Outcome<Place> {
        let client = |local_sockets| {
            let policy = IoPolicy::direct();
            servers.client_with(ClientOptions { policy, local_sockets, ..Default::default() })
        };
        let local = client(Some(servers.local_sockets())).await?;
        let tcp = client(None).await?;
        let file = dir.join("plain");
        let mut plain = File::create(&file)?;
        let remote = tcp.open(REMOTE, OpenOptions::replace(0o644)).await?;
        let mut block = disk::block();
        for n in 0..bytes / BLOCK_BYTES as u64 {
            block[..8].copy_from_slice(&n.to_be_bytes());
            plain.write_all(&block)?;
            let offset = n * BLOCK_BYTES as u64;
            remote.write_at(offset, Bytes::copy_from_slice(&block)).await?;
        }
        plain.sync_all()?;
        remote.commit().await?;
        remote.close().await?;
        Ok(Place { file, bytes, local, tcp })
    }

    /// Requests to the plain file, a thread for each reader.
    fn plain(&self, shape: Shape) -> Outcome<Sample> {
        let before = Process::own().cpu_s()?;
        let started = Instant::now();
        std::thread::scope(|scope| {
            let read = |reader| {
                let file = File::open(&self.file)?;
                let mut memory = vec![0; usize::try_from(shape.request).unwrap_or(usize::MAX)];
                for offset in shape.offsets(self.bytes, reader) {
                    file.read_exact_at(&mut memory, offset)?;
                }
                Ok::<(), std::io::Error>(())
            };
            let readers: Vec<_> = (0..READERS).map(|n| scope.spawn(move || read(n))).collect();
            readers.into_iter().try_for_each(|reader| reader.join().expect("no panic"))
        })?;
        let wall_s = started.elapsed().as_secs_f64();
        Ok(Sample::rate(self.bytes as f64 / MIB, wall_s, own_cpu(before)?))
    }

    /// The same requests to the file in the cluster, a task for each reader.
    async fn client(&self, servers: &Servers, shape: Shape, client: &Client) -> Outcome<Sample> {
        let by_descriptor = client.read_by_descriptor();
        let meter = Meter::start(servers)?;
        let started = Instant::now();
        let mut readers = JoinSet::new();
        for reader in 0..READERS {
            let (client, bytes) = (client.clone(), self.bytes);
            readers.spawn(async move {
                let file = client.open(REMOTE, OpenOptions::read()).await?;
                let len = usize::try_from(shape.request).unwrap_or(usize::MAX);
                let memory: Arc<MemoryRegion> = MemoryRegion::owned(vec![0; len].into());
                let mut read = 0;
                for offset in shape.offsets(bytes, reader) {
                    read += file.read_memory(offset, memory.clone()).await? as u64;
                }
                file.close().await?;
                Ok::<u64, weft_client::fs::FsError>(read)
            });
        }
        let mut read = 0;
        while let Some(done) = readers.join_next().await {
            read += done??;
        }
        let wall_s = started.elapsed().as_secs_f64();
        if read != self.bytes {
            return Err(format!("{read} of {} bytes were read", self.bytes).into());
        }
        let by_descriptor = client.read_by_descriptor() - by_descriptor;
        // A few small reads go over TCP, before it pays to ask for a descriptor.
        if by_descriptor != 0 && by_descriptor < read - read / 100 {
            return Err(format!("{by_descriptor} of {read} bytes came by descriptor").into());
        }
        meter.rate(read as f64 / MIB, wall_s)
    }

    async fn close(self) -> Outcome {
        if self.local.read_by_descriptor() == 0 || self.tcp.read_by_descriptor() != 0 {
            return Err("what is called local is not, or what is not".into());
        }
        self.local.close().await;
        self.tcp.close().await;
        Ok(std::fs::remove_file(&self.file)?)
    }
}
