//! From which size of a request on the direct way is faster than the one through the metadata
//! server, while other clients keep that busy, and whether the threshold that servers adapt to
//! their load is near it: figure 5 of P0.
//!
//! Requests write to files that are empty and open before; the close that makes them durable is
//! part of the time. A file gets one request, so that the way is chosen for it alone, or several of
//! the same range, which share a layout as those of P0 did. The client that is measured has a
//! runtime of its own: it waits for the others where they meet, at the servers and for the
//! processors.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{runtime::Runtime, task::JoinSet};
use weft_client::{
    fs::{Client, ClientOptions, File, FsError, OpenOptions},
    io::IoPolicy,
};

use crate::{
    context::{Context, alternating},
    outcome::Outcome,
    report::{Cpu, Row, Sample},
    requests::{DATA_SERVERS, SETTINGS},
    servers::Servers,
    workers,
};

/// Sizes of requests.
const SIZES: [u32; 11] = {
    let mut sizes = [1 << 10; 11];
    let mut i = 1;
    while i < sizes.len() {
        sizes[i] = sizes[i - 1] * 2;
        i += 1;
    }
    sizes
};
/// Of these only every so many with `--quick`.
const QUICK_STEP: usize = 5;
/// Requests of a file.
const OF_A_FILE: [usize; 2] = [1, 16];
/// Files of one measurement, at least: others' commits come in waves, and one file may meet none.
const FILES_MIN: usize = 4;
/// Bytes of all requests of one measurement, at most.
const BYTES: usize = 64 << 20;
/// One thread of the metadata server: connections take turns on several, one of which may have
/// more to do, and then it is these that are compared.
const ONE_THREAD: &str = "threads = 1\n";
/// What servers have unless told otherwise, and adapt.
const THRESHOLD: u64 = 64 << 10;
/// Of the better way's rate.
const GOAL: f64 = 0.9;
/// The server's smoothed load has followed a new one after this time.
const SETTLE: Duration = Duration::from_secs(3);

/// How a request reaches its data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a layout.
    Direct,
    /// Through the metadata server.
    Indirect,
    /// As the server says when the file is opened.
    Adaptive,
}

const WAYS: [Way; 3] = [Way::Direct, Way::Indirect, Way::Adaptive];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Indirect => "indirect",
            Way::Adaptive => "adaptive",
        }
    }

    /// What the server's threshold is set to.
    fn threshold(self) -> u64 {
        if self == Way::Adaptive { THRESHOLD } else { 0 }
    }

    /// Whether requests go by a layout; not known ahead of those that the server decides about.
    fn has_layout(self) -> Option<bool> {
        match self {
            Way::Direct => Some(true),
            Way::Indirect => Some(false),
            Way::Adaptive => None,
        }
    }
}

/// What keeps the metadata server busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    clients: usize,
    /// What each of them has under way.
    tasks: usize,
    /// Requests of one measurement, at most: the busier the server, the longer each takes.
    requests: usize,
    quick_requests: usize,
}

/// The last one is more than so many programs that wait for each answer can make.
const LOADS: [Load; 4] = [
    Load { clients: 0, tasks: 0, requests: 128, quick_requests: 48 },
    Load { clients: 8, tasks: 1, requests: 64, quick_requests: 32 },
    Load { clients: 64, tasks: 1, requests: 32, quick_requests: 16 },
    Load { clients: 64, tasks: 8, requests: 16, quick_requests: 16 },
];

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = if self.tasks > 1 { format!(" x{}", self.tasks) } else { String::new() };
        write!(f, "{} others{each}", self.clients)
    }
}

/// What is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    /// Requests of a file.
    of_a_file: usize,
    bytes: u32,
}

impl Case {
    fn all(quick: bool) -> Vec<Case> {
        let sizes = SIZES.into_iter().step_by(if quick { QUICK_STEP } else { 1 });
        let of = |of_a_file| sizes.clone().map(move |bytes| Case { of_a_file, bytes });
        OF_A_FILE.into_iter().flat_map(of).collect()
    }

