//! Decoding a COMPOUND, running its operations one by one, and building the reply.

use std::sync::Arc;

use bytes::Bytes;
use weft_nfs::{
    CompoundArgsHeader, NFS_PROGRAM, NFS_V4, NfsStat, OpArgs, OpNum, OpOk, OpReply, PROC_COMPOUND,
};
use weft_state::{Envelope, SequenceOutcome};
use weft_xdr::{Decode, DecodeError, Encode, Reader, Segment, Writer};

use super::{Compound, OpResult, Role, session_ops};
use crate::{
    op_table::{self, Place},
    refusal::refused,
    rpc::{Answer, AnswerFuture, Call, Conn, Program},
};

/// Results built so far may exceed what a slot caches; beyond this many bytes they are not kept
/// for replay unless the client asked for it.
const UNASKED_CACHE_BYTES_MAX: usize = 512;

/// Bytes of the RPC header of a reply (transaction id, type, acceptance with an empty verifier),
/// which the limits of a channel include (RFC 8881 §18.36.3).
const RPC_REPLY_BYTES: usize = 24;

/// Bytes of a successful SEQUENCE: number, status, session id, five numbers (RFC 8881 §18.46.2).
const SEQUENCE_RESULT_BYTES: usize = 44;

/// What the state of a call may take, bytes: it is made and moved for each. Rare steps that need
/// much go into boxes of their own.
const CALL_BYTES_MAX: usize = 8 << 10;

/// NFSv4 as an RPC program, for one role.
#[derive(Debug)]
pub struct Nfs<R>(Arc<R>);

impl<R: Role> Nfs<R> {
    /// The program served by this role.
    pub fn new(role: Arc<R>) -> Self {
        Nfs(role)
    }
}

impl<R: Role> Program for Nfs<R> {
    fn program(&self) -> u32 {
        NFS_PROGRAM
    }

    fn version(&self) -> u32 {
        NFS_V4
    }

    fn call(&self, call: Call) -> AnswerFuture<'_> {
        let answer = async move {
            if call.header.procedure != PROC_COMPOUND {
                return Answer::ProcUnavail;
            }
            let _under_way = self.0.core().counters.begin();
            compound(&*self.0, call).await
        };
        debug_assert!(size_of_val(&answer) <= CALL_BYTES_MAX, "{} bytes", size_of_val(&answer));
        Box::pin(answer)
    }

    fn holds(&self, conn: &Conn) -> bool {
        self.0.core().sessions().is_conn_bound(conn.id)
    }

    fn closed(&self, conn: &Conn) {
        self.0.core().sessions().conn_closed(conn.id);
    }
}

/// The reply under construction.
struct Results {
    tag: weft_nfs::Opaque,
    status: NfsStat,
    count: usize,
    body: Writer,
}

impl Results {
    fn new(tag: weft_nfs::Opaque) -> Self {
        Results { tag, status: NfsStat::OK, count: 0, body: Writer::new() }
    }

    /// Bytes of the whole reply if nothing were added.
    fn len(&self) -> usize {
        12 + self.tag.0.len().next_multiple_of(4) + self.body.len()
    }

    fn push(&mut self, op: OpNum, status: NfsStat, encoded: Writer) {
        debug_assert!(!encoded.is_empty(), "{op} has a status");
        self.status = status;
        self.count += 1;
        self.body.append(encoded.into_segments());
    }

    fn finish(self) -> Vec<Segment> {
        let mut w = Writer::new();
        self.status.encode(&mut w);
        self.tag.encode(&mut w);
        w.count(self.count);
        w.append(self.body.into_segments());
        w.into_segments()
    }
}

async fn compound<R: Role>(role: &R, call: Call) -> Answer {
    let mut args = call.args;
    let digest = digest(&args);
    let Ok(head) = CompoundArgsHeader::decode(&mut args) else { return Answer::GarbageArgs };
    if head.count == 0 && args.finish().is_err() {
        return Answer::GarbageArgs;
    }
    let mut results = Results::new(head.tag);
    // RFC 8881 §16.2.3: the tag is UTF-8.
    if std::str::from_utf8(&results.tag.0).is_err() {
        results.status = NfsStat::INVAL;
        return Answer::Results(results.finish(), Vec::new());
    }
    if !(1..=2).contains(&head.minorversion) {
        results.status = NfsStat::MINOR_VERS_MISMATCH;
        return Answer::Results(results.finish(), Vec::new());
    }
    let mut c = Compound {
        now: role.core().clock.now(),
        view: role.view(&call.conn),
        conn: call.conn,
        caller: role.caller(call.caller).await,
        minorversion: head.minorversion,
        session: None,
        current: None,
        saved: None,
        current_stateid: None,
        saved_stateid: None,
        opened: false,
        next: None,
        deps: R::Deps::default(),
        reply_budget: Vec::new(),
    };
    let envelope = Envelope {
        request_bytes: call.request_bytes,
        reply_bytes_min: RPC_REPLY_BYTES + results.len() + SEQUENCE_RESULT_BYTES,
        op_count: usize::try_from(head.count).unwrap_or(usize::MAX),
        digest,
    };
    let request = Request { count: head.count, envelope };
    match run(role, &mut c, &request, &mut args, &mut results).await {
        Run::Done => {}
        Run::Replay(reply) => return Answer::Results(vec![Segment::Bytes(reply)], Vec::new()),
    }
    if let Err(status) = role.durable(&c).await {
        tracing::error!(%status, "the store is broken: no reply can be given");
        if let Some(session) = &c.session {
            role.core().sessions().complete(session, None);
        }
        return Answer::Close;
    }
    let reply = results.finish();
    if let Some(session) = &c.session {
        role.core().sessions().complete(session, cacheable(session, &reply));
    }
    Answer::Results(reply, c.reply_budget)
}

