//! Reading a file: from the volume while it is small (design D17), else from its data servers
//! (design D6).

use bytes::Bytes;
use weft_nfs::{ClientId, Failure, NfsStat, Verifier};
use weft_store::{
    types::{Content, Inode},
    volume::StuffedSeek,
};

use super::{layout_kind::LayoutKind, service::FileService};
use crate::{data_servers::DataServerError, deps::Deps, translate};

impl FileService {
    /// Bytes of a file, and the inode they belong to. Holes, and files that were never written,
    /// read as zeros; so does what lies behind the end, which only the caller looks at.
    ///
    /// # Errors
    /// Those of the store and of data servers; IO for bytes that are lost.
    pub(crate) async fn read(
        &self,
        deps: &mut Deps,
        mut inode: Inode,
        offset: u64,
        len: u64,
    ) -> Result<(Inode, Bytes), Failure> {
        if inode.stuffed {
            match deps.see(self.shared.volume.read_stuffed(inode.no, offset, len))? {
                Some(found) => return Ok(found),
                // It has left for its data servers since.
                None => inode = deps.see(self.shared.volume.inode(inode.no))?,
            }
        }
        loop {
            let file = match self.shared.striped(&inode) {
                Some(file) if len > 0 => file,
                _ => {
                    let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
                    return Ok((inode, Bytes::from(zeros)));
                }
            };
            if file.copies_alike() == Some(false) {
                self.shared.differing.meet(inode.no);
            }
            self.shared.epoch_durable(inode.no, inode.fence_epoch).await?;
            let lost = match self.shared.data_servers.read(&file, offset, len).await {
                Ok(data) => return Ok((inode, data)),
                Err(e) => e,
            };
            inode = self.looked_again(deps, inode, lost).await?;
        }
    }

    /// What was found missing by what was known of the file is not lost if the file was cut
    /// meanwhile, and what was refused to an earlier epoch is not to the present one: the file as
    /// it is now, to look again.
    async fn looked_again(
        &self,
        deps: &mut Deps,
        before: Inode,
        why: DataServerError,
    ) -> Result<Inode, Failure> {
        let now = deps.see(self.shared.volume.inode(before.no))?;
        let is_other = match why {
            DataServerError::Lost { .. } => now.bounds != before.bounds,
            DataServerError::Fenced { .. } => now.fence_epoch > before.fence_epoch,
            _ => false,
        };
        if is_other { Ok(now) } else { Err(self.shared.refused(&now, why).await.into()) }
    }

    /// The next data or hole of a file, from an offset below its size on; `None` if there is none.
    /// And the inode it belongs to.
    ///
    /// # Errors
    /// Those of the store and of data servers.
    pub(crate) async fn seek(
        &self,
        deps: &mut Deps,
        mut inode: Inode,
        what: Content,
        offset: u64,
    ) -> Result<(Inode, Option<u64>), Failure> {
        if inode.stuffed {
            match deps.see(self.shared.volume.seek_stuffed(inode.no, what, offset))? {
                Some(StuffedSeek { inode, found }) => return Ok((inode, found)),
                // It has left for its data servers since.
                None => inode = deps.see(self.shared.volume.inode(inode.no))?,
            }
        }
        loop {
            let Some(file) = self.shared.striped(&inode) else {
                // Nothing was ever written.
                return Ok((inode, (what == Content::Hole).then_some(offset)));
            };
            self.shared.epoch_durable(inode.no, inode.fence_epoch).await?;
            let lost = match self.shared.data_servers.seek(&file, what, offset, inode.size).await {
                Ok(found) => return Ok((inode, found)),
                Err(e) => e,
            };
            inode = self.looked_again(deps, inode, lost).await?;
        }
    }

    /// Handles by which data servers tell another verifier than this one stop working. Their
    /// holders write here what they have to write again, or get new ones.
    fn end_outdated(&self, inode: &Inode, told: Verifier) {
        let is_outdated = self.shared.records.lock().suspect_outdated(inode, told);
        if is_outdated {
            tracing::info!(ino = inode.no.0, "a data server may have lost bytes: handles end");
            self.shared.unconfirmed.told(inode.no, self.shared.clock.now());
            self.fences.suspected(inode.no);
        }
    }

    /// Others than this client have written again all bytes that a data server may have lost, as
    /// far as anybody knows: see [`super::unconfirmed`]. With a flexfiles layout the metadata
    /// server does not hear of a COMMIT that failed: it may be so for a while after the data server
    /// was away.
    ///
    /// # Errors
    /// DELAY if not.
    pub(crate) fn require_confirmed(&self, client: ClientId, inode: &Inode) -> Result<(), NfsStat> {
        let is_told = self.shared.unconfirmed.is_awaited(inode.no, self.shared.clock.now());
        if !is_told && !self.may_be_committed_elsewhere(inode) {
            return Ok(());
        }
        let (state, key) = (self.shared.protocol.state(), self.key(inode.no));
        if !state.is_open_to_write(key) {
            self.shared.unconfirmed.forget(inode.no);
            return Ok(());
        }
        if state.is_open_to_write_by_others(client, key) { Err(NfsStat::DELAY) } else { Ok(()) }
    }

    /// True if a COMMIT at a data server of the file may have failed just now, unheard of here.
    fn may_be_committed_elsewhere(&self, inode: &Inode) -> bool {
        let ids = || self.striped(inode).map(|file| file.data_servers);
        self.shared.layout == LayoutKind::FlexFiles
            && ids().is_some_and(|ids| !self.shared.data_servers.are_steady(&ids))
    }

    /// Makes all that was written to a file on its data servers durable, whoever wrote it there
    /// (ADR 43).
    ///
    /// # Errors
    /// Those of data servers.
    pub(crate) async fn commit(&self, inode: &Inode) -> Result<Verifier, NfsStat> {
        match self.shared.striped(inode) {
            Some(file) => {
                self.shared.epoch_durable(inode.no, inode.fence_epoch).await?;
                // One allocation for a wait for disks: not a part of every request's memory.
                let committed = Box::pin(self.shared.commit_objects(&file)).await;
                let told = committed.map_err(|e| translate::data_server_status(&e))?;
                self.end_outdated(inode, told);
                Ok(told)
            }
            // Nothing was ever written, so nothing can have been lost.
            None => Ok(Verifier::default()),
        }
    }
}
