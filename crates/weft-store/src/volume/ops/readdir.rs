//! Listing a directory in the order its entries were made.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::engine::KeyRange;
use crate::types::{Credential, Inode, InodeNo, Lsn, Rwx, StoreError};
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;
use crate::volume::{check, codec, keys};

/// Entries read under one hold of the volume's lock: bounds both the hold and the memory of a
/// listing, whatever the size of the directory.
const CHUNK_ENTRIES: usize = 64;

/// One entry of a listing.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// Where to go on after this entry; ascending, at least 3, never used again.
    pub cookie: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// What it points to.
    pub inode: &'a Inode,
}

/// Entries read together, and whether they were the last.
struct Chunk {
    entries: Vec<(u64, Bytes, Inode)>,
    end: bool,
}

impl Volume {
    /// Visits the entries of `dir` whose cookies are above `after_cookie` (0: from the start), in
    /// the order they were made, until the visitor breaks. Answers whether the end was reached
    /// without a break.
    ///
    /// The visitor runs without the volume's lock; entries that come or go during a long listing
    /// may or may not be seen, all others exactly once.
    ///
    /// **Errors.** Stale, NotDirectory; Access without read permission.
    pub fn readdir(
        &self,
        dir: InodeNo,
        after_cookie: u64,
        cred: &Credential,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Seen<Result<bool, StoreError>> {
        let (mut after, mut lsn) = (after_cookie, Lsn(0));
        loop {
            let chunk = self.run(|tx| chunk(tx, dir, after, cred));
            lsn = lsn.max(chunk.lsn);
            let chunk = match chunk.value {
                Ok(chunk) => chunk,
                Err(error) => return Seen { value: Err(error), lsn },
            };
            for (cookie, name, inode) in &chunk.entries {
                after = *cookie;
                if visit(DirEntry { cookie: *cookie, name, inode }).is_break() {
                    return Seen { value: Ok(false), lsn };
                }
            }
            if chunk.end {
                return Seen { value: Ok(true), lsn };
            }
        }
    }
}

fn chunk(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    after: u64,
    cred: &Credential,
) -> Result<Chunk, StoreError> {
    let inode = tx.directory(dir)?;
    check::require(&inode, cred, Rwx::READ)?;
    let Some(first) = after.checked_add(1) else {
        return Ok(Chunk { entries: Vec::new(), end: true });
    };
    let (from, until) = (keys::order(dir, first), keys::order(InodeNo(dir.0 + 1), 0));
    let mut found = Vec::with_capacity(CHUNK_ENTRIES);
    tx.scan(KeyRange { from: &from, until: Some(&until) }, |key, value| {
        let cookie = keys::cookie_of(key).ok_or(StoreError::Corrupt("directory order key"))?;
        found.push((cookie, codec::decode_order(value)?));
        let full = found.len() == CHUNK_ENTRIES;
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let end = found.len() < CHUNK_ENTRIES;
    tx.prepare(found.iter().map(|(_, ordered)| keys::inode(ordered.ino)))?;
    let mut entries = Vec::with_capacity(found.len());
    for (cookie, ordered) in found {
        entries.push((cookie, ordered.name, tx.entry_inode(ordered.ino)?));
    }
    Ok(Chunk { entries, end })
}
