//! What becomes of one range by every event, as a table.

use bytes::Bytes;
use weft_dev::{Machine, Outcome, assert_snapshot};

use crate::cache::*;

const LEN: u64 = 4;

/// One range of a file, one sending at a time that is answered, and one fetch.
struct Range {
    cache: FileCache<u8, u8>,
    sending: Option<SendingNo>,
    fetch: Option<Fetch>,
}

fn start() -> Range {
    Range { cache: FileCache::new(LEN), sending: None, fetch: None }
}

fn describe(range: &Range) -> String {
    let usage = range.cache.usage();
    let kinds = [
        (usage.once.ranges + usage.again.ranges, "clean"),
        (usage.dirty.ranges, "dirty"),
        (usage.sending.ranges, "sending"),
        (usage.sent.ranges, "sent"),
    ];
    let mut words: Vec<&str> = kinds.iter().filter(|(n, _)| *n > 0).map(|(_, w)| *w).collect();
    if words.is_empty() {
        words.push("missing");
    }
    if range.cache.extents.overlapping(span::Span::ALL).any(|(_, e)| e.state.is_in_doubt()) {
        words.push("in doubt");
    }
    if usage.sending.ranges == 0 && range.cache.is_on_its_way(0, LEN) {
        words.push("older bytes on their way");
    }
    if let Some(fetch) = range.fetch {
        let fresh = !range.cache.fetches.unspoiled(fetch, span::Span::ALL).is_empty();
        words.push(if fresh { "a fetch" } else { "a fetch that is overtaken" });
    }
    words.join(", ")
}

fn round(range: &mut Range, confirms: bool) -> Outcome {
    if range.cache.sent().next().is_none() {
        return Outcome::Never;
    }
    let round = range.cache.begin_round();
    range.cache.settle(round, |_| confirms);
    match range.cache.lost_again(round) {
        true => Outcome::said("lost"),
        false => Outcome::OK,
    }
}

fn arrive(range: &mut Range, how: &Arrived<u8>) -> Outcome {
    let Some(no) = range.sending.take() else { return Outcome::Never };
    range.cache.arrived(no, 0, LEN, how);
    Outcome::OK
}

/// The table of the module's documentation, made from the code.
#[test]
fn snapshot() {
    let about = "A range in the client's cache: weft-client, cache. RFC 8881 §10.3, §18.3.";
    let machine = Machine::new(about, start, describe)
        .on("write", |r: &mut Range| {
            r.cache.write(&1, 0, &[1; LEN as usize]).expect("it is in range");
            Outcome::OK
        })
        .on("take_dirty", |r| match r.cache.take_dirty(&Take::all(LEN, 1)) {
            Some(sending) => {
                assert!(r.sending.replace(sending.no).is_none(), "sent twice at once");
                Outcome::OK
            }
            None => match r.cache.left() {
                Left::Nothing => Outcome::Never,
                Left::Ready => Outcome::said("it stays though it may leave"),
                Left::Waiting => Outcome::Refused("WAITING".into()),
            },
        })
        .on("arrived, durable", |r| arrive(r, &Arrived::Durable))
        .on("arrived, unstable", |r| arrive(r, &Arrived::Unstable(7)))
        .on("ended", |r| match r.sending.take() {
            Some(no) => {
                r.cache.ended(no);
                Outcome::OK
            }
            None => Outcome::Never,
        })
        .on("a round confirms it", |r| round(r, true))
        .on("a round does not", |r| round(r, false))
        .on("begin_fetch", |r| match r.fetch {
            Some(_) => Outcome::Never,
            None => {
                r.fetch = Some(r.cache.begin_fetch(0, LEN));
                Outcome::OK
            }
        })
        .on("fetched", |r| match r.fetch.take() {
            Some(fetch) => {
                r.cache.fetched(fetch, 0, &Bytes::from_static(&[9; LEN as usize]));
                r.cache.end_fetch(fetch);
                Outcome::OK
            }
            None => Outcome::Never,
        })
        .on("truncate", |r| {
            r.cache.truncate(0);
            Outcome::OK
        })
        .on("invalidate", |r| {
            r.cache.invalidate();
            Outcome::OK
        })
        .on("evict", |r| {
            r.cache.evict(Queue::Once, Tick(u64::MAX), u64::MAX);
            Outcome::OK
        })
        .on("forget", |r| {
            r.cache.forget(&1);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "cache_range", &machine.table());
}
