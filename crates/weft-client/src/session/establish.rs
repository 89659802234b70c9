//! Making and remaking the session: one task at a time, the core says what is next.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use weft_nfs::{
    AttrNo, Bitmap, CompoundReply, NFS_PROGRAM, NFS_V4, NfsStat, OpArgs, OpNum, OpOk,
    PROC_COMPOUND, encode_compound_header, ops::*,
};
use weft_xdr::{Decode, Encode, Segment, Writer};

use super::{
    callback,
    inner::{Inner, Link},
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
    waiting::WaitReason,
};

/// How one try to establish ended.
pub(super) enum Try {
    /// Something can still be done at once.
    Again,
    /// Nothing before a wait, for this reason.
    Later(WaitReason),
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
            // The task that tried before has waited as long as this one would.
            if let Some((_, why)) = given_up.as_ref().filter(|(at, _)| *at >= began) {
                return Err(ClientError::Unreachable { addr: self.addr, why: why.clone() });
            }
            let Try::Later(reason) = self.try_step().await? else { continue };
            let why: Arc<str> = words(&reason);
            self.tell(reason);
            let Some(wait) = backoff.next_wait().filter(|_| Instant::now() < deadline) else {
                *given_up = Some((Instant::now(), why.clone()));
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
        let Some(link) = self.current_link().filter(|l| !l.connection.is_closed()) else {
            return self.connect().await;
        };
        let step = self.core().step();
        if step == Step::Ready {
            return Ok(Try::Again);
        }
        let taken = tokio::time::timeout(limits::STEP_LIMIT, self.take_step(&link, &step)).await;
        let result = taken.unwrap_or_else(|_| Err(RpcError::Lost("the server hangs".into())));
        match result {
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
            Step::ReclaimComplete => {
                self.reclaim(link).await?;
                self.reclaim_complete(link).await
            }
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
        match self.answered(Connection::connect_with(self.addr, options), || 0).await {
            Ok(connection) => {
                let [ours, theirs] =
                    [connection.local(), connection.peer()].map(|end| end.ip().to_canonical());
                self.on_this_host.store(ours == theirs, Ordering::Relaxed);
                let number = LINKS.fetch_add(1, Ordering::Relaxed);
                self.core().connection_lost();
                self.set_link(Some(Link { connection, number }));
                Ok(Try::Again)
            }
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

    /// RECLAIM_COMPLETE and the question for the lease time, on a slot of the new session.
    /// Reclaims all that there is. A server that was there all the time has nothing to give back
    /// (NO_GRACE); what it refuses is not had.
    async fn reclaim(self: &Arc<Self>, link: &Link) -> Result<(), RpcError> {
        let all: Vec<_> = self.reclaims.lock().iter().filter_map(Weak::upgrade).collect();
        for Reclaim { caller, ops, done } in all.iter().flat_map(|reclaims| reclaims.requests()) {
            // Without a slot nothing can be reclaimed: RECLAIM_COMPLETE finds none either.
            let Some(mut slot) = SlotGuard::acquire(self) else { return Ok(()) };
            let Some(sequence) = self.core().sequence(&slot, true) else { return Ok(()) };
            let mut all = vec![OpArgs::Sequence(sequence)];
            all.extend(ops);
            let sent = self.send_with_placement(link, &caller, self.encode(&all), None);
            let (reply, _) = slot.reply(sent).await?;
            let mut results = reply.results.into_iter();
            if results.next().is_some_and(|r| r.result.is_ok()) {
                slot.put_used();
            }
            let mut granted = Vec::new();
            for result in results {
                match result.result {
                    Ok(ok) => granted.push(ok),
                    Err(e) => tracing::debug!("not reclaimed: {}: {}", result.op, e.status),
                }
            }
            done(granted);
        }
        Ok(())
    }

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
        self.send_with_placement(link, caller, args, None).await.map(|(reply, _)| reply)
    }

    /// [`Inner::send`] for any user, and how the payload landed, if it did.
    pub(super) async fn send_with_placement(
        &self,
        link: &Link,
        caller: &Credential,
        args: Vec<Segment>,
        placement: Option<DirectPlacement>,
    ) -> Result<(CompoundReply, Option<Placed>), RpcError> {
        let procedure = (NFS_PROGRAM, NFS_V4, PROC_COMPOUND);
        let watch = Watch::default();
        let call = link.connection.call_watched(procedure, caller, args, placement, watch);
        let Answer { results: mut r, placed } =
            self.answered(call, || link.connection.replies()).await?;
        let reply = CompoundReply::decode(&mut r)?;
        r.finish()?;
        Ok((reply, placed))
    }
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
