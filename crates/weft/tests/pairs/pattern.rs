//! Bytes that tell which write they came from, and checksums of files, as `tests/guest/hand.c` and
//! `tests/pairs/hand.py` have them.

use std::sync::LazyLock;

use crc_fast::CrcAlgorithm::Crc32IsoHdlc;

/// Bytes of a checksum.
pub const BLOCK: usize = 65536;
/// Bytes after which a pattern repeats: a prime, so that no block of any size does.
const PERIOD: usize = 1_048_573;

static BASE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..PERIOD).map(next).collect()
});

/// The first bytes of the pattern of a seed.
pub fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len as usize);
    let mut from = (seed.wrapping_mul(7919) % PERIOD as u64) as usize;
    while bytes.len() < len as usize {
        let some = (PERIOD - from).min(len as usize - bytes.len());
        bytes.extend_from_slice(&BASE[from..from + some]);
        from = 0;
    }
    bytes
}

/// The checksum of some bytes.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32IsoHdlc, bytes) as u32
}

/// The checksum of each block.
pub fn crcs(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(BLOCK).map(crc).collect()
}
