//! Whether a data server has room for new files: what it told, and what it refused. Pure: the time
//! is an argument.

use std::time::{Duration, Instant};

use weft_store::types::DataServerId;

/// Least bytes that are called room, whatever the size of the disk: a few stripe units.
const LOW_BYTES_MIN: u64 = 4 << 20;
/// Most bytes that are called no room, whatever the size of the disk.
const LOW_BYTES_MAX: u64 = 1 << 30;
/// The part of a disk that is called no room, between those two.
const LOW_PART: u64 = 64;
/// How long a data server that refused for want of space is passed over, whatever its figures
/// say: a disk can have bytes and no inodes.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// What new files may hope for from a data server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It is not connected.
    Away,
    /// It is connected and has next to no room.
    Full,
    /// It is connected and has room.
    Ready,
}

/// A data server that new files may be placed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its number.
    pub(crate) id: DataServerId,
    /// Whether it is up and has room.
    pub(crate) standing: Standing,
    /// Bytes that it has for files; `None` before it told.
    pub(crate) available: Option<u64>,
}

/// The room that a data server has, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    available: Option<u64>,
    low: bool,
    refused: Option<Instant>,
}

impl Room {
    /// It told how much it has. Below a mark it is full; it has room again above twice that mark,
    /// so that it does not change with every file.
    pub(crate) fn told(&mut self, total: u64, available: u64) {
        let mark = (total / LOW_PART).clamp(LOW_BYTES_MIN, LOW_BYTES_MAX);
        self.available = Some(available);
        self.low = available < if self.low { mark * 2 } else { mark };
    }

    /// It refused a change for want of space.
    pub(crate) fn refused(&mut self, now: Instant) {
        self.refused = Some(now);
    }

    /// Bytes that it has for files; `None` before it told.
    pub(crate) fn available(&self) -> Option<u64> {
        self.available
    }

    /// Whether it has next to no room.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        let refused = self.refused.is_some_and(|then| now.duration_since(then) < REFUSED_FOR);
        self.low || refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Both sides of both marks, for a small, a middle and a large disk.
    #[test]
    fn a_full_one_has_room_again_above_twice_the_mark() {
        let now = Instant::now();
        let gib = 1024 * MIB;
        for (total, mark) in [(8 * MIB, 4 * MIB), (gib, 16 * MIB), (1 << 40, gib)] {
            let mut room = Room::default();
            assert!(!room.is_full(now), "nobody knows yet");
            let mut told = |available| {
                room.told(total, available);
                room.is_full(now)
            };
            assert!(!told(mark));
            assert!(told(mark - 1));
            assert!(told(2 * mark - 1), "it was full");
            assert!(!told(2 * mark));
            assert!(!told(mark), "it was not");
            assert!(told(0));
            assert_eq!(room.available(), Some(0));
        }
    }

    /// A refusal counts at once and for a while, whatever the figures say.
    #[test]
    fn a_refusal_counts_for_a_while() {
        let (now, mut room) = (Instant::now(), Room::default());
        room.told(1 << 40, 1 << 39);
        room.refused(now);
        assert!(room.is_full(now));
        room.told(1 << 40, 1 << 39);
        assert!(room.is_full(now + REFUSED_FOR - Duration::from_nanos(1)));
        assert!(!room.is_full(now + REFUSED_FOR));
    }
}
