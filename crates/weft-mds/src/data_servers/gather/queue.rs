//! Which of the writes to one object wait, and which leave together: a pure state machine.
//!
//! A write that touches none under way and none that waits leaves at once. One that overlaps
//! another comes after it; one that is adjacent to another waits so as to leave with its
//! neighbours. Those that wait are in generations: within one they are disjoint, and each
//! generation has left before the next one begins, so that the later of two overlapping writes
//! wins. Whenever one under way has ended, chains of adjacent writes leave, unless something
//! that touches them is still under way.
//!
//! Nobody waits for ever: nothing that touches a waiting write may overtake it, as it joins its
//! chain, or waits in a later generation, or the queue is full.

use std::collections::{BTreeMap, VecDeque};

use weft_nfs::StableHow;

/// Writes that wait, at most: what comes then does not wait. Each is a request, which its
/// connection has room for; this bounds the time spent on looking through them.
const WAITING_MAX: usize = 256;

/// A write of a range of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write<T> {
    /// First byte.
    pub(super) offset: u64,
    /// Bytes; not 0.
    pub(super) len: u64,
    /// How durable it must be.
    pub(super) stable: StableHow,
    /// The bytes, and who waits for them.
    pub(super) what: T,
}

/// Adjacent writes that leave as one message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<T> {
    /// First byte; names the run for [`Queue::ended`].
    pub(super) offset: u64,
    /// How durable all of it must be.
    pub(super) stable: StableHow,
    /// What is written, in the order of offsets.
    pub(super) parts: Vec<T>,
}

/// What becomes of a write that comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// It leaves at once, and is under way until [`Queue::ended`].
    Leaves(Run<T>),
    /// It leaves later.
    Waits,
    /// There is no room to wait: it leaves beside the queue.
    Passes(T),
}

/// The end of a range, and how durable it must be; found by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    end: u64,
    stable: StableHow,
}

/// The writes to one object with one handle.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Disjoint.
    under_way: BTreeMap<u64, Extent>,
    waiting: VecDeque<BTreeMap<u64, Write<T>>>,
    waiting_count: usize,
    run_bytes_max: u64,
}

impl<T> Queue<T> {
    /// An idle one, whose runs have so many bytes at most.
    pub(super) fn new(run_bytes_max: u64) -> Self {
        let (under_way, waiting) = (BTreeMap::new(), VecDeque::new());
        Queue { under_way, waiting, waiting_count: 0, run_bytes_max }
    }

    /// Nothing is under way; then nothing waits either.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How many writes wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting_count
    }

    /// A write comes.
    pub(super) fn arrive(&mut self, write: Write<T>) -> Arrival<T> {
        let extent = Extent { end: write.end(), stable: write.stable };
        let has_neighbours = touches(&self.under_way, write.offset, extent)
            || self.waiting.iter().any(|g| touches(g, write.offset, extent));
        if !has_neighbours {
            self.under_way.insert(write.offset, extent);
            let Write { offset, stable, what, .. } = write;
            return Arrival::Leaves(Run { offset, stable, parts: vec![what] });
        }
        if self.waiting_count == WAITING_MAX {
            return Arrival::Passes(write.what);
        }
        self.waiting_count += 1;
        let last = self.waiting.back_mut().filter(|g| !overlaps(g, write.offset, extent));
        match last {
            Some(generation) => drop(generation.insert(write.offset, write)),
            None => self.waiting.push_back(BTreeMap::from([(write.offset, write)])),
        }
        Arrival::Waits
    }

    /// The run that begins at `offset` has ended: those that leave now.
    pub(super) fn ended(&mut self, offset: u64) -> Vec<Run<T>> {
        self.under_way.remove(&offset);
        let mut leaving = Vec::new();
        while let Some(generation) = self.waiting.pop_front() {
            let stays = self.part(generation, &mut leaving);
            if !stays.is_empty() {
                self.waiting.push_front(stays);
                break;
            }
        }
        leaving
    }

    /// The run that begins at `offset` has ended, and nothing may come after it: those that
    /// waited.
    pub(super) fn give_up(&mut self, offset: u64) -> Vec<T> {
        self.under_way.remove(&offset);
        self.waiting_count = 0;
        let all = self.waiting.drain(..).flat_map(BTreeMap::into_values);
        all.map(|write| write.what).collect()
    }

    /// Takes from a generation the chains that nothing under way touches; what stays.
    fn part(
        &mut self,
        generation: BTreeMap<u64, Write<T>>,
        leaving: &mut Vec<Run<T>>,
    ) -> BTreeMap<u64, Write<T>> {
        let (mut stays, mut begun) = (BTreeMap::new(), Vec::new());
        for chain in chains(generation) {
            let (Some(first), Some(last)) = (chain.first(), chain.last()) else { continue };
            let extent = Extent { end: last.end(), stable: first.stable };
            if touches(&self.under_way, first.offset, extent) {
                stays.extend(chain.into_iter().map(|write| (write.offset, write)));
            } else {
                self.waiting_count -= chain.len();
                cut(chain, self.run_bytes_max, &mut begun, leaving);
            }
        }
        // Only now: runs of one chain touch each other, and leave together.
        self.under_way.extend(begun);
        stays
    }
}

