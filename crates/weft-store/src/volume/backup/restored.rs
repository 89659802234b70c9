//! What a volume that was restored from a backup remembers of it: data servers have seen more than
//! it has, and each is asked for how much before it is used.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

use crate::types::fence_epoch;
use crate::types::{DataServerId, InodeNo, Lsn, StoreError, Timestamp};
use crate::volume::codec::{Fields, VERSION};
use crate::volume::handle::Volume;
use crate::volume::keys;
use crate::volume::seen::Seen;

/// Bytes of the record before the data servers.
const FIXED_BYTES: usize = 61;

/// That a volume was restored, and from what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Random name of this restoration: two of one backup differ.
    pub id: [u8; 16],
    /// The restoration that the volume in the backup came from itself; zeros if from none.
    pub previous: [u8; 16],
    /// The last mutation of the backup.
    pub lsn: Lsn,
    /// When it was restored.
    pub time: Timestamp,
    /// The first inode number that the backup had not given: data servers may have newer bytes, and
    /// more of them, of files below it.
    pub first_new: InodeNo,
    /// Data servers that have told what they had seen before the restoration.
    pub reconciled: BTreeSet<DataServerId>,
}

impl Volume {
    /// From what this volume was restored; `None` if it never was.
    pub fn restored(&self) -> Seen<Result<Option<Restored>, StoreError>> {
        self.run(|tx| {
            tx.get(Bytes::from_static(keys::RESTORED))?.map(|raw| decode(&raw)).transpose()
        })
    }

    /// Takes in what a data server has seen of a later state of the volume than this one: object
    /// numbers below `unused_from` are never given again, and every inode has a fence above
    /// `epoch_max`. What is higher already stays. Once this is durable the data server may be used.
    ///
    /// **Errors.** TooBig if no epoch is left (the last one is that of objects that are gone).
    pub fn reconcile(
        &self,
        data_server: DataServerId,
        unused_from: u64,
        epoch_max: u32,
    ) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            let above = fence_epoch::next_fence(epoch_max);
            tx.skip_inode_numbers(unused_from);
            tx.raise_epoch_floor(above.ok_or(StoreError::TooBig)?);
            if let Some(raw) = tx.get(Bytes::from_static(keys::RESTORED))? {
                let mut restored = decode(&raw)?;
                restored.reconciled.insert(data_server);
                tx.put(Bytes::from_static(keys::RESTORED), encode(&restored));
            }
            Ok(())
        })
    }
}

pub(super) fn encode(restored: &Restored) -> Bytes {
    let mut out = BytesMut::with_capacity(FIXED_BYTES + 4 * restored.reconciled.len());
    out.put_u8(VERSION);
    out.put_slice(&restored.id);
    out.put_slice(&restored.previous);
    out.put_u64(restored.lsn.0);
    out.put_i64(restored.time.seconds);
    out.put_u32(restored.time.nanos);
    out.put_u64(restored.first_new.0);
    for data_server in &restored.reconciled {
        out.put_u32(data_server.0);
    }
    out.freeze()
}

pub(in crate::volume) fn decode(raw: &[u8]) -> Result<Restored, StoreError> {
    let mut fields = Fields::versioned(raw, "restored")?;
    let mut restored = Restored {
        id: fields.take()?,
        previous: fields.take()?,
        lsn: Lsn(fields.u64()?),
        time: fields.timestamp()?,
        first_new: InodeNo(fields.u64()?),
        reconciled: BTreeSet::new(),
    };
    while !fields.is_empty() {
        restored.reconciled.insert(DataServerId(fields.u32()?));
    }
    Ok(restored)
}
