//! Small writes straight to the data servers, through the metadata server, and by a threshold:
//! figures 6 to 8 of P0.

use tokio::runtime::Runtime;
use weft_dev::SeededRng;

use crate::{
    context::{Context, alternating},
    outcome::Outcome,
    report::{Row, Sample},
    requests::{DATA_SERVERS, Request, SETTINGS, Way, Writer},
    servers::Servers,
    workers,
};

/// Sizes of the requests.
const SIZES: [u32; 6] = [16, 256, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
/// Requests of a client, unless their bytes are too many (P0 §6.2.1).
const REQUESTS: u64 = 1000;
/// The same once more of the smallest ones: enough that the one commit at the end does not count.
/// The paper had no such many, so there is no goal for them.
const MANY_REQUESTS: u64 = 20_000;
/// The file that is written at random (P0 §6.2.1).
const RANDOM_FILE_BYTES: u64 = 32 << 20;

/// What is compared: a way for the writes, and whether the file may stay with the metadata server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    way: Way,
    /// The metadata server keeps the file while it is small (P3.2), as it does by
    /// default.
    kept: bool,
}

/// All variants, with the threshold of the paper for one client.
const VARIANTS: [Variant; 4] = [
    Variant { way: Way::Direct, kept: false },
    Variant { way: Way::Indirect, kept: false },
    Variant { way: Way::Threshold(32 << 10), kept: false },
    Variant { way: Way::Indirect, kept: true },
];

impl Variant {
    fn name(self) -> String {
        let kept = if self.kept { ", kept while small" } else { "" };
        format!("{}{kept}", self.way.name())
    }

    /// Whether the paper has a goal for it.
    fn has_goal(self) -> bool {
        self.way == Way::Indirect
    }
}

/// In which order a client writes its part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Sequential,
    Random,
}

/// One point of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    order: Order,
    clients: u64,
    bytes: u32,
    requests_max: u64,
}

impl Case {
    /// All points, figure by figure.
    fn all() -> Vec<Case> {
        let figures = [Order::Sequential, Order::Random].into_iter();
        let figures = figures.flat_map(|order| [(order, 1), (order, 10)]);
        let case = |(order, clients), bytes| Case { order, clients, bytes, requests_max: REQUESTS };
        let many = Case { requests_max: MANY_REQUESTS, ..case((Order::Sequential, 1), SIZES[0]) };
        let cases = figures.flat_map(|figure| SIZES.map(|bytes| case(figure, bytes)));
        std::iter::once(many).chain(cases).collect()
    }

    fn name(self) -> String {
        let order = match self.order {
            Order::Sequential => "sequential",
            Order::Random => "random",
        };
        let size = match self.bytes {
            small if small < 1 << 10 => format!("{small} B"),
            large => format!("{} KiB", large >> 10),
        };
        let many = if self.requests_max == REQUESTS { "" } else { ", many" };
        format!("{order} {size} x{}{many}", self.clients)
    }

    /// What the paper reached with 16 bytes in sequence through the server against direct, with
    /// as many requests as it had.
    fn goal(self) -> Option<f64> {
        match (self.order, self.bytes, self.clients) {
            _ if self.requests_max != REQUESTS => None,
            (Order::Sequential, 16, 1) => Some(67.0),
            (Order::Sequential, 16, _) => Some(20.0),
            _ => None,
        }
    }

    /// Requests of each client, such that those of all have at most `bytes_max` bytes.
    fn requests_each(self, bytes_max: u64) -> u64 {
        (bytes_max / self.clients / u64::from(self.bytes)).clamp(1, self.requests_max)
    }

    /// The requests of one client: its part of the file is its own.
    fn requests(self, client: u64, bytes_max: u64) -> Vec<Request> {
        let (count, size) = (self.requests_each(bytes_max), u64::from(self.bytes));
        let mut numbers = SeededRng::new(client);
        let places = match self.order {
            Order::Sequential => count,
            Order::Random => (RANDOM_FILE_BYTES / self.clients / size).max(1),
        };
        let place = |n| match self.order {
            Order::Sequential => n,
            Order::Random => numbers.below(places),
        };
        let offset = |place| (client * places + place) * size;
        (0..count).map(place).map(|p| Request { offset: offset(p), bytes: self.bytes }).collect()
    }
}

