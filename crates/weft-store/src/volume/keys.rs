//! Keys of the volume store: one prefix byte for the kind, then big-endian fields, so that byte
//! order is the order of numbers (`docs/formats.md`, "Volume store").

use bytes::{BufMut, Bytes, BytesMut};

use crate::types::{DataServerId, DeviceId, InodeNo, IntentId};

/// Prefix bytes; the number is the format, never change one.
pub(super) mod prefix {
    pub(crate) const META: u8 = 0x00;
    pub(crate) const INODE: u8 = 0x01;
    pub(crate) const DIRENT: u8 = 0x02;
    pub(crate) const ORDER: u8 = 0x03;
    pub(crate) const ORPHAN: u8 = 0x04;
    pub(crate) const INTENT: u8 = 0x05;
    pub(crate) const CLIENT: u8 = 0x06;
    pub(crate) const DEVICE: u8 = 0x07;
    pub(crate) const DATA_SERVER: u8 = 0x08;
    pub(crate) const XATTR_NAMES: u8 = 0x09;
    pub(crate) const XATTR_VALUE: u8 = 0x0a;
    pub(crate) const DATA: u8 = 0x0b;
    pub(crate) const RESERVED: u8 = 0x0c;
}

/// What the volume is: made once.
pub(super) const IDENTITY: &[u8] = &[prefix::META, 1];
/// Where the volume is: written with every batch.
pub(super) const PROGRESS: &[u8] = &[prefix::META, 2];

/// From what the volume was restored, if it was.
pub(super) const RESTORED: &[u8] = &[prefix::META, 16];
/// The lowest fence epoch that an inode is read with.
pub(super) const EPOCH_FLOOR: &[u8] = &[prefix::META, 17];

/// By which rules for clients the handles were given out that may still work.
pub(super) const RULES: &[u8] = &[prefix::META, 18];

/// Before the key of every run, and beyond it.
pub(super) const RUNS: &[u8] = &[prefix::META, 3];
pub(super) const RUNS_END: &[u8] = &[prefix::META, 4];

/// One start of a metadata server on the volume.
pub(super) fn run(number: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(10);
    key.put_slice(RUNS);
    key.put_u64(number);
    key.freeze()
}

/// The number of a run's key.
pub(super) fn run_of(key: &[u8]) -> Option<u64> {
    number_at(key, RUNS.len())
}

pub(super) fn inode(ino: InodeNo) -> Bytes {
    numbered(prefix::INODE, ino.0)
}

pub(super) fn dirent(dir: InodeNo, name: &[u8]) -> Bytes {
    named(prefix::DIRENT, dir, name)
}

pub(super) fn order(dir: InodeNo, cookie: u64) -> Bytes {
    numbered_twice(prefix::ORDER, dir.0, cookie)
}

/// The cookie of a directory-order key of a directory known to the caller.
pub(super) fn cookie_of(key: &[u8]) -> Option<u64> {
    number_at(key, 9)
}

pub(super) fn orphan(ino: InodeNo) -> Bytes {
    numbered(prefix::ORPHAN, ino.0)
}

pub(super) fn intent(id: IntentId) -> Bytes {
    numbered(prefix::INTENT, id.0)
}

pub(super) fn client(id: u64) -> Bytes {
    numbered(prefix::CLIENT, id)
}

pub(super) fn device(id: DeviceId) -> Bytes {
    let mut key = BytesMut::with_capacity(17);
    key.put_u8(prefix::DEVICE);
    key.put_slice(&id.0);
    key.freeze()
}

pub(super) fn data_server(id: DataServerId) -> Bytes {
    let mut key = BytesMut::with_capacity(5);
    key.put_u8(prefix::DATA_SERVER);
    key.put_u32(id.0);
    key.freeze()
}

pub(super) fn xattr_names(ino: InodeNo) -> Bytes {
    numbered(prefix::XATTR_NAMES, ino.0)
}

pub(super) fn xattr_value(ino: InodeNo, name: &[u8]) -> Bytes {
    named(prefix::XATTR_VALUE, ino, name)
}

/// A block of a file whose bytes are in the volume.
pub(super) fn data(ino: InodeNo, block: u64) -> Bytes {
    numbered_twice(prefix::DATA, ino.0, block)
}

/// An inode number that no file has yet.
pub(super) fn reserved(ino: InodeNo) -> Bytes {
    numbered(prefix::RESERVED, ino.0)
}

/// The number of a key that is a prefix and one number.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    number_at(key, 1)
}

/// The first key beyond every key of `prefix`.
pub(super) fn end_of(prefix: u8) -> [u8; 1] {
    [prefix + 1]
}

/// The first key behind `key`.
pub(super) fn successor(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

/// Whether a key is read by itself, and so worth caching; the others are only scanned.
pub(super) fn is_point(key: &[u8]) -> bool {
    matches!(key.first(), Some(&prefix::INODE | &prefix::DIRENT))
}

fn named(prefix: u8, ino: InodeNo, name: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(9 + name.len());
    key.put_u8(prefix);
    key.put_u64(ino.0);
    key.put_slice(name);
    key.freeze()
}

fn numbered(prefix: u8, number: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(9);
    key.put_u8(prefix);
    key.put_u64(number);
    key.freeze()
}

fn numbered_twice(prefix: u8, first: u64, second: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(17);
    key.put_u8(prefix);
    key.put_u64(first);
    key.put_u64(second);
    key.freeze()
}

/// The number that ends a key and starts at byte `at`.
fn number_at(key: &[u8], at: usize) -> Option<u64> {
    key.get(at..)?.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_the_format_says() {
        // Golden bytes of every key kind, as docs/formats.md draws them.
        assert_eq!(inode(InodeNo(0x0102))[..], [1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(dirent(InodeNo(1), b"ab")[..], [2, 0, 0, 0, 0, 0, 0, 0, 1, b'a', b'b']);
        assert_eq!(order(InodeNo(1), 3)[..], [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(orphan(InodeNo(9))[..], [4, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(intent(IntentId(9))[..], [5, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(client(9)[..], [6, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(device(DeviceId([8; 16]))[..3], [7, 8, 8]);
        assert_eq!(data_server(DataServerId(2))[..], [8, 0, 0, 0, 2]);
        assert_eq!(xattr_names(InodeNo(9))[..], [9, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(data(InodeNo(9), 1)[..], [11, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(run(9)[..], [0, 3, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(reserved(InodeNo(9))[..], [12, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(xattr_value(InodeNo(9), b"ab")[..], [10, 0, 0, 0, 0, 0, 0, 0, 9, b'a', b'b']);
    }

    #[test]
    fn numbers_come_back_from_keys_and_from_nothing_else() {
        // Parsing is exact in length: a longer or shorter key has no number.
        assert_eq!(number_of(&inode(InodeNo(77))), Some(77));
        assert_eq!(cookie_of(&order(InodeNo(5), 78)), Some(78));
        assert_eq!(number_of(&order(InodeNo(5), 78)), None);
        assert_eq!(run_of(&run(79)), Some(79));
        assert_eq!(cookie_of(b""), None);
    }
}
