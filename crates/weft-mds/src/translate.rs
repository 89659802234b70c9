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
        StoreError::NoAcl => NfsStat::ATTRNOTSUPP,
        StoreError::WrongType => NfsStat::WRONG_TYPE,
        StoreError::Busy => NfsStat::FILE_OPEN,
        // What was seen to for one file is to be seen to for another.
        StoreError::Replaced => NfsStat::DELAY,
        StoreError::Moving => NfsStat::DELAY,
        // The process ends and is started again: the client waits for it.
        StoreError::Poisoned(_) => NfsStat::DELAY,
        // The record is broken: IO reaches the application, and an operator must look.
        StoreError::Corrupt(_) | StoreError::Io(_) => NfsStat::IO,
    }
}

/// The status of a failed exchange with a data server, on the indirect path.
pub fn data_server_status(e: &DataServerError) -> NfsStat {
    match e {
        // One that is gone is reported once, by its control connection.
        DataServerError::Unreachable { .. }
        | DataServerError::Again { .. }
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
        DataServerError::Unreachable { .. } | DataServerError::Again { .. } => NfsStat::DELAY,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_nfs::OpNum;
    use weft_server::op_table::Row;
    use weft_store::{
        engine::MemoryEngine,
        types::InodeNo,
        volume::{Volume, VolumeConfig},
    };

    use super::*;
    use crate::testing::mds_on;

    /// While a server whose volume has stopped is about to end, clients are told to come again.
    /// That is a status of every operation that waits for the volume; IO is none of
    /// RECLAIM_COMPLETE.
    #[tokio::test]
    async fn a_stopped_volume_makes_clients_wait() {
        let engine = Arc::new(MemoryEngine::new());
        let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
        let mds = mds_on(volume.clone(), &[]).await;
        engine.fail("the disk is on fire");
        let changed = volume.client_put(1, b"somebody");
        volume.confirm(changed).await.unwrap_err();
        let why = mds.failed().await;
        assert!(matches!(&why, StoreError::Poisoned(why) if why.contains("fire")), "{why}");
        assert_eq!(status(&why), NfsStat::DELAY);
        let later = volume.inode(InodeNo::ROOT).unconfirmed().unwrap_err();
        assert_eq!(status(&later), NfsStat::DELAY);
        let reclaim_complete = Row::of(OpNum::RECLAIM_COMPLETE, 2);
        assert!(reclaim_complete.may_answer(NfsStat::DELAY));
        assert!(!reclaim_complete.may_answer(NfsStat::IO));
    }
}
