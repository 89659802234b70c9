//! Properties of every distribution, exhaustively on small parameters and by random search up
//! to `u64::MAX`.

use proptest::prelude::*;

use crate::{CyclicList, Distribution, DistributionError, Extent, Form, Location, Piece};

const FORMS: [Form; 2] = [Form::Sparse, Form::Dense];

fn round_robin(unit: u64, count: u32, first: u32, form: Form) -> Distribution {
    Distribution::round_robin(unit, count, first, form).unwrap()
}

fn cyclic(unit: u64, objects: &[u8], first: u16) -> Distribution {
    Distribution::cyclic(unit, CyclicList::new(objects).unwrap(), first).unwrap()
}

fn variable(small: u64, rounds: u32, large: u64, (count, first): (u32, u32)) -> Distribution {
    Distribution::variable((small, rounds), large, count, first).unwrap()
}

fn is_dense(d: &Distribution) -> bool {
    matches!(d, Distribution::RoundRobin(r) if r.form() == Form::Dense)
}

/// Every round robin with a unit of 1..=4 bytes and 1..=4 stripes, every cyclic list of up to four
/// entries with units of one and of three bytes, and every small variable unit.
fn small() -> impl Iterator<Item = Distribution> {
    let dealt = FORMS.into_iter().flat_map(|form| {
        (1..=4).flat_map(move |unit| {
            (1..=4).flat_map(move |count| {
                (0..count).map(move |first| round_robin(unit, count, first, form))
            })
        })
    });
    let listed = small_lists().flat_map(|list| {
        let firsts = 0..list.turns();
        firsts.flat_map(move |first| {
            [1, 3].map(|unit| Distribution::cyclic(unit, list, first).unwrap())
        })
    });
    let growing = (1..=3).flat_map(|count| {
        (0..count).flat_map(move |first| {
            [(1, 1, 3), (2, 1, 4), (2, 2, 3), (3, 1, 1), (1, 3, 2)]
                .map(|(small, rounds, large)| variable(small, rounds, large, (count, first)))
        })
    });
    dealt.chain(listed).chain(growing)
}

/// Every list of one to four entries that leaves no object out.
fn small_lists() -> impl Iterator<Item = CyclicList> {
    (1..=4u32).flat_map(|len| {
        (0..4u32.pow(len)).filter_map(move |n| {
            let entries: Vec<u8> = (0..len).map(|i| (n / 4u32.pow(i) % 4) as u8).collect();
            CyclicList::new(&entries).ok()
        })
    })
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    let unit = || prop_oneof![1..64u64, Just(1 << 20), any::<u64>().prop_map(|u| u.max(1))];
    let count = prop_oneof![1..9u32, 1..=4096u32, any::<u32>().prop_map(|c| c.max(1))];
    let dealt = (unit(), count, any::<u32>(), any::<bool>()).prop_map(|(unit, count, first, d)| {
        let form = if d { Form::Dense } else { Form::Sparse };
        round_robin(unit, count, first % count, form)
    });
    let entries = proptest::collection::vec(0..4u8, 1..=CyclicList::LEN_MAX);
    let listed = (unit(), entries, any::<u16>()).prop_filter_map("left out", |(u, list, first)| {
        let list = CyclicList::new(&list).ok()?;
        Distribution::cyclic(u, list, first % list.turns()).ok()
    });
    let parts = (unit(), 1..9u32, unit(), 1..9u32, any::<u32>());
    let growing = parts.prop_filter_map("no end", |(small, rounds, large, count, first)| {
        Distribution::variable((small, rounds), large, count, first % count).ok()
    });
    prop_oneof![dealt, listed, growing]
}

/// Pieces of two ranges that are looked at.
const PIECES: usize = 256;

fn any_offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..4096u64, any::<u64>(), any::<u64>().prop_map(|o| u64::MAX - o % 4096)]
}

/// What object j holds of a file of `size` bytes, byte by byte.
fn model_object(d: &Distribution, size: u64, stripe_index: u32) -> Vec<(u64, u64)> {
    (0..size)
        .map(|o| (o, d.locate(o)))
        .filter(|(_, p)| p.stripe_index == stripe_index)
        .map(|(o, p)| (p.object_offset, o))
        .collect()
}

