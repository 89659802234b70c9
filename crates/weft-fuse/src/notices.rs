//! What the kernel has yet to be told of changes that others make: pure but for who waits.
//!
//! The kernel may have to wait before it lets go of a file's bytes (a page that is being read or
//! written back is locked until that is answered), so whoever hears of a change only says so here,
//! and others tell it ([`crate::telling`]). A file is here once, however often it changes: what is
//! told is always all of the file, since nobody says which range others will write. When there are
//! more files than [`INODES_MAX`], what is told is all files that the kernel remembers: nothing is
//! ever left out.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, watch};

/// To `fuse_reverse_inval_inode` (`fs/fuse/inode.c`): attributes alone, for which it waits for no
/// page.
pub const NO_BYTES: i64 = -1;
/// All bytes, too.
pub const ALL_BYTES: i64 = 0;

/// Files that wait each for itself: as many as may be delegated to a client.
const INODES_MAX: usize = weft_client::limits::DELEGATIONS_MAX;

/// Which files the kernel is to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// These, by inode number.
    Inodes(BTreeSet<u64>),
    /// All that it remembers.
    All,
}

/// Files to be told of together, and their number: what is said later than that they were taken is
/// told with the next ones.
#[derive(Debug)]
struct Waiting {
    whom: Whom,
    batch: u64,
}

impl Waiting {
    fn push(&mut self, inodes: impl IntoIterator<Item = u64>) -> u64 {
        if let Whom::Inodes(waiting) = &mut self.whom {
            waiting.extend(inodes);
            if waiting.len() > INODES_MAX {
                self.whom = Whom::All;
            }
        }
        self.batch
    }

    fn push_all(&mut self) -> u64 {
        self.whom = Whom::All;
        self.batch
    }

    fn take(&mut self) -> Option<(u64, Whom)> {
        if matches!(&self.whom, Whom::Inodes(none) if none.is_empty()) {
            return None;
        }
        let taken = (self.batch, std::mem::replace(&mut self.whom, Whom::Inodes(BTreeSet::new())));
        self.batch += 1;
        Some(taken)
    }
}

/// Files to be told of, those who say so, and the one who tells.
pub struct Notices {
    waiting: Mutex<Waiting>,
    pushed: Notify,
    /// The batch that was told last.
    told: watch::Sender<u64>,
}

/// What the kernel is to be told.
#[derive(Default)]
pub struct Telling {
    pub attributes: Notices,
    /// Of files in whose notice of attributes they are, too.
    pub bytes: Notices,
}

impl Default for Notices {
    fn default() -> Self {
        let waiting = Waiting { whom: Whom::Inodes(BTreeSet::new()), batch: 1 };
        let (pushed, told) = (Notify::new(), watch::Sender::new(0));
        Notices { waiting: Mutex::new(waiting), pushed, told }
    }
}

impl Notices {
    /// The kernel is to be told of these; the batch that they are told with.
    pub fn push(&self, inodes: impl IntoIterator<Item = u64>) -> u64 {
        let batch = self.lock().push(inodes);
        self.pushed.notify_one();
        batch
    }

    /// It is to be told of all files.
    pub fn push_all(&self) -> u64 {
        let batch = self.lock().push_all();
        self.pushed.notify_one();
        batch
    }

    /// The next ones, for the one task that tells it.
    pub async fn next(&self) -> (u64, Whom) {
        loop {
            let pushed = self.pushed.notified();
            if let Some(taken) = self.lock().take() {
                return taken;
            }
            pushed.await;
        }
    }

    /// The kernel was told of a batch, and has let go of it.
    pub fn told(&self, batch: u64) {
        self.told.send_replace(batch);
    }

    /// Done when it was told of this batch; or when nobody tells it any more.
    pub fn when_told(&self, batch: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut told = self.told.subscribe();
        async move {
            drop(told.wait_for(|told| *told >= batch).await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inodes(all: &[u64]) -> Whom {
        Whom::Inodes(all.iter().copied().collect())
    }

    /// What changes again before the kernel was told is told once, what changes while it is being
    /// told is told again, and nothing is told twice.
    #[test]
    fn each_file_waits_once() {
        let notices = Notices::default();
        let take = || notices.lock().take();
        assert_eq!(take(), None);
        assert_eq!([notices.push([7]), notices.push([8, 7]), notices.push([7])], [1, 1, 1]);
        assert_eq!(take(), Some((1, inodes(&[7, 8]))));
        assert_eq!(notices.push([7]), 2, "it may have changed after it was told");
        assert_eq!(take(), Some((2, inodes(&[7]))));
        assert_eq!((notices.push([]), take()), (3, None));
    }

    /// More files than have room are all files, and remain that until they are told.
    #[test]
    fn too_many_are_all() {
        let notices = Notices::default();
        let take = || notices.lock().take();
        notices.push(0..INODES_MAX as u64);
        assert!(matches!(take(), Some((1, Whom::Inodes(some))) if some.len() == INODES_MAX));
        notices.push(0..=INODES_MAX as u64);
        notices.push([3]);
        assert_eq!(take(), Some((2, Whom::All)));
        notices.push([3]);
        notices.push_all();
        assert_eq!(take(), Some((3, Whom::All)));
        assert_eq!(take(), None);
    }

    /// Who waits goes on when his batch was told, or a later one, and not before.
    #[tokio::test]
    async fn waiting_until_it_is_told() {
        let notices = Notices::default();
        let batch = notices.push([7]);
        let mut waits = looked(notices.when_told(batch));
        assert!(!waits.is_done().await);
        let (taken, _) = notices.next().await;
        assert!(!waits.is_done().await, "it is being told");
        notices.told(taken);
        assert!(waits.is_done().await);
        let waits = notices.when_told(notices.push([8]));
        drop(notices);
        waits.await;
    }

    /// A future that can be looked at.
    struct Looked<F>(std::pin::Pin<Box<F>>);

    fn looked<F: Future<Output = ()>>(future: F) -> Looked<F> {
        Looked(Box::pin(future))
    }

    impl<F: Future<Output = ()>> Looked<F> {
        async fn is_done(&mut self) -> bool {
            std::future::poll_fn(|cx| std::task::Poll::Ready(self.0.as_mut().poll(cx).is_ready()))
                .await
        }
    }
}