/// Measures every point, each way.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let runtime = workers::runtime()?;
    let bytes_max = if context.quick { 16 << 20 } else { 64 << 20 };
    let start = |dir, settings| {
        Servers::start_with(&context.weft, &context.disk.join(dir), DATA_SERVERS, settings)
    };
    let (striping, keeping) = (start("striping", SETTINGS)?, start("keeping", "")?);
    let cases = Case::all();
    let mut samples = vec![vec![Vec::new(); VARIANTS.len()]; cases.len()];
    for repeat in 0..context.repeats {
        for (case, samples) in cases.iter().zip(&mut samples) {
            for way in alternating(repeat, VARIANTS.len()) {
                let variant = VARIANTS[way];
                let servers = if variant.kept { &keeping } else { &striping };
                samples[way].push(measure(&runtime, servers, (*case, variant.way), bytes_max)?);
            }
        }
    }
    Ok(cases.iter().zip(&samples).flat_map(|(case, samples)| rows(*case, samples)).collect())
}

fn measure(
    runtime: &Runtime,
    servers: &Servers,
    (case, way): (Case, Way),
    bytes_max: u64,
) -> Outcome<Sample> {
    runtime.block_on(async {
        let path = "/small-writes";
        let mut writers = Vec::new();
        for client in 0..case.clients {
            let requests = case.requests(client, bytes_max);
            writers.push(Writer::new(servers, way, path, requests).await?);
        }
        let requests = case.clients * case.requests_each(bytes_max);
        let requests = usize::try_from(requests)?;
        let (writers, sample) = workers::phase(servers, writers, requests, Writer::run).await?;
        let mut last = None;
        for writer in writers {
            last = Some(writer.finish().await?);
        }
        if let Some(client) = last {
            client.remove(path).await?;
        }
        Ok(sample)
    })
}

/// The variants beside each other.
fn rows(case: Case, samples: &[Vec<Sample>]) -> Vec<Row> {
    let row = |(variant, samples): (&Variant, &Vec<Sample>)| {
        Row::new(format!("{}, {}", case.name(), variant.name()), "writes/s", samples)
    };
    let mut rows: Vec<Row> = VARIANTS.iter().zip(samples).map(row).collect();
    if let [direct, others @ ..] = rows.as_mut_slice() {
        for (variant, other) in VARIANTS.iter().skip(1).zip(others) {
            *other = other.clone().against(direct);
            if let Some(goal) = case.goal().filter(|_| variant.has_goal()) {
                let met = other.ratio() >= goal;
                *other = other.clone().goal(format!("at least {goal}"), met);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every point is there once, with a name of its own.
    #[test]
    fn all_points() {
        let names: HashSet<String> = Case::all().into_iter().map(Case::name).collect();
        assert_eq!(names.len(), 2 * 2 * SIZES.len() + 1);
        assert_eq!(Case::all().into_iter().filter(|c| c.goal().is_some()).count(), 2);
    }

    /// Sequential requests of all clients cover the file without gap or overlap, random ones stay
    /// in the client's part of the file; neither is more than was allowed.
    #[test]
    fn parts_are_disjoint() {
        for case in Case::all() {
            let bytes_max = 16 << 20;
            let mut taken = Vec::new();
            for client in 0..case.clients {
                let requests = case.requests(client, bytes_max);
                assert_eq!(requests.len() as u64, case.requests_each(bytes_max));
                let from = requests.iter().map(|r| r.offset).min().unwrap();
                let end = requests.iter().map(|r| r.offset + u64::from(r.bytes)).max().unwrap();
                assert!(taken.last().is_none_or(|(_, before)| *before <= from), "{}", case.name());
                taken.push((from, end));
            }
            let end = taken.last().unwrap().1;
            match case.order {
                Order::Sequential => {
                    let all = case.clients * case.requests_each(bytes_max) * u64::from(case.bytes);
                    assert_eq!((taken[0].0, end), (0, all));
                    assert!(taken.windows(2).all(|w| w[0].1 == w[1].0) && all <= bytes_max);
                }
                Order::Random => assert!(end <= RANDOM_FILE_BYTES),
            }
        }
    }
}
