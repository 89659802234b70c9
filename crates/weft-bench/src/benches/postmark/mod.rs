//! Postmark with the parameters of P0 (table 1: direct and indirect writes) and of P1 (figure 8d):
//! many small files that are made, read, lengthened and removed, in blocks of a KiB or less.

mod workload;

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Runtime;
use weft_client::{
    fs::{Client, ClientOptions, File, FsError, OpenOptions},
    io::IoPolicy,
};

use crate::{
    context::{Context, alternating},
    figures::{Figures, Key},
    outcome::Outcome,
    report::{Cpu, MIB, Row, Sample},
    requests::{DATA_SERVERS, SETTINGS, Way},
    servers::Servers,
    setup::{ALL_OFF, ALL_ON},
    workers,
};
use workload::{Name, Parameters, Step, Workload};

/// What the workload is made from: the program's own seed.
const SEED: u64 = 42;
/// Requests below this are gathered by the threshold, and by a client that gathers.
const THRESHOLD: u32 = 32 << 10;

/// The parameters of P0 §5.2.
const P0: Parameters = Parameters {
    files: 100,
    transactions: 2000,
    least_bytes: 1 << 10,
    most_bytes: 500 << 10,
    block_bytes: 1 << 10,
    directories: 0,
};
/// Those of P1 §6.4.2.
const P1: Parameters = Parameters { block_bytes: 512, directories: 10, ..P0 };

/// Configuration of servers and client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AllOff,
    AllOn,
    /// [`Mode::AllOn`] with a client that caches, as one does that is told nothing (P0.4).
    Cached,
    /// No file with the metadata server, as P0 compares them.
    Path(Way),
}

/// A configuration, and others that are compared with it, with how many times as fast they must
/// write.
type Compared = (Mode, &'static [(Mode, Option<f64>)]);

const DIRECT: Mode = Mode::Path(Way::Direct);
const INDIRECT: Mode = Mode::Path(Way::Indirect);
const CACHED: Mode = Mode::Path(Way::Cached);
const BY_THRESHOLD: Mode = Mode::Path(Way::Threshold(THRESHOLD));

/// A paper's part of it.
struct Part {
    name: &'static str,
    parameters: Parameters,
    compared: &'static [Compared],
}

/// The factor is that of table 1 in P0: 2.44 MB/s against 0.65.
const PARTS: [Part; 2] = [
    Part {
        name: "P0",
        parameters: P0,
        compared: &[
            (Mode::AllOff, &[(Mode::AllOn, None), (Mode::Cached, None)]),
            (DIRECT, &[(CACHED, Some(3.75)), (INDIRECT, None), (BY_THRESHOLD, None)]),
        ],
    },
    Part {
        name: "P1",
        parameters: P1,
        compared: &[(Mode::AllOff, &[(Mode::AllOn, None), (Mode::Cached, None)])],
    },
];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::AllOff => ALL_OFF.name,
            Mode::AllOn => ALL_ON.name,
            Mode::Cached => "all-on, cached",
            Mode::Path(Way::Direct) => "direct",
            Mode::Path(Way::Indirect) => "indirect",
            Mode::Path(Way::Threshold(_)) => "threshold",
            Mode::Path(Way::Cached) => "cached",
        }
    }

    fn settings(self) -> String {
        match self {
            Mode::AllOff => ALL_OFF.settings(DATA_SERVERS),
            Mode::AllOn | Mode::Cached => ALL_ON.settings(DATA_SERVERS),
            Mode::Path(_) => SETTINGS.to_owned(),
        }
    }

    fn options(self) -> ClientOptions {
        let policy = IoPolicy::direct();
        match self {
            Mode::AllOff => ClientOptions { eager: false, policy, ..ClientOptions::default() },
            Mode::AllOn => ClientOptions { policy, ..ClientOptions::default() },
            Mode::Cached => ClientOptions::default(),
            Mode::Path(way) => way.options(),
        }
    }
}

