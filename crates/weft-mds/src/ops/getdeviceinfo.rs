//! GETDEVICEINFO (47): RFC 8881 §18.40; files device address §13.2.1, flexfiles RFC 8435 §4.

use weft_nfs::{
    Bitmap, Failure, FailureBody, NfsStat, OpOk,
    ops::{Body, GetdeviceinfoArgs, GetdeviceinfoOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::types::DeviceId;

use crate::{
    files::LayoutKind,
    server::Mds,
    striped::{device_body, flex_device_body},
};

/// Bit numbers NOTIFY_DEVICEID4_CHANGE (1) and _DELETE (2). Linux keeps a device in its cache
/// only if exactly these come back. Device ids never change meaning here, so that none is ever
/// due.
const NOTIFICATIONS: u32 = 0b110;
/// Bytes of `GETDEVICEINFO4resok` around the body: type, body length, bitmap of one word.
const AROUND_BODY_BYTES: usize = 4 + 4 + 8;

/// RFC 8881 §18.40. Each client gets the addresses it can reach.
pub(super) async fn getdeviceinfo(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &GetdeviceinfoArgs,
) -> OpResult {
    if a.layout_type != mds.files.layout().wire() {
        return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
    }
    let device = mds.files.device(DeviceId(a.device_id.0)).ok_or(NfsStat::NOENT)?;
    let (servers, peer, local) = (mds.files.data_servers(), c.conn.peer, c.conn.local);
    let addresses = servers.addresses_for(&device.data_servers, peer, local).await;
    if addresses.iter().any(Vec::is_empty) {
        // A data server that is not configured any more, or whose name nobody knows: the client
        // goes through us.
        return Err(NfsStat::NOENT.into());
    }
    let body = match (mds.files.layout(), &addresses[..]) {
        (LayoutKind::Files, all) => device_body(&device, all),
        (LayoutKind::FlexFiles, [one]) => flex_device_body(one),
        // Of a file that is striped over several, which no flexfiles layout is given of.
        (LayoutKind::FlexFiles, _) => return Err(NfsStat::NOENT.into()),
    };
    let needed = AROUND_BODY_BYTES + body.len().next_multiple_of(4);
    if a.maxcount != 0 && needed > usize::try_from(a.maxcount).unwrap_or(usize::MAX) {
        let mincount = u32::try_from(needed).unwrap_or(u32::MAX);
        return Err(Failure { status: NfsStat::TOOSMALL, body: FailureBody::Mincount(mincount) });
    }
    let granted = Bitmap::from_words(&[NOTIFICATIONS]).and(&a.notify_types);
    // §18.40.3: a maxcount of zero asks for the notifications only.
    let addr_body = if a.maxcount == 0 { Body::default() } else { Body(body) };
    Ok(OpOk::Getdeviceinfo(GetdeviceinfoOk {
        layout_type: a.layout_type,
        addr_body,
        notification: granted,
    }))
}
