//! Changing the bytes of a file that is on data servers: nine steps, in the one order they may
//! have, written once.
//!
//! 1. **Admit**: what is not durable yet is bounded ([`Changes::admit`]).
//! 2. **Exclude**: beside other writers ([`Writing`]), alone with the file ([`Quiesced`]), or alone
//!    in moving it. A truncation never runs beside any of them.
//! 3. **Place**: the caller brings the file to its data servers ([`super::migration`]), before it
//!    excludes if it will be alone: moving a file is a change of its own. A change of a file that
//!    is not there is refused with DELAY, for the client to come again.
//! 4. **Mark**: what a crash in the middle may leave behind is found again ([`Plan::extends_to`],
//!    or a truncation's intent), and no object comes to be that the volume does not know of
//!    ([`Plan::writes_to`]); and of a replicated file that its copies may differ
//!    ([`Plan::may_part_copies`]).
//! 5. **Fence**: nothing that was given up before may be carried out after this ([`OlderHandles`]).
//! 6. **Do**: the closure.
//! 7. **Note the outcome**: a failure may be half done, and what nobody answered may be done later.
//! 8. **Settle**: the volume learns what was changed, also by a failure.
//! 9. **Release**: by dropping, whatever happened.
//!
//! How the changes differ, and why, is in the constructors of [`Plan`].

use std::{sync::Arc, time::Duration};

use weft_nfs::{Failure, NfsStat};
use weft_store::{
    types::{Inode, InodeNo, SetIdLoss},
    volume::Settle,
};

use super::{
    fence::Fences,
    plan::{OlderHandles, Plan, Quiesced, Settles},
    reaper::Reaper,
    records::{WritesBlocked, Writing},
    server_attrs::ServerAttrs,
    shared::Shared,
};
use crate::{data_servers::DataServerError, deps::Deps, striped::Striped};

/// How often something is tried whose handles are fenced each time, before the client is told to
/// come again.
const FENCED_TRIES_MAX: u32 = 4;
/// How often, and after which pause, a newer epoch is looked for.
const EPOCH_LOOKS: u32 = 5;
const EPOCH_LOOK: Duration = Duration::from_millis(5);

/// What an attempt achieved.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// Its result.
    pub(crate) value: T,
    /// The file reaches at least so far by it, bytes; `None` if it changed nothing.
    pub(crate) reaches: Option<u64>,
}

/// Proof that a change was admitted.
#[derive(Debug)]
pub(crate) struct Admitted(());

/// Changes of files on data servers.
pub(crate) struct Changes {
    shared: Arc<Shared>,
    fences: Arc<Fences>,
    attrs: Arc<ServerAttrs>,
    reaper: Arc<Reaper>,
}

impl Changes {
    /// Made of the parts it works with.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        fences: &Arc<Fences>,
        attrs: &Arc<ServerAttrs>,
        reaper: &Arc<Reaper>,
    ) -> Self {
        Changes {
            shared: shared.clone(),
            fences: fences.clone(),
            attrs: attrs.clone(),
            reaper: reaper.clone(),
        }
    }

    /// Step 1. Waits while too much is not durable yet.
    pub(crate) async fn admit(&self) -> Admitted {
        self.shared.volume.admit().await;
        Admitted(())
    }

    /// Step 2, beside other writers.
    ///
    /// # Errors
    /// DELAY while somebody is alone with the file.
    pub(crate) fn begin_write(&self, _: &Admitted, inode: &Inode) -> Result<Writing<'_>, NfsStat> {
        self.shared.records.begin_write(inode).ok_or(NfsStat::DELAY)
    }

    /// Step 2, alone, begins with this: from here on nobody begins to write. Whoever calls waits
    /// for those who have, and takes back what clients hold; then comes [`Changes::quiesced`].
    ///
    /// # Errors
    /// DELAY while somebody else is alone with the file.
    pub(crate) fn block_writes(
        &self,
        _: &Admitted,
        inode: &Inode,
    ) -> Result<WritesBlocked<'_>, NfsStat> {
        self.shared.records.block_writes(inode).ok_or(NfsStat::DELAY)
    }

    /// Step 2, alone, ends with this: what was given up, or taken away, is fenced. It must not
    /// land behind the change.
    ///
    /// # Errors
    /// DELAY while somebody still writes, or a data server cannot be told.
    pub(crate) async fn quiesced<'a>(
        &self,
        blocked: WritesBlocked<'a>,
    ) -> Result<Quiesced<'a>, NfsStat> {
        if self.shared.records.lock().has_writers(blocked.ino()) {
            return Err(NfsStat::DELAY);
        }
        self.fences.fence(blocked.ino()).await?;
        Ok(Quiesced::new(blocked))
    }

    /// A change by this plan.
    pub(super) fn begin<'a>(&'a self, plan: Plan<'a>) -> Change<'a> {
        Change { changes: self, ino: plan.ino(), plan, failed: false, under_way: None }
    }
}

