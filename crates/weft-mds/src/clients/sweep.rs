//! Ending all handles that were given out, when the export's rules changed so that clients may do
//! less: data servers do not know the rules. And, at a start, those of which not all data servers
//! had been told before: whoever wanted that may have been told to wait, and has given up.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
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
/// How long a whole search waits for those who use handles: of what is found later they are asked
/// for, and not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
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

/// A search, as far as it has come.
struct Search {
    wanted: Wanted,
    /// Until then who uses handles is waited for.
    at_most: Instant,
    after: Option<InodeNo>,
    /// Files whose handles were to end.
    files: usize,
    /// Of those, how many the volume refused.
    failed: usize,
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
            let ended = match begun.wanted {
                Some(wanted) => self.search(wanted).await,
                None => true,
            };
            if self.is_done(begun.generation, ended) {
                self.wanted.notified().await;
            }
        }
    }

    /// Whether nothing is left to do, after a search for what was wanted in that generation, which
    /// could end all handles or not.
    fn is_done(&self, generation: u64, ended: bool) -> bool {
        let mut state = self.state();
        if state.generation != generation {
            return false;
        }
        state.wanted = None;
        if !state.is_noted && ended {
            match self.files.volume().note_rules(&state.rules).unconfirmed() {
                Ok(()) => state.is_noted = true,
                Err(error) => tracing::warn!(%error, "the next start ends all handles once more"),
            }
        }
        true
    }

    /// Returns when all handles of before have ended at all data servers that can be reached. The
    /// others are told in the background, and the volume remembers that for the next start. Whether
    /// it does of all files: if not, the next start searches again.
    async fn search(&self, wanted: Wanted) -> bool {
        // In grace clients still finish what they began with handles of before the restart.
        while self.protocol.grace().is_on() {
            tokio::time::sleep(PAUSE).await;
        }
        tracing::info!(?wanted, "handles that were given out are being ended");
        let at_most = Instant::now() + PATIENCE;
        let mut search = Search { wanted, at_most, after: None, files: 0, failed: 0 };
        while self.search_on(&mut search).await {}
        let Search { files, failed, .. } = search;
        tracing::info!(files, failed, "handles that were given out before have ended");
        failed == 0
    }

    /// Ends the handles of the next files; whether there were any.
    async fn search_on(&self, search: &mut Search) -> bool {
        let part = loop {
            match self.files.volume().placed_files(search.after, LOOKED_AT_ONCE) {
                Ok(part) if self.files.waiting_for_fences() < WAITING_MAX => break part,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "files cannot be searched for handles yet"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        let Some(last) = part.last else { return false };
        search.after = Some(last);
        self.files.take_up(&part.files);
        let is_wanted = |file: &Inode| match search.wanted {
            Wanted::All => file.handles.any(),
            Wanted::Owed => file.handles.owed,
        };
        let found: Vec<_> = part.files.into_iter().filter(is_wanted).collect();
        search.files += found.len();
        let mut tasks = JoinSet::new();
        for file in found {
            if tasks.len() >= ENDED_AT_ONCE {
                tasks.join_next().await;
            }
            // Durable before anybody is told: we may be restarted before all of them know.
            match self.files.volume().end_handles(file.no).unconfirmed() {
                Ok(_) | Err(StoreError::Stale) => {}
                Err(error) => {
                    tracing::warn!(ino = file.no.0, %error, "handles cannot be ended");
                    search.failed += 1;
                }
            }
            let (layouts, at_most) = (self.layouts.clone(), search.at_most);
            // What fails goes on in the background.
            tasks.spawn(async move { layouts.end_handles(file.no, Some(at_most)).await });
        }
        tasks.join_all().await;
        true
    }
}
