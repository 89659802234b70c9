//! The session as its users see it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::AbortHandle};
use weft_nfs::{OpArgs, OpOk, Verifier, exchgid};

use super::{
    compound::{CompoundOutcome, Request, Work},
    inner::Inner,
    options::{Reclaims, SessionOptions},
};
use crate::{
    boxed::{Boxed, Spawned},
    core::{Core, CoreConfig, Role, ServerName, Standing},
    error::ClientError,
    limits,
    random::random,
    rpc::Credential,
    sync::Mutex,
};

/// A session with one server, and the user whose requests go over it. Clones share the session.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
    caller: Credential,
    _renewal: Arc<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// Connects and establishes the session.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] after the options' patience; a refusal at once.
    pub fn open(
        addr: SocketAddr,
        options: SessionOptions,
    ) -> Boxed<'static, Result<Session, ClientError>> {
        Box::pin(async move {
            let core = Core::new(CoreConfig {
                minorversion: options.minorversion,
                owner_id: options.identity.owner_id().clone(),
                verifier: Verifier(random()?),
                role: options.role,
                slots: options.slots,
                back_channel: options.callbacks.is_some(),
            });
            let caller = options.credential.clone();
            let inner = Arc::new(Inner {
                addr,
                options,
                core: Mutex::new(core),
                link: Mutex::new(None),
                establishing: tokio::sync::Mutex::new(None),
                slot_freed: Notify::new(),
                closed: AtomicBool::new(false),
                on_this_host: AtomicBool::new(false),
                reclaims: Mutex::default(),
            });
            inner.ready_link().await?;
            let renewal = tokio::spawn(renew_lease(Arc::downgrade(&inner)));
            Ok(Session { inner, caller, _renewal: Arc::new(AbortOnDrop(renewal.abort_handle())) })
        })
    }

    /// The same session for the requests of another user: one session serves many, as each request
    /// says whose it is (RFC 8881 §2.10.8.1: the session itself is protected by nothing of
    /// theirs).
    #[must_use]
    pub fn acting_for(&self, caller: Credential) -> Session {
        Session { caller, ..self.clone() }
    }

    /// Whose requests these are.
    pub fn caller(&self) -> &Credential {
        &self.caller
    }

    /// The server's address.
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
    }

    /// Returns when the server hangs: it is connected, and answers nothing, not even a ping, for
    /// some three seconds. Requests in flight are left as they are.
    pub(crate) async fn silent(&self) {
        self.inner.silent().await;
    }

    /// Runs a COMPOUND: SEQUENCE is put before the operations. The results are those of the
    /// operations given, without SEQUENCE's.
    ///
    /// # Errors
    /// [`ClientError::Nfs`] names the operation that failed; what those before it did stands.
    pub async fn compound(&self, ops: Vec<OpArgs>) -> Result<Vec<OpOk>, ClientError> {
        self.compound_outcome(ops).await?.into_result()
    }

    /// Runs a COMPOUND and tells how far it came.
    ///
    /// # Errors
    /// Only when there is no answer at all; refusals are in the outcome.
    pub async fn compound_outcome(&self, ops: Vec<OpArgs>) -> Result<CompoundOutcome, ClientError> {
        self.run(ops.into()).await
    }

    /// Runs a COMPOUND of which so many results count: with the operations behind them the server
    /// tells what came of it, if it can.
    ///
    /// # Errors
    /// As [`Session::compound`], of those that count.
    pub(crate) async fn compound_needing(
        &self,
        needed: usize,
        ops: Vec<OpArgs>,
    ) -> Result<Vec<OpOk>, ClientError> {
        let outcome = self.outcome_needing(needed, ops).await?;
        if outcome.done.len() >= needed { Ok(outcome.done) } else { outcome.into_result() }
    }

    /// The same, and what was done if fewer were.
    pub(crate) async fn outcome_needing(
        &self,
        needed: usize,
        ops: Vec<OpArgs>,
    ) -> Result<CompoundOutcome, ClientError> {
        self.run(Work { needed, ..ops.into() }).await
    }

    /// Runs a COMPOUND, which begins in this thread and goes on to its end whoever waits for it.
    pub(super) fn run(&self, work: Work) -> Spawned<CompoundOutcome> {
        let (inner, caller) = (self.inner.clone(), self.caller.clone());
        Spawned::new(async move { inner.run(&Request { work, caller }).await })
    }

    /// Largest READ and WRITE payloads of this session, in bytes.
    pub fn io_bytes_max(&self) -> (u32, u32) {
        self.inner.core().io_bytes_max()
    }

    /// Operations that a COMPOUND of this session may have, SEQUENCE included.
    pub(super) fn ops_max(&self) -> u32 {
        self.inner.core().ops_max()
    }

    /// Whether the server gives layouts.
    pub fn serves_layouts(&self) -> bool {
        self.inner.core().server_flags() & exchgid::USE_PNFS_MDS != 0
    }

    /// Who the server says it is: equal for sessions with one server, at whichever of its
    /// addresses (RFC 8881 §2.10.5).
    pub fn server(&self) -> ServerName {
        self.inner.core().server().clone()
    }

    /// 1 or 2.
    pub fn minorversion(&self) -> u32 {
        self.inner.options.minorversion
    }

    /// Whether the server is on this host, as far as addresses tell: both ends of the last
    /// connection had the same one.
    pub fn is_on_this_host(&self) -> bool {
        self.inner.on_this_host.load(Ordering::Relaxed)
    }

    /// How often the server has forgotten us. When it grows, every open and layout is gone.
    pub fn losses(&self) -> u64 {
        self.inner.core().losses()
    }

    /// How often it was learnt that the server had taken something away.
    pub(crate) fn revocations(&self) -> u64 {
        self.inner.core().revocations()
    }

    /// How far the server can be relied on to call before it takes something away; not at all after
    /// the lease, or without a back channel.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.inner.options.callbacks.as_ref()?;
        self.inner.core().standing(Instant::now())
    }

    /// How long the server keeps what it granted if it does not answer any more.
    pub(crate) fn believed_for(&self) -> Duration {
        self.inner.core().believed_for(Instant::now())
    }

    /// One more that is asked what to reclaim whenever the server has started anew, while it
    /// lives.
    pub fn reclaim_with(&self, reclaims: Weak<dyn Reclaims>) {
        let mut all = self.inner.reclaims.lock();
        all.retain(|reclaims| reclaims.strong_count() > 0);
        all.push(reclaims);
    }

    /// Ends the session and the client record at the server. Best effort: a server that cannot
    /// be reached forgets us when the lease ends.
    pub async fn close(self) {
        self.inner.close().await;
    }
}

/// Sends a bare SEQUENCE whenever nothing else has renewed the lease for a while; to the metadata
/// server also when the connection has ended: one that was restarted keeps everybody waiting for
/// what we have open.
async fn renew_lease(session: Weak<Inner>) {
    let is_mds = session.upgrade().is_some_and(|s| s.options.role == Role::Mds);
    loop {
        let Some(at) = session.upgrade().map(|s| s.core().renew_at()) else { return };
        let now = Instant::now();
        // Without a session there is nothing to renew; the next request makes one.
        let at = at.unwrap_or(now + Duration::from_secs(1));
        if at > now {
            let until = if is_mds { at.min(now + limits::LOOK_EVERY) } else { at };
            tokio::time::sleep_until(until.into()).await;
            let is_gone = is_mds && session.upgrade().is_some_and(|s| s.live_link().is_none());
            if !is_gone {
                continue;
            }
        }
        let Some(inner) = session.upgrade() else { return };
        let caller = inner.options.credential.clone();
        let work = Work::from(Vec::new());
        if let Err(e) = inner.clone().run(&Request { work, caller }).await {
            if matches!(e, ClientError::Closed) {
                return;
            }
            tracing::warn!(server = %inner.addr, "lease could not be renewed: {e}");
            drop(inner);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
