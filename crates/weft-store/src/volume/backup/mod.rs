//! A copy of a volume in one file, written while the volume serves (`docs/formats.md`, "Backup
//! file"; `docs/backup.md`): all records as of one mutation, in key order, in blocks with
//! checksums, and an end without which it is no backup.

mod error;
mod format;
mod read;
mod restore;
mod restored;
#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::ops::ControlFlow;

use bytes::Bytes;

pub use self::error::{BackupError, BackupSummary};
pub use self::format::BackupHeader;
pub use self::read::{BackupReader, Record};
pub use self::restore::{Restore, RestoreReport, restore};
pub use self::restored::Restored;

use super::codec;
use super::handle::Volume;
use super::keys;
use crate::engine::{KeyRange, Snapshot};
use crate::types::Timestamp;

/// The volume as it was after one mutation, to be written out while it goes on.
pub struct Backup {
    snapshot: Box<dyn Snapshot>,
    header: BackupHeader,
}

impl Volume {
    /// The volume as it is now, as far as it is durable: everything that was confirmed to anybody
    /// is in it. `now` is only noted.
    ///
    /// **Cost.** Commits wait while the engine takes a snapshot. What is replaced until the backup
    /// is written (or dropped) keeps its place on the disk.
    ///
    /// # Errors
    /// The volume has stopped, or its engine cannot be read.
    pub fn backup(&self, now: Timestamp) -> Result<Backup, BackupError> {
        let snapshot = self.snapshot()?;
        let header = BackupHeader {
            identity: required(&*snapshot, keys::IDENTITY)?,
            lsn: codec::decode_progress(&required(&*snapshot, keys::PROGRESS)?)?.lsn,
            time: now,
        };
        Ok(Backup { snapshot, header })
    }
}

impl Backup {
    /// What the backup is of.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Writes the backup out, in pieces of some hundred KiB.
    ///
    /// # Errors
    /// [`BackupError::Output`] of `out`; [`BackupError::Store`].
    pub fn write(self, out: &mut dyn io::Write) -> Result<BackupSummary, BackupError> {
        let mut writer = write::BackupWriter::start(out, &self.header)?;
        let mut failure = None;
        let everything = KeyRange { from: b"", until: None };
        self.snapshot.scan(everything, &mut |key, value| match writer.record(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failure = Some(e);
                ControlFlow::Break(())
            }
        })?;
        match failure {
            Some(e) => Err(e),
            None => writer.finish(),
        }
    }
}

/// The value of one key of a snapshot that every volume has.
fn required(snapshot: &dyn Snapshot, key: &[u8]) -> Result<Bytes, BackupError> {
    let mut found = None;
    snapshot.scan(KeyRange { from: key, until: None }, &mut |at, value| {
        if at == key {
            found = Some(Bytes::copy_from_slice(value));
        }
        ControlFlow::Break(())
    })?;
    found.ok_or_else(|| BackupError::Store("the volume has no identity or progress".into()))
}
