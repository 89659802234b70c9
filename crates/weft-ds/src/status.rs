//! The object store's errors as NFS statuses, chosen by what Linux does with each
//! (`filelayout_async_handle_error`).

use weft_nfs::NfsStat;
use weft_store::objects::ObjectError;

/// The status of an object store's error. Exhaustive on purpose.
pub(crate) fn object_status(error: &ObjectError) -> NfsStat {
    match error {
        // The client drops its layout and asks for a new one; this I/O goes to the MDS.
        ObjectError::Stale { .. } => NfsStat::PNFS_NO_LAYOUT,
        ObjectError::NoSpace => NfsStat::NOSPC,
        ObjectError::TooBig => NfsStat::FBIG,
        ObjectError::Unsupported { .. } => NfsStat::NOTSUPP,
        ObjectError::Unaligned => NfsStat::INVAL,
        // The client goes around this data server for two minutes: what a bad disk deserves.
        ObjectError::Io { .. } | ObjectError::SyncLost => complain(error, NfsStat::IO),
        ObjectError::Poisoned | ObjectError::Corrupt(_) => complain(error, NfsStat::IO),
        // The handle is of another volume, or of a state of its own that was given up.
        ObjectError::UnknownVolume => NfsStat::STALE,
        ObjectError::InUse
        | ObjectError::OtherVersion
        | ObjectError::NotOurs
        | ObjectError::NoRandom => complain(error, NfsStat::SERVERFAULT),
    }
}

fn complain(error: &ObjectError, status: NfsStat) -> NfsStat {
    tracing::error!(%error, "object store");
    status
}
