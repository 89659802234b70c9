//! `weft-bench`: what Weft costs, against what this very machine can do at the same moment.
//!
//! Every figure stands beside the thing to beat, measured in the same run; repeats alternate, the
//! median is reported with the range. Servers are a child process (`weft up`), as is the client
//! where its processor time counts. What the figures mean is in `docs/benchmarks.md`.

mod benches;
mod context;
mod disk;
mod figures;
mod outcome;
mod plot;
mod process;
mod report;
mod requests;
mod servers;
mod setup;
mod weft;
mod workers;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};

use benches::{
    atlas, client, create, fileop, listing, local, loopback, many, mdtest, medium, neighbour,
    postmark, python, receive, small, small_writes, stream, syncs, threshold,
};
use context::{Context, SmallArgs};
use figures::Figures;
use outcome::Outcome;
use report::{Report, Row};
use weft::Weft;

/// Measure this machine and Weft on it.
#[derive(Debug, Parser)]
#[command(name = "weft-bench", version, about, max_term_width = 100)]
struct Cli {
    /// Which benchmarks [default: all].
    #[arg(value_enum)]
    names: Vec<Bench>,
    /// Write the figures there too, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Scratch directory on a disk; what is made there is removed.
    #[arg(long, value_name = "DIR", default_value = ".weft-bench")]
    dir: PathBuf,
    /// Scratch directory in memory (tmpfs).
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory_dir: PathBuf,
    /// Less data: a minute instead of many, and more noise.
    #[arg(long)]
    quick: bool,
    /// Times everything is measured.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=99))]
    repeats: u32,
    #[command(flatten)]
    small: SmallArgs,
    /// Plot the figures of `small`, `mdtest`, `fileop` and `postmark` there, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The `weft` program to measure [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
    /// A Python that has the package `weft`, for `python`.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Be the other end of the loopback benchmark.
    #[arg(long, hide = true)]
    loopback_peer: bool,
    /// Be the sender of the benchmark of receivers.
    #[arg(long, hide = true)]
    receive_peer: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// Plain TCP over the loopback interface: the limit of everything that streams.
    Loopback,
    /// Payloads from a socket into files: read and written, spliced, and past the page cache.
    Receive,
    /// A large file in and out, over four data servers and over one.
    Stream,
    /// Files of data servers on the same host: by descriptor, over TCP, and a plain file.
    Local,
    /// What programs feel of our client: streams, the mount, the cache, and its memory.
    Client,
    /// A file read by Python and by the library; with --python.
    Python,
    /// Durable creates by one client and by 64, beside the engine and the disk alone.
    Create,
    /// Creates with 1, 4 and 16 data servers.
    CreateDs,
    /// A directory of a million entries.
    Listing,
    /// Ten million files in one volume (one million with `--quick`).
    ManyFiles,
    /// Small files, with every technique for them off, on, and alone.
    Small,
    /// Durable whole files about and above the stuffing limit, with 1 to 32 data servers.
    Medium,
    /// Ways to make many small files durable at the same time, on the disk alone.
    Syncs,
    /// The phases of mdtest: directories and files, made, looked at, read, removed.
    Mdtest,
    /// Creates and removes of one client over 1 to 32 data servers, by when objects are made.
    Fileop,
    /// Transactions on a pool of small files, as Postmark does them.
    Postmark,
    /// Small writes straight to the data servers, through the metadata server, and by a threshold.
    SmallWrites,
    /// From which size on the direct way is faster, by how busy the metadata server is.
    Threshold,
    /// What a client that does its worst costs another one that looks at a file.
    Neighbour,
    /// The output of ATLAS digitization with a write threshold and without.
    Atlas,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEFT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for people, not for files.
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmarks asked for.
///
/// # Errors
/// A benchmark that could not be carried out. A goal that was missed is not an error.
fn run(args: &Cli) -> Outcome {
    if args.loopback_peer {
        return loopback::peer();
    }
    if args.receive_peer {
        return receive::peer();
    }
    if cfg!(debug_assertions) {
        eprintln!("weft-bench: this is not a release build: the figures mean nothing");
    }
    let (disk, memory) = (Scratch::new(&args.dir)?, Scratch::new(&args.memory_dir)?);
    let context = Context {
        weft: Weft::find(args.weft.as_deref())?,
        python: args.python.clone(),
        disk: disk.0.clone(),
        memory: memory.0.clone(),
        quick: args.quick,
        repeats: args.repeats,
        small: args.small.clone(),
    };
    let mut report = Report::new(args.quick, args.repeats);
    let all = Bench::value_variants();
    for bench in if args.names.is_empty() { all } else { &args.names } {
        let name = bench.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let rows = match bench {
            Bench::Loopback => loopback::bench(&context)?,
            Bench::Receive => receive::bench(&context)?,
            Bench::Stream => stream::bench(&context)?,
            Bench::Local => local::bench(&context)?,
            Bench::Client => client::bench(&context)?,
            // What is not named is measured where it can be.
            Bench::Python if args.names.is_empty() && context.python.is_none() => continue,
            Bench::Python => python::bench(&context)?,
            Bench::Create => create::bench(&context)?,
            Bench::CreateDs => create::bench_data_servers(&context)?,
            Bench::Listing => listing::bench(&context)?,
            Bench::ManyFiles => many::bench(&context)?,
            Bench::Medium => medium::bench(&context)?,
            Bench::Syncs => syncs::bench(&context)?,
            Bench::SmallWrites => small_writes::bench(&context)?,
            Bench::Threshold => threshold::bench(&context)?,
            Bench::Neighbour => neighbour::bench(&context)?,
            Bench::Atlas => atlas::bench(&context)?,
            Bench::Small => with_points(small::bench(&context)?, &name, &mut report),
            Bench::Mdtest => with_points(mdtest::bench(&context)?, &name, &mut report),
            Bench::Fileop => with_points(fileop::bench(&context)?, &name, &mut report),
            Bench::Postmark => with_points(postmark::bench(&context)?, &name, &mut report),
        };
        report.add(&name, rows);
    }
    if let Some(file) = &args.json {
        report.write(file)?;
    }
    if let Some(file) = &args.svg {
        plot(&report, file)?;
    }
    Ok(())
}

/// The rows; the report keeps the figures behind them as well.
fn with_points(
    (rows, figures): (Vec<Row>, Vec<Figures>),
    bench: &str,
    report: &mut Report,
) -> Vec<Row> {
    figures.iter().for_each(|figures| report.add_points(figures.points(bench)));
    rows
}

/// Plots the figures of phases in configurations.
fn plot(report: &Report, file: &Path) -> Outcome {
    let svg = plot::svg(report.points());
    std::fs::write(file, svg).map_err(|e| format!("{}: {e}", file.display()).into())
}

/// A directory of our own below the one given, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Outcome<Scratch> {
        let mine = below.join(format!("weft-bench-{}", std::process::id()));
        std::fs::create_dir_all(&mine).map_err(|e| format!("{}: {e}", mine.display()))?;
        Ok(Scratch(std::fs::canonicalize(mine)?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        if let Some(below) = self.0.parent() {
            // Only if it is empty: it may have been there before us.
            let _ = std::fs::remove_dir(below);
        }
    }
}
