//! One connection: its identity, its way out, and the callbacks waiting on it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use weft_io::SealRecords;
use weft_state::ConnId;
use weft_xdr::{Reader, Segment, rpc::Reply};

use super::hosts::{ReplyRoom, SharedRoom};

/// Replies and callbacks queued on one connection before its tasks wait for the peer to read.
pub(super) const OUT_QUEUE_MAX: usize = 128;

/// Bytes of large replies that one connection may have in memory: a client that does not read
/// what it asked for waits for itself, and for nobody else.
const REPLY_BYTES_MAX: u32 = 8 << 20;

/// Memory held for a reply, of its connection, its host and all: given back when the reply was
/// written to the socket.
#[derive(Debug)]
pub struct ReplyBudget {
    _own: OwnedSemaphorePermit,
    _shared: SharedRoom,
}

/// A message on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) segments: Vec<Segment>,
    /// Given back when the message is sent.
    pub(super) room: Vec<ReplyBudget>,
    /// Seals every message after this one.
    pub(super) seal: Option<Box<dyn SealRecords>>,
}

impl Outgoing {
    /// A small message.
    pub(super) fn small(segments: Vec<Segment>) -> Self {
        Outgoing { segments, room: Vec::new(), seal: None }
    }
}

/// Callbacks waiting for their answers, by transaction id.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) xid: u32,
    pub(super) waiting: HashMap<u32, oneshot::Sender<(Reply, Reader)>>,
}

/// A connection. Lives as long as the socket or any request that came on it.
#[derive(Debug)]
pub struct Conn {
    /// Name of the connection, never reused in a process.
    pub id: ConnId,
    /// Client's address.
    pub peer: SocketAddr,
    /// Address the client reached us by.
    pub local: SocketAddr,
    peer_name: OnceLock<Bytes>,
    /// User of this machine whose program the client is, as the kernel says; `None` if it is
    /// elsewhere.
    pub owner: Option<u32>,
    pub(super) out: mpsc::Sender<Outgoing>,
    reply_budget: Arc<Semaphore>,
    pub(super) room: ReplyRoom,
    pub(super) pending: Mutex<Pending>,
    close: watch::Sender<bool>,
}

impl Conn {
    pub(super) fn new(
        id: ConnId,
        (peer, local): (SocketAddr, SocketAddr),
        owner: Option<u32>,
        out: mpsc::Sender<Outgoing>,
        room: ReplyRoom,
    ) -> Self {
        let close = watch::Sender::new(false);
        let reply_budget = Arc::new(Semaphore::new(REPLY_BYTES_MAX as usize));
        Conn {
            id,
            peer,
            local,
            owner,
            peer_name: OnceLock::new(),
            out,
            reply_budget,
            room,
            pending: Mutex::default(),
            close,
        }
    }

    /// Who the peer has proven to be, in the words of the program that it greeted; none if its
    /// connection is not a secure one.
    pub fn peer_name(&self) -> Option<&Bytes> {
        self.peer_name.get()
    }

    /// The peer has greeted us.
    pub(super) fn is_of(&self, name: Bytes) {
        // Only a first record is a greeting.
        let _ = self.peer_name.set(name);
    }

    /// Waits until a reply of this many bytes may be made. Who holds room already must not wait
    /// for more: see [`Conn::try_reserve_reply`].
    pub async fn reserve_reply(&self, bytes: u64) -> Option<ReplyBudget> {
        let permits = reply_permits(bytes);
        // The semaphore is never closed.
        let own = self.reply_budget.clone().acquire_many_owned(permits).await.ok()?;
        Some(ReplyBudget { _own: own, _shared: self.room.take(permits as usize).await })
    }

    /// The same without waiting; `None` if there is no room now.
    pub fn try_reserve_reply(&self, bytes: u64) -> Option<ReplyBudget> {
        let permits = reply_permits(bytes);
        let own = self.reply_budget.clone().try_acquire_many_owned(permits).ok()?;
        Some(ReplyBudget { _own: own, _shared: self.room.try_take(permits as usize)? })
    }

    /// Ends the connection as soon as its tasks notice.
    pub fn close(&self) {
        self.close.send_replace(true);
    }

    /// Resolves when the connection is to end.
    pub(super) async fn closing(&self) {
        let mut rx = self.close.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = rx.wait_for(|closed| *closed).await;
    }
}

fn reply_permits(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).min(REPLY_BYTES_MAX)
}

/// The open connections of a process, by name: callbacks find theirs here.
#[derive(Debug, Default, Clone)]
pub struct Connections(Arc<Mutex<HashMap<ConnId, Weak<Conn>>>>);

impl Connections {
    /// The connection, if it is still open.
    pub fn find(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.0.lock().expect("connection table lock").get(&id).and_then(Weak::upgrade)
    }

    pub(super) fn insert(&self, conn: &Arc<Conn>) {
        self.0.lock().expect("connection table lock").insert(conn.id, Arc::downgrade(conn));
    }

    pub(super) fn remove(&self, id: ConnId) {
        self.0.lock().expect("connection table lock").remove(&id);
    }

    /// How many connections are open.
    pub fn count(&self) -> usize {
        self.0.lock().expect("connection table lock").len()
    }
}
