//! An operation of its own on each of many files, as many files in a COMPOUND as the session takes.

use weft_nfs::{FileHandle, OpArgs, OpNum, OpOk, ops::PutfhArgs};

use super::{
    compound::{FailedOp, is_later},
    shell::Session,
};
use crate::{error::ClientError, limits};

/// States that the server keeps, as far as is known: how many, and why the last one.
#[derive(Default)]
pub(crate) struct Kept(usize, Option<ClientError>);

impl Kept {
    pub(crate) fn note(&mut self, why: ClientError) {
        self.0 += 1;
        self.1 = Some(why);
    }

    /// Says so, once for all of them.
    pub(crate) fn warn(self, what: &str) {
        if let Kept(count, Some(why)) = self {
            tracing::warn!(count, "{what}: {why}");
        }
    }
}

impl Session {
    /// Runs PUTFH and an operation on each file; what came of it, in their order. One that is
    /// refused, or that the server has no time for yet, does not keep the others waiting longer
    /// than it takes to ask again.
    ///
    /// For operations that end a state (CLOSE, DELEGRETURN): where it is unknown whether they were
    /// executed they are sent again, and one that was finds its stateid gone.
    pub(crate) async fn on_each_file(
        &self,
        all: &[(FileHandle, OpArgs)],
    ) -> Vec<Result<OpOk, ClientError>> {
        let mut results = Vec::with_capacity(all.len());
        let mut doubts = 0;
        while let Some(rest) = all.get(results.len()..).filter(|rest| !rest.is_empty()) {
            let some = rest.get(..self.files_per_compound()).unwrap_or(rest);
            let ops = some
                .iter()
                .flat_map(|(fh, op)| [OpArgs::Putfh(PutfhArgs { object: fh.clone() }), op.clone()]);
            let outcome = match self.compound_outcome(ops.collect()).await {
                Ok(outcome) => outcome,
                Err(ClientError::OutcomeUnknown { .. }) if doubts < limits::DOUBTS_MAX => {
                    doubts += 1;
                    continue;
                }
                Err(e) => {
                    results.extend(rest.iter().map(|_| Err(e.clone())));
                    return results;
                }
            };
            let done = (outcome.done.len() / 2).min(some.len());
            results.extend(outcome.done.into_iter().skip(1).step_by(2).take(done).map(Ok));
            // What is put off is the first of the next COMPOUND, and waited for there.
            let put_off = |status| done > 0 && is_later(status);
            match outcome.failed {
                Some(failed) if put_off(failed.failure.status) => {}
                Some(FailedOp { op, failure }) => {
                    results.push(Err(ClientError::Nfs { op, status: failure.status }));
                }
                // All of them; without any the server says nothing.
                None if done > 0 => {}
                None => results.push(Err(ClientError::unexpected(OpNum::PUTFH))),
            }
        }
        results
    }

    /// Of how many files a COMPOUND may speak: two operations each, beside SEQUENCE.
    fn files_per_compound(&self) -> usize {
        (self.ops_max() as usize).saturating_sub(1).max(2) / 2
    }
}
