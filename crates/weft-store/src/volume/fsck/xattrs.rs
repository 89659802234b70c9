//! Extended attributes: an inode that says it has some has a list, each name on the list has a
//! value as long as the list says, and there is nothing else.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::{Check, each, hex};
use crate::{
    engine::KeyRange,
    types::{InodeNo, StoreError},
    volume::{
        codec::{self, XattrName},
        keys::{self, prefix},
        tx::Tx,
    },
};

/// Lists looked at in one scan; each is some 200 KiB at most.
const LISTS_AT_ONCE: usize = 64;

impl Check {
    pub(super) fn xattrs(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        // A scan borrows the transaction: values are looked up after each part of it.
        let mut from = Bytes::from_static(&[prefix::XATTR_NAMES]);
        while let Some(next) = self.some_lists(tx, &from)? {
            from = next;
        }
        for no in std::mem::take(&mut self.have_xattrs) {
            self.out.wrong(|| format!("inode {}: its extended attributes are not listed", no.0));
        }
        let mut values = 0;
        each(tx, prefix::XATTR_VALUE, |_, _| {
            values += 1;
            Ok(())
        })?;
        let listed = self.out.xattrs;
        if values != listed {
            self.out.wrong(|| format!("{values} values of extended attributes, {listed} listed"));
        }
        Ok(())
    }

    /// Checks at most [`LISTS_AT_ONCE`] lists; where to go on.
    fn some_lists(&mut self, tx: &mut Tx<'_>, from: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let (mut lists, mut next) = (Vec::new(), None);
        let until = keys::end_of(prefix::XATTR_NAMES);
        tx.scan(KeyRange { from, until: Some(&until) }, |key, value| {
            if lists.len() == LISTS_AT_ONCE {
                next = Some(Bytes::copy_from_slice(key));
                return Ok(ControlFlow::Break(()));
            }
            let raw = Bytes::copy_from_slice(value);
            match (keys::number_of(key), codec::decode_xattr_names(&raw)) {
                (Some(no), Ok(names)) => lists.push((InodeNo(no), names)),
                _ => self.out.wrong(|| format!("extended attribute names {}: corrupt", hex(key))),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for (no, names) in lists {
            if !self.have_xattrs.remove(&no) {
                self.out.wrong(|| format!("inode {}: it knows of no extended attributes", no.0));
            }
            for name in names {
                self.xattr(tx, no, &name)?;
            }
        }
        Ok(next)
    }

    fn xattr(&mut self, tx: &mut Tx<'_>, no: InodeNo, name: &XattrName) -> Result<(), StoreError> {
        self.out.xattrs += 1;
        let raw = tx.get(keys::xattr_value(no, &name.name))?;
        let value = raw.map(|raw| codec::decode_opaque("extended attribute", &raw)).transpose();
        let right = matches!(&value, Ok(Some(v)) if v.len() == name.value_bytes as usize);
        if !right {
            let key = String::from_utf8_lossy(&name.name);
            self.out.wrong(|| format!("inode {}: no such value of {key:?}", no.0));
        }
        Ok(())
    }
}