/// A change under way.
pub(crate) struct Change<'a> {
    changes: &'a Changes,
    ino: InodeNo,
    plan: Plan<'a>,
    /// An attempt failed: some of it may be done.
    failed: bool,
    /// The file as it was when the attempt began that is under way.
    under_way: Option<Inode>,
}

impl Change<'_> {
    /// Steps 4 to 9, unless bytes of the file are lost. `act` is given the file with handles that
    /// nothing older outlives, and may be called again with newer ones.
    ///
    /// # Errors
    /// Those of data servers, as statuses; IO for a file that has lost bytes; DELAY if the file is
    /// not on its data servers (any more), or is fenced again and again; those of the store. Some
    /// of it may be done, except where the plan says that this cannot be.
    pub(crate) async fn run<T, F>(
        mut self,
        deps: &mut Deps,
        act: impl FnMut(Striped) -> F,
    ) -> Result<(T, Inode), Failure>
    where
        F: Future<Output = Result<Done<T>, DataServerError>>,
    {
        if self.plan.builds_on_what_is_there() {
            self.changes.shared.require_whole(self.ino).await?;
        }
        self.parting(deps).await?;
        let inode = self.marked(deps).await?;
        let inode = self.reaching(deps, inode).await?;
        // Messages to data servers: beside those an allocation is nothing, and each call has the
        // room for its largest operation.
        match Box::pin(self.attempts(deps, inode, act)).await {
            Ok((inode, done)) => Ok((done.value, self.settle(deps, inode, done.reaches).await?)),
            Err(failure) => {
                self.settle_failure(deps);
                Err(failure)
            }
        }
    }

    /// Step 4, first of all, since it may be refused: from here on copies may differ.
    async fn parting(&self, deps: &mut Deps) -> Result<(), Failure> {
        if self.plan.may_part_copies() {
            let inode = deps.see(self.changes.shared.volume.inode(self.ino))?;
            if inode.placement.is_some_and(|place| place.is_copied()) {
                return self.changes.shared.parting(deps, inode).await;
            }
        }
        Ok(())
    }

    /// Step 4: the file as it is now.
    async fn marked(&self, deps: &mut Deps) -> Result<Inode, Failure> {
        match self.plan.extends_to {
            Some(end) => self.changes.attrs.mark_extending(deps, self.ino, end).await,
            // Its placement and epoch may be others by now.
            None => deps.see(self.changes.shared.volume.inode(self.ino)),
        }
    }

    /// Step 4 as well: the file as it is when it reaches as far as this may write.
    async fn reaching(&self, deps: &mut Deps, inode: Inode) -> Result<Inode, Failure> {
        match (self.plan.writes_to, inode.placement) {
            (Some(end), Some(place)) => {
                self.changes.shared.reaching(deps, inode, &place, end).await
            }
            _ => Ok(inode),
        }
    }

    /// Steps 5 to 7, until it is done or fails.
    async fn attempts<T, F>(
        &mut self,
        deps: &mut Deps,
        inode: Inode,
        mut act: impl FnMut(Striped) -> F,
    ) -> Result<(Inode, Done<T>), Failure>
    where
        F: Future<Output = Result<Done<T>, DataServerError>>,
    {
        let mut inode = self.fenced(inode).await?;
        for _ in 0..FENCED_TRIES_MAX {
            let target = self.target(&inode)?;
            self.under_way = Some(inode.clone());
            let done = act(target).await;
            self.under_way = None;
            if self.plan.leaves_traces() {
                self.changes.fences.note_outcome(&inode, &done);
                self.failed |= done.is_err();
            }
            let outranks = matches!(self.plan.older, OlderHandles::Outranked { .. });
            match done {
                Ok(done) => return Ok((inode, done)),
                Err(DataServerError::Fenced { .. }) if outranks => {}
                Err(e) => {
                    self.doubt();
                    return Err(self.changes.shared.refused(&inode, e).await.into());
                }
            }
            inode = self.with_newer_epoch(deps, &inode).await?;
        }
        self.doubt();
        Err(self.still_fenced(&inode).await)
    }

    /// Step 7 as well: some copies may have what others have not.
    fn doubt(&self) {
        if self.plan.leaves_traces() {
            self.changes.shared.differing.doubt(self.ino);
        }
    }

    /// Step 5.
    async fn fenced(&self, inode: Inode) -> Result<Inode, NfsStat> {
        let fences = &self.changes.fences;
        match self.plan.older {
            OlderHandles::Outranked { late_writes_of } => {
                if let Some(client) = late_writes_of {
                    fences.suspect_late_writes_of(client, &inode);
                }
                fences.with_fresh_epoch(inode).await
            }
            OlderHandles::Refused => {
                fences.fence(self.ino).await?;
                fences.with_fresh_epoch(self.changes.shared.inode_now(self.ino)?).await
            }
            OlderHandles::Quiesced => Ok(inode),
        }
    }

    /// The file with a newer epoch than it had: with the same one this change could be followed by
    /// what it must outrank.
    ///
    /// # Errors
    /// DELAY when whoever has to raise it takes long.
    async fn with_newer_epoch(&self, deps: &mut Deps, before: &Inode) -> Result<Inode, Failure> {
        for _ in 0..EPOCH_LOOKS {
            let now = deps.see(self.changes.shared.volume.inode(before.no))?;
            let now = self.fenced(now).await?;
            if now.fence_epoch > before.fence_epoch {
                return Ok(now);
            }
            tokio::time::sleep(EPOCH_LOOK).await;
        }
        Err(self.still_fenced(before).await)
    }

    /// What is said of a file whose objects went on to refuse it.
    async fn still_fenced(&self, inode: &Inode) -> Failure {
        let shared = &self.changes.shared;
        let said = match self.target(inode) {
            Ok(file) => shared.fenced(inode.no, &file).await,
            Err(status) => Err(status),
        };
        said.err().unwrap_or(NfsStat::DELAY).into()
    }

    /// The file as its data servers know it. Asked again, one that is not there is brought there
    /// first.
    fn target(&self, inode: &Inode) -> Result<Striped, NfsStat> {
        let is_there = !inode.stuffed || matches!(self.plan.settles, Settles::Moved);
        if inode.placement.is_none() || !is_there {
            return Err(NfsStat::DELAY);
        }
        self.changes.shared.striped(inode).ok_or(NfsStat::SERVERFAULT)
    }

    /// Step 8: the file as the volume has it then.
    async fn settle(
        &mut self,
        deps: &mut Deps,
        inode: Inode,
        reaches: Option<u64>,
    ) -> Result<Inode, Failure> {
        let Changes { shared, attrs, reaper, .. } = self.changes;
        match &mut self.plan.settles {
            Settles::Written { set_id_loss } | Settles::Allocated { set_id_loss } => {
                match reaches {
                    Some(end) => written(shared, deps, &inode, end, *set_id_loss),
                    None => Ok(inode),
                }
            }
            Settles::Moved => {
                // That they were written just now is nothing new to tell clients of.
                let lengths = attrs.note_own_change(&inode).await.unwrap_or_default();
                let moved = deps.see(shared.volume.unstuff(inode.no, &lengths))?;
                // Whoever is told of objects writes to them: after a crash the volume's bytes must
                // not win.
                shared.durable(deps).await?;
                Ok(moved)
            }
            Settles::Compared => match reaches {
                Some(_) => {
                    let learned = Settle { settled: false, touched: true, ..Settle::NOTHING_NEW };
                    Ok(deps.see(shared.volume.settle(inode.no, &learned, shared.wall()))?)
                }
                None => Ok(inode),
            },
            Settles::Alike => {
                // From now on one that is shorter has lost something.
                let lengths = attrs.note_own_change(&inode).await.ok_or(NfsStat::DELAY)?;
                let alike = || shared.volume.copies_are_alike(inode.no, &lengths);
                let inode = deps.see(shared.placement_lsn.give(alike))?;
                shared.differing.forget(inode.no);
                Ok(inode)
            }
            Settles::Truncated(intent) => {
                if let Some(done) = intent {
                    reaper.complete_durably(done).await.map_err(|_| NfsStat::IO)?;
                }
                *intent = None;
                if inode.unsettled {
                    attrs.note_own_change(&inode).await;
                }
                Ok(inode)
            }
        }
    }

    /// Steps 7 and 8 of an attempt that never ended. There is no reply to wait for them.
    fn give_up(&self, inode: &Inode) {
        let Changes { shared, fences, .. } = self.changes;
        shared.records.gave_up(inode);
        shared.differing.doubt(inode.no);
        fences.wake();
        let Settles::Written { set_id_loss } = self.plan.settles else { return };
        let now = shared.wall();
        let learned = Settle::written(0, now, set_id_loss);
        if let Err(e) = shared.volume.settle(inode.no, &learned, now).unconfirmed() {
            tracing::warn!(ino = inode.no.0, error = %e, "a change that was given up stays unseen");
        }
    }

    /// Step 8 after a failure: that the data may have changed is told to whoever keeps some of it,
    /// before the reply. The failure itself is what the caller hears of.
    fn settle_failure(&self, deps: &mut Deps) {
        let Settles::Written { set_id_loss } = self.plan.settles else { return };
        let shared = &self.changes.shared;
        if !self.failed {
            return;
        }
        let changed = deps
            .see(shared.volume.inode(self.ino))
            .and_then(|inode| written(shared, deps, &inode, 0, set_id_loss));
        if let Err(f) = changed {
            tracing::debug!(ino = self.ino.0, status = %f.status, "a failed change stays unseen");
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let Some(intent) = self.plan.take_unfinished() {
            self.changes.reaper.abandon(intent);
        }
        // The request ended in the middle, by a panic perhaps: that is a failure as well.
        if let Some(inode) = self.under_way.take().filter(|_| self.plan.leaves_traces()) {
            self.give_up(&inode);
        }
    }
}

/// Notes that the data changed, and that the file reaches at least to `end`.
fn written(
    shared: &Shared,
    deps: &mut Deps,
    inode: &Inode,
    end: u64,
    set_id_loss: SetIdLoss,
) -> Result<Inode, Failure> {
    let now = shared.wall();
    let learned = Settle::written(end, now, set_id_loss);
    let inode = deps.see(shared.volume.settle(inode.no, &learned, now))?;
    shared.records.lock().changed(&inode);
    Ok(inode)
}

#[cfg(test)]
mod tests;
