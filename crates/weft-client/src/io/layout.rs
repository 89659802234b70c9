//! The layout of a file in use: LAYOUTGET at the first I/O worth it, LAYOUTCOMMIT, LAYOUTRETURN.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::RwLockReadGuard;
use weft_nfs::{
    DeviceId, IoMode, LayoutType, NfsStat, OpArgs, OpNum, OpOk, Stateid,
    ops::{
        Body, DeviceError, DeviceErrors, LayoutReturn, LayoutcommitArgs, LayouterrorArgs,
        LayoutgetArgs, LayoutgetOk, LayoutreturnArgs, PutfhArgs,
    },
    share,
};

use super::{
    data_path::DataPath,
    held::{Granted, Held, Imported, LayoutState},
    open::Open,
};
use crate::{
    boxed::Boxed,
    error::ClientError,
    layout::{
        ExportedLayout, LayoutSource,
        plan::{IoFailure, LayoutDriver, LayoutError, Plan, Replicas},
    },
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

/// How long no layout is asked for after a refusal.
fn avoided_for(e: &ClientError) -> Duration {
    match e.status() {
        // One of ours, perhaps, which cannot go back as long as we ask.
        Some(NfsStat::RECALLCONFLICT) => limits::LAYOUT_RECALLED,
        _ => limits::LAYOUT_AVOID,
    }
}

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
                held.ask_again_at(Instant::now() + avoided_for(&e));
                LayoutState::Held(held.clone())
            }
            _ => LayoutState::Avoid(Instant::now() + avoided_for(&e)),
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
    pub(super) fn layout_info(&self) -> Boxed<'_, Result<LayoutInfo, ClientError>> {
        Box::pin(async move {
            let iomode = if self.is_writable() { IoMode::RW } else { IoMode::READ };
            match &*self.access(&self.open, iomode, true).await {
                LayoutState::Held(held) => Ok(LayoutInfo::of(held.layout_type(), &held.plan)),
                LayoutState::Imported(of) => {
                    Ok(LayoutInfo::of(of.exported.source.segment.layout_type, &of.plan))
                }
                _ => Err(not_given()),
            }
        })
    }

    /// The layout to read the file by, for other clients; fetched if there is none.
    ///
    /// # Errors
    /// [`LayoutError`] when the server gives none, or the one that is held is for writing.
    pub(super) fn export_layout(&self) -> Boxed<'_, Result<ExportedLayout, ClientError>> {
        Box::pin(async move {
            let access = self.open.opened.access;
            if access & share::ACCESS_BOTH != share::ACCESS_READ {
                return Err(ClientError::Invalid(
                    "only a file open for reading alone has its layout exported",
                ));
            }
            match &*self.access(&self.open, IoMode::READ, true).await {
                LayoutState::Held(held) if held.iomode() == IoMode::READ => Ok(ExportedLayout {
                    server_scope: self.mds.server().scope,
                    fh: self.fh().clone(),
                    source: held.source.clone(),
                }),
                LayoutState::Held(_) => {
                    let why =
                        "it is for writing, since this client writes the file: never exported";
                    Err(LayoutError::new(why).into())
                }
                LayoutState::Imported(imported) => Ok(imported.exported.clone()),
                _ => Err(not_given()),
            }
        })
    }

    /// From now on reads by the layout of another client, unless this one has one.
    ///
    /// # Errors
    /// [`LayoutError`] if it is of another file or cluster, or there is no driver for it.
    pub(super) fn import_layout<'a>(
        &'a self,
        exported: &'a ExportedLayout,
    ) -> Boxed<'a, Result<(), ClientError>> {
        Box::pin(async move {
            if exported.server_scope != self.mds.server().scope {
                return Err(LayoutError::new("exported by a client of another cluster").into());
            }
            if exported.fh != *self.fh() {
                return Err(LayoutError::new("exported of another file than is open").into());
            }
            let layout_type = exported.source.segment.layout_type;
            let none = || LayoutError::new(format!("no driver for its type, {layout_type}"));
            let driver = self.cluster.drivers.of_type(layout_type).ok_or_else(none)?;
            let plan = exported.plan(&**driver)?;
            let block = plan.stripe_unit_bytes;
            let _local = self.cluster.servers.hold(&plan);
            let imported = Arc::new(Imported { exported: exported.clone(), plan, _local });
            let mut state = self.file.layout.write().await;
            if state.held().is_none() {
                self.file.cache(|cache| cache.ranges.set_block(block));
                *state = LayoutState::Imported(imported);
            }
            Ok(())
        })
    }

    /// A layout of another client does not serve any more: from now on this one asks for its own.
    pub(super) async fn give_up(&self, imported: &Arc<Imported>) {
        let mut state = self.file.layout.write().await;
        if matches!(&*state, LayoutState::Imported(now) if Arc::ptr_eq(now, imported)) {
            *state = LayoutState::None;
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
        // That of a delegation may have become more since: the current one is meant (§8.2.2).
        let open = if by.is_alone() { by.io_stateid() } else { *by.lock_stateid() };
        let stateid = held.map_or(open, |h| h.stateid);
        let ok = self.layoutget(stateid, layout_type, iomode).await?;
        let (plan, source) = match self.plan(&*driver, &ok).await {
            Ok(planned) => planned,
            Err(e) => {
                tracing::warn!(fh = ?self.fh(), "layout granted but not usable: {e}");
                let body = driver.return_body(ok.stateid, &[]);
                self.layoutreturn(layout_type, ok.stateid, body).await?;
                return Err(e);
            }
        };
        let local = self.cluster.servers.hold(&plan);
        Ok(Held::new(Granted { plan, source, driver, stateid: ok.stateid, local }, losses))
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
    ) -> Result<(Plan, LayoutSource), ClientError> {
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
        let source = LayoutSource { segment: segment.clone(), devices: devices.into() };
        Ok((source.plan(driver, self.fh())?, source))
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

    /// Tells the metadata server which data servers could not be reached through the layout that is
    /// held (RFC 7862 §15.6): an administrator of it has no other way to know. Nothing depends on
    /// it, so that a failure to tell is none.
    pub(super) async fn report_unreached(&self) {
        let Some(held) = self.held().await else { return };
        if self.mds.minorversion() < 2 {
            return;
        }
        for IoFailure { device, op, status, from, end } in held.take_unreached() {
            let errors = DeviceErrors(vec![DeviceError { device_id: device, status, op }]);
            let (stateid, length) = (held.stateid, end.saturating_sub(from));
            let report = LayouterrorArgs { offset: from, length, stateid, errors };
            if let Err(e) = self.mds.on_file(self.fh(), OpArgs::Layouterror(report)).await {
                tracing::debug!(fh = ?self.fh(), "LAYOUTERROR: {e}");
            }
        }
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
        // It goes back, whoever waits for that.
        *state = LayoutState::None;
        let done = match self.mds.compound_outcome(ops).await {
            Ok(outcome) => outcome.done.len(),
            Err(e) => {
                tracing::debug!(fh = ?self.fh(), "not ended at once: {e}");
                0
            }
        };
        if let Some(untold) = untold.filter(|_| done >= commits) {
            self.file.settled();
            untold.acknowledged();
        }
        if done <= commits {
            *state = LayoutState::Held(held);
        }
        done == asked
    }
}

impl LayoutInfo {
    fn of(layout_type: LayoutType, plan: &Plan) -> LayoutInfo {
        LayoutInfo {
            layout_type,
            devices: plan.devices(),
            stripe_unit_bytes: plan.stripe_unit_bytes,
            stripes: plan.stripes.clone(),
        }
    }
}

fn not_given() -> ClientError {
    LayoutError::new("the server gives none for this file").into()
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