    /// Files of one measurement, if so many requests are enough.
    fn files(self, requests: usize) -> usize {
        (requests.min(BYTES / self.bytes as usize) / self.of_a_file).max(FILES_MIN)
    }

    /// What a request of a file writes: no two of them the same.
    fn data(self, request: usize) -> Bytes {
        workers::content(request + self.bytes as usize).slice(request..)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each =
            if self.of_a_file > 1 { format!("{} x ", self.of_a_file) } else { String::new() };
        write!(f, "{each}{} KiB", self.bytes >> 10)
    }
}

/// What was measured under one load.
#[derive(Default)]
struct Samples {
    /// By case and way, repeat by repeat.
    rates: Vec<[Vec<Sample>; WAYS.len()]>,
    /// What the server said of its threshold, KiB, and of its load, requests a thread.
    told: Vec<Sample>,
    under_way: Vec<Sample>,
    /// Operations of the others a second.
    others: Vec<Sample>,
}

/// Measures all cases under every load, each way.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let cases = Case::all(context.quick);
    let dir = context.disk.join("cluster");
    let settings = format!("{ONE_THREAD}{SETTINGS}");
    let servers = Servers::start_with(&context.weft, &dir, DATA_SERVERS, &settings)?;
    let runtime = workers::runtime()?;
    let mut samples: [Samples; LOADS.len()] = Default::default();
    for repeat in 0..context.repeats {
        for (load, samples) in LOADS.iter().zip(&mut samples) {
            let requests = if context.quick { load.quick_requests } else { load.requests };
            let measured = Measured::new(&runtime, &servers)?;
            let others = Others::start(&servers, *load)?;
            samples.rates.resize_with(cases.len(), Default::default);
            for (case, rates) in cases.iter().zip(&mut samples.rates) {
                for i in alternating(repeat, WAYS.len()) {
                    rates[i].push(measured.rate(WAYS[i], *case, case.files(requests))?);
                }
            }
            servers.set_threshold(THRESHOLD)?;
            let threshold = servers.status()?.threshold;
            samples.told.push(value(threshold.now as f64 / 1024.0));
            samples.under_way.push(value(threshold.requests_per_thread as f64));
            samples.others.push(value(others.end()?));
        }
    }
    let rows = |(load, samples): (&Load, &Samples)| rows(*load, &cases, samples);
    Ok(LOADS.iter().zip(&samples).flat_map(rows).collect())
}

/// A number that took no time of its own.
fn value(value: f64) -> Sample {
    Sample { value, wall_s: 0.0, cpu: Cpu::default(), rss_bytes: 0 }
}

/// The client that is measured, with layouts and without.
struct Measured<'a> {
    runtime: &'a Runtime,
    servers: &'a Servers,
    layouts: Arc<Client>,
    none: Arc<Client>,
}

impl<'a> Measured<'a> {
    /// It has met all data servers.
    fn new(runtime: &'a Runtime, servers: &'a Servers) -> Outcome<Measured<'a>> {
        servers.set_threshold(0)?;
        let client = async |layouts| -> Outcome<Arc<Client>> {
            let policy = IoPolicy::direct();
            let options = ClientOptions { layouts, policy, ..ClientOptions::default() };
            let client = servers.client_with(options).await?;
            workers::meet(&client, DATA_SERVERS, 0, Bytes::from_static(b"x")).await?;
            Ok(Arc::new(client))
        };
        let (layouts, none) = (runtime.block_on(client(true))?, runtime.block_on(client(false))?);
        Ok(Measured { runtime, servers, layouts, none })
    }

    /// The rate of requests, one after the other.
    fn rate(&self, way: Way, case: Case, files: usize) -> Outcome<Sample> {
        self.servers.set_threshold(way.threshold())?;
        self.runtime.block_on(async {
            let client = if way == Way::Indirect { &self.none } else { &self.layouts };
            let opened = of_all(client, files, async |client, path| {
                client.open(path, OpenOptions::replace(0o644)).await
            });
            let data = (0..case.of_a_file).map(|request| case.data(request)).collect();
            let writing = vec![Writing { way, files: opened.await?, data }];
            let requests = files * case.of_a_file;
            let (_, sample) = workers::phase(self.servers, writing, requests, Writing::run).await?;
            let data = case.data(case.of_a_file - 1);
            of_all(client, files, move |client, path| {
                let data = data.clone();
                async move {
                    if client.read_file(&path, data.len() + 1).await? != data {
                        return Err(workers::wrong(path, "it does not hold what was written"));
                    }
                    client.remove(path).await
                }
            })
            .await?;
            Ok(sample)
        })
    }
}

