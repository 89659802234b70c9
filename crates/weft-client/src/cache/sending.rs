//! Dirty data that go to servers.

use bytes::{Bytes, BytesMut};

use super::{
    extent::{Body, Extent, SendingNo, State},
    file_cache::FileCache,
    payload::Payload,
    span::Span,
};

/// What may leave together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take {
    /// Bytes at most. One is always taken.
    pub(crate) bytes: u64,
    /// Runs at most: what touches is one.
    pub(crate) runs: usize,
    /// Full units of that many bytes leave before anything else does; 1: there are none.
    pub(crate) unit_bytes: u64,
    /// Whether what fills no unit may leave, too, if there is no full one.
    pub(crate) partial: bool,
}

impl Take {
    /// Everything, at most so much at a time.
    pub(crate) fn all(bytes: u64, runs: usize) -> Take {
        Take { bytes, runs, unit_bytes: 1, partial: true }
    }
}

/// What leaves together.
#[derive(Debug, Clone)]
pub(crate) struct Sending<W, P> {
    pub(crate) no: SendingNo,
    /// Who wrote all of it.
    pub(crate) by: W,
    /// By offset. Those that touch are one run, in pieces because they are not one in memory, or
    /// of two blocks.
    pub(crate) pieces: Vec<(u64, P)>,
}

/// How a part of a sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived<M> {
    Durable,
    /// Servers may lose it. What they said.
    Unstable(M),
}

/// What is dirty and has not left.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Something that may leave.
    Ready,
    /// Only what was written over something that is still on its way: once that has ended.
    Waiting,
}

impl<W: Clone + PartialEq, M: Clone, P: Payload> FileCache<W, M, P> {
    /// Takes dirty data to be sent, of the writer of the first that may leave. Nothing that lies
    /// over something on its way: this must have ended before. Every sending ends with
    /// [`Self::ended`], or [`Self::arrived`] for all of it.
    pub(crate) fn take_dirty(&mut self, take: &Take) -> Option<Sending<W, P>> {
        let unit = take.unit_bytes.max(1);
        if unit > 1 && self.no_full != Some(unit) {
            if let Some((by, spans)) = self.choose(take, unit) {
                return Some(self.send(by, &spans));
            }
            // To look at all that is dirty once is enough, until something is added.
            self.no_full = Some(unit);
        }
        if unit > 1 && !take.partial {
            return None;
        }
        let (by, spans) = self.choose(take, 1)?;
        Some(self.send(by, &spans))
    }

    /// What is left for [`Self::take_dirty`].
    #[cfg(test)]
    pub(crate) fn left(&self) -> Left {
        let mut dirty = self.extents.dirty().peekable();
        if dirty.peek().is_none() {
            return Left::Nothing;
        }
        match dirty.any(|(at, e)| !self.in_flight.meets(Span::of(at, e.len()))) {
            true => Left::Ready,
            false => Left::Waiting,
        }
    }

    /// A part of a sending is at its servers. What was written over it since is not.
    pub(crate) fn arrived(&mut self, no: SendingNo, offset: u64, len: u64, how: &Arrived<M>) {
        for part in self.in_flight.end(no, Span::of(offset, len)) {
            self.no_full = None;
            for (at, by) in self.still_of(no, part) {
                match how {
                    Arrived::Durable => self.make_clean(at),
                    Arrived::Unstable(mark) => {
                        let old = self.extents.get(at).map(|e| &e.state);
                        let in_doubt = old.is_some_and(State::is_in_doubt);
                        let (mark, after) = (mark.clone(), self.round);
                        let sent = State::Sent { by, mark, after, in_doubt };
                        self.extents.set_state(at, sent);
                    }
                }
            }
        }
    }

    /// A sending is over: what of it did not arrive is dirty again, but for what was written over
    /// it since. Not before no server can still get it: what is sent next would be overtaken.
    pub(crate) fn ended(&mut self, no: SendingNo) {
        for part in self.in_flight.end(no, Span::ALL) {
            self.no_full = None;
            for (at, by) in self.still_of(no, part) {
                self.extents.set_state(at, State::Dirty { by });
            }
        }
    }

    /// Where the ranges begin within a span that are as they were sent, and who wrote them.
    fn still_of(&mut self, no: SendingNo, span: Span) -> Vec<(u64, W)> {
        let is_of = |state: &State<W, M>| matches!(state, State::Sending { of, .. } if *of == no);
        let starts = self.extents.isolate(span, is_of).into_iter();
        starts.filter_map(|at| Some((at, self.extents.get(at)?.state.by()?.clone()))).collect()
    }

