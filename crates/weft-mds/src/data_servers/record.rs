//! What the volume knows of a data server, and the form in which it keeps that.

use weft_store::types::Run;

/// Version of the data server records in the volume.
const RECORD_VERSION: u8 = 2;
/// Bytes of such a record.
const RECORD_BYTES: usize = 49;

/// A directory's uuid.
pub(super) type Uuid = [u8; 16];

/// What the volume knows of a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Uuid of its directory.
    pub(super) uuid: Uuid,
    /// Its run when it was last bound.
    pub(super) run: Run,
    /// The age of our volume that it held durably.
    pub(super) held: u64,
}

/// The uuid in a data server's record of the volume; `None` if it is none.
pub fn recorded_uuid(record: &[u8]) -> Option<[u8; 16]> {
    decode(record).map(|record| record.uuid)
}

/// As the volume keeps it.
pub(super) fn encode(record: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_BYTES);
    out.push(RECORD_VERSION);
    out.extend_from_slice(&record.uuid);
    out.extend_from_slice(&record.run.number.to_be_bytes());
    out.extend_from_slice(&record.run.id);
    out.extend_from_slice(&record.held.to_be_bytes());
    out
}

/// What the volume keeps; `None` if it is no record.
pub(super) fn decode(record: &[u8]) -> Option<Record> {
    let raw: &[u8; RECORD_BYTES] = record.try_into().ok()?;
    let (version, rest) = raw.split_first()?;
    let (uuid, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (id, held) = rest.split_first_chunk()?;
    let run = Run { number: u64::from_be_bytes(*number), id: *id };
    let held = u64::from_be_bytes(held.try_into().ok()?);
    (*version == RECORD_VERSION).then_some(Record { uuid: *uuid, run, held })
}
