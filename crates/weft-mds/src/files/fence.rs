//! Fencing (design D5): every handle of a file given out so far stops working, or those to write
//! do. The volume raises the file's epoch, durably; then its data servers are told, which they
//! remember durably, or learn it from the first handle that is newer.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Notify, task::JoinSet};
use weft_nfs::{ClientId, NfsStat};
use weft_store::types::{Inode, InodeNo, StoreError, fence_epoch::fence_of};

use super::{
    records::{FenceCause, Stale},
    shared::Shared,
};
use crate::{data_servers::DataServerError, striped::Striped, translate};

/// Pause before data servers that could not be told are tried again.
const FENCE_PAUSE: Duration = Duration::from_millis(500);
/// Files being fenced at once in the background: one data server that hangs delays few others.
const FENCES_AT_ONCE: usize = 16;

/// Makes handles that were given out stop working.
pub(crate) struct Fences {
    shared: Arc<Shared>,
    /// Wakes the task that fences files.
    wake: Notify,
}

impl Fences {
    /// Nothing is suspect that the records do not know of.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Fences { shared, wake: Notify::new() }
    }

    /// Notes how a change of our own went: of one that failed some may be behind the end that the
    /// volume knows. One that a data server did not answer is suspect: it may
    /// still be carried out, and must not be on top of what comes later. The epoch is raised at
    /// once, so that handles given out from now on outrank it; the data servers are told by
    /// whoever needs it first, or in the background.
    pub(crate) fn note_outcome<T>(&self, inode: &Inode, done: &Result<T, DataServerError>) {
        if done.is_err() {
            self.shared.records.lock().change_failed(inode.no);
        }
        if let Err(DataServerError::Unreachable { .. }) = done {
            self.shared.records.lock().suspect_late_writes(inode);
            self.suspected(inode.no);
        }
    }

    /// The same for what one client was given.
    pub(crate) fn suspect_handles_of(&self, client: ClientId, ino: InodeNo, why: FenceCause) {
        match self.shared.volume.inode(ino).unconfirmed() {
            Ok(inode) => self.shared.records.lock().suspect_handles_of(client, &inode, why),
            Err(_) => self.shared.records.lock().suspect_revoked(ino),
        }
        self.suspected(ino);
    }

    /// Handles of the file are suspect: its epoch is raised at once, and the data servers are told
    /// in the background.
    pub(crate) fn suspected(&self, ino: InodeNo) {
        if let Err(status) = self.raise(ino) {
            tracing::warn!(ino = ino.0, %status, "the file's epoch cannot be raised yet");
        }
        self.wake.notify_one();
    }

    /// Files became suspect: they are fenced in the background.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// A client that was given handles to write with and yet writes through the metadata server
    /// has given up on a data server, where its first attempt may still be queued: that one must
    /// not land on top of the second. So the file gets an epoch above those handles.
    pub(crate) fn suspect_late_writes_of(&self, client: ClientId, inode: &Inode) {
        let late = self.shared.records.lock().may_write_late(client, inode);
        if late {
            self.suspect_handles_of(client, inode.no, FenceCause::LateWrite);
        }
    }

    /// The file with an epoch above that of all suspect handles, durably. A data server refuses
    /// those from the moment it sees the newer one, so that what is written with it needs no
    /// more than this.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn with_fresh_epoch(&self, inode: Inode) -> Result<Inode, NfsStat> {
        self.renew(inode.no)?;
        self.raise(inode.no)?;
        if self.shared.inode_now(inode.no)?.fence_epoch > inode.fence_epoch {
            return self.shared.durable_inode(inode.no).await.map_err(|e| translate::status(&e));
        }
        self.shared.epoch_durable(inode.no, inode.fence_epoch).await?;
        Ok(inode)
    }

    /// Raises the epoch if data servers let nobody write any more with the handles of the present
    /// one, since the write layouts are all back.
    fn renew(&self, ino: InodeNo) -> Result<(), NfsStat> {
        let _no_grant = self.shared.records.lock();
        let is_ended = self.shared.inode_now(ino)?.handles.write
            && !self.shared.protocol.state().rw_layouts(self.shared.key(ino));
        if is_ended {
            let renewed = self.shared.volume.renew_epoch(ino).unconfirmed();
            renewed.map_err(|e| translate::status(&e))?;
        }
        Ok(())
    }

    /// Makes suspect handles of the file worthless, if there are any: on success no write with
    /// one is under way or will be.
    ///
    /// # Errors
    /// The store or a data server failed, or more handles became suspect meanwhile (DELAY):
    /// handles may still work.
    pub(crate) async fn fence(&self, ino: InodeNo) -> Result<(), NfsStat> {
        let Some(stale) = self.raise(ino)? else { return Ok(()) };
        let inode = match self.shared.durable_inode(ino).await {
            Err(StoreError::Stale) => {
                self.shared.records.lock().forget(ino);
                return Ok(());
            }
            inode => inode.map_err(|e| translate::status(&e))?,
        };
        // Not what was given out since: new readers go on when there is a new writer.
        let fence_epoch = fence_of(inode.fence_epoch);
        if let Some(striped) = self.shared.striped(&inode) {
            let told = self.shared.data_servers.fence(&Striped { fence_epoch, ..striped }).await;
            told.map_err(|e| translate::data_server_status(&e))?;
        }
        let mut files = self.shared.records.lock();
        files.told(ino, stale, fence_epoch);
        if files.stale(ino).is_some() {
            return Err(NfsStat::DELAY);
        }
        // Lost in a crash it costs a message more.
        match self.shared.volume.handles_ended(ino, fence_epoch).unconfirmed() {
            Ok(()) | Err(StoreError::Stale) => Ok(()),
            Err(e) => Err(translate::status(&e)),
        }
    }

    /// Ends the handles of the file that are to end, if there are any. On success no data server
    /// accepts one.
    ///
    /// # Errors
    /// As [`Fences::fence`]: what could not be told now is told in the background.
    pub(crate) async fn end_owed(&self, ino: InodeNo) -> Result<(), NfsStat> {
        {
            let mut files = self.shared.records.lock();
            let inode = self.shared.inode_now(ino)?;
            if !inode.handles.owed {
                return Ok(());
            }
            // The later epoch is there, for data servers to be told: also by whoever is telling
            // them of an earlier one just now.
            files.suspect_outranked(&inode);
        }
        self.fence(ino).await.inspect_err(|_| self.wake())
    }

    /// Raises the epoch in the volume unless that is done; `None` if nothing is suspect.
    fn raise(&self, ino: InodeNo) -> Result<Option<Stale>, NfsStat> {
        let mut files = self.shared.records.lock();
        let Some(stale) = files.stale(ino) else { return Ok(None) };
        if !stale.raised {
            match self.shared.volume.bump_epoch(ino).unconfirmed() {
                Ok(_) => files.raised(ino),
                Err(StoreError::Stale) => {
                    files.forget(ino);
                    return Ok(None);
                }
                Err(e) => return Err(translate::status(&e)),
            }
        }
        Ok(Some(stale))
    }

    /// Fences what nobody has waited for, and tries again what could not be told. Runs for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            // In grace clients still finish what they began with handles of before the restart.
            // Grace comes after the files in the order of locks: it is let go first.
            let in_grace = self.shared.protocol.grace().is_on();
            let stale = if in_grace { Vec::new() } else { self.shared.records.lock().all_stale() };
            if stale.is_empty() {
                // The end of grace notifies nobody: look now and then.
                let _ = tokio::time::timeout(FENCE_PAUSE, self.wake.notified()).await;
                continue;
            }
            if !self.fence_all(stale).await {
                tokio::time::sleep(FENCE_PAUSE).await;
            }
        }
    }

    /// Whether all of them could be fenced.
    async fn fence_all(self: &Arc<Self>, files: Vec<InodeNo>) -> bool {
        let mut tasks = JoinSet::new();
        let mut all = true;
        for ino in files {
            if tasks.len() >= FENCES_AT_ONCE {
                all &= tasks.join_next().await.is_none_or(|done| done.unwrap_or(false));
            }
            let fences = self.clone();
            tasks.spawn(async move { fences.fence(ino).await.is_ok() });
        }
        tasks.join_all().await.into_iter().all(|done| done) && all
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::lone_mds;

    /// Whoever holds the records asks for grace; whoever looks at them for the fences must not hold
    /// grace meanwhile. A lock that panics where it is taken tells what was held there.
    #[tokio::test]
    async fn grace_is_not_held_while_files_are_locked() {
        let mds = lone_mds().await;
        let holder = mds.clone();
        let panicked = std::thread::spawn(move || {
            let _records = holder.files.shared().records.lock();
            panic!("poisons the lock");
        });
        panicked.join().unwrap_err();
        let looked = tokio::spawn(mds.files.fences().clone().run()).await;
        assert!(looked.unwrap_err().is_panic(), "it looks at the files");
        assert!(!mds.protocol.grace_is_poisoned());
    }
}
