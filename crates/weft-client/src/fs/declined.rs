//! Copies that a server was found not to make itself: it is asked no more.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_nfs::{NfsStat, OpNum};

use crate::error::ClientError;

/// What a server does not do.
#[derive(Debug, Default)]
pub(super) struct Declined {
    clone: AtomicBool,
    copy: AtomicBool,
}

impl Declined {
    /// Whether it is no use to ask for CLONE.
    pub(super) fn clones(&self) -> bool {
        self.clone.load(Ordering::Relaxed)
    }

    /// Whether it is no use to ask for COPY.
    pub(super) fn copies(&self) -> bool {
        self.copy.load(Ordering::Relaxed)
    }

    /// Hears of a failure.
    pub(super) fn hear(&self, e: &ClientError) {
        match e {
            ClientError::Nfs { op: OpNum::CLONE, status } if is_never(*status) => {
                self.clone.store(true, Ordering::Relaxed);
            }
            ClientError::Nfs { op: OpNum::COPY, status } if is_never(*status) => {
                self.copy.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Whether a server says by this that it does not copy a file itself: the bytes have to go through
/// the client.
pub fn is_copy_declined(e: &ClientError) -> bool {
    let ClientError::Nfs { op: OpNum::COPY, status } = e else { return false };
    // The last two are about these files (RFC 7862 §11.1.3): others may be copied.
    is_never(*status) || matches!(*status, NfsStat::OFFLOAD_DENIED | NfsStat::XDEV)
}

/// Of an operation that the server does not have, or has for nobody.
fn is_never(status: NfsStat) -> bool {
    matches!(status, NfsStat::NOTSUPP | NfsStat::OP_ILLEGAL | NfsStat::OFFLOAD_NO_REQS)
}
