//! The two tasks of a connection: one sends, one receives.

use std::{io, sync::Arc};

use bytes::Bytes;
use tokio::{
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};
use weft_io::{OpenRecords, Received, RecordReader, RecordSender, SealRecords};
use weft_xdr::{
    Decode, Reader, Segment, Writer,
    rpc::{CallHeader, Message, Reply},
};

use super::{
    call_table::CallTable,
    direct_placement::{self, Answer, Placed},
    error::RpcError,
    message::{IncomingCall, Outgoing},
};

/// Messages taken off the queue at a time.
const BATCH: usize = 16;

/// Sends messages in order until the queue ends, or the connection does. Small messages that wait
/// together leave together.
pub(super) async fn send_all(
    socket: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Outgoing>,
    calls: Arc<CallTable>,
    mut seal: Option<Box<dyn SealRecords>>,
) {
    let mut sender = RecordSender::new(socket);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let count = tokio::select! {
            count = queue.recv_many(&mut batch, BATCH) => count,
            // The receiver has given up: what it could not read must not go on coming.
            () = calls.closed() => 0,
        };
        if count == 0 {
            return;
        }
        for message in &mut batch {
            let Some(seal) = &mut seal else { break };
            match seal.seal(std::mem::take(&mut message.segments)) {
                Ok(sealed) => message.segments = vec![Segment::Bytes(sealed)],
                Err(e) => return calls.close(RpcError::lost(e)),
            }
        }
        let alone = batch.iter().any(Outgoing::has_file);
        if !alone {
            let records = batch.drain(..).map(|m| m.segments).collect();
            if let Err(e) = sender.send_batch(records).await {
                return calls.close(RpcError::lost(e));
            }
        }
        for message in batch.drain(..) {
            let Err(e) = sender.send(message.segments).await else { continue };
            // A call whose file range ended early was never complete: it is not executed.
            if let (Some(xid), true) = (message.xid, is_our_fault(&e)) {
                calls.complete(xid, Err(RpcError::Source(e.to_string().into())));
            }
            return calls.close(RpcError::lost(e));
        }
    }
}

/// Whether the error came from a file range that could not be read in full.
fn is_our_fault(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::UnexpectedEof
}

/// Receives replies and calls.
pub(super) struct Receiver {
    pub(super) calls: Arc<CallTable>,
    pub(super) replies: mpsc::WeakSender<Outgoing>,
    pub(super) incoming: Option<mpsc::Sender<IncomingCall>>,
    /// Of a secure connection.
    pub(super) open: Option<Box<dyn OpenRecords>>,
}

impl Receiver {
    /// Runs until the connection ends.
    pub(super) async fn run(mut self, mut records: RecordReader<OwnedReadHalf>) {
        let why = loop {
            if let Some(open) = &mut self.open {
                let record = match records.next().await {
                    Ok(Some(record)) => open.open(record),
                    Ok(None) => break RpcError::lost("closed by the peer"),
                    Err(e) => break RpcError::lost(e),
                };
                match record.map(|r| self.take(r, None)) {
                    Ok(Ok(())) => continue,
                    Ok(Err(e)) => break RpcError::lost(e),
                    Err(e) => break RpcError::lost(e),
                }
            }
            let place =
                |head: &[u8], len| direct_placement::target(head, len, |x| self.calls.placement(x));
            let taken = match records.next_or_place(place).await {
                Ok(Some(Received::Record(record))) => self.take(record, None),
                Ok(Some(Received::Placed { rest, at, placed })) => self.take(
                    direct_placement::without_payload(rest, at),
                    Some(placed.map_err(Arc::new)),
                ),
                Ok(None) => break RpcError::lost("closed by the peer"),
                Err(e) => break RpcError::lost(e),
            };
            if let Err(e) = taken {
                break RpcError::lost(e);
            }
        };
        self.calls.close(why);
    }

    fn take(&self, record: Bytes, placed: Option<Placed>) -> Result<(), weft_xdr::DecodeError> {
        let mut r = Reader::new(record);
        match Message::decode(&mut r)? {
            Message::Reply(xid, Reply::Success) => {
                self.calls.complete(xid, Ok(Answer { results: r, placed }));
            }
            Message::Reply(xid, refusal) => {
                self.calls.complete(xid, Err(RpcError::Refused(refusal)));
            }
            Message::Call(xid, header) => self.take_call(xid, header, r),
            Message::CallOfWrongVersion(xid) => self.answer(xid, &Reply::RpcMismatch),
        }
        Ok(())
    }

    fn take_call(&self, xid: u32, header: CallHeader, args: Reader) {
        let Some(to) = &self.incoming else {
            return self.answer(xid, &Reply::ProgUnavail);
        };
        let call = IncomingCall { header, args, xid, replies: self.replies.clone() };
        if to.try_send(call).is_err() {
            self.answer(xid, &Reply::SystemErr);
        }
    }

    /// Answers without waiting: the receiver never depends on the sender's progress. A reply
    /// that finds the queue full is dropped, as if the network had lost it.
    fn answer(&self, xid: u32, reply: &Reply) {
        let mut w = Writer::new();
        weft_xdr::rpc::reply(&mut w, xid, reply);
        if let Some(to) = self.replies.upgrade() {
            let _ = to.try_send(Outgoing { xid: None, segments: w.into_segments() });
        }
    }
}
