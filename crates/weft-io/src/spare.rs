//! Memory of large records, used again instead of given back.
//!
//! A fresh buffer of 1 MiB costs 256 page faults, which measured a third of a data server's time
//! while it receives. So a thread remembers the last large records that its connections received;
//! when nobody else holds one any more, its memory takes the next.

use std::{cell::RefCell, collections::VecDeque};

use bytes::{Buf, Bytes, BytesMut};

/// Bytes asked for when nothing is known about what comes: several metadata requests, or the head
/// of a WRITE. It bounds what an idle connection holds, and what is copied of a large record.
pub(crate) const AHEAD_BYTES: usize = 16 << 10;

/// Records below this are not worth it: the allocator keeps such sizes itself.
pub(crate) const LARGE_BYTES: usize = 256 << 10;
/// Large buffers are made in multiples of this, so that one fits the next record of like size.
const GRAIN_BYTES: usize = 256 << 10;
/// Memory and offsets of what goes past the page cache are multiples of this, which suits disks
/// with sectors of 512 bytes and of 4096.
pub const PAGE_BYTES: usize = 4096;
/// What a thread remembers at most: a few writes of 1 MiB under way. It bounds what an idle
/// thread holds.
const REMEMBERED_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
struct Remembered {
    records: VecDeque<Bytes>,
    bytes: usize,
}

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

/// Remembers a record that goes to its reader, or memory of [`whole_pages`], for this thread; small
/// ones are not.
pub fn lend(record: &Bytes) {
    if record.len() < LARGE_BYTES || allocated(record.len()) > REMEMBERED_BYTES_MAX {
        return;
    }
    REMEMBERED.with_borrow_mut(|r| {
        r.bytes += allocated(record.len());
        r.records.push_back(record.clone());
        while r.bytes > REMEMBERED_BYTES_MAX {
            let Some(oldest) = r.records.pop_front() else { break };
            r.bytes -= allocated(oldest.len());
        }
    });
}

/// Makes room for `more` bytes behind those of `buffer`, in memory used before if there is any.
pub(crate) fn reserve(buffer: &mut BytesMut, more: usize) {
    let Some(needed) = buffer.len().checked_add(more) else { return };
    if more < LARGE_BYTES || buffer.capacity() >= needed {
        return buffer.reserve(more);
    }
    let mut room = empty(needed);
    room.extend_from_slice(buffer);
    *buffer = room;
}

/// Moves what is in `buffer` to memory for `bytes` bytes in all, whose byte `at` is the first of a
/// page.
pub(crate) fn align(buffer: &mut BytesMut, bytes: usize, at: usize) {
    let mut room = empty(bytes);
    let skipped = room.as_ptr().wrapping_add(at).align_offset(PAGE_BYTES);
    room.resize(skipped, 0);
    room.advance(skipped);
    room.extend_from_slice(buffer);
    *buffer = room;
}

/// `len` zeros that begin at the start of a page: for a disk that is read past the page cache. Once
/// they are frozen, [`lend`] lets their memory be used again.
pub fn whole_pages(len: usize) -> BytesMut {
    let mut pages = BytesMut::new();
    align(&mut pages, len, 0);
    pages.resize(len, 0);
    pages
}

/// Memory for `bytes` bytes, wherever in its first page they begin.
fn empty(bytes: usize) -> BytesMut {
    let mut room = take(bytes).unwrap_or_default();
    room.clear();
    // Only a new one allocates here.
    room.reserve(allocated(bytes));
    room
}

/// What is allocated for so many bytes: also for a page that they may not begin at, and for what is
/// received ahead behind them.
fn allocated(bytes: usize) -> usize {
    bytes.saturating_add(PAGE_BYTES + AHEAD_BYTES).next_multiple_of(GRAIN_BYTES)
}

