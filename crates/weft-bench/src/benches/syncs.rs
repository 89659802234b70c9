//! Ways to make many small files durable at the same time, on the disk alone: what a data server
//! does (each file's own sync and that of its directory), a sync of the directory that is shared, a
//! sync of the whole file system that is shared, and a log beside the files, which are written to
//! their places later.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use rustix::{
    fs::{fdatasync, fsync, syncfs},
    io::Errno,
};
use weft_store::objects::{GroupSync, ObjectError};

use crate::{
    context::{Context, alternating},
    disk::{by_threads, own_cpu},
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

/// The first is what the others are held against, the last one leaves something for later.
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

/// Where files are made durable.
struct Place {
    way: Way,
    dir: PathBuf,
    directory: File,
    log: File,
    /// Where the next record goes.
    tail: AtomicU64,
    shared: GroupSync,
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
        syncfs(&directory)?;
        let (tail, shared) = (AtomicU64::new(0), GroupSync::default());
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
                self.sync_shared(|| fsync(&self.directory))
            }
            Way::FileSystem => self.sync_shared(|| syncfs(&self.directory)),
            Way::Log => {
                let blocks = data.len().div_ceil(BLOCK) + 1;
                let at = self.tail.fetch_add((blocks * BLOCK) as u64, Ordering::Relaxed);
                self.log.write_all_at(&[1; BLOCK], at)?;
                self.log.write_all_at(data, at + BLOCK as u64)?;
                self.sync_shared(|| fdatasync(&self.log))
            }
        }
    }

    /// One sync for all that wait, as a data server's.
    fn sync_shared(&self, sync: impl FnOnce() -> Result<(), Errno>) -> std::io::Result<()> {
        let failed = |e: Errno| ObjectError::Io { doing: "sync", errno: e.raw_os_error() };
        self.shared.run(|| sync().map_err(failed)).map_err(std::io::Error::other)
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
        let durable = |i: usize| Row::new(name(WAYS[i].name()), "files/s", &samples[i].0);
        let baseline = durable(0);
        let others: Vec<_> = (1..WAYS.len()).map(|i| durable(i).against(&baseline)).collect();
        let [.., (_, placed)] = &samples;
        let in_place = Row::new(name("a log, and in place"), "files/s", placed).against(&baseline);
        rows.push(baseline);
        rows.extend(others);
        rows.push(in_place);
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
    by_threads(threads, each, |name| place.make(name, &data))?;
    let durable = Sample::rate(files, started.elapsed().as_secs_f64(), own_cpu(before)?);
    syncfs(&place.directory)?;
    let placed = Sample::rate(files, started.elapsed().as_secs_f64(), own_cpu(before)?);
    drop(place);
    std::fs::remove_dir_all(&dir)?;
    Ok((durable, placed))
}
