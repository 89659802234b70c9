//! What servers say of data that they may lose.

use weft_nfs::Verifier;

use super::server_queues::Target;

/// A piece that was written UNSTABLE. It has one mark for each target that has yet to confirm it,
/// and waits for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The server that is asked to COMMIT it: the one that was written to, or the metadata server
    /// (RFC 8881 §13.7).
    pub(super) target: Target,
    /// To be confirmed by that.
    pub(super) verifier: Verifier,
}
