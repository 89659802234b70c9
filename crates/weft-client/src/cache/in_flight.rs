//! What is on its way to servers, whatever was written here since.

use std::collections::BTreeMap;

use super::{extent::SendingNo, span::Span};

/// Ranges on their way, by offset. No two overlap: bytes are sent once at a time, because two
/// WRITEs of a range may arrive in any order.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    by_offset: BTreeMap<u64, (u64, SendingNo)>,
    last: u64,
}

impl InFlight {
    /// A sending begins.
    pub(super) fn begin(&mut self, spans: &[Span]) -> SendingNo {
        self.last += 1;
        let no = SendingNo(self.last);
        for span in spans {
            debug_assert!(!self.meets(*span), "a range is sent twice at once");
            self.by_offset.insert(span.from, (span.end, no));
        }
        no
    }

    /// A part of a sending has ended. What of it was still on its way.
    pub(super) fn end(&mut self, no: SendingNo, span: Span) -> Vec<Span> {
        let mut ended = Vec::new();
        for (whole, owner) in self.overlapping(span).collect::<Vec<_>>() {
            let Some(part) = whole.meet(span).filter(|_| owner == no) else { continue };
            self.by_offset.remove(&whole.from);
            for rest in whole.without(part) {
                self.by_offset.insert(rest.from, (rest.end, no));
            }
            ended.push(part);
        }
        if self.by_offset.is_empty() {
            // Else it keeps room for eleven, as long as the file is open.
            self.by_offset = BTreeMap::new();
        }
        ended
    }

    pub(super) fn meets(&self, span: Span) -> bool {
        self.overlapping(span).next().is_some()
    }

    /// What is on its way in a range of offsets, whole, and in which sending.
    pub(super) fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, SendingNo)> {
        let before = self.by_offset.range(..=span.from).next_back();
        let first = before.filter(|(_, (end, _))| *end > span.from);
        let from = first.map_or(span.from, |(at, _)| *at);
        let to = if span.is_empty() { from } else { span.end };
        let found = self.by_offset.range(from..to);
        found.map(|(from, (end, no))| (Span { from: *from, end: *end }, *no))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part ends for the sending that it is of, once, and leaves the rest on its way.
    #[test]
    fn parts_end_once_and_for_their_own() {
        let mut in_flight = InFlight::default();
        let one = in_flight.begin(&[Span::of(0, 10), Span::of(20, 10)]);
        let two = in_flight.begin(&[Span::of(10, 10)]);
        let ended = in_flight.end(one, Span::of(5, 20));
        assert_eq!(ended, vec![Span::of(5, 5), Span::of(20, 5)]);
        assert!(in_flight.end(one, Span::of(5, 20)).is_empty());
        let left: Vec<_> = in_flight.overlapping(Span::ALL).collect();
        assert_eq!(left, [(Span::of(0, 5), one), (Span::of(10, 10), two), (Span::of(25, 5), one)]);
        assert!(in_flight.meets(Span::of(4, 1)) && !in_flight.meets(Span::of(5, 5)));
    }
}
