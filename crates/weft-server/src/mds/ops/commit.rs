//! COMMIT (5): RFC 8881 §18.3, of small files (design D17) and on the indirect path (D6).

use weft_nfs::{
    NfsStat, OpOk, Verifier,
    ops::{CommitArgs, CommitOk},
};
use weft_store::types::{Inode, InodeNo};

use crate::{
    compound::{Compound, OpResult},
    data_servers::DataServerError,
    mds::{Mds, data_server_failure},
};

/// RFC 8881 §18.3. All of the file is committed, whatever the range.
pub(super) async fn commit(mds: &Mds, c: &mut Compound<Mds>, a: &CommitArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    // §18.3.3: offset + count beyond 2^64 is INVAL.
    a.offset.checked_add(u64::from(a.count)).ok_or(NfsStat::INVAL)?;
    let verifier = mds.commit_data(&inode).await.map_err(data_server_failure)?;
    Ok(OpOk::Commit(CommitOk { verifier }))
}

impl Mds {
    /// Makes what data servers have of a file durable. What the volume has of it is with the look
    /// at the file, which the reply waits for. The verifier of all that was written so far, if
    /// nothing can have been lost since.
    ///
    /// # Errors
    /// Those of data servers.
    pub(in crate::mds) async fn commit_data(
        &self,
        inode: &Inode,
    ) -> Result<Verifier, DataServerError> {
        match self.striped(inode).filter(|_| !inode.stuffed) {
            Some(file) => {
                let told = self.data_servers.commit(&file).await?;
                Ok(self.verifier(inode.no, told))
            }
            None => Ok(self.write_verifier),
        }
    }

    /// What clients are told of a file whose data servers have this verifier. What was written while
    /// the volume had its bytes is durable since they were moved: as long as the data servers have
    /// lost nothing, it goes on under the verifier it was written with.
    pub(in crate::mds) fn verifier(&self, ino: InodeNo, told: Verifier) -> Verifier {
        if self.files.lock().is_as_moved(ino, told) { self.write_verifier } else { told }
    }
}
