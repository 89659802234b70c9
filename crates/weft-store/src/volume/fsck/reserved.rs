//! Reserved inode numbers: none is a file's, or was never handed out, or is to be removed as well.

use super::{Check, decode_intent, each, hex};
use crate::{
    types::{InodeNo, StoreError},
    volume::{
        codec,
        keys::{self, prefix},
        tx::Tx,
    },
};

impl Check {
    pub(super) fn reserved(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let next = tx.next_inode_no();
        each(tx, prefix::RESERVED, |key, value| {
            self.out.reserved += 1;
            let Some(ino) = keys::number_of(key).map(InodeNo) else {
                self.out.wrong(|| format!("reserved number {}: no such key", hex(key)));
                return Ok(());
            };
            match codec::decode_reserved(value) {
                Ok(placement) => self.placement(ino, &placement),
                Err(e) => self.out.wrong(|| format!("reserved number {}: {e}", ino.0)),
            }
            if self.nodes.contains_key(&ino) {
                self.out.wrong(|| format!("file {} exists, and its number is reserved", ino.0));
            }
            if ino >= next {
                self.out.wrong(|| format!("reserved number {} is of the future", ino.0));
            }
            self.reserved.insert(ino);
            Ok(())
        })?;
        each(tx, prefix::INTENT, |key, value| {
            match decode_intent(key, value) {
                Ok(i) if self.reserved.contains(&i.ino) => {
                    self.out.wrong(|| format!("reserved number {} is to be removed", i.ino.0));
                }
                // One that cannot be read was found before.
                Ok(_) | Err(_) => {}
            }
            Ok(())
        })
    }
}
