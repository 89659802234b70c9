//! WRITE (38): RFC 8881 §18.32: to the volume while the file is small (design D17), else on the
//! indirect path (design D6).

use weft_nfs::{
    NfsStat, OpOk, StableHow,
    ops::{WriteArgs, WriteOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_xdr::Payload;

use super::{
    attrs::MAX_FILE_BYTES,
    data_access::{may_write, writer},
};
use crate::server::Mds;

/// RFC 8881 §18.32.
pub(super) async fn write(mds: &Mds, c: &mut Compound<Mds>, a: &WriteArgs) -> OpResult {
    let inode = mds.current_file(c)?;
    let stateid = c.stateid(a.stateid)?;
    let _undelegated = may_write(mds, c, &inode, &stateid).await?;
    if a.stable > StableHow::FILE_SYNC {
        return Err(NfsStat::INVAL.into());
    }
    let Payload::Bytes(data) = &a.data else { return Err(NfsStat::SERVERFAULT.into()) };
    let count = u32::try_from(data.len()).map_err(|_| NfsStat::INVAL)?;
    let end = a.offset.checked_add(u64::from(count)).filter(|end| *end <= MAX_FILE_BYTES);
    end.ok_or(NfsStat::FBIG)?;
    let (by, what) = (writer(mds, c, &inode)?, (a.offset, data, a.stable));
    mds.admin.note_io(c.client().ok(), &inode, (a.offset, data.len() as u64));
    let (committed, writeverf) = mds.files.write(&mut c.deps, inode, by, what).await?;
    mds.core.counters.wrote(data.len());
    Ok(OpOk::Write(WriteOk { count, committed, writeverf }))
}
