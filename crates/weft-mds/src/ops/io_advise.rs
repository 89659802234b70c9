//! IO_ADVISE (63): RFC 7862 §15.5.

use weft_nfs::{
    Bitmap, NfsStat, OpOk,
    ops::{IoAdviseArgs, IoAdviseOk, advice},
};
use weft_server::compound::{Compound, OpResult};
use weft_state::IoAccess;

use super::data_access::{may_access, regular_file};
use crate::server::Mds;

/// RFC 7862 §15.5. The data goes between clients and data servers, whose kernels see for
/// themselves how it is read; no hint changes anything here, and so the answer says.
pub(super) fn io_advise(mds: &Mds, c: &mut Compound<Mds>, a: &IoAdviseArgs) -> OpResult {
    a.offset.checked_add(a.count).ok_or(NfsStat::INVAL)?;
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(a.stateid)?;
    // Whoever may do either may say how it will.
    may_access(mds, c, &inode, &stateid, IoAccess::Read)
        .or_else(|_| may_access(mds, c, &inode, &stateid, IoAccess::Write))?;
    Ok(OpOk::IoAdvise(IoAdviseOk { hints: Bitmap::from_words(&[1 << advice::NORMAL]) }))
}
