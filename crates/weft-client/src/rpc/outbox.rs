//! The way out of a connection: a small message is sent by whoever has it, if nothing else is on
//! its way; everything else by a task.

use std::{io, sync::Arc};

use tokio::{net::tcp::OwnedWriteHalf, sync::mpsc};
use weft_io::{RecordSender, SealRecords};
use weft_xdr::Segment;

use super::{call_table::CallTable, error::RpcError, message::Outgoing};
use crate::{limits, sync::Mutex};

/// Messages taken off the queue at a time.
const BATCH: usize = 16;

/// Where messages go. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    idle: Arc<Mutex<Option<Socket>>>,
    calls: Arc<CallTable>,
}

/// The sending side of a connection, and its secret, if it has one.
#[derive(Debug)]
struct Socket {
    sender: RecordSender<OwnedWriteHalf>,
    seal: Option<Box<dyn SealRecords>>,
}

/// The task that sends what waits, in order, until the queue ends, or the connection does.
pub(super) struct Sender {
    queue: mpsc::Receiver<Outgoing>,
    /// The socket while nothing waits for it: at the task's end it is closed with it.
    idle: Arc<Mutex<Option<Socket>>>,
    calls: Arc<CallTable>,
}

impl Outbox {
    /// The way out over a socket, and the task that has to run for it.
    pub(super) fn over(
        socket: OwnedWriteHalf,
        seal: Option<Box<dyn SealRecords>>,
        calls: Arc<CallTable>,
    ) -> (Outbox, Sender) {
        let (to, queue) = mpsc::channel(limits::OUTGOING_QUEUE);
        let socket = Socket { sender: RecordSender::new(socket), seal };
        let idle = Arc::new(Mutex::new(Some(socket)));
        let outbox = Outbox { queue: to, idle: idle.clone(), calls: calls.clone() };
        (outbox, Sender { queue, idle, calls })
    }

    /// The queue, for who does not keep the connection open.
    pub(super) fn weak(&self) -> mpsc::WeakSender<Outgoing> {
        self.queue.downgrade()
    }

    /// Returns once the connection has ended.
    pub(super) async fn ended(&self) {
        self.queue.closed().await;
    }

    /// Sends a message, or puts it into the queue.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub(super) async fn send(&self, message: Outgoing) -> Result<(), RpcError> {
        let Some(message) = self.send_now(message) else { return Ok(()) };
        self.queue.send(message).await.map_err(|_| self.calls.why_closed())
    }

    /// Sends a message that is small, if nothing else waits; what was not sent comes back.
    fn send_now(&self, message: Outgoing) -> Option<Outgoing> {
        let waiting = self.queue.max_capacity() - self.queue.capacity();
        if waiting > 0 || message.has_file() || message.len() > limits::SENT_AT_ONCE_MAX {
            return Some(message);
        }
        // Nobody waits for somebody else's message to be sent.
        let mut idle = self.idle.try_lock();
        let Some(socket) = idle.as_deref_mut().and_then(Option::as_mut) else {
            return Some(message);
        };
        let sealed = socket.seal(message.segments);
        match sealed.and_then(|record| socket.sender.send_now(record)) {
            Ok(true) => {}
            // The task sends the rest first, whatever it finds in the queue.
            Ok(false) => drop(self.queue.try_send(Outgoing::nothing())),
            Err(e) => self.calls.close(RpcError::lost(e)),
        }
        None
    }
}

impl Socket {
    fn seal(&mut self, record: Vec<Segment>) -> io::Result<Vec<Segment>> {
        match &mut self.seal {
            Some(seal) => Ok(vec![Segment::Bytes(seal.seal(record)?)]),
            None => Ok(record),
        }
    }

    /// Sends all of them. On an error also the call whose fault it was, if it was one's.
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), (Option<u32>, io::Error)> {
        batch.retain(|message| !message.segments.is_empty());
        for message in batch.iter_mut() {
            let sealed = self.seal(std::mem::take(&mut message.segments));
            message.segments = sealed.map_err(|e| (None, e))?;
        }
        if !batch.iter().any(Outgoing::has_file) {
            let records = batch.drain(..).map(|message| message.segments).collect();
            return self.sender.send_batch(records).await.map_err(|e| (None, e));
        }
        for message in batch.drain(..) {
            let sent = self.sender.send(message.segments).await;
            sent.map_err(|e| (message.xid.filter(|_| is_our_fault(&e)), e))?;
        }
        Ok(())
    }
}

impl Sender {
    /// Runs until the queue ends, or the connection does.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let count = tokio::select! {
                count = self.queue.recv_many(&mut batch, BATCH) => count,
                // The receiver has given up: what it could not read must not go on coming.
                () = self.calls.closed() => 0,
            };
            // Nobody else takes it. Small messages that have waited together leave together.
            let socket = self.idle.lock().take();
            let Some(mut socket) = socket.filter(|_| count > 0) else { return };
            match socket.send(&mut batch).await {
                Ok(()) => *self.idle.lock() = Some(socket),
                Err((whose, e)) => {
                    // A call whose file range ended early was never complete: it is not executed.
                    if let Some(xid) = whose {
                        self.calls.complete(xid, Err(RpcError::Source(e.to_string().into())));
                    }
                    return self.calls.close(RpcError::lost(e));
                }
            }
        }
    }
}

/// Whether the error came from a file range that could not be read in full.
fn is_our_fault(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::UnexpectedEof
}
