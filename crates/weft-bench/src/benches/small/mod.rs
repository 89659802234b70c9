//! Small files: what each technique brings to the microbenchmark of P3 and to whole small files.

mod listing;
pub(crate) mod micro;
mod whole;

use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;

use crate::{
    context::{Context, alternating},
    disk,
    figures::{Figures, Key},
    outcome::Outcome,
    report::{Row, Sample},
    servers::Servers,
    setup::{ALL_OFF, ALL_ON, SETUPS, Setup, Technique, WITH_OBJECTS},
    workers,
};
use micro::{STEPS, Step, WRITTEN_FILES};

/// Data servers over which files are made and removed: those that have objects must be flat.
const FLAT_OVER: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// What must be flat: its files have an object each, and none is kept by the metadata server.
const FLAT: Setup = WITH_OBJECTS;
/// Clients at once that make whole files durable.
const WHOLE_CLIENTS: usize = 16;
/// What the engine alone is asked to commit.
const ENGINE: &str = "engine, batches of 16";
/// Of the engine's rate that durable whole files must reach.
const GOAL_OF_ENGINE: f64 = 0.5;

/// Phases whose rate must grow by a factor from all-off to all-on.
const GOALS: [(&str, f64); 6] = [
    ("create", 10.0),
    ("readdir+stat populated", 12.0),
    ("remove", 8.0),
    ("write", 3.0),
    ("read", 3.0),
    (whole::LISTING, 5.0),
];

/// Measures every configuration, and creates and removes over more and more data servers.
pub(crate) fn bench(context: &Context) -> Outcome<(Vec<Row>, Vec<Figures>)> {
    let mut bench = Bench {
        context,
        runtime: workers::runtime()?,
        data: workers::content(context.file_bytes()),
        figures: Figures::default(),
        engine: Vec::new(),
    };
    for repeat in 0..context.ablation_repeats() {
        bench.ablation(repeat)?;
        bench.flatness(repeat)?;
        let limit = Duration::from_secs(if context.quick { 1 } else { 5 });
        let bytes = bench.data.len();
        bench.engine.push(disk::engine_commits(&context.disk, limit, WHOLE_CLIENTS, bytes)?);
    }
    println!("{}", bench.figures.table(context.data_servers()));
    Ok((bench.rows(), vec![bench.figures]))
}

struct Bench<'a> {
    context: &'a Context,
    runtime: Runtime,
    /// Of each file.
    data: Bytes,
    figures: Figures,
    engine: Vec<Sample>,
}