/// What is known of a request beside its operations.
struct Request {
    count: u32,
    envelope: Envelope,
}

enum Run {
    Done,
    Replay(Bytes),
}

async fn run<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    request: &Request,
    args: &mut Reader,
    results: &mut Results,
) -> Run {
    for index in 0..request.count {
        // The number may be beyond the end of the request; then there is none to echo.
        let number = OpNum::decode(&mut args.clone()).ok();
        let unknown = number.is_some_and(|op| op_table::row(op, c.minorversion).is_none());
        let is_last = index.saturating_add(1) == request.count;
        let (op, result) = match decode(args, is_last) {
            // What follows a number that this minor version does not have means nothing.
            Err(_) if unknown => (OpNum::ILLEGAL, Err(NfsStat::OP_ILLEGAL.into())),
            Err(e) => {
                tracing::debug!(error = %e, "malformed operation");
                (number.unwrap_or(OpNum::ILLEGAL), Err(NfsStat::BADXDR.into()))
            }
            Ok(op_args) => {
                let op = op_args.op();
                let more = index.saturating_add(1) < request.count;
                c.next = more.then(|| OpNum::decode(&mut args.clone()).ok()).flatten();
                let admitted = gate(c, &op_args, index, request.count)
                    .and_then(|()| room_for_change(c, op, results.len()));
                match admitted {
                    Err(status) if status == NfsStat::OP_ILLEGAL => {
                        (OpNum::ILLEGAL, Err(status.into()))
                    }
                    Err(status) => (op, Err(status.into())),
                    Ok(()) => match one(role, c, request, op_args).await {
                        Ok(result) => (op, result),
                        Err(Replay(reply)) => return Run::Replay(reply),
                    },
                }
            }
        };
        role.core().counters.operation(op);
        if !add(c, results, op, result) {
            break;
        }
    }
    Run::Done
}

/// One operation. Bytes after the last one make it malformed, before it is executed (BADXDR,
/// RFC 8881 §15.1.1.1). The arguments of one that is not built are not read, so nobody can tell.
fn decode(args: &mut Reader, is_last: bool) -> Result<OpArgs, DecodeError> {
    let op = OpArgs::decode(args)?;
    if is_last && !matches!(op, OpArgs::Unread(_)) {
        args.finish()?;
    }
    Ok(op)
}

/// The request is a retry: this is its reply.
struct Replay(Bytes);

/// Adds a result; `false` when the COMPOUND ends with it. A result that does not fit the reply
/// the client allowed for becomes REP_TOO_BIG (RFC 8881 §2.10.6.4).
fn add<R: Role>(c: &Compound<R>, results: &mut Results, op: OpNum, result: OpResult) -> bool {
    let mut reply = OpReply { op, result };
    let mut encoded = Writer::new();
    reply.encode(&mut encoded);
    if let Some(status) = too_big(c, results.len() + encoded.len()) {
        reply.result = Err(status.into());
        encoded = Writer::new();
        reply.encode(&mut encoded);
    }
    let status = reply.status();
    if !op_table::may_answer(op, status) {
        tracing::error!(%op, %status, "an answer that the operation's row does not have");
        debug_assert!(false, "{op} may not answer {status}");
    }
    results.push(op, status, encoded);
    status == NfsStat::OK
}

/// Refuses, before it is done, a change whose result might not fit the reply.
fn room_for_change<R: Role>(c: &Compound<R>, op: OpNum, len: usize) -> Result<(), NfsStat> {
    let result = if op_table::changes(op) { op_table::CHANGE_RESULT_BYTES_MAX } else { 0 };
    too_big(c, len + result).filter(|_| result > 0).map_or(Ok(()), Err)
}

