//! The client library's errors as the kernel has them.

use fuser::Errno;
use weft_client::ClientError;

/// What a program is told of a failure. What no number says is in the log.
pub fn errno(error: &ClientError) -> Errno {
    let number = Errno::from_i32(error.errno());
    if number.code() == Errno::EIO.code() {
        tracing::warn!("input/output error: {error}");
    }
    number
}

/// True of the answer on which the kernel looks a path up again.
pub fn is_stale(e: &Errno) -> bool {
    e.code() == Errno::ESTALE.code()
}

/// A call of the library, answered as the kernel wants it.
pub trait OrErrno<T> {
    /// The failure as [`errno`] has it.
    fn or_errno(self) -> Result<T, Errno>;
}

impl<T> OrErrno<T> for Result<T, ClientError> {
    fn or_errno(self) -> Result<T, Errno> {
        self.map_err(|e| errno(&e))
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::{NfsStat, OpNum};

    use super::*;

    /// Programs read what they would read of a local file system, and an input/output error for
    /// what none has.
    #[test]
    fn numbers_of_failures() {
        let said = |status| errno(&ClientError::Nfs { op: OpNum::OPEN, status });
        assert_eq!(said(NfsStat::NOENT).code(), Errno::ENOENT.code());
        assert_eq!(said(NfsStat::NOXATTR).code(), Errno::ENODATA.code());
        assert_eq!(said(NfsStat::SERVERFAULT).code(), Errno::EIO.code());
        assert_eq!(errno(&ClientError::OpenLost).code(), Errno::ESTALE.code());
    }
}
