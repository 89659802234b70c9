//! One COMPOUND from slot to answer.

use std::{sync::Arc, time::Instant};

use weft_nfs::{CompoundReply, Failure, NfsStat, OpArgs, OpNum, OpOk, OpReply};
use weft_xdr::Segment;

use super::inner::Inner;
use crate::{
    core::{Backoff, SequenceFailure, Slot, first_unrepeatable},
    error::{ClientError, ProtocolError},
    rpc::{Landing, Placed, RpcError},
};

/// How far a COMPOUND came.
#[derive(Debug, Clone)]
pub struct CompoundOutcome {
    /// Results of the operations that succeeded, SEQUENCE's left out.
    pub done: Vec<OpOk>,
    /// The operation that ended it early.
    pub failed: Option<FailedOp>,
    /// How the payload of the last result landed, if it did not come with it.
    pub(crate) placed: Option<Placed>,
}

/// The operation that ended a COMPOUND.
#[derive(Debug, Clone)]
pub struct FailedOp {
    /// Which.
    pub op: OpNum,
    /// Status and body.
    pub failure: Failure,
}

impl CompoundOutcome {
    /// The results, or the failure as an error.
    ///
    /// # Errors
    /// [`ClientError::Nfs`].
    pub fn into_result(self) -> Result<Vec<OpOk>, ClientError> {
        match self.failed {
            None => Ok(self.done),
            Some(f) => Err(ClientError::Nfs { op: f.op, status: f.failure.status }),
        }
    }
}

/// How one use of a slot ended.
enum Attempt {
    /// With an answer.
    Answered(CompoundOutcome),
    /// The server had no answer to give and executed nothing, or nothing that cannot be
    /// repeated: take another slot.
    Again,
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) ops: Vec<OpArgs>,
    /// Where the payload of the last result may land.
    pub(super) landing: Option<Landing>,
}

impl From<Vec<OpArgs>> for Work {
    fn from(ops: Vec<OpArgs>) -> Work {
        Work { ops, landing: None }
    }
}

/// A request under way on a slot.
struct Request<'a> {
    ops: &'a [OpArgs],
    /// Why it cannot be repeated, if so.
    unrepeatable: Option<OpNum>,
    /// It was sent over a connection that then broke, so it may have been executed.
    in_doubt: bool,
}

/// What a reply says of its request.
enum Verdict {
    Done(CompoundOutcome),
    /// Send the same again after a wait.
    Resend,
    /// Send the same again, the session being bound first.
    Rebind,
    /// The slot is out of use; see the request's doubts.
    SlotLost,
    /// The slot is fine; the reply is not kept.
    ReplyGone,
}

impl Inner {
    /// Runs a COMPOUND to its end: waits out DELAY and GRACE, survives lost connections and
    /// sessions.
    pub(super) async fn run(
        self: Arc<Self>,
        work: impl Into<Work>,
    ) -> Result<CompoundOutcome, ClientError> {
        let work = work.into();
        let ops = &work.ops;
        let unrepeatable = first_unrepeatable(ops);
        let mut backoff = Backoff::new(self.options.patience);
        loop {
            let Attempt::Answered(outcome) = self.attempt(&work, unrepeatable).await? else {
                continue;
            };
            let executed = ops.get(..outcome.done.len()).unwrap_or_default();
            let later = outcome.failed.as_ref().is_some_and(|f| is_later(f.failure.status))
                && first_unrepeatable(executed).is_none();
            match backoff.next_wait().filter(|_| later) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Ok(outcome),
            }
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        Work { ops, landing }: &Work,
        unrepeatable: Option<OpNum>,
    ) -> Result<Attempt, ClientError> {
        let slot = self.take_slot().await?;
        // A reply worth keeping is one that must not be produced twice.
        let Some(args) = self.encode_on(&slot, ops, unrepeatable.is_some()) else {
            return Ok(Attempt::Again);
        };
        let mut request = Request { ops, unrepeatable, in_doubt: false };
        let mut backoff = Backoff::new(self.options.patience);
        let mut lost_since = None;
        loop {
            let link = match self.ready_link().await {
                Ok(link) => link,
                Err(e) => {
                    self.put_slot(slot, request.in_doubt, false);
                    return Err(e);
                }
            };
            if self.core().epoch() != slot.epoch() {
                return request.session_gone();
            }
            let sent = Instant::now();
            match self.send_landing(&link, args.clone(), landing.clone()).await {
                Ok((reply, placed)) => match self.judge(&slot, reply, sent)? {
                    Verdict::Done(outcome) => {
                        self.put_slot(slot, false, true);
                        return Ok(Attempt::Answered(CompoundOutcome { placed, ..outcome }));
                    }
                    Verdict::Resend => match backoff.next_wait() {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => {
                            self.put_slot(slot, request.in_doubt, false);
                            return Err(nfs(OpNum::SEQUENCE, NfsStat::DELAY));
                        }
                    },
                    Verdict::Rebind => {}
                    Verdict::SlotLost => {
                        self.slot_freed.notify_one();
                        return request.session_gone();
                    }
                    Verdict::ReplyGone => {
                        self.put_slot(slot, false, true);
                        request.in_doubt = true;
                        return request.session_gone();
                    }
                },
                Err(e @ (RpcError::Lost(_) | RpcError::Connect { .. })) => {
                    request.in_doubt = true;
                    self.link_lost(link.number);
                    // A request that ends its connection every time must itself end: at once, or
                    // because nobody answers it.
                    let since = *lost_since.get_or_insert_with(Instant::now);
                    let wait = backoff.next_wait();
                    match wait.filter(|_| since.elapsed() < self.options.patience) {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => {
                            self.put_slot(slot, true, false);
                            let why = e.to_string().into();
                            return Err(ClientError::Unreachable { addr: self.addr, why });
                        }
                    }
                }
                Err(e @ RpcError::Source(_)) => {
                    self.put_slot(slot, request.in_doubt, false);
                    return Err(e.into());
                }
                Err(e) => {
                    // The server answered nonsense: whether it executed is anybody's guess.
                    self.put_slot(slot, true, false);
                    return Err(e.into());
                }
            }
        }
    }

