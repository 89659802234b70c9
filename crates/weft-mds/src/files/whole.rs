//! Whether a file still has all bytes that it had when it settled (ADR 10). A write behind the end
//! of an object that has become shorter would make a hole of what is lost: so files are looked at
//! before they take writes.

use weft_nfs::NfsStat;
use weft_store::types::{DataServerId, Inode, InodeNo};

use super::shared::Shared;
use crate::{
    data_servers::{Away, DataServerError},
    striped::Striped,
    translate,
};

impl Shared {
    /// Lets a change of a file begin only if no object of it has lost anything. Files are looked
    /// at once for as long as the connections to their data servers stand; a new file is not
    /// looked at, since it has nothing to lose. Objects on a data server that is away are looked at
    /// when it is back: until then nobody writes to them.
    ///
    /// # Errors
    /// IO: bytes are lost; STALE.
    pub(crate) async fn require_whole(&self, ino: InodeNo) -> Result<(), NfsStat> {
        let inode = self.inode_now(ino)?;
        let Some(file) = self.striped(&inode).filter(|f| !f.lengths_min.is_empty()) else {
            return Ok(());
        };
        let connections = self.data_servers.connections(&file.holder_ids());
        if self.records.lock().is_whole(ino, connections) {
            return Ok(());
        }
        // Once for a file that was written before: not a part of every request's memory.
        Box::pin(self.look(inode)).await?;
        self.records.lock().found_whole(ino, connections);
        Ok(())
    }

    /// The same for a file that is copied from: a lost object is no hole. It is looked at each
    /// time.
    ///
    /// # Errors
    /// IO: bytes are lost; STALE.
    pub(crate) async fn require_whole_source(&self, ino: InodeNo) -> Result<(), NfsStat> {
        Box::pin(self.look(self.inode_now(ino)?)).await
    }

    /// What a client is told of a data server's refusal. A fence passes, since the file's epoch is
    /// always raised first. An object whose epoch is ahead of its file stays fenced: it was
    /// removed, or fenced in a state of the volume that was given up, or the volume is damaged.
    pub(crate) async fn refused(&self, inode: &Inode, why: DataServerError) -> NfsStat {
        if matches!(why, DataServerError::Fenced { .. })
            && let Some(file) = self.striped(inode)
        {
            return self.fenced(inode.no, &file).await.err().unwrap_or(NfsStat::DELAY);
        }
        translate::data_server_status(&why)
    }

    /// Whether the fences of a file's objects are those of the file.
    ///
    /// # Errors
    /// IO if not; STALE; those of data servers.
    pub(crate) async fn fenced(&self, ino: InodeNo, file: &Striped) -> Result<(), NfsStat> {
        let epochs = self.data_servers.epochs(file).await;
        let epochs = epochs.map_err(|e| translate::data_server_status(&e))?;
        let now = self.inode_now(ino)?.fence_epoch;
        match epochs.into_iter().find(|(_, epoch)| *epoch > now) {
            Some((DataServerId(id), epoch)) => {
                tracing::warn!(id, ino = ino.0, epoch, now, "an object is fenced for ever");
                Err(NfsStat::IO)
            }
            None => Ok(()),
        }
    }

    async fn look(&self, mut inode: Inode) -> Result<(), NfsStat> {
        loop {
            let Some(file) = self.striped(&inode) else { return Ok(()) };
            let lost = match self.data_servers.check_lengths(&file, Away::PassedOver).await {
                Err(e @ DataServerError::Lost { .. }) => e,
                told => return told.map_err(|e| translate::data_server_status(&e)),
            };
            let now = self.inode_now(inode.no)?;
            if now.bounds == inode.bounds {
                return Err(translate::data_server_status(&lost));
            }
            // Cut meanwhile, or settled anew.
            inode = now;
        }
    }
}
