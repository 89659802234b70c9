//! Ending all handles that were given out, when the export's rules changed so that clients may do
//! less: data servers do not know the rules.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};
use weft_store::types::{InodeNo, StoreError};

use super::{fence::Fences, shared::Shared};

/// Files looked at in one go: a few milliseconds of the volume.
const LOOKED_AT_ONCE: usize = 256;
/// Files whose handles are being ended at once.
const ENDED_AT_ONCE: usize = 16;
/// Files that may wait for data servers that are away; more wait here for those to go on.
const WAITING_MAX: usize = 4096;
/// Pause before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// The rules for clients, as a digest.
pub(crate) type Rules = [u8; 32];

/// The search for handles.
pub(super) struct Sweep {
    shared: Arc<Shared>,
    fences: Arc<Fences>,
    state: Mutex<State>,
    wanted: Notify,
}

#[derive(Clone, Copy)]
struct State {
    /// What holds now.
    rules: Rules,
    /// Handles may have been given out by others, to somebody who may do less by these.
    is_wanted: bool,
    /// The volume knows that there are none of others.
    is_noted: bool,
}

impl Sweep {
    /// Wanted if other rules held when the metadata server stopped, or when it began to search:
    /// what those were is not known.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(super) fn new(
        shared: &Arc<Shared>,
        fences: &Arc<Fences>,
        rules: Rules,
    ) -> Result<Self, StoreError> {
        let former = shared.volume.rules().unconfirmed()?;
        let is_noted = former.as_ref().is_some_and(|former| former[..] == rules);
        let is_wanted = former.is_some() && !is_noted;
        let (shared, fences) = (shared.clone(), fences.clone());
        let state = Mutex::new(State { rules, is_wanted, is_noted });
        Ok(Sweep { shared, fences, state, wanted: Notify::new() })
    }

    /// New rules hold; all handles that were given out are to end if they restrict somebody.
    pub(super) fn begin(&self, rules: Rules, restrict: bool) {
        {
            let mut state = self.state();
            let is_noted = state.is_noted && state.rules == rules;
            *state = State { rules, is_wanted: state.is_wanted || restrict, is_noted };
        }
        self.wanted.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches all files whenever that is wanted. Runs for ever.
    pub(super) async fn run(&self) {
        loop {
            let begun = *self.state();
            if begun.is_wanted {
                self.search().await;
            }
            if self.is_done(begun.rules) {
                self.wanted.notified().await;
            }
        }
    }

    /// Whether nothing is left to do, after handles given out by other rules than these have ended.
    fn is_done(&self, rules: Rules) -> bool {
        let mut state = self.state();
        if state.rules != rules {
            return false;
        }
        state.is_wanted = false;
        if !state.is_noted {
            match self.shared.volume.note_rules(&rules).unconfirmed() {
                Ok(()) => state.is_noted = true,
                Err(error) => tracing::warn!(%error, "the next start ends all handles once more"),
            }
        }
        true
    }

    /// Returns when all handles of before have ended, at all data servers.
    async fn search(&self) {
        // In grace clients still finish what they began with handles of before the restart.
        while self.shared.protocol.grace().is_on() {
            tokio::time::sleep(PAUSE).await;
        }
        tracing::info!("new rules for clients: all handles that were given out are being ended");
        let (mut after, mut files) = (None, 0);
        while let Some(ended) = self.search_on(&mut after).await {
            files += ended;
        }
        while self.waiting() > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        tracing::info!(files, "all handles that were given out before have ended");
    }

    /// Files whose data servers are still to be told.
    fn waiting(&self) -> usize {
        self.shared.records.lock().all_stale().len()
    }

    /// The next files behind `after`: of how many handles have ended; `None` behind the last.
    async fn search_on(&self, after: &mut Option<InodeNo>) -> Option<usize> {
        let part = loop {
            match self.shared.volume.placed_files(*after, LOOKED_AT_ONCE) {
                Ok(part) if self.waiting() < WAITING_MAX => break part,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "files cannot be searched for handles yet"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        *after = Some(part.last?);
        let found: Vec<_> = part.files.into_iter().filter(|file| file.handles.any()).collect();
        let mut tasks = JoinSet::new();
        for file in &found {
            if tasks.len() >= ENDED_AT_ONCE {
                tasks.join_next().await;
            }
            let (fences, ino) = (self.fences.clone(), file.no);
            // What fails goes on in the background.
            tasks.spawn(async move { fences.end_handles(ino).await });
        }
        tasks.join_all().await;
        Some(found.len())
    }
}
