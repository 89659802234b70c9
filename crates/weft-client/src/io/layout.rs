//! The layout of a file in use: fetched at the first I/O worth it, settled (COMMIT,
//! LAYOUTCOMMIT) and returned at close, on recall, and when a data server fails.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::RwLockReadGuard;
use weft_nfs::{
    DeviceId, IoMode, LayoutType, NfsStat, OpArgs, OpOk, Stateid,
    ops::{
        Body, LayoutReturn, LayoutcommitArgs, LayoutgetArgs, LayoutgetOk, LayoutreturnArgs,
        PutfhArgs,
    },
};

use super::{FileIo, commit::Quiet, open::Open};
use crate::{
    error::ClientError,
    layout::{LayoutDriver, LayoutError, Plan},
    limits,
};

/// What a file knows of its layout.
#[derive(Debug)]
pub(super) enum LayoutState {
    /// Nothing yet.
    None,
    /// One is held.
    Held(Arc<Held>),
    /// Through the metadata server until then.
    Avoid(Instant),
}

impl LayoutState {
    /// Whether there is no reason to ask for a layout.
    fn serves(&self, iomode: IoMode) -> bool {
        match self {
            LayoutState::Held(held) => held.serves(iomode),
            LayoutState::Avoid(until) => Instant::now() < *until,
            LayoutState::None => false,
        }
    }
}

/// A layout in our hands. It covers the whole file, which is all we ask for.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) plan: Arc<Plan>,
    pub(super) iomode: IoMode,
    layout_type: LayoutType,
    stateid: Stateid,
    /// How often the server had forgotten us when it was granted.
    pub(super) losses: u64,
    /// After the server gave no write layout beside this one for reading: when to ask again.
    ask_again: Mutex<Option<Instant>>,
    /// The range written through it since the last LAYOUTCOMMIT.
    written: Mutex<Option<(u64, u64)>>,
}

impl Held {
    /// Whether it is to be used for this, be it because the server gives nothing better.
    fn serves(&self, iomode: IoMode) -> bool {
        let ask_again = *self.ask_again.lock().unwrap_or_else(PoisonError::into_inner);
        self.iomode == IoMode::RW
            || iomode == IoMode::READ
            || ask_again.is_some_and(|at| Instant::now() < at)
    }

    fn ask_again_at(&self, at: Instant) {
        *self.ask_again.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Notes that this range was written.
    pub(super) fn note_written(&self, offset: u64, end: u64) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = written.unwrap_or((offset, end));
        *written = Some((from.min(offset), to.max(end)));
    }

    fn take_written(&self) -> Option<Unseen<'_>> {
        let range = self.written.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Unseen { held: self, range, heard: false })
    }
}

/// A range the metadata server is being told of. Unless it has heard, dropping this notes the
/// range again.
struct Unseen<'a> {
    held: &'a Held,
    range: (u64, u64),
    heard: bool,
}

impl Unseen<'_> {
    fn heard(mut self) {
        self.heard = true;
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if !self.heard {
            self.held.note_written(self.range.0, self.range.1);
        }
    }
}

/// What a layout says, for people.
#[derive(Debug, Clone)]
pub struct LayoutInfo {
    /// Its type.
    pub layout_type: LayoutType,
    /// The device.
    pub device: DeviceId,
    /// Bytes in a stripe unit.
    pub stripe_unit_bytes: u64,
    /// By stripe index: addresses and filehandle.
    pub stripes: Vec<crate::layout::StripeTarget>,
}

const WHOLE_FILE: u64 = u64::MAX;
/// Largest LAYOUTGET answer asked for.
const LAYOUT_BYTES_MAX: u32 = 64 << 10;

