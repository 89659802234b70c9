//! Carries out intents (design D18): each is idempotent, and forgotten only when done. What waits
//! for a data server that is down holds up nothing else.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;
use weft_store::types::{DataServerId, InodeNo, Intent, IntentId, IntentKind, StoreError};

use super::shared::Shared;
use crate::data_servers::DataServerError;

/// Intents carried out together.
const REAP_BATCH: usize = 512;
/// Pause while something waits for a data server.
const REAP_PAUSE: Duration = Duration::from_secs(1);
/// The pause grows by this for everything that waits, so that looking takes a small part of the
/// time.
const REAP_PAUSE_EACH: Duration = Duration::from_micros(20);
/// Removals remembered as done on all data servers that are up; others are sent again and again
/// to those, which is harmless.
const PARTLY_DONE_MAX: usize = 65_536;

/// What one look at the intents did.
#[derive(Debug, Default)]
struct Round {
    done: usize,
    waiting: usize,
    /// What waits for each data server.
    owed: Owed,
}

impl Round {
    fn waits_for(&mut self, server: DataServerId) {
        self.waiting += 1;
        *self.owed.entry(server).or_default() += 1;
    }
}

/// Removals and truncations that wait, by the first data server that they wait for.
pub(crate) type Owed = BTreeMap<DataServerId, u64>;

/// Removals and truncations that are not done yet.
pub(crate) struct Reaper {
    shared: Arc<Shared>,
    /// Unfinished truncations that no request is working on; their files are closed to writers.
    abandoned: Mutex<Vec<Intent>>,
    wake: Notify,
    /// As of the last round.
    owed: Mutex<Owed>,
}

