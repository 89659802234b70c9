//! The queue against an array of bytes, with runs that end in any order.

use proptest::prelude::*;

use super::*;

const RUN_MAX: u64 = 6;
const BYTES: usize = 24;
const LEVELS: [StableHow; 2] = [StableHow::UNSTABLE, StableHow::FILE_SYNC];

/// A write and the number that its bytes have.
type Numbered = Write<(u64, u64, u8)>;

fn numbered(number: u8, offset: u64, len: u64, stable: StableHow) -> Numbered {
    Write { offset, len, stable, what: (offset, len, number) }
}

/// A queue, a data server that carries out runs as they end, and what it should have in the end.
#[derive(Debug)]
struct World {
    queue: Queue<(u64, u64, u8)>,
    under_way: Vec<Run<(u64, u64, u8)>>,
    object: [u8; BYTES],
    wanted: [u8; BYTES],
    messages: usize,
}

impl World {
    fn new() -> World {
        let (object, wanted) = ([0; BYTES], [0; BYTES]);
        let queue = Queue::new(RUN_MAX);
        World { queue, under_way: Vec::new(), object, wanted, messages: 0 }
    }

    fn arrive(&mut self, write: Numbered) {
        let (offset, len, number) = write.what;
        put(&mut self.wanted, offset, len, number);
        match self.queue.arrive(write) {
            Arrival::Leaves(run) => self.leave(run),
            Arrival::Waits => {}
            Arrival::Passes(_) => panic!("few wait"),
        }
        self.check();
    }

    /// One message: in one piece, not too long, over nothing that is under way.
    fn leave(&mut self, run: Run<(u64, u64, u8)>) {
        let mut at = run.offset;
        for (offset, len, _) in &run.parts {
            assert_eq!(*offset, at, "{run:?}");
            at += len;
        }
        assert!(run.parts.len() == 1 || at - run.offset <= RUN_MAX, "{run:?}");
        for other in &self.under_way {
            let end: u64 = other.offset + other.parts.iter().map(|p| p.1).sum::<u64>();
            assert!(at <= other.offset || end <= run.offset, "{run:?} over {other:?}");
        }
        self.messages += 1;
        self.under_way.push(run);
    }

    fn end(&mut self, index: usize) {
        let run = self.under_way.remove(index % self.under_way.len());
        for (offset, len, number) in &run.parts {
            put(&mut self.object, *offset, *len, *number);
        }
        for next in self.queue.ended(run.offset) {
            self.leave(next);
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.queue.is_idle(), self.under_way.is_empty());
        let waiting: usize = self.queue.waiting.iter().map(BTreeMap::len).sum();
        assert_eq!(self.queue.waiting(), waiting);
        assert!(waiting == 0 || !self.queue.is_idle(), "nobody would wake them");
    }

    fn end_all(&mut self) {
        while !self.under_way.is_empty() {
            self.end(0);
        }
        assert_eq!(self.object, self.wanted);
        assert!(self.queue.waiting.is_empty());
    }
}

fn put(bytes: &mut [u8; BYTES], offset: u64, len: u64, number: u8) {
    let from = usize::try_from(offset).unwrap();
    bytes[from..from + usize::try_from(len).unwrap()].fill(number);
}

/// Every order in which three writes of any ranges of three blocks, of both levels, arrive and
/// end: the bytes are those of the writes one after another.
#[test]
fn all_short_histories() {
    let ranges = [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)];
    let kinds: Vec<_> = ranges.iter().flat_map(|r| LEVELS.map(|level| (*r, level))).collect();
    // Digits of a history: which kind arrives, then how many runs end, and the first or the last.
    let histories = kinds.len().pow(3) * 6usize.pow(2);
    for history in 0..histories {
        let mut rest = history;
        let mut digit = |base: usize| {
            let digit = rest % base;
            rest /= base;
            digit
        };
        let mut world = World::new();
        for number in 1..=3 {
            let ((offset, len), stable) = kinds[digit(kinds.len())];
            world.arrive(numbered(number, offset, len, stable));
            if number < 3 {
                let (ends, which) = (digit(3), digit(2));
                for _ in 0..ends.min(world.under_way.len()) {
                    world.end(which * 7);
                    if world.under_way.is_empty() {
                        break;
                    }
                }
            }
        }
        world.end_all();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Long histories of overlapping and adjacent writes, with runs that end at any time in any
    /// order, give the bytes of the writes one after another.
    #[test]
    fn long_histories(
        events in proptest::collection::vec((0..20u64, 1..5u64, 0..2usize, 0..4usize), 1..80),
    ) {
        let mut world = World::new();
        for (number, (offset, len, level, ends)) in (1..).zip(events) {
            world.arrive(numbered(number, offset, len, LEVELS[level]));
            // A run ends after every third arrival: the rest piles up.
            if ends > 2 {
                world.end(usize::try_from(offset).unwrap());
            }
        }
        world.end_all();
    }
}

