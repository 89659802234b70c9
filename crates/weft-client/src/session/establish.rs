//! Making and remaking the session: one task at a time, the core says what is next.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use weft_nfs::{
    AttrNo, Bitmap, CompoundReply, NFS_PROGRAM, NFS_V4, NfsStat, OpArgs, OpNum, OpOk, OpReply,
    PROC_COMPOUND, encode_compound_header, ops::*,
};
use weft_xdr::{Decode, Encode, Segment, Writer};

use super::{
    callback,
    inner::{GivenUp, Inner, Link},
    options::Reclaim,
    slot::SlotGuard,
};
use crate::{
    core::{Backoff, Role, Step, StepFailure},
    error::{ClientError, ProtocolError},
    limits,
    rpc::{
        Answer, ConnectOptions, Connection, Credential, DirectPlacement, Placed, RpcError, Watch,
    },
    waiting::{Requested, WaitReason},
};

/// How one try to establish ended.
pub(super) enum Try {
    /// Something can still be done at once.
    Again,
    /// Nothing before a wait, for this reason.
    Later(WaitReason),
    /// The server does not answer what takes no time.
    Hangs,
}

impl Inner {
    /// A connection with an established session, made if there is none.
    pub(super) async fn ready_link(self: &Arc<Self>) -> Result<Link, ClientError> {
        self.check_open()?;
        match self.usable_link() {
            Some(link) => Ok(link),
            // Rare and large: not a part of every request's memory.
            None => Box::pin(self.establish()).await,
        }
    }

