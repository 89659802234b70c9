//! Files whose copies may differ (P1.3, ADR 39), and whether they do, as far as this process has
//! seen all that was done to them.
//!
//! Nothing here is durable: the volume says whose copies may differ. A file of which nothing is
//! known here has copies that may differ for reasons of before.

use std::{
    collections::{BTreeSet, HashMap},
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
/// Pause before what failed is tried again: twice as long each time, up to 64 times as long.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_DOUBLINGS: u32 = 6;
/// Files remembered. The copies of further ones count as different until there is room.
const FILES_MAX: usize = 65_536;

/// What is known of the copies of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// All that was done to one was done to the others since they were alike. What of it is not
    /// durable told this.
    Kept(Option<Verifier>),
    /// The same, since they began to be compared: they are alike as far as that has come.
    Compared(Option<Verifier>),
    /// That is not known.
    Doubted,
}

#[derive(Debug)]
struct FileCopies {
    likeness: Likeness,
    /// When they are to be made alike; `None` while somebody does it.
    due: Option<Instant>,
    /// How often that failed.
    failures: u32,
}

#[derive(Debug, Default)]
struct Table {
    files: HashMap<InodeNo, FileCopies>,
    /// Those that are due some time.
    due: BTreeSet<(Instant, InodeNo)>,
}

/// Those files.
#[derive(Debug, Default)]
pub(crate) struct Differing {
    table: Mutex<Table>,
    wake: Notify,
}

impl Table {
    /// The copies of a file are due then, unless somebody makes them alike now, or it is not known;
    /// whether they are.
    fn put_off(&mut self, ino: InodeNo, until: Instant) -> bool {
        let Some(due) = self.files.get_mut(&ino).and_then(|file| file.due.as_mut()) else {
            return false;
        };
        self.due.remove(&(*due, ino));
        *due = until;
        self.due.insert((until, ino))
    }
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

    /// Somebody comes across a file whose copies may differ. What was known stays; whether there
    /// was room for it.
    pub(crate) fn meet(&self, ino: InodeNo) -> bool {
        self.lock().files.contains_key(&ino) || self.note(ino, Likeness::Doubted)
    }

