//! One large file in and out, over four data servers and over one, in memory and on a disk.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use super::loopback::{Direction, Peer};
use crate::{
    context::Context,
    disk::{self, BLOCK_BYTES},
    outcome::Outcome,
    process::Process,
    report::{Cpu, MIB, Row, Sample},
    servers::Servers,
    weft::Weft,
};

/// Share of the loopback limit that a stream is to reach when all data is in memory.
const GOAL_OF_LOOPBACK: f64 = 0.5;
/// Name of the file in the cluster.
const REMOTE: &str = "/stream";

/// Measures in memory and on the disk.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes: u64 = if context.quick { 512 << 20 } else { 2 << 30 };
    let mut rows = in_memory(context, bytes)?;
    rows.extend(on_disk(context, bytes)?);
    Ok(rows)
}

/// Samples of one cluster.
#[derive(Default)]
struct Streams {
    put: Vec<Sample>,
    get: Vec<Sample>,
}

fn in_memory(context: &Context, bytes: u64) -> Outcome<Vec<Row>> {
    let peer = Peer::start()?;
    let here = Medium { in_memory: true, ..Medium::new(&context.weft, &context.memory, bytes)? };
    let mut plain: [Vec<Sample>; 4] = Default::default();
    let mut streams = [Streams::default(), Streams::default()];
    for n in 0..context.repeats {
        plain[0].push(peer.measure(Direction::Out, bytes, None)?);
        plain[1].push(peer.measure(Direction::In, bytes, None)?);
        here.warm()?;
        plain[2].push(peer.measure(Direction::Out, bytes, Some(here.dir))?);
        here.warm()?;
        plain[3].push(peer.measure(Direction::In, bytes, Some(here.dir))?);
        here.both(n, &mut streams)?;
    }
    let names = [
        "loopback, sending",
        "loopback, receiving",
        "loopback to files, sending",
        "loopback to files, receiving",
    ];
    let mut rows: Vec<Row> =
        names.iter().zip(&plain).map(|(name, s)| Row::new(*name, "MiB/s", s)).collect();
    let [four, one] = &streams;
    for (servers, streams) in [(4, four), (1, one)] {
        for (i, (what, samples)) in
            [("put", &streams.put), ("get", &streams.get)].iter().enumerate()
        {
            let name = format!("{what}, memory, {servers} data servers");
            let row = Row::new(name, "MiB/s", samples).against(&rows[i]);
            let met = row.ratio() >= GOAL_OF_LOOPBACK;
            rows.push(if servers == 4 { row.goal("at least 0.50", met) } else { row });
            if servers == 4 {
                let again = Row::new(format!("the same {what}"), "MiB/s", samples);
                rows.push(again.against(&rows[i + 2]));
            }
        }
    }
    Ok(rows)
}

fn on_disk(context: &Context, bytes: u64) -> Outcome<Vec<Row>> {
    let here = Medium::new(&context.weft, &context.disk, bytes)?;
    let mut plain = Vec::new();
    let mut streams = [Streams::default(), Streams::default()];
    for n in 0..context.repeats {
        plain.push(disk::write_and_sync(&context.disk, bytes)?);
        here.both(n, &mut streams)?;
    }
    let plain = Row::new("plain write and fdatasync, disk", "MiB/s", &plain);
    let mut rows = Vec::new();
    let [four, one] = streams;
    for (servers, streams) in [(4, four), (1, one)] {
        let name = |what| format!("{what}, disk, {servers} data servers");
        rows.push(Row::new(name("put"), "MiB/s", &streams.put).against(&plain));
        // The local copy is not synced, so there is nothing to hold it against.
        rows.push(Row::new(name("get"), "MiB/s", &streams.get));
    }
    rows.insert(0, plain);
    Ok(rows)
}

/// Memory or a disk, where source and copy are beside the servers' data.
struct Medium<'a> {
    weft: &'a Weft,
    dir: &'a Path,
    source: PathBuf,
    bytes: u64,
    in_memory: bool,
}

impl<'a> Medium<'a> {
    fn new(weft: &'a Weft, dir: &'a Path, bytes: u64) -> Outcome<Medium<'a>> {
        let source = dir.join("source");
        let mut file = File::create(&source).map_err(|e| format!("{}: {e}", source.display()))?;
        let block = disk::block();
        for n in 0..bytes / BLOCK_BYTES as u64 {
            file.write_all(&n.to_be_bytes())?;
            file.write_all(&block[8..])?;
        }
        file.sync_all()?;
        Ok(Medium { weft, dir, source, bytes, in_memory: false })
    }

    /// Once with four data servers and once with one, the order alternating.
    fn both(&self, repeat: u32, [four, one]: &mut [Streams; 2]) -> Outcome {
        match repeat % 2 {
            0 => self.measure(4, four).and_then(|()| self.measure(1, one)),
            _ => self.measure(1, one).and_then(|()| self.measure(4, four)),
        }
    }

    fn measure(&self, data_servers: u32, streams: &mut Streams) -> Outcome {
        let servers = Servers::start(self.weft, &self.dir.join("cluster"), data_servers)?;
        let (copy, mds) = (self.dir.join("copy"), servers.mds().to_string());
        let run = |args: [&OsStr; 3]| self.client(&servers, &mds, args);
        self.warm()?;
        streams.put.push(run(["put".as_ref(), self.source.as_ref(), REMOTE.as_ref()])?);
        self.warm()?;
        streams.get.push(run(["get".as_ref(), REMOTE.as_ref(), copy.as_ref()])?);
        if !same(&self.source, &copy)? {
            return Err("what came back is not what went in".into());
        }
        std::fs::remove_file(&copy)?;
        Ok(())
    }

    /// Takes and gives back as much memory as the next transfer needs.
    fn warm(&self) -> Outcome {
        if self.in_memory { disk::warm(self.dir, self.bytes) } else { Ok(()) }
    }

    /// Runs a client command in a process of its own.
    fn client(&self, servers: &Servers, mds: &str, args: [&OsStr; 3]) -> Outcome<Sample> {
        let (own, server) = (Process::own(), servers.process());
        let (own_before, server_before) = (own.children_cpu_s()?, server.cpu_s()?);
        let started = Instant::now();
        let status = self.weft.command().args(args).args(["--server", mds]).status()?;
        let wall_s = started.elapsed().as_secs_f64();
        if !status.success() {
            return Err(format!("{args:?} failed").into());
        }
        let client_s = own.children_cpu_s()? - own_before;
        let cpu = Cpu { server_s: server.cpu_s()? - server_before, client_s };
        let rss = server.peak_rss_bytes()?;
        Ok(Sample::rate(self.bytes as f64 / MIB, wall_s, cpu).with_rss(rss))
    }
}

fn same(a: &Path, b: &Path) -> Outcome<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut x, mut y) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    loop {
        let got = a.read(&mut x)?;
        if got == 0 {
            return Ok(true);
        }
        b.read_exact(&mut y[..got])?;
        if x[..got] != y[..got] {
            return Ok(false);
        }
    }
}
