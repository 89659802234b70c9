//! What the cache costs: nanoseconds for writes of 4 KiB one behind the other, and for reading them
//! again. The cache is no part of the public interface, so that its source is compiled in here.
//!
//! `cargo run --release -p weft-client --example cache_cost`

#[path = "../src/cache/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only what is measured is used")]
mod cache;
#[path = "../src/limits.rs"]
#[allow(dead_code, reason = "only what the cache uses is used")]
mod limits;

use std::{hint::black_box, time::Instant};

use bytes::Bytes;
use cache::{Arrived, FileCache, Part, Take};

const PIECE: usize = 4096;
const PIECES: u64 = 16 << 10;

type Cache = FileCache<u8, u8>;

fn measured(what: &str, count: u64, mut step: impl FnMut(u64)) {
    let begin = Instant::now();
    (0..count).for_each(&mut step);
    println!("{what:<56} {:>6} ns", begin.elapsed().as_nanos() / u128::from(count));
}

fn read(cache: &mut Cache, piece: u64) {
    let parts = cache.read(piece * PIECE as u64, PIECE as u64);
    assert!(matches!(&parts[..], [Part::Here { bytes, .. }] if bytes.len() == PIECE));
    black_box(parts);
}

fn main() {
    let mut cache: Cache = FileCache::new(limits::CACHE_BLOCK_BYTES);
    let data = vec![7; PIECE];
    let write = |cache: &mut Cache, offset: u64, data: &[u8]| {
        cache.write(&1, offset, data).expect("it is in range");
    };
    println!("for each, over {} MiB:", (PIECES * PIECE as u64) >> 20);
    let mut bare: Vec<Vec<u8>> = Vec::new();
    measured("for comparison: 4 KiB appended to new blocks of 1 MiB", PIECES, |n| {
        if n % 256 == 0 {
            bare.push(Vec::with_capacity(1 << 20));
        }
        bare.iter_mut().last().into_iter().for_each(|block| block.extend_from_slice(&data));
    });
    black_box(&bare);
    measured("write of 4 KiB, one behind the other", PIECES, |n| {
        write(&mut cache, n * PIECE as u64, &data);
    });
    measured("write of 4 KiB again, dirty still", PIECES, |n| {
        write(&mut cache, n * PIECE as u64, &data);
    });
    measured("read of 4 KiB, dirty (copied)", PIECES, |n| read(&mut cache, n));
    let begin = Instant::now();
    while let Some(sending) = cache.take_dirty(&Take::all(8 << 20, 16)) {
        cache.arrived(sending.no, 0, u64::MAX, &Arrived::Unstable(1));
    }
    let round = cache.begin_round();
    cache.settle(round, |_| true);
    let blocks = u128::from((PIECES * PIECE as u64) >> 20);
    println!("{:<56} {:>6} ns", "1 MiB sent and committed", begin.elapsed().as_nanos() / blocks);
    measured("read of 4 KiB, clean in 1 MiB ranges", PIECES, |n| read(&mut cache, n));
    measured("the same, here and there", PIECES, |n| read(&mut cache, n * 7919 % PIECES));
    let mut small: Cache = FileCache::new(limits::CACHE_BLOCK_BYTES);
    let fetched = Bytes::from(data.clone());
    measured("4 KiB fetched", PIECES, |n| {
        let at = n * 7919 % PIECES * PIECE as u64;
        let fetch = small.begin_fetch(at, PIECE as u64);
        small.fetched(fetch, at, &fetched);
        small.end_fetch(fetch);
    });
    measured("read of 4 KiB, clean in 4 KiB ranges, here and there", PIECES, |n| {
        read(&mut small, n * 104_729 % PIECES);
    });
    let mut log: Cache = FileCache::new(limits::CACHE_BLOCK_BYTES);
    measured("write of 16 bytes, one behind the other", PIECES, |n| {
        write(&mut log, n * 16, &data[..16]);
    });
}