    /// Waits for a free slot of a usable session.
    async fn take_slot(self: &Arc<Self>) -> Result<Slot, ClientError> {
        loop {
            let freed = self.slot_freed.notified();
            self.ready_link().await?;
            if let Some(slot) = self.core().acquire() {
                return Ok(slot);
            }
            freed.await;
        }
    }

    fn put_slot(&self, slot: Slot, in_doubt: bool, consumed: bool) {
        if in_doubt {
            self.core().poison(slot);
        } else {
            self.core().release(slot, consumed);
        }
        self.slot_freed.notify_one();
    }

    fn encode_on(&self, slot: &Slot, ops: &[OpArgs], cachethis: bool) -> Option<Vec<Segment>> {
        let sequence = self.core().sequence(slot, cachethis)?;
        let mut all = Vec::with_capacity(ops.len() + 1);
        all.push(OpArgs::Sequence(sequence));
        all.extend(ops.iter().cloned());
        Some(self.encode(&all))
    }

    fn judge(
        &self,
        slot: &Slot,
        reply: CompoundReply,
        sent: Instant,
    ) -> Result<Verdict, ClientError> {
        let mut results = reply.results.into_iter();
        match results.next() {
            Some(OpReply { result: Ok(OpOk::Sequence(ok)), .. }) => {
                if !self.core().sequenced(slot, &ok, sent) {
                    self.core().session_lost(slot.epoch(), true);
                    return Err(ProtocolError::WrongSlot.into());
                }
                Ok(Verdict::Done(outcome(results)))
            }
            Some(OpReply { op: OpNum::SEQUENCE, result: Err(f) }) => {
                let meaning = self.core().sequence_failed(slot, f.status);
                match meaning {
                    SequenceFailure::Later => Ok(Verdict::Resend),
                    SequenceFailure::Rebind => Ok(Verdict::Rebind),
                    SequenceFailure::NewSession => Ok(Verdict::SlotLost),
                    SequenceFailure::ReplyGone => Ok(Verdict::ReplyGone),
                    SequenceFailure::Refused => {
                        // Not executed, and a refused SEQUENCE leaves its slot as it was; a new
                        // session is cheaper than finding out whether this server agrees.
                        self.core().session_lost(slot.epoch(), true);
                        Err(nfs(OpNum::SEQUENCE, f.status))
                    }
                }
            }
            Some(_) => Err(ProtocolError::NoSequence.into()),
            None => {
                self.core().session_lost(slot.epoch(), true);
                Err(nfs(OpNum::SEQUENCE, reply.status))
            }
        }
    }
}

impl Request<'_> {
    /// The session is gone with the request on it: whether to try on the next one.
    fn session_gone(&self) -> Result<Attempt, ClientError> {
        match self.unrepeatable {
            Some(op) if self.in_doubt => Err(ClientError::OutcomeUnknown { op }),
            _ => {
                tracing::debug!(ops = self.ops.len(), "request moves to another slot");
                Ok(Attempt::Again)
            }
        }
    }
}

fn outcome(results: impl Iterator<Item = OpReply>) -> CompoundOutcome {
    let mut done = Vec::new();
    for r in results {
        match r.result {
            Ok(ok) => done.push(ok),
            Err(failure) => {
                let failed = Some(FailedOp { op: r.op, failure });
                return CompoundOutcome { done, failed, placed: None };
            }
        }
    }
    CompoundOutcome { done, failed: None, placed: None }
}

/// Statuses that ask for patience, RFC 8881 §15.1.1.3 and §15.1.9.2.
fn is_later(status: NfsStat) -> bool {
    matches!(status, NfsStat::DELAY | NfsStat::GRACE | NfsStat::RECALLCONFLICT)
}

fn nfs(op: OpNum, status: NfsStat) -> ClientError {
    ClientError::Nfs { op, status }
}
