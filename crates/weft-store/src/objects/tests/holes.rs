//! Data, holes, space and copies of objects, against a plain array of blocks. The file system of
//! the test directory must know holes of 4 KiB, as every one does that data servers use.

use weft_stripe::{Distribution, Form};

use super::*;
use crate::{objects::sparse_file::OBJECT_BYTES_MAX, types::Content};

const BLOCK: u64 = 4096;
const UNIT: u64 = 4 * BLOCK;

fn stripe(count: u32, index: u32) -> Stripe {
    Stripe { rule: Distribution::round_robin(UNIT, count, 0, Form::Sparse).unwrap(), index }
}

/// Writes whole blocks of the object's own units.
fn fill(store: &ObjectStore, id: ObjectId, blocks: &[u64]) {
    for b in blocks {
        store.write(id, 0, b * BLOCK, &[7; BLOCK as usize]).unwrap();
    }
}

/// Every search from every block, in an object that is one of three: what a plain list of blocks
/// says, without the units of others.
#[test]
fn searches_find_own_data_and_holes() {
    let (_dir, store) = fresh();
    let own = [4, 5, 7, 16, 17, 18, 19, 28];
    fill(&store, id(1), &own);
    let (stripe, end) = (stripe(3, 1), 40);
    let is_own = |b: &u64| b / 4 % 3 == 1;
    for from in 0..end {
        let data = (from..end).find(|b| own.contains(b));
        let hole = (from..end).filter(is_own).find(|b| !own.contains(b));
        for (what, model) in [(Content::Data, data), (Content::Hole, hole)] {
            // A search may begin in another's unit; what it finds is own.
            let found = store.seek(id(1), stripe, what, from * BLOCK, end * BLOCK).unwrap();
            let model = model.map_or(Sought::NotBefore(end * BLOCK), |b| Sought::At(b * BLOCK));
            assert_eq!(found, model, "{what:?} from {from}");
        }
    }
    let missing = store.seek(id(2), stripe, Content::Hole, 0, end * BLOCK).unwrap();
    assert_eq!(missing, Sought::At(UNIT));
    let missing = store.seek(id(2), stripe, Content::Data, 0, end * BLOCK).unwrap();
    assert_eq!(missing, Sought::NotBefore(end * BLOCK));
    assert!(!store.dir.object_path(id(2)).exists());
}

/// A search for a hole through very much data stops, and says where; the next one goes on.
#[test]
fn long_searches_are_cut() {
    let (_dir, store) = fresh();
    let runs = 1500;
    store.write(id(1), 0, 0, &vec![1; usize::try_from(2 * runs * BLOCK).unwrap()]).unwrap();
    let rule = Distribution::round_robin(BLOCK, 2, 0, Form::Sparse).unwrap();
    let (stripe, end) = (Stripe { rule, index: 0 }, u64::MAX / 2);
    let first = store.seek(id(1), stripe, Content::Hole, 0, end).unwrap();
    let Sought::NotBefore(at) = first else { panic!("{first:?}") };
    assert!(at > 0 && at < 2 * runs * BLOCK, "{at}");
    let rest = store.seek(id(1), stripe, Content::Hole, at, end).unwrap();
    assert_eq!(rest, Sought::At(2 * runs * BLOCK));
}

/// A punched range reads as zeros to the byte and gives its blocks back; sizes stay, and old
/// epochs and missing objects are as with writes.
#[test]
fn punching_makes_holes() {
    let (_dir, store) = fresh();
    fill(&store, id(1), &[0, 1, 2, 3]);
    let before = store.stat(id(1)).unwrap();
    store.punch(id(1), 0, BLOCK - 10, BLOCK + 20).unwrap();
    let mut model = vec![7; 4 * BLOCK as usize];
    model[BLOCK as usize - 10..2 * BLOCK as usize + 10].fill(0);
    assert_eq!(contents(&store, id(1)), model);
    let after = store.stat(id(1)).unwrap();
    assert_eq!(after.size, before.size);
    assert!(after.blocks_bytes < before.blocks_bytes && after.writes > before.writes);
    store.punch(id(1), 0, 0, u64::MAX).unwrap();
    assert_eq!(store.stat(id(1)).unwrap().size, before.size);
    store.punch(id(2), 0, 0, BLOCK).unwrap();
    assert!(!store.dir.object_path(id(2)).exists());
    store.fence(id(1), 5).unwrap();
    assert_eq!(store.punch(id(1), 4, 0, 1), Err(ObjectError::Stale { current: 5 }));
}

/// Space is reserved for own units only and no size changes; what does not fit, or cannot be, is
/// refused.
#[test]
fn space_is_reserved() {
    let (_dir, store) = fresh();
    store.allocate(id(1), 0, stripe(4, 2), 0, 16 * UNIT).unwrap();
    let stat = store.stat(id(1)).unwrap();
    assert_eq!(stat.size, 0);
    assert!(stat.blocks_bytes >= 4 * UNIT && stat.blocks_bytes < 8 * UNIT, "{stat:?}");
    store.allocate(id(2), 0, stripe(4, 2), 0, UNIT).unwrap();
    assert!(!store.dir.object_path(id(2)).exists(), "no unit of its own");
    let beyond = OBJECT_BYTES_MAX + 1;
    assert_eq!(store.allocate(id(1), 0, stripe(1, 0), 0, beyond), Err(ObjectError::TooBig));
    store.fence(id(1), 5).unwrap();
    let old = store.allocate(id(1), 4, stripe(4, 2), 0, UNIT);
    assert_eq!(old, Err(ObjectError::Stale { current: 5 }));
}