    /// Whether there is room for many more.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().files.len() < FILES_MAX / 2
    }

    fn note(&self, ino: InodeNo, likeness: Likeness) -> bool {
        let mut table = self.lock();
        let until = Instant::now() + QUIET;
        if let Some(file) = table.files.get_mut(&ino) {
            // Not by whoever is making them alike: he begins what may fail again.
            if file.due.is_some() {
                file.failures = 0;
            }
            table.put_off(ino, until);
            return true;
        }
        if table.files.len() >= FILES_MAX {
            return false;
        }
        table.files.insert(ino, FileCopies { likeness, due: Some(until), failures: 0 });
        table.due.insert((until, ino));
        self.wake.notify_one();
        true
    }

    /// A change was made to all copies, and told this, since it is not durable; or a COMMIT of all.
    pub(crate) fn told(&self, ino: InodeNo, verifier: Verifier) {
        if let Some(file) = self.lock().files.get_mut(&ino)
            && let Likeness::Kept(before) | Likeness::Compared(before) = &mut file.likeness
            && before.replace(verifier).is_some_and(|before| before != verifier)
        {
            // A data server may have lost what it had before.
            file.likeness = Likeness::Doubted;
        }
    }

    /// A change failed, or ended without an answer: some copies may have it.
    pub(crate) fn doubt(&self, ino: InodeNo) {
        self.set(ino, |_| Likeness::Doubted);
    }

    /// The copies of a file begin to be compared.
    pub(crate) fn begin_compare(&self, ino: InodeNo) {
        self.set(ino, |_| Likeness::Compared(None));
    }

    /// They have been compared: they are alike unless something went wrong meanwhile.
    pub(crate) fn compared(&self, ino: InodeNo) {
        self.set(ino, |before| match before {
            Likeness::Compared(told) => Likeness::Kept(told),
            other => other,
        });
    }

    fn set(&self, ino: InodeNo, change: impl FnOnce(Likeness) -> Likeness) {
        if let Some(file) = self.lock().files.get_mut(&ino) {
            file.likeness = change(file.likeness);
        }
    }

    /// Whether all that was done to one copy was done to the others.
    pub(crate) fn are_kept(&self, ino: InodeNo) -> bool {
        let table = self.lock();
        table.files.get(&ino).is_some_and(|file| matches!(file.likeness, Likeness::Kept(_)))
    }

    /// Whether that is so, and durable by a COMMIT of all copies that told this.
    pub(crate) fn are_alike(&self, ino: InodeNo, committed: Verifier) -> bool {
        let table = self.lock();
        table.files.get(&ino).is_some_and(|file| match file.likeness {
            Likeness::Kept(told) => told.is_none_or(|told| told == committed),
            Likeness::Compared(_) | Likeness::Doubted => false,
        })
    }

    /// They are alike, and the volume says so; or there is no such file any more.
    pub(crate) fn forget(&self, ino: InodeNo) {
        let mut table = self.lock();
        if let Some(due) = table.files.remove(&ino).and_then(|file| file.due) {
            table.due.remove(&(due, ino));
        }
    }

    /// Nobody has the file open any more: its copies are made alike now.
    pub(crate) fn closed(&self, ino: InodeNo) {
        if self.lock().put_off(ino, Instant::now()) {
            self.wake.notify_one();
        }
    }

    /// They could not be made alike by whoever took them from [`Differing::due`]: later.
    pub(crate) fn later(&self, ino: InodeNo) {
        let mut table = self.lock();
        let Some(file) = table.files.get_mut(&ino) else { return };
        let pause = AGAIN * 2_u32.pow(file.failures.min(AGAIN_DOUBLINGS));
        file.failures = file.failures.saturating_add(1);
        file.due = Some(Instant::now() + pause);
        table.put_off(ino, Instant::now() + pause);
        self.wake.notify_one();
    }

    /// Waits for a file whose copies are to be made alike: from here on they are the caller's, who
    /// says [`Differing::later`] if that cannot be. Nothing is lost if the wait is given up.
    pub(crate) async fn due(&self) -> InodeNo {
        loop {
            let woken = self.wake.notified();
            match self.take(Instant::now()) {
                Ok(ino) => return ino,
                Err(None) => woken.await,
                Err(Some(next)) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(next) => {}
                },
            }
        }
    }

    /// What has been due the longest; if nothing is, when something will be.
    fn take(&self, now: Instant) -> Result<InodeNo, Option<Instant>> {
        let mut table = self.lock();
        match table.due.first().copied() {
            Some((due, ino)) if due <= now => {
                table.due.pop_first();
                if let Some(file) = table.files.get_mut(&ino) {
                    file.due = None;
                }
                Ok(ino)
            }
            next => Err(next.map(|(due, _)| due)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNo = InodeNo(7);
    const A: Verifier = Verifier([1; 8]);
    const B: Verifier = Verifier([2; 8]);

    /// Copies are alike if all was done to all of them and is durable, as far as this process has
    /// seen it from the beginning, or since it compared them.
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
        files.begin_compare(FILE);
        files.told(FILE, B);
        assert!(!files.are_kept(FILE) && !files.are_alike(FILE, B), "it goes on");
        files.compared(FILE);
        assert!(files.are_alike(FILE, B) && !files.are_alike(FILE, A));
        for went_wrong in
            [|files: &Differing| files.doubt(FILE), |files: &Differing| files.told(FILE, A)]
        {
            files.begin_compare(FILE);
            files.told(FILE, B);
            went_wrong(&files);
            files.compared(FILE);
            assert!(!files.are_kept(FILE));
        }
    }

    /// Files are due when they were quiet for a while, at once when they are closed, and later each
    /// time that failed; those that somebody has are not.
    #[test]
    fn quiet_files_are_due() {
        let (files, other) = (Differing::default(), InodeNo(8));
        assert_eq!(files.take(Instant::now()), Err(None));
        let began = Instant::now();
        files.begin(FILE);
        let Err(Some(quiet)) = files.take(began) else { panic!("it is not quiet") };
        assert!(quiet >= began + QUIET);
        files.goes_on(FILE);
        let Err(Some(next)) = files.take(quiet) else { panic!("something was done to it") };
        files.meet(FILE);
        assert_eq!(files.take(began), Err(Some(next)), "who reads puts nothing off");
        files.begin(other);
        files.closed(other);
        assert_eq!(files.take(Instant::now()), Ok(other));
        files.goes_on(other);
        files.closed(other);
        assert_eq!(files.take(Instant::now()), Err(Some(next)), "somebody has it");
        files.forget(FILE);
        for times in [1, 2, 4, 8, 16, 32, 64, 64] {
            files.goes_on(other);
            let before = Instant::now();
            files.later(other);
            let Err(Some(due)) = files.take(before) else { panic!("it is tried later") };
            assert!(due >= before + times * AGAIN && due <= Instant::now() + times * AGAIN);
            assert_eq!(files.take(due), Ok(other));
        }
        files.forget(other);
        assert!(files.lock().files.is_empty() && files.lock().due.is_empty());
    }

    /// There is an end to what is remembered; what is not is doubted.
    #[test]
    fn memory_is_bounded() {
        let files = Differing::default();
        (0..FILES_MAX as u64 + 9).for_each(|n| files.begin(InodeNo(n)));
        assert_eq!(files.lock().files.len(), FILES_MAX);
        assert!(files.are_kept(InodeNo(0)) && !files.are_kept(InodeNo(FILES_MAX as u64)));
        assert!(files.meet(InodeNo(0)) && !files.meet(InodeNo(FILES_MAX as u64)));
        assert!(!files.has_room());
    }
}
