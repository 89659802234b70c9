//! The task of a connection that receives.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{net::tcp::OwnedReadHalf, sync::mpsc};
use weft_io::{OpenRecords, Received, RecordReader};
use weft_xdr::{
    Decode, Reader, Writer,
    rpc::{CallHeader, Message, Reply},
};

use super::{
    call_table::CallTable,
    direct_placement::{self, Answer, Placed},
    error::RpcError,
    message::{IncomingCall, Outgoing},
};

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
