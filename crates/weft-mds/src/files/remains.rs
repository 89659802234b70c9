//! What data servers have of a file beyond what the volume knows, after the volume was restored
//! from a backup: bytes that were written since. They are behind the end of the file, or under a
//! file whose bytes are in the volume, and would show when the file grows over them. So they are
//! cut off, once, before the file may grow.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use weft_nfs::NfsStat;
use weft_store::types::{Inode, InodeNo, Placement, StoreError};

use super::shared::Shared;
use crate::{
    data_servers::{Away, DataServerError},
    striped::Striped,
    translate,
};

/// Files that are cut at the same time.
const TURNS: usize = 64;
/// Files remembered as cut; with more, each is cut again before it grows, which changes nothing.
const DONE_MAX: usize = 65_536;

/// Files that may have more on their data servers than the volume knows.
pub(crate) struct Remains {
    shared: Arc<Shared>,
    /// Those with lower numbers; none if the volume was never restored.
    below: Option<InodeNo>,
    /// Nobody else cuts a file, or finds that it is cut, as long as its turn is held.
    turns: [AsyncMutex<()>; TURNS],
    done: Mutex<HashSet<InodeNo>>,
}

/// That nobody else clears or cuts a file.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _held: MutexGuard<'a, ()>,
}

impl Remains {
    /// Of a volume.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let restored = shared.volume.restored().unconfirmed()?;
        Ok(Remains {
            shared: shared.clone(),
            below: restored.map(|restored| restored.first_new),
            turns: std::array::from_fn(|_| AsyncMutex::default()),
            done: Mutex::default(),
        })
    }

    /// Whether data servers may have more of the file than the volume knows. A file whose truth is
    /// with them has no more: what they have is in it.
    pub(crate) fn may_be(&self, inode: &Inode) -> bool {
        self.below.is_some_and(|below| inode.no < below) && !inode.unsettled
    }

    /// Cuts off what data servers have of a placed file behind its end; of one whose bytes are
    /// still in the volume, everything. Before anybody can make it longer: whoever does comes here
    /// before.
    ///
    /// # Errors
    /// Those of data servers; STALE.
    pub(crate) async fn cut(&self, inode: &Inode) -> Result<(), NfsStat> {
        if !self.may_be(inode) {
            return Ok(());
        }
        let _turn = self.turn(inode.no).lock().await;
        let now = self.shared.inode_now(inode.no)?;
        match now.placement {
            Some(placement) if self.may_be(&now) => self.cut_to_size(&now, &placement).await,
            _ => Ok(()),
        }
    }

    /// The same for a file that is to get this place: nothing is there when this returns. Nobody
    /// else clears anything for it before it has its place, if the turn is held until then: what is
    /// written to that place is not to be cleared away.
    ///
    /// # Errors
    /// Those of [`Remains::cut`].
    pub(crate) async fn clear(
        &self,
        inode: &Inode,
        place: &Placement,
    ) -> Result<Turn<'_>, NfsStat> {
        let turn = self.turn(inode.no).lock().await;
        let now = self.shared.inode_now(inode.no)?;
        match now.placement {
            // Another place may have been cleared for it before, and not been given.
            None => self.cut_at(&now, place, 0).await?,
            Some(placement) => self.cut_to_size(&now, &placement).await?,
        }
        Ok(Turn { _held: turn })
    }

    async fn cut_to_size(&self, inode: &Inode, placement: &Placement) -> Result<(), NfsStat> {
        if self.done().contains(&inode.no) {
            return Ok(());
        }
        let size = if inode.stuffed { 0 } else { inode.size };
        self.cut_at(inode, placement, size).await
    }

    async fn cut_at(&self, inode: &Inode, at: &Placement, size: u64) -> Result<(), NfsStat> {
        let file = self.shared.placements.striped_at(inode.no, at, inode.fence_epoch);
        let cut = self.cut_objects(&file.ok_or(NfsStat::IO)?, inode, size).await;
        cut.map_err(|e| translate::data_server_status(&e))?;
        let mut done = self.done();
        if done.len() >= DONE_MAX {
            done.clear();
        }
        done.insert(inode.no);
        Ok(())
    }

    /// An object that is too short has lost something, which a cut would turn into a hole.
    async fn cut_objects(
        &self,
        file: &Striped,
        inode: &Inode,
        size: u64,
    ) -> Result<(), DataServerError> {
        let data_servers = &self.shared.data_servers;
        if let Some(known) = self.shared.striped(inode).filter(|_| size > 0) {
            data_servers.check_lengths(&known, Away::Fails).await?;
        }
        data_servers.truncate(file, size).await
    }

    fn turn(&self, ino: InodeNo) -> &AsyncMutex<()> {
        &self.turns[(ino.0 % TURNS as u64) as usize]
    }

    fn done(&self) -> std::sync::MutexGuard<'_, HashSet<InodeNo>> {
        self.done.lock().expect("remains lock")
    }
}
