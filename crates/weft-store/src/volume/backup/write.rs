//! Writing a backup file: records in, blocks out.

use std::io::Write;

use bytes::BufMut;
use crc_fast::Digest;

use super::error::{BackupError, BackupSummary};
use super::format::{
    BLOCK_BYTES, BLOCK_BYTES_MAX, BackupHeader, End, Frame, RECORD_BYTES, Tag, crc32c, whole,
};
use crate::volume::keys::prefix;

/// A backup file that is being written.
pub(super) struct BackupWriter<'a> {
    out: &'a mut dyn Write,
    /// Records of the block to come.
    block: Vec<u8>,
    block_records: u32,
    index: u64,
    whole: Digest,
    summary: BackupSummary,
}

impl<'a> BackupWriter<'a> {
    pub(super) fn start(
        out: &'a mut dyn Write,
        header: &BackupHeader,
    ) -> Result<Self, BackupError> {
        let mut writer = Self {
            out,
            block: Vec::with_capacity(BLOCK_BYTES),
            block_records: 0,
            index: 0,
            whole: whole(),
            summary: BackupSummary::default(),
        };
        writer.emit(&header.encode())?;
        Ok(writer)
    }

    /// Adds a record; they come in key order.
    pub(super) fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), BackupError> {
        let sizes = (u16::try_from(key.len()), u32::try_from(value.len()));
        let (Ok(key_bytes), Ok(value_bytes)) = sizes else { return Err(too_large()) };
        if RECORD_BYTES + key.len() + value.len() > BLOCK_BYTES_MAX - BLOCK_BYTES {
            return Err(too_large());
        }
        self.block.put_u16(key_bytes);
        self.block.put_u32(value_bytes);
        self.block.put_slice(key);
        self.block.put_slice(value);
        self.block_records += 1;
        self.summary.records += 1;
        self.summary.inodes += u64::from(key.first() == Some(&prefix::INODE));
        if self.block.len() >= BLOCK_BYTES { self.flush_block() } else { Ok(()) }
    }

    /// Writes the end.
    pub(super) fn finish(mut self) -> Result<BackupSummary, BackupError> {
        if self.block_records > 0 {
            self.flush_block()?;
        }
        let BackupSummary { records, inodes, bytes } = self.summary;
        let end = End { records, inodes, bytes, checksum: self.whole.finalize() };
        self.block(Tag::End, 0, &end.encode())?;
        self.out.flush().map_err(BackupError::Output)?;
        Ok(self.summary)
    }

    fn flush_block(&mut self) -> Result<(), BackupError> {
        let mut payload = std::mem::take(&mut self.block);
        let records = std::mem::take(&mut self.block_records);
        self.block(Tag::Records, records, &payload)?;
        payload.clear();
        self.block = payload;
        Ok(())
    }

    fn block(&mut self, tag: Tag, records: u32, payload: &[u8]) -> Result<(), BackupError> {
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| too_large())?;
        let frame = Frame { tag, payload_bytes, records, index: self.index };
        let mut block = Vec::with_capacity(payload.len() + 24);
        block.put_slice(&frame.encode());
        block.put_slice(payload);
        let crc = crc32c(&block);
        block.put_u32(crc);
        self.index += 1;
        self.emit(&block)
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.out.write_all(bytes).map_err(BackupError::Output)?;
        self.whole.update(bytes);
        self.summary.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn too_large() -> BackupError {
    BackupError::Store("a record is too large for a backup".into())
}
