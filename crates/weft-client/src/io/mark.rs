//! What servers say of data that they may lose.

use weft_nfs::Verifier;

use super::server_queues::Target;

/// What a target has said of a piece that was written UNSTABLE. A piece has one mark for each
/// target that has yet to confirm it: it waits for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) target: Target,
    /// To be confirmed by its COMMIT.
    pub(super) verifier: Verifier,
}
