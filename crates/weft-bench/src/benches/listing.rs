//! A directory of a million entries: listed whole, with attributes, in bounded memory.

use std::time::Instant;

use super::create::{CLIENTS, Creators, DIRECTORY, GOAL_RSS_MIB};
use crate::{
    context::Context,
    outcome::Outcome,
    report::{MIB, Row, Sample},
    servers::{Meter, Servers},
    workers,
};

/// Memory that listing may cost the server, MiB.
const GOAL_GROWTH_MIB: f64 = 32.0;

/// Makes the directory and lists it.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let entries: u64 = if context.quick { 100_000 } else { 1_000_000 };
    let servers = Servers::start(&context.weft, &context.disk.join("cluster"), 4)?;
    let runtime = workers::runtime()?;
    let made = runtime.block_on(make(&servers, entries))?;
    let made = Row::new("making it, 64 clients", "creates/s", &[made]);
    let before = servers.process().rss_bytes()?;
    servers.process().reset_peak()?;
    let mut listed = Vec::new();
    for _ in 0..context.repeats {
        listed.push(runtime.block_on(list(&servers, entries))?);
    }
    let growth = servers.process().peak_rss_bytes()?.saturating_sub(before) as f64 / MIB;
    let listed = Row::new("listing, with attributes", "entries/s", &listed);
    let most = made.server_rss_mib.max(listed.server_rss_mib);
    let growth = Row::single("server memory grows by", "MiB", growth)
        .goal_counted("less than 32 MiB", growth < GOAL_GROWTH_MIB);
    let memory = Row::single("server memory at most", "MiB", most)
        .goal_counted("below 256 MiB", most < GOAL_RSS_MIB);
    Ok(vec![Row::single("entries", "", entries as f64), made, listed, growth, memory])
}

async fn make(servers: &Servers, entries: u64) -> Outcome<Sample> {
    let creators = Creators::new(servers, CLIENTS).await?;
    let meter = Meter::start(servers)?;
    let started = Instant::now();
    let made = creators.create(CLIENTS, move |number| number < entries).await?;
    meter.rate(made as f64, started.elapsed().as_secs_f64())
}

/// Lists it as a client that has just come, and counts.
async fn list(servers: &Servers, entries: u64) -> Outcome<Sample> {
    let client = servers.client().await?;
    let meter = Meter::start(servers)?;
    let started = Instant::now();
    let mut dir = client.read_dir(DIRECTORY).await?;
    let mut seen = 0;
    while let Some(entry) = dir.next().await? {
        if entry.attrs.size.is_none() {
            return Err("an entry without its size".into());
        }
        seen += 1;
    }
    let wall_s = started.elapsed().as_secs_f64();
    if seen != entries {
        return Err(format!("{seen} of {entries} entries listed").into());
    }
    let sample = meter.rate(entries as f64, wall_s)?;
    client.close().await;
    Ok(sample)
}
