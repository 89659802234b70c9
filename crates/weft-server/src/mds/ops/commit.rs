//! COMMIT (5): RFC 8881 §18.3, on the indirect path (design D6).

use weft_nfs::{
    NfsStat, OpOk, Verifier,
    ops::{CommitArgs, CommitOk},
};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, data_server_failure},
};

/// RFC 8881 §18.3. All of the file is committed, whatever the range.
pub(super) async fn commit(mds: &Mds, c: &mut Compound<Mds>, a: &CommitArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    // §18.3.3: offset + count beyond 2^64 is INVAL.
    a.offset.checked_add(u64::from(a.count)).ok_or(NfsStat::INVAL)?;
    let verifier = match mds.striped(&inode) {
        Some(file) => mds.data_servers.commit(&file).await.map_err(data_server_failure)?,
        // Nothing was ever written, so nothing can have been lost.
        None => Verifier::default(),
    };
    Ok(OpOk::Commit(CommitOk { verifier }))
}
