//! One connection: its identity, its way out, and the callbacks waiting on it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, Weak},
};

use tokio::sync::{mpsc, watch};
use weft_state::ConnId;
use weft_xdr::Segment;

use super::callback::Pending;

/// Replies and callbacks queued on one connection before its tasks wait for the peer to read.
pub(super) const OUT_QUEUE_MAX: usize = 128;

/// A connection. Lives as long as the socket or any request that came on it.
#[derive(Debug)]
pub struct Conn {
    /// Name of the connection, never reused in a process.
    pub id: ConnId,
    /// Client's address.
    pub peer: SocketAddr,
    /// Address the client reached us by.
    pub local: SocketAddr,
    pub(super) out: mpsc::Sender<Vec<Segment>>,
    pub(super) pending: Mutex<Pending>,
    close: watch::Sender<bool>,
}

impl Conn {
    pub(super) fn new(
        id: ConnId,
        peer: SocketAddr,
        local: SocketAddr,
        out: mpsc::Sender<Vec<Segment>>,
    ) -> Self {
        let close = watch::Sender::new(false);
        Conn { id, peer, local, out, pending: Mutex::default(), close }
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
