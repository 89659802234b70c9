//! A range of file offsets.

/// From one offset up to, not including, another. The largest end is `u64::MAX`: the byte at that
/// offset itself is in no file (RFC 8881 §18.32.3 has lengths, not ends, and ours are clipped).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) end: u64,
}

impl Span {
    /// All offsets.
    pub(crate) const ALL: Span = Span { from: 0, end: u64::MAX };

    /// `len` bytes from an offset, as far as there are offsets.
    pub(crate) fn of(offset: u64, len: u64) -> Span {
        Span { from: offset, end: offset.saturating_add(len) }
    }

    /// The same, if there are as many.
    pub(crate) fn checked(offset: u64, len: u64) -> Option<Span> {
        Some(Span { from: offset, end: offset.checked_add(len)? })
    }

    pub(crate) fn len(self) -> u64 {
        self.end.saturating_sub(self.from)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.from >= self.end
    }

    pub(crate) fn meets(self, other: Span) -> bool {
        self.meet(other).is_some()
    }

    /// What both have.
    pub(crate) fn meet(self, other: Span) -> Option<Span> {
        let both = Span { from: self.from.max(other.from), end: self.end.min(other.end) };
        (!both.is_empty()).then_some(both)
    }

    /// What is left without another one.
    pub(crate) fn without(self, other: Span) -> impl Iterator<Item = Span> {
        let before = Span { from: self.from, end: self.end.min(other.from) };
        let behind = Span { from: self.from.max(other.end), end: self.end };
        // Another one that is empty would leave a part of this one on both of its sides.
        let parts = if self.meets(other) { [before, behind] } else { [self, Span::of(0, 0)] };
        parts.into_iter().filter(|part| !part.is_empty())
    }
}

/// `count` of bytes in memory as an offset has it.
pub(super) fn wide(count: usize) -> u64 {
    // No machine that we run on has addresses of more than 64 bits.
    count as u64
}

/// A distance inside of bytes that are in memory: it never exceeds their number.
pub(super) fn narrow(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
