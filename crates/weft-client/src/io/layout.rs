//! The layout of one open file: fetched at the first I/O worth it, settled (COMMIT,
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

use super::{FileIo, commit::Round};
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

/// A layout in our hands. It covers the whole file, which is all we ask for.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) plan: Arc<Plan>,
    pub(super) iomode: IoMode,
    layout_type: LayoutType,
    stateid: Stateid,
    /// The range written through it since the last LAYOUTCOMMIT.
    written: Mutex<Option<(u64, u64)>>,
}

impl Held {
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
    /// The layout to use for an I/O, fetched if there is none and the I/O is worth one. While
    /// the guard lives, the layout is not returned.
    pub(super) async fn access(
        &self,
        iomode: IoMode,
        worth_it: bool,
    ) -> RwLockReadGuard<'_, LayoutState> {
        loop {
            let state = self.gate.read().await;
            let fetch = match &*state {
                LayoutState::Held(_) => false,
                LayoutState::Avoid(until) => Instant::now() >= *until,
                LayoutState::None => true,
            };
            if !fetch || !worth_it || self.cluster.drivers.is_empty() {
                return state;
            }
            drop(state);
            let mut state = self.gate.write().await;
            if matches!(*state, LayoutState::Held(_)) {
                continue;
            }
            let fetched = self.fetch(iomode).await;
            *state = fetched.unwrap_or_else(|e| {
                tracing::debug!(fh = ?self.fh(), "no layout, indirect path instead: {e}");
                LayoutState::Avoid(Instant::now() + limits::LAYOUT_AVOID)
            });
        }
    }

    /// Whether a layout is held; unknown while one comes or goes (a recall that meets this
    /// moment has to come again).
    pub fn holds_layout(&self) -> Option<bool> {
        let state = self.gate.try_read().ok()?;
        Some(matches!(&*state, LayoutState::Held(_)))
    }

    /// What the layout says; fetched if there is none.
    ///
    /// # Errors
    /// [`LayoutError`] when the server gives none.
    pub async fn layout_info(&self) -> Result<LayoutInfo, ClientError> {
        let iomode = if self.writable() { IoMode::RW } else { IoMode::READ };
        match &*self.access(iomode, true).await {
            LayoutState::Held(held) => Ok(LayoutInfo {
                layout_type: held.layout_type,
                device: held.plan.device,
                stripe_unit_bytes: held.plan.stripe_unit_bytes,
                stripes: held.plan.stripes.clone(),
            }),
            _ => Err(LayoutError::new("the server gives none for this file").into()),
        }
    }

    /// LAYOUTGET with every driver in turn.
    async fn fetch(&self, iomode: IoMode) -> Result<LayoutState, ClientError> {
        let mut last = ClientError::Invalid("no layout driver");
        for driver in &self.cluster.drivers {
            match self.fetch_with(&**driver, iomode).await {
                Ok(held) => return Ok(LayoutState::Held(Arc::new(held))),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    async fn fetch_with(
        &self,
        driver: &dyn LayoutDriver,
        iomode: IoMode,
    ) -> Result<Held, ClientError> {
        let layout_type = driver.layout_type();
        let ok = self.layoutget(layout_type, iomode).await?;
        let (plan, iomode) = match self.plan(driver, &ok).await {
            Ok(planned) => planned,
            Err(e) => {
                tracing::warn!(fh = ?self.fh(), "layout granted but not usable: {e}");
                self.layoutreturn(layout_type, ok.stateid).await?;
                return Err(e);
            }
        };
        let (plan, written) = (Arc::new(plan), Mutex::new(None));
        Ok(Held { plan, iomode, layout_type, stateid: ok.stateid, written })
    }

    async fn layoutget(
        &self,
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
            stateid: *self.lock_stateid(),
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
        self.drop_layout(&self.round().await, LayoutState::None).await
    }

    /// The same, and stays with the metadata server for a while.
    pub(super) async fn give_up_layout(&self, round: &Round<'_>) -> Result<(), ClientError> {
        self.drop_layout(round, LayoutState::Avoid(Instant::now() + limits::LAYOUT_AVOID)).await
    }

    async fn drop_layout(&self, round: &Round<'_>, next: LayoutState) -> Result<(), ClientError> {
        let (lost, settled) = {
            let mut state = self.gate.write().await;
            let LayoutState::Held(held) = &*state else { return Ok(()) };
            let held = held.clone();
            // Before the layout goes, what the data servers hold is made durable; what cannot
            // be is written again, another way.
            let lost = self.commit_round(round).await;
            let settled = self.layoutcommit(&held).await;
            let returned = self.layoutreturn(held.layout_type, held.stateid).await;
            *state = next;
            (lost?, settled.and(returned))
        };
        self.rewrite_all(round, lost).await.and(settled)
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
