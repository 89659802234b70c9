//! Replicated files (P1.3, ADR 39): their copies are made alike once nothing is done to them, and
//! the volume says so. From then on each may be read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::interval};
use weft_nfs::{Failure, NfsStat, Verifier};
use weft_store::types::{Inode, InodeNo};

use super::{
    change::{Changes, Done},
    fence::Fences,
    migration::Migration,
    plan::Plan,
    shared::Shared,
};
use crate::{data_servers::DataServerError, deps::Deps, striped::Striped, translate};

/// Files whose copies are made alike at once.
const AT_ONCE: usize = 8;
/// Files looked at in one go on a walk.
const LOOKED_AT_ONCE: usize = 256;
/// How often it is looked whether there is room for those that were passed over.
const LOOK: Duration = Duration::from_secs(10);

/// Makes copies alike.
pub(crate) struct Copies {
    shared: Arc<Shared>,
    changes: Arc<Changes>,
    fences: Arc<Fences>,
    migration: Arc<Migration>,
    /// There were more files than are remembered.
    passed_over: AtomicBool,
}

impl Copies {
    /// Of these files.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        changes: &Arc<Changes>,
        fences: &Arc<Fences>,
        migration: &Arc<Migration>,
    ) -> Arc<Self> {
        Arc::new(Copies {
            shared: shared.clone(),
            changes: changes.clone(),
            fences: fences.clone(),
            migration: migration.clone(),
            passed_over: AtomicBool::new(false),
        })
    }

    /// Makes alike what is due, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let (mut under_way, mut look) = (JoinSet::new(), interval(LOOK));
        loop {
            tokio::select! {
                ino = self.shared.differing.due(), if under_way.len() < AT_ONCE => {
                    under_way.spawn(self.clone().take_care_of(ino));
                }
                Some(_) = under_way.join_next() => {}
                _ = look.tick() => self.walk().await,
            }
        }
    }

    /// Files that somebody comes across: those whose copies may differ, by what was going on before
    /// a start, are made alike.
    pub(crate) fn meet(&self, files: &[Inode]) {
        for file in files.iter().filter(|file| may_differ(file)) {
            if !self.shared.differing.meet(file.no) {
                self.passed_over.store(true, Relaxed);
            }
        }
    }

    /// Comes across those for which there was no room before.
    async fn walk(&self) {
        if !self.shared.differing.has_room() || !self.passed_over.swap(false, Relaxed) {
            return;
        }
        let mut after = None;
        while !self.passed_over.load(Relaxed) {
            match self.shared.volume.placed_files(after, LOOKED_AT_ONCE) {
                Ok(part) if part.last.is_some() => {
                    self.meet(&part.files);
                    after = part.last;
                    tokio::task::yield_now().await;
                }
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "replicated files cannot be looked for yet");
                    self.passed_over.store(true, Relaxed);
                }
            }
        }
    }

    async fn take_care_of(self: Arc<Self>, ino: InodeNo) {
        match self.take_each_step(&mut Deps::default(), ino).await {
            Ok(()) => {}
            Err(Failure { status: NfsStat::STALE, .. }) => self.shared.differing.forget(ino),
            Err(Failure { status, .. }) => {
                tracing::debug!(ino = ino.0, %status, "copies may go on to differ");
                self.shared.differing.later(ino);
            }
        }
    }

    async fn take_each_step(&self, deps: &mut Deps, ino: InodeNo) -> Result<(), Failure> {
        let inode = deps.see(self.shared.volume.inode(ino))?;
        // A crash, or a full disk, has left it on its way from the volume.
        if may_differ(&inode) && inode.is_moving() {
            self.all_there(&inode)?;
            self.migration.on_data_servers(deps, inode).await?;
        }
        if !self.shared.differing.are_kept(ino) {
            self.compare(deps, ino).await?;
        }
        self.make_alike(deps, ino).await.map(drop)
    }

    /// The copies of a file that may differ as its data servers know them, all of which are there,
    /// with nothing there that the volume does not know of; `None` if they are alike.
    async fn differing(&self, inode: &Inode) -> Result<Option<Striped>, Failure> {
        if !may_differ(inode) {
            return Ok(None);
        }
        let file = self.all_there(inode)?;
        if inode.is_moving() {
            return Err(NfsStat::DELAY.into());
        }
        self.migration.cut_remains(inode).await?;
        Ok(Some(file))
    }

    /// A file as its data servers know it, all of which are there.
    fn all_there(&self, inode: &Inode) -> Result<Striped, NfsStat> {
        let file = self.shared.striped(inode).ok_or(NfsStat::SERVERFAULT)?;
        match self.shared.data_servers.all_answer(&file.data_servers) {
            true => Ok(file),
            false => Err(NfsStat::DELAY),
        }
    }

    /// Compares the copies of a file, part by part, and gives all what the first has. Others write
    /// meanwhile; whoever read another copy by a layout does no more.
    ///
    /// # Errors
    /// DELAY while the file is being cut, is on its way from the volume, or a data server is away;
    /// those of data servers.
    async fn compare(&self, deps: &mut Deps, ino: InodeNo) -> Result<(), Failure> {
        let differing = &self.shared.differing;
        let inode = deps.see(self.shared.volume.inode(ino))?;
        if self.differing(&inode).await?.is_none() {
            return Ok(());
        }
        // What did not come to its end before comes to none after this, and no handle reads what is
        // to be overwritten.
        if inode.handles.any() {
            self.shared.records.lock().suspect_revoked(ino);
        }
        self.fences.fence(ino).await?;
        differing.begin_compare(ino);
        let inode = self.fences.with_fresh_epoch(self.shared.inode_now(ino)?).await?;
        let file = self.shared.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let (committed, end) = self
            .begin_compare(&file)
            .await
            .map_err(|e| Failure::from(translate::data_server_status(&e)))?;
        // A data server that restarts from here on tells another.
        differing.told(ino, committed);
        let (mut next, mut parts_differed) = (Some(0), 0_u64);
        while let Some(from) = next {
            let admitted = self.changes.admit().await;
            let writing = self.changes.begin_write(&admitted, &inode)?;
            let change = self.changes.begin(Plan::compare(writing));
            let servers = &self.shared.data_servers;
            let part = change.run(deps, |file| async move {
                let value = servers.compare_copies(&file, from, end).await?;
                Ok(Done { value, reaches: value.differed.then_some(0) })
            });
            let (part, _) = part.await?;
            parts_differed += u64::from(part.differed);
            next = part.next;
        }
        if parts_differed > 0 {
            tracing::info!(ino = ino.0, parts_differed, "copies of a file are the same again");
        }
        differing.compared(ino);
        Ok(())
    }

    /// What a COMMIT of all copies tells, and how far any of them reaches.
    async fn begin_compare(&self, file: &Striped) -> Result<(Verifier, u64), DataServerError> {
        let committed = self.shared.commit_objects(file).await?;
        let told = self.shared.data_servers.fetch_attrs(&[file]).await.pop();
        let none = || DataServerError::again(file, "nobody told how long its copies are");
        let lengths = told.unwrap_or_else(|| Err(none()))?.lengths;
        Ok((committed, lengths.into_iter().max().unwrap_or(0)))
    }

    /// Makes the copies of a file alike, durably: all that was done to them went well, so that it
    /// takes a COMMIT only. Nobody else writes meanwhile. The file as it is then.
    ///
    /// # Errors
    /// DELAY while somebody writes, the file is on its way from the volume, or a data server is
    /// away, and when something went wrong after all; those of data servers.
    pub(crate) async fn make_alike(&self, deps: &mut Deps, ino: InodeNo) -> Result<Inode, Failure> {
        let (shared, differing) = (&self.shared, &self.shared.differing);
        let admitted = self.changes.admit().await;
        let before = deps.see(shared.volume.inode(ino))?;
        let blocked = self.changes.block_writes(&admitted, &before)?;
        let inode = deps.see(shared.volume.inode(ino))?;
        if self.differing(&inode).await?.is_none() {
            differing.forget(ino);
            return Ok(inode);
        }
        let quiesced = self.changes.quiesced(blocked).await?;
        let change = self.changes.begin(Plan::make_alike(quiesced));
        let made = change.run(deps, |file| async move {
            let committed = shared.commit_objects(&file).await?;
            if !differing.are_alike(ino, committed) {
                // A data server has restarted, or something failed.
                differing.doubt(ino);
                return Err(DataServerError::again(&file, "its copies may differ after all"));
            }
            Ok(Done { value: (), reaches: None })
        });
        Ok(made.await?.1)
    }
}

/// Whether it has copies that may differ.
pub(super) fn may_differ(inode: &Inode) -> bool {
    inode.placement.and_then(|place| place.spread.copies_alike()) == Some(false)
}
