//! Bytes at offsets, the newest of each kept.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// What a run costs beside its bytes: its place in the map, and its request.
const RUN_OVERHEAD_BYTES: usize = 256;

/// Runs ready to leave, by offset: they neither overlap nor touch.
pub(super) type Frozen = BTreeMap<u64, Bytes>;

/// Runs by offset that do not overlap. A write at the end of one makes it longer; no write moves
/// more bytes than its own.
#[derive(Debug, Default)]
pub(super) struct Runs {
    by_offset: BTreeMap<u64, BytesMut>,
    bytes: usize,
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    /// Whether `bytes` more bytes are within a limit. If there are no runs, any write is.
    pub(super) fn has_room(&self, bytes: usize, limit_bytes: usize) -> bool {
        let overhead = (self.by_offset.len() + 1) * RUN_OVERHEAD_BYTES;
        self.is_empty() || self.bytes.saturating_add(bytes).saturating_add(overhead) <= limit_bytes
    }

    /// Whether it has bytes of this range.
    pub(super) fn overlaps(&self, from: u64, end: u64) -> bool {
        let before = self.by_offset.range(..end).next_back();
        before.is_some_and(|(at, run)| end_of(*at, run) > from)
    }

    /// Notes a write, which takes the place of older ones.
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset.saturating_add(data.len() as u64);
        if self.add_within(offset, data) {
            return;
        }
        self.cut(offset, end);
        self.bytes += data.len();
        let before = self.by_offset.range_mut(..offset).next_back();
        match before.filter(|(at, run)| end_of(**at, run) == offset) {
            Some((_, run)) => run.extend_from_slice(data),
            None => drop(self.by_offset.insert(offset, BytesMut::from(data))),
        }
    }

    /// Overwrites a part of one run, if it is that.
    fn add_within(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((at, run)) = self.by_offset.range_mut(..=offset).next_back() else { return false };
        let Ok(from) = usize::try_from(offset - at) else { return false };
        let place = from.checked_add(data.len()).and_then(|to| run.get_mut(from..to));
        place.map(|place| place.copy_from_slice(data)).is_some()
    }

    /// Takes a range out, which is not inside one run.
    fn cut(&mut self, from: u64, end: u64) {
        if let Some((at, run)) = self.by_offset.range_mut(..from).next_back() {
            let keep = usize::try_from(from - at).unwrap_or(usize::MAX);
            self.bytes -= run.len().saturating_sub(keep);
            run.truncate(keep);
        }
        while let Some((&at, _)) = self.by_offset.range(from..end).next() {
            let Some(mut run) = self.by_offset.remove(&at) else { return };
            let gone = usize::try_from(end - at).unwrap_or(usize::MAX).min(run.len());
            self.bytes -= gone;
            let rest = run.split_off(gone);
            if !rest.is_empty() {
                self.by_offset.insert(end, rest);
            }
        }
    }

    /// All of it, runs that touch joined.
    pub(super) fn freeze(self) -> Frozen {
        let mut joined: Vec<(u64, BytesMut)> = Vec::new();
        for (at, run) in self.by_offset {
            match joined.last_mut().filter(|(before, last)| end_of(*before, last) == at) {
                Some((_, last)) => last.extend_from_slice(&run),
                None => joined.push((at, run)),
            }
        }
        joined.into_iter().map(|(at, run)| (at, run.freeze())).collect()
    }
}

fn end_of(at: u64, run: &BytesMut) -> u64 {
    at.saturating_add(run.len() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPAN: usize = 96;

    fn writes() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
        let write = (0..SPAN, prop::collection::vec(1..=u8::MAX, 0..24));
        prop::collection::vec(write, 0..40)
    }

    proptest! {
        /// After any writes the runs hold what an array would, once each, and know how much it is;
        /// what overlaps them is what the array has bytes of.
        #[test]
        fn runs_are_what_an_array_would_be((writes, from, len) in (writes(), 0..SPAN, 1..SPAN)) {
            let (mut runs, mut model) = (Runs::default(), vec![0_u8; 2 * SPAN]);
            for (at, data) in &writes {
                runs.add(*at as u64, data);
                model[*at..at + data.len()].copy_from_slice(data);
                let held: usize = runs.by_offset.values().map(BytesMut::len).sum();
                prop_assert_eq!(held, runs.bytes);
            }
            let touched = model[from..from + len].iter().any(|b| *b != 0);
            prop_assert_eq!(runs.overlaps(from as u64, (from + len) as u64), touched);
            let (mut back, mut last) = (vec![0; model.len()], None);
            for (at, run) in runs.freeze() {
                prop_assert!(last.is_none_or(|end| end < at), "they touch or overlap");
                prop_assert!(!run.is_empty());
                last = Some(at + run.len() as u64);
                back[at as usize..at as usize + run.len()].copy_from_slice(&run);
            }
            prop_assert_eq!(back, model);
        }
    }

    /// The limit counts bytes and runs; the first write is always taken.
    #[test]
    fn room_is_bounded() {
        let mut runs = Runs::default();
        assert!(runs.has_room(1 << 20, 1000));
        runs.add(0, &[1; 200]);
        assert!(runs.has_room(288, 1000) && !runs.has_room(289, 1000));
        runs.add(1000, &[1]);
        assert!(runs.has_room(31, 1000) && !runs.has_room(32, 1000));
    }
}
