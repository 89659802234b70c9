//! Which directory each data server has: the uuid it was first met with, kept in the volume. An
//! empty directory in its place would read as zeros, and another one as other files.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use weft_layout::{HandleKey, HandleKeys};
use weft_server::identity::hex;
use weft_store::{
    types::{DataServerId, StoreError},
    volume::Volume,
};

use crate::control_link::Admission;

/// Version of the data server records in the volume.
const RECORD_VERSION: u8 = 1;

/// A directory's uuid.
type Uuid = [u8; 16];

/// The data servers' directories, and the keys that follow from them.
pub struct DataServerRegistry {
    volume: Volume,
    keys: HandleKeys,
    /// Uuids that the configuration says are the right ones now.
    configured: BTreeMap<DataServerId, Uuid>,
    /// What the volume has. Only [`Admission::admit`] changes it, when it is durable.
    known: Mutex<BTreeMap<DataServerId, Uuid>>,
    /// Admissions come one after another, so that no two data servers get one directory.
    admitting: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for DataServerRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataServerRegistry").field("known", &self.known).finish_non_exhaustive()
    }
}

impl DataServerRegistry {
    /// What the volume knows. A uuid in `configured` takes the place of the known one as soon as
    /// the data server comes with it.
    ///
    /// # Errors
    /// The volume cannot be read, or a record is none.
    pub fn open(
        volume: Volume,
        keys: HandleKeys,
        configured: impl IntoIterator<Item = (DataServerId, Uuid)>,
    ) -> Result<DataServerRegistry, StoreError> {
        let mut known = BTreeMap::new();
        for (id, record) in volume.data_servers().unconfirmed()? {
            known.insert(id, decode(&record).ok_or(StoreError::Corrupt("data server"))?);
        }
        Ok(DataServerRegistry {
            volume,
            keys,
            configured: configured.into_iter().collect(),
            known: Mutex::new(known),
            admitting: tokio::sync::Mutex::default(),
        })
    }

    /// The key of a data server that was met at least once.
    pub(super) fn key(&self, id: DataServerId) -> Option<HandleKey> {
        let uuid = *self.known().get(&id)?;
        Some(self.keys.of(id.0, uuid))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<DataServerId, Uuid>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a directory is the right one; true if it is and is still to be recorded.
    fn judge(&self, id: DataServerId, uuid: Uuid) -> Result<bool, String> {
        let known = self.known();
        let former = known.get(&id).copied();
        let right = self.configured.get(&id).copied().or(former).unwrap_or(uuid);
        let came = hex(&uuid);
        if right != uuid {
            return Err(format!(
                "its directory is {came}, but data server {} has {}: put that one back, or see \
                 data_server.uuid in docs/configuration.md",
                id.0,
                hex(&right)
            ));
        }
        if let Some((other, _)) = known.iter().find(|(other, u)| **other != id && **u == uuid) {
            return Err(format!("its directory, {came}, is that of data server {}", other.0));
        }
        Ok(former != Some(uuid))
    }

    async fn admit_one(&self, id: DataServerId, uuid: Uuid) -> Result<(), String> {
        let _one_at_a_time = self.admitting.lock().await;
        if !self.judge(id, uuid)? {
            return Ok(());
        }
        let put = self.volume.data_server_put(id, &encode(uuid), 0);
        self.volume.confirm(put).await.map_err(|e| format!("its uuid is not recorded: {e}"))?;
        if let Some(former) = self.known().insert(id, uuid) {
            let (former, now) = (hex(&former), hex(&uuid));
            tracing::warn!(id = id.0, former, now, "another directory of a data server accepted");
        }
        Ok(())
    }
}

impl Admission for DataServerRegistry {
    fn admit(
        &self,
        id: DataServerId,
        uuid: Uuid,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(self.admit_one(id, uuid))
    }
}

fn encode(uuid: Uuid) -> Vec<u8> {
    [&[RECORD_VERSION][..], &uuid].concat()
}

/// The uuid in a data server's record of the volume; `None` if it is none.
pub fn recorded_uuid(record: &[u8]) -> Option<[u8; 16]> {
    decode(record)
}

fn decode(record: &[u8]) -> Option<Uuid> {
    let (version, uuid) = record.split_first()?;
    if *version == RECORD_VERSION { uuid.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use weft_ds::testing::secret;
    use weft_store::volume::VolumeConfig;

    use super::*;

    const ONE: DataServerId = DataServerId(1);
    const TWO: DataServerId = DataServerId(2);

    fn registry(volume: &Volume, configured: &[(DataServerId, Uuid)]) -> DataServerRegistry {
        DataServerRegistry::open(volume.clone(), secret().handle_keys(), configured.iter().copied())
            .unwrap()
    }

    /// The first directory of a number stays the only one, also for the next start; a directory
    /// has one number; the configuration accepts another one, once and for all.
    #[tokio::test]
    async fn the_first_directory_stays() {
        let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
        let first = registry(&volume, &[]);
        assert!(first.key(ONE).is_none());
        first.admit(ONE, [1; 16]).await.unwrap();
        first.admit(ONE, [1; 16]).await.unwrap();
        let second = registry(&volume, &[]);
        for registry in [&first, &second] {
            assert!(registry.key(ONE).is_some());
            let other = registry.admit(ONE, [2; 16]).await.unwrap_err();
            let (came, has) = (hex(&[2; 16]), hex(&[1; 16]));
            assert!(other.contains(&format!("is {came}, but data server 1 has {has}")), "{other}");
            let twice = registry.admit(TWO, [1; 16]).await.unwrap_err();
            assert!(twice.ends_with("is that of data server 1"), "{twice}");
        }
        let told = registry(&volume, &[(ONE, [2; 16])]);
        told.admit(ONE, [1; 16]).await.unwrap_err();
        told.admit(ONE, [2; 16]).await.unwrap();
        let later = registry(&volume, &[]);
        later.admit(ONE, [1; 16]).await.unwrap_err();
        later.admit(ONE, [2; 16]).await.unwrap();
        later.admit(TWO, [1; 16]).await.unwrap();
    }

    /// A record that cannot be one is corruption, not another first meeting.
    #[test]
    fn damaged_records_are_errors() {
        for record in [&[][..], &[1; 16], &[1; 18], &[2; 17]] {
            let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
            volume.data_server_put(ONE, record, 0).unconfirmed().unwrap();
            let opened = DataServerRegistry::open(volume, secret().handle_keys(), []);
            assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{record:?}");
        }
        assert_eq!(decode(&encode([3; 16])), Some([3; 16]));
    }
}
