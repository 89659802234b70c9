//! The layout of a file in use: LAYOUTGET at the first I/O worth it, LAYOUTCOMMIT, LAYOUTRETURN.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::sync::RwLockReadGuard;
use weft_nfs::{
    DeviceId, IoMode, LayoutType, OpArgs, OpNum, OpOk, Stateid,
    ops::{
        Body, LayoutReturn, LayoutcommitArgs, LayoutgetArgs, LayoutgetOk, LayoutreturnArgs,
        PutfhArgs,
    },
};

use super::{
    data_path::DataPath,
    held::{Granted, Held, LayoutState, Untold},
    open::Open,
};
use crate::{
    error::ClientError,
    layout::plan::{LayoutDriver, LayoutError, Plan, Replicas},
    limits,
};

/// What a layout says, for people.
#[derive(Debug, Clone)]
pub struct LayoutInfo {
    /// Its type.
    pub layout_type: LayoutType,
    /// The devices, each once, in the order of the stripes.
    pub devices: Vec<DeviceId>,
    /// Bytes in a stripe unit.
    pub stripe_unit_bytes: u64,
    /// By stripe index: addresses and filehandle of each replica.
    pub stripes: Vec<Replicas>,
}

const WHOLE_FILE: u64 = u64::MAX;
/// Largest LAYOUTGET answer asked for.
const LAYOUT_BYTES_MAX: u32 = 64 << 10;