impl<T> Write<T> {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// The maximal chains of adjacent writes of one level, of writes that are disjoint.
fn chains<T>(writes: BTreeMap<u64, Write<T>>) -> Vec<Vec<Write<T>>> {
    let mut all: Vec<Vec<Write<T>>> = Vec::new();
    for write in writes.into_values() {
        let continues = |chain: &&mut Vec<Write<T>>| {
            chain.last().is_some_and(|w| w.end() == write.offset && w.stable == write.stable)
        };
        match all.last_mut().filter(continues) {
            Some(chain) => chain.push(write),
            None => all.push(vec![write]),
        }
    }
    all
}

/// Cuts a chain into runs of at most so many bytes.
fn cut<T>(
    chain: Vec<Write<T>>,
    bytes_max: u64,
    begun: &mut Vec<(u64, Extent)>,
    leaving: &mut Vec<Run<T>>,
) {
    let mut room = 0;
    for Write { offset, len, stable, what } in chain {
        let end = offset.saturating_add(len);
        match (leaving.last_mut(), begun.last_mut()) {
            (Some(run), Some((_, extent))) if len <= room => {
                run.parts.push(what);
                extent.end = end;
                room -= len;
            }
            _ => {
                leaving.push(Run { offset, stable, parts: vec![what] });
                begun.push((offset, Extent { end, stable }));
                room = bytes_max.saturating_sub(len);
            }
        }
    }
}

/// What can be asked for its extent.
trait Extended {
    fn extent(&self) -> Extent;
}

impl Extended for Extent {
    fn extent(&self) -> Extent {
        *self
    }
}

impl<T> Extended for Write<T> {
    fn extent(&self) -> Extent {
        Extent { end: self.end(), stable: self.stable }
    }
}

/// Those of a set of disjoint extents that overlap or are adjacent to another one.
fn near<E: Extended>(
    all: &BTreeMap<u64, E>,
    offset: u64,
    end: u64,
) -> impl Iterator<Item = (u64, Extent)> {
    let before = all.range(..=end).rev().map(|(from, e)| (*from, e.extent()));
    before.take_while(move |(_, e)| e.end >= offset)
}

fn overlaps<E: Extended>(all: &BTreeMap<u64, E>, offset: u64, extent: Extent) -> bool {
    near(all, offset, extent.end).any(|(from, e)| from < extent.end && offset < e.end)
}

/// Whether one of them overlaps, or could be one message with this one.
fn touches<E: Extended>(all: &BTreeMap<u64, E>, offset: u64, extent: Extent) -> bool {
    overlaps(all, offset, extent)
        || near(all, offset, extent.end).any(|(_, e)| e.stable == extent.stable)
}

#[cfg(test)]
mod tests;