/// Known places, by hand from the formulas of RFC 8881 §13.4.2 and §13.4.4.
#[test]
fn examples_by_hand() {
    let sparse = round_robin(4, 3, 1, Form::Sparse);
    let dense = round_robin(4, 3, 1, Form::Dense);
    for (offset, index, packed) in [(0, 1, 0), (5, 2, 1), (8, 0, 0), (12, 1, 4), (23, 0, 7)] {
        assert_eq!(sparse.locate(offset).stripe_index, index);
        assert_eq!(sparse.locate(offset).object_offset, offset);
        assert_eq!(dense.locate(offset).stripe_index, index);
        assert_eq!(dense.locate(offset).object_offset, packed);
    }
    let cut: Vec<Extent> = dense.extents(6, 5).collect();
    assert_eq!(
        cut,
        [
            Extent { stripe_index: 2, object_offset: 2, file_offset: 6, len: 2 },
            Extent { stripe_index: 0, object_offset: 0, file_offset: 8, len: 3 },
        ]
    );
}

/// Bad parameters are refused, each for its own reason; the largest good ones are accepted.
#[test]
fn construction_is_checked() {
    let new = |u, c, f| Distribution::round_robin(u, c, f, Form::Dense).map(|_| ());
    assert_eq!(new(0, 1, 0), Err(DistributionError::ZeroUnit));
    assert_eq!(new(1, 0, 0), Err(DistributionError::ZeroCount));
    assert_eq!(new(1, 2, 2), Err(DistributionError::FirstBeyondCount));
    assert_eq!(new(u64::MAX, u32::MAX, u32::MAX - 1), Ok(()));
    let list = |entries: &[u8]| CyclicList::new(entries).map(|_| ());
    assert_eq!(list(&[]), Err(DistributionError::ListLength));
    assert_eq!((list(&[0; 16]), list(&[0; 17])), (Ok(()), Err(DistributionError::ListLength)));
    assert_eq!(list(&[0, 2]), Err(DistributionError::MissingObject));
    assert_eq!(list(&[1]), Err(DistributionError::MissingObject));
    let two = CyclicList::new(&[1, 0]).unwrap();
    assert_eq!(Distribution::cyclic(0, two, 0), Err(DistributionError::ZeroUnit));
    assert_eq!(Distribution::cyclic(1, two, 2), Err(DistributionError::FirstBeyondCount));
    let grow = |small, large, count, first| Distribution::variable(small, large, count, first);
    assert_eq!(grow((0, 1), 1, 1, 0), Err(DistributionError::ZeroUnit));
    assert_eq!(grow((1, 1), 0, 1, 0), Err(DistributionError::ZeroUnit));
    assert_eq!(grow((1, 1), 1, 0, 0), Err(DistributionError::ZeroCount));
    assert_eq!(grow((1, 1), 1, 2, 2), Err(DistributionError::FirstBeyondCount));
    assert_eq!(grow((1, 0), 1, 2, 0), Err(DistributionError::SmallRounds));
    assert_eq!(grow((u64::MAX, 1), 1, 2, 0), Err(DistributionError::SmallRounds));
}

/// Where a cyclic list and a growing unit put bytes, by hand.
#[test]
fn lists_and_growing_units_by_hand() {
    let listed = cyclic(4, &[0, 0, 1], 1);
    for (offset, index) in [(0, 0), (3, 0), (4, 1), (8, 0), (12, 0), (16, 1), (23, 0)] {
        assert_eq!(listed.locate(offset), Location { stripe_index: index, object_offset: offset });
    }
    assert_eq!((listed.object_size_for(9, 0), listed.object_size_for(9, 1)), (9, 8));
    assert!(listed.serves(0, 8, 8) && !listed.serves(0, 8, 9));
    // Two rounds of 2 bytes on each of two objects, then 4 bytes each.
    let growing = variable(2, 2, 4, (2, 1));
    for (offset, index) in [(0, 1), (2, 0), (4, 1), (7, 0), (8, 1), (11, 1), (12, 0), (16, 1)] {
        assert_eq!(growing.locate(offset).stripe_index, index, "{offset}");
    }
    assert_eq!(growing.next_own_run(0, 8), Some((12, 16)));
    assert_eq!(growing.bytes_between(1, 0, 14), 8);
}

