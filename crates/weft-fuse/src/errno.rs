//! The client library's errors as the kernel has them.

use fuser::Errno;
use weft_client::ClientError;
use weft_nfs::NfsStat;

/// What a program is told of a failure. What no number says is in the log.
pub fn errno(error: &ClientError) -> Errno {
    match error {
        ClientError::Nfs { status, .. } => of_status(*status),
        ClientError::NotServed { .. } => Errno::EACCES,
        ClientError::Invalid(_) => Errno::EINVAL,
        ClientError::SymlinkLoop => Errno::ELOOP,
        ClientError::FileTooLong => Errno::EFBIG,
        ClientError::ListNotKept(_) => Errno::EACCES,
        ClientError::OpenLost => Errno::ESTALE,
        ClientError::Rpc(_)
        | ClientError::Unreachable { .. }
        | ClientError::OutcomeUnknown { .. }
        | ClientError::Protocol(_)
        | ClientError::Decode(_)
        | ClientError::Layout(_)
        | ClientError::Closed
        | ClientError::Local(_)
        | ClientError::NotCommitted => {
            tracing::warn!("input/output error: {error}");
            Errno::EIO
        }
    }
}

/// RFC 8881 §15.1, with the numbers that a local file system would give.
fn of_status(status: NfsStat) -> Errno {
    match status {
        NfsStat::PERM => Errno::EPERM,
        NfsStat::NOENT => Errno::ENOENT,
        NfsStat::NXIO => Errno::ENXIO,
        NfsStat::ACCESS | NfsStat::WRONGSEC => Errno::EACCES,
        NfsStat::EXIST => Errno::EEXIST,
        NfsStat::XDEV => Errno::EXDEV,
        NfsStat::NOTDIR => Errno::ENOTDIR,
        NfsStat::ISDIR => Errno::EISDIR,
        NfsStat::INVAL | NfsStat::BADNAME | NfsStat::BADCHAR | NfsStat::WRONG_TYPE => Errno::EINVAL,
        NfsStat::FBIG => Errno::EFBIG,
        NfsStat::NOSPC => Errno::ENOSPC,
        NfsStat::ROFS => Errno::EROFS,
        NfsStat::MLINK => Errno::EMLINK,
        NfsStat::NAMETOOLONG => Errno::ENAMETOOLONG,
        NfsStat::NOTEMPTY => Errno::ENOTEMPTY,
        NfsStat::DQUOT => Errno::EDQUOT,
        NfsStat::STALE | NfsStat::FHEXPIRED | NfsStat::BADHANDLE => Errno::ESTALE,
        NfsStat::SYMLINK => Errno::ELOOP,
        NfsStat::NOTSUPP | NfsStat::ATTRNOTSUPP | NfsStat::UNION_NOTSUPP => Errno::EOPNOTSUPP,
        NfsStat::DENIED | NfsStat::LOCKED | NfsStat::SHARE_DENIED => Errno::EAGAIN,
        NfsStat::FILE_OPEN => Errno::EBUSY,
        NfsStat::DEADLOCK => Errno::EDEADLK,
        NfsStat::LOCKS_HELD => Errno::EBUSY,
        NfsStat::OPENMODE => Errno::EBADF,
        NfsStat::NOXATTR => Errno::ENODATA,
        NfsStat::XATTR2BIG => Errno::E2BIG,
        NfsStat::TOOSMALL => Errno::EINVAL,
        other => {
            tracing::warn!("input/output error: {other}");
            Errno::EIO
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::OpNum;

    use super::*;

    /// Programs read what they would read of a local file system, and an input/output error for
    /// what none has.
    #[test]
    fn numbers_of_failures() {
        let said = |status| errno(&ClientError::Nfs { op: OpNum::OPEN, status });
        assert_eq!(said(NfsStat::NOENT).code(), Errno::ENOENT.code());
        assert_eq!(said(NfsStat::NOTEMPTY).code(), Errno::ENOTEMPTY.code());
        assert_eq!(said(NfsStat::SERVERFAULT).code(), Errno::EIO.code());
        assert_eq!(errno(&ClientError::OpenLost).code(), Errno::ESTALE.code());
    }
}
