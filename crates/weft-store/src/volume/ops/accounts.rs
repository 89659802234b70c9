//! From the objects of a data server to the volume: has each a reason to be there?

use std::collections::{HashMap, HashSet};

use super::intents::numbered;
use crate::types::{DataServerId, DeviceId, InodeNo, IntentId, StoreError};
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys::prefix;
use crate::volume::tx::Tx;

/// Whose an object of a data server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// A placed file's, a reserved number's, or its removal is still owed.
    Known,
    /// The same, but of one whose objects are on other data servers.
    Elsewhere,
    /// Nobody's.
    Nobody,
}

impl Volume {
    /// Whose these objects of a data server are.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn accounts_for(
        &self,
        data_server: DataServerId,
        objects: &[InodeNo],
    ) -> Result<Vec<Account>, StoreError> {
        let devices = self.devices().unconfirmed()?;
        let others = devices.iter().filter(|device| !device.data_servers.contains(&data_server));
        let others: HashSet<_> = others.map(|device| device.id).collect();
        let owed = self.run(owed).unconfirmed()?;
        let at = |device: &DeviceId| match others.contains(device) {
            true => Account::Elsewhere,
            false => Account::Known,
        };
        let known = |ino: &InodeNo| match self.inode(*ino).unconfirmed() {
            Ok(inode) => Ok(inode.placement.map_or(Account::Nobody, |place| at(&place.device))),
            Err(StoreError::Stale) => Ok(owed.get(ino).map_or(Account::Nobody, at)),
            Err(e) => Err(e),
        };
        objects.iter().map(known).collect()
    }
}

/// Where objects of no file are: those of reserved numbers, and those still to be removed.
fn owed(tx: &mut Tx<'_>) -> Result<HashMap<InodeNo, DeviceId>, StoreError> {
    let mut owed = HashMap::new();
    numbered(tx, prefix::INTENT, None, usize::MAX, |id, value| {
        let intent = codec::decode_intent(IntentId(id), value)?;
        owed.insert(intent.ino, intent.placement.device);
        Ok(())
    })?;
    numbered(tx, prefix::RESERVED, None, usize::MAX, |ino, value| {
        owed.insert(InodeNo(ino), codec::decode_reserved(value)?.device);
        Ok(())
    })?;
    Ok(owed)
}
