//! What servers say of data that they may lose.

use weft_nfs::Verifier;

use super::server_queues::Target;

/// A confirmation that a piece written UNSTABLE waits for. A piece has one for each server that has
/// yet to confirm it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The server that is asked to COMMIT it: the one that was written to, or the metadata server
    /// (RFC 8881 §13.7).
    pub(super) target: Target,
    /// The verifier that its WRITE told, which COMMIT is to tell too.
    pub(super) verifier: Verifier,
}
