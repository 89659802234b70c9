//! Reading a backup file, block by block. Nothing of a block is handed out before its checksum is
//! right; that the whole is there is known when the last one was read.

use std::io::{self, Read};

use bytes::Bytes;
use crc_fast::Digest;

use super::error::{BackupError, BackupSummary};
use super::format::{
    BackupHeader, CRC_BYTES, END_BYTES, End, FRAME_BYTES, Frame, HEADER_FIXED_BYTES, MAGIC,
    RECORD_BYTES, Tag, crc32c, whole,
};
use crate::volume::keys::{self, prefix};

/// A key and its value.
pub type Record = (Bytes, Bytes);

/// A backup file that is being read.
pub struct BackupReader<R> {
    input: R,
    header: BackupHeader,
    index: u64,
    whole: Digest,
    found: BackupSummary,
    /// The last key, which the next one is greater than.
    last: Option<Bytes>,
    done: bool,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`BackupError`]: no backup, another version, damaged or too short.
    pub fn start(mut input: R) -> Result<Self, BackupError> {
        let mut raw = vec![0; HEADER_FIXED_BYTES];
        let got = fill(&mut input, &mut raw)?;
        raw.truncate(got);
        let Some(fixed) = raw.first_chunk::<HEADER_FIXED_BYTES>() else {
            let begun = raw.iter().zip(&MAGIC).all(|(found, wanted)| found == wanted);
            let at = got as u64;
            return Err(if begun { BackupError::Truncated { at } } else { BackupError::Foreign });
        };
        raw.resize(HEADER_FIXED_BYTES + BackupHeader::rest_bytes(fixed)?, 0);
        let got = got + fill(&mut input, &mut raw[HEADER_FIXED_BYTES..])?;
        if got < raw.len() {
            return Err(BackupError::Truncated { at: got as u64 });
        }
        let header = BackupHeader::decode(&raw)?;
        let mut whole = whole();
        whole.update(&raw);
        let found = BackupSummary { bytes: raw.len() as u64, ..BackupSummary::default() };
        Ok(Self { input, header, index: 0, whole, found, last: None, done: false })
    }

    /// What the backup is of.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// The next records; `None` after the end was read and everything is as it was written.
    ///
    /// # Errors
    /// [`BackupError`], after which nothing that was read may be used.
    pub fn next_block(&mut self) -> Result<Option<Vec<Record>>, BackupError> {
        if self.done {
            return Ok(None);
        }
        let at = self.found.bytes;
        let checksum = self.whole.finalize();
        let head = self.take(FRAME_BYTES)?;
        let frame = head.first_chunk().and_then(|raw| Frame::decode(raw, self.index));
        let frame = frame.ok_or(BackupError::Damaged { at, what: "the frame of a block" })?;
        let mut block = head;
        block.extend(self.take(frame.payload_bytes as usize + CRC_BYTES)?);
        let crc = block.split_off(block.len() - CRC_BYTES);
        if crc != crc32c(&block).to_be_bytes() {
            return Err(BackupError::Damaged { at, what: "the checksum of a block is wrong" });
        }
        self.whole.update(&block);
        self.whole.update(&crc);
        self.index += 1;
        let payload = Bytes::from(block).slice(FRAME_BYTES..);
        match frame.tag {
            Tag::Records => self.records(&payload, frame.records, at).map(Some),
            Tag::End => self.end(&payload, End { checksum, bytes: at, ..self.counted() }),
        }
    }

    /// What was found; the whole backup once [`BackupReader::next_block`] has returned `None`.
    pub fn summary(&self) -> BackupSummary {
        self.found
    }

    fn counted(&self) -> End {
        End { records: self.found.records, inodes: self.found.inodes, bytes: 0, checksum: 0 }
    }

    fn end(&mut self, payload: &[u8], wanted: End) -> Result<Option<Vec<Record>>, BackupError> {
        let at = self.found.bytes;
        if payload.len() != END_BYTES || *payload != wanted.encode() {
            return Err(BackupError::Damaged { at, what: "its end counts something else" });
        }
        if fill(&mut self.input, &mut [0])? != 0 {
            return Err(BackupError::Damaged { at, what: "something follows its end" });
        }
        self.done = true;
        Ok(None)
    }

    fn records(
        &mut self,
        payload: &Bytes,
        count: u32,
        at: u64,
    ) -> Result<Vec<Record>, BackupError> {
        let damaged = |what| BackupError::Damaged { at, what };
        let mut records = Vec::new();
        let mut rest = payload.clone();
        while !rest.is_empty() {
            let (key, value) =
                split_record(&mut rest).ok_or(damaged("a record is longer than its block"))?;
            if self.last.as_ref().is_some_and(|last| key <= *last) {
                return Err(damaged("its records are not in order"));
            }
            if key == keys::IDENTITY && value != self.header.identity {
                return Err(damaged("its header is that of another volume"));
            }
            self.found.inodes += u64::from(key.first() == Some(&prefix::INODE));
            self.last = Some(key.clone());
            records.push((key, value));
        }
        if records.len() as u64 != u64::from(count) {
            return Err(damaged("a block has more or fewer records than it says"));
        }
        self.found.records += u64::from(count);
        Ok(records)
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>, BackupError> {
        let mut raw = vec![0; bytes];
        let got = fill(&mut self.input, &mut raw)?;
        self.found.bytes += got as u64;
        if got < bytes {
            return Err(BackupError::Truncated { at: self.found.bytes });
        }
        Ok(raw)
    }
}

fn split_record(rest: &mut Bytes) -> Option<Record> {
    let (key_bytes, after) = rest.split_first_chunk::<2>()?;
    let (value_bytes, _) = after.split_first_chunk::<4>()?;
    let key_bytes = usize::from(u16::from_be_bytes(*key_bytes));
    let value_bytes = u32::from_be_bytes(*value_bytes) as usize;
    if rest.len() < RECORD_BYTES + key_bytes + value_bytes {
        return None;
    }
    let mut record = rest.split_to(RECORD_BYTES + key_bytes + value_bytes).slice(RECORD_BYTES..);
    let key = record.split_to(key_bytes);
    Some((key, record))
}

/// Reads until the buffer is full or the input ends; how much was read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, BackupError> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(BackupError::Input(e)),
        }
    }
    Ok(got)
}
