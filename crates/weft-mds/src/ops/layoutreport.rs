//! LAYOUTERROR (64) and LAYOUTSTATS (65): RFC 7862 §15.6, §15.7.

use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{LayouterrorArgs, LayoutstatsArgs},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::DeviceId;

use super::data_access::regular_file;
use crate::{admin::log_device_error, server::Mds};

/// RFC 7862 §15.6. The errors themselves are never refused: those of devices that are not known
/// here are dropped.
pub(super) fn layouterror(mds: &Mds, c: &mut Compound<Mds>, a: &LayouterrorArgs) -> OpResult {
    check(mds, c, a.offset, a.length, a.stateid)?;
    let client = c.client()?;
    for error in &a.errors.0 {
        if mds.files.device(DeviceId(error.device_id.0)).is_none() {
            continue;
        }
        if matches!(error.status, NfsStat::NOSPC | NfsStat::DQUOT) {
            mds.files.data_servers().look_at_room();
        }
        if let Some(errors) = mds.admin.device_reports.error(error, c.now) {
            log_device_error(client.0, error, errors);
        }
    }
    Ok(OpOk::Layouterror)
}

/// RFC 7862 §15.7; the same about devices that are not known.
pub(super) fn layoutstats(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutstatsArgs) -> OpResult {
    check(mds, c, a.offset, a.length, a.stateid)?;
    let device = DeviceId(a.device_id.0);
    if mds.files.device(device).is_some() {
        mds.admin.device_reports.statistics(device, a.read, a.write);
    }
    Ok(OpOk::Layoutstats)
}

/// A range that can be, and a layout of the client on the file, as LAYOUTRETURN has it.
fn check(
    mds: &Mds,
    c: &mut Compound<Mds>,
    offset: u64,
    length: u64,
    stateid: Stateid,
) -> Result<(), Failure> {
    if length != u64::MAX && offset.checked_add(length).is_none() {
        return Err(NfsStat::INVAL.into());
    }
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(stateid)?;
    let file = mds.files.key(inode.no);
    mds.protocol.state().layout_report_check(c.client()?, file, &stateid).map_err(refused)
}
