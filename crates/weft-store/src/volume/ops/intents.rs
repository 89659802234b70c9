//! Work still owed: orphans (open files without a name) and intents (objects to delete or cut on
//! data servers, design D18).

use std::ops::ControlFlow;

use crate::engine::KeyRange;
use crate::types::{Inode, InodeNo, Intent, IntentId, IntentKind, Placement, StoreError};
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys::{self, prefix};
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

impl Volume {
    /// Intents not yet completed, oldest first, at most `limit`, those above `after`. Only to be
    /// carried out once the answer is durable.
    pub fn intents(
        &self,
        after: Option<IntentId>,
        limit: usize,
    ) -> Seen<Result<Vec<Intent>, StoreError>> {
        let after = after.map(|id| id.0);
        self.run(|tx| {
            let (mut found, floor) = (Vec::new(), tx.epoch_floor());
            numbered(tx, prefix::INTENT, after, limit, |id, value| {
                let intent = codec::decode_intent(IntentId(id), value)?;
                let fence_epoch = intent.fence_epoch.max(floor);
                found.push(Intent { fence_epoch, ..intent });
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// The intent was carried out; completing it again is harmless.
    ///
    /// A truncation's reply waits until this is durable: the intent would otherwise cut, after a
    /// crash, what the client wrote since.
    pub fn complete_intent(&self, id: IntentId) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            if tx.get(keys::intent(id))?.is_some() {
                tx.delete(keys::intent(id));
            }
            Ok(())
        })
    }

    /// Files without a name that are kept because they are (or were, before a restart) open: in
    /// order, at most `limit`, those above `after`.
    pub fn orphans(
        &self,
        after: Option<InodeNo>,
        limit: usize,
    ) -> Seen<Result<Vec<InodeNo>, StoreError>> {
        let after = after.map(|ino| ino.0);
        self.run(|tx| {
            let mut found = Vec::new();
            numbered(tx, prefix::ORPHAN, after, limit, |ino, _| {
                found.push(InodeNo(ino));
                Ok(())
            })?;
            Ok(found)
        })
    }
}

/// Records an intent about a file that has objects; the mutation's LSN is its identifier, so one
/// mutation records at most one.
pub(super) fn record(tx: &mut Tx<'_>, inode: &Inode, kind: IntentKind) -> Option<Intent> {
    let placement = inode.placement?;
    Some(record_of(tx, inode.no, (placement, inode.fence_epoch), kind))
}

/// The same about a file of which only this is known: where its objects are, and its fence epoch.
pub(super) fn record_of(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    (placement, fence_epoch): (Placement, u32),
    kind: IntentKind,
) -> Intent {
    let id = IntentId(tx.lsn().0);
    let intent = Intent { id, kind, ino, placement, fence_epoch };
    tx.put(keys::intent(id), codec::encode_intent(&intent));
    intent
}

/// Visits records whose key is `prefix` and a number above `after`.
pub(super) fn numbered(
    tx: &mut Tx<'_>,
    prefix: u8,
    after: Option<u64>,
    limit: usize,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let first = match after {
        None => Some(0),
        Some(after) => after.checked_add(1),
    };
    let (Some(first), true) = (first, limit > 0) else { return Ok(()) };
    let mut from = vec![prefix];
    from.extend_from_slice(&first.to_be_bytes());
    let mut left = limit;
    tx.scan(KeyRange { from: &from, until: Some(&keys::end_of(prefix)) }, |key, value| {
        let number = keys::number_of(key).ok_or(StoreError::Corrupt("numbered key"))?;
        visit(number, value)?;
        left -= 1;
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })
}
