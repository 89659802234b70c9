//! LAYOUTERROR (64) and LAYOUTSTATS (65): RFC 7862 §15.6, §15.7.

use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{DeviceError, IoInfo, LayouterrorArgs, LayoutstatsArgs},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::{DeviceId, Inode};

use super::data_access::regular_file;
use crate::{admin::log_device_error, server::Mds};

/// RFC 7862 §15.6. The errors themselves are never refused: those of devices that are not known
/// here are dropped.
pub(super) fn layouterror(mds: &Mds, c: &mut Compound<Mds>, a: &LayouterrorArgs) -> OpResult {
    let inode = check(mds, c, a.offset, a.length, a.stateid)?;
    for error in &a.errors.0 {
        note_error(mds, c, error, Some((&inode, a.offset)))?;
    }
    Ok(OpOk::Layouterror)
}

/// Takes note of an error that a client has met at a data server; of one that is not known here
/// nothing. A device of several data servers does not tell which: there `at`, a file and an offset
/// in it, does.
///
/// # Errors
/// The caller has no session.
pub(super) fn note_error(
    mds: &Mds,
    c: &Compound<Mds>,
    error: &DeviceError,
    at: Option<(&Inode, u64)>,
) -> Result<(), Failure> {
    let client = c.client()?;
    let Some(device) = mds.files.device(DeviceId(error.device_id.0)) else { return Ok(()) };
    let data_server = match &device.data_servers[..] {
        &[only] => Some(only),
        _ => at.and_then(|(inode, offset)| mds.files.striped(inode)?.asked_at(offset)),
    };
    // RFC 7862 §15.6 and RFC 8435 §9.1: the data server could not be reached. One that is away is
    // known to be.
    if let (NfsStat::NXIO, Some(id)) = (error.status, data_server)
        && mds.files.data_servers().are_up(&[id])
    {
        mds.admin.note_unreached(client, id);
    }
    mds.files.note_trouble(client, DeviceId(error.device_id.0), error.status);
    if matches!(error.status, NfsStat::NOSPC | NfsStat::DQUOT) {
        mds.files.data_servers().look_at_room();
    }
    if let Some(errors) = mds.admin.device_reports.error(error, c.now) {
        log_device_error((client.0, data_server), error, errors);
    }
    Ok(())
}

/// Takes note of what a client has read and written at a data server; of one that is not known here
/// nothing.
pub(super) fn note_statistics(mds: &Mds, device: DeviceId, (read, write): (IoInfo, IoInfo)) {
    if mds.files.device(device).is_some() {
        mds.admin.device_reports.statistics(device, read, write);
    }
}

/// RFC 7862 §15.7; the same about devices that are not known.
pub(super) fn layoutstats(mds: &Mds, c: &mut Compound<Mds>, a: &LayoutstatsArgs) -> OpResult {
    check(mds, c, a.offset, a.length, a.stateid)?;
    note_statistics(mds, DeviceId(a.device_id.0), (a.read, a.write));
    Ok(OpOk::Layoutstats)
}

/// A range that can be, and a layout of the client on the file, as LAYOUTRETURN has it.
fn check(
    mds: &Mds,
    c: &mut Compound<Mds>,
    offset: u64,
    length: u64,
    stateid: Stateid,
) -> Result<Inode, Failure> {
    if length != u64::MAX && offset.checked_add(length).is_none() {
        return Err(NfsStat::INVAL.into());
    }
    let handle = c.handle()?;
    let inode = regular_file(mds, c, &handle)?;
    let stateid = c.stateid(stateid)?;
    let file = mds.files.key(inode.no);
    let checked = mds.protocol.state().layout_report_check(c.client()?, file, &stateid);
    checked.map_err(refused)?;
    Ok(inode)
}
