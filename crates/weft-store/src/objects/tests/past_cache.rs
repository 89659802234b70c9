//! Objects that are read and written past the page cache.

use std::io::Read;

use bytes::BytesMut;
use rustix::pipe::{SpliceFlags, pipe, splice};
use weft_io::{PAGE_BYTES, whole_pages};

use super::*;

const PIECE: usize = 256 << 10;

/// A store whose large reads and writes go past the cache; none where the file system has no such
/// way.
fn passing() -> Option<(TempDir, ObjectStore)> {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let options = ObjectStoreOptions { cache: CachePolicy::Direct, ..Default::default() };
    let store = bound(ObjectStore::open(dir.path(), &options).unwrap());
    let passes = store.passes_cache();
    if !passes {
        eprintln!("this file system was not tried past its cache: nothing to see");
    }
    passes.then_some((dir, store))
}

/// So many bytes at the start of a page.
fn pages(byte: u8, len: usize) -> BytesMut {
    let mut data = whole_pages(len);
    data.fill(byte);
    data
}

fn read_past(store: &ObjectStore, offset: u64, len: usize) -> BytesMut {
    store.read_past_cache(id(1), offset, whole_pages(len)).unwrap().unwrap()
}

/// Writes, and tells how many bytes went past the cache.
fn write(store: &ObjectStore, offset: u64, data: &[u8]) -> usize {
    let before = store.written_past_cache();
    store.write(id(1), 0, offset, data).unwrap();
    usize::try_from(store.written_past_cache() - before).unwrap()
}

/// A large write of whole pages goes past the cache and leaves no older bytes in it; what is
/// smaller, lies elsewhere in memory or is not made of whole pages goes through it.
#[test]
fn large_pieces_pass_the_cache() {
    let Some((_dir, store)) = passing() else { return };
    let mut data = pages(1, 2 * PIECE);
    assert_eq!(write(&store, 0, &data), 2 * PIECE);
    assert_eq!(read_past(&store, 0, 2 * PIECE), data);
    assert!(store.read(id(1), 0, PIECE).unwrap().past_cache);
    assert!(!store.read(id(1), 0, PIECE - 1).unwrap().past_cache);
    for (offset, skip, len) in
        [(0, 0, PIECE - PAGE_BYTES), (0, 1, PIECE), (0, 0, PIECE + 1), (512, 0, PIECE)]
    {
        data.fill(2);
        assert_eq!(write(&store, offset, &data[skip..skip + len]), 0, "{offset} {skip} {len}");
        assert_eq!(read_past(&store, 0, PIECE)[512..600], [2; 88], "it is written out first");
        data.fill(3);
        assert_eq!(write(&store, 0, &data), 2 * PIECE);
        assert_eq!(through(&store), data, "older pages are dropped");
    }
    // What ends within a page is read to its end.
    store.truncate(id(1), PIECE as u64 + 5).unwrap();
    assert_eq!(read_past(&store, PIECE as u64, PIECE).len(), 5);
    assert_eq!(read_past(&store, 4 * PIECE as u64, PIECE).len(), 0);
    assert!(store.read_past_cache(id(2), 0, whole_pages(PIECE)).unwrap().is_none());
}

/// Random pieces of all kinds and sizes, past the cache and through it, against bytes in memory.
#[test]
fn both_ways_see_the_same() {
    let Some((_dir, store)) = passing() else { return };
    let mut model = vec![0u8; 0];
    let mut x = 7u64;
    let mut next = |below: usize| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(x >> 33).unwrap() % below
    };
    for n in 0..400 {
        let whole = next(2) == 0;
        let at = if whole { next(16) * 64 * PAGE_BYTES } else { next(16 * PIECE) };
        let len = if whole { (1 + next(3)) * PIECE } else { 1 + next(2 * PIECE) };
        match next(8) {
            0..4 => {
                let data = pages(u8::try_from(1 + n % 250).unwrap(), len);
                store.write(id(1), 0, at as u64, &data).unwrap();
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&data);
            }
            4 => {
                model.resize(at, 0);
                store.truncate(id(1), at as u64).unwrap();
            }
            5 if !model.is_empty() => {
                let end = model.len().min(at + len);
                store.punch(id(1), 0, at as u64, len as u64).unwrap();
                model[at.min(end)..end].fill(0);
            }
            6 if !model.is_empty() => {
                let (at, end) = (at / PAGE_BYTES * PAGE_BYTES, model.len());
                let got = read_past(&store, at as u64, PIECE);
                assert!(got == model[at.min(end)..end.min(at + PIECE)], "{n}");
            }
            _ => assert!(through(&store) == model, "{n}"),
        }
    }
    store.commit(id(1)).unwrap();
    assert!(through(&store) == model);
}