impl FileIo {
    /// The layout to use for an I/O, fetched if there is none that serves and the I/O is worth
    /// one. While the guard lives, the layout is not returned.
    pub(super) async fn access(
        &self,
        by: &Open,
        iomode: IoMode,
        worth_it: bool,
    ) -> RwLockReadGuard<'_, LayoutState> {
        loop {
            let state = self.file.gate.read().await;
            if state.serves(iomode) || !worth_it || self.cluster.drivers.is_empty() {
                return state;
            }
            drop(state);
            let mut state = self.file.gate.write().await;
            if state.serves(iomode) {
                continue;
            }
            *state = self.fetch_beside(by, &state, iomode).await;
        }
    }

    /// What becomes of the state by asking for a layout.
    async fn fetch_beside(&self, by: &Open, state: &LayoutState, iomode: IoMode) -> LayoutState {
        let held = if let LayoutState::Held(held) = state { Some(held) } else { None };
        let e = match self.fetch(by, held.map(|h| &**h), iomode).await {
            Ok(fetched) => return LayoutState::Held(Arc::new(fetched)),
            Err(e) => e,
        };
        tracing::debug!(fh = ?self.fh(), "no layout, indirect path instead: {e}");
        let until = Instant::now() + limits::LAYOUT_AVOID;
        match held {
            // The one for reading is gone; the open's stateid may give another.
            Some(_) if is_layout_gone(&e) => LayoutState::None,
            // It stays good for reading.
            Some(held) if e.status().is_some() => {
                held.ask_again_at(until);
                LayoutState::Held(held.clone())
            }
            _ => LayoutState::Avoid(until),
        }
    }

    /// Whether a layout is held; unknown while one comes or goes (a recall that meets this
    /// moment has to come again).
    pub fn holds_layout(&self) -> Option<bool> {
        let state = self.file.gate.try_read().ok()?;
        Some(matches!(&*state, LayoutState::Held(_)))
    }

    /// What the layout says; fetched if there is none.
    ///
    /// # Errors
    /// [`LayoutError`] when the server gives none.
    pub async fn layout_info(&self) -> Result<LayoutInfo, ClientError> {
        let iomode = if self.writable() { IoMode::RW } else { IoMode::READ };
        match &*self.access(&self.open, iomode, true).await {
            LayoutState::Held(held) => Ok(LayoutInfo {
                layout_type: held.layout_type,
                device: held.plan.device,
                stripe_unit_bytes: held.plan.stripe_unit_bytes,
                stripes: held.plan.stripes.clone(),
            }),
            _ => Err(LayoutError::new("the server gives none for this file").into()),
        }
    }

    /// LAYOUTGET with every driver in turn; with that of the layout that is held, if one is, for
    /// another mode.
    async fn fetch(
        &self,
        by: &Open,
        held: Option<&Held>,
        iomode: IoMode,
    ) -> Result<Held, ClientError> {
        let mut last = ClientError::Invalid("no layout driver");
        for driver in &self.cluster.drivers {
            if held.is_some_and(|h| h.layout_type != driver.layout_type()) {
                continue;
            }
            match self.fetch_with(by, held, &**driver, iomode).await {
                Ok(held) => return Ok(held),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    async fn fetch_with(
        &self,
        by: &Open,
        held: Option<&Held>,
        driver: &dyn LayoutDriver,
        iomode: IoMode,
    ) -> Result<Held, ClientError> {
        let layout_type = driver.layout_type();
        let losses = self.cluster.mds.losses();
        // §12.5.3: the open's stateid for the first one, the layout's own from then on.
        let stateid = held.map_or(*by.lock_stateid(), |h| h.stateid);
        let ok = self.layoutget(stateid, layout_type, iomode).await?;
        let (plan, iomode) = match self.plan(driver, &ok).await {
            Ok(planned) => planned,
            Err(e) => {
                tracing::warn!(fh = ?self.fh(), "layout granted but not usable: {e}");
                self.layoutreturn(layout_type, ok.stateid).await?;
                return Err(e);
            }
        };
        Ok(Held {
            plan: Arc::new(plan),
            iomode,
            layout_type,
            stateid: ok.stateid,
            losses,
            ask_again: Mutex::new(None),
            written: Mutex::new(None),
        })
    }

    async fn layoutget(
        &self,
        stateid: Stateid,
        layout_type: LayoutType,
        iomode: IoMode,
    ) -> Result<LayoutgetOk, ClientError> {
        let args = LayoutgetArgs {
            signal_layout_avail: false,
            layout_type,
            iomode,
            offset: 0,
            length: WHOLE_FILE,
            minlength: 0,
            stateid,
            maxcount: LAYOUT_BYTES_MAX,
        };
        match self.cluster.mds.on_file(self.fh(), OpArgs::Layoutget(args)).await? {
            OpOk::Layoutget(ok) => Ok(ok),
            _ => Err(ClientError::Protocol("LAYOUTGET answered with something else")),
        }
    }

    async fn plan(
        &self,
        driver: &dyn LayoutDriver,
        ok: &LayoutgetOk,
    ) -> Result<(Plan, IoMode), ClientError> {
        let [segment] = ok.layout.as_slice() else {
            return Err(LayoutError::new("not one segment").into());
        };
        if segment.layout_type != driver.layout_type() {
            return Err(LayoutError::new("another layout type than asked for").into());
        }
        if segment.offset != 0 || segment.length != WHOLE_FILE {
            return Err(LayoutError::new("it does not cover the whole file").into());
        }
        let device_id = driver.device(segment)?;
        let mds = &self.cluster.mds;
        let body = self.cluster.devices.body(mds, segment.layout_type, device_id).await?;
        Ok((driver.plan(segment, &body, self.fh())?, segment.iomode))
    }

    /// Settles and returns the layout, if one is held; the next I/O may fetch a new one.
    ///
    /// # Errors
    /// When what was written through it could not be made durable.
    pub async fn return_layout(&self) -> Result<(), ClientError> {
        self.drop_layout(&self.quiet().await, LayoutState::None).await
    }

    /// The same, and stays with the metadata server for a while.
    pub(super) async fn give_up_layout(&self, quiet: &Quiet<'_>) -> Result<(), ClientError> {
        self.drop_layout(quiet, LayoutState::Avoid(Instant::now() + limits::LAYOUT_AVOID)).await
    }

    async fn drop_layout(&self, quiet: &Quiet<'_>, next: LayoutState) -> Result<(), ClientError> {
        let (lost, settled) = {
            let mut state = self.file.gate.write().await;
            let LayoutState::Held(held) = &*state else { return Ok(()) };
            let held = held.clone();
            // Before the layout goes, what the data servers hold is made durable; what cannot
            // be is written again, another way.
            let lost = self.commit_round(quiet.round()).await;
            // With the layout goes the chance to say it again: whoever wrote must hear of it,
            // though it may be a recall that brought this about.
            let settled = self.layoutcommit(&held).await.map_err(|e| self.file.failed(e));
            let returned = self.layoutreturn(held.layout_type, held.stateid).await;
            *state = next;
            (lost?, settled.and(returned))
        };
        let Some(lost) = lost else { return settled };
        self.rewrite_all(quiet, lost).await.and(settled)
    }

    /// Tells the metadata server what was written through the layout (§18.42).
    pub(super) async fn layoutcommit(&self, held: &Held) -> Result<(), ClientError> {
        let Some(unseen) = held.take_written() else { return Ok(()) };
        let (from, to) = unseen.range;
        let args = LayoutcommitArgs {
            offset: from,
            length: to - from,
            reclaim: false,
            stateid: held.stateid,
            last_write_offset: to.checked_sub(1),
            time_modify: None,
            layout_type: held.layout_type,
            update_body: Body::default(),
        };
        let told = self.cluster.mds.on_file(self.fh(), OpArgs::Layoutcommit(args)).await;
        match told {
            Ok(_) => {}
            // The layout is no longer ours. The data are durable; whether the file shows them is
            // what the metadata server says its size is.
            Err(e) if is_layout_gone(&e) => {
                if self.fetch_size().await? < to {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
        unseen.heard();
        Ok(())
    }

    async fn layoutreturn(
        &self,
        layout_type: LayoutType,
        stateid: Stateid,
    ) -> Result<(), ClientError> {
        let args = LayoutreturnArgs {
            reclaim: false,
            layout_type,
            iomode: IoMode::ANY,
            layoutreturn: LayoutReturn::File {
                offset: 0,
                length: WHOLE_FILE,
                stateid,
                body: Body::default(),
            },
        };
        let put = OpArgs::Putfh(PutfhArgs { object: self.fh().clone() });
        match self.cluster.mds.compound(vec![put, OpArgs::Layoutreturn(args)]).await {
            Ok(_) => Ok(()),
            Err(e) if is_layout_gone(&e) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

fn is_layout_gone(e: &ClientError) -> bool {
    e.is_lost_state()
        || matches!(
            e.status(),
            Some(NfsStat::BADLAYOUT | NfsStat::NOMATCHING_LAYOUT | NfsStat::PNFS_NO_LAYOUT)
        )
}
