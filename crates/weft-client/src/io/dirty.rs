//! What was written and is not durable yet, by file offset.

use std::{collections::BTreeMap, sync::Arc};

use weft_nfs::Verifier;
use weft_xdr::Payload;

use super::{
    open::Open,
    server_queues::Target,
    source::{held_bytes, kept_part},
};
use crate::limits;

/// What a target has said of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) target: Target,
    /// To be confirmed by its COMMIT.
    pub(super) verifier: Verifier,
}

/// A piece written UNSTABLE: kept, so that it can be written again.
#[derive(Debug, Clone)]
pub(super) struct Unsettled {
    pub(super) file_offset: u64,
    pub(super) payload: Payload,
    /// One for each target that has yet to confirm it: it waits for all of them.
    pub(super) marks: Arc<[Mark]>,
    /// Under which open.
    pub(super) by: Arc<Open>,
}

impl Unsettled {
    pub(super) fn len(&self) -> u64 {
        self.payload.len() as u64
    }

    pub(super) fn end(&self) -> u64 {
        self.file_offset.saturating_add(self.len())
    }

    /// Whether all of its targets have confirmed it.
    pub(super) fn is_durable(&self, is_confirmed: impl Fn(&Mark) -> bool) -> bool {
        self.marks.iter().all(is_confirmed)
    }

    /// The part between two file offsets within it.
    fn part(&self, from: u64, to: u64) -> Unsettled {
        let payload = kept_part(&self.payload, from - self.file_offset, to - from);
        Unsettled { file_offset: from, payload, ..self.clone() }
    }
}

/// A number that grows with every round of COMMITs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoundNo(u64);

#[derive(Debug)]
struct Entry {
    piece: Unsettled,
    /// The round that was the last one to begin when it was written.
    after: RoundNo,
}

/// The pieces of a file that wait for a COMMIT. No two overlap: what is written takes the place
/// of what was written there before, so that nothing written again can bring older data back.
/// Bounded by [`limits::DIRTY_PIECES_MAX`] and [`limits::DIRTY_BYTES_MAX`]: a write beyond commits.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    by_offset: BTreeMap<u64, Entry>,
    bytes: usize,
    round: RoundNo,
}

impl Dirty {
    /// Notes a piece that was written and waits for a COMMIT.
    pub(super) fn push(&mut self, piece: Unsettled) {
        self.overwrite(piece.file_offset, piece.len());
        self.insert(Entry { piece, after: self.round });
    }

