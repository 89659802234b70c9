//! Ending all handles that were given out, when the export's rules changed so that clients may do
//! less: data servers do not know the rules. And, at a start, those of which not all data servers
//! had been told before: whoever wanted that may have been told to wait, and has given up.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};
use weft_store::types::{Inode, InodeNo, StoreError};

use super::layout_recall::LayoutRecalls;
use crate::{files::FileService, protocol_state::ProtocolState};

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
pub(crate) struct Sweep {
    protocol: Arc<ProtocolState>,
    files: Arc<FileService>,
    layouts: Arc<LayoutRecalls>,
    state: Mutex<State>,
    wanted: Notify,
}

#[derive(Clone, Copy)]
struct State {
    /// What holds now.
    rules: Rules,
    /// How often there were new ones: what is searched for is compared by it, since rules may
    /// come again.
    generation: u64,
    /// Whose handles are to end.
    wanted: Option<Wanted>,
    /// The volume knows that there are none of others.
    is_noted: bool,
}

/// Which handles a search ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Those that were to end before the start.
    Owed,
    /// All: they may have been given out by other rules, to somebody who may do less by these.
    All,
}

impl Sweep {
    /// All are to end if other rules held when the metadata server stopped, or when it began to
    /// search: what those were is not known.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(super) fn new(
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        layouts: &Arc<LayoutRecalls>,
        rules: Rules,
    ) -> Result<Self, StoreError> {
        let former = files.volume().rules().unconfirmed()?;
        let is_noted = former.as_ref().is_some_and(|former| former[..] == rules);
        let wanted = match former.is_some() && !is_noted {
            true => Wanted::All,
            false => Wanted::Owed,
        };
        let state = State { rules, generation: 0, wanted: Some(wanted), is_noted };
        Ok(Sweep {
            protocol: protocol.clone(),
            files: files.clone(),
            layouts: layouts.clone(),
            state: Mutex::new(state),
            wanted: Notify::new(),
        })
    }

    /// New rules hold; all handles that were given out are to end if they restrict somebody.
    pub(super) fn begin(&self, rules: Rules, restrict: bool) {
        {
            let mut state = self.state();
            let is_noted = state.is_noted && state.rules == rules;
            let wanted = if restrict { Some(Wanted::All) } else { state.wanted };
            let generation = state.generation + 1;
            *state = State { rules, generation, wanted, is_noted };
        }
        self.wanted.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches all files whenever that is wanted. Runs for ever.
    pub(crate) async fn run(&self) {
        loop {
            let begun = *self.state();
            if let Some(wanted) = begun.wanted {
                self.search(wanted).await;
            }
            if self.is_done(begun.generation) {
                self.wanted.notified().await;
            }
        }
    }

    /// Whether nothing is left to do, after a search for what was wanted in that generation.
    fn is_done(&self, generation: u64) -> bool {
        let mut state = self.state();
        if state.generation != generation {
            return false;
        }
        state.wanted = None;
        if !state.is_noted {
            match self.files.volume().note_rules(&state.rules).unconfirmed() {
                Ok(()) => state.is_noted = true,
                Err(error) => tracing::warn!(%error, "the next start ends all handles once more"),
            }
        }
        true
    }

    /// Returns when all handles of before have ended at all data servers that can be reached. The
    /// others are told in the background, and the volume remembers that for the next start.
    async fn search(&self, wanted: Wanted) {
        // In grace clients still finish what they began with handles of before the restart.
        while self.protocol.grace().is_on() {
            tokio::time::sleep(PAUSE).await;
        }
        tracing::info!(?wanted, "handles that were given out are being ended");
        let (mut after, mut files) = (None, 0);
        while let Some(ended) = self.search_on(&mut after, wanted).await {
            files += ended;
        }
        tracing::info!(files, "handles that were given out before have ended");
    }

    /// Notes in the volume that the handles of a file are to end: we may be restarted before all
    /// data servers know.
    async fn note(&self, ino: InodeNo) {
        loop {
            match self.files.volume().end_handles(ino).unconfirmed() {
                Ok(_) | Err(StoreError::Stale) => return,
                Err(error) => tracing::warn!(ino = ino.0, %error, "handles cannot be ended yet"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The next files behind `after`: of how many handles have ended; `None` behind the last.
    async fn search_on(&self, after: &mut Option<InodeNo>, wanted: Wanted) -> Option<usize> {
        let part = loop {
            match self.files.volume().placed_files(*after, LOOKED_AT_ONCE) {
                Ok(part) if self.files.waiting_for_fences() < WAITING_MAX => break part,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "files cannot be searched for handles yet"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        *after = Some(part.last?);
        let is_wanted = |file: &Inode| match wanted {
            Wanted::All => file.handles.any(),
            Wanted::Owed => file.handles.owed,
        };
        let found: Vec<_> = part.files.into_iter().filter(is_wanted).collect();
        let mut tasks = JoinSet::new();
        for file in &found {
            if tasks.len() >= ENDED_AT_ONCE {
                tasks.join_next().await;
            }
            self.note(file.no).await;
            let (layouts, ino) = (self.layouts.clone(), file.no);
            // What fails goes on in the background.
            tasks.spawn(async move { layouts.end_handles(ino).await });
        }
        tasks.join_all().await;
        Some(found.len())
    }
}
