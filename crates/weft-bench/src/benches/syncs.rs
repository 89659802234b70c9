//! Ways to make many small files durable at the same time, on the disk alone: what a data server
//! does (each file's own sync and that of its directory), a sync of the directory that is shared, a
//! sync of the whole file system that is shared, and a log beside the files, which are written to
//! their places later.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    context::{Context, alternating},
    disk::own_cpu,
    outcome::Outcome,
    process::Process,
    report::{Row, Sample},
};

/// Bytes of all files of one measurement, at most.
const BYTES: usize = 256 << 20;
const QUICK_BYTES: usize = 32 << 20;
/// Files of one measurement, at most.
const FILES: usize = 3200;
/// Bytes of the log: it is written all over before, and is never full.
const LOG_BYTES: usize = 2 * BYTES;
/// A record of the log begins on one of these, and has a head.
const BLOCK: usize = 4096;

/// What is measured: bytes of a file, and files at once.
const CASES: [(usize, usize); 4] = [(4 << 10, 16), (128 << 10, 1), (128 << 10, 16), (1 << 20, 16)];

/// How files are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each by its own sync and one of the directory.
    OneByOne,
    /// By its own, and one of the directory for all that wait.
    SharedDirectory,
    /// By a sync of the file system for all that wait.
    FileSystem,
    /// By a record in a log, and a sync of that for all that wait.
    Log,
}

const WAYS: [Way; 4] = [Way::OneByOne, Way::SharedDirectory, Way::FileSystem, Way::Log];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::OneByOne => "one by one",
            Way::SharedDirectory => "directory shared",
            Way::FileSystem => "one syncfs",
            Way::Log => "a log",
        }
    }
}

/// One sync for all that wait; who comes while one runs shares the next.
#[derive(Debug, Default)]
struct Shared {
    /// Rounds begun, and ended.
    rounds: Mutex<(u64, u64)>,
    ended: Condvar,
}

impl Shared {
    fn sync(&self, sync: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
        let mut rounds = self.rounds.lock().expect("no panic");
        let covered_by = rounds.0 + 1;
        while rounds.1 < covered_by {
            if rounds.0 == rounds.1 {
                rounds.0 += 1;
                drop(rounds);
                let synced = sync();
                rounds = self.rounds.lock().expect("no panic");
                rounds.1 = rounds.0;
                self.ended.notify_all();
                return synced;
            }
            rounds = self.ended.wait(rounds).expect("no panic");
        }
        Ok(())
    }
}

/// Where files are made durable.
struct Place {
    way: Way,
    dir: PathBuf,
    directory: File,
    log: File,
    /// Where the next record goes.
    tail: AtomicU64,
    shared: Shared,
}

impl Place {
    fn new(way: Way, dir: &Path) -> Outcome<Place> {
        let (dir, log) = (dir.join("files"), dir.join("log"));
        std::fs::create_dir_all(&dir)?;
        let log = OpenOptions::new().create(true).truncate(true).write(true).open(log)?;
        if way == Way::Log {
            let zeros = vec![0; 1 << 20];
            for at in (0..LOG_BYTES).step_by(zeros.len()) {
                log.write_all_at(&zeros, at as u64)?;
            }
        }
        let directory = File::open(&dir)?;
        rustix::fs::syncfs(&directory)?;
        let (tail, shared) = (AtomicU64::new(0), Shared::default());
        Ok(Place { way, dir, directory, log, tail, shared })
    }

    /// Makes a file and writes it durably.
    fn make(&self, name: &str, data: &[u8]) -> std::io::Result<()> {
        let file = File::create_new(self.dir.join(name))?;
        file.write_all_at(data, 0)?;
        match self.way {
            Way::OneByOne => file.sync_data().and_then(|()| self.directory.sync_all()),
            Way::SharedDirectory => {
                file.sync_data()?;
                self.shared.sync(|| self.directory.sync_all())
            }
            Way::FileSystem => self.shared.sync(|| Ok(rustix::fs::syncfs(&self.directory)?)),
            Way::Log => {
                let blocks = data.len().div_ceil(BLOCK) + 1;
                let at = self.tail.fetch_add((blocks * BLOCK) as u64, Ordering::Relaxed);
                self.log.write_all_at(&[1; BLOCK], at)?;
                self.log.write_all_at(data, at + BLOCK as u64)?;
                self.shared.sync(|| self.log.sync_data())
            }
        }
    }
}

/// Measures all ways.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (bytes, threads) in CASES {
        let all = if context.quick { QUICK_BYTES } else { BYTES };
        let each = (all / bytes).min(FILES) / threads;
        let mut samples: [(Vec<Sample>, Vec<Sample>); WAYS.len()] = Default::default();
        for repeat in 0..context.repeats {
            for i in alternating(repeat, WAYS.len()) {
                let (durable, placed) = measure(&context.disk, WAYS[i], (bytes, threads), each)?;
                samples[i].0.push(durable);
                samples[i].1.push(placed);
            }
        }
        let name = |what: &str| format!("{} KiB, {threads} at once: {what}", bytes >> 10);
        let mut baseline = None;
        for (way, (durable, placed)) in WAYS.iter().zip(&samples) {
            let row = Row::new(name(way.name()), "files/s", durable);
            let against = baseline.get_or_insert_with(|| row.clone());
            let in_place = Row::new(name("a log, and in place"), "files/s", placed);
            let in_place = in_place.against(against);
            rows.push(row.against(against));
            if *way == Way::Log {
                rows.push(in_place);
            }
        }
    }
    Ok(rows)
}

/// The rate until all files are durable, and until they are in their places too.
fn measure(
    dir: &Path,
    way: Way,
    (bytes, threads): (usize, usize),
    each: usize,
) -> Outcome<(Sample, Sample)> {
    let dir = dir.join("syncs");
    let place = Place::new(way, &dir)?;
    let (before, data, files) = (Process::own().cpu_s()?, vec![7; bytes], (threads * each) as f64);
    let started = Instant::now();
    let make = |thread: usize| {
        (0..each).try_for_each(|index| place.make(&format!("{thread:03}-{index:06}"), &data))
    };
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || make(thread))).collect();
        makers.into_iter().try_for_each(|maker| maker.join().expect("no panic"))
    })?;
    let durable = Sample::rate(files, started.elapsed().as_secs_f64(), own_cpu(before)?);
    rustix::fs::syncfs(&place.directory)?;
    let placed = Sample::rate(files, started.elapsed().as_secs_f64(), own_cpu(before)?);
    drop(place);
    std::fs::remove_dir_all(&dir)?;
    Ok((durable, placed))
}