/// Does something with each of the files, all at once.
async fn of_all<T: Send + 'static, W: Future<Output = Result<T, FsError>> + Send + 'static>(
    client: &Arc<Client>,
    count: usize,
    act: impl Fn(Arc<Client>, String) -> W,
) -> Outcome<Vec<T>> {
    let mut acts = JoinSet::new();
    for number in 0..count {
        acts.spawn(act(client.clone(), format!("/request-{number}")));
    }
    let mut done = Vec::new();
    while let Some(one) = acts.join_next().await {
        done.push(one??);
    }
    Ok(done)
}

/// The files of one measurement, and what is written to each.
struct Writing {
    way: Way,
    files: Vec<File>,
    data: Vec<Bytes>,
}

impl Writing {
    /// Writes each file and closes it.
    async fn run(mut self) -> Result<Writing, FsError> {
        for file in self.files.drain(..) {
            for data in &self.data {
                file.write_at(0, data.clone()).await?;
            }
            if self.way.has_layout().is_some_and(|has| file.io().holds_layout() != Some(has)) {
                return Err(workers::wrong("/", "a request went another way"));
            }
            file.close().await?;
        }
        Ok(self)
    }
}

/// Clients that make, look at and remove files, each in a directory of its own.
struct Others {
    runtime: Runtime,
    tasks: JoinSet<Result<(), FsError>>,
    ends: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    done_before: u64,
    settled: Instant,
}

impl Others {
    /// Starts them, and waits until the server has seen what they do.
    fn start(servers: &Servers, load: Load) -> Outcome<Others> {
        let runtime = workers::runtime()?;
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for number in 0..load.clients {
            let client = Arc::new(runtime.block_on(servers.client())?);
            let dir = format!("/others-{number}");
            runtime.block_on(client.mkdir_all(&dir, 0o755))?;
            for task in 0..load.tasks {
                let path = format!("{dir}/{task}");
                let act = act(client.clone(), path, (ends.clone(), done.clone()));
                tasks.spawn_on(act, runtime.handle());
            }
        }
        std::thread::sleep(SETTLE);
        let done_before = done.load(Relaxed);
        Ok(Others { runtime, tasks, ends, done, done_before, settled: Instant::now() })
    }

    /// Ends them. Their operations a second.
    fn end(mut self) -> Outcome<f64> {
        let done = self.done.load(Relaxed) - self.done_before;
        let elapsed_s = self.settled.elapsed().as_secs_f64();
        self.ends.store(true, Relaxed);
        while let Some(ended) = self.runtime.block_on(self.tasks.join_next()) {
            ended??;
        }
        Ok(done as f64 / elapsed_s)
    }
}

/// One of the others' programs: a file is made, looked at twice and removed, again and again.
async fn act(
    client: Arc<Client>,
    path: String,
    (ends, done): (Arc<AtomicBool>, Arc<AtomicU64>),
) -> Result<(), FsError> {
    while !ends.load(Relaxed) {
        client.open(&path, OpenOptions::replace(0o644)).await?.close().await?;
        client.stat(&path).await?;
        client.stat(&path).await?;
        client.remove(&path).await?;
        done.fetch_add(4, Relaxed);
    }
    Ok(())
}

