//! VERIFY (37) and NVERIFY (17): RFC 8881 §18.31, §18.15.

use weft_nfs::{AttrNo, Failure, NfsStat, OpOk, ops::VerifyArgs};
use weft_server::compound::{Compound, OpResult};

use super::{
    attrs::{SET_ONLY, needs_server_attrs, supported},
    getattr::{ask_writer, attributes, heard_of},
};
use crate::{clients::Purpose, export::names::Owners, server::Mds};

/// RFC 8881 §18.31: goes on when all are the same.
pub(super) async fn verify(mds: &Mds, c: &mut Compound<Mds>, a: &VerifyArgs) -> OpResult {
    if same(mds, c, a).await? { Ok(OpOk::Verify) } else { Err(NfsStat::NOT_SAME.into()) }
}

/// RFC 8881 §18.15: goes on when any differs.
pub(super) async fn nverify(mds: &Mds, c: &mut Compound<Mds>, a: &VerifyArgs) -> OpResult {
    if same(mds, c, a).await? { Err(NfsStat::SAME.into()) } else { Ok(OpOk::Nverify) }
}

async fn same(mds: &Mds, c: &mut Compound<Mds>, a: &VerifyArgs) -> Result<bool, Failure> {
    let mask = a.attrs.mask();
    let inode = mds.current_inode(c)?;
    // §18.31.3: set-only attributes and rdattr_error cannot be compared.
    if mask.contains(AttrNo::RDATTR_ERROR) || !mask.and(&SET_ONLY).is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    if !mask.without(&supported(c.minorversion)).is_empty() || !a.attrs.undecoded.is_empty() {
        return Err(NfsStat::ATTRNOTSUPP.into());
    }
    let inode = match needs_server_attrs(&mask) {
        true => {
            let (inode, told) = ask_writer(mds, c, inode, Purpose::Compare).await?;
            let inode = mds.files.refresh(&mut c.deps, inode).await?;
            heard_of(mds, c, inode, told)?
        }
        false => inode,
    };
    let mut given = a.attrs.clone();
    // Other words for the same owner are the same owner; nobody's are those of none.
    let Owners { uid, gid } = match mds.names.owners(&given).await {
        Err(f) if f.status == NfsStat::BADOWNER => return Ok(false),
        owners => owners?,
    };
    let ours = attributes(mds, c, &inode, &mask).await?;
    if uid == Some(inode.uid) {
        given.owner.clone_from(&ours.owner);
    }
    if gid == Some(inode.gid) {
        given.owner_group.clone_from(&ours.owner_group);
    }
    Ok(ours == *given)
}
