//! What servers say of data that they may lose.

use weft_nfs::Verifier;

use super::server_queues::Target;

/// What was said of a piece that was written UNSTABLE. A piece has one mark for each target that has
/// yet to confirm it: it waits for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// Who is asked to COMMIT it: whoever was written to, or the metadata server (RFC 8881 §13.7).
    pub(super) target: Target,
    /// To be confirmed by that.
    pub(super) verifier: Verifier,
}
