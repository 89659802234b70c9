//! What a reply depends on: the log sequence number that must be durable before it leaves (ADR 2).

use weft_nfs::Failure;
use weft_store::{
    types::{Lsn, StoreError},
    volume::Seen,
};

use super::translate;

/// Collects the log sequence numbers of everything that an answer was derived from. Whoever sends
/// the answer waits until the greatest is durable.
#[derive(Debug, Default)]
pub struct Deps {
    lsn: Lsn,
}

impl Deps {
    /// Takes a value from the store: the reply will wait until what it was derived from is
    /// durable.
    ///
    /// # Errors
    /// The store's, as the operation's failure. That the volume is broken goes to the log.
    pub fn see<T>(&mut self, seen: Seen<Result<T, StoreError>>) -> Result<T, Failure> {
        self.depend(seen.lsn);
        seen.value.map_err(|e| {
            if matches!(e, StoreError::Corrupt(_) | StoreError::Poisoned(_) | StoreError::Io(_)) {
                tracing::error!(error = %e, "volume");
            }
            translate::status(&e).into()
        })
    }

    /// Makes the reply wait for this log sequence number.
    pub fn depend(&mut self, lsn: Lsn) {
        self.lsn = self.lsn.max(lsn);
    }

    /// The greatest log sequence number so far.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}
