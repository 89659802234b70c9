//! Files whose copies may differ (P1.3, ADR 39), and whether they do, as far as this process has
//! seen all that was done to them.
//!
//! Nothing here is durable: the volume says whose copies may differ. A file of which nothing is
//! known here has copies that may differ for reasons of before.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use weft_nfs::Verifier;
use weft_store::types::InodeNo;

/// Copies are made alike when nothing was done to the file for so long.
const QUIET: Duration = Duration::from_secs(3);
/// Pause before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Files remembered. The copies of further ones count as different until there is room.
const FILES_MAX: usize = 65_536;
/// Files that are due at once.
const DUE_MAX: usize = 64;

/// What is known of the copies of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// All that was done to one was done to the others since they were alike. What of it is not
    /// durable told this.
    Kept(Option<Verifier>),
    /// That is not known.
    Doubted,
}

#[derive(Debug)]
struct FileCopies {
    likeness: Likeness,
    /// When they are to be made alike.
    due: Instant,
}

/// Those files.
#[derive(Debug, Default)]
pub(crate) struct Differing {
    files: Mutex<HashMap<InodeNo, FileCopies>>,
    wake: Notify,
}

impl Differing {
    /// The copies of a file have been alike, or empty, until now, and may differ from here on.
    pub(crate) fn begin(&self, ino: InodeNo) {
        self.note(ino, Likeness::Kept(None));
    }

    /// Something is done to a file whose copies may differ.
    pub(crate) fn goes_on(&self, ino: InodeNo) {
        self.note(ino, Likeness::Doubted);
    }

    /// Somebody comes across a file whose copies may differ. What was known stays; whether there was
    /// room for it.
    pub(crate) fn meet(&self, ino: InodeNo) -> bool {
        self.lock().contains_key(&ino) || self.note(ino, Likeness::Doubted)
    }

    fn note(&self, ino: InodeNo, likeness: Likeness) -> bool {
        let due = Instant::now() + QUIET;
        let mut files = self.lock();
        let has_room = files.len() < FILES_MAX;
        match files.entry(ino) {
            Entry::Occupied(mut known) => known.get_mut().due = due,
            Entry::Vacant(place) if has_room => {
                place.insert(FileCopies { likeness, due });
                self.wake.notify_one();
            }
            Entry::Vacant(_) => return false,
        }
        true
    }

    /// A change was made to all copies, and told this, since it is not durable.
    pub(crate) fn told(&self, ino: InodeNo, verifier: Verifier) {
        if let Some(file) = self.lock().get_mut(&ino)
            && let Likeness::Kept(before) = &mut file.likeness
        {
            match before.replace(verifier).is_none_or(|before| before == verifier) {
                true => {}
                // A data server may have lost what it had before.
                false => file.likeness = Likeness::Doubted,
            }
        }
    }

    /// A change failed, or ended without an answer: some copies may have it.
    pub(crate) fn doubt(&self, ino: InodeNo) {
        if let Some(file) = self.lock().get_mut(&ino) {
            file.likeness = Likeness::Doubted;
        }
    }

    /// Whether all that was done to one copy was done to the others.
    pub(crate) fn are_kept(&self, ino: InodeNo) -> bool {
        let files = self.lock();
        files.get(&ino).is_some_and(|file| file.likeness != Likeness::Doubted)
    }

    /// Whether that is so, and durable by a COMMIT of all copies that told this.
    pub(crate) fn are_alike(&self, ino: InodeNo, committed: Verifier) -> bool {
        let files = self.lock();
        files.get(&ino).is_some_and(|file| match file.likeness {
            Likeness::Kept(told) => told.is_none_or(|told| told == committed),
            Likeness::Doubted => false,
        })
    }

