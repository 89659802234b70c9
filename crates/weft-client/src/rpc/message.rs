//! Messages on their way: those to send, and calls that came.

use tokio::sync::mpsc;
use weft_xdr::{
    Reader, Segment, Writer,
    rpc::{CallHeader, Reply},
};

/// A message to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The call's transaction id; none for a reply.
    pub(super) xid: Option<u32>,
    /// The message without its record mark.
    pub(super) segments: Vec<Segment>,
}

impl Outgoing {
    /// No message: has what is left of another one sent.
    pub(super) fn nothing() -> Outgoing {
        Outgoing { xid: None, segments: Vec::new() }
    }

    /// Bytes of it.
    pub(super) fn len(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    pub(super) fn has_file(&self) -> bool {
        self.segments.iter().any(|s| matches!(s, Segment::File(_)))
    }
}

/// A call that came from the peer.
#[derive(Debug)]
pub struct IncomingCall {
    /// Program, version, procedure, credential.
    pub header: CallHeader,
    /// Stands at the arguments.
    pub args: Reader,
    pub(super) xid: u32,
    pub(super) replies: mpsc::WeakSender<Outgoing>,
}

impl IncomingCall {
    /// Answers the call; `results` follow the header of a [`Reply::Success`]. If the connection
    /// is gone the answer is dropped: the peer will call again.
    pub async fn reply(self, reply: Reply, results: Vec<Segment>) {
        let mut w = Writer::new();
        weft_xdr::rpc::reply(&mut w, self.xid, &reply);
        w.append(results);
        if let Some(to) = self.replies.upgrade() {
            let _ = to.send(Outgoing { xid: None, segments: w.into_segments() }).await;
        }
    }
}