/// What an object sees of a list, given its turns, is what the list says of it; nonsense is
/// refused.
#[test]
fn turns_say_the_same_as_the_list() {
    for list in small_lists() {
        for first in 0..list.turns() {
            let whole = Distribution::cyclic(3, list, first).unwrap();
            let Distribution::Cyclic(cyclic) = whole else { unreachable!() };
            for index in 0..whole.stripe_count() {
                let turns = cyclic.turns_of(index);
                let own = Distribution::of_turns(3, list.turns(), turns).unwrap();
                for offset in 0..40 {
                    let is_own = own.locate(offset).stripe_index == Distribution::OF_TURNS;
                    assert_eq!(is_own, whole.locate(offset).stripe_index == index);
                }
            }
            assert_eq!(cyclic.turns_of(whole.stripe_count()), 0);
        }
    }
    let bad = |count, turns| Distribution::of_turns(3, count, turns).unwrap_err();
    assert_eq!(bad(0, 1), DistributionError::ListLength);
    assert_eq!(bad(17, 1), DistributionError::ListLength);
    assert_eq!((bad(3, 0), bad(3, 8)), (DistributionError::MissingObject, bad(3, 9)));
    assert!(Distribution::of_turns(3, 16, 1 << 15).is_ok());
    assert!(Distribution::of_turns(3, 3, 7).is_ok());
}

/// Round robin over the entries of a device, as a client has it with sparse objects, and a list
/// over its data servers, as servers have it, put every byte on the same data server
/// (RFC 8881 §13.4.4).
#[test]
fn clients_and_servers_mean_the_same_list() {
    for list in small_lists() {
        for first in 0..list.turns() {
            let theirs = round_robin(3, list.turns().into(), first.into(), Form::Sparse);
            let ours = Distribution::cyclic(3, list, first).unwrap();
            for offset in 0..60 {
                let (entry, place) = (theirs.locate(offset), ours.locate(offset));
                let object = list.entries()[entry.stripe_index as usize];
                assert_eq!((object.into(), entry.object_offset), (place.stripe_index, offset));
            }
        }
    }
}

/// locate and file_offset are inverses, over every place of every small distribution: each file
/// byte has one place, each place at most one byte, and dense objects have no holes.
#[test]
fn small_distributions_are_bijective() {
    for d in small() {
        for o in 0..100 {
            let p = d.locate(o);
            assert!(p.stripe_index < d.stripe_count());
            assert_eq!(d.file_offset(p.stripe_index, p.object_offset), Some(o));
        }
        for index in 0..d.stripe_count() {
            for at in 0..100 {
                if let Some(o) = d.file_offset(index, at) {
                    assert_eq!((d.locate(o).stripe_index, d.locate(o).object_offset), (index, at));
                } else {
                    assert!(!is_dense(&d), "a dense object has no holes");
                }
            }
        }
        assert_eq!(d.file_offset(d.stripe_count(), 0), None);
    }
}

/// Object sizes agree with a byte-by-byte model, and the file's size comes back from them; an
/// object that a truncation left ending in a hole implies nothing beyond its own bytes.
#[test]
fn small_object_sizes_match_the_model() {
    for d in small() {
        for size in 0..60 {
            let sizes: Vec<u64> =
                (0..d.stripe_count()).map(|i| d.object_size_for(size, i)).collect();
            for (i, got) in (0..).zip(&sizes) {
                let held = model_object(&d, size, i);
                assert_eq!(*got, held.last().map_or(0, |(at, _)| at + 1), "{d:?} {size} {i}");
                let end = held.last().map_or(0, |(_, o)| o + 1);
                assert_eq!(d.file_end_of_object(i, *got), Some(end));
            }
            assert_eq!(d.file_size_from_objects(sizes.iter().copied()), Some(size));
            if !is_dense(&d) {
                let equal = vec![size; sizes.len()];
                assert_eq!(d.file_size_from_objects(equal), Some(size));
            }
        }
        assert_eq!(d.object_size_for(99, d.stripe_count()), 0);
    }
}

