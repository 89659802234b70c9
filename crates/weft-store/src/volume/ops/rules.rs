//! By which rules for clients handles of data servers were given out, as a digest.

use bytes::Bytes;

use crate::types::StoreError;
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys;
use crate::volume::seen::Seen;

impl Volume {
    /// The rules by which all handles were given out that may still work; `None` before
    /// [`Volume::note_rules`].
    pub fn rules(&self) -> Seen<Result<Option<Bytes>, StoreError>> {
        self.run(|tx| {
            let raw = tx.get(Bytes::from_static(keys::RULES))?;
            raw.map(|raw| codec::decode_opaque("rules", &raw)).transpose()
        })
    }

    /// All handles that were given out by other rules have ended.
    pub fn note_rules(&self, digest: &[u8; 32]) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            tx.put(Bytes::from_static(keys::RULES), codec::encode_opaque(digest));
            Ok(())
        })
    }
}
