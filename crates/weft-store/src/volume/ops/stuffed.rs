//! Small files whose bytes are in the volume itself (P3.2, design D17): records of a block each,
//! so that a small write rewrites little, holes cost nothing, and a mutation of data and its inode
//! is one. A file leaves for its data servers once, in two steps: [`Volume::place`] says where
//! to, and from then on its bytes stand still, unless all of them go; [`Volume::unstuff`] says
//! that they have arrived.

use bytes::{Bytes, BytesMut};

use super::bounds::raise_bounds;
use super::inode_changes::touch;
use crate::types::{Content, Inode, InodeNo, SetIdLoss, StoreError, Timestamp};
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;
use crate::volume::{codec, keys};

/// Bytes of a block: what a write of one byte makes the log write, and what a file of this size
/// needs one record for.
pub(in crate::volume) const BLOCK_BYTES: u64 = 8 << 10;
/// The most bytes of a file that are ever kept in the volume, whatever is configured.
pub const STUFFED_BYTES_MAX: u64 = 1 << 20;

/// A write to a small file.
#[derive(Clone, Copy, Debug)]
pub struct StuffedWrite<'a> {
    /// Where the range begins: an offset in the file, in bytes.
    pub offset: u64,
    /// Bytes to write.
    pub data: &'a [u8],
    /// The file may be so long and still stay in the volume; at most [`STUFFED_BYTES_MAX`] counts.
    pub limit: u64,
    /// Set-id bits that go, by whose write it is.
    pub set_id_loss: SetIdLoss,
}

/// What was found in a file in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuffedSeek {
    /// The file when it was looked at.
    pub inode: Inode,
    /// Where, if there is any.
    pub found: Option<u64>,
}

/// What a file in the volume has somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StuffedExtent {
    /// Bytes that were written; at most [`STUFFED_BYTES_MAX`].
    Data(Bytes),
    /// A hole of this many bytes, which were never written.
    Hole(u64),
}

impl Volume {
    /// Writes to a file whose bytes are here. `None`, and nothing is written: they are not, or are
    /// on their way to data servers, or the write would reach beyond the limit.
    ///
    /// **Errors.** Stale.
    pub fn write_stuffed(
        &self,
        ino: InodeNo,
        write: &StuffedWrite<'_>,
        now: Timestamp,
    ) -> Seen<Result<Option<Inode>, StoreError>> {
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            let end = write.offset.saturating_add(write.data.len() as u64);
            let fits = write.data.is_empty() || end <= write.limit.min(STUFFED_BYTES_MAX);
            if !inode.stuffed || inode.is_moving() || !fits {
                return Ok(None);
            }
            written(tx, inode, write, now).map(Some)
        })
    }

    /// `len` bytes from `offset` of a file whose bytes are here, cut at its end, holes as zeros,
    /// with the inode they belong to. `None`: they are on data servers.
    ///
    /// **Errors.** Stale.
    pub fn read_stuffed(
        &self,
        ino: InodeNo,
        offset: u64,
        len: u64,
    ) -> Seen<Result<Option<(Inode, Bytes)>, StoreError>> {
        self.here(ino, |tx, inode| {
            let data = read(tx, &inode, offset, len)?;
            Ok((inode, data))
        })
    }

    /// The first byte at or after `offset`, and below the end of the file, that is data or in a
    /// hole, of a file whose bytes are here, with the inode they belong to. `None`: they are on
    /// data servers.
    ///
    /// **Errors.** Stale.
    pub fn seek_stuffed(
        &self,
        ino: InodeNo,
        what: Content,
        offset: u64,
    ) -> Seen<Result<Option<StuffedSeek>, StoreError>> {
        self.here(ino, |tx, inode| {
            let found = seek(tx, &inode, what, offset)?;
            Ok(StuffedSeek { inode, found })
        })
    }

    /// What a file whose bytes are here begins with at `offset`, as far as that goes and at most
    /// `len` bytes; behind its end there is a hole. `None`: its bytes are on data servers.
    ///
    /// **Errors.** Stale.
    pub fn extent_stuffed(
        &self,
        ino: InodeNo,
        offset: u64,
        len: u64,
    ) -> Seen<Result<Option<StuffedExtent>, StoreError>> {
        self.here(ino, |tx, inode| {
            let until = |end: Option<u64>| end.map_or(len, |end| len.min(end - offset));
            let data = seek(tx, &inode, Content::Data, offset)?;
            if data != Some(offset) {
                return Ok(StuffedExtent::Hole(until(data)));
            }
            let hole = seek(tx, &inode, Content::Hole, offset)?;
            let data = read(tx, &inode, offset, until(hole))?;
            Ok(StuffedExtent::Data(data))
        })
    }

    /// Looks at a file whose bytes are here; `None` if they are not.
    fn here<T>(
        &self,
        ino: InodeNo,
        look: impl Fn(&mut Tx<'_>, Inode) -> Result<T, StoreError>,
    ) -> Seen<Result<Option<T>, StoreError>> {
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            if inode.stuffed { look(tx, inode).map(Some) } else { Ok(None) }
        })
    }

    /// The bytes of a file have arrived, durably, where [`Volume::place`] said: from here on they
    /// are there, in objects of these lengths, by stripe index. Nothing that a client can see
    /// changes. A file whose bytes are there already is returned as it is.
    ///
    /// **Errors.** Stale; Invalid if it was not placed.
    pub fn unstuff(&self, ino: InodeNo, lengths: &[u64]) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = tx.inode(ino)?;
            if !inode.stuffed {
                return Ok(inode);
            }
            if inode.placement.is_none() {
                return Err(StoreError::Invalid);
            }
            forget(tx, &inode);
            inode.stuffed = false;
            tx.put_inode(&inode);
            raise_bounds(tx, &mut inode, lengths);
            Ok(inode)
        })
    }
}

