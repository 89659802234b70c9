//! Blocks of small files: each is of a file that says its bytes are here, and within its size.

use super::{Check, each, hex};
use crate::{
    types::{InodeNo, StoreError},
    volume::{
        codec, keys,
        keys::prefix,
        ops::stuffed::{BLOCK_BYTES, blocks},
        tx::Tx,
    },
};

impl Check {
    pub(super) fn stuffed(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::DATA, |key, value| {
            self.out.blocks += 1;
            let file = key.get(1..9).and_then(|no| no.try_into().ok()).map(u64::from_be_bytes);
            let (Some(no), Some(block)) = (file, keys::cookie_of(key)) else {
                self.out.wrong(|| format!("block {}: no such key", hex(key)));
                return Ok(());
            };
            let Some(size) = self.stuffed.get(&InodeNo(no)).copied() else {
                self.out.wrong(|| format!("file {no}: a block, but its bytes are not here"));
                return Ok(());
            };
            match codec::decode_opaque("block of a file", value) {
                Ok(bytes) if bytes.is_empty() || bytes.len() as u64 > BLOCK_BYTES => {
                    self.out.wrong(|| format!("file {no}: block {block} of {}", bytes.len()));
                }
                Ok(_) if block >= blocks(size) => {
                    self.out.wrong(|| format!("file {no}: block {block} beyond its end"));
                }
                Ok(bytes) if block * BLOCK_BYTES + bytes.len() as u64 > size => {
                    self.out.wrong(|| format!("file {no}: bytes beyond its end"));
                }
                Ok(_) => {}
                Err(e) => self.out.wrong(|| format!("file {no}: {e}")),
            }
            Ok(())
        })
    }
}
