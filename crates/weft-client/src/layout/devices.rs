//! Device bodies by id. Device ids are never reused (design D3), so entries are never stale.

use std::collections::HashMap;

use bytes::Bytes;
use weft_nfs::{Bitmap, DeviceId, LayoutType, OpArgs, OpNum, OpOk, ops::*};

use crate::{
    error::{ClientError, ProtocolError},
    limits,
    session::Session,
    sync::Mutex,
};

/// A bounded cache of GETDEVICEINFO answers.
#[derive(Debug, Default)]
pub struct DeviceCache(Mutex<HashMap<(LayoutType, DeviceId), Bytes>>);

/// Largest device body asked for.
const DEVICE_BYTES_MAX: u32 = 256 << 10;

impl DeviceCache {
    /// The device's body, asked of the server the first time.
    ///
    /// # Errors
    /// Those of GETDEVICEINFO.
    pub async fn body(
        &self,
        mds: &Session,
        layout_type: LayoutType,
        device_id: DeviceId,
    ) -> Result<Bytes, ClientError> {
        let key = (layout_type, device_id);
        if let Some(body) = self.0.lock().get(&key) {
            return Ok(body.clone());
        }
        let args = GetdeviceinfoArgs {
            device_id,
            layout_type,
            maxcount: DEVICE_BYTES_MAX,
            notify_types: Bitmap::EMPTY,
        };
        let mut done = mds.compound(vec![OpArgs::Getdeviceinfo(args)]).await?;
        let Some(OpOk::Getdeviceinfo(ok)) = done.pop() else {
            return Err(ClientError::unexpected(OpNum::GETDEVICEINFO));
        };
        if ok.layout_type != layout_type {
            return Err(ProtocolError::WrongDevice.into());
        }
        let mut bodies = self.0.lock();
        if bodies.len() >= limits::DEVICES_MAX {
            bodies.clear(); // rare, and every entry can be asked for again
        }
        bodies.insert(key, ok.addr_body.0.clone());
        Ok(ok.addr_body.0)
    }
}
