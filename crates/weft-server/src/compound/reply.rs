//! The reply of a COMPOUND: results one after another, within what the session allows.

use bytes::{Bytes, BytesMut};
use weft_nfs::{NfsStat, OpReply, Opaque};
use weft_state::InSession;
use weft_xdr::{Encode, Segment, Writer};

use super::{Compound, OpResult, Role};
use crate::op_table::Row;

/// Results built so far may exceed what a slot caches; beyond this many bytes they are not kept
/// for replay unless the client asked for it.
const UNASKED_CACHE_BYTES_MAX: usize = 512;

/// Bytes of the RPC header of a reply (transaction id, type, acceptance with an empty verifier),
/// which the limits of a channel include (RFC 8881 §18.36.3).
const RPC_REPLY_BYTES: usize = 24;

/// Bytes of a successful SEQUENCE: number, status, session id, five numbers (RFC 8881 §18.46.2).
const SEQUENCE_RESULT_BYTES: usize = 44;

/// The reply under construction.
pub(super) struct Results {
    tag: Opaque,
    status: NfsStat,
    count: usize,
    body: Writer,
}

impl Results {
    /// No results yet.
    pub(super) fn new(tag: Opaque) -> Self {
        Results { tag, status: NfsStat::OK, count: 0, body: Writer::new() }
    }

    /// The reply to a request none of whose operations is looked at.
    pub(super) fn refused(self, status: NfsStat) -> Vec<Segment> {
        Results { status, ..self }.finish()
    }

    /// Bytes of the whole reply if nothing were added.
    pub(super) fn len(&self) -> usize {
        12 + self.tag.0.len().next_multiple_of(4) + self.body.len()
    }

    /// Bytes of the whole reply, its RPC header included, if SEQUENCE were its only result.
    pub(super) fn bytes_min(&self) -> usize {
        RPC_REPLY_BYTES + self.len() + SEQUENCE_RESULT_BYTES
    }

    /// Adds a result; `false` when the COMPOUND ends with it. A result that does not fit the reply
    /// the client allowed for becomes REP_TOO_BIG (RFC 8881 §2.10.6.4).
    pub(super) fn add<R: Role>(&mut self, c: &Compound<R>, row: &Row, result: OpResult) -> bool {
        let mut reply = OpReply { op: row.op, result };
        let mut encoded = Writer::new();
        reply.encode(&mut encoded);
        if let Some(status) = too_big(c, self.len() + encoded.len()) {
            reply.result = Err(status.into());
            encoded = Writer::new();
            reply.encode(&mut encoded);
        }
        let status = reply.status();
        if !row.may_answer(status) {
            tracing::error!(op = %row.op, %status, "an answer that its row does not have");
            debug_assert!(false, "{} may not answer {status}", row.op);
        }
        self.status = status;
        self.count += 1;
        self.body.append(encoded.into_segments());
        status == NfsStat::OK
    }

    /// The reply.
    pub(super) fn finish(self) -> Vec<Segment> {
        let mut w = Writer::new();
        self.status.encode(&mut w);
        self.tag.encode(&mut w);
        w.count(self.count);
        w.append(self.body.into_segments());
        w.into_segments()
    }
}

/// Whether a reply of this many bytes is more than the session allows (RFC 8881 §2.10.6.4).
pub(super) fn too_big<R: Role>(c: &Compound<R>, len: usize) -> Option<NfsStat> {
    let session = c.session.as_ref()?;
    let len = len + RPC_REPLY_BYTES;
    if len > session.response_bytes_max {
        Some(NfsStat::REP_TOO_BIG)
    } else if session.cachethis && len > session.cached_bytes_max {
        Some(NfsStat::REP_TOO_BIG_TO_CACHE)
    } else {
        None
    }
}

/// A reply kept for replay: one that the client asked to keep, or that costs next to nothing.
pub(super) fn cacheable(session: &InSession, reply: &[Segment]) -> Option<Bytes> {
    let len: usize = reply.iter().map(Segment::len).sum();
    let limit = if session.cachethis { session.cached_bytes_max } else { UNASKED_CACHE_BYTES_MAX };
    if len > limit {
        return None;
    }
    // As long as the reply: it is kept as it is.
    let mut kept = BytesMut::with_capacity(len);
    for s in reply {
        match s {
            Segment::Bytes(b) => kept.extend_from_slice(b),
            // File contents may change before a replay; such replies are READs, which clients
            // do not ask to keep.
            Segment::File(_) => return None,
        }
    }
    Some(kept.freeze())
}
