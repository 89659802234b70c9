//! Which calls wait for which reply.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};
use weft_io::CancelGuard;

use super::{
    direct_placement::{Answer, DirectPlacement},
    error::RpcError,
};
use crate::sync::Mutex;

type Outcome = Result<Answer, RpcError>;

/// The calls in flight of one connection. Bounded by the connection's semaphore.
#[derive(Debug)]
pub(super) struct CallTable {
    calls: Mutex<Calls>,
    closing: Notify,
    /// Replies received so far.
    replies: AtomicU64,
}

#[derive(Debug)]
struct Calls {
    next_xid: u32,
    by_xid: HashMap<u32, Call>,
    closed: Option<RpcError>,
}

/// A call in flight.
#[derive(Debug)]
struct Call {
    to: oneshot::Sender<Outcome>,
    placement: Option<(DirectPlacement, Arc<CancelGuard>)>,
}

impl CallTable {
    pub(super) fn new() -> CallTable {
        let calls = Calls { next_xid: 1, by_xid: HashMap::new(), closed: None };
        CallTable { calls: Mutex::new(calls), closing: Notify::new(), replies: AtomicU64::new(0) }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.calls.lock().closed.is_some()
    }

    pub(super) fn why_closed(&self) -> RpcError {
        self.calls.lock().closed.clone().unwrap_or_else(|| RpcError::lost("closed"))
    }

    /// A transaction id and the place where its reply will arrive; and where the reply's payload
    /// may go.
    pub(super) fn register(
        self: &Arc<Self>,
        placement: Option<DirectPlacement>,
    ) -> Result<Waiting, RpcError> {
        let (to, reply) = oneshot::channel();
        let mut calls = self.calls.lock();
        if let Some(why) = &calls.closed {
            return Err(why.clone());
        }
        while calls.by_xid.contains_key(&calls.next_xid) {
            calls.next_xid = calls.next_xid.wrapping_add(1);
        }
        let xid = calls.next_xid;
        calls.next_xid = xid.wrapping_add(1);
        let placement = placement.map(|p| (p, Arc::<CancelGuard>::default()));
        let guard = placement.as_ref().map(|(_, guard)| guard.clone());
        calls.by_xid.insert(xid, Call { to, placement });
        Ok(Waiting { xid, reply, guard, table: self.clone() })
    }

    /// Where the payload of this call's reply may go, unless it was cancelled.
    pub(super) fn placement(&self, xid: u32) -> Option<(DirectPlacement, Arc<CancelGuard>)> {
        self.calls.lock().by_xid.get(&xid)?.placement.clone()
    }

    /// Replies received so far: while it grows, the peer is alive.
    pub(super) fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// Delivers a reply; one nobody waits for (any more) is dropped.
    pub(super) fn complete(&self, xid: u32, outcome: Outcome) {
        self.replies.fetch_add(1, Ordering::Relaxed);
        let call = self.calls.lock().by_xid.remove(&xid);
        if let Some(call) = call {
            let _ = call.to.send(outcome);
        }
    }

    /// Fails every call in flight and every later one. The first reason stands.
    pub(super) fn close(&self, why: RpcError) {
        let mut calls = self.calls.lock();
        let why = calls.closed.get_or_insert(why).clone();
        let waiting = std::mem::take(&mut calls.by_xid);
        drop(calls);
        for call in waiting.into_values() {
            let _ = call.to.send(Err(why.clone()));
        }
        self.closing.notify_one();
    }

    /// Returns once the table is closed. For one waiter: the sender, which then hangs up.
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }
}

/// A registered call; dropping it forgets the call, and nothing more of its reply is placed.
pub(super) struct Waiting {
    xid: u32,
    reply: oneshot::Receiver<Outcome>,
    guard: Option<Arc<CancelGuard>>,
    table: Arc<CallTable>,
}

impl Waiting {
    pub(super) fn xid(&self) -> u32 {
        self.xid
    }

    pub(super) async fn reply(mut self) -> Outcome {
        match (&mut self.reply).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.table.why_closed()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.table.calls.lock().by_xid.remove(&self.xid);
        if let Some(guard) = &self.guard {
            guard.cancel();
        }
    }
}
