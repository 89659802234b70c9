//! The ranges of a file by offset. No two overlap. What is counted and what is listed (memory,
//! dirty and sent ranges, the queues of clean ones) changes in two places only: `insert` and
//! `remove`, and in `write` for the memory that a growing range takes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    extent::{Body, Extent, State, Tick},
    payload::Payload,
    span::{Span, wide},
    usage::{Held, Kind, Queue, Usage},
};

#[derive(Debug)]
pub(super) struct Extents<W, M, P> {
    by_offset: BTreeMap<u64, Extent<W, M, P>>,
    lists: Lists,
    usage: Usage,
    /// Bytes copied from one place in memory to another since the beginning.
    moved_bytes: u64,
}

/// Where ranges begin, by what they are. A list that gets empty keeps no memory.
#[derive(Debug, Default)]
struct Lists {
    dirty: BTreeSet<u64>,
    sent: BTreeSet<u64>,
    once: BTreeSet<(Tick, u64)>,
    again: BTreeSet<(Tick, u64)>,
}

impl Lists {
    fn add<W, M>(&mut self, state: &State<W, M>, at: u64) {
        match state {
            State::Clean(uses) => drop(self.queue(uses.queue).insert((uses.last, at))),
            State::Dirty { .. } => drop(self.dirty.insert(at)),
            State::Sending { .. } => {}
            State::Sent { .. } => drop(self.sent.insert(at)),
        }
    }

    fn remove<W, M>(&mut self, state: &State<W, M>, at: u64) {
        match state {
            State::Clean(uses) => remove(self.queue(uses.queue), (uses.last, at)),
            State::Dirty { .. } => remove(&mut self.dirty, at),
            State::Sending { .. } => {}
            State::Sent { .. } => remove(&mut self.sent, at),
        }
    }

    fn queue(&mut self, queue: Queue) -> &mut BTreeSet<(Tick, u64)> {
        match queue {
            Queue::Once => &mut self.once,
            Queue::Again => &mut self.again,
        }
    }
}

fn remove<T: Ord>(list: &mut BTreeSet<T>, entry: T) {
    list.remove(&entry);
    if list.is_empty() {
        *list = BTreeSet::new();
    }
}

impl<W, M, P> Default for Extents<W, M, P> {
    fn default() -> Self {
        Extents {
            by_offset: BTreeMap::new(),
            lists: Lists::default(),
            usage: Usage::default(),
            moved_bytes: 0,
        }
    }
}

impl<W: Clone + PartialEq, M: Clone, P: Payload> Extents<W, M, P> {
    /// Puts a range where nothing is.
    pub(super) fn insert(&mut self, at: u64, extent: Extent<W, M, P>) {
        debug_assert!(
            !self.overlapping(Span::of(at, extent.len())).any(|_| true),
            "a range is put where another one is"
        );
        let held = Held { ranges: 1, bytes: extent.held_bytes() };
        self.usage.count(extent.state.kind(), held);
        self.lists.add(&extent.state, at);
        self.by_offset.insert(at, extent);
    }

    /// Takes out the range that begins at an offset.
    pub(super) fn remove(&mut self, at: u64) -> Option<Extent<W, M, P>> {
        let extent = self.by_offset.remove(&at)?;
        let held = Held { ranges: 1, bytes: extent.held_bytes() };
        self.usage.uncount(extent.state.kind(), held);
        self.lists.remove(&extent.state, at);
        if self.by_offset.is_empty() {
            // Else it keeps room for eleven ranges, as long as the file is open.
            self.by_offset = BTreeMap::new();
        }
        Some(extent)
    }

    /// Writes into the growing range that begins at an offset, or behind its end, where nothing is.
    pub(super) fn write(&mut self, at: u64, offset: u64, data: &[u8]) {
        let Some(extent) = self.by_offset.get_mut(&at) else { return };
        let (kind, before) = (extent.state.kind(), extent.held_bytes());
        self.moved_bytes += extent.write(offset - at, data);
        let after = extent.held_bytes();
        self.usage.uncount(kind, Held { ranges: 0, bytes: before });
        self.usage.count(kind, Held { ranges: 0, bytes: after });
    }

    /// Takes everything out of a range of offsets.
    pub(super) fn cut(&mut self, span: Span) {
        for at in self.starts(span) {
            self.divide(at, span, false);
        }
    }

