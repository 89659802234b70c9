//! Failures as the operating system's own: for programs that know files by `errno`.

use std::io;

use rustix::io::Errno;
use weft_nfs::NfsStat;

use crate::{error::ClientError, fs::FsError};

/// Statuses that say what a local file system would say.
const OF_STATUS: [(NfsStat, Errno); 38] = [
    (NfsStat::PERM, Errno::PERM),
    (NfsStat::NOENT, Errno::NOENT),
    (NfsStat::IO, Errno::IO),
    (NfsStat::NXIO, Errno::NXIO),
    (NfsStat::ACCESS, Errno::ACCESS),
    (NfsStat::EXIST, Errno::EXIST),
    (NfsStat::XDEV, Errno::XDEV),
    (NfsStat::NOTDIR, Errno::NOTDIR),
    (NfsStat::ISDIR, Errno::ISDIR),
    (NfsStat::INVAL, Errno::INVAL),
    (NfsStat::FBIG, Errno::FBIG),
    (NfsStat::NOSPC, Errno::NOSPC),
    (NfsStat::ROFS, Errno::ROFS),
    (NfsStat::MLINK, Errno::MLINK),
    (NfsStat::NAMETOOLONG, Errno::NAMETOOLONG),
    (NfsStat::NOTEMPTY, Errno::NOTEMPTY),
    (NfsStat::DQUOT, Errno::DQUOT),
    (NfsStat::STALE, Errno::STALE),
    (NfsStat::BADNAME, Errno::INVAL),
    (NfsStat::BADCHAR, Errno::ILSEQ),
    (NfsStat::SYMLINK, Errno::LOOP),
    (NfsStat::NOTSUPP, Errno::OPNOTSUPP),
    (NfsStat::LOCKED, Errno::AGAIN),
    (NfsStat::SHARE_DENIED, Errno::BUSY),
    (NfsStat::FILE_OPEN, Errno::BUSY),
    (NfsStat::DENIED, Errno::AGAIN),
    (NfsStat::DEADLOCK, Errno::DEADLK),
    (NfsStat::LOCKS_HELD, Errno::BUSY),
    (NfsStat::OPENMODE, Errno::BADF),
    (NfsStat::WRONGSEC, Errno::ACCESS),
    (NfsStat::WRONG_TYPE, Errno::INVAL),
    (NfsStat::TOOSMALL, Errno::INVAL),
    (NfsStat::FHEXPIRED, Errno::STALE),
    (NfsStat::BADHANDLE, Errno::STALE),
    (NfsStat::ATTRNOTSUPP, Errno::OPNOTSUPP),
    (NfsStat::UNION_NOTSUPP, Errno::OPNOTSUPP),
    (NfsStat::NOXATTR, Errno::NODATA),
    (NfsStat::XATTR2BIG, Errno::TOOBIG),
];

impl ClientError {
    /// The `errno` that a local file system would have failed with; EIO if none fits.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            ClientError::Nfs { status, .. } => {
                OF_STATUS.iter().find(|(s, _)| s == status).map_or(Errno::IO, |(_, errno)| *errno)
            }
            ClientError::Unreachable { .. }
            | ClientError::NoSuchHost { .. }
            | ClientError::NoAddressAnswers { .. } => Errno::HOSTUNREACH,
            ClientError::NotServed { .. } => Errno::ACCESS,
            ClientError::SymlinkLoop => Errno::LOOP,
            ClientError::FileTooLong => Errno::FBIG,
            ClientError::Invalid(_) => Errno::INVAL,
            ClientError::Closed | ClientError::Forked(_) => Errno::BADF,
            ClientError::WouldStopRuntime => Errno::DEADLK,
            ClientError::Interrupted => Errno::INTR,
            ClientError::Local(e) => e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
            ClientError::Rpc(_)
            | ClientError::OutcomeUnknown { .. }
            | ClientError::Protocol(_)
            | ClientError::Decode(_)
            | ClientError::Layout(_)
            | ClientError::NotCommitted => Errno::IO,
            ClientError::OpenLost => Errno::STALE,
            ClientError::ListNotKept(_) => Errno::ACCESS,
        };
        errno.raw_os_error()
    }
}

impl From<FsError> for io::Error {
    /// Of the kind that a local file would have failed with; the path and the words stay.
    fn from(e: FsError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(e.error.errno()).kind(), e)
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::OpNum;

    use super::*;

    /// A missing file is a missing file to whoever knows `io::Error` only, and its path is told.
    #[test]
    fn kinds_are_those_of_local_files() {
        let missing = ClientError::Nfs { op: OpNum::LOOKUP, status: NfsStat::NOENT };
        let e = io::Error::from(FsError { path: "/gone".into(), error: missing });
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
        assert!(e.to_string().contains("/gone"), "{e}");
        let full = ClientError::Nfs { op: OpNum::WRITE, status: NfsStat::NOSPC };
        assert_eq!(full.errno(), Errno::NOSPC.raw_os_error());
        let unknown = ClientError::Nfs { op: OpNum::WRITE, status: NfsStat(99_999) };
        assert_eq!(unknown.errno(), Errno::IO.raw_os_error());
    }
}
