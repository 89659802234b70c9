//! How much memory the ranges of a file take, by what they are.

use crate::limits::RANGE_OVERHEAD_BYTES;

/// Which queue clean data wait in until they are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Not used again since they came.
    Once,
    /// Used again.
    Again,
}

/// What ranges are, as far as memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Clean(Queue),
    Dirty,
    Sending,
    Sent,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Clean(Queue::Once),
        Kind::Clean(Queue::Again),
        Kind::Dirty,
        Kind::Sending,
        Kind::Sent,
    ];
}

/// Ranges, and the bytes of memory that go with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) ranges: u64,
    pub(crate) bytes: u64,
}

impl Held {
    /// With what the ranges take beside their bytes.
    pub(crate) fn total(self) -> u64 {
        self.bytes.saturating_add(self.ranges.saturating_mul(RANGE_OVERHEAD_BYTES))
    }

    fn add(&mut self, other: Held) {
        self.ranges += other.ranges;
        self.bytes += other.bytes;
    }

    /// Takes out what was added before.
    fn sub(&mut self, other: Held) {
        self.ranges = self.ranges.saturating_sub(other.ranges);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// The ranges of a file, or of all files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Clean, not used again.
    pub(crate) once: Held,
    /// Clean, and used again.
    pub(crate) again: Held,
    pub(crate) dirty: Held,
    pub(crate) sending: Held,
    pub(crate) sent: Held,
}

impl Usage {
    /// All memory.
    pub(crate) fn total(&self) -> u64 {
        self.clean() + self.unsettled()
    }

    /// Memory that can be had by evicting.
    pub(crate) fn clean(&self) -> u64 {
        self.once.total() + self.again.total()
    }

    /// Memory of what is not durable yet.
    pub(crate) fn unsettled(&self) -> u64 {
        self.dirty.total() + self.sending.total() + self.sent.total()
    }

    /// Clean memory by its queue.
    pub(super) fn of(&self, queue: Queue) -> u64 {
        match queue {
            Queue::Once => self.once.total(),
            Queue::Again => self.again.total(),
        }
    }

    pub(super) fn count(&mut self, kind: Kind, held: Held) {
        self.place(kind).add(held);
    }

    pub(super) fn uncount(&mut self, kind: Kind, held: Held) {
        self.place(kind).sub(held);
    }

    /// Puts what a file has now in the place of what it had.
    pub(super) fn replace(&mut self, old: &Usage, new: &Usage) {
        for kind in Kind::ALL {
            let (mut old, mut new) = (*old, *new);
            self.place(kind).sub(*old.place(kind));
            self.place(kind).add(*new.place(kind));
        }
    }

    fn place(&mut self, kind: Kind) -> &mut Held {
        match kind {
            Kind::Clean(Queue::Once) => &mut self.once,
            Kind::Clean(Queue::Again) => &mut self.again,
            Kind::Dirty => &mut self.dirty,
            Kind::Sending => &mut self.sending,
            Kind::Sent => &mut self.sent,
        }
    }
}
