//! One COMPOUND from slot to answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use weft_nfs::{CompoundReply, Failure, NfsStat, OpArgs, OpNum, OpOk, OpReply};
use weft_xdr::Segment;

use super::{
    inner::{Inner, Link},
    slot::SlotGuard,
};
use crate::{
    core::{Backoff, SequenceFailure, Slot, first_unrepeatable},
    error::{ClientError, ProtocolError},
    rpc::{Credential, DirectPlacement, Placed, RpcError},
    waiting::{Requested, WaitReason},
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
    /// The operation.
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

/// A COMPOUND to be run.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) ops: Vec<OpArgs>,
    /// Where the payload of the last result may land.
    pub(super) placement: Option<DirectPlacement>,
    /// So many results count: that the server has no time for what is behind them is not waited
    /// for, and nothing is executed twice for it.
    pub(super) needed: usize,
}

impl From<Vec<OpArgs>> for Work {
    fn from(ops: Vec<OpArgs>) -> Work {
        Work { ops, placement: None, needed: usize::MAX }
    }
}

/// A COMPOUND and the user who sends it.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) caller: Credential,
}

/// The waits of one request that is sent again and again on its slot.
struct Resending {
    backoff: Backoff,
    /// When its connection broke first.
    lost_since: Option<Instant>,
}

impl Resending {
    fn new(patience: Duration) -> Resending {
        Resending { backoff: Backoff::new(patience), lost_since: None }
    }

