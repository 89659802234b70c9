//! From the objects of a data server to the volume: has each a reason to be there?

use std::collections::{HashMap, HashSet};

use crate::types::{DataServerId, InodeNo, Placement, StoreError};
use crate::volume::handle::Volume;

/// Records of what is owed that are read at once.
const OWED_AT_ONCE: usize = 1024;

/// Whose an object of a data server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// A placed file's, a reserved number's, or its removal is still owed.
    Known,
    /// The same, but of one that has none here: it is on other data servers, or does not reach so
    /// far.
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
        let devices: HashMap<_, _> = devices.into_iter().map(|d| (d.id, d.data_servers)).collect();
        // Objects of later may be anywhere.
        let restored = self.restored().unconfirmed()?.map(|restored| restored.first_new);
        let at = |ino: InodeNo, place: &Placement| {
            let Some(members) = devices.get(&place.device) else { return Account::Known };
            let is_old = restored.is_some_and(|first_new| ino < first_new);
            let index = members.iter().position(|member| *member == data_server);
            match index.map(|index| is_old || place.reaches(index)) {
                Some(true) => Account::Known,
                Some(false) | None => Account::Elsewhere,
            }
        };
        let of_a_file = |ino: &InodeNo| match self.inode(*ino).unconfirmed() {
            Ok(inode) => Ok(Some(inode.placement.map_or(Account::Nobody, |p| at(*ino, &p)))),
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
                Some(place) => Ok(at(*ino, place)),
                None => Ok(of_a_file(ino)?.unwrap_or(Account::Nobody)),
            },
        };
        objects.iter().zip(found).map(known).collect()
    }

    /// Where the objects of these are that belong to no file: of reserved numbers, and those still
    /// to be removed.
    fn owed(&self, of: &HashSet<InodeNo>) -> Result<HashMap<InodeNo, Placement>, StoreError> {
        let mut owed = HashMap::new();
        if of.is_empty() {
            return Ok(owed);
        }
        let mut after = None;
        loop {
            let some = self.reserved(after, OWED_AT_ONCE).unconfirmed()?;
            let wanted = some.iter().filter(|reserved| of.contains(&reserved.ino));
            owed.extend(wanted.map(|reserved| (reserved.ino, reserved.placement)));
            let Some(last) = some.last() else { break };
            after = Some(last.ino);
        }
        let mut after = None;
        loop {
            let some = self.intents(after, OWED_AT_ONCE).unconfirmed()?;
            let wanted = some.iter().filter(|intent| of.contains(&intent.ino));
            owed.extend(wanted.map(|intent| (intent.ino, intent.placement)));
            let Some(last) = some.last() else { return Ok(owed) };
            after = Some(last.id);
        }
    }
}
