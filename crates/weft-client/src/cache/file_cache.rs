//! The cache of one file: what is written, read, cut and given up. What travels is in `fetching`,
//! `sending` and `rounds`.

use bytes::Bytes;

use super::{
    extent::{Body, Extent, RoundNo, State, Tick, Uses},
    extents::Extents,
    fetches::Fetches,
    in_flight::InFlight,
    payload::Payload,
    span::{Span, narrow, wide},
    usage::{Queue, Usage},
};
use crate::limits::{CACHE_BLOCK_BYTES, CACHE_COPY_BELOW_BYTES};

/// A write beyond the largest offset: nothing of it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooFar;

/// A part of what was read, by its file offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<P> {
    Here {
        offset: u64,
        bytes: Bytes,
    },
    Zeros {
        offset: u64,
        len: u64,
    },
    /// Not in memory but in a local file. If `at_servers`, they may be asked instead.
    Elsewhere {
        offset: u64,
        payload: P,
        at_servers: bool,
    },
    /// Only the servers know.
    Missing {
        offset: u64,
        len: u64,
    },
}

/// What [`super::Budget`] wants to know of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) usage: Usage,
    /// Since when the range was not used that was not used for longest, of each queue.
    pub(crate) oldest_once: Option<Tick>,
    pub(crate) oldest_again: Option<Tick>,
}

/// The ranges of one file, each in one state: [`super`]. `W` is who wrote them, `M` what servers
/// said that got them, `P` where bytes are that do not change.
#[derive(Debug)]
pub(crate) struct FileCache<W, M, P = Bytes> {
    pub(super) extents: Extents<W, M, P>,
    pub(super) fetches: Fetches,
    pub(super) in_flight: InFlight,
    pub(super) round: RoundNo,
    /// Age of what becomes clean, or is read, now.
    pub(super) now: Tick,
    /// No dirty data in memory reach over a multiple of it.
    block_bytes: u64,
    /// Of this unit there was no full one that was dirty and could leave.
    pub(super) no_full: Option<u64>,
}

impl<W: Clone + PartialEq, M: Clone, P: Payload> FileCache<W, M, P> {
    /// Of a file of which nothing is known. Dirty data are kept in blocks of at most `block_bytes`
    /// ([`CACHE_BLOCK_BYTES`] at most): that of a stripe unit, so that a block goes to one server.
    pub(crate) fn new(block_bytes: u64) -> Self {
        FileCache {
            extents: Extents::default(),
            fetches: Fetches::default(),
            in_flight: InFlight::default(),
            round: RoundNo::default(),
            now: Tick::default(),
            block_bytes: block_bytes.clamp(1, CACHE_BLOCK_BYTES),
            no_full: None,
        }
    }

    /// The same for what is written from now on.
    pub(crate) fn set_block(&mut self, block_bytes: u64) {
        self.block_bytes = block_bytes.clamp(1, CACHE_BLOCK_BYTES);
    }

