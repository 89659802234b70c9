//! Random events against plain arrays, with servers that lose, reorder and answer late.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::cache::*;

const SPAN: usize = 64;
/// Bytes in a row that one server has.
const STRIPE: usize = 8;

/// Bytes in memory, or in a "local file" that does not change.
#[derive(Debug, Clone)]
enum Stored {
    Memory(Bytes),
    File { file: Arc<Vec<u8>>, from: u64, to: u64 },
}

impl Payload for Stored {
    fn of(bytes: Bytes) -> Stored {
        Stored::Memory(bytes)
    }

    fn len(&self) -> u64 {
        match self {
            Stored::Memory(bytes) => bytes.len() as u64,
            Stored::File { from, to, .. } => to - from,
        }
    }

    fn slice(&self, from: u64, to: u64) -> Stored {
        match self {
            Stored::Memory(bytes) => Stored::Memory(bytes.slice(from as usize..to as usize)),
            Stored::File { file, from: start, .. } => {
                Stored::File { file: file.clone(), from: start + from, to: start + to }
            }
        }
    }

    fn bytes(&self) -> Option<&Bytes> {
        match self {
            Stored::Memory(bytes) => Some(bytes),
            Stored::File { .. } => None,
        }
    }
}

impl Stored {
    fn to_vec(&self) -> Vec<u8> {
        match self {
            Stored::Memory(bytes) => bytes.to_vec(),
            Stored::File { file, from, to } => file[*from as usize..*to as usize].to_vec(),
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Write {
        by: bool,
        at: usize,
        len: usize,
    },
    PutFile {
        by: bool,
        at: usize,
        len: usize,
    },
    /// The chosen request of those on their way, of the chosen kind.
    Take {
        bytes: u64,
        runs: usize,
        unit: u64,
        partial: bool,
    },
    WriteExecuted {
        pick: usize,
        durable: bool,
    },
    WriteAnswered {
        pick: usize,
    },
    SendingFails {
        pick: usize,
    },
    FetchBegins {
        at: usize,
        len: usize,
    },
    FetchExecuted {
        pick: usize,
    },
    FetchAnswered {
        pick: usize,
        cut: usize,
    },
    RoundBegins,
    CommitExecuted {
        server: usize,
    },
    RoundSettled {
        again: bool,
    },
    ServerRestarts {
        server: usize,
    },
    OthersWrite {
        at: usize,
        len: usize,
    },
    Invalidate,
    Evict {
        again: bool,
        bytes: u64,
    },
    Forget {
        by: bool,
    },
    Truncate {
        size: usize,
    },
    Age,
    SetBlock {
        bytes: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let range = || (0..SPAN, 0..24_usize);
    let pick = || 0..16_usize;
    prop_oneof![
        8 => (any::<bool>(), range()).prop_map(|(by, (at, len))| Write { by, at, len }),
        1 => (any::<bool>(), range()).prop_map(|(by, (at, len))| PutFile { by, at, len }),
        6 => (1..40_u64, 1..4_usize, prop_oneof![Just(1_u64), Just(4), Just(8), Just(32)],
              any::<bool>())
            .prop_map(|(bytes, runs, unit, partial)| Take { bytes, runs, unit, partial }),
        8 => (pick(), any::<bool>()).prop_map(|(pick, d)| WriteExecuted { pick, durable: d }),
        8 => pick().prop_map(|pick| WriteAnswered { pick }),
        2 => pick().prop_map(|pick| SendingFails { pick }),
        5 => range().prop_map(|(at, len)| FetchBegins { at, len }),
        5 => pick().prop_map(|pick| FetchExecuted { pick }),
        5 => (pick(), 0..24_usize).prop_map(|(pick, cut)| FetchAnswered { pick, cut }),
        3 => Just(RoundBegins),
        5 => (0..2_usize).prop_map(|server| CommitExecuted { server }),
        4 => any::<bool>().prop_map(|again| RoundSettled { again }),
        2 => (0..2_usize).prop_map(|server| ServerRestarts { server }),
        1 => range().prop_map(|(at, len)| OthersWrite { at, len }),
        1 => Just(Invalidate),
        6 => (any::<bool>(), 0..1000_u64).prop_map(|(again, bytes)| Evict { again, bytes }),
        2 => any::<bool>().prop_map(|by| Forget { by }),
        1 => (0..=SPAN).prop_map(|size| Truncate { size }),
        2 => Just(Age),
        1 => prop_oneof![Just(16_u64), Just(7), Just(64)].prop_map(|bytes| SetBlock { bytes }),
    ]
}

/// What a server said: which one, and its verifier.
type Mark = (usize, u32);

/// A WRITE on its way, within one stripe.
#[derive(Debug)]
struct Request {
    no: SendingNo,
    at: usize,
    bytes: Vec<u8>,
    executed: Option<Arrived<Mark>>,
}

#[derive(Debug)]
struct Fetching {
    fetch: Fetch,
    at: usize,
    len: usize,
    answer: Option<Vec<u8>>,
}

/// What a read may see of one byte.
#[derive(Debug, Clone)]
enum Truth {
    /// Exactly this: it was written here, and is not durable.
    Own { by: bool, value: u8 },
    /// What the servers have had since the last write here, or since the last look.
    Had(Vec<u8>),
}

struct World {
    cache: FileCache<bool, Mark, Stored>,
    truth: Vec<Truth>,
    /// What the servers have in the end, where that is decided.
    expected: Vec<Option<u8>>,
    /// Whether the servers may have something else than what is clean, because it was changed by
    /// others, or given up and lost.
    changed: Vec<bool>,
    durable: Vec<u8>,
    volatile: Vec<Option<u8>>,
    verifiers: [u32; 2],
    requests: Vec<Request>,
    fetches: Vec<Fetching>,
    round: Option<(RoundNo, [Option<u32>; 2])>,
    value: u8,
    now: u64,
}

fn server_of(at: usize) -> usize {
    at / STRIPE % 2
}

fn clip(at: usize, len: usize) -> std::ops::Range<usize> {
    at..(at + len).min(SPAN)
}

impl World {
    fn new() -> World {
        World {
            cache: FileCache::new(16),
            truth: vec![Truth::Had(vec![0]); SPAN],
            expected: vec![Some(0); SPAN],
            changed: vec![false; SPAN],
            durable: vec![0; SPAN],
            volatile: vec![None; SPAN],
            verifiers: [1, 1],
            requests: Vec::new(),
            fetches: Vec::new(),
            round: None,
            value: 0,
            now: 0,
        }
    }

    fn at_server(&self, at: usize) -> u8 {
        self.volatile[at].unwrap_or(self.durable[at])
    }

    /// The servers have something else at these offsets now.
    fn server_changed(&mut self, range: impl IntoIterator<Item = usize>) {
        for at in range {
            let value = self.at_server(at);
            if let Truth::Had(values) = &mut self.truth[at] {
                values.push(value);
            }
        }
    }

    fn wrote(&mut self, by: bool, at: usize, bytes: &[u8]) {
        for (at, value) in (at..).zip(bytes) {
            self.truth[at] = Truth::Own { by, value: *value };
            self.expected[at] = Some(*value);
            self.changed[at] = false;
        }
    }

    fn fresh(&mut self, range: std::ops::Range<usize>) -> Vec<u8> {
        self.value = self.value.wrapping_add(1).max(1);
        vec![self.value; range.len()]
    }

    fn execute(&mut self, n: usize, durable: bool) {
        let (at, bytes) = (self.requests[n].at, self.requests[n].bytes.clone());
        let server = server_of(at);
        for (at, value) in (at..).zip(&bytes) {
            match durable {
                true => (self.durable[at], self.volatile[at]) = (*value, None),
                false => self.volatile[at] = Some(*value),
            }
        }
        self.requests[n].executed = Some(match durable {
            true => Arrived::Durable,
            false => Arrived::Unstable((server, self.verifiers[server])),
        });
        self.server_changed(at..at + bytes.len());
    }

    fn answer_write(&mut self, n: usize) {
        let Request { no, at, bytes, executed } = self.requests.remove(n);
        let how = executed.expect("only what was executed is answered");
        self.cache.arrived(no, at as u64, bytes.len() as u64, &how);
        if how == Arrived::Durable {
            self.settled(at..at + bytes.len());
        }
    }

    /// What the cache says is settled and was ours is what the servers have, and may change.
    fn settled(&mut self, range: std::ops::Range<usize>) {
        let unsettled = self.unsettled();
        for at in range.filter(|at| !unsettled[*at]) {
            if let Truth::Own { value, .. } = self.truth[at] {
                assert!(self.expected[at].is_none_or(|v| v == self.durable[at]), "lost at {at}");
                self.truth[at] = Truth::Had(vec![value, self.at_server(at)]);
            }
        }
    }

    /// Which bytes the cache holds as not durable.
    fn unsettled(&self) -> Vec<bool> {
        let mut unsettled = vec![false; SPAN];
        for (at, extent) in self.cache.extents.overlapping(span::Span::ALL) {
            let range = at as usize..(at + extent.len()) as usize;
            unsettled[range].fill(extent.state.by().is_some());
        }
        unsettled
    }

    fn take(&mut self, take: &Take) -> bool {
        let Some(sending) = self.cache.take_dirty(take) else { return false };
        let (mut bytes, mut runs, mut end) = (0, 0, None);
        for (at, payload) in &sending.pieces {
            let data = payload.to_vec();
            bytes += data.len() as u64;
            runs += usize::from(end != Some(*at));
            end = Some(at + data.len() as u64);
            assert!(!data.is_empty(), "an empty piece");
            for (n, value) in data.iter().enumerate() {
                let at = *at as usize + n;
                let Truth::Own { by, value: newest } = self.truth[at] else {
                    panic!("{at} was not written, or is settled");
                };
                assert_eq!((by, newest), (sending.by, *value), "at {at}");
                let request = Request { no: sending.no, at, bytes: vec![*value], executed: None };
                match self.requests.last_mut() {
                    Some(last)
                        if last.no == sending.no
                            && last.at + last.bytes.len() == at
                            && !at.is_multiple_of(STRIPE) =>
                    {
                        last.bytes.push(*value);
                    }
                    _ => {
                        self.requests.push(request);
                    }
                }
            }
        }
        assert!(bytes <= take.bytes.max(take.unit_bytes), "more than was asked for");
        assert!(runs <= take.runs, "more runs than were asked for");
        if !take.partial {
            let mut run = None;
            for (at, piece) in &sending.pieces {
                if run != Some(*at) {
                    assert_eq!(run.unwrap_or(0) % take.unit_bytes, 0, "a unit is divided");
                    assert_eq!(at % take.unit_bytes, 0, "a unit is divided");
                }
                run = Some(at + piece.len());
            }
            assert_eq!(run.unwrap_or(0) % take.unit_bytes, 0, "a unit is divided");
        }
        self.assert_sent_once();
        true
    }

    fn assert_sent_once(&self) {
        let mut moving = [false; SPAN];
        for request in &self.requests {
            for moving in &mut moving[request.at..request.at + request.bytes.len()] {
                assert!(!std::mem::replace(moving, true), "{request:?} is sent twice at once");
            }
        }
        for (at, is_moving) in moving.into_iter().enumerate() {
            assert_eq!(self.cache.is_on_its_way(at as u64, 1), is_moving, "at {at}");
        }
    }

    fn picked(&self, pick: usize, executed: bool) -> Option<usize> {
        let fits = |n: &usize| self.requests[*n].executed.is_some() == executed;
        let all: Vec<usize> = (0..self.requests.len()).filter(fits).collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    fn fail(&mut self, no: SendingNo) {
        self.requests.retain(|r| r.no != no);
        self.cache.ended(no);
    }

    fn commit(&mut self, server: usize) {
        for at in (0..SPAN).filter(|at| server_of(*at) == server) {
            if let Some(value) = self.volatile[at].take() {
                self.durable[at] = value;
            }
        }
        if let Some((_, told)) = &mut self.round {
            told[server] = Some(self.verifiers[server]);
        }
    }

    fn settle(&mut self, again: bool) {
        let Some((round, told)) = self.round.take() else { return };
        self.cache.settle(round, |(server, verifier)| told[*server] == Some(*verifier));
        self.settled(0..SPAN);
        if again {
            let lost = self.cache.next_lost(round, 0).is_some();
            assert_eq!(self.cache.lost_again(round), lost);
            assert!(self.cache.next_lost(round, 0).is_none());
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Write { by, at, len } => {
                let data = self.fresh(clip(at, len));
                self.cache.write(&by, at as u64, &data).expect("far below the largest offset");
                self.wrote(by, at, &data);
            }
            Event::PutFile { by, at, len } => {
                let data = self.fresh(clip(at, len));
                let to = data.len() as u64;
                let file = Stored::File { file: Arc::new(data.clone()), from: 0, to };
                self.cache.put(&by, at as u64, &file).expect("far below the largest offset");
                self.wrote(by, at, &data);
            }
            Event::Take { bytes, runs, unit, partial } => {
                self.take(&Take { bytes, runs, unit_bytes: unit, partial });
            }
            Event::WriteExecuted { pick, durable } => {
                if let Some(n) = self.picked(pick, false) {
                    self.execute(n, durable);
                }
            }
            Event::WriteAnswered { pick } => {
                if let Some(n) = self.picked(pick, true) {
                    self.answer_write(n);
                }
            }
            Event::SendingFails { pick } => {
                let all: Vec<SendingNo> = self.requests.iter().map(|r| r.no).collect();
                if !all.is_empty() {
                    self.fail(all[pick % all.len()]);
                }
            }
            Event::RoundBegins => self.round = Some((self.cache.begin_round(), [None; 2])),
            Event::CommitExecuted { server } => self.commit(server),
            Event::RoundSettled { again } => self.settle(again),
            Event::Age => {
                self.now += 1;
                self.cache.set_now(Tick(self.now));
            }
            Event::SetBlock { bytes } => self.cache.set_block(bytes),
            Event::Evict { again, bytes } => {
                let queue = if again { Queue::Again } else { Queue::Once };
                let before = self.cache.usage().total();
                let freed = self.cache.evict(queue, Tick(self.now), bytes);
                assert_eq!(self.cache.usage().total(), before - freed);
            }
            ref other => self.apply_more(other),
        }
    }

    fn apply_more(&mut self, event: &Event) {
        match *event {
            Event::FetchBegins { at, len } => {
                let len = clip(at, len).len();
                let fetch = self.cache.begin_fetch(at as u64, len as u64);
                self.fetches.push(Fetching { fetch, at, len, answer: None });
            }
            Event::FetchExecuted { pick } if !self.fetches.is_empty() => {
                let n = pick % self.fetches.len();
                let Fetching { at, len, .. } = self.fetches[n];
                self.fetches[n].answer = Some((at..at + len).map(|p| self.at_server(p)).collect());
            }
            Event::FetchAnswered { pick, cut } if !self.fetches.is_empty() => {
                let n = pick % self.fetches.len();
                let Fetching { fetch, at, answer, .. } = self.fetches.remove(n);
                if let Some(answer) = answer {
                    let (one, two) = answer.split_at(cut.min(answer.len()));
                    self.cache.fetched(fetch, (at + one.len()) as u64, &Bytes::from(two.to_vec()));
                    match one.iter().all(|byte| *byte == 0) {
                        true => self.cache.fetched_zeros(fetch, at as u64, one.len() as u64),
                        false => self.cache.fetched(fetch, at as u64, &Bytes::from(one.to_vec())),
                    }
                }
                self.cache.end_fetch(fetch);
            }
            Event::ServerRestarts { server } => {
                self.verifiers[server] += 1;
                let own: Vec<usize> = (0..SPAN).filter(|at| server_of(*at) == server).collect();
                for at in &own {
                    let is_lost = self.volatile[*at].take().is_some();
                    self.changed[*at] |= is_lost && matches!(self.truth[*at], Truth::Had(_));
                }
                self.server_changed(own);
            }
            Event::OthersWrite { at, len } => {
                let range = clip(at, len);
                let data = self.fresh(range.clone());
                for (at, value) in range.clone().zip(data) {
                    (self.durable[at], self.volatile[at]) = (value, None);
                    (self.expected[at], self.changed[at]) = (None, true);
                }
                self.server_changed(range);
            }
            Event::Invalidate => {
                self.cache.invalidate();
                self.changed.fill(false);
                for at in 0..SPAN {
                    let value = self.at_server(at);
                    if let Truth::Had(values) = &mut self.truth[at] {
                        *values = vec![value];
                    }
                }
            }
            Event::Forget { by } => {
                self.cache.forget(&by);
                for at in 0..SPAN {
                    if matches!(self.truth[at], Truth::Own { by: who, .. } if who == by) {
                        self.truth[at] = Truth::Had(vec![self.at_server(at)]);
                        self.expected[at] = None;
                    }
                }
            }
            Event::Truncate { size } if !self.cache.is_on_its_way(size as u64, u64::MAX) => {
                self.cache.truncate(size as u64);
                for at in size..SPAN {
                    (self.durable[at], self.volatile[at]) = (0, None);
                    self.truth[at] = Truth::Had(vec![0]);
                    self.expected[at] = Some(0);
                }
            }
            _ => {}
        }
    }

    /// A read sees exactly what was written here, and else what the servers have had since.
    fn assert_reads(&mut self) {
        let mut next = 0;
        for part in self.cache.read(0, SPAN as u64) {
            let (offset, bytes) = match part {
                Part::Here { offset, bytes } => (offset, bytes.to_vec()),
                Part::Zeros { offset, len } => (offset, vec![0; len as usize]),
                Part::Elsewhere { offset, payload, .. } => (offset, payload.to_vec()),
                Part::Missing { offset, len } => {
                    for at in offset..offset + len {
                        let known = &self.truth[at as usize];
                        assert!(
                            matches!(known, Truth::Had(_)),
                            "{at} was written, and is not here"
                        );
                    }
                    assert_eq!(offset, next);
                    next += len;
                    continue;
                }
            };
            assert_eq!(offset, next);
            next += bytes.len() as u64;
            for (at, seen) in (offset as usize..).zip(bytes) {
                match &self.truth[at] {
                    Truth::Own { value, .. } => assert_eq!(seen, *value, "at {at}"),
                    Truth::Had(values) => {
                        assert!(values.contains(&seen), "{seen} at {at} is none of {values:?}");
                    }
                }
            }
        }
        assert_eq!(next, SPAN as u64);
    }

    /// What is clean is what the servers have, unless that was changed behind our back.
    fn assert_clean_is_true(&mut self) {
        for part in self.cache.read(0, SPAN as u64) {
            let (offset, bytes) = match part {
                Part::Here { offset, bytes } => (offset, bytes.to_vec()),
                Part::Zeros { offset, len } => (offset, vec![0; len as usize]),
                Part::Elsewhere { .. } | Part::Missing { .. } => continue,
            };
            for (at, seen) in (offset as usize..).zip(bytes) {
                assert!(self.changed[at] || seen == self.at_server(at), "{seen} at {at} is old");
            }
        }
    }

    /// Everything is sent and committed.
    fn drain(&mut self) {
        for _ in 0..100 {
            while !self.requests.is_empty() {
                if self.requests[0].executed.is_none() {
                    self.execute(0, false);
                }
                self.answer_write(0);
            }
            while self.take(&Take::all(SPAN as u64, SPAN)) {}
            if self.requests.is_empty() {
                assert_eq!(self.cache.left(), Left::Nothing);
                if self.cache.sent().next().is_none() {
                    return;
                }
                self.round = Some((self.cache.begin_round(), [None; 2]));
                self.commit(0);
                self.commit(1);
                self.settle(true);
            }
        }
        panic!("it does not come to an end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    /// Whatever happens in whatever order: a read sees the newest bytes written here, or else bytes
    /// that the servers had since; nothing is sent twice at once, nor without having been written
    /// by whom it says; what is counted is what is there; and when everything is sent and committed
    /// the servers have what was written last.
    #[test]
    fn nothing_old_is_read_and_nothing_new_is_lost(
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut world = World::new();
        for event in &events {
            world.apply(event);
            world.cache.extents.assert_consistent();
            world.assert_reads();
            world.assert_sent_once();
        }
        world.drain();
        world.assert_reads();
        world.assert_clean_is_true();
        for (at, expected) in world.expected.iter().enumerate() {
            prop_assert!(expected.is_none_or(|v| v == world.durable[at]), "at {}", at);
        }
    }
}
