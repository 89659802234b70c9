//! PUTFH (22), PUTPUBFH (23), PUTROOTFH (24), GETFH (10): RFC 8881 §18.19-§18.21, §18.8.

use weft_nfs::{
    NfsStat, OpOk,
    ops::{GetfhOk, PutfhArgs},
};
use weft_server::compound::{Compound, OpResult};

use crate::{handle::Handle, server::Mds};

/// RFC 8881 §18.19.
pub(super) fn putfh(mds: &Mds, c: &mut Compound<Mds>, a: &PutfhArgs) -> OpResult {
    let handle = Handle::from_wire(&a.object)?;
    if handle.volume != mds.files.root().volume {
        return Err(NfsStat::STALE.into());
    }
    c.deps.see(mds.files.volume().exists(handle.ino))?;
    c.set_current(handle);
    Ok(OpOk::Putfh)
}

/// RFC 8881 §18.20: the public filehandle is the root's.
pub(super) fn putpubfh(mds: &Mds, c: &mut Compound<Mds>) -> OpResult {
    c.set_current(mds.files.root());
    Ok(OpOk::Putpubfh)
}

/// RFC 8881 §18.21.
pub(super) fn putrootfh(mds: &Mds, c: &mut Compound<Mds>) -> OpResult {
    c.set_current(mds.files.root());
    Ok(OpOk::Putrootfh)
}

/// RFC 8881 §18.8.
pub(super) fn getfh(c: &Compound<Mds>) -> OpResult {
    Ok(OpOk::Getfh(GetfhOk { object: c.handle()?.to_wire() }))
}
