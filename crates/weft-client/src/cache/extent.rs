//! One range: its bytes, and what they are.

use bytes::{Bytes, BytesMut};

use super::{
    payload::Payload,
    span::{narrow, wide},
    usage::{Kind, Queue},
};

/// An age of clean data: it grows as others come in ([`super::Budget::now`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(pub(crate) u64);

/// A number that grows with every round of COMMITs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoundNo(pub(super) u64);

/// A sending that was taken: [`super::FileCache::take_dirty`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SendingNo(pub(super) u64);

/// When clean data were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) queue: Queue,
    pub(super) last: Tick,
    /// Bytes that were read of it, each as often as it was.
    pub(super) read_bytes: u64,
}

impl Uses {
    /// Of data that are new.
    pub(super) fn new(now: Tick) -> Uses {
        Uses { queue: Queue::Once, last: now, read_bytes: 0 }
    }
}

/// What the bytes of a range are. What each event does: [`super`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State<W, M> {
    /// As at the servers, durable there.
    Clean(Uses),
    /// Written here, and nowhere else.
    Dirty { by: W },
    /// On the way to servers. In doubt is what may be there already, and overwritten by another
    /// client: it does not become clean.
    Sending { by: W, of: SendingNo, in_doubt: bool },
    /// At servers that may lose them, which said `mark`.
    Sent {
        by: W,
        mark: M,
        /// The round that was the last one to begin when they got there.
        after: RoundNo,
        in_doubt: bool,
    },
}

impl<W: PartialEq, M> State<W, M> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            State::Clean(uses) => Kind::Clean(uses.queue),
            State::Dirty { .. } => Kind::Dirty,
            State::Sending { .. } => Kind::Sending,
            State::Sent { .. } => Kind::Sent,
        }
    }

    /// Who wrote them, if that still matters.
    pub(super) fn by(&self) -> Option<&W> {
        match self {
            State::Clean(_) => None,
            State::Dirty { by } | State::Sending { by, .. } | State::Sent { by, .. } => Some(by),
        }
    }

    /// Another client may have written over it since it left, if it did.
    pub(super) fn is_in_doubt(&self) -> bool {
        match self {
            State::Clean(_) | State::Dirty { .. } => false,
            State::Sending { in_doubt, .. } | State::Sent { in_doubt, .. } => *in_doubt,
        }
    }

    /// That of a part: no part of clean data counts as read more than once because another was.
    fn of_part(&self, len: u64) -> Self
    where
        W: Clone,
        M: Clone,
    {
        let mut state = self.clone();
        if let State::Clean(uses) = &mut state {
            uses.read_bytes = uses.read_bytes.min(len);
        }
        state
    }

    pub(super) fn is_dirty_by(&self, who: &W) -> bool {
        matches!(self, State::Dirty { by } if by == who)
    }
}

/// The bytes themselves.
#[derive(Debug)]
pub(super) enum Body<P> {
    /// Zeros, which take no memory.
    Zeros(u64),
    /// Dirty data that later writes change in place and append to.
    Growing(BytesMut),
    /// Everything else.
    Held(P),
}

/// A range. Where it begins is its key.
#[derive(Debug)]
pub(super) struct Extent<W, M, P> {
    pub(super) body: Body<P>,
    pub(super) state: State<W, M>,
    /// Bytes of memory that go when it goes: what it was allocated with, not what is left of that.
    /// No other range shares them.
    held: u64,
}

impl<W: Clone + PartialEq, M: Clone, P: Payload> Extent<W, M, P> {
    pub(super) fn zeros(len: u64, state: State<W, M>) -> Self {
        Extent { body: Body::Zeros(len), state, held: 0 }
    }

    pub(super) fn growing(data: &[u8], state: State<W, M>) -> Self {
        let bytes = BytesMut::from(data);
        Extent { held: wide(bytes.capacity()), body: Body::Growing(bytes), state }
    }

    pub(super) fn held(payload: P, state: State<W, M>) -> Self {
        Extent { held: payload.held_bytes(), body: Body::Held(payload), state }
    }