    /// Notes that a range was written durably: what waits there is outdated.
    pub(super) fn overwrite(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        // They do not overlap: only the last one that begins before can reach into the range.
        let before = self.by_offset.range(..offset).next_back();
        let first = before.filter(|(_, e)| e.piece.end() > offset).map_or(offset, |(at, _)| *at);
        let overlapping: Vec<u64> = self.by_offset.range(first..end).map(|(at, _)| *at).collect();
        for at in overlapping {
            let Some(Entry { piece: old, after }) = self.remove(at) else { continue };
            if at < offset {
                self.insert(Entry { piece: old.part(at, offset), after });
            }
            if old.end() > end {
                self.insert(Entry { piece: old.part(end, old.end()), after });
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_offset.len() >= limits::DIRTY_PIECES_MAX || self.bytes >= limits::DIRTY_BYTES_MAX
    }

    /// Begins a round: all there is now is to be confirmed by it.
    pub(super) fn begin_round(&mut self) -> RoundNo {
        self.round.0 += 1;
        self.round
    }

    /// All pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Unsettled> {
        self.by_offset.values().map(|e| &e.piece)
    }

    /// Forgets the pieces a round has confirmed.
    pub(super) fn settle(&mut self, round: RoundNo, is_durable: impl Fn(&Unsettled) -> bool) {
        self.retain(|e| e.after >= round || !is_durable(&e.piece));
    }

    /// Forgets what was written under an open.
    pub(super) fn forget(&mut self, by: &Arc<Open>) {
        self.retain(|e| !Arc::ptr_eq(&e.piece.by, by));
    }

    /// The first piece at or after an offset that a round should have confirmed and did not.
    pub(super) fn next_lost(&self, round: RoundNo, from: u64) -> Option<Unsettled> {
        let mut after = self.by_offset.range(from..).map(|(_, e)| e);
        after.find(|e| e.after < round).map(|e| e.piece.clone())
    }

    fn insert(&mut self, entry: Entry) {
        self.bytes += held_bytes(&entry.piece.payload);
        self.by_offset.insert(entry.piece.file_offset, entry);
    }

    fn remove(&mut self, at: u64) -> Option<Entry> {
        let entry = self.by_offset.remove(&at)?;
        self.bytes -= held_bytes(&entry.piece.payload);
        Some(entry)
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        self.by_offset.retain(|_, e| keep(e));
        self.bytes = self.pieces().map(|p| held_bytes(&p.payload)).sum();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use weft_nfs::FileHandle;

    use super::*;

    fn mark(target: u8, verifier: u8) -> Mark {
        let target = Target::Mds(FileHandle(Bytes::from(vec![target])));
        Mark { target, verifier: Verifier([verifier; 8]) }
    }

    fn piece(by: &Arc<Open>, offset: u64, data: Vec<u8>, verifier: u8) -> Unsettled {
        Unsettled {
            file_offset: offset,
            payload: Payload::Bytes(Bytes::from(data)),
            marks: [mark(0, verifier)].into(),
            by: by.clone(),
        }
    }

    /// What would be written again, by byte.
    fn remembered(dirty: &Dirty) -> BTreeMap<u64, u8> {
        let mut bytes = BTreeMap::new();
        for p in dirty.pieces() {
            let Payload::Bytes(data) = &p.payload else { panic!("bytes were put in") };
            for (at, byte) in (p.file_offset..).zip(data) {
                assert!(bytes.insert(at, *byte).is_none(), "byte {at} is there twice");
            }
        }
        bytes
    }

    proptest! {
        /// Whatever is written over whatever, durably or not: every byte that waits is the last
        /// one written there, none that was made durable waits, and the bytes are counted right.
        #[test]
        fn only_the_newest_data_wait(
            writes in prop::collection::vec((0_u64..40, 1_usize..20, any::<bool>()), 1..40),
        ) {
            let by = Arc::new(Open::for_tests());
            let (mut dirty, mut model) = (Dirty::default(), BTreeMap::new());
            for (n, (offset, len, durable)) in writes.into_iter().enumerate() {
                let range = offset..offset + len as u64;
                if durable {
                    dirty.overwrite(offset, len as u64);
                    model.retain(|at, _| !range.contains(at));
                } else {
                    dirty.push(piece(&by, offset, vec![n as u8; len], 1));
                    model.extend(range.map(|at| (at, n as u8)));
                }
                prop_assert_eq!(&remembered(&dirty), &model);
                prop_assert_eq!(dirty.bytes, model.len());
            }
        }
    }

    /// A round confirms what was there when it began; what came later waits for the next, and
    /// what it did not confirm is found in order.
    #[test]
    fn rounds_confirm_what_was_there() {
        let (one, two) = (Arc::new(Open::for_tests()), Arc::new(Open::for_tests()));
        let mut dirty = Dirty::default();
        for (offset, by, verifier) in [(0, &one, 1), (10, &one, 2), (20, &two, 1)] {
            dirty.push(piece(by, offset, vec![0; 10], verifier));
        }
        let round = dirty.begin_round();
        dirty.push(piece(&one, 30, vec![0; 10], 1));
        dirty.push(piece(&one, 25, vec![1; 1], 2));
        dirty.settle(round, |p| p.is_durable(|m| *m == mark(0, 2)));
        let lost = |from| dirty.next_lost(round, from).map(|p| (p.file_offset, p.len()));
        assert_eq!([lost(0), lost(1), lost(21)], [Some((0, 10)), Some((20, 5)), Some((26, 4))]);
        assert_eq!(lost(27), None);
        dirty.forget(&one);
        assert_eq!(remembered(&dirty).len(), 9);
    }
    /// A piece that went to two targets, and the parts that others leave of it, wait for both:
    /// until the second one has confirmed it, it is there to be written again, to both.
    #[test]
    fn a_piece_waits_for_all_of_its_targets() {
        let by = Arc::new(Open::for_tests());
        let mut dirty = Dirty::default();
        let both = [mark(1, 1), mark(2, 2)];
        dirty.push(Unsettled { marks: both.clone().into(), ..piece(&by, 0, vec![0; 10], 1) });
        dirty.overwrite(4, 2);
        for (confirmed, left) in [(&both[..1], 2), (&both[1..], 2), (&[mark(1, 3)][..], 2)] {
            let round = dirty.begin_round();
            dirty.settle(round, |p| p.is_durable(|m| confirmed.contains(m)));
            assert_eq!(dirty.pieces().count(), left, "{confirmed:?}");
            assert_eq!(dirty.next_lost(round, 1).map(|p| p.marks.len()), Some(2));
        }
        let round = dirty.begin_round();
        dirty.settle(round, |p| p.is_durable(|m| both.contains(m)));
        assert_eq!(dirty.pieces().count(), 0);
    }
}
