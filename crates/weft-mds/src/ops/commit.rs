//! COMMIT (5): RFC 8881 §18.3, on the indirect path (design D6).

use weft_nfs::{
    NfsStat, OpOk,
    ops::{CommitArgs, CommitOk},
};
use weft_server::compound::{Compound, OpResult};

use crate::server::Mds;

/// RFC 8881 §18.3. All of the file is committed, whatever the range.
pub(super) async fn commit(mds: &Mds, c: &mut Compound<Mds>, a: &CommitArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    // §18.3.3: offset + count beyond 2^64 is INVAL.
    a.offset.checked_add(u64::from(a.count)).ok_or(NfsStat::INVAL)?;
    let verifier = mds.files.commit(&inode).await?;
    Ok(OpOk::Commit(CommitOk { verifier }))
}
