//! From the objects of a data server to the volume: has each a reason to be there?

use std::collections::{HashMap, HashSet};

use crate::types::{DataServerId, DeviceId, InodeNo, StoreError};
use crate::volume::handle::Volume;

/// Records of what is owed that are read at once.
const OWED_AT_ONCE: usize = 1024;

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
        let at = |device: &DeviceId| match others.contains(device) {
            true => Account::Elsewhere,
            false => Account::Known,
        };
        let of_a_file = |ino: &InodeNo| match self.inode(*ino).unconfirmed() {
            Ok(inode) => Ok(Some(inode.placement.map_or(Account::Nobody, |p| at(&p.device)))),
            Err(StoreError::Stale) => Ok(None),
            Err(e) => Err(e),
        };
        let found: Vec<_> = objects.iter().map(of_a_file).collect::<Result<_, _>>()?;
        let without = objects.iter().zip(&found).filter(|(_, account)| account.is_none());
        let owed = self.owed(&without.map(|(ino, _)| *ino).collect())?;
        let known = |(ino, account): (&InodeNo, Option<Account>)| match account {
            Some(account) => Ok(account),
            // A number that was reserved may be that of a file by now.
            None => match owed.get(ino) {
                Some(device) => Ok(at(device)),
                None => Ok(of_a_file(ino)?.unwrap_or(Account::Nobody)),
            },
        };
        objects.iter().zip(found).map(known).collect()
    }

    /// Where the objects of these are that belong to no file: of reserved numbers, and those still
    /// to be removed.
    fn owed(&self, of: &HashSet<InodeNo>) -> Result<HashMap<InodeNo, DeviceId>, StoreError> {
        let mut owed = HashMap::new();
        if of.is_empty() {
            return Ok(owed);
        }
        let mut after = None;
        loop {
            let some = self.reserved(after, OWED_AT_ONCE).unconfirmed()?;
            let wanted = some.iter().filter(|reserved| of.contains(&reserved.ino));
            owed.extend(wanted.map(|reserved| (reserved.ino, reserved.placement.device)));
            let Some(last) = some.last() else { break };
            after = Some(last.ino);
        }
        let mut after = None;
        loop {
            let some = self.intents(after, OWED_AT_ONCE).unconfirmed()?;
            let wanted = some.iter().filter(|intent| of.contains(&intent.ino));
            owed.extend(wanted.map(|intent| (intent.ino, intent.placement.device)));
            let Some(last) = some.last() else { return Ok(owed) };
            after = Some(last.id);
        }
    }
}