fn too_big<R: Role>(c: &Compound<R>, len: usize) -> Option<NfsStat> {
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

/// Whether the operation may stand here (RFC 8881 §2.10.6.1.1, §16.2.3).
fn gate<R: Role>(c: &Compound<R>, args: &OpArgs, index: u32, count: u32) -> Result<(), NfsStat> {
    let row = op_table::row(args.op(), c.minorversion).ok_or(NfsStat::OP_ILLEGAL)?;
    let in_session = c.session.is_some();
    // §18.37.3: a COMPOUND destroys its own session last.
    if let (OpArgs::DestroySession(a), Some(own)) = (args, &c.session)
        && a.sessionid == own.sessionid
        && index.saturating_add(1) < count
    {
        return Err(NfsStat::NOT_ONLY_OP);
    }
    match row.place {
        Place::Sequence if index > 0 => Err(NfsStat::SEQUENCE_POS),
        Place::Sequence => Ok(()),
        Place::InSession if !in_session => Err(NfsStat::OP_NOT_IN_SESSION),
        Place::InSession => Ok(()),
        Place::AloneOrInSession if in_session => Ok(()),
        Place::Alone | Place::AloneOrInSession if in_session || count > 1 => {
            Err(NfsStat::NOT_ONLY_OP)
        }
        Place::Alone | Place::AloneOrInSession => Ok(()),
    }?;
    if R::SERVER.builds(row.op) { Ok(()) } else { Err(NfsStat::NOTSUPP) }
}

async fn one<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    request: &Request,
    args: OpArgs,
) -> Result<OpResult, Replay> {
    match args {
        OpArgs::Sequence(a) => {
            let envelope = &request.envelope;
            let outcome = role.core().sessions().sequence(c.now, &a, c.conn.id, envelope);
            match outcome {
                SequenceOutcome::New(in_session) => {
                    let ok = in_session.ok.clone();
                    c.session = Some(in_session);
                    Ok(Ok(OpOk::Sequence(ok)))
                }
                SequenceOutcome::Replay(reply) => Err(Replay(reply)),
                SequenceOutcome::Refused(r) => Ok(Err(refused(r))),
            }
        }
        args => Ok(session_ops::execute(role, c, args).await),
    }
}

/// A reply kept for replay: one that the client asked to keep, or that costs next to nothing.
fn cacheable(session: &weft_state::InSession, reply: &[Segment]) -> Option<Bytes> {
    let len: usize = reply.iter().map(Segment::len).sum();
    let limit = if session.cachethis { session.cached_bytes_max } else { UNASKED_CACHE_BYTES_MAX };
    if len > limit {
        return None;
    }
    let mut w = Writer::new();
    for s in reply {
        match s {
            Segment::Bytes(b) => w.raw(b),
            // File contents may change before a replay; such replies are READs, which clients
            // do not ask to keep.
            Segment::File(_) => return None,
        }
    }
    Some(w.into_bytes())
}

/// A fingerprint of the request: the same slot and sequence id with another request is a false
/// retry (RFC 8881 §2.10.6.1.3.1). It covers the length and every byte but the inside of a large
/// request, which is a payload.
fn digest(args: &Reader) -> u64 {
    let all = args.clone().rest();
    let start = mixed(0xcbf2_9ce4_8422_2325, all.len() as u64);
    let digest = if all.len() <= 2 * DIGEST_PART_BYTES {
        folded(start, &all)
    } else {
        let (head, _) = all.split_at(DIGEST_PART_BYTES);
        let (_, tail) = all.split_at(all.len() - DIGEST_PART_BYTES);
        folded(folded(start, head), tail)
    };
    // 0 would mean that it is not known.
    digest.max(1)
}

/// FNV-1a by words of eight bytes: a client has nothing to gain by collisions with itself, and
/// this takes a quarter of a nanosecond a byte. Every step is reversible, so that requests that
/// differ in one word never collide.
fn folded(digest: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let digest = words
        .by_ref()
        .fold(digest, |h, word| word.try_into().map_or(h, |w| mixed(h, u64::from_be_bytes(w))));
    words.remainder().iter().fold(digest, |h, byte| mixed(h, u64::from(*byte)))
}

fn mixed(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29)
}

/// Of a larger request, this many bytes at either end are part of the fingerprint.
const DIGEST_PART_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        digest(&Reader::new(Bytes::copy_from_slice(bytes)))
    }

    /// Any byte of a small request counts, and both ends and the length of a large one.
    #[test]
    fn digests_tell_requests_apart() {
        for len in [1, 100, 2 * DIGEST_PART_BYTES, 2 * DIGEST_PART_BYTES + 1, 100_000] {
            let whole = vec![7; len];
            assert_eq!(of(&whole), of(&whole));
            assert_ne!(of(&whole), of(&whole[1..]));
            let ends = (0..len).filter(|at| (*at).min(len - 1 - at) < DIGEST_PART_BYTES);
            for at in ends.step_by(61).chain([len - 1]) {
                let mut other = whole.clone();
                other[at] ^= 1;
                assert_ne!(of(&whole), of(&other), "byte {at} of {len}");
            }
        }
    }
}
