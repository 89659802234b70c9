//! COMMITs of what servers have and may lose: RFC 8881 §18.3, §13.7.

use super::{
    extent::{Body, Extent, RoundNo, State},
    file_cache::FileCache,
    payload::Payload,
};

/// A range that servers have and may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent<'a, W, M> {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) by: &'a W,
    pub(crate) mark: &'a M,
}

impl<W: Clone + PartialEq, M: Clone, P: Payload> FileCache<W, M, P> {
    /// All that waits for a COMMIT, in order.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Sent<'_, W, M>> {
        self.extents.sent(0).filter_map(|(at, e)| seen(at, e)).map(|(_, sent)| sent)
    }

    /// Begins a round: all that servers have now is to be confirmed by it.
    pub(crate) fn begin_round(&mut self) -> RoundNo {
        self.round.0 += 1;
        self.round
    }

    /// What a round has confirmed becomes clean; a range of a local file is forgotten.
    pub(crate) fn settle(&mut self, round: RoundNo, is_durable: impl Fn(&M) -> bool) {
        let sent = self.extents.sent(0).filter_map(|(at, e)| seen(at, e));
        let durable = sent.filter(|(after, sent)| *after < round && is_durable(sent.mark));
        for at in durable.map(|(_, sent)| sent.offset).collect::<Vec<_>>() {
            self.make_clean(at);
        }
    }

    /// The first range at or after an offset that a round should have confirmed and did not.
    #[cfg(test)]
    pub(crate) fn next_lost(&self, round: RoundNo, from: u64) -> Option<Sent<'_, W, M>> {
        let mut sent = self.extents.sent(from).filter_map(|(at, e)| seen(at, e));
        sent.find(|(after, _)| *after < round).map(|(_, sent)| sent)
    }

    /// All of these are dirty again, to be sent like anything else. Whether there were any.
    pub(crate) fn lost_again(&mut self, round: RoundNo) -> bool {
        let sent = self.extents.sent(0).filter_map(|(at, e)| seen(at, e));
        let lost = sent.filter(|(after, _)| *after < round);
        let lost: Vec<(u64, W)> = lost.map(|(_, s)| (s.offset, s.by.clone())).collect();
        for (at, by) in &lost {
            self.extents.set_state(*at, State::Dirty { by: by.clone() });
            self.no_full = None;
        }
        !lost.is_empty()
    }

    /// The range that begins at an offset is durable at the servers.
    pub(super) fn make_clean(&mut self, at: u64) {
        let Some(extent) = self.extents.get(at) else { return };
        // What a local file has later is none of our business.
        let is_elsewhere = matches!(&extent.body, Body::Held(p) if p.bytes().is_none());
        match is_elsewhere || extent.state.is_in_doubt() {
            true => drop(self.extents.remove(at)),
            false => self.extents.set_state(at, self.clean()),
        }
    }
}

/// A sent range, and the round that was the last one to begin before it got there.
fn seen<W, M, P>(at: u64, extent: &Extent<W, M, P>) -> Option<(RoundNo, Sent<'_, W, M>)>
where
    W: Clone + PartialEq,
    M: Clone,
    P: Payload,
{
    match &extent.state {
        State::Sent { by, mark, after, in_doubt: _ } => {
            let len = extent.len();
            Some((*after, Sent { offset: at, len, by, mark }))
        }
        State::Clean(_) | State::Dirty { .. } | State::Sending { .. } => None,
    }
}