fn leaves(run: Arrival<(u64, u64, u8)>) -> Run<(u64, u64, u8)> {
    match run {
        Arrival::Leaves(run) => run,
        other => panic!("{other:?}"),
    }
}

/// A lone write, one that is far from all others, and a neighbour of another level leave at
/// once; a neighbour of the same level waits, and so does what overlaps.
#[test]
fn who_waits() {
    let mut queue = Queue::new(RUN_MAX);
    let [unstable, sync] = LEVELS;
    assert_eq!(leaves(queue.arrive(numbered(1, 4, 2, unstable))).offset, 4);
    assert_eq!(leaves(queue.arrive(numbered(2, 0, 3, unstable))).offset, 0);
    assert_eq!(leaves(queue.arrive(numbered(3, 6, 1, sync))).offset, 6);
    for (offset, len, stable) in [(3, 1, unstable), (5, 1, sync), (3, 1, sync), (7, 1, sync)] {
        assert_eq!(queue.arrive(numbered(4, offset, len, stable)), Arrival::Waits);
    }
    // Next to one that waits.
    assert_eq!(queue.arrive(numbered(5, 8, 1, sync)), Arrival::Waits);
    assert_eq!(leaves(queue.arrive(numbered(6, 10, 1, sync))).offset, 10);
}

/// What came while one was under way leaves as one message, in whatever order it came, up to the
/// most that a message carries.
#[test]
fn neighbours_leave_together() {
    let mut world = World::new();
    for (number, offset) in (1..).zip([0, 8, 6, 2, 4, 10]) {
        world.arrive(numbered(number, offset, 2, StableHow::UNSTABLE));
    }
    // 8 was alone when it came, and so 0 and 8 are under way.
    assert_eq!(world.under_way.len(), 2);
    world.end(0);
    assert_eq!(world.under_way.len(), 1, "what waits touches 8");
    world.end(0);
    let parts: Vec<_> = world.under_way.iter().map(|run| (run.offset, run.parts.len())).collect();
    assert_eq!(parts, [(2, 3), (10, 1)]);
    world.end_all();
    let mut world = World::new();
    for number in 1..=9 {
        world.arrive(numbered(number, 2 * u64::from(number), 2, StableHow::UNSTABLE));
    }
    world.end_all();
    assert_eq!(world.messages, 1 + 3, "sixteen bytes in messages of six");
}

/// When as many wait as may, others pass by; when one has left, there is room again.
#[test]
fn the_queue_has_an_end() {
    let mut queue = Queue::new(1 << 20);
    let write = |n: u64| numbered(0, n, 1, StableHow::UNSTABLE);
    assert_eq!(leaves(queue.arrive(write(0))).offset, 0);
    for n in 1..=WAITING_MAX as u64 {
        assert_eq!(queue.arrive(write(n)), Arrival::Waits, "{n}");
    }
    assert!(matches!(queue.arrive(write(1)), Arrival::Passes(_)));
    let next = queue.ended(0);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].parts.len(), WAITING_MAX);
    assert_eq!(queue.arrive(write(WAITING_MAX as u64 + 1)), Arrival::Waits);
}

/// What waits behind one that was not answered is given back, and the rest goes on.
#[test]
fn what_waits_is_given_up() {
    let mut queue = Queue::new(RUN_MAX);
    let write = |number, offset| numbered(number, offset, 2, StableHow::UNSTABLE);
    leaves(queue.arrive(write(1, 0)));
    leaves(queue.arrive(write(2, 10)));
    for (number, offset) in [(3, 2), (4, 1), (5, 12)] {
        assert_eq!(queue.arrive(write(number, offset)), Arrival::Waits);
    }
    let given_up: Vec<_> = queue.give_up(0).into_iter().map(|(_, _, number)| number).collect();
    assert_eq!(given_up.len(), 3);
    assert!([3, 4, 5].iter().all(|n| given_up.contains(n)));
    assert!(!queue.is_idle());
    assert_eq!(leaves(queue.arrive(write(6, 0))).offset, 0);
    assert!(queue.ended(10).is_empty());
    assert!(queue.ended(0).is_empty() && queue.is_idle());
}

/// Of two streams that overwrite each other all the time, none keeps what waits from leaving.
#[test]
fn nobody_waits_for_ever() {
    let mut world = World::new();
    world.arrive(numbered(1, 4, 2, StableHow::UNSTABLE));
    world.arrive(numbered(2, 6, 2, StableHow::UNSTABLE));
    for number in 3..60 {
        world.arrive(numbered(number, 8 - 4 * u64::from(number % 2), 2, StableHow::UNSTABLE));
        let left = |run: &Run<_>| run.parts.iter().any(|part: &(u64, u64, u8)| part.2 == 2);
        if world.under_way.iter().any(left) {
            return world.end_all();
        }
        world.end(0);
    }
    panic!("the second write never left");
}
