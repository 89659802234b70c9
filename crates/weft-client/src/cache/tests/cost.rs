//! What it costs, counted in bytes that are moved: clocks lie on busy machines. And the ends of the
//! range of offsets.

use bytes::Bytes;

use crate::cache::*;
use crate::limits;

type Cache = FileCache<u8, u8>;

fn cache() -> Cache {
    FileCache::new(limits::CACHE_BLOCK_BYTES)
}

fn bytes_of(cache: &mut Cache, offset: u64, len: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for part in cache.read(offset, len) {
        match part {
            Part::Here { bytes, .. } => all.extend_from_slice(&bytes),
            Part::Zeros { len, .. } => all.resize(all.len() + len as usize, 0),
            Part::Elsewhere { .. } | Part::Missing { .. } => panic!("{part:?}"),
        }
    }
    all
}

/// 100,000 writes of one byte, forwards, backwards, over one place, and every other byte with the
/// gaps filled later: each byte moves a few times, not once for each later write.
#[test]
fn small_writes_move_their_own_bytes() {
    const COUNT: u64 = 100_000;
    // Doubling moves each byte once again on the average; joining backwards at most log2 times.
    type Pattern = (&'static str, fn(u64) -> u64, u64);
    let patterns: [Pattern; 4] = [
        ("forwards", |n| n, 3),
        ("backwards", |n| COUNT - 1 - n, 40),
        ("one place", |_| 7, 1),
        ("with gaps", |n| if n < COUNT / 2 { 2 * n } else { 2 * (n - COUNT / 2) + 1 }, 40),
    ];
    for (name, at, moves) in patterns {
        let mut cache = cache();
        for n in 0..COUNT {
            cache.write(&1, at(n), &[at(n) as u8]).expect("it is in range");
        }
        assert!(cache.moved_bytes() <= moves * COUNT, "{name}: {}", cache.moved_bytes());
        let sending = cache.take_dirty(&Take::all(u64::MAX, 8)).expect("it is dirty");
        assert_eq!(cache.left(), Left::Nothing, "{name}");
        let mut next = at(0).min(at(COUNT - 1));
        for (offset, piece) in &sending.pieces {
            assert_eq!(*offset, next, "{name}: one run");
            assert!(piece.iter().zip(next..).all(|(byte, at)| *byte == at as u8), "{name}");
            next += piece.len() as u64;
        }
    }
}

/// Reads of data that are cached move nothing, and of dirty data only what is read.
#[test]
fn small_reads_copy_no_large_ranges() {
    let mut cache = cache();
    let fetch = cache.begin_fetch(0, 1 << 20);
    cache.fetched(fetch, 0, &Bytes::from(vec![5; 1 << 20]));
    cache.end_fetch(fetch);
    cache.write(&1, 1 << 20, &vec![6; 1 << 20]).expect("it is in range");
    let before = cache.moved_bytes();
    for n in 0..256 {
        assert_eq!(bytes_of(&mut cache, n * 4096, 4096), vec![5; 4096]);
    }
    assert_eq!(cache.moved_bytes(), before);
    for n in 256..512 {
        assert_eq!(bytes_of(&mut cache, n * 4096, 4096), vec![6; 4096]);
    }
    assert_eq!(cache.moved_bytes(), before + (1 << 20));
}

/// Small writes into a large clean range move each of its bytes a few times, however many they are.
#[test]
fn small_writes_into_a_clean_range_do_not_copy_it_each_time() {
    let mut cache = cache();
    let fetch = cache.begin_fetch(0, 1 << 20);
    cache.fetched(fetch, 0, &Bytes::from(vec![5; 1 << 20]));
    for n in 0..4096_u64 {
        // Scattered, without a repetition: the factor is odd.
        let at = n * 1_000_003 % 4096 * 256;
        cache.write(&1, at, &[9; 16]).expect("it is in range");
    }
    assert!(cache.moved_bytes() < 24 << 20, "{}", cache.moved_bytes());
    let seen = bytes_of(&mut cache, 0, 1 << 20);
    assert!(seen.iter().enumerate().all(|(at, byte)| *byte == if at % 256 < 16 { 9 } else { 5 }));
}

/// A stream of writes that leaves block by block is copied in and never again.
#[test]
fn a_stream_leaves_without_copies() {
    let mut cache = cache();
    for n in 0..1024_u64 {
        cache.write(&1, n * 4096, &[n as u8; 4096]).expect("it is in range");
    }
    let before = cache.moved_bytes();
    let take = Take { bytes: 2 << 20, runs: 4, unit_bytes: 1 << 20, partial: true };
    for _ in 0..2 {
        let sending = cache.take_dirty(&take).expect("it is dirty");
        let lens: Vec<usize> = sending.pieces.iter().map(|(_, p)| p.len()).collect();
        assert_eq!(lens, [1 << 20; 2]);
        cache.arrived(sending.no, 0, 4 << 20, &Arrived::Durable);
    }
    assert_eq!(cache.left(), Left::Nothing);
    assert_eq!(cache.moved_bytes(), before);
    // What was allocated is what is there: blocks grow to powers of two.
    assert_eq!(cache.usage().once.bytes, 4 << 20);
}

/// The last byte that a file can have is written, read, sent and cut; a write that reaches beyond
/// is refused whole, and what has no bytes changes nothing.
#[test]
fn the_ends_of_all_offsets() {
    let mut cache = cache();
    let last = u64::MAX - 4;
    assert_eq!(cache.write(&1, last, &[1; 5]), Err(TooFar));
    assert_eq!(cache.put(&1, last, &Bytes::from(vec![1; 1 << 20])), Err(TooFar));
    assert_eq!(cache.usage(), &Usage::default());
    for at in [0, 77, u64::MAX] {
        assert_eq!(cache.write(&1, at, &[]), Ok(()));
        assert!(cache.read(at, 0).is_empty());
        let fetch = cache.begin_fetch(at, 0);
        cache.fetched(fetch, at, &Bytes::from_static(b"more than was asked for"));
        cache.end_fetch(fetch);
        assert_eq!(cache.usage(), &Usage::default(), "{at}");
    }
    assert_eq!(cache.write(&1, last, &[1; 4]), Ok(()));
    assert_eq!(
        cache.read(last, u64::MAX),
        vec![Part::Here { offset: last, bytes: Bytes::from_static(&[1; 4]) }]
    );
    let fetch = cache.begin_fetch(0, u64::MAX);
    cache.fetched_zeros(fetch, 0, u64::MAX);
    cache.end_fetch(fetch);
    assert_eq!(cache.read(0, u64::MAX)[0], Part::Zeros { offset: 0, len: last });
    let take = Take { bytes: u64::MAX, runs: 1, unit_bytes: 1 << 20, partial: true };
    let sending = cache.take_dirty(&take).expect("it is dirty");
    assert_eq!(sending.pieces[0].0, last);
    cache.arrived(sending.no, 0, u64::MAX, &Arrived::Unstable(1));
    let round = cache.begin_round();
    assert_eq!(cache.next_lost(round, 0).map(|s| (s.offset, s.len)), Some((last, 4)));
    cache.settle(round, |_| true);
    cache.truncate(u64::MAX - 2);
    assert_eq!(bytes_of(&mut cache, last, 2), [1; 2]);
    let cut = Part::Missing { offset: last + 2, len: 2 };
    assert_eq!(cache.read(last + 2, 2), vec![cut]);
    cache.truncate(0);
    assert_eq!(cache.usage(), &Usage::default());
    cache.extents.assert_consistent();
}

/// Writes over something that is on its way wait for the end of that sending, though not for
/// another one's, and then leave; nothing of the older one makes them clean.
#[test]
fn what_is_written_over_a_sending_waits_for_its_end() {
    let mut cache = cache();
    cache.write(&1, 0, &[1; 100]).expect("it is in range");
    let old = cache.take_dirty(&Take::all(100, 1)).expect("it is dirty");
    cache.write(&1, 50, &[2; 10]).expect("it is in range");
    assert_eq!(cache.left(), Left::Waiting);
    assert!(cache.take_dirty(&Take::all(100, 1)).is_none());
    cache.write(&1, 200, &[3; 10]).expect("it is in range");
    assert_eq!(cache.left(), Left::Ready);
    let other = cache.take_dirty(&Take::all(100, 9)).expect("the other range may leave");
    assert_eq!(other.pieces[0].0, 200);
    cache.arrived(other.no, 200, 10, &Arrived::Durable);
    assert_eq!(cache.left(), Left::Waiting);
    cache.arrived(old.no, 0, 100, &Arrived::Unstable(1));
    assert_eq!(cache.sent().map(|s| (s.offset, s.len)).collect::<Vec<_>>(), [(0, 50), (60, 40)]);
    let new = cache.take_dirty(&Take::all(100, 9)).expect("the older sending has ended");
    assert_eq!(new.pieces, [(50, Bytes::from_static(&[2; 10]))]);
}

/// Two writers' bytes never leave together, and each of them forgets its own.
#[test]
fn a_sending_is_of_one_writer() {
    let mut cache = cache();
    for n in 0..6 {
        cache.write(&((n % 2) as u8), n * 10, &[n as u8; 10]).expect("it is in range");
    }
    let sending = cache.take_dirty(&Take::all(25, 9)).expect("it is dirty");
    assert_eq!((sending.by, sending.pieces.len()), (0, 2));
    let sending = cache.take_dirty(&Take::all(u64::MAX, 9)).expect("it is dirty");
    assert_eq!((sending.by, sending.pieces.len()), (1, 3));
    cache.forget(&1);
    assert!(cache.is_on_its_way(10, 10), "what is on its way remains so");
    assert_eq!(cache.read(10, 10), vec![Part::Missing { offset: 10, len: 10 }]);
    assert_eq!(bytes_of(&mut cache, 20, 10), [2; 10]);
}
