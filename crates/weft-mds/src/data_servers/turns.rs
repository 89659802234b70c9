//! In which order the copies of a replicated file change (P1.3, ADR 39): the same for all.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use weft_store::objects::ObjectId;

use crate::striped::Striped;

/// Changes of files with copies, by the ranges that they change. Two of one range follow each
/// other, in the order in which they came: begun at once, they could come in another order to each
/// copy. Those that touch no byte of each other go at once.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<ObjectId, File>>);

/// Those of one file.
#[derive(Debug, Default)]
struct File {
    /// Under way, or waiting, in the order in which they came.
    ranges: Vec<(u64, Range<u64>)>,
    last: u64,
    ended: Arc<Notify>,
}

/// A range that nobody else changes once it is ours, and nobody who came later before that.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    object: ObjectId,
    number: u64,
}

impl Turns {
    /// [`Turns::hold`] for a change of a file that may have no copies: then it has no turn to wait
    /// for, since each byte is in one place.
    pub(super) async fn hold_copies(
        &self,
        file: &Striped,
        offset: u64,
        len: u64,
    ) -> Option<Turn<'_>> {
        match file.is_copied() {
            true => Some(self.hold(file, offset, len).await),
            false => None,
        }
    }

    /// Waits until all who came before, and change some of a range of a file, are done.
    pub(super) async fn hold(&self, file: &Striped, offset: u64, len: u64) -> Turn<'_> {
        let (object, range) = (file.object_id(), offset..offset.saturating_add(len));
        let (turn, ended) = self.come(object, range);
        loop {
            let woken = ended.notified();
            if self.is_ours(&turn) {
                return turn;
            }
            woken.await;
        }
    }

    fn come(&self, object: ObjectId, range: Range<u64>) -> (Turn<'_>, Arc<Notify>) {
        let mut files = self.lock();
        let file = files.entry(object).or_default();
        file.last += 1;
        file.ranges.push((file.last, range));
        (Turn { turns: self, object, number: file.last }, file.ended.clone())
    }

    fn is_ours(&self, turn: &Turn<'_>) -> bool {
        let files = self.lock();
        let Some(file) = files.get(&turn.object) else { return true };
        let mine = file.ranges.iter().position(|(number, _)| *number == turn.number);
        let (before, mine) = file.ranges.split_at(mine.unwrap_or(0));
        let Some((_, mine)) = mine.first() else { return true };
        !before.iter().any(|(_, r)| r.start.max(mine.start) < r.end.min(mine.end))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut files = self.turns.lock();
        let Some(file) = files.get_mut(&self.object) else { return };
        file.ranges.retain(|(number, _)| *number != self.number);
        file.ended.notify_waiters();
        if file.ranges.is_empty() {
            files.remove(&self.object);
        }
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

    fn file(object: u64) -> Striped {
        Striped {
            volume: 1,
            object,
            fence_epoch: 0,
            data_servers: Vec::new(),
            stripe_unit_bytes: 1,
            first_stripe_index: 0,
            reach: 1,
            spread: Spread::Copies { alike: false },
            lengths_min: Vec::new(),
        }
    }

    /// Ranges that touch no byte of each other go at once, others one after another; of another
    /// file all go.
    #[test]
    fn ranges_take_turns() {
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

    /// Who waits for a large range is not passed by those who come later for a part of it.
    #[test]
    fn nobody_is_passed() {
        let (turns, file) = (Turns::default(), file(1));
        let mut context = Context::from_waker(Waker::noop());
        let mut hold = |offset, len| {
            let mut turn = Box::pin(turns.hold(&file, offset, len));
            let polled = turn.as_mut().poll(&mut context);
            (turn, polled)
        };
        let (_, Poll::Ready(small)) = hold(0, 4) else { panic!("it is free") };
        let (mut large, Poll::Pending) = hold(0, 100) else { panic!("it waits") };
        let (mut later, Poll::Pending) = hold(50, 4) else { panic!("it came later") };
        let (_, Poll::Ready(aside)) = hold(200, 4) else { panic!("it is free") };
        drop(small);
        let mut context = Context::from_waker(Waker::noop());
        assert!(later.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(large) = large.as_mut().poll(&mut context) else { panic!("its turn") };
        drop((large, aside));
        assert!(later.as_mut().poll(&mut context).is_ready());
    }
}
