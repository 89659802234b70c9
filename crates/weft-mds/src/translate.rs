//! The only place that knows both the store's words and the wire's.

use weft_nfs::{ChangeInfo, FileType, NfsStat, NfsTime};
use weft_store::types::{self, Kind, StoreError, Timestamp};

use crate::data_servers::DataServerError;

/// The status of a store error.
pub fn status(e: &StoreError) -> NfsStat {
    match e {
        StoreError::NotFound => NfsStat::NOENT,
        StoreError::Stale => NfsStat::STALE,
        StoreError::Exists => NfsStat::EXIST,
        StoreError::NotDirectory => NfsStat::NOTDIR,
        StoreError::IsDirectory => NfsStat::ISDIR,
        StoreError::NotEmpty => NfsStat::NOTEMPTY,
        StoreError::Access => NfsStat::ACCESS,
        StoreError::Permission => NfsStat::PERM,
        StoreError::NameTooLong => NfsStat::NAMETOOLONG,
        StoreError::BadName => NfsStat::BADNAME,
        StoreError::Invalid => NfsStat::INVAL,
        StoreError::TooManyLinks => NfsStat::MLINK,
        StoreError::TooBig => NfsStat::FBIG,
        StoreError::NoSpace => NfsStat::NOSPC,
        StoreError::NoXattr => NfsStat::NOXATTR,
        StoreError::XattrTooBig => NfsStat::XATTR2BIG,
        StoreError::WrongType => NfsStat::WRONG_TYPE,
        StoreError::Busy => NfsStat::FILE_OPEN,
        // What was seen to for one file is to be seen to for another.
        StoreError::Replaced => NfsStat::DELAY,
        StoreError::Moving => NfsStat::DELAY,
        // The volume is broken: IO reaches the application, and an operator must look.
        StoreError::Corrupt(_) | StoreError::Poisoned(_) | StoreError::Io(_) => NfsStat::IO,
    }
}

/// The status of a failed exchange with a data server, on the indirect path.
pub fn data_server_status(e: &DataServerError) -> NfsStat {
    match e {
        // One that is gone is reported once, by its control connection.
        DataServerError::Unreachable { .. }
        | DataServerError::Fenced { .. }
        | DataServerError::TooBig { .. }
        | DataServerError::Unsupported { .. }
        | DataServerError::Unaligned { .. } => {
            tracing::debug!(error = %e, "data server");
        }
        _ => tracing::warn!(error = %e, "data server"),
    }
    match e {
        // It may come back: the client asks again, as NFS does.
        DataServerError::Unreachable { .. } => NfsStat::DELAY,
        // The file was fenced while this was under way: asked again, it is looked at anew.
        DataServerError::Fenced { .. } => NfsStat::DELAY,
        DataServerError::NoSpace { .. } => NfsStat::NOSPC,
        DataServerError::TooBig { .. } => NfsStat::FBIG,
        DataServerError::Unsupported { .. } => NfsStat::NOTSUPP,
        DataServerError::Unaligned { .. } => NfsStat::INVAL,
        DataServerError::Refused { .. }
        | DataServerError::Io { .. }
        | DataServerError::Lost { .. } => NfsStat::IO,
    }
}

/// A file type.
pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::REG,
        Kind::Directory => FileType::DIR,
        Kind::Symlink => FileType::LNK,
        Kind::Fifo => FileType::FIFO,
        Kind::Socket => FileType::SOCK,
        Kind::CharDevice => FileType::CHR,
        Kind::BlockDevice => FileType::BLK,
    }
}

/// A time for the wire.
pub fn to_nfs_time(t: Timestamp) -> NfsTime {
    NfsTime { seconds: t.seconds, nseconds: t.nanos }
}

/// A time from the wire.
///
/// # Errors
/// INVAL when the nanoseconds are a second or more.
pub fn from_nfs_time(t: NfsTime) -> Result<Timestamp, NfsStat> {
    let t = Timestamp { seconds: t.seconds, nanos: t.nseconds };
    if t.is_valid() { Ok(t) } else { Err(NfsStat::INVAL) }
}

/// A directory's change. The executor applies one mutation at a time, so it is atomic.
pub fn change_info(c: types::ChangeInfo) -> ChangeInfo {
    ChangeInfo { atomic: true, before: c.before, after: c.after }
}