    /// Waits after SEQUENCE was refused so, which is the error when patience has run out.
    async fn wait(&mut self, status: NfsStat) -> Result<(), ClientError> {
        let Some(wait) = self.backoff.next_wait() else {
            return Err(nfs(OpNum::SEQUENCE, status));
        };
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// What a reply says of its request.
enum Verdict {
    Done(CompoundOutcome),
    /// Send the same again after a wait.
    Resend,
    /// Send the same again after a wait, the session being bound first.
    Rebind,
    /// The slot is out of use, and so is its session.
    SlotLost,
    /// The slot is fine; the reply is not kept.
    ReplyGone,
}

impl Inner {
    /// Runs a COMPOUND to its end: waits out DELAY and GRACE, survives lost connections and
    /// sessions.
    pub(super) async fn run(
        self: Arc<Self>,
        request: &Request,
    ) -> Result<CompoundOutcome, ClientError> {
        let ops = &request.work.ops;
        let unrepeatable = first_unrepeatable(ops);
        let mut backoff = Backoff::new(self.options.patience);
        // It ends by itself, a lease after the restart: to give up before is to no purpose.
        let mut grace = Backoff::new(self.options.patience.max(self.core().lease() * 2));
        // So does the wait for another client, which may keep a file that long.
        let mut held = grace.clone();
        let (mut is_lost_again, mut lost) = (false, Backoff::new(self.options.patience));
        loop {
            let Attempt::Answered(outcome) = self.attempt(request, unrepeatable).await? else {
                // A new session is had at once, but a server may lose each that it gives.
                if std::mem::replace(&mut is_lost_again, true) {
                    let (addr, why) = (self.addr, Arc::from("it loses each session that it gives"));
                    self.tell(WaitReason::Unreachable(Arc::clone(&why)));
                    let wait = lost.next_wait();
                    let wait = wait.ok_or(ClientError::Unreachable { addr, why })?;
                    tokio::time::sleep(wait).await;
                }
                continue;
            };
            let executed = ops.get(..outcome.done.len()).unwrap_or_default();
            let later = outcome.done.len() < request.work.needed
                && outcome.failed.as_ref().is_some_and(|f| is_later(f.failure.status))
                && first_unrepeatable(executed).is_none();
            let failed = outcome.failed.as_ref().filter(|_| later);
            let failed = failed.map(|f| (f.failure.status, f.op));
            let Some((status, op)) = failed else { return Ok(outcome) };
            let waits = match status {
                NfsStat::GRACE => &mut grace,
                _ if waits_for_clients(op) => &mut held,
                _ => &mut backoff,
            };
            let Some(wait) = waits.next_wait() else { return Ok(outcome) };
            let request = Requested::of(ops, outcome.done.len(), op);
            self.tell_of(WaitReason::of(status), Some(request));
            tokio::time::sleep(wait).await;
        }
    }

    /// Uses one slot, over any number of connections.
    async fn attempt(
        self: &Arc<Self>,
        request: &Request,
        unrepeatable: Option<OpNum>,
    ) -> Result<Attempt, ClientError> {
        let Request { work, caller } = request;
        let mut slot = self.take_slot().await?;
        let args = self.encode_on(&slot, &work.ops, unrepeatable);
        let Some(args) = args else { return Ok(Attempt::Again) };
        let mut resending = Resending::new(self.options.patience);
        loop {
            let link = self.ready_link().await?;
            if self.core().epoch() != slot.epoch() {
                return on_another_slot(unrepeatable, slot.is_in_doubt());
            }
            let sent_at = Instant::now();
            let placement = work.placement.clone();
            let sent = (args.clone(), Requested::most_of(&work.ops));
            let reply = self.send_with_placement(&link, caller, sent, placement);
            let (reply, placed) = match slot.reply(reply).await {
                Ok(reply) => reply,
                Err(e) => {
                    self.wait_for_link(&link, &mut resending, e).await?;
                    continue;
                }
            };
            match self.judge(&slot, reply, sent_at)? {
                Verdict::Done(outcome) => {
                    slot.put_used();
                    return Ok(Attempt::Answered(CompoundOutcome { placed, ..outcome }));
                }
                Verdict::Resend => {
                    self.tell(WaitReason::Delay);
                    resending.wait(NfsStat::DELAY).await?;
                }
                Verdict::Rebind => {
                    let why = "it does not take this connection for the session";
                    self.tell(WaitReason::Unreachable(why.into()));
                    resending.wait(NfsStat::CONN_NOT_BOUND_TO_SESSION).await?;
                }
                Verdict::SlotLost => return on_another_slot(unrepeatable, slot.is_in_doubt()),
                Verdict::ReplyGone => {
                    slot.put_used();
                    return on_another_slot(unrepeatable, true);
                }
            }
        }
    }

    /// After a request got no reply: waits until it may be sent over another connection.
    async fn wait_for_link(
        &self,
        link: &Link,
        resending: &mut Resending,
        e: RpcError,
    ) -> Result<(), ClientError> {
        if !matches!(e, RpcError::Lost(_) | RpcError::Connect { .. }) {
            return Err(e.into());
        }
        self.link_lost(link.number);
        // A request that ends its connection every time must itself end: at once, or because
        // nobody answers it.
        let since = *resending.lost_since.get_or_insert_with(Instant::now);
        let wait = resending.backoff.next_wait();
        let Some(wait) = wait.filter(|_| since.elapsed() < self.options.patience) else {
            let why = e.to_string().into();
            return Err(ClientError::Unreachable { addr: self.addr, why });
        };
        self.tell(WaitReason::Unreachable(e.to_string().into()));
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Waits for a free slot of a usable session.
    async fn take_slot(self: &Arc<Self>) -> Result<SlotGuard, ClientError> {
        loop {
            let freed = self.slot_freed.notified();
            self.ready_link().await?;
            if let Some(slot) = SlotGuard::acquire(self) {
                return Ok(slot);
            }
            freed.await;
        }
    }

    /// The request as it goes over this slot; none when the slot's session is gone.
    fn encode_on(
        &self,
        slot: &Slot,
        ops: &[OpArgs],
        unrepeatable: Option<OpNum>,
    ) -> Option<Vec<Segment>> {
        // A reply worth keeping is one that must not be produced twice.
        let sequence = self.core().sequence(slot, unrepeatable.is_some())?;
        let mut all = Vec::with_capacity(ops.len() + 1);
        all.push(OpArgs::Sequence(sequence));
        all.extend(ops.iter().cloned());
        Some(self.encode(&all))
    }

    /// What a reply says. On an error the session is lost, and the slot with it.
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
                let was_revoked = self.core().take_revocation();
                if let Some(handler) = self.options.callbacks.as_ref().filter(|_| was_revoked) {
                    handler.state_revoked();
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
            Some(_) => {
                self.core().session_lost(slot.epoch(), true);
                Err(ProtocolError::NoSequence.into())
            }
            None => {
                self.core().session_lost(slot.epoch(), true);
                Err(nfs(OpNum::SEQUENCE, reply.status))
            }
        }
    }
}

/// The session is gone with the request on it: whether to try on the next one.
fn on_another_slot(unrepeatable: Option<OpNum>, in_doubt: bool) -> Result<Attempt, ClientError> {
    match unrepeatable {
        Some(op) if in_doubt => Err(ClientError::OutcomeUnknown { op }),
        _ => {
            tracing::debug!("a request moves to another slot");
            Ok(Attempt::Again)
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

/// Statuses that ask for patience, RFC 8881 §15.1.1.3 and §15.1.9.2. RECALLCONFLICT does not: what
/// is being recalled may be what the caller has, and goes back only when he lets go.
pub(crate) fn is_later(status: NfsStat) -> bool {
    matches!(status, NfsStat::DELAY | NfsStat::GRACE)
}

/// Whether DELAY to this operation may mean that another client holds the file. One that does not
/// answer keeps it for a lease (RFC 8881 §10.4.5), or two if it answers and returns nothing.
fn waits_for_clients(op: OpNum) -> bool {
    matches!(op, OpNum::OPEN | OpNum::REMOVE | OpNum::RENAME | OpNum::LINK)
}

fn nfs(op: OpNum, status: NfsStat) -> ClientError {
    ClientError::Nfs { op, status }
}
