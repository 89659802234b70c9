//! Objects that clients want to make, and whoever waits for the metadata server to say that they
//! may (ADR 21). It asks for them by BIRTHS, which is answered when there is something to ask back:
//! a data server calls nobody.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, timeout, timeout_at},
};
use weft_control::codec::{BATCH_MAX, Birth, BirthAnswer};
use weft_nfs::NfsStat;

/// How long is waited.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// By a write: longer than a metadata server takes to start. Then its client is told to go
    /// there, as it is when it has no right to write any more.
    patience: Duration,
    /// Before a question is asked again: whoever took it may have gone.
    ask_again: Duration,
    /// By BIRTHS for a question. Whoever calls has to be heard of now and then.
    quiet: Duration,
}

const TIMES: Times = Times {
    patience: Duration::from_secs(10),
    ask_again: Duration::from_secs(1),
    quiet: Duration::from_secs(5),
};

/// KiB of all writes that wait. What a connection may have ends with the connection; beyond this
/// they are DELAY.
const WAITING_KIB_MAX: usize = 256 << 10;

/// What is asked of each volume's metadata server.
#[derive(Debug)]
pub(crate) struct Births {
    times: Times,
    /// Room for the bytes that wait, in KiB.
    room: Semaphore,
    volumes: Mutex<HashMap<u32, OfVolume>>,
}

impl Default for Births {
    fn default() -> Self {
        let room = Semaphore::new(WAITING_KIB_MAX);
        Births { times: TIMES, room, volumes: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct OfVolume {
    /// What writes wait for: no more than there are writes under way.
    waiting: BTreeMap<Birth, Waiting>,
    /// Those of them that were not asked yet, or are to be asked again.
    unasked: BTreeSet<Birth>,
    /// Told of a new one.
    more: Arc<Notify>,
}

#[derive(Debug)]
struct Waiting {
    writes: usize,
    answer: watch::Sender<Option<bool>>,
}

/// A write that waits for an answer.
struct Wait<'a> {
    births: &'a Births,
    volume: u32,
    birth: Birth,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut volumes = self.births.volumes();
        let Some(volume) = volumes.get_mut(&self.volume) else { return };
        if let Some(waiting) = volume.waiting.get_mut(&self.birth) {
            waiting.writes = waiting.writes.saturating_sub(1);
            if waiting.writes == 0 {
                volume.waiting.remove(&self.birth);
                volume.unasked.remove(&self.birth);
            }
        }
    }
}

impl Births {
    /// Waits, with so many bytes to write, until the metadata server of a volume lets an object be
    /// made.
    ///
    /// # Errors
    /// PNFS_NO_LAYOUT: the handle does not count any more, or nobody answers; DELAY: too much
    /// waits.
    pub(crate) async fn ask(&self, volume: u32, birth: Birth, bytes: u64) -> Result<(), NfsStat> {
        let kib = u32::try_from(bytes / 1024 + 1).map_err(|_| NfsStat::DELAY)?;
        let _room = self.room.try_acquire_many(kib).map_err(|_| NfsStat::DELAY)?;
        let mut answer = self.wait_for(volume, birth);
        let _wait = Wait { births: self, volume, birth };
        let deadline = Instant::now() + self.times.patience;
        while Instant::now() < deadline {
            self.put(volume, birth);
            let again = deadline.min(Instant::now() + self.times.ask_again);
            // An answer, or the time to ask again.
            if let Ok(Ok(told)) = timeout_at(again, answer.wait_for(Option::is_some)).await {
                return if *told == Some(true) { Ok(()) } else { Err(NfsStat::PNFS_NO_LAYOUT) };
            }
        }
        tracing::info!(volume, object = birth.object, "no metadata server lets it be made");
        Err(NfsStat::PNFS_NO_LAYOUT)
    }

    fn wait_for(&self, volume: u32, birth: Birth) -> watch::Receiver<Option<bool>> {
        let mut volumes = self.volumes();
        let waiting = &mut volumes.entry(volume).or_default().waiting;
        let none = || Waiting { writes: 0, answer: watch::Sender::new(None) };
        let waiting = waiting.entry(birth).or_insert_with(none);
        waiting.writes += 1;
        waiting.answer.subscribe()
    }

