//! Durable whole files about and above the stuffing limit: what one byte more costs, and whether
//! more data servers make a file dearer that lies on one of them.

use std::fmt;

use weft_client::fs::{Client, FsError};

use crate::{
    context::{Context, alternating},
    disk,
    outcome::Outcome,
    report::{Row, Sample},
    servers::Servers,
    setup::ALL_ON,
    workers,
};

/// Clients at once, as many as programs on the disk alone.
const CLIENTS: usize = 16;
/// Files of all of them together.
const FILES: usize = 3200;
const QUICK_FILES: usize = 320;
const KIB: usize = 1 << 10;
/// The largest file that is kept in the volume by default.
const STUFFED: usize = 64 * KIB;
/// A file that has one object.
const MEDIUM: usize = 128 * KIB;
/// What a byte more may cost.
const GOAL_CLIFF: f64 = 0.5;
/// Of the disk's own rate.
const GOAL_OF_DISK: f64 = 0.33;
/// Of what it is with one data server: the rate, and the processor time of a file.
const FLAT: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// Where the files are made.
const DIRECTORY: &str = "/medium";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    bytes: usize,
    data_servers: u32,
}

const CASES: [Case; 6] = [
    Case { bytes: STUFFED, data_servers: 1 },
    Case { bytes: STUFFED + 1, data_servers: 1 },
    Case { bytes: MEDIUM, data_servers: 1 },
    Case { bytes: MEDIUM, data_servers: 4 },
    Case { bytes: MEDIUM, data_servers: 8 },
    Case { bytes: MEDIUM, data_servers: 32 },
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kib, rest) = (self.bytes / KIB, self.bytes % KIB);
        let more = if rest > 0 { format!(" + {rest} B") } else { String::new() };
        let n = self.data_servers;
        write!(f, "{kib} KiB{more}, {n} server{}", if n == 1 { "" } else { "s" })
    }
}

/// What becomes of the files of a case.
#[derive(Debug, Default)]
struct Samples {
    made: Vec<Sample>,
    read: Vec<Sample>,
    removed: Vec<Sample>,
}

/// Measures all cases, and the disk alone.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let each = (if context.quick { QUICK_FILES } else { FILES }) / CLIENTS;
    let runtime = workers::runtime()?;
    let mut samples: [Samples; CASES.len()] = Default::default();
    let mut alone = Vec::new();
    for repeat in 0..context.repeats {
        for i in alternating(repeat, CASES.len()) {
            runtime.block_on(measure(context, CASES[i], each, &mut samples[i]))?;
        }
        alone.push(disk::durable_files(&context.disk, CLIENTS, each, MEDIUM)?);
    }
    Ok(rows(&samples, &alone))
}

async fn measure(context: &Context, case: Case, each: usize, into: &mut Samples) -> Outcome {
    let Case { bytes, data_servers } = case;
    let settings = ALL_ON.settings(data_servers);
    let dir = context.disk.join("cluster");
    let servers = Servers::start_with(&context.weft, &dir, data_servers, &settings)?;
    let clients = workers::clients(&servers, ALL_ON, data_servers, CLIENTS).await?;
    clients.first().ok_or("no clients")?.mkdir(DIRECTORY, 0o755).await?;
    let (data, files) = (workers::content(bytes), each * CLIENTS);
    let members: Vec<_> = clients.into_iter().enumerate().collect();
    let made = workers::phase(&servers, members, files, |(number, client)| {
        let data = data.clone();
        of_each(number, each, client, async move |client: &Client, path: String| {
            client.write_file(&path, 0o644, data.clone()).await
        })
    });
    let (members, sample) = made.await?;
    into.made.push(sample);
    let read = workers::phase(&servers, members, files, |(number, client)| {
        let data = data.clone();
        of_each(number, each, client, async move |client: &Client, path: String| {
            match client.read_file(&path, data.len()).await? == data {
                true => Ok(()),
                false => Err(workers::wrong(path, "it does not hold what was written")),
            }
        })
    });
    let (members, sample) = read.await?;
    into.read.push(sample);
    let removed = workers::phase(&servers, members, files, |(number, client)| {
        of_each(number, each, client, async |client: &Client, path: String| {
            client.remove(&path).await
        })
    });
    into.removed.push(removed.await?.1);
    Ok(())
}

/// Does something with each of a client's files, one after another.
async fn of_each(
    number: usize,
    count: usize,
    client: Client,
    act: impl AsyncFn(&Client, String) -> Result<(), FsError>,
) -> Result<(usize, Client), FsError> {
    for index in 0..count {
        act(&client, format!("{DIRECTORY}/{number:03}-{index:06}")).await?;
    }
    Ok((number, client))
}

fn rows(samples: &[Samples; CASES.len()], alone: &[Sample]) -> Vec<Row> {
    let disk = Row::new("128 KiB, disk alone", "files/s", alone);
    let made = |i: usize| Row::new(format!("made: {}", CASES[i]), "files/s", &samples[i].made);
    let (stuffed, one) = (made(0), made(2));
    let cliff = made(1).against(&stuffed);
    let cliff_met = cliff.ratio() >= GOAL_CLIFF;
    let of_disk = one.clone().named("128 KiB, 1 server, of the disk's").against(&disk);
    let of_disk_met = of_disk.ratio() >= GOAL_OF_DISK;
    let mut rows = vec![
        disk,
        stuffed,
        cliff.goal("at least 0.5", cliff_met),
        of_disk.goal("at least 0.33", of_disk_met),
    ];
    let cost = |row: &Row| row.cpu.server_s / (row.median * row.wall_s) * 1e3;
    let cost_of_one = Row::single("with one", "ms", cost(&one));
    for (case, samples) in CASES.iter().zip(samples).skip(3) {
        let wide = Row::new(format!("made: {case}"), "files/s", &samples.made).against(&one);
        let costs = Row::single(format!("time a file, {case}"), "ms", cost(&wide));
        let costs = costs.against(&cost_of_one);
        let (flat, as_cheap) = (FLAT.contains(&wide.ratio()), FLAT.contains(&costs.ratio()));
        rows.push(wide.goal("0.9 to 1.1", flat));
        rows.push(costs.goal_counted("0.9 to 1.1", as_cheap));
    }
    for (case, samples) in CASES.iter().zip(samples) {
        rows.push(Row::new(format!("read: {case}"), "files/s", &samples.read));
        rows.push(Row::new(format!("removed: {case}"), "files/s", &samples.removed));
    }
    rows
}