/// What one load did, and where the ways crossed under it.
fn rows(load: Load, cases: &[Case], samples: &Samples) -> Vec<Row> {
    let mut rows = vec![
        Row::new(format!("{load}: threshold told"), "KiB", &samples.told),
        Row::new(format!("{load}: requests a thread"), "", &samples.under_way),
        Row::new(format!("{load}: their operations"), "/s", &samples.others),
    ];
    let measured = || cases.iter().zip(&samples.rates);
    for of_a_file in OF_A_FILE {
        let these: Vec<_> = measured().filter(|(case, _)| case.of_a_file == of_a_file).collect();
        let crossings: Vec<Sample> = (0..samples.others.len())
            .map(|repeat| {
                let gain = |(_, ways): &(&Case, &[Vec<Sample>; WAYS.len()])| {
                    let [direct, indirect, _] = ways;
                    (indirect[repeat].value / direct[repeat].value).ln()
                };
                let first = crossover(&these.iter().map(gain).collect::<Vec<f64>>());
                let bytes = first.map(|first| these[first].0.bytes);
                value(bytes.map_or(f64::INFINITY, |bytes| f64::from(bytes >> 10)))
            })
            .collect();
        let name = format!("{load}, {of_a_file} a file: direct from");
        rows.push(Row::new(name, "KiB", &crossings));
    }
    for (case, ways) in measured() {
        let rate =
            |i: usize| Row::new(format!("{case}, {load}: {}", WAYS[i].name()), "/s", &ways[i]);
        let (direct, indirect) = (rate(0), rate(1));
        let better = if direct.median >= indirect.median { &direct } else { &indirect };
        let adaptive = rate(2).against(better);
        let met = adaptive.ratio() >= GOAL;
        let indirect = indirect.clone().against(&direct);
        rows.extend([direct, indirect, adaptive.goal(format!("at least {GOAL}"), met)]);
    }
    rows
}

/// The threshold that loses least, by what the indirect way gains at each size (a logarithm): the
/// index of the first size to go directly. None if that is beyond the last one. Noise at one size
/// does not move it as far as it would the first or the last place where the two are equal.
fn crossover(gains: &[f64]) -> Option<usize> {
    let (mut sum, mut best, mut at) = (0.0, 0.0, 0);
    for (i, gain) in gains.iter().enumerate() {
        sum += gain;
        if sum > best {
            (best, at) = (sum, i + 1);
        }
    }
    (at < gains.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of two, both ends included, also of those that are left with `--quick`; no more bytes
    /// than allowed, and each request of a file is another.
    #[test]
    fn cases() {
        assert!(SIZES.windows(2).all(|w| w[1] == 2 * w[0]));
        for quick in [false, true] {
            let all = Case::all(quick);
            assert_eq!(all.len() % OF_A_FILE.len(), 0);
            for of in all.chunks(all.len() / OF_A_FILE.len()) {
                assert_eq!((of[0].bytes, of[of.len() - 1].bytes), (1 << 10, 1 << 20));
            }
            for case in all {
                let requests = case.files(200) * case.of_a_file;
                assert!(requests <= 200 && requests * case.bytes as usize <= BYTES);
                assert_eq!(case.data(0).len(), case.data(15).len());
                assert_ne!(case.data(0), case.data(15));
            }
        }
    }

    /// The ways cross where one begins to lose; a dip on either side does not count.
    #[test]
    fn crossovers() {
        assert_eq!(crossover(&[1.0, 0.5, -0.5, -1.0]), Some(2));
        assert_eq!(crossover(&[1.0, -0.1, 0.5, -1.0]), Some(3));
        assert_eq!(crossover(&[1.0, -0.5, 0.1, -1.0]), Some(1));
        assert_eq!(crossover(&[-1.0, -0.5]), Some(0));
        assert_eq!(crossover(&[0.1, 0.5]), None);
    }
}