fn written(
    tx: &mut Tx<'_>,
    mut inode: Inode,
    write: &StuffedWrite<'_>,
    now: Timestamp,
) -> Result<Inode, StoreError> {
    if write.data.is_empty() {
        return Ok(inode);
    }
    let mut at = write.offset;
    let mut rest = write.data;
    while !rest.is_empty() {
        let room = usize::try_from(BLOCK_BYTES - at % BLOCK_BYTES).expect("less than a block");
        let (part, later) = rest.split_at(room.min(rest.len()));
        write_block(tx, &inode, at, part)?;
        at += part.len() as u64;
        rest = later;
    }
    inode.size = inode.size.max(at);
    inode.mtime = now;
    inode.mode = write.set_id_loss.of(inode.mode);
    touch(&mut inode, now);
    tx.put_inode(&inode);
    Ok(inode)
}

/// Writes within one block, whose bytes beside the new ones stay.
fn write_block(tx: &mut Tx<'_>, inode: &Inode, at: u64, data: &[u8]) -> Result<(), StoreError> {
    let (number, within) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
    // What is all new need not be read.
    let old_end = inode.size.saturating_sub(number * BLOCK_BYTES).min(BLOCK_BYTES);
    let replaces = within == 0 && data.len() as u64 >= old_end;
    if replaces {
        tx.put(keys::data(inode.no, number), codec::encode_opaque(data));
        return Ok(());
    }
    let old = block(tx, inode.no, number)?.unwrap_or_default();
    let within = usize::try_from(within).expect("less than a block");
    let mut new = BytesMut::zeroed(old.len().max(within + data.len()));
    new[..old.len()].copy_from_slice(&old);
    new[within..within + data.len()].copy_from_slice(data);
    tx.put(keys::data(inode.no, number), codec::encode_opaque(&new));
    Ok(())
}

