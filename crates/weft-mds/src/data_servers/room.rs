//! Whether a data server has room for new files: what it told, what it refused, and how much the
//! others have. Pure: the time is an argument.

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
/// A data server is scarce below this part of the room that the roomiest one has: a file that is
/// spread over both would end at its share on the small one ...
const SCARCE_PART: u64 = 8;
/// ... unless it has this many bytes, which hold the share of all but the largest files.
const SCARCE_BYTES_MAX: u64 = 16 << 30;

/// What new files may hope for from a data server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It is not connected.
    Away,
    /// It is connected and has next to no room.
    Full,
    /// It is connected and has room, but far less than the roomiest data server.
    Scarce,
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

/// Marks the data servers that have far less room than the roomiest one. New files get no part
/// there while others remain: the share of a file that grows would not fit.
pub(crate) fn mark_scarce(candidates: &mut [Candidate]) {
    let ready = candidates.iter().filter(|c| c.standing == Standing::Ready);
    let most = ready.filter_map(|c| c.available).max().unwrap_or(0);
    let mark = (most / SCARCE_PART).min(SCARCE_BYTES_MAX);
    for candidate in candidates {
        if candidate.standing == Standing::Ready && candidate.available.is_some_and(|a| a < mark) {
            candidate.standing = Standing::Scarce;
        }
    }
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

    /// Both sides of both marks; data servers that are away or full, or have not told, are neither
    /// marked nor compared with.
    #[test]
    fn far_less_room_than_the_roomiest_is_scarce() {
        use Standing::{Away, Full, Ready, Scarce};
        let marked = |all: &[(Standing, Option<u64>)]| {
            let candidate = |(id, (standing, available)): (u32, &(Standing, Option<u64>))| {
                Candidate { id: DataServerId(id), standing: *standing, available: *available }
            };
            let mut all: Vec<_> = (1..).zip(all).map(candidate).collect();
            mark_scarce(&mut all);
            all.iter().map(|c| c.standing).collect::<Vec<_>>()
        };
        let gib = 1024 * MIB;
        let beside = |left, most| marked(&[(Ready, Some(left)), (Ready, Some(most))]);
        assert_eq!(beside(15 * MIB, 46 * gib), [Scarce, Ready]);
        assert_eq!(beside(gib - 1, 8 * gib), [Scarce, Ready]);
        assert_eq!(beside(gib, 8 * gib), [Ready, Ready]);
        assert_eq!(beside(16 * gib - 1, 1 << 50), [Scarce, Ready]);
        assert_eq!(beside(16 * gib, 1 << 50), [Ready, Ready]);
        assert_eq!(beside(15 * MIB, 15 * MIB), [Ready, Ready]);
        let all = [(Ready, Some(MIB)), (Away, Some(gib)), (Full, Some(gib)), (Ready, None)];
        assert_eq!(marked(&all), [Ready, Away, Full, Ready]);
        assert_eq!(marked(&[(Full, Some(1)), (Ready, Some(gib))]), [Full, Ready]);
        assert_eq!(marked(&[]), []);
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