/// A byte more at the end of a file makes one object longer, that of the byte, and so much that it
/// ends behind it; cut again, all are as they were.
#[test]
fn small_files_grow_by_one_object() {
    for d in small() {
        let sizes =
            |size| (0..d.stripe_count()).map(|i| d.object_size_for(size, i)).collect::<Vec<_>>();
        for size in 0..60 {
            let (before, after, place) = (sizes(size), sizes(size + 1), d.locate(size));
            for (i, (before, after)) in (0..).zip(before.iter().zip(&after)) {
                match i == place.stripe_index {
                    true => assert_eq!(*after, place.object_offset + 1, "{d:?} {size}"),
                    false => assert_eq!(after, before, "{d:?} {size}"),
                }
            }
            // The others may end anywhere before: holes at their ends imply nothing.
            let alone = (0..).zip(after).map(|(i, n)| if i == place.stripe_index { n } else { 0 });
            assert_eq!(d.file_size_from_objects(alone), Some(size + 1), "{d:?}");
        }
    }
}

/// serves says yes exactly when all bytes of the range are located at that index.
#[test]
fn small_serves_matches_the_model() {
    for d in small() {
        for offset in 0..20 {
            for len in 0..10 {
                for i in 0..=d.stripe_count() {
                    let all = (offset..offset + len).all(|o| d.locate(o).stripe_index == i);
                    let want = all && i < d.stripe_count();
                    assert_eq!(d.serves(i, offset, len), want, "{d:?} {offset}+{len} at {i}");
                }
            }
        }
        assert!(!d.serves(0, u64::MAX, 1));
    }
}

/// The bytes of a range are counted where they are located.
#[test]
fn small_ranges_are_counted() {
    for d in small() {
        for (start, end) in (0..25).flat_map(|start| (0..25).map(move |end| (start, end))) {
            for i in 0..=d.stripe_count() {
                let there = (start..end).filter(|o| d.locate(*o).stripe_index == i).count();
                assert_eq!(d.bytes_between(i, start, end), there as u64, "{d:?} {start} {end} {i}");
            }
        }
    }
}

/// The last bytes of the offset space have places, ends and extents without overflow.
#[test]
fn the_end_of_the_offset_space() {
    // A unit of 51 bytes begins there, and no byte of a file.
    let last = round_robin(51, 3, 0, Form::Sparse);
    let owner = last.locate(u64::MAX).stripe_index;
    assert_eq!(last.next_own_run(owner, u64::MAX), None);
    let d = round_robin(1 << 20, 7, 3, Form::Dense);
    let p = d.locate(u64::MAX);
    assert_eq!(d.file_offset(p.stripe_index, p.object_offset), Some(u64::MAX));
    assert_eq!(d.file_offset(0, u64::MAX), None);
    assert_eq!(d.file_end_of_object(0, u64::MAX), None);
    assert_eq!(d.file_size_from_objects([0, u64::MAX]), None);
    let tail: Vec<Extent> = d.extents(u64::MAX - 3, u64::MAX).collect();
    assert_eq!(tail.iter().map(|e| e.len).sum::<u64>(), 3);
    assert_eq!(d.extents(u64::MAX, 1).count(), 0);
}

proptest! {
    /// For any parameters and offset: locate is undone by file_offset.
    #[test]
    fn locate_is_invertible(d in any_distribution(), offset in any_offset()) {
        let p = d.locate(offset);
        prop_assert!(p.stripe_index < d.stripe_count());
        prop_assert_eq!(d.file_offset(p.stripe_index, p.object_offset), Some(offset));
    }

    /// For any object place: file_offset, if it answers, is undone by locate.
    #[test]
    fn file_offset_is_invertible(d in any_distribution(), i in any::<u32>(), at in any_offset()) {
        let i = i % d.stripe_count();
        if let Some(offset) = d.file_offset(i, at) {
            let p = d.locate(offset);
            prop_assert_eq!((p.stripe_index, p.object_offset), (i, at));
        }
    }

    /// Extents cover the range exactly, in order, each within one unit and where locate says.
    #[test]
    fn extents_cover_in_order(
        d in any_distribution(), offset in any_offset(), len in any::<u64>(),
    ) {
        let mut at = offset;
        let end = offset.saturating_add(len);
        for e in d.extents(offset, len).take(64) {
            prop_assert_eq!(e.file_offset, at);
            prop_assert!(e.len > 0 && e.len <= end - at);
            prop_assert!(e.len <= d.bytes_to_unit_end(at));
            let first = d.locate(at);
            let last = d.locate(at + e.len - 1);
            prop_assert_eq!((e.stripe_index, e.object_offset),
                            (first.stripe_index, first.object_offset));
            prop_assert_eq!((last.stripe_index, last.object_offset),
                            (first.stripe_index, first.object_offset + e.len - 1));
            prop_assert!(d.serves(e.stripe_index, e.file_offset, e.len));
            at += e.len;
        }
        prop_assert!(at == end || d.extents(offset, len).nth(63).is_some());
    }

    /// For any file size: the objects' sizes give it back, and each object's size is that of its
    /// last own byte.
    #[test]
    fn sizes_round_trip(d in any_distribution(), size in any_offset(), i in any::<u32>()) {
        let i = i % d.stripe_count();
        let own = d.object_size_for(size, i);
        let end = d.file_end_of_object(i, own);
        prop_assert!(end.is_some_and(|e| e <= size));
        if size > 0 {
            let last = d.locate(size - 1);
            let holder = d.object_size_for(size, last.stripe_index);
            prop_assert_eq!(holder, last.object_offset + 1);
            prop_assert_eq!(d.file_end_of_object(last.stripe_index, holder), Some(size));
        }
    }
}

