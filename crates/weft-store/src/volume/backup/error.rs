//! What comes of writing and reading a backup.

use std::io;

use crate::engine::EngineError;
use crate::types::StoreError;

/// What a whole backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// Records of the volume.
    pub records: u64,
    /// Inodes among them.
    pub inodes: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Why a backup could not be written, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It does not begin as a backup does.
    #[error("it is not a backup of a volume (`weft backup` writes one)")]
    Foreign,
    /// Another program wrote it.
    #[error("it is a backup of version {found}; this program reads version {known}")]
    Version {
        /// Its version.
        found: u32,
        /// The version that is known here.
        known: u32,
    },
    /// It is of a volume that this program cannot open.
    #[error("it has a volume of format {found}; this program knows {known}")]
    VolumeFormat {
        /// The format of its volume.
        found: u32,
        /// The format that is known here.
        known: u32,
    },
    /// It ends too early.
    #[error("it ends after {at} bytes, before its end: only a part of it was copied or written")]
    Truncated {
        /// Bytes that are there.
        at: u64,
    },
    /// Its bytes are not those that were written.
    #[error("it is damaged near byte {at}: {what}; take another copy of it")]
    Damaged {
        /// Where, in bytes from its start.
        at: u64,
        /// What cannot be right.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Input(io::Error),
    /// It cannot be written.
    #[error("it cannot be written: {0}")]
    Output(io::Error),
    /// The directory that it was to be restored to cannot be used.
    #[error("{0}")]
    Directory(String),
    /// The volume's store failed.
    #[error("the volume's store: {0}")]
    Store(String),
}

impl From<EngineError> for BackupError {
    fn from(error: EngineError) -> Self {
        BackupError::Store(error.to_string())
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        BackupError::Store(error.to_string())
    }
}