/// The first byte from `offset` on of that sort, below the end of the file.
fn seek(
    tx: &mut Tx<'_>,
    inode: &Inode,
    what: Content,
    offset: u64,
) -> Result<Option<u64>, StoreError> {
    let known_end = inode.size.min(STUFFED_BYTES_MAX);
    if what == Content::Hole {
        // Usually there is none.
        prepare(tx, inode.no, offset, known_end)?;
    }
    let mut at = offset;
    while at < known_end {
        let (number, within) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        let held = block(tx, inode.no, number)?.map_or(0, |block| block.len() as u64);
        match what {
            Content::Data if within < held => return Ok(Some(at)),
            Content::Hole if within >= held => return Ok(Some(at)),
            Content::Hole if held < BLOCK_BYTES => at += held - within,
            Content::Data | Content::Hole => at = (number + 1) * BLOCK_BYTES,
        }
    }
    Ok((what == Content::Hole && at < inode.size).then_some(at))
}

fn read(tx: &mut Tx<'_>, inode: &Inode, offset: u64, len: u64) -> Result<Bytes, StoreError> {
    let end = offset.saturating_add(len).min(inode.size);
    let Some(len) = end.checked_sub(offset).filter(|len| *len > 0) else {
        return Ok(Bytes::new());
    };
    let known_end = end.min(STUFFED_BYTES_MAX);
    prepare(tx, inode.no, offset, known_end)?;
    let mut out = BytesMut::zeroed(usize::try_from(len).map_err(|_| StoreError::TooBig)?);
    let mut at = offset;
    while at < known_end {
        let (number, within) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        let until = end.min((number + 1) * BLOCK_BYTES);
        if let Some(held) = block(tx, inode.no, number)? {
            let from = usize::try_from(within).expect("less than a block");
            let wanted = usize::try_from(until - at).expect("less than a block");
            let found = held.get(from..held.len().min(from + wanted)).unwrap_or_default();
            let to = usize::try_from(at - offset).expect("within the answer");
            out[to..to + found.len()].copy_from_slice(found);
        }
        at = until;
    }
    Ok(out.freeze())
}

/// The blocks of these bytes will be looked at.
fn prepare(tx: &mut Tx<'_>, ino: InodeNo, offset: u64, end: u64) -> Result<(), StoreError> {
    let numbers = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
    tx.prepare(numbers.map(|number| keys::data(ino, number)))
}

/// A block as far as it was written.
fn block(tx: &mut Tx<'_>, ino: InodeNo, number: u64) -> Result<Option<Bytes>, StoreError> {
    let raw = tx.get(keys::data(ino, number))?;
    raw.map(|raw| codec::decode_block(&raw)).transpose()
}

/// The file ends at `size`: what it had beyond that goes.
pub(super) fn cut(tx: &mut Tx<'_>, inode: &Inode, size: u64) -> Result<(), StoreError> {
    let whole = size.div_ceil(BLOCK_BYTES);
    for number in whole..blocks(inode.size) {
        tx.delete(keys::data(inode.no, number));
    }
    let within = usize::try_from(size % BLOCK_BYTES).expect("less than a block");
    if within == 0 || size >= inode.size.min(STUFFED_BYTES_MAX) {
        return Ok(());
    }
    let last = whole - 1;
    if let Some(held) = block(tx, inode.no, last)?.filter(|held| held.len() > within) {
        tx.put(keys::data(inode.no, last), codec::encode_opaque(&held[..within]));
    }
    Ok(())
}

/// Its bytes go, or are elsewhere now.
pub(super) fn forget(tx: &mut Tx<'_>, inode: &Inode) {
    if inode.stuffed {
        for number in 0..blocks(inode.size) {
            tx.delete(keys::data(inode.no, number));
        }
    }
}

/// Whether the file has no byte but zeros that nobody wrote.
pub(super) fn is_all_hole(tx: &mut Tx<'_>, inode: &Inode) -> Result<bool, StoreError> {
    Ok(seek(tx, inode, Content::Data, 0)?.is_none())
}

/// How many blocks a file of this size may have.
pub(in crate::volume) fn blocks(size: u64) -> u64 {
    size.min(STUFFED_BYTES_MAX).div_ceil(BLOCK_BYTES)
}
