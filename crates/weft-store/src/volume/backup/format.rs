//! The bytes of a backup file: its header, the frames of its blocks, and its checksums.

use bytes::{BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest, checksum};

use super::error::BackupError;
use crate::types::{Lsn, Timestamp};
use crate::volume::Identity;
use crate::volume::codec;

/// What every backup file begins with.
pub(super) const MAGIC: [u8; 8] = *b"weftbkup";
/// Version of the file.
pub(super) const VERSION: u32 = 1;
/// Bytes of the header before the volume's identity.
pub(super) const HEADER_FIXED_BYTES: usize = 36;
/// Longest record of a volume's identity that is believed, bytes.
const IDENTITY_BYTES_MAX: u32 = 4096;
/// Bytes before the payload of a block.
pub(super) const FRAME_BYTES: usize = 20;
/// Bytes of a checksum behind a header or a block.
pub(super) const CRC_BYTES: usize = 4;
/// Bytes of the payload of the end.
pub(super) const END_BYTES: usize = 32;
/// A block is written out when its records have so many bytes.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Longest payload of a block that is written or believed; one record always fits.
pub(super) const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Bytes before the key of a record.
pub(super) const RECORD_BYTES: usize = 6;

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHeader {
    /// The volume's identity, as it stands in the volume.
    pub(super) identity: Bytes,
    /// The last mutation that is in it.
    pub lsn: Lsn,
    /// When it was made.
    pub time: Timestamp,
}

impl BackupHeader {
    /// What the volume is.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if it is none that is known here.
    pub fn identity(&self) -> Result<Identity, BackupError> {
        codec::decode_identity(&self.identity)
            .map_err(|_| BackupError::Damaged { at: 0, what: "the volume's identity" })
    }

    /// The version of its layout of keys, which all else may depend on.
    pub(super) fn volume_format(&self) -> Result<u32, BackupError> {
        codec::decode_format(&self.identity)
            .map_err(|_| BackupError::Damaged { at: 0, what: "the volume's identity" })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.put_slice(&MAGIC);
        out.put_u32(VERSION);
        out.put_u64(self.lsn.0);
        out.put_i64(self.time.seconds);
        out.put_u32(self.time.nanos);
        out.put_u32(u32::try_from(self.identity.len()).unwrap_or(u32::MAX));
        out.put_slice(&self.identity);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// How many bytes follow the fixed ones, the checksum included.
    pub(super) fn rest_bytes(fixed: &[u8; HEADER_FIXED_BYTES]) -> Result<usize, BackupError> {
        if fixed[..8] != MAGIC {
            return Err(BackupError::Foreign);
        }
        let found = u32_at(fixed, 8);
        if found != VERSION {
            return Err(BackupError::Version { found, known: VERSION });
        }
        match u32_at(fixed, 32) {
            bytes @ ..=IDENTITY_BYTES_MAX => Ok(bytes as usize + CRC_BYTES),
            _ => Err(BackupError::Damaged { at: 0, what: "its header" }),
        }
    }

    /// Reads a whole header, checksum included.
    pub(super) fn decode(raw: &[u8]) -> Result<Self, BackupError> {
        let damaged = BackupError::Damaged { at: 0, what: "its header" };
        let Some((body, crc)) = raw.split_last_chunk::<CRC_BYTES>() else { return Err(damaged) };
        let Some(identity) = body.get(HEADER_FIXED_BYTES..) else { return Err(damaged) };
        let time = Timestamp { seconds: i64_at(body, 20), nanos: u32_at(body, 28) };
        if u32::from_be_bytes(*crc) != crc32c(body) || !time.is_valid() {
            return Err(damaged);
        }
        let identity = Bytes::copy_from_slice(identity);
        Ok(Self { identity, lsn: Lsn(u64_at(body, 12)), time })
    }
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Records of the volume.
    Records,
    /// The end of the file.
    End,
}

impl Tag {
    const fn bytes(self) -> [u8; 4] {
        match self {
            Tag::Records => *b"RECS",
            Tag::End => *b"DONE",
        }
    }
}

/// What stands before the payload of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) tag: Tag,
    pub(super) payload_bytes: u32,
    pub(super) records: u32,
    /// Place of the block in the file, from 0.
    pub(super) index: u64,
}

impl Frame {
    pub(super) fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..4].copy_from_slice(&self.tag.bytes());
        out[4..8].copy_from_slice(&self.payload_bytes.to_be_bytes());
        out[8..12].copy_from_slice(&self.records.to_be_bytes());
        out[12..].copy_from_slice(&self.index.to_be_bytes());
        out
    }

    /// The frame of block `index`; `None` if these bytes are not.
    pub(super) fn decode(raw: &[u8; FRAME_BYTES], index: u64) -> Option<Self> {
        let tag = [Tag::Records, Tag::End].into_iter().find(|tag| raw[..4] == tag.bytes())?;
        let frame = Self {
            tag,
            payload_bytes: u32_at(raw, 4),
            records: u32_at(raw, 8),
            index: u64_at(raw, 12),
        };
        let longest = match tag {
            Tag::Records => frame.payload_bytes as usize <= BLOCK_BYTES_MAX,
            Tag::End => frame.payload_bytes as usize == END_BYTES && frame.records == 0,
        };
        (longest && frame.index == index).then_some(frame)
    }
}

/// The payload of the last block: what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) records: u64,
    pub(super) inodes: u64,
    /// Bytes of the file before the last block, and their checksum.
    pub(super) bytes: u64,
    pub(super) checksum: u64,
}

impl End {
    pub(super) fn encode(&self) -> [u8; END_BYTES] {
        let mut out = [0; END_BYTES];
        let fields = [self.records, self.inodes, self.bytes, self.checksum];
        for (at, field) in out.chunks_exact_mut(8).zip(fields) {
            at.copy_from_slice(&field.to_be_bytes());
        }
        out
    }
}

/// CRC-32C of a block or a header; the library returns every width in a `u64`.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    (checksum(CrcAlgorithm::Crc32Iscsi, bytes) & u64::from(u32::MAX)) as u32
}

/// The checksum of the whole file.
pub(super) fn whole() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

fn u32_at(raw: &[u8], at: usize) -> u32 {
    raw.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn i64_at(raw: &[u8], at: usize) -> i64 {
    raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, i64::from_be_bytes)
}
