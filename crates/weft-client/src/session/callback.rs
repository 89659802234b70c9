//! The back channel: CB_SEQUENCE (RFC 8881 §20.9) and the recalls.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::mpsc;
use weft_nfs::{
    NfsStat, SequenceId, SessionId, SlotId,
    callback::{
        CB_OPS_MAX, CB_PROC_COMPOUND, CB_PROC_NULL, CB_VERSION, CbBody, CbCompoundHeader, CbOp,
        CbOpNum, CbReply, CbSequenceArgs, CbSequenceOk,
    },
};
use weft_xdr::{Decode, Reader, Segment, rpc::Reply};

use super::{inner::Inner, options::CallbackHandler};
use crate::{core::CB_PROGRAM, limits, rpc::IncomingCall};

/// One slot of the back channel: the reply of the request before, for replay.
#[derive(Default)]
struct BackSlot {
    last: Option<(SequenceId, Bytes)>,
}

/// The slots of the back channel, and the session that they are of.
#[derive(Default)]
struct BackSlots {
    session: Option<SessionId>,
    slots: [BackSlot; limits::BACK_SLOTS as usize],
}

impl BackSlots {
    /// The slots of this session. RFC 8881 §2.10.6.1: a session made anew, also over the same
    /// connection, begins its sequence ids anew, and what was answered before is no reply in it.
    fn of(&mut self, session: SessionId) -> &[BackSlot] {
        if self.session != Some(session) {
            *self = BackSlots { session: Some(session), ..BackSlots::default() };
        }
        &self.slots
    }
}

/// Answers callbacks that come over one connection until it ends. Requests of a session come
/// over one connection at a time, so the slots live as long as this task and session; a server
/// that moves to a new connection continues with the sequence ids it has, hence [`accept`].
pub(super) async fn serve(
    session: Weak<Inner>,
    handler: Arc<dyn CallbackHandler>,
    mut calls: mpsc::Receiver<IncomingCall>,
) {
    let mut slots = BackSlots::default();
    while let Some(mut call) = calls.recv().await {
        let Some(inner) = session.upgrade() else { return };
        let header = &call.header;
        if (header.program, header.version) != (CB_PROGRAM, CB_VERSION) {
            call.reply(Reply::ProgUnavail, Vec::new()).await;
            continue;
        }
        match header.procedure {
            CB_PROC_NULL => call.reply(Reply::Success, Vec::new()).await,
            CB_PROC_COMPOUND => match compound(&inner, &*handler, &mut slots, &mut call.args) {
                Some(body) => call.reply(Reply::Success, vec![Segment::Bytes(body)]).await,
                None => call.reply(Reply::GarbageArgs, Vec::new()).await,
            },
            _ => call.reply(Reply::ProcUnavail, Vec::new()).await,
        }
    }
}

/// Executes a CB_COMPOUND; none if its bytes cannot be read.
fn compound(
    inner: &Inner,
    handler: &dyn CallbackHandler,
    slots: &mut BackSlots,
    r: &mut Reader,
) -> Option<Bytes> {
    let header = CbCompoundHeader::decode(r).ok()?;
    if header.count as usize > CB_OPS_MAX {
        return Some(refusal(NfsStat::TOO_MANY_OPS));
    }
    if header.minorversion != inner.options.minorversion {
        return Some(refusal(NfsStat::MINOR_VERS_MISMATCH));
    }
    let mut used = None;
    let mut reply = CbReply { status: NfsStat::OK, results: Vec::new() };
    for index in 0..header.count {
        let op = CbOp::decode(r).ok()?;
        let mut body = CbBody::Empty;
        let (number, status) = match (&op, index) {
            (CbOp::Sequence(args), 0) => match accept(inner, slots, args) {
                Accept::New(ok) => {
                    used = Some((args.slotid, args.sequenceid));
                    body = CbBody::Sequence(ok);
                    (CbOpNum::CB_SEQUENCE, NfsStat::OK)
                }
                Accept::Replay(body) => return Some(body),
                Accept::Refused(status) => (CbOpNum::CB_SEQUENCE, status),
            },
            (CbOp::Sequence(_), _) => (CbOpNum::CB_SEQUENCE, NfsStat::SEQUENCE_POS),
            (CbOp::Layoutrecall(_), 0) => (CbOpNum::CB_LAYOUTRECALL, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::Getattr(_), 0) => (CbOpNum::CB_GETATTR, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::Recall(_), 0) => (CbOpNum::CB_RECALL, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::RecallAny(_), 0) => (CbOpNum::CB_RECALL_ANY, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::Offload(_), 0) => (CbOpNum::CB_OFFLOAD, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::NotifyLock(_), 0) => (CbOpNum::CB_NOTIFY_LOCK, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::Other(n), 0) => (*n, NfsStat::OP_NOT_IN_SESSION),
            (CbOp::Layoutrecall(a), _) => (CbOpNum::CB_LAYOUTRECALL, handler.cb_layoutrecall(a)),
            (CbOp::Recall(a), _) => (CbOpNum::CB_RECALL, handler.cb_recall(a)),
            (CbOp::RecallAny(a), _) => (CbOpNum::CB_RECALL_ANY, handler.cb_recall_any(a)),
            (CbOp::Getattr(a), _) => match handler.cb_getattr(a) {
                Ok(attrs) => {
                    body = CbBody::Getattr(Box::new(attrs));
                    (CbOpNum::CB_GETATTR, NfsStat::OK)
                }
                Err(status) => (CbOpNum::CB_GETATTR, status),
            },
            // We start no operation that ends in a callback.
            (CbOp::Offload(_), _) => (CbOpNum::CB_OFFLOAD, NfsStat::BAD_STATEID),
            (CbOp::NotifyLock(a), _) => (CbOpNum::CB_NOTIFY_LOCK, handler.cb_notify_lock(a)),
            (CbOp::Other(n), _) => (*n, NfsStat::NOTSUPP),
        };
        reply.status = status;
        reply.results.push((number, status, body));
        if status != NfsStat::OK {
            break;
        }
    }
    let body = weft_xdr::to_bytes(&reply);
    if let Some((slot, sequence)) = used
        && let Some(slot) = slots.slots.get_mut(slot.0 as usize)
    {
        slot.last = Some((sequence, body.clone()));
    }
    Some(body)
}

enum Accept {
    New(CbSequenceOk),
    Replay(Bytes),
    Refused(NfsStat),
}

fn accept(inner: &Inner, slots: &mut BackSlots, args: &CbSequenceArgs) -> Accept {
    if inner.core().session_id() != Some(args.sessionid) {
        return Accept::Refused(NfsStat::BADSESSION);
    }
    let Some(slot) = slots.of(args.sessionid).get(args.slotid.0 as usize) else {
        return Accept::Refused(NfsStat::BADSLOT);
    };
    match &slot.last {
        Some((last, body)) if *last == args.sequenceid => return Accept::Replay(body.clone()),
        Some((last, _)) if last.next() != args.sequenceid => {
            return Accept::Refused(NfsStat::SEQ_MISORDERED);
        }
        // Nothing seen yet of this session on this connection: wherever the server is, we follow.
        _ => {}
    }
    let highest = SlotId(limits::BACK_SLOTS - 1);
    Accept::New(CbSequenceOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: highest,
        target_highest_slotid: highest,
    })
}

fn refusal(status: NfsStat) -> Bytes {
    weft_xdr::to_bytes(&CbReply { status, results: Vec::new() })
}