/// Measures both parts.
pub(crate) fn bench(context: &Context) -> Outcome<(Vec<Row>, Vec<Figures>)> {
    let runtime = workers::runtime()?;
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for part in PARTS {
        let parameters = if context.quick { quick(part.parameters) } else { part.parameters };
        let workload = Arc::new(Workload::new(parameters, SEED));
        let (modes, mut figures) = (part.modes(), Figures::of(part.name));
        for repeat in 0..context.ablation_repeats() {
            for i in alternating(repeat, modes.len()) {
                let mode = modes[i];
                let dir = context.disk.join("cluster");
                let servers =
                    Servers::start_with(&context.weft, &dir, DATA_SERVERS, &mode.settings())?;
                let run = (mode, parameters, workload.clone());
                measure(&runtime, &servers, run, &mut figures)?;
            }
        }
        println!("{}", figures.table(DATA_SERVERS));
        rows.extend(part.rows(&figures));
        all.push(figures);
    }
    Ok((rows, all))
}

/// A fifth of the files and few transactions.
fn quick(parameters: Parameters) -> Parameters {
    let Parameters { files, transactions, .. } = parameters;
    Parameters { files: files / 5, transactions: transactions / 40, ..parameters }
}

impl Part {
    /// All configurations that are compared.
    fn modes(&self) -> Vec<Mode> {
        let with_base = |(base, others): &Compared| {
            std::iter::once(*base).chain(others.iter().map(|(mode, _)| *mode)).collect::<Vec<_>>()
        };
        self.compared.iter().flat_map(with_base).collect()
    }

    /// Making files, transactions, and writing; only the latter has a goal.
    fn rows(&self, figures: &Figures) -> Vec<Row> {
        let mut rows = Vec::new();
        for (base, others) in self.compared {
            for phase in [Phase::Pool.name(), Phase::Transactions.name(), WRITTEN] {
                let key = Key { phase, config: base.name(), data_servers: DATA_SERVERS };
                let goal = |goal: Option<f64>| goal.filter(|_| phase == WRITTEN);
                let others = others.iter().map(|(mode, factor)| (mode.name(), goal(*factor)));
                rows.extend(figures.compared(key, &others.collect::<Vec<_>>()));
            }
        }
        rows
    }
}

/// A part of the workload that is timed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pool,
    Transactions,
    Rest,
}

/// The phases in their order.
const PHASES: [Phase; 3] = [Phase::Pool, Phase::Transactions, Phase::Rest];

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Pool => "files made",
            Phase::Transactions => "transactions",
            Phase::Rest => "files removed",
        }
    }
}

/// What was written in all over the time of all phases, as the program tells it.
const WRITTEN: &str = "MiB written";

fn measure(
    runtime: &Runtime,
    servers: &Servers,
    (mode, parameters, workload): (Mode, Parameters, Arc<Workload>),
    figures: &mut Figures,
) -> Outcome {
    runtime.block_on(async {
        let client = servers.client_with(mode.options()).await?;
        workers::meet(&client, DATA_SERVERS, 0, Bytes::from_static(b"x")).await?;
        let mut workers = vec![Worker::new(client, parameters, workload.clone()).await?];
        let (mut wall_s, mut cpu) = (0.0, Cpu::default());
        let key = |phase| Key { phase, config: mode.name(), data_servers: DATA_SERVERS };
        for phase in PHASES {
            let operations = match phase {
                Phase::Pool => workload.pool.len(),
                Phase::Transactions => workload.transactions.len(),
                Phase::Rest => workload.rest.len(),
            };
            let run = |worker: Worker| worker.run(phase);
            let (back, sample) = workers::phase(servers, workers, operations, run).await?;
            workers = back;
            wall_s += sample.wall_s;
            cpu.server_s += sample.cpu.server_s;
            cpu.client_s += sample.cpu.client_s;
            figures.add(key(phase.name()), sample);
        }
        let mib = workload.bytes_written() as f64 / MIB;
        figures.add(key(WRITTEN), Sample::rate(mib, wall_s, cpu));
        Ok(())
    })
}

/// A client that carries out the workload.
struct Worker {
    client: Client,
    block: usize,
    workload: Arc<Workload>,
    pattern: Bytes,
}

impl Worker {
    /// A worker whose directories are there.
    async fn new(
        client: Client,
        parameters: Parameters,
        workload: Arc<Workload>,
    ) -> Result<Worker, FsError> {
        for directory in 0..parameters.directories.max(1) {
            client.mkdir(directory_path(directory), 0o755).await?;
        }
        // Contents differ from file to file by where in it they begin.
        let length = parameters.most_bytes as usize + workers::CONTENT_PERIOD;
        let pattern = workers::content(length);
        Ok(Worker { client, block: parameters.block_bytes as usize, workload, pattern })
    }