    /// Sees to it that the chosen ranges do not reach over the edges of a range of offsets.
    /// Where those within it begin.
    pub(super) fn isolate(
        &mut self,
        span: Span,
        is_chosen: impl Fn(&State<W, M>) -> bool,
    ) -> Vec<u64> {
        let chosen = |(at, e): (u64, &Extent<W, M, P>)| is_chosen(&e.state).then_some(at);
        let starts: Vec<u64> = self.overlapping(span).filter_map(chosen).collect();
        for at in &starts {
            let whole = self.span_at(*at);
            if whole.is_some_and(|whole| whole.from < span.from || whole.end > span.end) {
                self.divide(*at, span, true);
            }
        }
        starts.into_iter().map(|at| at.max(span.from)).collect()
    }

    /// Divides the range that begins at an offset by another range that it meets.
    fn divide(&mut self, at: u64, by: Span, with_middle: bool) {
        let Some(extent) = self.remove(at) else { return };
        let whole = Span::of(at, extent.len());
        let Some(middle) = whole.meet(by) else { return self.insert(at, extent) };
        let (parts, moved) = extent.divide(middle.from - at, middle.end - at, with_middle);
        self.moved_bytes += moved;
        for (at, part) in [at, middle.from, middle.end].into_iter().zip(parts) {
            if let Some(part) = part {
                self.insert(at, part);
            }
        }
    }

    /// The range that begins at an offset becomes something else.
    pub(super) fn set_state(&mut self, at: u64, state: State<W, M>) {
        let Some(extent) = self.by_offset.get_mut(&at) else { return };
        let held = Held { ranges: 1, bytes: extent.held_bytes() };
        let old = std::mem::replace(&mut extent.state, state);
        self.usage.uncount(old.kind(), held);
        self.lists.remove(&old, at);
        let held = Held { ranges: 1, bytes: extent.held_bytes() };
        self.usage.count(extent.state.kind(), held);
        self.lists.add(&extent.state, at);
    }

    /// Another client may have written over the range that begins at an offset, if it has left.
    pub(super) fn doubt(&mut self, at: u64) {
        match self.by_offset.get_mut(&at).map(|extent| &mut extent.state) {
            Some(State::Sending { in_doubt, .. } | State::Sent { in_doubt, .. }) => {
                *in_doubt = true;
            }
            Some(State::Clean(_) | State::Dirty { .. }) | None => {}
        }
    }

    /// Notes that bytes of the clean range that begins at an offset were read.
    pub(super) fn touch(&mut self, at: u64, bytes: u64, now: Tick) {
        let Some(extent) = self.by_offset.get_mut(&at) else { return };
        let twice = extent.len().saturating_mul(2);
        let State::Clean(uses) = &mut extent.state else { return };
        let old = *uses;
        uses.read_bytes = uses.read_bytes.saturating_add(bytes);
        // A stream reads everything once, in whatever pieces. What was read twice is used again.
        if uses.queue == Queue::Once && uses.read_bytes >= twice {
            uses.queue = Queue::Again;
        }
        uses.last = uses.last.max(now);
        let new = *uses;
        if (old.queue, old.last) == (new.queue, new.last) {
            return;
        }
        let held = Held { ranges: 1, bytes: extent.held_bytes() };
        self.usage.uncount(Kind::Clean(old.queue), held);
        self.usage.count(Kind::Clean(new.queue), held);
        self.lists.queue(new.queue).insert((new.last, at));
        remove(self.lists.queue(old.queue), (old.last, at));
    }

    /// Joins the range that begins at an offset with those behind it, while they touch, are dirty
    /// by the same, and are no longer than what is before them: then a byte moves once each time
    /// that the range it is in has at least doubled. None reaches beyond `limit`.
    pub(super) fn join(&mut self, at: u64, limit: u64) {
        while let Some(next) = self.joins(at, limit) {
            let Some(gone) = self.remove(next) else { return };
            if let Some(bytes) = gone.memory() {
                self.write(at, next, bytes);
            }
        }
    }

    /// Where the range begins that is to be joined with the one before it.
    fn joins(&self, at: u64, limit: u64) -> Option<u64> {
        let this = self.by_offset.get(&at)?;
        let by = this.state.by()?;
        let end = at + this.len();
        let next = self.by_offset.get(&end).filter(|next| next.state.is_dirty_by(by))?;
        let fits = end + next.len() <= limit && next.len() <= this.len();
        let grows = matches!(this.body, Body::Growing(_)) && this.state.is_dirty_by(by);
        (fits && grows && next.memory().is_some()).then_some(end)
    }

    pub(super) fn note_moved(&mut self, bytes: usize) {
        self.moved_bytes += wide(bytes);
    }

