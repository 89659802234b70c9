//! Small writes, what is read again, files of some hundred KiB, and memory: with everything that
//! the client does by default, and with nothing of it.

use bytes::Bytes;
use tokio::runtime::Runtime;
use weft_client::{
    fs::{Client, OpenOptions},
    io::IoPolicy,
};

use super::setting::{DATA_SERVERS, measured, options};
use crate::{
    context::{Context, alternating},
    outcome::Outcome,
    process::Process,
    report::{MIB, Row, Sample},
    servers::Servers,
};

/// Bytes of a small write or read.
const SMALL: u64 = 4 << 10;
/// How many there are with the cache, and without.
const SMALL_COUNTS: [u64; 2] = [16_384, 2_048];
/// What the cache makes of them.
const GOAL_SMALL: f64 = 20.0;
/// Bytes of a file that is neither small nor large.
const MEDIUM: u64 = 256 << 10;
/// Bytes of one write to it, or read from it.
const PART: u64 = 64 << 10;
/// How many files of them.
const MEDIUM_FILES: u64 = 200;
/// Open files of which something is kept.
const OPEN_FILES: u64 = 10_000;
const QUICK_OPEN_FILES: u64 = 1_000;
/// What is written to each.
const OPEN_BYTES: u64 = 16 << 10;
/// Memory that the client may use for them.
const BUDGET_BYTES: u64 = 64 << 20;
/// What the client may take beside its budget.
const GOAL_MEMORY: f64 = 1.1;

/// Everything on, and everything off.
const POLICIES: [&str; 2] = ["by default", "direct"];

/// What is measured with either.
const WORKS: [(&str, f64); 4] = [
    ("4 KiB writes, and a commit", GOAL_SMALL),
    ("4 KiB, read again", GOAL_SMALL),
    ("256 KiB files, written", 1.0),
    ("256 KiB files, read", 1.0),
];

/// Measures all of it.
pub(super) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let runtime = Runtime::new()?;
    // First, while this process has no memory left over from anything else.
    let mut rows = memory(context, &runtime)?;
    let dir = context.memory.join("client");
    let mut samples: [[Vec<Sample>; WORKS.len()]; POLICIES.len()] = Default::default();
    for n in 0..context.repeats {
        for which in alternating(n, POLICIES.len()) {
            let servers = Servers::start(&context.weft, &dir, DATA_SERVERS)?;
            let policy = [IoPolicy::default(), IoPolicy::direct()][which];
            let here = Here { runtime: &runtime, servers: &servers, policy };
            let client = runtime.block_on(servers.client_with(options(here.policy)))?;
            let measured = here.all(&client, SMALL_COUNTS[which]);
            runtime.block_on(client.close());
            for (samples, sample) in samples[which].iter_mut().zip(measured?) {
                samples.push(sample);
            }
        }
    }
    for (n, (what, goal)) in WORKS.into_iter().enumerate() {
        let row = |which: usize| {
            let name = format!("{what}, {}", POLICIES[which]);
            Row::new(name, "1/s", &samples[which][n])
        };
        let direct = row(1);
        let by_default = row(0).against(&direct);
        let met = by_default.ratio() >= goal;
        rows.extend([direct, by_default.goal(format!("at least {goal:.0}"), met)]);
    }
    Ok(rows)
}

struct Here<'a> {
    runtime: &'a Runtime,
    servers: &'a Servers,
    policy: IoPolicy,
}

impl Here<'_> {
    fn all(&self, client: &Client, small: u64) -> Outcome<[Sample; WORKS.len()]> {
        let both = OpenOptions { read: true, ..OpenOptions::replace(0o644) };
        let block = Bytes::from(vec![7; SMALL as usize]);
        let file = self.runtime.block_on(client.open("/small", both))?;
        let written = self.rate(small, async {
            for n in 0..small {
                file.write_at(n * SMALL, block.clone()).await?;
            }
            Ok(file.commit().await?)
        })?;
        let read = self.rate(small, async {
            for n in 0..small {
                if file.read_at(n * SMALL, SMALL as usize).await? != block {
                    return Err("other bytes than were written".into());
                }
            }
            Ok(())
        })?;
        self.runtime.block_on(file.close())?;
        Ok([written, read, self.medium_written(client)?, self.medium_read(client)?])
    }

    fn medium_written(&self, client: &Client) -> Outcome<Sample> {
        let part = Bytes::from(vec![8; PART as usize]);
        self.rate(MEDIUM_FILES, async {
            for n in 0..MEDIUM_FILES {
                let file = client.open(name(n), OpenOptions::replace(0o644)).await?;
                for at in (0..MEDIUM).step_by(PART as usize) {
                    file.write_at(at, part.clone()).await?;
                }
                file.close().await?;
            }
            Ok(())
        })
    }

    /// By a client that has nothing of them.
    fn medium_read(&self, _: &Client) -> Outcome<Sample> {
        let client = self.runtime.block_on(self.servers.client_with(options(self.policy)))?;
        let sample = self.rate(MEDIUM_FILES, async {
            for n in 0..MEDIUM_FILES {
                let file = client.open(name(n), OpenOptions::read()).await?;
                for at in (0..MEDIUM).step_by(PART as usize) {
                    if file.read_at(at, PART as usize).await?.len() != PART as usize {
                        return Err("a short read".into());
                    }
                }
                file.close().await?;
            }
            Ok(())
        });
        self.runtime.block_on(client.close());
        sample
    }

    fn rate(&self, count: u64, work: impl Future<Output = Outcome>) -> Outcome<Sample> {
        measured((self.runtime, self.servers), count as f64, work)
    }
}

/// Name of one of the files.
fn name(n: u64) -> String {
    format!("/file-{n:05}")
}

/// Many open files, more of each than there is memory for all: what the client counts, and what
/// this process has more of.
fn memory(context: &Context, runtime: &Runtime) -> Outcome<Vec<Row>> {
    let count = if context.quick { QUICK_OPEN_FILES } else { OPEN_FILES };
    let servers = Servers::start(&context.weft, &context.memory.join("client"), DATA_SERVERS)?;
    let policy = IoPolicy { cache_bytes: BUDGET_BYTES, ..IoPolicy::default() };
    let (most, grown) = runtime.block_on(async {
        let client = servers.client_with(options(policy)).await?;
        Process::own().reset_peak()?;
        let before = Process::own().rss_bytes()?;
        let (mut files, mut most) = (Vec::new(), 0);
        for n in 0..count {
            let options = OpenOptions { read: true, ..OpenOptions::replace(0o644) };
            let file = client.open(name(n), options).await?;
            file.write_at(0, Bytes::from(vec![9; OPEN_BYTES as usize])).await?;
            most = most.max(client.cached_bytes());
            files.push(file);
        }
        let grown = Process::own().peak_rss_bytes()?.saturating_sub(before);
        for file in files {
            file.close().await?;
        }
        client.close().await;
        Outcome::Ok((most, grown))
    })?;
    let budget = BUDGET_BYTES as f64;
    let met = most as f64 <= budget * GOAL_MEMORY;
    let what = format!("{count} open files");
    let counted =
        Row::single(format!("{what}: cached at most, of a budget of 64"), "MiB", most as f64 / MIB);
    let resident =
        Row::single(format!("{what}: the process grew by at most"), "MiB", grown as f64 / MIB);
    Ok(vec![
        counted.goal_counted("at most 70.4", met),
        resident.goal_counted("at most 70.4", grown as f64 <= budget * GOAL_MEMORY),
    ])
}
