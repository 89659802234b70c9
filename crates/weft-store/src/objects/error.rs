//! What can go wrong in an object store.

use rustix::io::Errno;

/// Why a call of the object store failed. Cheap to copy: every call that waited for a failed sync
/// gets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The epoch is older than the object's fence, or the object was removed.
    #[error("fenced at epoch {current}")]
    Stale {
        /// The smallest epoch accepted; [`super::REMOVED`] for a removed object.
        current: u32,
    },
    /// The file system is full, or a quota is.
    #[error("no space left")]
    NoSpace,
    /// The range ends beyond what a local file can hold.
    #[error("object would be too big")]
    TooBig,
    /// The disk, or the file system on it, failed.
    #[error("cannot {doing}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The operating system's error number; that of an input/output error if it gave none.
        errno: i32,
    },
    /// The file system below cannot do that.
    #[error("the file system cannot {doing}")]
    Unsupported {
        /// What was attempted.
        doing: &'static str,
    },
    /// The file system below can share whole blocks only.
    #[error("not whole blocks")]
    Unaligned,
    /// A sync failed while this write waited for its own.
    #[error("a sync failed while this data was unstable")]
    SyncLost,
    /// An earlier failure left the fence log in an unknown state: reopen the store.
    #[error("the fence log failed earlier; the store must be reopened")]
    Poisoned,
    /// Another process has the directory open.
    #[error("another process has the directory open")]
    InUse,
    /// It is the directory of a metadata server.
    #[error(
        "this is the directory of a metadata server: check `dir`, and that this is the \
         configuration of a data server"
    )]
    NotOurs,
    /// Another version of the program made the directory.
    #[error(
        "the directory has another version than this program's: use the version of weft that \
         made it"
    )]
    OtherVersion,
    /// The object is of a volume that is not served here.
    #[error("the volume is not served here")]
    UnknownVolume,
    /// Something that was durable is damaged.
    #[error(
        "damaged: {0}. Was it copied as a whole? Put a whole one back; if there is none, see \
         `weft accept-loss`"
    )]
    Corrupt(&'static str),
    /// The operating system gave no random numbers.
    #[error("no random numbers")]
    NoRandom,
}

/// Turns an operating-system error into ours, saying what was attempted.
pub(super) fn io<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> ObjectError {
    move |e| {
        let errno = errno(&e.into());
        match errno {
            Errno::NOSPC | Errno::DQUOT => ObjectError::NoSpace,
            Errno::FBIG => ObjectError::TooBig,
            Errno::OPNOTSUPP => ObjectError::Unsupported { doing },
            _ => ObjectError::Io { doing, errno: errno.raw_os_error() },
        }
    }
}

/// What the system said; a file that ended too soon, say, has no number of its own.
pub(super) fn errno(e: &std::io::Error) -> Errno {
    e.raw_os_error().filter(|n| *n > 0).map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a number of the system's keeps it; one without is a failure of the disk.
    #[test]
    fn every_error_has_a_number() {
        let ended = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let failed = |e: std::io::Error| io("read")(e);
        let of = |errno: Errno| ObjectError::Io { doing: "read", errno: errno.raw_os_error() };
        assert_eq!(failed(ended), of(Errno::IO));
        assert_eq!(failed(std::io::Error::from_raw_os_error(0)), of(Errno::IO));
        assert_eq!(failed(Errno::ROFS.into()), of(Errno::ROFS));
        assert_eq!(failed(Errno::DQUOT.into()), ObjectError::NoSpace);
    }
}