/// The runs of own bytes of an object, one after another, are exactly the places that hold bytes
/// of the file, from wherever one begins to look.
#[test]
fn own_runs_are_the_objects_bytes() {
    const END: u64 = 40;
    for d in small() {
        for index in 0..d.stripe_count() {
            for from in 0..END {
                let mut at = from;
                let mut held = Vec::new();
                while let Some((start, end)) = d.next_own_run(index, at).filter(|r| r.0 < END) {
                    held.extend(start..end.min(END));
                    at = end;
                }
                let own = |o: &u64| d.file_offset(index, *o).is_some();
                assert_eq!(held, (from..END).filter(own).collect::<Vec<_>>(), "{d:?} {index}");
            }
        }
        assert_eq!(d.next_own_run(d.stripe_count(), 0), None);
    }
}

proptest! {
    /// Anywhere: a run begins at or after the place asked for, is not empty, and is own at both
    /// ends.
    #[test]
    fn own_runs_anywhere(d in any_distribution(), offset in any_offset(), index: u32) {
        let index = index % d.stripe_count();
        if let Some((start, end)) = d.next_own_run(index, offset) {
            prop_assert!(start >= offset && end > start);
            if !is_dense(&d) {
                prop_assert!(d.file_offset(index, start).is_some());
                prop_assert!(d.file_offset(index, end - 1).is_some());
            }
        }
    }
}

/// Pieces of two ranges follow each other without a gap, each byte of a piece is in the objects
/// and at the places that the piece says, and two pieces that touch could not be one, unless a unit
/// of either ends there.
fn pieces_are_right(a: (&Distribution, u64), b: (&Distribution, u64), len: u64, pieces: &[Piece]) {
    let ends = pieces.iter().map(|p| p.at + p.len);
    let starts: Vec<u64> = std::iter::once(0).chain(ends).collect();
    assert!(pieces.iter().map(|p| p.at).eq(starts[..pieces.len()].iter().copied()));
    assert_eq!(starts.last(), Some(&len));
    for p in pieces {
        for (side, begins) in [(a, p.here), (b, p.there)] {
            for at in [0, p.len / 2, p.len - 1] {
                let place = side.0.locate(side.1 + p.at + at);
                assert_eq!(place.stripe_index, begins.stripe_index);
                assert_eq!(place.object_offset, begins.object_offset + at);
            }
        }
    }
    for pair in pieces.windows(2) {
        let (p, q) = (pair[0], pair[1]);
        let goes_on = |p_at: Location, q_at: Location| {
            p_at.stripe_index == q_at.stripe_index
                && p_at.object_offset.checked_add(p.len) == Some(q_at.object_offset)
        };
        let ends = [a, b]
            .iter()
            .any(|(d, from)| d.stripe_count() > 1 && d.bytes_to_unit_end(from + q.at - 1) == 1);
        let one = goes_on(p.here, q.here) && goes_on(p.there, q.there);
        assert!(ends || !one, "{p:?} {q:?}");
    }
}

