//! Memory of large records, used again instead of given back.
//!
//! A fresh buffer of 1 MiB costs 256 page faults, which measured a third of a data server's time
//! while it receives. So a thread remembers the last large records that its connections received;
//! when nobody else holds one any more, its memory takes the next.

use std::{cell::RefCell, collections::VecDeque};

use bytes::{Buf, Bytes, BytesMut};

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

/// Remembers a record that goes to its reader; small ones are not.
pub(crate) fn lend(record: &Bytes) {
    if record.len() < LARGE_BYTES || record.len() > REMEMBERED_BYTES_MAX {
        return;
    }
    REMEMBERED.with_borrow_mut(|r| {
        r.bytes += record.len();
        r.records.push_back(record.clone());
        while r.bytes > REMEMBERED_BYTES_MAX {
            let Some(oldest) = r.records.pop_front() else { break };
            r.bytes -= oldest.len();
        }
    });
}

/// Makes room for `more` bytes behind those of `buffer`, in memory used before if there is any.
pub(crate) fn reserve(buffer: &mut BytesMut, more: usize) {
    let Some(needed) = buffer.len().checked_add(more) else { return };
    if more < LARGE_BYTES || buffer.capacity() >= needed {
        return buffer.reserve(more);
    }
    let mut room = take(needed).unwrap_or_default();
    room.clear();
    // Only a new one allocates here.
    room.reserve(needed.next_multiple_of(GRAIN_BYTES));
    room.extend_from_slice(buffer);
    *buffer = room;
}

/// Moves what is in `buffer` to memory for `bytes` bytes in all, whose byte `at` is the first of a
/// page.
pub(crate) fn align(buffer: &mut BytesMut, bytes: usize, at: usize) {
    let Some(needed) = bytes.checked_add(PAGE_BYTES) else { return };
    let mut room = take(needed).unwrap_or_default();
    room.clear();
    room.reserve(needed.next_multiple_of(GRAIN_BYTES));
    skip_to_page(&mut room, at);
    room.extend_from_slice(buffer);
    *buffer = room;
}

/// `len` bytes that begin at the start of a page, whatever is in them: for a disk that is read past
/// the page cache. Once they are frozen, [`lend_pages`] lets their memory be used again.
pub fn whole_pages(len: usize) -> BytesMut {
    let needed = len.saturating_add(PAGE_BYTES);
    let mut pages = take(needed).unwrap_or_default();
    if pages.len() < needed {
        pages.reserve(needed.next_multiple_of(GRAIN_BYTES) - pages.len());
        pages.resize(needed, 0);
    }
    let skipped = pages.as_ptr().align_offset(PAGE_BYTES);
    pages.advance(skipped);
    pages.truncate(len);
    pages
}

/// Remembers memory that [`whole_pages`] has given out, for this thread.
pub fn lend_pages(pages: &Bytes) {
    lend(pages);
}

/// Leaves out the first bytes of empty memory, so that its byte `at` is the first of a page.
fn skip_to_page(room: &mut BytesMut, at: usize) {
    let skipped = room.as_ptr().wrapping_add(at).align_offset(PAGE_BYTES);
    room.resize(skipped, 0);
    room.advance(skipped);
}

/// Memory of a remembered record that nobody else holds and that `needed` bytes fit.
fn take(needed: usize) -> Option<BytesMut> {
    REMEMBERED.with_borrow_mut(|r| {
        // The newest first: the likeliest to be in the processor's caches.
        for i in (0..r.records.len()).rev() {
            let free = r.records.get(i).is_some_and(|b| b.is_unique() && fits(b, needed));
            let taken = if free { r.records.remove(i) } else { None };
            if let Some(record) = taken {
                r.bytes -= record.len();
                return record.try_into_mut().ok();
            }
        }
        None
    })
}

/// A record of at least `needed` bytes once its memory is rounded up.
fn fits(record: &Bytes, needed: usize) -> bool {
    record.len().next_multiple_of(GRAIN_BYTES) >= needed.next_multiple_of(GRAIN_BYTES)
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

    /// Whole pages are as long as asked, begin where a page does, and are used again.
    #[test]
    fn pages_are_whole() {
        let mut seen = std::collections::BTreeSet::new();
        for len in [RECORD, 1, 5 * PAGE_BYTES, RECORD, RECORD, RECORD / 2, RECORD] {
            let pages = whole_pages(len);
            assert_eq!((pages.len(), pages.as_ptr().align_offset(PAGE_BYTES)), (len, 0));
            let pages = pages.freeze();
            lend_pages(&pages);
            seen.insert(pages.as_ptr());
        }
        assert!(seen.len() <= 4, "{seen:?}");
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