impl DataPath {
    /// The layout to use for an I/O, fetched if there is none that serves and the I/O is worth
    /// one. While the guard lives, the layout is not returned.
    pub(super) async fn access(
        &self,
        by: &Open,
        iomode: IoMode,
        worth_it: bool,
    ) -> RwLockReadGuard<'_, LayoutState> {
        loop {
            let state = self.file.layout.read().await;
            if state.serves(iomode) || !worth_it || self.cluster.drivers.is_empty() {
                return state;
            }
            drop(state);
            let mut state = self.file.layout.write().await;
            if state.serves(iomode) {
                continue;
            }
            *state = self.fetch_beside(by, &state, iomode).await;
        }
    }

    /// What becomes of the state by asking for a layout.
    async fn fetch_beside(&self, by: &Open, state: &LayoutState, iomode: IoMode) -> LayoutState {
        let held = state.held();
        let e = match self.fetch(by, held.map(|h| &**h), iomode).await {
            Ok(fetched) => {
                let unit = fetched.plan.stripe_unit_bytes;
                self.file.cache(|cache| cache.ranges.set_block(unit));
                return LayoutState::Held(Arc::new(fetched));
            }
            Err(e) => e,
        };
        tracing::debug!(fh = ?self.fh(), "no layout, indirect path instead: {e}");
        match held {
            // The one for reading is gone; the open's stateid may give another.
            Some(_) if e.is_layout_gone() => LayoutState::None,
            // It stays good for reading.
            Some(held) if e.status().is_some() => {
                held.ask_again_at(Instant::now() + limits::LAYOUT_AVOID);
                LayoutState::Held(held.clone())
            }
            _ => LayoutState::avoid(),
        }
    }

    /// Whether a layout is held; unknown while one comes or goes (a recall that meets this
    /// moment has to come again).
    pub(super) fn holds_layout(&self) -> Option<bool> {
        let state = self.file.layout.try_read().ok()?;
        Some(matches!(&*state, LayoutState::Held(_)))
    }

    /// The layout, if one is held; it may go back any time.
    pub(super) async fn held(&self) -> Option<Arc<Held>> {
        self.file.layout.read().await.held().cloned()
    }

    /// What the layout says; fetched if there is none.
    ///
    /// # Errors
    /// [`LayoutError`] when the server gives none.
    pub(super) async fn layout_info(&self) -> Result<LayoutInfo, ClientError> {
        let iomode = if self.is_writable() { IoMode::RW } else { IoMode::READ };
        match &*self.access(&self.open, iomode, true).await {
            LayoutState::Held(held) => Ok(LayoutInfo {
                layout_type: held.layout_type(),
                devices: held.plan.devices(),
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
        let mut last = LayoutError::new("no driver for it").into();
        for driver in self.cluster.drivers.usable(&self.mds, self.fh()).await? {
            if held.is_some_and(|h| h.layout_type() != driver.layout_type()) {
                continue;
            }
            match self.fetch_with(by, held, driver, iomode).await {
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
        driver: Arc<dyn LayoutDriver>,
        iomode: IoMode,
    ) -> Result<Held, ClientError> {
        let layout_type = driver.layout_type();
        let losses = self.mds.losses();
        // §12.5.3: the open's stateid for the first one, the layout's own from then on.
        let stateid = held.map_or(*by.lock_stateid(), |h| h.stateid);
        let ok = self.layoutget(stateid, layout_type, iomode).await?;
        let (plan, iomode) = match self.plan(&*driver, &ok).await {
            Ok(planned) => planned,
            Err(e) => {
                tracing::warn!(fh = ?self.fh(), "layout granted but not usable: {e}");
                let body = driver.return_body(ok.stateid, &[]);
                self.layoutreturn(layout_type, ok.stateid, body).await?;
                return Err(e);
            }
        };
        Ok(Held::new(Granted { plan, iomode, driver, stateid: ok.stateid }, losses))
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
        match self.mds.on_file(self.fh(), OpArgs::Layoutget(args)).await? {
            OpOk::Layoutget(ok) => Ok(ok),
            _ => Err(ClientError::unexpected(OpNum::LAYOUTGET)),
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
        let ids = driver.devices(segment)?;
        if ids.len() > limits::LAYOUT_DEVICES_MAX {
            return Err(LayoutError::new("too many devices").into());
        }
        let mut devices = Vec::with_capacity(ids.len());
        for id in ids {
            let body = self.cluster.devices.body(&self.mds, segment.layout_type, id).await?;
            devices.push((id, body));
        }
        let plan = driver.plan(segment, &devices, self.fh())?;
        if !plan.is_whole() {
            return Err(LayoutError::new("its driver has not planned every stripe").into());
        }
        Ok((plan, segment.iomode))
    }

    /// Tells the metadata server what was written through the layout (§18.42).
    pub(super) async fn layoutcommit(&self, held: &Held) -> Result<(), ClientError> {
        let Some(untold) = held.take_written() else { return Ok(()) };
        let tell = layoutcommit_op(held, untold.range);
        match self.mds.on_file(self.fh(), tell).await {
            Ok(_) => {}
            // The layout is no longer ours. The data are durable; whether the file shows them is
            // what the metadata server says its size is.
            Err(e) if e.is_layout_gone() => {
                if self.getattr_size().await? < untold.range.1 {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
        self.file.settled();
        untold.acknowledged();
        Ok(())
    }

    /// LAYOUTRETURN of the whole file; a layout that is gone already is returned.
    pub(super) async fn layoutreturn(
        &self,
        layout_type: LayoutType,
        stateid: Stateid,
        body: Bytes,
    ) -> Result<(), ClientError> {
        let give_back = layoutreturn_op(layout_type, stateid, body);
        match self.mds.on_file(self.fh(), give_back).await {
            Ok(_) => Ok(()),
            Err(e) if e.is_layout_gone() => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// The usual end of a file with a layout that is written through no more, in one request:
    /// LAYOUTCOMMIT, LAYOUTRETURN and this CLOSE. Whether all of that was done; if not, the caller
    /// returns what is still held, before anybody else uses it.
    pub(super) async fn end_with_layout(&self, state: &mut LayoutState, close: OpArgs) -> bool {
        let Some(held) = state.held().cloned() else { return false };
        let untold = held.take_written();
        let mut ops = vec![OpArgs::Putfh(PutfhArgs { object: self.fh().clone() })];
        ops.extend(untold.as_ref().map(|untold| layoutcommit_op(&held, untold.range)));
        let commits = ops.len();
        ops.extend([layoutreturn_op(held.layout_type(), held.stateid, held.return_body()), close]);
        let asked = ops.len();
        let done = match self.mds.compound_outcome(ops).await {
            Ok(outcome) => outcome.done.len(),
            Err(e) => {
                tracing::debug!(fh = ?self.fh(), "not ended at once: {e}");
                0
            }
        };
        if done >= commits {
            self.file.settled();
            untold.into_iter().for_each(Untold::acknowledged);
        }
        if done > commits {
            *state = LayoutState::None;
        }
        done == asked
    }
}

/// LAYOUTCOMMIT of a range that was written: its first byte, and the one behind its last.
fn layoutcommit_op(held: &Held, (from, to): (u64, u64)) -> OpArgs {
    OpArgs::Layoutcommit(LayoutcommitArgs {
        offset: from,
        length: to - from,
        reclaim: false,
        stateid: held.stateid,
        last_write_offset: to.checked_sub(1),
        time_modify: None,
        layout_type: held.layout_type(),
        update_body: Body::default(),
    })
}

/// LAYOUTRETURN of the whole file.
fn layoutreturn_op(layout_type: LayoutType, stateid: Stateid, body: Bytes) -> OpArgs {
    OpArgs::Layoutreturn(LayoutreturnArgs {
        reclaim: false,
        layout_type,
        iomode: IoMode::ANY,
        layoutreturn: LayoutReturn::File {
            offset: 0,
            length: WHOLE_FILE,
            stateid,
            body: Body(body),
        },
    })
}
