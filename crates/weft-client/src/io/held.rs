//! What a file knows of its layout.

use std::{sync::Arc, time::Instant};

use weft_nfs::{IoMode, LayoutType, Stateid};

use crate::{layout::plan::Plan, limits, sync::Mutex};

/// Whether a layout is held, and if not, whether to ask for one.
#[derive(Debug)]
pub(super) enum LayoutState {
    /// The next I/O that is worth a layout asks for one.
    None,
    /// I/O goes through this one.
    Held(Arc<Held>),
    /// Through the metadata server until then.
    Avoid(Instant),
}

impl LayoutState {
    /// Through the metadata server for a while.
    pub(super) fn avoid() -> LayoutState {
        LayoutState::Avoid(Instant::now() + limits::LAYOUT_AVOID)
    }

    /// The layout, if one is held.
    pub(super) fn held(&self) -> Option<&Arc<Held>> {
        if let LayoutState::Held(held) = self { Some(held) } else { None }
    }

    /// Whether there is no reason to ask for a layout.
    pub(super) fn serves(&self, iomode: IoMode) -> bool {
        match self {
            LayoutState::Held(held) => held.serves(iomode),
            LayoutState::Avoid(until) => Instant::now() < *until,
            LayoutState::None => false,
        }
    }
}

/// A layout that was granted. It covers the whole file, which is all we ask for.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) plan: Arc<Plan>,
    pub(super) iomode: IoMode,
    pub(super) layout_type: LayoutType,
    pub(super) stateid: Stateid,
    /// How often the server had forgotten us when it was granted.
    pub(super) losses: u64,
    /// After the server gave no write layout beside this one for reading: when to ask again.
    ask_again: Mutex<Option<Instant>>,
    /// The range written through it since the last LAYOUTCOMMIT.
    written: Mutex<Option<(u64, u64)>>,
}

/// What a LAYOUTGET granted.
pub(super) struct Granted {
    pub(super) plan: Plan,
    pub(super) iomode: IoMode,
    pub(super) layout_type: LayoutType,
    pub(super) stateid: Stateid,
}

impl Held {
    pub(super) fn new(granted: Granted, losses: u64) -> Held {
        Held {
            plan: Arc::new(granted.plan),
            iomode: granted.iomode,
            layout_type: granted.layout_type,
            stateid: granted.stateid,
            losses,
            ask_again: Mutex::new(None),
            written: Mutex::new(None),
        }
    }

    /// Whether it is to be used for this, be it because the server gives nothing better.
    fn serves(&self, iomode: IoMode) -> bool {
        self.iomode == IoMode::RW
            || iomode == IoMode::READ
            || self.ask_again.lock().is_some_and(|at| Instant::now() < at)
    }

    /// It serves for everything until then.
    pub(super) fn ask_again_at(&self, at: Instant) {
        *self.ask_again.lock() = Some(at);
    }

    /// Notes that this range was written.
    pub(super) fn note_written(&self, offset: u64, end: u64) {
        let mut written = self.written.lock();
        let (from, to) = written.unwrap_or((offset, end));
        *written = Some((from.min(offset), to.max(end)));
    }

    /// What the metadata server has not been told of yet.
    pub(super) fn take_written(&self) -> Option<Untold<'_>> {
        let range = self.written.lock().take()?;
        Some(Untold { held: self, range, acknowledged: false })
    }
}

/// A range the metadata server is being told of. Dropped before it is acknowledged, the range is
/// noted again.
pub(super) struct Untold<'a> {
    held: &'a Held,
    /// Its first byte, and the one behind its last.
    pub(super) range: (u64, u64),
    acknowledged: bool,
}

impl Untold<'_> {
    pub(super) fn acknowledged(mut self) {
        self.acknowledged = true;
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if !self.acknowledged {
            self.held.note_written(self.range.0, self.range.1);
        }
    }
}
