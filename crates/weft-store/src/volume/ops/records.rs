//! Records the volume keeps for others: clients (opaque here), devices, data servers (opaque here).
//! Their number is bounded by whoever writes them.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::intents::numbered;
use crate::engine::KeyRange;
use crate::types::{DataServerId, Device, DeviceId, StoreError};
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys::{self, prefix};
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

impl Volume {
    /// Keeps (or replaces) the record of a client.
    pub fn client_put(&self, id: u64, record: &[u8]) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            tx.put(keys::client(id), codec::encode_opaque(record));
            Ok(())
        })
    }

    /// Forgets a client; it need not exist.
    pub fn client_remove(&self, id: u64) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            if tx.get(keys::client(id))?.is_some() {
                tx.delete(keys::client(id));
            }
            Ok(())
        })
    }

    /// Every client's record, by identifier.
    pub fn clients(&self) -> Seen<Result<Vec<(u64, Bytes)>, StoreError>> {
        self.run(|tx| {
            let mut found = Vec::new();
            numbered(tx, prefix::CLIENT, None, usize::MAX, |id, value| {
                found.push((id, codec::decode_opaque("client", value)?));
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// Keeps a device for ever; the same again changes nothing.
    ///
    /// **Errors.** Exists if that identifier means something else; Invalid without data servers or
    /// with more than [`Device::DATA_SERVERS_MAX`].
    pub fn device_put(&self, device: &Device) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            let servers = device.data_servers.len();
            if servers == 0 || servers > Device::DATA_SERVERS_MAX {
                return Err(StoreError::Invalid);
            }
            let (key, value) = (keys::device(device.id), codec::encode_device(device));
            match tx.get(key.clone())? {
                None => tx.put(key, value),
                Some(same) if same == value => {}
                Some(_) => return Err(StoreError::Exists),
            }
            Ok(())
        })
    }

    /// Every device, by identifier.
    pub fn devices(&self) -> Seen<Result<Vec<Device>, StoreError>> {
        self.run(|tx| {
            let mut found = Vec::new();
            every(tx, prefix::DEVICE, |id, value| {
                found.push(codec::decode_device(DeviceId(id), value)?);
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// Keeps (or replaces) the record of a data server. From here on no inode gets a number below
    /// `unused_from`: what the data server has there may be another file's.
    pub fn data_server_put(
        &self,
        id: DataServerId,
        record: &[u8],
        unused_from: u64,
    ) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            tx.put(keys::data_server(id), codec::encode_opaque(record));
            tx.skip_inode_numbers(unused_from);
            Ok(())
        })
    }

    /// Forgets a data server; it need not be known.
    pub fn data_server_remove(&self, id: DataServerId) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            if tx.get(keys::data_server(id))?.is_some() {
                tx.delete(keys::data_server(id));
            }
            Ok(())
        })
    }

    /// Every data server's record, by identifier.
    pub fn data_servers(&self) -> Seen<Result<Vec<(DataServerId, Bytes)>, StoreError>> {
        self.run(|tx| {
            let mut found = Vec::new();
            every(tx, prefix::DATA_SERVER, |id, value| {
                let record = codec::decode_opaque("data server", value)?;
                found.push((DataServerId(u32::from_be_bytes(id)), record));
                Ok(())
            })?;
            Ok(found)
        })
    }
}

/// Visits every record whose key is `prefix` and `N` bytes.
fn every<const N: usize>(
    tx: &mut Tx<'_>,
    prefix: u8,
    mut visit: impl FnMut([u8; N], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let range = KeyRange { from: &[prefix], until: Some(&keys::end_of(prefix)) };
    tx.scan(range, |key, value| {
        let id = key.get(1..).and_then(|id| id.try_into().ok());
        visit(id.ok_or(StoreError::Corrupt("record key"))?, value)?;
        Ok(ControlFlow::Continue(()))
    })
}
