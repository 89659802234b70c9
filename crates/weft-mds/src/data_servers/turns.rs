//! In which order the copies of a replicated file change (P1.3, ADR 39): the same for all.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use weft_store::objects::ObjectId;

use crate::striped::Striped;

/// Changes of files with copies that are under way, by the ranges that they change. Two of one
/// range follow each other: begun at once, they could come in another order to each copy.
#[derive(Debug, Default)]
pub(super) struct Turns {
    busy: Mutex<HashMap<ObjectId, Vec<Range<u64>>>>,
    ended: Notify,
}

/// A range that nobody else changes as long as this lives.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    object: ObjectId,
    range: Range<u64>,
}

impl Turns {
    /// Waits until nobody else changes a range of a file.
    pub(super) async fn hold(&self, file: &Striped, offset: u64, len: u64) -> Turn<'_> {
        let (object, range) = (file.object_id(), offset..offset.saturating_add(len));
        loop {
            let ended = self.ended.notified();
            if self.begin(object, &range) {
                return Turn { turns: self, object, range };
            }
            ended.await;
        }
    }

    /// Whether the range is free, which it is no more then.
    fn begin(&self, object: ObjectId, range: &Range<u64>) -> bool {
        let mut busy = self.lock();
        let ranges = busy.entry(object).or_default();
        let overlap = |r: &Range<u64>| r.start.max(range.start) < r.end.min(range.end);
        let is_free = !ranges.iter().any(overlap);
        if is_free {
            ranges.push(range.clone());
        }
        is_free
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Vec<Range<u64>>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut busy = self.turns.lock();
        if let Some(ranges) = busy.get_mut(&self.object) {
            if let Some(at) = ranges.iter().position(|r| *r == self.range) {
                ranges.swap_remove(at);
            }
            if ranges.is_empty() {
                busy.remove(&self.object);
            }
        }
        drop(busy);
        self.turns.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use weft_store::types::Spread;

    use super::*;

    /// Ranges that touch no byte of each other go at once, others one after another; of another
    /// file all go.
    #[test]
    fn ranges_take_turns() {
        let file = |object| Striped {
            volume: 1,
            object,
            fence_epoch: 0,
            data_servers: Vec::new(),
            stripe_unit_bytes: 1,
            first_stripe_index: 0,
            reach: 1,
            spread: Spread::Copies { alike: false },
            lengths_min: Vec::new(),
        };
        let (turns, one, other) = (Turns::default(), file(1), file(2));
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.hold(&one, 10, 10));
        let Poll::Ready(first) = first.as_mut().poll(&mut context) else { panic!("it is free") };
        for (file, offset, len, goes) in [
            (&one, 0, 10, true),
            (&one, 20, u64::MAX, true),
            (&one, 12, 0, true),
            (&one, 19, 1, false),
            (&one, 0, 11, false),
            (&other, 10, 10, true),
        ] {
            let mut next = pin!(turns.hold(file, offset, len));
            assert_eq!(next.as_mut().poll(&mut context).is_ready(), goes, "{offset} {len}");
        }
        let mut next = pin!(turns.hold(&one, 15, 10));
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert!(turns.lock().is_empty());
    }
}
