//! SECINFO (33) and SECINFO_NO_NAME (52): RFC 8881 §18.29, §18.45.

use weft_nfs::{
    NfsStat, OpOk,
    ops::{Flavors, SecinfoArgs, SecinfoNoNameArgs, SecinfoOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::InodeNo;

use super::lookup::{checked_name, current_directory};
use crate::server::Mds;

fn flavors(mds: &Mds) -> SecinfoOk {
    SecinfoOk { flavors: Flavors(mds.export().flavors()) }
}

/// RFC 8881 §18.29; the current filehandle is consumed (§2.6.3.1.1.8).
pub(super) fn secinfo(mds: &Mds, c: &mut Compound<Mds>, a: &SecinfoArgs) -> OpResult {
    let dir = current_directory(mds, c)?;
    let name = checked_name(&a.name)?;
    let cred = mds.credential(c);
    c.deps.see(mds.files.volume().lookup(dir, name, &cred))?;
    c.current = None;
    Ok(OpOk::Secinfo(flavors(mds)))
}

/// SECINFO_STYLE4_CURRENT_FH and SECINFO_STYLE4_PARENT.
const STYLE_CURRENT_FH: u32 = 0;
const STYLE_PARENT: u32 = 1;

/// RFC 8881 §18.45; the current filehandle is consumed.
pub(super) fn secinfo_no_name(mds: &Mds, c: &mut Compound<Mds>, a: &SecinfoNoNameArgs) -> OpResult {
    match a.style {
        STYLE_CURRENT_FH => {
            mds.current_inode(c)?;
        }
        STYLE_PARENT => {
            if current_directory(mds, c)? == InodeNo::ROOT {
                return Err(NfsStat::NOENT.into());
            }
        }
        _ => return Err(NfsStat::BADXDR.into()),
    }
    c.current = None;
    Ok(OpOk::SecinfoNoName(flavors(mds)))
}
