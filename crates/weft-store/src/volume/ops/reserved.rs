//! Inode numbers that are reserved with a place before any file has them (P3.1), so that their
//! objects can be made on the data servers ahead of the files. A number leaves once: it becomes a
//! file ([`crate::volume::NewFileData::Reserved`]), or its objects are to be removed.

use super::intents::{self, numbered};
use crate::types::{InodeNo, Intent, IntentKind, Placement, Reserved, StoreError};
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys::{self, prefix};
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

impl Volume {
    /// Reserves an inode number for each of these places, in their order. Objects may be made for
    /// them once this is durable.
    ///
    /// **Errors.** Invalid if a placement is empty.
    pub fn reserve(&self, places: &[Placement]) -> Seen<Result<Vec<Reserved>, StoreError>> {
        self.run(|tx| {
            if !places.iter().all(Placement::is_sound) {
                return Err(StoreError::Invalid);
            }
            let mut reserved = Vec::with_capacity(places.len());
            for placement in places {
                let (ino, placement) = (tx.new_inode_no(), *placement);
                tx.put(keys::reserved(ino), codec::encode_reserved(&placement));
                reserved.push(Reserved { ino, placement });
            }
            Ok(reserved)
        })
    }

    /// What is reserved: in order, at most `limit`, those above `after`.
    pub fn reserved(
        &self,
        after: Option<InodeNo>,
        limit: usize,
    ) -> Seen<Result<Vec<Reserved>, StoreError>> {
        let after = after.map(|ino| ino.0);
        self.run(|tx| {
            let mut found = Vec::new();
            numbered(tx, prefix::RESERVED, after, limit, |ino, value| {
                let placement = codec::decode_reserved(value)?;
                found.push(Reserved { ino: InodeNo(ino), placement });
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// Gives a reserved number up: no file will ever have it. Returns the objects to delete;
    /// `None`, and nothing happens, if the number is not reserved.
    pub fn give_up_reserved(&self, ino: InodeNo) -> Seen<Result<Option<Intent>, StoreError>> {
        self.run(|tx| {
            let Some(placement) = placement(tx, ino)? else { return Ok(None) };
            tx.delete(keys::reserved(ino));
            Ok(Some(intents::record_of(tx, ino, (placement, 0), IntentKind::Delete)))
        })
    }
}

/// A file gets a reserved number and its place.
///
/// **Errors.** Invalid if it is not reserved, or with another place.
pub(super) fn take(tx: &mut Tx<'_>, reserved: &Reserved) -> Result<(), StoreError> {
    if placement(tx, reserved.ino)? != Some(reserved.placement) {
        return Err(StoreError::Invalid);
    }
    tx.delete(keys::reserved(reserved.ino));
    Ok(())
}

fn placement(tx: &mut Tx<'_>, ino: InodeNo) -> Result<Option<Placement>, StoreError> {
    let raw = tx.get(keys::reserved(ino))?;
    raw.map(|raw| codec::decode_reserved(&raw)).transpose()
}
