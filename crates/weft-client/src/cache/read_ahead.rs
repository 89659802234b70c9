//! What to fetch before it is read: one of these for each open.

use crate::limits::READ_AHEAD_FIRST_BYTES;

use super::span::Span;

/// Reads of an open, as far as they tell what comes next.
///
/// A *stream* is a row of reads each of which begins where the last one ended, or near that while
/// a window is open: kernels and thread pools send the reads of one reader slightly out of order.
/// Its window doubles each time that more is asked for. Any other read closes it. The first read of
/// all begins a stream if it is that of the file's first byte, any other one when two have followed
/// it: so whoever reads here and there asks for nothing.
///
/// Of one stream nothing is asked for twice. Another stream may come where one was, because what
/// was fetched for that may be gone: the caller leaves out what is there.
#[derive(Debug, Clone)]
pub(crate) struct ReadAhead {
    max_bytes: u64,
    unit_bytes: u64,
    /// Where the next read of the row begins.
    next: Option<u64>,
    /// Reads that followed each other; 0 if none did yet.
    row: u32,
    /// How much is asked for next; 0: nothing.
    window: u64,
    /// What was asked for of this stream ends here.
    asked_end: u64,
    /// All before it was asked for when the file was small.
    whole_end: u64,
}

/// Reads that follow another one until that is a stream.
const ROW: u32 = 2;

impl ReadAhead {
    /// At most `max_bytes` ahead, up to multiples of `unit_bytes`.
    pub(crate) fn new(max_bytes: u64, unit_bytes: u64) -> ReadAhead {
        ReadAhead {
            max_bytes,
            unit_bytes: unit_bytes.max(1),
            next: None,
            row: 0,
            window: 0,
            asked_end: 0,
            whole_end: 0,
        }
    }

    /// What to fetch beside what is read now: offset and length. Of a small file that is all of it,
    /// what is read now included.
    pub(crate) fn advise(&mut self, offset: u64, len: u64, size: u64) -> Option<(u64, u64)> {
        let read = Span::of(offset, len).meet(Span::of(0, size))?;
        let is_first = self.next.is_none();
        if is_first && size <= READ_AHEAD_FIRST_BYTES.min(self.max_bytes) {
            self.whole_end = size;
            self.go_on(read, size);
            return Some((0, size));
        }
        if !self.follows(read, is_first) {
            let new = Self::new(self.max_bytes, self.unit_bytes);
            *self = ReadAhead { next: Some(read.end), whole_end: self.whole_end, ..new };
            return None;
        }
        self.go_on(read, self.asked_end);
        if self.row < ROW && read.from != 0 {
            return None;
        }
        self.ask(read, size)
    }

    /// Whether a read belongs to the row.
    fn follows(&self, read: Span, is_first: bool) -> bool {
        let Some(next) = self.next else { return is_first && read.from == 0 };
        if self.window == 0 {
            return read.from == next;
        }
        // What comes before what it follows, or after what follows it.
        let near = self.window.min(READ_AHEAD_FIRST_BYTES);
        read.from <= self.asked_end.max(next) && read.from >= next.saturating_sub(near)
    }

    /// Notes a read of the row.
    fn go_on(&mut self, read: Span, asked_end: u64) {
        let next = self.next.unwrap_or(0);
        self.row = self.row.saturating_add(1);
        self.next = Some(next.max(read.end));
        self.asked_end = asked_end;
    }

    /// The next window, if the reader has come so far into what was asked for that it would have to
    /// wait otherwise.
    fn ask(&mut self, read: Span, size: u64) -> Option<(u64, u64)> {
        let come = read.end.max(self.next.unwrap_or(0));
        let from = self.asked_end.max(self.whole_end).max(come);
        if from - come > self.window / 2 || from >= size || self.max_bytes == 0 {
            return None;
        }
        let doubled = self.window.saturating_mul(2).max(READ_AHEAD_FIRST_BYTES);
        self.window = doubled.min(self.max_bytes);
        let end = from.saturating_add(self.window);
        let end = end.checked_next_multiple_of(self.unit_bytes).unwrap_or(size).min(size);
        self.asked_end = end;
        Some((from, end - from))
    }
}
