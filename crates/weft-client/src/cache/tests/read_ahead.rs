//! What is read ahead, and what is not.

use crate::cache::ReadAhead;
use crate::limits::READ_AHEAD_FIRST_BYTES as FIRST;
use weft_dev::SeededRng;

const MIB: u64 = 1 << 20;

/// A row of reads gets windows that double up to the maximum, each of which begins where the last
/// one ended; all of the file is asked for, and nothing twice.
#[test]
fn windows_double_and_nothing_is_asked_twice() {
    let (size, mut ahead) = (64 * MIB + 5000, ReadAhead::new(8 * MIB, 4096));
    let (mut asked, mut windows) = (None, Vec::new());
    for at in (0..size).step_by(16384) {
        if let Some((from, len)) = ahead.advise(at, 16384, size) {
            assert!(from > at, "it is ahead");
            assert_eq!(from, asked.unwrap_or(16384), "neither twice nor with gaps");
            assert!((from + len) % 4096 == 0 || from + len == size, "up to a unit");
            asked = Some(from + len);
            windows.push(len);
        }
        assert!(asked.is_some_and(|end| end >= (at + 2 * 16384).min(size)), "in time");
    }
    assert_eq!(asked, Some(size));
    assert!(windows[0] <= FIRST && windows[1] >= FIRST * 3 / 2, "{windows:?}");
    let full = windows.iter().filter(|len| **len >= 8 * MIB - 4096 && **len <= 8 * MIB).count();
    assert!(full >= 5, "{windows:?}");
}

/// Reads of a row that come in pairs, the later one first, keep the window open.
#[test]
fn reads_slightly_out_of_order_are_a_row() {
    let (size, mut ahead) = (64 * MIB, ReadAhead::new(8 * MIB, 4096));
    ahead.advise(0, 65536, size);
    let mut asked = FIRST;
    for n in (1..500_u64).map(|n| n ^ 1) {
        if let Some((from, len)) = ahead.advise(n * 65536, 65536, size) {
            assert!(from >= asked, "nothing twice");
            asked = from + len;
        }
    }
    assert!(asked >= 32 * MIB, "{asked}");
}

/// Whoever reads here and there in a large file asks for nothing after its first read; a row that
/// begins somewhere is noticed by its third read, and one that ends is over at once.
#[test]
fn reads_here_and_there_ask_for_nothing() {
    let (size, mut ahead) = (1024 * MIB, ReadAhead::new(8 * MIB, 4096));
    let mut rng = SeededRng::new(7);
    assert_eq!(ahead.advise(0, 4096, size), Some((4096, FIRST)));
    let mut asked = 0;
    for _ in 0..10_000 {
        let at = rng.below(size / 4096) * 4096;
        asked += u32::from(ahead.advise(at, 4096, size).is_some());
        // The header, again and again.
        asked += u32::from(ahead.advise(0, 4096, size).is_some());
    }
    assert_eq!(asked, 0);
    assert_eq!(ahead.advise(500 * MIB, 4096, size), None);
    assert_eq!(ahead.advise(500 * MIB + 4096, 4096, size), None);
    assert_eq!(ahead.advise(500 * MIB + 8192, 4096, size), Some((500 * MIB + 12288, FIRST)));
    assert_eq!(ahead.advise(7 * MIB, 4096, size), None);
    assert_eq!(ahead.advise(7 * MIB + 4096, 4096, size), None);
}

/// A small file is read whole at its first read, wherever that is, and then no more; one byte more
/// and it is not.
#[test]
fn a_small_file_is_read_whole() {
    let mut ahead = ReadAhead::new(8 * MIB, 4096);
    assert_eq!(ahead.advise(50_000, 10, FIRST), Some((0, FIRST)));
    for at in (0..FIRST).step_by(4096) {
        assert_eq!(ahead.advise(at, 4096, FIRST), None);
    }
    let mut ahead = ReadAhead::new(8 * MIB, 4096);
    assert_eq!(ahead.advise(50_000, 10, FIRST + 1), None);
}

/// Nothing is asked for behind the end, nor without a window, nor of nothing.
#[test]
fn the_ends() {
    let mut ahead = ReadAhead::new(8 * MIB, 4096);
    assert_eq!(ahead.advise(0, 10, 0), None);
    assert_eq!(ahead.advise(5, 0, MIB), None);
    assert_eq!(ahead.advise(MIB, 10, MIB), None);
    let mut none = ReadAhead::new(0, 0);
    for at in 0..100 {
        assert_eq!(none.advise(at * 4096, 4096, 64 * MIB), None);
    }
    let mut far = ReadAhead::new(u64::MAX, 1 << 20);
    let start = u64::MAX - 10 * MIB;
    far.advise(start, 4096, u64::MAX);
    far.advise(start + 4096, 4096, u64::MAX);
    let (from, len) = far.advise(start + 8192, 4096, u64::MAX).expect("it is a row");
    assert!(from.checked_add(len).is_some());
}