/// A copy has the source's data and holes, at any place and length, over whatever was there.
#[test]
fn copies_are_exact() {
    let (_dir, store) = fresh();
    fill(&store, id(1), &[1, 2, 6, 7]);
    store.write(id(1), 0, 7 * BLOCK + 5, b"odd").unwrap();
    let source = contents(&store, id(1));
    let cases = [(0, 0, 8 * BLOCK), (0, BLOCK, 5 * BLOCK), (BLOCK + 1, 3, 777), (3, 0, 20 * BLOCK)];
    for (n, (from, to, len)) in (10..).zip(cases) {
        let mut model = vec![9; 12 * BLOCK as usize];
        store.write(id(n), 0, 0, &model).unwrap();
        let verifier = store.copy(id(1), id(n), 0, CopyRange { from, to, len }).unwrap();
        assert_eq!(verifier, store.commit(id(n)).unwrap());
        for at in 0..len {
            let byte = source.get((from + at) as usize).copied().unwrap_or(0);
            if let Some(place) = model.get_mut((to + at) as usize) {
                *place = byte;
            }
        }
        let copy = contents(&store, id(n));
        assert_eq!(copy[..model.len()], model, "{from} {to} {len}");
        assert!(copy[model.len()..].iter().all(|b| *b == 0));
    }
    // To a new object: only data takes space, and nothing is made of nothing.
    let all = CopyRange { from: 0, to: 0, len: 100 * BLOCK };
    store.copy(id(1), id(2), 0, all).unwrap();
    assert_eq!(contents(&store, id(2)), source);
    assert!(store.stat(id(2)).unwrap().blocks_bytes < 8 * BLOCK);
    store.copy(id(3), id(4), 0, all).unwrap();
    assert!(!store.dir.object_path(id(4)).exists());
}

/// A fenced destination, a removed source and ranges without an end in reach are refused.
#[test]
fn copies_are_checked() {
    let (_dir, store) = fresh();
    fill(&store, id(1), &[0]);
    let range = CopyRange { from: 0, to: 0, len: BLOCK };
    store.fence(id(2), 5).unwrap();
    assert_eq!(store.copy(id(1), id(2), 4, range), Err(ObjectError::Stale { current: 5 }));
    for (from, to) in [(u64::MAX, 0), (0, u64::MAX), (0, OBJECT_BYTES_MAX), (OBJECT_BYTES_MAX, 0)] {
        let beyond = CopyRange { from, to, len: BLOCK };
        assert_eq!(store.copy(id(1), id(3), 0, beyond), Err(ObjectError::TooBig));
    }
    store.remove(id(1)).unwrap();
    let gone = Err(ObjectError::Stale { current: REMOVED });
    assert_eq!(store.copy(id(1), id(3), 0, range), gone);
}

/// Blocks are shared where the file system can, as the store says, with zeros behind the source's
/// end, whatever the destination had there; where it cannot the destination stays as it was. Fences
/// and ends are as with copies.
#[test]
fn blocks_are_shared_or_nothing_happens() {
    let (_dir, store) = fresh();
    fill(&store, id(1), &[0, 1, 2]);
    store.write(id(2), 0, 0, &[9; 8 * BLOCK as usize]).unwrap();
    let range = CopyRange { from: BLOCK, to: 2 * BLOCK, len: 4 * BLOCK };
    let mut model = vec![9; 8 * BLOCK as usize];
    match store.clone_range(id(1), id(2), 0, range) {
        Ok(_) => {
            model[2 * BLOCK as usize..4 * BLOCK as usize].fill(7);
            model[4 * BLOCK as usize..6 * BLOCK as usize].fill(0);
            let odd = CopyRange { from: 1, to: 0, len: BLOCK };
            assert_eq!(store.clone_range(id(1), id(2), 0, odd), Err(ObjectError::Unaligned));
            // The source ends within a block, the destination does not.
            store.write(id(3), 0, 0, &[5; BLOCK as usize + 9]).unwrap();
            let longer = CopyRange { from: 0, to: 0, len: 2 * BLOCK };
            store.clone_range(id(3), id(2), 0, longer).unwrap();
            model[..2 * BLOCK as usize].fill(0);
            model[..BLOCK as usize + 9].fill(5);
        }
        Err(e) => assert!(matches!(e, ObjectError::Unsupported { .. }), "{e}"),
    }
    let shared = store.shares_blocks();
    assert_eq!(shared, store.clone_range(id(1), id(4), 0, range).is_ok());
    assert_eq!(contents(&store, id(2)), model);
    store.fence(id(2), 5).unwrap();
    let old = store.clone_range(id(1), id(2), 4, range);
    assert_eq!(old, Err(ObjectError::Stale { current: 5 }));
    let beyond = CopyRange { len: u64::MAX, ..range };
    assert_eq!(store.clone_range(id(1), id(2), 5, beyond), Err(ObjectError::TooBig));
    store.remove(id(1)).unwrap();
    let gone = Err(ObjectError::Stale { current: REMOVED });
    assert_eq!(store.clone_range(id(1), id(2), 5, range), gone);
}
