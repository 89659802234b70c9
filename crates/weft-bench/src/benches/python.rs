//! A file read into memory in parts that are under way at once: by the library, and by Python
//! through its package, each in a process that has kept nothing of it.

use std::{path::Path, process::Command, sync::Arc};

use serde::Deserialize;
use tokio::runtime::Runtime;
use weft_client::{
    fs::{ClientOptions, Reading},
    io::MemoryRegion,
};

use super::client::put;
use crate::{
    context::{Context, alternating},
    outcome::Outcome,
    report::{Cpu, MIB, Row, Sample},
    servers::{Meter, Servers},
};

/// What Python does.
const PROGRAM: &str = include_str!("bulk.py");
/// Share of the library's rate that Python is to reach.
const GOAL_OF_LIBRARY: f64 = 0.8;
/// Bytes of one call.
const TOGETHER: u64 = 64 << 20;
/// Bytes of one of its parts.
const PART: u64 = 4 << 20;
const DATA_SERVERS: u32 = 4;
const PATH: &str = "/bulk";

/// Measures a file of 1 GiB, a quarter of it with `--quick`, with servers in memory.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let Some(python) = &context.python else {
        return Err("python is measured with --python PROGRAM, one that has the package weft \
                    (`./dev bench python` has)"
            .into());
    };
    let bytes: u64 = if context.quick { 256 << 20 } else { 1 << 30 };
    let runtime = Runtime::new()?;
    let servers = Servers::start(&context.weft, &context.memory.join("python"), DATA_SERVERS)?;
    runtime.block_on(put(&servers, PATH, bytes))?;
    let mut samples: [Vec<Sample>; 2] = Default::default();
    for n in 0..context.repeats {
        for which in alternating(n, samples.len()) {
            samples[which].push(match which {
                0 => library(&runtime, &servers, bytes)?,
                _ => program(python, &servers, bytes)?,
            });
        }
    }
    let [library, python] = samples;
    let library = Row::new("library, sixteen parts at once", "MiB/s", &library);
    let python = Row::new("Python, the same", "MiB/s", &python).against(&library);
    let met = python.ratio() >= GOAL_OF_LIBRARY;
    let python = python.goal(format!("at least {GOAL_OF_LIBRARY:.2}"), met);
    Ok(vec![library, python])
}

fn library(runtime: &Runtime, servers: &Servers, bytes: u64) -> Outcome<Sample> {
    let client = runtime.block_on(servers.client_with(ClientOptions::default()))?;
    let parts: Vec<_> = (0..TOGETHER / PART).map(|_| region()).collect();
    let meter = Meter::start(servers)?;
    let started = std::time::Instant::now();
    for start in (0..bytes).step_by(TOGETHER as usize) {
        let reading = |(n, memory): (usize, &Arc<MemoryRegion>)| Reading {
            path: PATH.into(),
            offset: start + n as u64 * PART,
            memory: memory.clone(),
        };
        let readings = parts.iter().enumerate().map(reading).collect();
        for read in runtime.block_on(client.read_many(readings)) {
            if read? as u64 != PART {
                return Err("a short read".into());
            }
        }
    }
    let sample = meter.rate(bytes as f64 / MIB, started.elapsed().as_secs_f64())?;
    runtime.block_on(client.close());
    Ok(sample)
}

/// Memory of one part, in use already.
fn region() -> Arc<MemoryRegion> {
    MemoryRegion::owned(vec![1; PART as usize].into())
}

/// What the program says that it took.
#[derive(Debug, Deserialize)]
struct Took {
    wall_s: f64,
    cpu_s: f64,
}

fn program(python: &Path, servers: &Servers, bytes: u64) -> Outcome<Sample> {
    let server = servers.process();
    let before_s = server.cpu_s()?;
    let url = format!("weft://{}/?local=off", servers.mds());
    let numbers = [bytes, TOGETHER, PART].map(|n| n.to_string());
    let output = Command::new(python).args(["-c", PROGRAM, &url, PATH]).args(numbers).output()?;
    if !output.status.success() {
        return Err(format!("Python: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let took: Took = serde_json::from_slice(&output.stdout)?;
    let cpu = Cpu { server_s: server.cpu_s()? - before_s, client_s: took.cpu_s };
    Ok(Sample::rate(bytes as f64 / MIB, took.wall_s, cpu).with_rss(server.peak_rss_bytes()?))
}
