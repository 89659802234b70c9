//! Calls in the other direction on the client's own connection (RFC 8881 §2.10.3.1).

use std::time::Duration;

use tokio::sync::oneshot;
use weft_xdr::{
    Reader, Segment, Writer,
    rpc::{self, CallHeader, Reply},
};

use super::conn::{Conn, Outgoing};

/// Callbacks under way on one connection; back channels have few slots.
const PENDING_MAX: usize = 64;

/// Why a callback brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// The connection is gone.
    #[error("the connection is closed")]
    Closed,
    /// Too many callbacks are waiting on this connection.
    #[error("too many callbacks are under way")]
    Busy,
    /// No answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The client refused the call.
    #[error("refused: {0:?}")]
    Refused(Reply),
}

impl Conn {
    /// Calls the client and waits for its answer: a reader at the results.
    ///
    /// # Errors
    /// [`CallbackError`]; after `TimedOut` a late answer is dropped.
    pub async fn call_back(
        &self,
        header: &CallHeader,
        args: Vec<Segment>,
        limit: Duration,
    ) -> Result<Reader, CallbackError> {
        let (xid, answer) = self.register()?;
        let mut w = Writer::new();
        rpc::call(&mut w, xid, header);
        w.append(args);
        let outcome = async {
            self.out
                .send(Outgoing::small(w.into_segments()))
                .await
                .map_err(|_| CallbackError::Closed)?;
            answer.await.map_err(|_| CallbackError::Closed)
        };
        let outcome = tokio::time::timeout(limit, outcome).await;
        self.pending.lock().expect("pending callbacks lock").waiting.remove(&xid);
        match outcome.map_err(|_| CallbackError::TimedOut)?? {
            (Reply::Success, results) => Ok(results),
            (refused, _) => Err(CallbackError::Refused(refused)),
        }
    }

    fn register(&self) -> Result<(u32, oneshot::Receiver<(Reply, Reader)>), CallbackError> {
        let mut pending = self.pending.lock().expect("pending callbacks lock");
        if pending.waiting.len() >= PENDING_MAX {
            return Err(CallbackError::Busy);
        }
        pending.xid = pending.xid.wrapping_add(1);
        let xid = pending.xid;
        let (tx, rx) = oneshot::channel();
        pending.waiting.insert(xid, tx);
        Ok((xid, rx))
    }

    /// Hands an incoming reply to whoever waits for it; unknown ids are ignored.
    pub(super) fn answered(&self, xid: u32, reply: Reply, results: Reader) {
        let waiter = self.pending.lock().expect("pending callbacks lock").waiting.remove(&xid);
        if let Some(waiter) = waiter {
            // The waiter may have given up meanwhile.
            let _ = waiter.send((reply, results));
        }
    }

    /// Fails every waiting callback.
    pub(super) fn fail_pending(&self) {
        self.pending.lock().expect("pending callbacks lock").waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use tokio::sync::mpsc;
    use weft_state::ConnId;

    use super::*;
    use crate::rpc::hosts::{Hosts, ServerLimits};

    /// Both sides of the limit of callbacks that wait on one connection, and that an answer, or the
    /// end of the connection, makes room.
    #[tokio::test]
    async fn waiting_callbacks_are_bounded() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let (out, _queue) = mpsc::channel(1);
        let place = Hosts::new(ServerLimits::default()).enter(address.ip().into()).unwrap();
        let conn = Conn::new(ConnId(1), (address, address), None, out, place.replies());
        let conn = Arc::new(conn);
        let mut waiting: Vec<_> = (0..PENDING_MAX).map(|_| conn.register().unwrap()).collect();
        assert_eq!(conn.register().unwrap_err(), CallbackError::Busy);
        let (xid, answer) = waiting.remove(0);
        conn.answered(xid, Reply::Success, Reader::new(bytes::Bytes::new()));
        assert_eq!(answer.await.unwrap().0, Reply::Success);
        waiting.push(conn.register().unwrap());
        assert_eq!(conn.register().unwrap_err(), CallbackError::Busy);
        conn.fail_pending();
        assert!(waiting.pop().unwrap().1.await.is_err());
        conn.register().unwrap();
    }
}