    pub(super) fn get(&self, at: u64) -> Option<&Extent<W, M, P>> {
        self.by_offset.get(&at)
    }

    fn span_at(&self, at: u64) -> Option<Span> {
        self.by_offset.get(&at).map(|e| Span::of(at, e.len()))
    }

    /// The last range that begins at or before an offset.
    pub(super) fn last_to(&self, offset: u64) -> Option<(u64, &Extent<W, M, P>)> {
        self.by_offset.range(..=offset).next_back().map(|(at, e)| (*at, e))
    }

    /// The range that has an offset, or else the first one behind it.
    pub(super) fn first_from(&self, offset: u64) -> Option<(u64, &Extent<W, M, P>)> {
        let here = self.last_to(offset).filter(|(at, e)| at + e.len() > offset);
        here.or_else(|| self.by_offset.range(offset..).next().map(|(at, e)| (*at, e)))
    }

    /// The ranges that meet a range of offsets, in order.
    pub(super) fn overlapping(
        &self,
        span: Span,
    ) -> impl Iterator<Item = (u64, &Extent<W, M, P>)> + use<'_, W, M, P> {
        let first = self.last_to(span.from).filter(|(at, e)| at + e.len() > span.from);
        let from = first.map_or(span.from, |(at, _)| at);
        let to = if span.is_empty() { from } else { span.end };
        self.by_offset.range(from..to).map(|(at, e)| (*at, e))
    }

    pub(super) fn starts(&self, span: Span) -> Vec<u64> {
        self.overlapping(span).map(|(at, _)| at).collect()
    }

    /// Where nothing is, in order.
    pub(super) fn gaps(&self, span: Span) -> Vec<Span> {
        let (mut gaps, mut from) = (Vec::new(), span.from);
        for (at, extent) in self.overlapping(span) {
            if from < at {
                gaps.push(Span { from, end: at });
            }
            from = at + extent.len();
        }
        if from < span.end {
            gaps.push(Span { from, end: span.end });
        }
        gaps
    }

    /// The dirty ranges, in order.
    pub(super) fn dirty(&self) -> impl Iterator<Item = (u64, &Extent<W, M, P>)> {
        self.lists.dirty.iter().filter_map(|at| Some((*at, self.by_offset.get(at)?)))
    }

    /// The sent ranges that begin at or after an offset, in order.
    pub(super) fn sent(&self, from: u64) -> impl Iterator<Item = (u64, &Extent<W, M, P>)> {
        self.lists.sent.range(from..).filter_map(|at| Some((*at, self.by_offset.get(at)?)))
    }

    /// Of a queue: since when the range was not used that was not used for longest, and where it
    /// begins.
    pub(super) fn oldest(&self, queue: Queue) -> Option<(Tick, u64)> {
        match queue {
            Queue::Once => self.lists.once.first().copied(),
            Queue::Again => self.lists.again.first().copied(),
        }
    }

    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    #[cfg(test)]
    pub(super) fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

#[cfg(test)]
impl<W: Clone + PartialEq + std::fmt::Debug, M: Clone, P: Payload> Extents<W, M, P> {
    /// Panics unless all that is counted and listed is what is there.
    pub(super) fn assert_consistent(&self) {
        let (mut usage, mut end) = (Usage::default(), 0);
        let [mut dirty, mut sent] = [BTreeSet::new(), BTreeSet::new()];
        let [mut once, mut again] = [BTreeSet::new(), BTreeSet::new()];
        for (at, e) in &self.by_offset {
            assert!(*at >= end, "ranges overlap at {at}");
            assert!(e.len() > 0, "an empty range at {at}");
            end = at.checked_add(e.len()).expect("no range ends behind the last offset");
            assert!(e.memory().is_none_or(|m| wide(m.len()) <= e.held_bytes()));
            usage.count(e.state.kind(), Held { ranges: 1, bytes: e.held_bytes() });
            match &e.state {
                State::Clean(u) if u.queue == Queue::Once => drop(once.insert((u.last, *at))),
                State::Clean(u) => drop(again.insert((u.last, *at))),
                State::Dirty { .. } => drop(dirty.insert(*at)),
                State::Sending { .. } => {}
                State::Sent { .. } => drop(sent.insert(*at)),
            }
        }
        assert_eq!(usage, self.usage);
        assert_eq!((&dirty, &sent), (&self.lists.dirty, &self.lists.sent));
        assert_eq!((&once, &again), (&self.lists.once, &self.lists.again));
    }
}
