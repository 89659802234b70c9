//! From a refusal of the state machines to a failure on the wire.

use weft_nfs::Failure;
use weft_state::Refusal;

/// A refusal of the state machines as the wire's failure; the reason goes to the log.
pub fn refused(refusal: Refusal) -> Failure {
    tracing::debug!(status = %refusal.status, because = %refusal.because, "refused");
    Failure { status: refusal.status, body: refusal.body }
}
