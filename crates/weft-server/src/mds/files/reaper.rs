//! Carries out intents (design D18): each is idempotent, and forgotten only when done. What waits
//! for a data server that is down holds up nothing else.

use std::{collections::HashSet, time::Duration};

use weft_store::types::{Intent, IntentId, IntentKind, StoreError};

use crate::mds::Mds;

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
}

/// The task.
#[derive(Debug, Default)]
pub(in crate::mds) struct Reaper {
    /// Waiting removals that the data servers that are up have carried out.
    partly_done: HashSet<IntentId>,
    was_waiting: bool,
}

impl Reaper {
    /// Runs for ever.
    pub(in crate::mds) async fn run(mut self, mds: &Mds) {
        loop {
            match self.round(mds).await {
                Ok(Round { done: 0, waiting: 0 }) => mds.reap.notified().await,
                Ok(Round { waiting: 0, .. }) => {}
                Ok(round) => {
                    self.note_waiting(round.waiting);
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
            self.was_waiting = false;
        }
    }

    /// Said once, not every second.
    fn note_waiting(&mut self, waiting: usize) {
        if !self.was_waiting {
            tracing::warn!(waiting, "removals and truncations wait for a data server");
        }
        self.was_waiting = true;
    }

    /// Carries out everything that can be done now.
    async fn round(&mut self, mds: &Mds) -> Result<Round, StoreError> {
        let mut round = finish_truncations(mds).await?;
        let mut after: Option<IntentId> = None;
        loop {
            let seen = mds.volume.intents(after, REAP_BATCH);
            let mut intents = seen.value?;
            mds.volume.durable(seen.lsn).await?;
            let Some(last) = intents.last() else { return Ok(round) };
            after = Some(last.id);
            // A truncation belongs to its request until that gives it up: done later than its
            // reply, it would cut what was written since.
            intents.retain(|i| i.kind == IntentKind::Delete);
            self.remove(mds, intents, &mut round).await?;
        }
    }

    async fn remove(
        &mut self,
        mds: &Mds,
        deletes: Vec<Intent>,
        round: &mut Round,
    ) -> Result<(), StoreError> {
        let (mut files, mut asked, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for intent in deletes {
            let file = mds.striped_at(intent.ino, &intent.placement, intent.fence_epoch);
            match file {
                None => done.push(intent),
                Some(f)
                    if self.partly_done.contains(&intent.id)
                        && !mds.data_servers.are_up(&f.data_servers) =>
                {
                    round.waiting += 1;
                }
                Some(f) => {
                    files.push(f);
                    asked.push(intent);
                }
            }
        }
        let removed = mds.data_servers.remove(&files).await;
        for (intent, removed) in asked.into_iter().zip(removed) {
            match removed {
                Ok(()) => {
                    self.partly_done.remove(&intent.id);
                    done.push(intent);
                }
                Err(e) => {
                    tracing::debug!(object = intent.ino.0, error = %e, "removal waits");
                    if self.partly_done.len() < PARTLY_DONE_MAX {
                        self.partly_done.insert(intent.id);
                    }
                    round.waiting += 1;
                }
            }
        }
        round.done += done.len();
        complete(mds, &done)
    }
}

/// Truncations that their requests gave up, or that a crash cut short. Their files take no
/// writes until this is done.
async fn finish_truncations(mds: &Mds) -> Result<Round, StoreError> {
    let mut round = Round::default();
    let mut broken = None;
    for intent in mds.abandoned_truncations() {
        if broken.is_some() || !cut(mds, &intent).await {
            mds.keep_truncation(intent);
            round.waiting += 1;
        } else if let Err(e) = complete_durably(mds, &intent).await {
            mds.keep_truncation(intent);
            broken = Some(e);
        } else {
            mds.files.lock().end_truncation(intent.ino);
            round.done += 1;
        }
    }
    broken.map_or(Ok(round), Err)
}

/// Whether the objects of a truncation have the right size now.
async fn cut(mds: &Mds, intent: &Intent) -> bool {
    let file = mds.striped_at(intent.ino, &intent.placement, intent.fence_epoch);
    let (Some(file), IntentKind::Truncate { size }) = (file, &intent.kind) else { return true };
    let done = mds.data_servers.truncate(&file, *size).await;
    if let Err(e) = &done {
        tracing::debug!(object = intent.ino.0, error = %e, "truncation waits");
    }
    done.is_ok()
}

/// Found again after a crash, the intent would cut what was written since: it must be gone for
/// good before anybody writes.
async fn complete_durably(mds: &Mds, intent: &Intent) -> Result<(), StoreError> {
    mds.volume.confirm(mds.volume.complete_intent(intent.id)).await
}

fn complete(mds: &Mds, intents: &[Intent]) -> Result<(), StoreError> {
    intents.iter().try_for_each(|i| mds.volume.complete_intent(i.id).value)
}