    fn put(&self, volume: u32, birth: Birth) {
        let mut volumes = self.volumes();
        let volume = volumes.entry(volume).or_default();
        volume.unasked.insert(birth);
        volume.more.notify_one();
    }

    /// What the metadata server of a volume answers to questions of before.
    pub(crate) fn answered(&self, volume: u32, answers: &[BirthAnswer]) {
        let mut volumes = self.volumes();
        let Some(volume) = volumes.get_mut(&volume) else { return };
        for BirthAnswer { birth, allowed } in answers {
            if let Some(waiting) = volume.waiting.get(birth) {
                waiting.answer.send_replace(Some(*allowed));
            }
        }
    }

    /// The next questions to it; none if there are none for a while.
    pub(crate) async fn next(&self, volume: u32) -> Vec<Birth> {
        let more = self.volumes().entry(volume).or_default().more.clone();
        let deadline = Instant::now() + self.times.quiet;
        loop {
            let asked = self.take(volume);
            let left = deadline.saturating_duration_since(Instant::now());
            if !asked.is_empty() || timeout(left, more.notified()).await.is_err() {
                return asked;
            }
        }
    }

    fn take(&self, volume: u32) -> Vec<Birth> {
        let mut volumes = self.volumes();
        let Some(volume) = volumes.get_mut(&volume) else { return Vec::new() };
        let OfVolume { waiting, unasked, .. } = volume;
        let unanswered = |birth: &Birth| {
            waiting.get(birth).is_some_and(|waiting| waiting.answer.borrow().is_none())
        };
        let mut asked = Vec::new();
        while asked.len() < BATCH_MAX
            && let Some(birth) = unasked.pop_first()
        {
            if unanswered(&birth) {
                asked.push(birth);
            }
        }
        asked
    }

    fn volumes(&self) -> MutexGuard<'_, HashMap<u32, OfVolume>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIRTH: Birth = Birth { object: 42, epoch: 3, slot: 1 };

    fn answer(allowed: bool) -> [BirthAnswer; 1] {
        [BirthAnswer { birth: BIRTH, allowed }]
    }

    /// A hundredth of the time.
    fn births() -> Births {
        let Times { patience, ask_again, quiet } = TIMES;
        let times =
            Times { patience: patience / 100, ask_again: ask_again / 100, quiet: quiet / 100 };
        Births { times, ..Births::default() }
    }

    /// Two writes to one object are one question, and each has the answer; a volume's questions are
    /// no other volume's, and nothing is left of them.
    #[tokio::test]
    async fn writes_wait_for_an_answer() {
        let births = births();
        let server = async {
            assert!(births.next(8).await.is_empty());
            assert_eq!(births.next(7).await, [BIRTH]);
            births.answered(8, &answer(false));
            births.answered(7, &answer(true));
        };
        let (one, two, ()) = tokio::join!(births.ask(7, BIRTH, 9), births.ask(7, BIRTH, 9), server);
        assert_eq!((one, two), (Ok(()), Ok(())));
        assert!(births.volumes()[&7].waiting.is_empty());
        let refused = async {
            assert_eq!(births.next(7).await, [BIRTH]);
            births.answered(7, &answer(false));
        };
        let (asked, ()) = tokio::join!(births.ask(7, BIRTH, 9), refused);
        assert_eq!(asked, Err(NfsStat::PNFS_NO_LAYOUT));
    }

    /// A question is asked again when whoever took it does not answer; one that nobody answers
    /// ends, and what waited for it is forgotten.
    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let births = births();
        let again = async {
            assert_eq!(births.next(7).await, [BIRTH]);
            assert_eq!(births.next(7).await, [BIRTH]);
            births.answered(7, &answer(true));
        };
        let (asked, ()) = tokio::join!(births.ask(7, BIRTH, 9), again);
        assert_eq!(asked, Ok(()));
        assert_eq!(births.ask(7, BIRTH, 9).await, Err(NfsStat::PNFS_NO_LAYOUT));
        assert!(births.volumes()[&7].waiting.is_empty());
        assert!(births.next(7).await.is_empty());
    }
}
