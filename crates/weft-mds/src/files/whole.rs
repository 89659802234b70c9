//! Whether a file still has all bytes that it had when it settled (ADR 10). A write behind the end
//! of an object that has become shorter would make a hole of what is lost: so files are looked at
//! before they take writes.

use weft_nfs::NfsStat;
use weft_store::types::{Inode, InodeNo};

use super::shared::Shared;
use crate::{
    data_servers::{Away, DataServerError},
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
        let connections = self.data_servers.connections(&file.data_servers);
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