impl Reaper {
    /// The reaper of a volume. Truncations that a crash interrupted come before any new write to
    /// their files.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let reaper = Reaper {
            shared,
            abandoned: Mutex::default(),
            wake: Notify::new(),
            owed: Mutex::default(),
        };
        reaper.take_up_truncations()?;
        Ok(reaper)
    }

    fn take_up_truncations(&self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let intents = self.shared.volume.intents(after, REAP_BATCH).unconfirmed()?;
            let Some(last) = intents.last() else { return Ok(()) };
            after = Some(last.id);
            for intent in intents {
                if matches!(intent.kind, IntentKind::Truncate { .. }) {
                    let inode = match self.shared.volume.inode(intent.ino).unconfirmed() {
                        Ok(inode) => Some(inode),
                        Err(StoreError::Stale) => None,
                        Err(e) => return Err(e),
                    };
                    self.shared.records.lock().begin_left_over(intent.ino, inode.as_ref());
                    self.abandon(intent);
                }
            }
        }
    }

    /// What waits for data servers.
    pub(crate) fn owed(&self) -> Owed {
        self.owed.lock().expect("owed lock").clone()
    }

    fn note_owed(&self, round: &Round) {
        self.owed.lock().expect("owed lock").clone_from(&round.owed);
    }

    /// There is a new intent to remove objects.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Leaves an unfinished truncation to the reaper. Its file stays closed to writers until it is
    /// done.
    pub(crate) fn abandon(&self, intent: Intent) {
        self.keep(intent);
        self.wake();
    }

    fn keep(&self, intent: Intent) {
        self.abandoned.lock().expect("abandoned lock").push(intent);
    }

    /// The last open of a file is gone: an unlinked one goes now.
    pub(crate) fn release(&self, ino: InodeNo) {
        let released = self.shared.volume.release_orphan(ino, self.shared.wall());
        match released.value {
            Ok(Some(intent)) => {
                self.forget_layouts(intent.ino);
                self.wake();
            }
            Ok(None) => {}
            Err(e) => tracing::error!(ino = ino.0, error = %e, "cannot release an unlinked file"),
        }
    }

    /// Releases files that were unlinked while open, and that nobody reclaimed in grace; whether
    /// all of them could be looked at.
    pub(crate) fn release_unclaimed(&self) -> bool {
        let mut after = None;
        loop {
            let orphans = match self.shared.volume.orphans(after, REAP_BATCH).unconfirmed() {
                Ok(orphans) => orphans,
                Err(e) => {
                    tracing::error!(error = %e, "cannot list unlinked files");
                    return false;
                }
            };
            let Some(last) = orphans.last() else { return true };
            after = Some(*last);
            for ino in orphans {
                if !self.shared.protocol.state().is_open(self.shared.key(ino)) {
                    self.release(ino);
                }
            }
        }
    }

    /// A removed file is gone from the volume: nobody can return its layouts any more, and its
    /// data servers refuse their handles with its objects. Under the lock of grants, of which each
    /// sees that the file is gone or is seen here.
    pub(crate) fn forget_layouts(&self, ino: InodeNo) {
        let _grants = self.shared.records.lock();
        self.shared.protocol.state().layouts_forget(self.shared.key(ino));
    }

    /// Carries out what there is to do, for ever.
    pub(crate) async fn run(&self) {
        let mut progress = Progress::default();
        loop {
            match self.round(&mut progress).await {
                Ok(Round { done: 0, waiting: 0, .. }) => {
                    self.note_owed(&Round::default());
                    self.wake.notified().await;
                }
                Ok(Round { waiting: 0, .. }) => self.note_owed(&Round::default()),
                Ok(round) => {
                    self.note_owed(&round);
                    progress.note_waiting(&round);
                    let waiting = u32::try_from(round.waiting).unwrap_or(u32::MAX);
                    tokio::time::sleep(REAP_PAUSE + REAP_PAUSE_EACH * waiting).await;
                    continue;
                }
                Err(e) => {
                    tracing::error!(error = %e, "cannot clean up");
                    tokio::time::sleep(REAP_PAUSE).await;
                    continue;
                }
            }
            progress.was_waiting = false;
        }
    }

    /// Carries out everything that can be done now.
    async fn round(&self, progress: &mut Progress) -> Result<Round, StoreError> {
        let mut round = self.finish_truncations().await?;
        let mut after: Option<IntentId> = None;
        loop {
            let seen = self.shared.volume.intents(after, REAP_BATCH);
            let mut intents = seen.value?;
            self.shared.volume.durable(seen.lsn).await?;
            let Some(last) = intents.last() else { return Ok(round) };
            after = Some(last.id);
            // A truncation belongs to its request until that gives it up: done later than its
            // reply, it would cut what was written since.
            intents.retain(|i| i.kind == IntentKind::Delete);
            self.remove(progress, intents, &mut round).await?;
        }
    }

    async fn remove(
        &self,
        progress: &mut Progress,
        deletes: Vec<Intent>,
        round: &mut Round,
    ) -> Result<(), StoreError> {
        let (mut files, mut asked, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for intent in deletes {
            let file = self.shared.placements.striped_at(
                intent.ino,
                &intent.placement,
                intent.fence_epoch,
            );
            match file {
                None => done.push(intent),
                Some(f)
                    if progress.partly_done.contains(&intent.id)
                        && let Some(away) =
                            self.shared.data_servers.first_away(&f.holder_ids()) =>
                {
                    round.waits_for(away);
                }
                Some(f) => {
                    files.push(f);
                    asked.push(intent);
                }
            }
        }
        let removed = self.shared.data_servers.remove(&files).await;
        for (intent, removed) in asked.into_iter().zip(removed) {
            match removed {
                Ok(()) => {
                    progress.partly_done.remove(&intent.id);
                    done.push(intent);
                }
                Err(e) => {
                    tracing::debug!(object = intent.ino.0, error = %e, "removal waits");
                    progress.note_partly_done(intent.id);
                    round.waits_for(e.id());
                }
            }
        }
        round.done += done.len();
        done.iter().try_for_each(|i| self.shared.volume.complete_intent(i.id).unconfirmed())
    }

    /// Truncations that their requests gave up, or that a crash cut short. Their files take no
    /// writes until this is done.
    async fn finish_truncations(&self) -> Result<Round, StoreError> {
        let mut round = Round::default();
        let mut broken = None;
        // Objects are never cut for a size that a crash would take back.
        let volume = &self.shared.volume;
        volume.durable(volume.stats().unconfirmed()?.lsn).await?;
        let abandoned = std::mem::take(&mut *self.abandoned.lock().expect("abandoned lock"));
        for intent in abandoned {
            if broken.is_some() {
                self.keep(intent);
                round.waiting += 1;
            } else if let Err(e) = self.cut(&intent).await {
                tracing::debug!(object = intent.ino.0, error = %e, "truncation waits");
                self.keep(intent);
                round.waits_for(e.id());
            } else if let Err(e) = self.complete_durably(&intent).await {
                self.keep(intent);
                broken = Some(e);
            } else {
                self.shared.records.lock().end_truncation(intent.ino);
                round.done += 1;
            }
        }
        broken.map_or(Ok(round), Err)
    }

    /// Gives the objects of a truncation the right size.
    async fn cut(&self, intent: &Intent) -> Result<(), DataServerError> {
        let (epoch, placement) = (intent.fence_epoch, &intent.placement);
        let file = self.shared.placements.striped_at(intent.ino, placement, epoch);
        let (Some(file), IntentKind::Truncate { size }) = (file, &intent.kind) else {
            return Ok(());
        };
        self.shared.data_servers.truncate(&file, *size).await
    }

    /// Forgets an intent that is done, for good: found again after a crash, that of a truncation
    /// would cut what was written since. So this comes before anybody writes.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn complete_durably(&self, intent: &Intent) -> Result<(), StoreError> {
        self.shared.volume.confirm(self.shared.volume.complete_intent(intent.id)).await
    }
}

/// What the reaper remembers from round to round.
#[derive(Debug, Default)]
struct Progress {
    /// Waiting removals that the data servers that are up have carried out.
    partly_done: HashSet<IntentId>,
    was_waiting: bool,
}

impl Progress {
    fn note_partly_done(&mut self, id: IntentId) {
        if self.partly_done.len() < PARTLY_DONE_MAX {
            self.partly_done.insert(id);
        }
    }

    /// Said once, not every second.
    fn note_waiting(&mut self, round: &Round) {
        if !self.was_waiting {
            for (server, waiting) in &round.owed {
                let id = server.0;
                tracing::warn!(id, waiting, "removals and truncations wait for a data server");
            }
        }
        self.was_waiting = true;
    }
}
