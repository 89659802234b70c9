//! Data that come from servers.

use bytes::Bytes;

use super::{
    extent::{Extent, State},
    fetches::Fetch,
    file_cache::FileCache,
    payload::Payload,
    span::{Span, narrow, wide},
};
use crate::limits::CACHE_COPY_BELOW_BYTES;

impl<W: Clone + PartialEq, M: Clone, P: Payload> FileCache<W, M, P> {
    /// A range is going to be asked of servers: call it before the request leaves. Every fetch is
    /// ended by [`Self::end_fetch`], whatever becomes of it.
    ///
    /// What is dirty, on its way or not durable now is not kept of the answer: that may have been
    /// given before these data got to the server, or after it lost them, and may come here when
    /// they are durable and evicted.
    pub(crate) fn begin_fetch(&mut self, offset: u64, len: u64) -> Fetch {
        let span = Span::of(offset, len);
        let fetch = self.fetches.begin(span);
        let ours = self.extents.overlapping(span).filter(|(_, e)| e.state.by().is_some());
        let ours = ours.map(|(at, e)| Span::of(at, e.len()));
        let moving = self.in_flight.overlapping(span).map(|(span, _)| span);
        for newer in ours.chain(moving) {
            self.fetches.spoil_one(fetch, newer);
        }
        fetch
    }

    /// Bytes that came: kept where nothing is, if nothing newer was there since the fetch began.
    pub(crate) fn fetched(&mut self, fetch: Fetch, offset: u64, bytes: &Bytes) {
        let wanted = self.wanted(fetch, Span::of(offset, wide(bytes.len())));
        let largest = wanted.iter().map(|gap| gap.len()).max().unwrap_or(0);
        let fills = |part: &Bytes| part.len() >= CACHE_COPY_BELOW_BYTES.max(bytes.len() / 2);
        let mut may_share = true;
        for gap in wanted {
            let part = bytes.slice(narrow(gap.from - offset)..narrow(gap.end - offset));
            let shares = may_share && gap.len() == largest && fills(&part);
            let extent = match shares {
                true => Extent::part_of_buffer(P::of(part), wide(bytes.len()), self.clean()),
                false => {
                    self.extents.note_moved(part.len());
                    Extent::held(P::of(Bytes::copy_from_slice(&part)), self.clean())
                }
            };
            may_share &= !shares;
            self.extents.insert(gap.from, extent);
        }
    }

    /// The same of zeros: what a server says is beyond its object, inside of the file.
    pub(crate) fn fetched_zeros(&mut self, fetch: Fetch, offset: u64, len: u64) {
        for gap in self.wanted(fetch, Span::of(offset, len)) {
            let clean: State<W, M> = self.clean();
            self.extents.insert(gap.from, Extent::zeros(gap.len(), clean));
        }
    }

    /// The fetch that will bring a missing byte, if one is on its way: who wants it need not ask,
    /// but reads again when that has ended.
    pub(crate) fn fetch_of(&self, offset: u64) -> Option<Fetch> {
        self.fetches.bringing(offset)
    }

    /// Nothing more comes.
    pub(crate) fn end_fetch(&mut self, fetch: Fetch) {
        self.fetches.end(fetch);
    }

    /// What of an answer is worth keeping.
    fn wanted(&self, fetch: Fetch, span: Span) -> Vec<Span> {
        let fresh = self.fetches.unspoiled(fetch, span).into_iter();
        fresh.flat_map(|part| self.settled_gaps(part)).collect()
    }
}
