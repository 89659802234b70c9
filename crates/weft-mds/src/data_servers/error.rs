//! What can go wrong between the metadata server and a data server.

use std::sync::Arc;

use weft_client::ClientError;
use weft_control::codec::ControlStatus;
use weft_nfs::NfsStat;
use weft_store::types::DataServerId;

use crate::{control_link::ControlError, striped::Striped};

/// Why a data server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataServerError {
    /// It cannot be reached, or does not answer; what was asked may or may not be done.
    #[error("data server {} cannot be reached: {why}", id.0)]
    Unreachable {
        /// Which.
        id: DataServerId,
        /// The last failure.
        why: Arc<str>,
    },
    /// It has answered, and yet what was asked is to be asked again.
    #[error("data server {} is to be asked again: {why}", id.0)]
    Again {
        /// Which; of several the first.
        id: DataServerId,
        /// Why.
        why: Arc<str>,
    },
    /// It has no space left.
    #[error("data server {} has no space left", id.0)]
    NoSpace {
        /// Which.
        id: DataServerId,
    },
    /// Its file system has no files that reach so far.
    #[error("data server {} has no files of that size", id.0)]
    TooBig {
        /// Which.
        id: DataServerId,
    },
    /// Its disk failed.
    #[error("data server {} cannot use its disk: {why}", id.0)]
    Io {
        /// Which.
        id: DataServerId,
        /// What it said.
        why: Arc<str>,
    },
    /// The object was fenced at a higher epoch than the file had when it was looked at, or it
    /// was removed: look again.
    #[error("data server {} has fenced the object", id.0)]
    Fenced {
        /// Which.
        id: DataServerId,
    },
    /// Its file system cannot do that.
    #[error("the file system of data server {} cannot do that", id.0)]
    Unsupported {
        /// Which.
        id: DataServerId,
    },
    /// Its file system can share whole blocks only.
    #[error("data server {} shares whole blocks only", id.0)]
    Unaligned {
        /// Which.
        id: DataServerId,
    },
    /// An object of a file is gone or shorter than it was when the file settled: bytes are lost.
    #[error(
        "data server {} has lost bytes of file {object}: its object has {found} of at least \
         {expected} bytes; `weft check` names the file",
        id.0
    )]
    Lost {
        /// Which.
        id: DataServerId,
        /// The file's inode number.
        object: u64,
        /// How long its object is.
        found: u64,
        /// How long it was at least.
        expected: u64,
    },
    /// It refused for another reason: a mistake of ours, of its own, or of the configuration.
    #[error("data server {} refused: {why}", id.0)]
    Refused {
        /// Which.
        id: DataServerId,
        /// What it said.
        why: Arc<str>,
    },
}

impl DataServerError {
    /// The data servers of a file are to be asked again.
    pub(crate) fn again(file: &Striped, why: &str) -> Self {
        let id = file.data_servers.first().copied().unwrap_or(DataServerId(0));
        DataServerError::Again { id, why: why.into() }
    }

    /// Which data server it is about.
    pub fn id(&self) -> DataServerId {
        match self {
            DataServerError::Unreachable { id, .. }
            | DataServerError::Again { id, .. }
            | DataServerError::NoSpace { id }
            | DataServerError::TooBig { id }
            | DataServerError::Io { id, .. }
            | DataServerError::Fenced { id }
            | DataServerError::Unsupported { id }
            | DataServerError::Unaligned { id }
            | DataServerError::Lost { id, .. }
            | DataServerError::Refused { id, .. } => *id,
        }
    }

    pub(super) fn of_control(id: DataServerId, error: &ControlError) -> Self {
        match error {
            ControlError::Unreachable(why) => DataServerError::Unreachable { id, why: why.clone() },
            ControlError::Refused(status) => Self::of_status(id, *status),
            ControlError::Wrong(why) => DataServerError::Refused { id, why: why.clone() },
        }
    }

    pub(super) fn of_status(id: DataServerId, status: ControlStatus) -> Self {
        match status {
            ControlStatus::NO_SPACE => DataServerError::NoSpace { id },
            ControlStatus::TOO_BIG => DataServerError::TooBig { id },
            ControlStatus::STALE => DataServerError::Fenced { id },
            ControlStatus::UNSUPPORTED => DataServerError::Unsupported { id },
            ControlStatus::UNALIGNED => DataServerError::Unaligned { id },
            ControlStatus::IO => DataServerError::Io { id, why: "see its log".into() },
            // The connection was replaced; the next one is being made.
            ControlStatus::REPLACED | ControlStatus::UNBOUND => {
                DataServerError::Unreachable { id, why: "its connection was replaced".into() }
            }
            other => DataServerError::Refused { id, why: other.to_string().into() },
        }
    }

    pub(super) fn of_client(id: DataServerId, error: &ClientError) -> Self {
        let why = || error.to_string().into();
        match error {
            ClientError::Nfs { status, .. } => match *status {
                NfsStat::NOSPC | NfsStat::DQUOT => DataServerError::NoSpace { id },
                NfsStat::FBIG => DataServerError::TooBig { id },
                NfsStat::PNFS_NO_LAYOUT => DataServerError::Fenced { id },
                NfsStat::IO => DataServerError::Io { id, why: why() },
                _ => DataServerError::Refused { id, why: why() },
            },
            ClientError::Unreachable { .. }
            | ClientError::Rpc(_)
            | ClientError::OutcomeUnknown { .. }
            | ClientError::Closed => DataServerError::Unreachable { id, why: why() },
            _ => DataServerError::Refused { id, why: why() },
        }
    }
}