    /// Connects and establishes a session, or waits for the task that does.
    async fn establish(self: &Arc<Self>) -> Result<Link, ClientError> {
        let began = Instant::now();
        let mut given_up = self.establishing.lock().await;
        let mut backoff = Backoff::new(self.options.patience);
        let deadline = began + self.options.patience;
        loop {
            self.check_open()?;
            if let Some(link) = self.usable_link() {
                return Ok(link);
            }
            // Others have tried for as long as this one would have.
            let is_over = Instant::now() >= deadline;
            let tried = given_up.as_ref().filter(|g| (is_over || g.hangs) && g.at >= began);
            if let Some(GivenUp { why, .. }) = tried {
                return Err(ClientError::Unreachable { addr: self.addr, why: why.clone() });
            }
            let (reason, hangs) = match self.try_step().await? {
                Try::Again => continue,
                Try::Later(reason) => (reason, false),
                // There are other ways to what a data server has.
                Try::Hangs => (hangs(), self.options.role == Role::Ds),
            };
            let why: Arc<str> = words(&reason);
            self.tell(reason);
            let wait = backoff.next_wait().filter(|_| Instant::now() < deadline && !hangs);
            let Some(wait) = wait else {
                *given_up = Some(GivenUp { at: Instant::now(), why: why.clone(), hangs });
                return Err(ClientError::Unreachable { addr: self.addr, why });
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Marks a connection as broken, unless a newer one is in place already.
    pub(super) fn link_lost(&self, number: u64) {
        if self.current_link().is_some_and(|l| l.number == number) {
            self.set_link(None);
            self.core().connection_lost();
        }
    }

    /// Connects, or takes one step of establishing.
    async fn try_step(self: &Arc<Self>) -> Result<Try, ClientError> {
        let Some(link) = self.live_link() else {
            return self.connect().await;
        };
        let step = self.core().step();
        if step == Step::Ready {
            return Ok(Try::Again);
        }
        let is_last = step == Step::ReclaimComplete;
        let reclaimed = if is_last { self.reclaim(&link).await } else { Ok(()) };
        self.check_open()?;
        let taken = match reclaimed {
            Ok(()) => {
                let limit = match self.options.role {
                    Role::Mds => limits::STEP_LIMIT,
                    Role::Ds => limits::DATA_SERVER_STEP_LIMIT,
                };
                match tokio::time::timeout(limit, self.take_step(&link, &step)).await {
                    Ok(taken) => taken,
                    Err(_) => {
                        self.link_lost(link.number);
                        return Ok(Try::Hangs);
                    }
                }
            }
            Err(e) => Err(e),
        };
        match taken {
            Ok(Ok(ok)) => self.step_done(&step, &ok),
            Ok(Err(status)) => self.step_refused(&link, &step, status),
            Err(RpcError::Refused(r)) => Err(ClientError::Rpc(RpcError::Refused(r))),
            Err(e) => {
                self.link_lost(link.number);
                Ok(Try::Later(WaitReason::Unreachable(e.to_string().into())))
            }
        }
    }

    async fn take_step(
        self: &Arc<Self>,
        link: &Link,
        step: &Step,
    ) -> Result<Result<OpOk, NfsStat>, RpcError> {
        match step {
            Step::Ready => Ok(Err(NfsStat::DELAY)),
            Step::ReclaimComplete => self.reclaim_complete(link).await,
            Step::ExchangeId(args) => self.bare(link, OpArgs::ExchangeId(args.clone())).await,
            Step::DestroySession(id) => {
                let args = DestroySessionArgs { sessionid: *id };
                self.bare(link, OpArgs::DestroySession(args)).await
            }
            Step::CreateSession(args) => self.bare(link, OpArgs::CreateSession(args.clone())).await,
            Step::BindConnection(args) => {
                self.bare(link, OpArgs::BindConnToSession(args.clone())).await
            }
        }
    }

    pub(super) async fn connect(self: &Arc<Self>) -> Result<Try, ClientError> {
        // Data servers look at handles, not at who brings them.
        let is_root = rustix::process::geteuid().is_root();
        let privileged_port = is_root && self.options.role == Role::Mds;
        let mut options = ConnectOptions { privileged_port, ..ConnectOptions::default() };
        if let Some(handler) = &self.options.callbacks {
            let (to, calls) = mpsc::channel(limits::INCOMING_CALLS_MAX);
            options.incoming = Some(to);
            tokio::spawn(callback::serve(Arc::downgrade(self), handler.clone(), calls));
        }
        let began = Instant::now();
        match self.answered(Connection::connect_with(self.addr, options), || 0, None).await {
            Ok(connection) => {
                let [ours, theirs] =
                    [connection.local(), connection.peer()].map(|end| end.ip().to_canonical());
                self.on_this_host.store(ours == theirs, Ordering::Relaxed);
                let number = LINKS.fetch_add(1, Ordering::Relaxed);
                self.core().connection_lost();
                self.set_link(Some(Link { connection, number }));
                Ok(Try::Again)
            }
            // Nobody refuses either: the machine is gone, or something drops what is sent to it.
            Err(_) if began.elapsed() >= limits::CONNECT_TIMEOUT => Ok(Try::Hangs),
            Err(e) => Ok(Try::Later(WaitReason::Unreachable(e.to_string().into()))),
        }
    }

    fn step_done(&self, step: &Step, ok: &OpOk) -> Result<Try, ClientError> {
        let now = Instant::now();
        let mut core = self.core();
        match ok {
            OpOk::ExchangeId(ok) => core.exchanged(ok),
            OpOk::DestroySession => core.destroyed(),
            OpOk::CreateSession(ok) => {
                let made = core.created(ok, now);
                drop(core);
                self.slot_freed.notify_waiters();
                made.map_err(|_| ProtocolError::SessionTooSmall)?;
            }
            OpOk::BindConnToSession(_) => core.bound(now),
            OpOk::Getattr(ok) => {
                let lease = ok.attrs.lease_time.map(|s| Duration::from_secs(s.into()));
                core.reclaimed(lease);
            }
            _ => return Err(ClientError::unexpected(op_of(step))),
        }
        Ok(Try::Again)
    }

    fn step_refused(&self, link: &Link, step: &Step, status: NfsStat) -> Result<Try, ClientError> {
        let failure = self.core().step_failed(step, status);
        match failure {
            StepFailure::Later => Ok(Try::Later(WaitReason::of(status))),
            StepFailure::Changed => Ok(Try::Again),
            StepFailure::Fatal(NfsStat::ACCESS) => {
                Err(ClientError::NotServed { server: self.addr, local: link.connection.local() })
            }
            StepFailure::Fatal(status) => Err(ClientError::Nfs { op: op_of(step), status }),
        }
    }

    /// Sends an operation that goes without SEQUENCE.
    pub(super) async fn bare(
        &self,
        link: &Link,
        op: OpArgs,
    ) -> Result<Result<OpOk, NfsStat>, RpcError> {
        let mut reply = self.send(link, self.encode(&[op])).await?;
        Ok(match reply.results.pop() {
            Some(last) => last.result.map_err(|f| f.status),
            None => Err(reply.status),
        })
    }

    /// Reclaims all that there is, each with the limit of a step. A server that was there all the
    /// time has nothing to give back (NO_GRACE); what it refuses is not had. What it puts off is
    /// asked for again after the rest, so that no file keeps others waiting while the grace period
    /// passes; after a lease at most, that is a refusal too.
    async fn reclaim(self: &Arc<Self>, link: &Link) -> Result<(), RpcError> {
        let all: Vec<_> = self.reclaims.lock().iter().filter_map(Weak::upgrade).collect();
        let mut wanted: Vec<_> = all.iter().flat_map(|reclaims| reclaims.requests()).collect();
        // All requests wait for this, and others for its end.
        let limit = self.options.patience.min(self.core().lease());
        let mut backoff = Backoff::new(limit);
        loop {
            let mut put_off = Vec::new();
            for Reclaim { caller, ops, done } in wanted {
                // Without a slot nothing can be reclaimed: RECLAIM_COMPLETE finds none either.
                let Some(reply) = self.reclaim_once(link, &caller, &ops).await? else {
                    return Ok(());
                };
                let status = reply.results.last().map_or(reply.status, OpReply::status);
                let behind_sequence = reply.results.into_iter().skip(1);
                let granted = behind_sequence.map_while(|r| r.result.ok()).collect();
                if status == NfsStat::DELAY {
                    put_off.push((Reclaim { caller, ops, done }, granted));
                } else {
                    done(granted);
                }
            }
            if put_off.is_empty() || !self.pause(&mut backoff).await {
                put_off.into_iter().for_each(|(reclaim, granted)| (reclaim.done)(granted));
                return Ok(());
            }
            wanted = put_off.into_iter().map(|(reclaim, _)| reclaim).collect();
        }
    }

    /// Sends one reclaim. None if there is no slot for it, or nobody wants the session any more.
    async fn reclaim_once(
        self: &Arc<Self>,
        link: &Link,
        caller: &Credential,
        ops: &[OpArgs],
    ) -> Result<Option<CompoundReply>, RpcError> {
        let slot = self.check_open().ok().and_then(|()| SlotGuard::acquire(self));
        let Some(mut slot) = slot else { return Ok(None) };
        let Some(sequence) = self.core().sequence(&slot, true) else { return Ok(None) };
        let mut all = vec![OpArgs::Sequence(sequence)];
        all.extend_from_slice(ops);
        let sent = self.send_with_placement(link, caller, (self.encode(&all), None), None);
        let (reply, _) = slot.reply(in_time(sent)).await?;
        if reply.results.first().is_some_and(|r| r.result.is_ok()) {
            slot.put_used();
        }
        if let Some(last) = reply.results.last().filter(|r| r.result.is_err()) {
            tracing::debug!("not reclaimed: {}: {}", last.op, last.status());
        }
        Ok(Some(reply))
    }

    /// Waits before the server is asked again; false if it is not to be: patience has run out, or
    /// the session is closed.
    async fn pause(&self, backoff: &mut Backoff) -> bool {
        let Some(wait) = backoff.next_wait() else { return false };
        self.tell(WaitReason::Delay);
        tokio::time::sleep(wait).await;
        self.check_open().is_ok()
    }

    /// RECLAIM_COMPLETE and the question for the lease time, on a slot of the new session.
    async fn reclaim_complete(
        self: &Arc<Self>,
        link: &Link,
    ) -> Result<Result<OpOk, NfsStat>, RpcError> {
        let Some(mut slot) = SlotGuard::acquire(self) else {
            return Ok(Err(NfsStat::DELAY)); // all slots are busy: their requests end soon
        };
        let sequence = self.core().sequence(&slot, true);
        let Some(sequence) = sequence else { return Ok(Err(NfsStat::DELAY)) };
        let request = AttrNo::LEASE_TIME;
        let ops = [
            OpArgs::Sequence(sequence),
            OpArgs::ReclaimComplete(ReclaimCompleteArgs { one_fs: false }),
            OpArgs::Putrootfh,
            OpArgs::Getattr(GetattrArgs { request: Bitmap::of(&[request]) }),
        ];
        let mut reply = slot.reply(self.send(link, self.encode(&ops))).await?;
        if reply.results.first().is_some_and(|r| r.result.is_ok()) {
            slot.put_used();
        }
        Ok(match reply.results.pop() {
            Some(last) => last.result.map_err(|f| f.status),
            None => Err(reply.status),
        })
    }

    /// Encodes a COMPOUND's arguments.
    pub(super) fn encode(&self, ops: &[OpArgs]) -> Vec<Segment> {
        let mut w = Writer::new();
        encode_compound_header(&mut w, "", self.options.minorversion, ops.len());
        ops.iter().for_each(|op| op.encode(&mut w));
        w.into_segments()
    }

    /// Sends encoded arguments as the session's own user and reads the whole reply.
    pub(super) async fn send(
        &self,
        link: &Link,
        args: Vec<Segment>,
    ) -> Result<CompoundReply, RpcError> {
        let caller = &self.options.credential;
        let sent = self.send_with_placement(link, caller, (args, None), None);
        sent.await.map(|(reply, _)| reply)
    }

    /// [`Inner::send`] for any user, with what is said of it while no answer comes; and how the
    /// payload landed, if it did.
    pub(super) async fn send_with_placement(
        &self,
        link: &Link,
        caller: &Credential,
        (args, request): (Vec<Segment>, Option<Requested>),
        placement: Option<DirectPlacement>,
    ) -> Result<(CompoundReply, Option<Placed>), RpcError> {
        let procedure = (NFS_PROGRAM, NFS_V4, PROC_COMPOUND);
        let watch = Watch::default();
        let call = link.connection.call_watched(procedure, caller, args, placement, watch);
        let Answer { results: mut r, placed } =
            self.answered(call, || link.connection.replies(), request).await?;
        let reply = CompoundReply::decode(&mut r)?;
        r.finish()?;
        Ok((reply, placed))
    }
}

/// An answer to one request of a step, which comes soon or not at all.
async fn in_time<T>(answer: impl Future<Output = Result<T, RpcError>>) -> Result<T, RpcError> {
    let answer = tokio::time::timeout(limits::STEP_LIMIT, answer).await;
    answer.unwrap_or_else(|_| Err(RpcError::Lost(HANGS.into())))
}

/// Message about a server that does not answer a request which takes no time.
const HANGS: &str = "the server hangs";

fn hangs() -> WaitReason {
    WaitReason::Unreachable(HANGS.into())
}

/// A reason for errors, which name the server already.
fn words(why: &WaitReason) -> Arc<str> {
    match why {
        WaitReason::Unreachable(why) => why.clone(),
        other => other.to_string().into(),
    }
}

/// The operation of a step.
fn op_of(step: &Step) -> OpNum {
    match step {
        Step::ExchangeId(_) => OpNum::EXCHANGE_ID,
        Step::DestroySession(_) => OpNum::DESTROY_SESSION,
        Step::CreateSession(_) => OpNum::CREATE_SESSION,
        Step::BindConnection(_) => OpNum::BIND_CONN_TO_SESSION,
        Step::ReclaimComplete | Step::Ready => OpNum::RECLAIM_COMPLETE,
    }
}

/// Numbers of connections, unique in the process.
static LINKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
