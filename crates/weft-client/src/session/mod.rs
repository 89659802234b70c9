//! The asynchronous shell of the session core: sends what the core asks for, reconnects by
//! itself, and runs every COMPOUND exactly once over any number of lost connections.
//!
//! A COMPOUND runs in a task of its own, so a caller that stops waiting leaves no slot behind
//! in an unknown state.

mod callback;
mod compound;
mod data;
mod establish;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{sync::Notify, task::AbortHandle};
use weft_nfs::{OpArgs, OpOk, Verifier, exchgid};

use crate::{
    core::{Core, CoreConfig, Role, Step},
    error::ClientError,
    random::random,
    rpc::{Connection, Credential},
    sync::{Mutex, MutexGuard},
};
pub use callback::CallbackHandler;
use compound::Work;
pub use compound::{CompoundOutcome, FailedOp};
pub use data::{DataRead, DataWritten};

/// How a session is opened.
#[derive(Clone)]
pub struct SessionOptions {
    /// 1 or 2.
    pub minorversion: u32,
    /// Identity of this client at the server; unique among its clients.
    pub owner_id: Bytes,
    /// Metadata or data.
    pub role: Role,
    /// Slots asked for: requests under way at a time.
    pub slots: u32,
    /// Sent with every request.
    pub credential: Credential,
    /// How long a request waits for a server that cannot be reached or asks for delay.
    pub patience: Duration,
    /// Who answers recalls; without one no back channel is made.
    pub callbacks: Option<Arc<dyn CallbackHandler>>,
}

impl SessionOptions {
    /// Options for a server role: 4.2, 32 slots, no back channel, a minute and a half of
    /// patience with a metadata server and a quarter of one with a data server.
    pub fn new(role: Role, owner_id: Bytes, credential: Credential) -> SessionOptions {
        let patience = match role {
            Role::Mds => Duration::from_secs(90),
            Role::Ds => Duration::from_secs(15),
        };
        SessionOptions {
            minorversion: 2,
            owner_id,
            role,
            slots: 32,
            credential,
            patience,
            callbacks: None,
        }
    }
}

impl std::fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionOptions")
            .field("minorversion", &self.minorversion)
            .field("owner_id", &self.owner_id)
            .field("role", &self.role)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

/// A session with one server. Clones share it.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
    _renewal: Arc<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Inner {
    addr: SocketAddr,
    options: SessionOptions,
    core: Mutex<Core>,
    link: Mutex<Option<Link>>,
    /// Held by the one task that is (re-)establishing the session; the others wait their turn
    /// and find it done, or given up: when and why. This is the one lock held across awaits, and
    /// that is its purpose.
    establishing: tokio::sync::Mutex<Option<(Instant, Arc<str>)>>,
    slot_freed: Notify,
    closed: AtomicBool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// A connection and its number, so that whoever finds it broken breaks no newer one.
#[derive(Debug, Clone)]
struct Link {
    connection: Connection,
    number: u64,
}

impl Session {
    /// Connects and establishes the session.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] after the options' patience; a refusal at once.
    pub async fn open(addr: SocketAddr, options: SessionOptions) -> Result<Session, ClientError> {
        let core = Core::new(CoreConfig {
            minorversion: options.minorversion,
            owner_id: options.owner_id.clone(),
            verifier: Verifier(random()?),
            role: options.role,
            slots: options.slots,
            back_channel: options.callbacks.is_some(),
        });
        let inner = Arc::new(Inner {
            addr,
            options,
            core: Mutex::new(core),
            link: Mutex::new(None),
            establishing: tokio::sync::Mutex::new(None),
            slot_freed: Notify::new(),
            closed: AtomicBool::new(false),
        });
        inner.ready_link().await?;
        let renewal = tokio::spawn(renew_lease(Arc::downgrade(&inner)));
        Ok(Session { inner, _renewal: Arc::new(AbortOnDrop(renewal.abort_handle())) })
    }

    /// The server's address.
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
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

    async fn run(&self, work: Work) -> Result<CompoundOutcome, ClientError> {
        let inner = self.inner.clone();
        let run = tokio::spawn(async move { inner.run(work).await });
        run.await.unwrap_or(Err(ClientError::Closed))
    }

    /// Largest READ and WRITE payloads of this session, in bytes.
    pub fn io_bytes_max(&self) -> (u32, u32) {
        self.inner.core().io_bytes_max()
    }

    /// Whether the server gives layouts.
    pub fn serves_layouts(&self) -> bool {
        self.inner.core().server_flags() & exchgid::USE_PNFS_MDS != 0
    }

    /// How often the server has forgotten us. When it grows, every open and layout is gone.
    pub fn losses(&self) -> u64 {
        self.inner.core().losses()
    }

    /// Ends the session and the client record at the server. Best effort: a server that cannot
    /// be reached forgets us when the lease ends.
    pub async fn close(self) {
        self.inner.close().await;
    }
}

impl Inner {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    fn current_link(&self) -> Option<Link> {
        self.link.lock().clone()
    }

    fn set_link(&self, link: Option<Link>) {
        *self.link.lock() = link;
    }

    fn check_open(&self) -> Result<(), ClientError> {
        if self.closed.load(Ordering::Acquire) { Err(ClientError::Closed) } else { Ok(()) }
    }

    /// A connection over which requests may be sent, and nothing else is to be done first.
    fn usable_link(&self) -> Option<Link> {
        let link = self.current_link().filter(|l| !l.connection.is_closed())?;
        (self.core().step() == Step::Ready).then_some(link)
    }
}

/// Sends a bare SEQUENCE whenever nothing else has renewed the lease for a while.
async fn renew_lease(session: Weak<Inner>) {
    loop {
        let Some(at) = session.upgrade().map(|s| s.core().renew_at()) else { return };
        let now = Instant::now();
        // Without a session there is nothing to renew; the next request makes one.
        let at = at.unwrap_or(now + Duration::from_secs(1));
        if at > now {
            tokio::time::sleep_until(at.into()).await;
            continue;
        }
        let Some(inner) = session.upgrade() else { return };
        if let Err(e) = inner.clone().run(Vec::new()).await {
            if matches!(e, ClientError::Closed) {
                return;
            }
            tracing::warn!(server = %inner.addr, "lease could not be renewed: {e}");
            drop(inner);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