    /// What leaves, and who wrote it; of each run only full units of that many bytes.
    fn choose(&self, take: &Take, unit: u64) -> Option<(W, Vec<Span>)> {
        let mut room = take.bytes.max(1);
        let mut chosen: Option<(W, Vec<Span>)> = None;
        for (run, by) in self.runs() {
            if chosen.as_ref().is_some_and(|(other, _)| other != by) {
                continue;
            }
            let Some(run) = full_units(run, unit) else { continue };
            let spans = &mut chosen.get_or_insert_with(|| (by.clone(), Vec::new())).1;
            let part = self.limited(run, room, unit, spans.is_empty());
            if part.is_empty() {
                break;
            }
            spans.push(part);
            room -= part.len().min(room);
            if room == 0 || part.end < run.end || spans.len() >= take.runs.max(1) {
                break;
            }
        }
        chosen
    }

    /// The beginning of a run that there is room for, up to the edge of a unit, or of a block where
    /// there are none: so that no range is divided. Nothing, if there is no such edge; but what is
    /// first leaves, as much of a block as there is room for, or one whole unit.
    fn limited(&self, run: Span, room: u64, unit: u64, is_first: bool) -> Span {
        if run.len() <= room {
            return run;
        }
        let end = run.from + room;
        let (edge, least) = match unit > 1 {
            true => (end - end % unit, run.from + unit),
            false => (self.block_of(end).from, end),
        };
        let end = match (edge > run.from, is_first) {
            (true, _) => edge,
            (false, true) => least,
            (false, false) => run.from,
        };
        Span { from: run.from, end }
    }

    /// The dirty ranges that may leave, those that touch and have one writer as one; in order.
    fn runs(&self) -> impl Iterator<Item = (Span, &W)> {
        let ready = self.extents.dirty().filter_map(|(at, e)| {
            let span = Span::of(at, e.len());
            Some((span, e.state.by().filter(|_| !self.in_flight.meets(span))?))
        });
        let mut ready = ready.peekable();
        std::iter::from_fn(move || {
            let (mut run, by) = ready.next()?;
            while let Some((next, _)) = ready.next_if(|(n, w)| n.from == run.end && *w == by) {
                run.end = next.end;
            }
            Some((run, by))
        })
    }

    /// Marks ranges as being on their way. What touches within a block becomes one in memory.
    fn send(&mut self, by: W, spans: &[Span]) -> Sending<W, P> {
        let no = self.in_flight.begin(spans);
        let mut pieces = Vec::new();
        for span in spans {
            let starts = self.extents.isolate(*span, |state| state.is_dirty_by(&by));
            let mut starts = starts.into_iter().peekable();
            while let Some(at) = starts.next() {
                let block = self.block_of(at);
                let mut parts = vec![at];
                while let Some(next) = starts.next_if(|next| *next < block.end) {
                    parts.push(next);
                }
                self.make_one(&parts, &by);
                for at in parts {
                    let Some(mut extent) = self.extents.remove(at) else { continue };
                    extent.freeze();
                    extent.state = State::Sending { by: by.clone(), of: no, in_doubt: false };
                    if let Body::Held(payload) = &extent.body {
                        pieces.push((at, payload.clone()));
                    }
                    self.extents.insert(at, extent);
                }
            }
        }
        Sending { no, by, pieces }
    }

    /// Joins dirty ranges that touch, if all of them are in memory.
    fn make_one(&mut self, parts: &[u64], by: &W) {
        let bytes = |at: &u64| self.extents.get(*at).and_then(Extent::memory);
        let Some(all) = parts.iter().map(bytes).collect::<Option<Vec<&[u8]>>>() else { return };
        if all.len() < 2 {
            return;
        }
        let mut joined = BytesMut::with_capacity(all.iter().map(|part| part.len()).sum());
        all.iter().for_each(|part| joined.extend_from_slice(part));
        let joined: Bytes = joined.freeze();
        self.extents.note_moved(joined.len());
        for at in parts {
            self.extents.remove(*at);
        }
        if let Some(first) = parts.first() {
            let dirty = State::Dirty { by: by.clone() };
            self.extents.insert(*first, Extent::held(P::of(joined), dirty));
        }
    }
}

/// The full units of a run.
fn full_units(run: Span, unit: u64) -> Option<Span> {
    let from = run.from.checked_next_multiple_of(unit)?;
    let full = Span { from, end: run.end - run.end % unit };
    (!full.is_empty()).then_some(full)
}