/// Every pair of small distributions, from every offset of some.
#[test]
fn pieces_of_small_distributions() {
    for a in small() {
        for b in small() {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 5), (2, 9), (16, 4)] {
                let pieces: Vec<_> = a.pieces(from, (&b, to), 23).collect();
                pieces_are_right((&a, from), (&b, to), 23, &pieces);
            }
        }
    }
}

/// A file on one object and another like it are one piece, to the last byte that can be.
#[test]
fn whole_objects_are_one_piece() {
    let one = round_robin(4, 1, 0, Form::Sparse);
    let whole: Vec<_> = one.pieces(7, (&one, 3), u64::MAX).collect();
    let (here, there) = (one.locate(7), one.locate(3));
    assert_eq!(whole, [Piece { here, there, at: 0, len: u64::MAX - 7 }]);
    assert_eq!(one.pieces(u64::MAX, (&one, 0), 1).next(), None);
    assert_eq!(one.pieces(0, (&one, 0), 0).next(), None);
}

proptest! {
    /// The same for any two distributions and offsets. A range of a file whose units shrink has
    /// more pieces than fit in memory: the first of them are looked at.
    #[test]
    fn pieces_cover_both_ranges(
        (a, from) in (any_distribution(), any_offset()),
        (b, to) in (any_distribution(), any_offset()),
        units in 0..64u64,
    ) {
        let unit = a.bytes_to_unit_end(0).min(b.bytes_to_unit_end(0));
        let len = unit.saturating_mul(units).min(u64::MAX - from).min(u64::MAX - to);
        let pieces: Vec<_> = a.pieces(from, (&b, to), len).take(PIECES).collect();
        let seen = pieces.last().map_or(0, |p| p.at + p.len);
        prop_assert!(seen == len || pieces.len() == PIECES);
        pieces_are_right((&a, from), (&b, to), seen, &pieces);
    }
}

/// Each copy has every byte, at its own offset, and is as long as the file; the first is where a
/// byte is looked for.
#[test]
fn copies_are_whole_in_each() {
    for (count, first) in (1..=4u32).flat_map(|n| (0..n).map(move |first| (n, first))) {
        let d = Distribution::copies(count, first).unwrap();
        assert!(d.is_whole_in_each() && d.homes(first) == (0..count));
        for o in [0, 7, 1 << 40, u64::MAX - 1, u64::MAX] {
            assert_eq!(d.locate(o), Location { stripe_index: first, object_offset: o });
            assert!((0..count).all(|i| d.file_offset(i, o) == Some(o)));
            assert!((0..count).all(|i| d.object_size_for(o, i) == o));
            assert!((0..count).all(|i| d.file_end_of_object(i, o) == Some(o)));
            assert!((0..count).all(|i| d.bytes_between(i, 3, o) == o.saturating_sub(3)));
            assert!((0..count).all(|i| d.serves(i, 3, o - o.min(3))));
            let run = (o < u64::MAX).then_some((o, u64::MAX));
            assert!((0..count).all(|i| d.next_own_run(i, o) == run));
        }
        assert_eq!(d.extents(5, u64::MAX).count(), 1);
        assert_eq!(
            d.file_size_from_objects([3, 9, 1, 9].into_iter()),
            [3, 9, 9, 9].get(count as usize - 1).copied()
        );
        let none = (d.file_offset(count, 0), d.object_size_for(9, count), d.next_own_run(count, 0));
        assert_eq!(none, (None, 0, None));
        assert!(!d.serves(count, 0, 1) && d.bytes_between(count, 0, 9) == 0);
        let striped = round_robin(4, 3, 1, Form::Sparse);
        for (a, b) in [(&d, &striped), (&striped, &d), (&d, &d)] {
            let pieces: Vec<_> = a.pieces(2, (b, 3), 23).collect();
            pieces_are_right((a, 2), (b, 3), 23, &pieces);
        }
    }
    assert_eq!(Distribution::copies(0, 0), Err(DistributionError::ZeroCount));
    assert_eq!(Distribution::copies(2, 2), Err(DistributionError::FirstBeyondCount));
    let alone = round_robin(4, 1, 0, Form::Sparse);
    assert!(alone.is_whole_in_each() && alone.homes(0) == (0..1));
    assert_eq!(round_robin(4, 3, 0, Form::Sparse).homes(2), 2..3);
}