    /// Carries out the steps of a phase, one after the other.
    ///
    /// # Errors
    /// The first failure; content or a size that is not what was written is one.
    async fn run(self, phase: Phase) -> Result<Worker, FsError> {
        match phase {
            Phase::Pool => self.steps(&self.workload.pool).await?,
            Phase::Transactions => self.steps(self.workload.transactions.as_flattened()).await?,
            Phase::Rest => self.steps(&self.workload.rest).await?,
        }
        Ok(self)
    }

    async fn steps(&self, steps: &[Step]) -> Result<(), FsError> {
        for step in steps {
            match *step {
                Step::Create { file, bytes } => self.create(file, bytes as usize).await?,
                Step::Read { file, bytes } => self.read(file, bytes as usize).await?,
                Step::Append { file, from, bytes } => {
                    self.append(file, from as usize, bytes as usize).await?;
                }
                Step::Delete { file } => self.client.remove(path(file)).await?,
            }
        }
        Ok(())
    }

    async fn create(&self, name: Name, bytes: usize) -> Result<(), FsError> {
        let options = OpenOptions {
            write: true,
            create: Some(0o644),
            exclusive: true,
            ..OpenOptions::default()
        };
        let file = self.client.open(path(name), options).await?;
        self.write(name, &file, 0, bytes).await?;
        file.close().await
    }

    async fn append(&self, name: Name, from: usize, bytes: usize) -> Result<(), FsError> {
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let file = self.client.open(path(name), options).await?;
        has_size(name, &file, from)?;
        self.write(name, &file, from, from + bytes).await?;
        file.close().await
    }

    /// Writes from there to there, block by block; what is written is durable when it is closed.
    async fn write(&self, name: Name, file: &File, from: usize, to: usize) -> Result<(), FsError> {
        for at in (from..to).step_by(self.block) {
            let data = self.content(name, at, to.min(at + self.block));
            file.write_at(at as u64, data).await?;
        }
        Ok(())
    }

    async fn read(&self, name: Name, bytes: usize) -> Result<(), FsError> {
        let file = self.client.open(path(name), OpenOptions::read()).await?;
        has_size(name, &file, bytes)?;
        for at in (0..bytes).step_by(self.block) {
            let wanted = self.content(name, at, bytes.min(at + self.block));
            if file.read_at(at as u64, wanted.len()).await? != wanted {
                return Err(wrong(name, "it does not hold what was written"));
            }
        }
        file.close().await
    }

    fn content(&self, name: Name, from: usize, to: usize) -> Bytes {
        let start = name.number as usize % workers::CONTENT_PERIOD;
        self.pattern.slice(start + from..start + to)
    }
}

fn has_size(name: Name, file: &File, bytes: usize) -> Result<(), FsError> {
    let is_right = file.size() == bytes as u64;
    if is_right { Ok(()) } else { Err(wrong(name, "its size is wrong")) }
}

fn directory_path(directory: u32) -> String {
    format!("/postmark-{directory}")
}

fn path(name: Name) -> String {
    format!("{}/{}", directory_path(name.directory), name.number)
}

fn wrong(name: Name, what: &'static str) -> FsError {
    workers::wrong(path(name), what)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Both parts keep to what the papers say, carry out every transaction, also with `--quick`,
    /// and measure everything once.
    #[test]
    fn parts_are_the_papers() {
        let [p0, p1] = PARTS.map(|part| part.parameters);
        assert_eq!(
            (p0.transactions, p0.files, p0.block_bytes, p0.directories),
            (2000, 100, 1024, 0)
        );
        assert_eq!(
            (p1.transactions, p1.files, p1.block_bytes, p1.directories),
            (2000, 100, 512, 10)
        );
        for part in PARTS {
            for parameters in [part.parameters, quick(part.parameters)] {
                let workload = Workload::new(parameters, SEED);
                assert_eq!(workload.transactions.len(), parameters.transactions);
            }
            let names: HashSet<_> = part.modes().into_iter().map(Mode::name).collect();
            assert_eq!(names.len(), part.modes().len());
        }
    }
}
