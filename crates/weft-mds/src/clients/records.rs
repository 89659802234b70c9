//! The durable records of clients: who may reclaim after the next restart (RFC 8881 §8.4.2.1).

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::{BufMut, Bytes, BytesMut};
use weft_nfs::{ClientId, Failure};
use weft_store::{
    types::{Lsn, StoreError},
    volume::Volume,
};

use crate::deps::Deps;

/// Version of the records in the volume.
const VERSION: u8 = 1;

/// The records of a volume.
pub(crate) struct ClientRecords {
    volume: Volume,
    /// The id of the record of each owner.
    id_by_owner: Mutex<HashMap<Bytes, u64>>,
    /// The last removal of a record (a log sequence number). Until it is durable the client could
    /// come back after a crash for what others have been given since.
    forgotten: AtomicU64,
}

/// A record: its id, and whose it is.
pub(crate) type Known = (u64, Bytes);

/// The clients that may reclaim after this start.
///
/// # Errors
/// The volume cannot be read, or has a record that is none.
pub(crate) fn known(volume: &Volume) -> Result<Vec<Known>, StoreError> {
    let records = volume.clients().unconfirmed()?;
    let known = records.into_iter().map(|(id, record)| match record.split_first() {
        Some((&VERSION, _)) => Ok((id, record.slice(1..))),
        _ => Err(StoreError::Corrupt("client record")),
    });
    known.collect()
}

impl ClientRecords {
    /// Those of a volume, of which these are known.
    pub(crate) fn new(volume: Volume, known: &[Known]) -> Self {
        let ids = known.iter().map(|(id, owner)| (owner.clone(), *id)).collect();
        ClientRecords { volume, id_by_owner: Mutex::new(ids), forgotten: AtomicU64::new(0) }
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<Bytes, u64>> {
        self.id_by_owner.lock().expect("client records lock")
    }

    /// From here on the record of this owner is of this incarnation.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn put(
        &self,
        deps: &mut Deps,
        client: ClientId,
        owner: &Bytes,
    ) -> Result<(), Failure> {
        let mut record = BytesMut::with_capacity(1 + owner.len());
        record.put_u8(VERSION);
        record.put_slice(owner);
        deps.see(self.volume.client_put(client.0, &record))?;
        let older = self.ids().insert(owner.clone(), client.0);
        match older.filter(|id| *id != client.0) {
            Some(id) => deps.see(self.volume.client_remove(id)),
            None => Ok(()),
        }
    }

    /// Removes the record of a client that is gone.
    pub(crate) fn forget(&self, client: ClientId) {
        self.ids().retain(|_, id| *id != client.0);
        self.remove(client.0);
    }

    /// Removes a record, so that its client cannot reclaim after a restart.
    pub(crate) fn remove(&self, id: u64) {
        let removed = self.volume.client_remove(id);
        self.forgotten.fetch_max(removed.lsn.0, Relaxed);
        if let Err(e) = removed.value {
            tracing::error!(error = %e, "cannot remove a client record");
        }
    }

    /// Makes the reply that grants new state wait until nobody who lost something can reclaim it
    /// after a crash (RFC 8881 §8.4.3).
    pub(crate) fn depend_on_forgotten(&self, deps: &mut Deps) {
        deps.depend(Lsn(self.forgotten.load(Relaxed)));
    }

    /// Whether there is a record of this owner.
    #[cfg(test)]
    pub(crate) fn has(&self, owner: &Bytes) -> bool {
        self.ids().contains_key(owner)
    }
}