    /// The age of what is read or becomes clean from now on ([`super::Budget::now`]).
    pub(crate) fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
    }

    /// Bytes written by somebody, copied. They take the place of what was there, and of what is on
    /// its way there.
    ///
    /// # Errors
    /// [`TooFar`].
    ///
    /// **Cost.** What is written into a dirty range of the same writer, or behind it, moves its own
    /// bytes, and those of the range as often as that doubles.
    pub(crate) fn write(&mut self, by: &W, offset: u64, data: &[u8]) -> Result<(), TooFar> {
        let span = Span::checked(offset, wide(data.len())).ok_or(TooFar)?;
        self.overtake(span);
        let mut left = data;
        for part in self.blocks(span) {
            let (now, later) = left.split_at(narrow(part.len()).min(left.len()));
            self.write_block(by, part, now);
            left = later;
        }
        Ok(())
    }

    /// The same of bytes that are kept as they are: large ones, or a range of a local file. Of a
    /// buffer that is longer than a block, the whole goes when the last of its blocks does.
    ///
    /// # Errors
    /// [`TooFar`].
    pub(crate) fn put(&mut self, by: &W, offset: u64, payload: &P) -> Result<(), TooFar> {
        if let Some(small) = payload.bytes().filter(|b| b.len() < CACHE_COPY_BELOW_BYTES) {
            return self.write(by, offset, small);
        }
        let span = Span::checked(offset, payload.len()).ok_or(TooFar)?;
        self.overtake(span);
        self.extents.cut(span);
        let parts = match payload.bytes() {
            Some(_) => self.blocks(span),
            None => vec![span],
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let piece = payload.slice(part.from - offset, part.end - offset);
            let dirty = State::Dirty { by: by.clone() };
            self.extents.insert(part.from, Extent::held(piece, dirty));
        }
        Ok(())
    }

    /// What is known of a range, in order, without gaps. What was written here is always in it.
    ///
    /// Slices share the memory of what is kept, which is therefore not freed by an eviction while
    /// they live, and is not counted then. Of dirty data that still grow the bytes asked for are
    /// copied: to freeze them would copy the whole block at the next write instead.
    pub(crate) fn read(&mut self, offset: u64, len: u64) -> Vec<Part<P>> {
        let span = Span::of(offset, len);
        let (mut parts, mut from) = (Vec::new(), span.from);
        while from < span.end {
            let next = self.extents.first_from(from).filter(|(at, _)| *at < span.end);
            let Some((at, extent)) = next else {
                parts.push(Part::Missing { offset: from, len: span.end - from });
                return parts;
            };
            if from < at {
                parts.push(Part::Missing { offset: from, len: at - from });
                from = at;
            }
            let to = (at + extent.len()).min(span.end);
            let (part, copied) = part_of(extent, at, Span { from, end: to });
            parts.push(part);
            self.extents.note_moved(copied);
            self.extents.touch(at, to - from, self.now);
            from = to;
        }
        parts
    }

    /// The file ends here now: nothing beyond is left, nor kept of what is being fetched. What of
    /// it is on its way ([`Self::is_unsent`]) must have ended before the servers are told, or
    /// it brings the old end back.
    pub(crate) fn truncate(&mut self, size: u64) {
        let beyond = Span { from: size, ..Span::ALL };
        self.overtake(beyond);
        self.extents.cut(beyond);
    }

    /// Another client changed the file: what was as at the servers may not be any more. What was
    /// written here stays until it is durable; what has left of it becomes missing then, because it
    /// may have got to the servers before the other client's bytes.
    pub(crate) fn invalidate(&mut self) {
        self.fetches.spoil(Span::ALL);
        for queue in [Queue::Once, Queue::Again] {
            while let Some((_, at)) = self.extents.oldest(queue) {
                self.extents.remove(at);
            }
        }
        for at in self.extents.starts(Span::ALL) {
            self.extents.doubt(at);
        }
    }

    /// Gives up what somebody wrote and is not durable. What is on its way remains so. No fetch has
    /// been fresh there since it was written.
    pub(crate) fn forget(&mut self, by: &W) {
        let is_his = |(at, e): (u64, &Extent<W, M, P>)| (e.state.by() == Some(by)).then_some(at);
        let all: Vec<u64> = self.extents.overlapping(Span::ALL).filter_map(is_his).collect();
        for at in all {
            self.extents.remove(at);
        }
    }

    /// Evicts clean data of a queue that were not used after `until`, those that were not used for
    /// longest first, until that much memory is free. How much that was.
    pub(crate) fn evict(&mut self, queue: Queue, until: Tick, bytes: u64) -> u64 {
        let before = self.usage().total();
        let mut freed = 0;
        while freed < bytes {
            let oldest = self.extents.oldest(queue).filter(|(last, _)| *last <= until);
            let Some((_, at)) = oldest else { break };
            self.extents.remove(at);
            freed = before.saturating_sub(self.usage().total());
        }
        freed
    }

    /// Whether a part of a range is on its way to servers, be it overtaken or cut off meanwhile.
    #[cfg(test)]
    pub(crate) fn is_on_its_way(&self, offset: u64, len: u64) -> bool {
        self.in_flight.meets(Span::of(offset, len))
    }

    /// Whether a part of a range has not got to servers, be it on its way.
    pub(crate) fn is_unsent(&self, offset: u64, len: u64) -> bool {
        let span = Span::of(offset, len);
        let is_dirty = |(_, e): (u64, &Extent<W, M, P>)| matches!(e.state, State::Dirty { .. });
        self.in_flight.meets(span) || self.extents.overlapping(span).any(is_dirty)
    }

    /// Whether something that was written here is not durable, or is on its way.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.usage().unsettled() > 0 || self.in_flight.meets(Span::ALL)
    }

    /// Who wrote something that has not left, or is not durable.
    pub(crate) fn a_writer(&self) -> Option<&W> {
        self.extents.dirty().chain(self.extents.sent(0)).find_map(|(_, e)| e.state.by())
    }

    /// What only the servers know of a range, in order: offsets and lengths.
    pub(crate) fn missing(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let gaps = self.extents.gaps(Span::of(offset, len));
        gaps.into_iter().map(|gap| (gap.from, gap.len())).collect()
    }

    /// Memory by state.
    pub(crate) fn usage(&self) -> &Usage {
        self.extents.usage()
    }

    pub(crate) fn report(&self) -> Report {
        let oldest = |queue| self.extents.oldest(queue).map(|(last, _)| last);
        Report {
            usage: *self.usage(),
            oldest_once: oldest(Queue::Once),
            oldest_again: oldest(Queue::Again),
        }
    }

    /// Bytes copied from one place in memory to another since the beginning.
    #[cfg(test)]
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.extents.moved_bytes()
    }

    /// The gaps of a range to which nothing is on its way.
    pub(super) fn settled_gaps(&self, span: Span) -> Vec<Span> {
        let mut gaps = self.extents.gaps(span);
        for (moving, _) in self.in_flight.overlapping(span) {
            gaps = gaps.into_iter().flat_map(|gap| gap.without(moving)).collect();
        }
        gaps
    }

    pub(super) fn clean(&self) -> State<W, M> {
        State::Clean(Uses::new(self.now))
    }

    /// The block that an offset is in.
    pub(super) fn block_of(&self, offset: u64) -> Span {
        Span::of(offset - offset % self.block_bytes, self.block_bytes)
    }

    /// What is here of a range changes: answers that are on their way do not have it.
    fn overtake(&mut self, span: Span) {
        self.fetches.spoil(span);
        self.no_full = None;
    }

    /// A range cut at the edges of blocks.
    fn blocks(&self, span: Span) -> Vec<Span> {
        let (mut parts, mut from) = (Vec::new(), span.from);
        while from < span.end {
            let end = self.block_of(from).end.min(span.end);
            parts.push(Span { from, end });
            from = end;
        }
        parts
    }

    /// Writes within one block: into dirty ranges of the same writer where they are, and over
    /// everything else.
    fn write_block(&mut self, by: &W, span: Span, data: &[u8]) {
        let mut from = span.from;
        while from < span.end {
            let here = self.growing(by, Span { from, end: span.end });
            let (to, into) = match here {
                Some((at, extent)) if at <= from => ((at + extent.len()).min(span.end), Some(at)),
                Some((at, _)) => (at, None),
                None => (span.end, None),
            };
            let part = Span { from, end: to };
            let bytes = &data[narrow(from - span.from)..narrow(to - span.from)];
            match into {
                Some(at) => self.extents.write(at, from, bytes),
                None => self.write_over(by, part, bytes),
            }
            from = to;
        }
    }

    /// The first range that meets this one and grows with this writer's writes.
    fn growing(&self, by: &W, span: Span) -> Option<(u64, &Extent<W, M, P>)> {
        let grows =
            |e: &Extent<W, M, P>| matches!(e.body, Body::Growing(_)) && e.state.is_dirty_by(by);
        self.extents.overlapping(span).find(|(_, e)| grows(e))
    }

    /// Writes where nothing grows: behind the range that ends there, if that does, else as a range
    /// of its own.
    fn write_over(&mut self, by: &W, span: Span, bytes: &[u8]) {
        self.extents.cut(span);
        let block = self.block_of(span.from);
        let before = span.from.checked_sub(1).and_then(|last| {
            self.growing(by, Span { from: last, end: span.from }).map(|(at, _)| at)
        });
        let at = match before.filter(|at| *at >= block.from) {
            Some(at) => {
                self.extents.write(at, span.from, bytes);
                at
            }
            None => {
                let dirty = State::Dirty { by: by.clone() };
                self.extents.insert(span.from, Extent::growing(bytes, dirty));
                self.extents.note_moved(bytes.len());
                span.from
            }
        };
        self.extents.join(at, block.end);
    }
}

/// What a reader gets of a range, and how many bytes were copied for it.
fn part_of<W, M, P: Payload>(extent: &Extent<W, M, P>, at: u64, span: Span) -> (Part<P>, usize) {
    let (offset, from, to) = (span.from, span.from - at, span.end - at);
    let here = |bytes| Part::Here { offset, bytes };
    match &extent.body {
        Body::Zeros(_) => (Part::Zeros { offset, len: span.len() }, 0),
        Body::Growing(bytes) => {
            let bytes = Bytes::copy_from_slice(&bytes[narrow(from)..narrow(to)]);
            let copied = bytes.len();
            (here(bytes), copied)
        }
        Body::Held(payload) => match payload.bytes() {
            Some(bytes) => (here(bytes.slice(narrow(from)..narrow(to))), 0),
            None => {
                let payload = payload.slice(from, to);
                let at_servers = match extent.state {
                    State::Clean(_) | State::Sent { .. } => true,
                    State::Dirty { .. } | State::Sending { .. } => false,
                };
                (Part::Elsewhere { offset, payload, at_servers }, 0)
            }
        },
    }
}
