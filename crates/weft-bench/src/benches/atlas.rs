//! The output of ATLAS digitization, replayed with a write threshold and without: figure 10 of P0.

use tokio::runtime::Runtime;
use weft_dev::SeededRng;

use crate::{
    context::{Context, alternating},
    outcome::Outcome,
    report::{MIB, Row, Sample},
    requests::{DATA_SERVERS, Request, SETTINGS, Way, Writer},
    servers::Servers,
    workers,
};

/// Bytes of one event: 500 of them make about 650 MB (P0 §6.3.1).
const EVENT_BYTES: u64 = 1_300_000;
/// The smaller ones of the large requests.
const LARGE_BYTES: u32 = 275 << 10;
/// The larger ones.
const LARGEST_BYTES: u32 = 1 << 20;
/// Share of the larger kind among the large requests, such that the large ones carry 95 % of the
/// bytes.
const LARGEST_SHARE: f64 = 0.44;
/// Of a hundred requests, how many are from how many bytes to below how many (P0 §5.4, §6.3).
const SMALL: [(usize, u32, u32); 3] =
    [(49, 16, 1 << 10), (38, 1 << 10, 4 << 10), (9, 4 << 10, 32 << 10)];
/// How many are large.
const LARGE: usize = 4;
/// Seed of the requests.
const SEED: u64 = 2006;

const WAYS: [Way; 3] = [Way::Direct, Way::Indirect, Way::Threshold(32 << 10)];
/// What the paper reached with 500 events.
const GOAL: f64 = 2.0;

/// Measures each way.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let runtime = workers::runtime()?;
    let requests = requests(if context.quick { 50 } else { 500 }, SEED);
    let servers =
        Servers::start_with(&context.weft, &context.disk.join("cluster"), DATA_SERVERS, SETTINGS)?;
    let mut samples = vec![Vec::new(); WAYS.len()];
    for repeat in 0..context.repeats {
        for way in alternating(repeat, WAYS.len()) {
            samples[way].push(measure(&runtime, &servers, WAYS[way], requests.clone())?);
        }
    }
    let row = |(way, samples): (&Way, &Vec<Sample>)| Row::new(way.name(), "MiB/s", samples);
    let mut rows: Vec<Row> = WAYS.iter().zip(&samples).map(row).collect();
    if let [direct, indirect, threshold] = rows.as_mut_slice() {
        *indirect = indirect.clone().against(direct);
        let against = threshold.clone().against(direct);
        let met = against.ratio() >= GOAL;
        *threshold = against.goal(format!("at least {GOAL}"), met);
    }
    rows.insert(0, Row::single("requests", "", requests.len() as f64));
    Ok(rows)
}

fn measure(
    runtime: &Runtime,
    servers: &Servers,
    way: Way,
    requests: Vec<Request>,
) -> Outcome<Sample> {
    runtime.block_on(async {
        let path = "/digits";
        let bytes: u64 = requests.iter().map(|r| u64::from(r.bytes)).sum();
        let writer = vec![Writer::new(servers, way, path, requests).await?];
        let bytes = usize::try_from(bytes)?;
        let (writers, sample) = workers::phase(servers, writer, bytes, Writer::run).await?;
        for writer in writers {
            writer.finish().await?.remove(path).await?;
        }
        Ok(Sample { value: sample.value / MIB, ..sample })
    })
}

/// The requests of a number of events: they cover one file, each byte once, in any order.
fn requests(events: u64, seed: u64) -> Vec<Request> {
    let mut numbers = SeededRng::new(seed);
    let (mut sizes, mut bytes) = (Vec::new(), 0);
    while bytes < events * EVENT_BYTES {
        let mut hundred = hundred(&mut numbers);
        numbers.shuffle(&mut hundred);
        bytes += hundred.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
        sizes.append(&mut hundred);
    }
    let mut end = 0;
    let place = |bytes: u32| {
        let offset = end;
        end += u64::from(bytes);
        Request { offset, bytes }
    };
    let mut requests: Vec<Request> = sizes.into_iter().map(place).collect();
    numbers.shuffle(&mut requests);
    requests
}

/// Sizes of a hundred requests.
fn hundred(numbers: &mut SeededRng) -> Vec<u32> {
    let mut sizes = Vec::new();
    for (count, from, below) in SMALL {
        sizes.extend((0..count).map(|_| between(numbers, from, below)));
    }
    let large = |n: f64| if n < LARGEST_SHARE { LARGEST_BYTES } else { LARGE_BYTES };
    sizes.extend((0..LARGE).map(|_| large(numbers.fraction())));
    sizes
}

/// A size from one to below another, the more likely the smaller it is: the density falls with the
/// third power.
fn between(numbers: &mut SeededRng, from: u32, below: u32) -> u32 {
    let (low, high) = (f64::from(from), f64::from(below));
    let rest = 1.0 - numbers.fraction() * (1.0 - (low / high).powi(2));
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two numbers of 32 bits"
    )]
    let size = (low / rest.sqrt()) as u32;
    size.clamp(from, below - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the paper says of the trace holds of ours, for both numbers of events.
    #[test]
    fn it_is_the_published_distribution() {
        for (events, mb) in [(50, 65), (500, 650)] {
            let requests = requests(events, SEED);
            let count = |is: fn(u32) -> bool| {
                let found = requests.iter().filter(|r| is(r.bytes)).count();
                found * 100 / requests.len()
            };
            let bytes = |is: fn(u32) -> bool| -> u64 {
                requests.iter().filter(|r| is(r.bytes)).map(|r| u64::from(r.bytes)).sum()
            };
            let all = bytes(|_| true);
            assert!((mb..=mb + 5).contains(&(all / 1_000_000)), "{all} bytes");
            let counts = [count(|b| b < 1 << 10), count(|b| b < 4 << 10), count(|b| b < 32 << 10)];
            assert_eq!(counts, [49, 87, 96]);
            assert_eq!(count(|b| b >= LARGE_BYTES), 4);
            let share = bytes(|b| b >= LARGE_BYTES) as f64 / all as f64;
            assert!((0.94..0.96).contains(&share), "{share}");
        }
    }

    /// The requests cover the file, each byte once, and not in order.
    #[test]
    fn they_cover_the_file_at_random() {
        let mut requests = requests(50, SEED);
        let forward = requests.windows(2).filter(|w| w[0].offset < w[1].offset).count();
        assert!((requests.len() / 3..requests.len() * 2 / 3).contains(&forward));
        requests.sort_unstable_by_key(|r| r.offset);
        let mut end = 0;
        for request in requests {
            assert_eq!(request.offset, end);
            end += u64::from(request.bytes);
        }
    }

    /// The trace is the same on every machine.
    #[test]
    fn the_seed_gives_the_trace() {
        assert_eq!(requests(50, 1), requests(50, 1));
        assert_ne!(requests(50, 1), requests(50, 2));
    }
}