/// Memory of a remembered record that nobody else holds, as large as is allocated for `needed`
/// bytes: larger memory would be remembered for less than it is.
fn take(needed: usize) -> Option<BytesMut> {
    REMEMBERED.with_borrow_mut(|r| {
        // The newest first: the likeliest to be in the processor's caches.
        for i in (0..r.records.len()).rev() {
            let fits = |b: &Bytes| b.is_unique() && allocated(b.len()) == allocated(needed);
            let taken = if r.records.get(i).is_some_and(fits) { r.records.remove(i) } else { None };
            if let Some(record) = taken {
                r.bytes -= allocated(record.len());
                return record.try_into_mut().ok();
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: usize = (1 << 20) + 200;

    /// A buffer filled as the record reader fills it: the head first, then room for the rest.
    fn filled(byte: u8) -> BytesMut {
        let mut buffer = BytesMut::from(&[byte; 100][..]);
        reserve(&mut buffer, RECORD - 100);
        buffer.resize(RECORD, byte);
        buffer
    }

    /// A record as the reader gives it out: a part split off, the header before it dropped.
    fn record(byte: u8) -> Bytes {
        let mut buffer = filled(byte);
        let _header = buffer.split_to(4);
        let record = buffer.split().freeze();
        lend(&record);
        record
    }

    fn remembered() -> (usize, usize) {
        REMEMBERED.with_borrow(|r| (r.records.len(), r.bytes))
    }

    /// Memory is used again once the record is dropped, and never while anybody holds a part.
    #[test]
    fn memory_is_used_again() {
        let first = record(1);
        let part = first.slice(5..10);
        drop(first);
        let second = record(2);
        assert_eq!((&part[..], second[0]), (&[1; 5][..], 2));
        assert_eq!(remembered().0, 2);
        let at = second.as_ptr();
        drop((part, second));
        for byte in 3..50 {
            let next = record(byte);
            assert!(next.iter().all(|b| *b == byte) && next.len() == RECORD - 4);
            assert_eq!(next.as_ptr(), at, "the same memory, in the same place");
        }
        assert_eq!(remembered().0, 2);
    }

    /// What is remembered is bounded, however many records are under way.
    #[test]
    fn memory_is_bounded() {
        let held: Vec<Bytes> = (0..40).map(record).collect();
        let (records, bytes) = remembered();
        assert!(bytes <= REMEMBERED_BYTES_MAX && records < 8, "{records} {bytes}");
        assert!(held.iter().enumerate().all(|(i, r)| r.iter().all(|b| usize::from(*b) == i)));
        lend(&Bytes::from(vec![0; LARGE_BYTES - 1]));
        assert_eq!(remembered(), (records, bytes), "small records are not remembered");
    }

    /// Whole pages are as long as asked, begin where a page does, and are used again, also in turns
    /// with records; and nobody sees what was in them.
    #[test]
    fn pages_are_whole() {
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..40u8 {
            for len in [1 << 20, 256 << 10, RECORD] {
                let mut pages = whole_pages(len);
                assert_eq!((pages.len(), pages.as_ptr().align_offset(PAGE_BYTES)), (len, 0));
                assert!(pages.iter().all(|b| *b == 0));
                pages.fill(1 + n);
                let pages = pages.freeze();
                lend(&pages);
                seen.insert(pages.as_ptr().addr() / GRAIN_BYTES);
            }
            seen.insert(record(n).as_ptr().addr() / GRAIN_BYTES);
        }
        assert!(seen.len() <= 8, "{seen:?}");
        assert!(remembered().1 <= REMEMBERED_BYTES_MAX);
        assert_eq!(whole_pages(1).len(), 1);
    }

    /// A larger record does not get smaller memory.
    #[test]
    fn memory_must_fit() {
        drop(record(1));
        let mut buffer = BytesMut::new();
        reserve(&mut buffer, 3 << 20);
        assert!(buffer.capacity() >= 3 << 20);
        assert_eq!(remembered().0, 1);
    }
}