    /// A part of a buffer of `held` bytes, of which nothing else is kept.
    pub(super) fn part_of_buffer(payload: P, held: u64, state: State<W, M>) -> Self {
        Extent { held, body: Body::Held(payload), state }
    }

    pub(super) fn len(&self) -> u64 {
        match &self.body {
            Body::Zeros(len) => *len,
            Body::Growing(bytes) => wide(bytes.len()),
            Body::Held(payload) => payload.len(),
        }
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held
    }

    /// The bytes, if they are in memory.
    pub(super) fn memory(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Zeros(_) => None,
            Body::Growing(bytes) => Some(bytes),
            Body::Held(payload) => payload.bytes().map(|b| &b[..]),
        }
    }

    /// Writes into it, and behind its end. How many bytes that moved.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> u64 {
        let Body::Growing(bytes) = &mut self.body else { return 0 };
        let at = narrow(at).min(bytes.len());
        let within = data.len().min(bytes.len() - at);
        bytes[at..at + within].copy_from_slice(&data[..within]);
        let (before, room) = (bytes.len(), bytes.capacity());
        bytes.extend_from_slice(&data[within..]);
        self.held = wide(bytes.capacity());
        let moved = if bytes.capacity() == room { 0 } else { before };
        wide(moved + data.len())
    }

    /// What is never appended to again gets its last form.
    pub(super) fn freeze(&mut self) {
        if let Body::Growing(bytes) = &mut self.body {
            self.body = Body::Held(P::of(std::mem::take(bytes).freeze()));
        }
    }

    /// The parts before, between and behind two distances from its start; the middle one only if
    /// it is wanted. How many bytes that moved.
    ///
    /// One part keeps the memory there is, the largest, if that is at least half of it; the others
    /// get their own. So a part never keeps much more memory than it has bytes, and what it keeps
    /// is known; and a byte is moved only when the part that it is in has become half as long.
    pub(super) fn divide(mut self, from: u64, to: u64, middle: bool) -> ([Option<Self>; 3], u64) {
        let cuts = [(0, from), (from, to), (to, self.len())];
        let is_kept = |n: usize| cuts[n].0 < cuts[n].1 && (n != 1 || middle);
        let largest = (0..3).filter(|n| is_kept(*n)).max_by_key(|n| cuts[*n].1 - cuts[*n].0);
        if let (Body::Growing(bytes), false, false) = (&mut self.body, is_kept(1), is_kept(2)) {
            // The end of a run that may grow again is cut off: it goes on growing.
            bytes.truncate(narrow(from));
            let moved = self.shrink();
            return ([is_kept(0).then_some(self), None, None], moved);
        }
        self.freeze();
        let mut moved = 0;
        let mut part = |n: usize| {
            let (part, copied) = self.part(cuts[n], Some(n) == largest);
            moved += copied;
            part
        };
        let parts = [0, 1, 2].map(|n| is_kept(n).then(|| part(n)));
        (parts, moved)
    }

    /// A part, with the memory there is if it may have that and is worth it.
    fn part(&self, (from, to): (u64, u64), may_keep_memory: bool) -> (Self, u64) {
        let len = to - from;
        let state = self.state.of_part(len);
        let payload = match &self.body {
            Body::Held(payload) => payload.slice(from, to),
            Body::Zeros(_) => return (Extent::zeros(len, state), 0),
            Body::Growing(b) => {
                return (Extent::growing(&b[narrow(from)..narrow(to)], state), len);
            }
        };
        match payload.bytes() {
            Some(bytes) if !may_keep_memory || len.saturating_mul(2) < self.held => {
                (Extent::held(P::of(Bytes::copy_from_slice(bytes)), state), len)
            }
            Some(_) => (Extent { body: Body::Held(payload), state, held: self.held }, 0),
            None => (Extent { body: Body::Held(payload), state, held: 0 }, 0),
        }
    }

    /// Gives memory back that is not used. How many bytes that moved.
    fn shrink(&mut self) -> u64 {
        let Body::Growing(bytes) = &mut self.body else { return 0 };
        if 2 * bytes.len() >= bytes.capacity() {
            return 0;
        }
        *bytes = BytesMut::from(&bytes[..]);
        self.held = wide(bytes.capacity());
        wide(bytes.len())
    }
}