impl Bench<'_> {
    /// All configurations, in turning order.
    fn ablation(&mut self, repeat: u32) -> Outcome {
        for i in alternating(repeat, SETUPS.len()) {
            let setup = SETUPS[i];
            if !self.context.includes(setup) {
                continue;
            }
            let data_servers = self.context.data_servers();
            let servers = self.start(setup, data_servers)?;
            self.micro(&servers, setup, data_servers, &STEPS)?;
            self.whole(&servers, setup)?;
        }
        Ok(())
    }

    /// Files with objects, made and removed over all numbers of data servers.
    fn flatness(&mut self, repeat: u32) -> Outcome {
        if !self.context.is_whole() {
            return Ok(());
        }
        for i in alternating(repeat, FLAT_OVER.len()) {
            for setup in [ALL_OFF, FLAT] {
                let servers = self.start(setup, FLAT_OVER[i])?;
                self.micro(&servers, setup, FLAT_OVER[i], &WRITTEN_FILES)?;
            }
        }
        Ok(())
    }

    fn start(&self, setup: Setup, data_servers: u32) -> Outcome<Servers> {
        let dir = self.context.disk.join("cluster");
        Servers::start_with(&self.context.weft, &dir, data_servers, &setup.settings(data_servers))
    }

    /// The phases of the microbenchmark.
    fn micro(
        &mut self,
        servers: &Servers,
        setup: Setup,
        data_servers: u32,
        steps: &[Step],
    ) -> Outcome {
        let (count, files) = (self.context.clients(), self.context.files_of_each());
        let clients =
            self.runtime.block_on(workers::clients(servers, setup, data_servers, count))?;
        let one_pass = setup.has(Technique::OnePassListing);
        let worker = |(number, client)| {
            micro::Worker::new(client, number, files, self.data.clone()).listing(one_pass)
        };
        let mut workers: Vec<_> = clients.into_iter().enumerate().map(worker).collect();
        for Step { phase, name } in steps {
            let operations = phase.operations(files) * count;
            let done = workers::phase(servers, workers, operations, |worker| worker.run(*phase));
            let (back, sample) = self.runtime.block_on(done)?;
            workers = back;
            if let Some(phase) = *name {
                self.figures.add(Key { phase, config: setup.name, data_servers }, sample);
            }
        }
        Ok(())
    }

    /// Whole files of each of their clients: in all as many as the microbenchmark has.
    fn whole_files(&self) -> usize {
        (self.context.clients() * self.context.files_of_each()).div_ceil(WHOLE_CLIENTS)
    }

    /// Whole files by more clients, and listing all of them by one.
    fn whole(&mut self, servers: &Servers, setup: Setup) -> Outcome {
        let count = self.whole_files();
        let files = count * WHOLE_CLIENTS;
        let data_servers = self.context.data_servers();
        let clients = workers::clients(servers, setup, data_servers, WHOLE_CLIENTS);
        let clients = self.runtime.block_on(clients)?;
        let first = clients.first().ok_or("no clients")?;
        self.runtime.block_on(first.mkdir(whole::DIRECTORY, 0o755))?;
        let worker =
            |(number, client)| whole::Worker::new(client, number, count, self.data.clone());
        let mut workers: Vec<_> = clients.into_iter().enumerate().map(worker).collect();
        for phase in whole::PHASES {
            let done = workers::phase(servers, workers, files, |worker| worker.run(phase));
            let (back, sample) = self.runtime.block_on(done)?;
            workers = back;
            let key = Key { phase: phase.name(), config: setup.name, data_servers };
            self.figures.add(key, sample);
        }
        workers.truncate(1);
        let one_pass = setup.has(Technique::OnePassListing);
        let done = workers::phase(servers, workers, files, |worker| worker.list(one_pass, files));
        let (_, sample) = self.runtime.block_on(done)?;
        self.figures.add(Key { phase: whole::LISTING, config: setup.name, data_servers }, sample);
        Ok(())
    }
}

impl Bench<'_> {
    /// Everything off beside everything on, and the goals.
    fn rows(&self) -> Vec<Row> {
        let micro = STEPS.iter().filter_map(|step| step.name);
        let phases = micro.chain(whole::PHASES.map(whole::Phase::name)).chain([whole::LISTING]);
        let mut rows = Vec::new();
        for phase in phases {
            let data_servers = self.context.data_servers();
            let off = Key { phase, config: ALL_OFF.name, data_servers };
            let goal = GOALS.iter().find(|(name, _)| *name == phase).map(|(_, factor)| *factor);
            rows.extend(self.figures.compared(off, &[(ALL_ON.name, goal)]));
        }
        for phase in WRITTEN_FILES.iter().filter_map(|step| step.name) {
            for setup in [ALL_OFF, FLAT] {
                let key = Key { phase, config: setup.name, data_servers: FLAT_OVER[0] };
                rows.extend(self.figures.over_data_servers(key, &FLAT_OVER, setup == FLAT));
            }
        }
        rows.extend(self.engine_rows());
        rows
    }

    /// Durable whole files against the engine alone.
    fn engine_rows(&self) -> Vec<Row> {
        let engine = Row::new(ENGINE, "records/s", &self.engine);
        let phase = whole::Phase::CreateWriteClose.name();
        let data_servers = self.context.data_servers();
        let key = Key { phase, config: ALL_ON.name, data_servers };
        let Some(durable) = self.figures.row(key) else { return vec![engine] };
        let durable = durable.named("create+write+close, 16 clients").against(&engine);
        let met = durable.ratio() >= GOAL_OF_ENGINE;
        vec![engine, durable.goal("at least 0.5", met)]
    }
}
