//! An answer that may depend on what is not durable yet.

use crate::types::Lsn;

/// An answer, and the LSN that must be durable before anything that follows from the answer may
/// be told to a client: see [`super::Volume::confirm`] and [`Seen::unconfirmed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an answer must not be sent before its lsn is durable"]
pub struct Seen<T> {
    /// The answer itself; see [`Seen::unconfirmed`].
    pub value: T,
    /// Greatest LSN it depends on; 0 if only on what is durable.
    pub lsn: Lsn,
}

impl<T> Seen<T> {
    /// The answer, without a wait for its LSN. Right in three cases only:
    ///
    /// - No client learns anything from it: checks, reports, the decision what to do next in the
    ///   background.
    /// - What follows from it is a mutation of the same volume, whose own LSN is greater and is
    ///   waited for.
    /// - The LSN was taken before, for a reply that waits for it.
    pub fn unconfirmed(self) -> T {
        self.value
    }
}