    /// They are alike, and the volume says so; or there is no such file any more.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.lock().remove(&ino);
    }

    /// Nobody has the file open any more: its copies are made alike now.
    pub(crate) fn closed(&self, ino: InodeNo) {
        if let Some(file) = self.lock().get_mut(&ino) {
            file.due = Instant::now();
            self.wake.notify_one();
        }
    }

    /// They could not be made alike: later.
    pub(crate) fn later(&self, ino: InodeNo) {
        if let Some(file) = self.lock().get_mut(&ino) {
            file.due = file.due.max(Instant::now() + AGAIN);
        }
    }

    /// Waits for files whose copies are to be made alike: some of them, the longest due first.
    pub(crate) async fn due(&self) -> Vec<InodeNo> {
        loop {
            let woken = self.wake.notified();
            match self.due_at(Instant::now()) {
                Ok(due) => return due,
                Err(None) => woken.await,
                Err(Some(next)) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(next) => {}
                },
            }
        }
    }

    /// What is due at a time; if nothing is, when something will be.
    fn due_at(&self, now: Instant) -> Result<Vec<InodeNo>, Option<Instant>> {
        let mut all: Vec<_> = self.lock().iter().map(|(ino, file)| (file.due, *ino)).collect();
        all.sort_unstable();
        let due: Vec<_> = all.iter().take_while(|(due, _)| *due <= now).take(DUE_MAX).collect();
        match due.is_empty() {
            true => Err(all.first().map(|(due, _)| *due)),
            false => Ok(due.into_iter().map(|(_, ino)| *ino).collect()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InodeNo, FileCopies>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNo = InodeNo(7);
    const A: Verifier = Verifier([1; 8]);
    const B: Verifier = Verifier([2; 8]);

    /// Copies are alike if all was done to all of them and is durable, as far as this process has
    /// seen it from the beginning.
    #[test]
    fn only_what_was_seen_from_the_beginning_is_alike() {
        let files = Differing::default();
        files.goes_on(FILE);
        files.begin(FILE);
        assert!(!files.are_kept(FILE), "of before");
        files.forget(FILE);
        assert!(!files.are_kept(FILE) && !files.are_alike(FILE, A));
        files.begin(FILE);
        assert!(files.are_kept(FILE) && files.are_alike(FILE, A));
        files.told(FILE, A);
        assert!(files.are_alike(FILE, A) && !files.are_alike(FILE, B));
        files.goes_on(FILE);
        assert!(files.are_kept(FILE));
        files.told(FILE, B);
        assert!(!files.are_kept(FILE) && !files.are_alike(FILE, B), "one has restarted between");
        files.begin(FILE);
        assert!(!files.are_kept(FILE), "it was met before");
        files.forget(FILE);
        files.begin(FILE);
        files.doubt(FILE);
        assert!(!files.are_kept(FILE));
    }

    /// Files are due when they were quiet for a while, at once when they are closed, and later if
    /// that failed.
    #[test]
    fn quiet_files_are_due() {
        let (files, other) = (Differing::default(), InodeNo(8));
        assert_eq!(files.due_at(Instant::now()), Err(None));
        let began = Instant::now();
        files.begin(FILE);
        let Err(Some(quiet)) = files.due_at(began) else { panic!("it is not quiet") };
        assert!(quiet >= began + QUIET);
        files.goes_on(FILE);
        let Err(Some(next)) = files.due_at(quiet) else { panic!("something was done to it") };
        assert_eq!(files.due_at(next), Ok(vec![FILE]));
        files.begin(other);
        files.closed(other);
        assert_eq!(files.due_at(Instant::now()), Ok(vec![other]));
        files.later(other);
        let Err(Some(again)) = files.due_at(Instant::now()) else { panic!("it is tried later") };
        assert!(again < next);
        assert_eq!(files.due_at(again), Ok(vec![other]));
        assert_eq!(files.due_at(next), Ok(vec![other, FILE]));
        files.meet(FILE);
        files.forget(other);
        assert_eq!(files.due_at(next), Ok(vec![FILE]), "who reads puts nothing off");
    }

    /// There is an end to what is remembered; what is not is doubted.
    #[test]
    fn memory_is_bounded() {
        let files = Differing::default();
        (0..FILES_MAX as u64 + 9).for_each(|n| files.begin(InodeNo(n)));
        assert_eq!(files.lock().len(), FILES_MAX);
        assert!(files.are_kept(InodeNo(0)) && !files.are_kept(InodeNo(FILES_MAX as u64)));
        assert!(files.meet(InodeNo(0)) && !files.meet(InodeNo(FILES_MAX as u64)));
    }
}