/// All of the object, through the cache.
fn through(store: &ObjectStore) -> Vec<u8> {
    let plan = store.read(id(1), 0, 64 * PIECE).unwrap();
    let mut bytes = Vec::new();
    if let Some(range) = &plan.range {
        bytes.resize(range.len, 0);
        range.file.read_exact_at(&mut bytes, range.offset).unwrap();
    }
    bytes
}

/// Readers take pages out of the cache and keep them for a moment, as sockets do that they are sent
/// to, while the same bytes are written past it again and again: whoever reads after a write has
/// ended sees that write.
#[test]
fn nothing_old_stays_in_the_cache() {
    let Some((_dir, store)) = passing() else { return };
    const ROUNDS: usize = 400;
    const BYTES: usize = 4 * PIECE;
    const TAKEN: usize = 64 << 10;
    store.write(id(1), 0, 0, &pages(0, BYTES)).unwrap();
    let ended = AtomicBool::new(false);
    let take = |n: usize| {
        let (out, into) = pipe().unwrap();
        let mut taken = vec![0; TAKEN];
        for at in (n..).map(|n| n * 7 % (BYTES / TAKEN) * TAKEN) {
            let range = store.read(id(1), at as u64, TAKEN).unwrap().range.unwrap();
            let mut at = range.offset;
            let flags = SpliceFlags::empty();
            let n = splice(&range.file, Some(&mut at), &into, None, TAKEN, flags).unwrap();
            drop(range);
            File::from(out.try_clone().unwrap()).read_exact(&mut taken[..n]).unwrap();
            if ended.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let passed = scope(|s| {
        (0..2).for_each(|n| drop(s.spawn(move || take(n))));
        let mut passed = 0;
        for round in 1..=ROUNDS {
            let byte = u8::try_from(round % 251).unwrap();
            passed += write(&store, 0, &pages(byte, BYTES));
            let seen = through(&store);
            let old = seen.iter().position(|b| *b != byte);
            if old.is_some() || round == ROUNDS {
                ended.store(true, Ordering::Relaxed);
            }
            assert_eq!(old, None, "round {round}");
        }
        passed
    });
    assert!(passed > 0, "no write met the moment between two readers");
}

/// A large write past the cache and small ones through it, to the same pages at the same time: in
/// whatever order they are done, each byte is what one of them wrote.
#[test]
fn no_write_brings_back_what_was_before() {
    let Some((_dir, store)) = passing() else { return };
    const SMALL: u8 = 255;
    store.write(id(1), 0, 0, &pages(0, PIECE)).unwrap();
    let mut passed = 0;
    for round in 1..=200 {
        let (byte, start) = (u8::try_from(round).unwrap(), std::sync::Barrier::new(2));
        scope(|s| {
            s.spawn(|| {
                start.wait();
                for n in 0..64 {
                    let at = n * PAGE_BYTES as u64 + 10;
                    store.write(id(1), 0, at, &[SMALL]).unwrap();
                }
            });
            let large = pages(byte, PIECE);
            start.wait();
            passed += write(&store, 0, &large);
        });
        let seen = through(&store);
        let old = seen.iter().position(|b| *b != byte && *b != SMALL);
        assert_eq!(old, None, "round {round}");
    }
    assert!(passed > 0, "the small ones always came first");
}
