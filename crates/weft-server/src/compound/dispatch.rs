//! A COMPOUND from its arguments to its reply: its operations are executed one by one, up to the
//! first that fails (RFC 8881 §16.2.3).

use std::sync::Arc;

use bytes::Bytes;
use weft_nfs::{CompoundArgsHeader, NfsStat, OpArgs, OpOk};
use weft_state::{Envelope, SequenceOutcome};
use weft_xdr::{Decode, Segment};

use super::{
    Compound, OpResult, Role,
    decode::Operations,
    fingerprint,
    gate::{self, Standing},
    reply::{self, Results},
    session_ops,
};
use crate::{
    op_table::Row,
    refusal::refused,
    rpc::{Answer, Call, Caller, Conn},
};

/// Answers a call of COMPOUND.
pub(super) async fn compound<R: Role>(role: &R, call: Call) -> Answer {
    let mut args = call.args;
    let digest = fingerprint::digest(&args);
    let Ok(head) = CompoundArgsHeader::decode(&mut args) else { return Answer::GarbageArgs };
    if head.count == 0 && args.finish().is_err() {
        return Answer::GarbageArgs;
    }
    let checked = check(&head);
    let mut results = Results::new(head.tag);
    if let Err(status) = checked {
        return Answer::Results(results.refused(status), Vec::new());
    }
    let mut c = begin(role, call.conn, call.caller, head.minorversion).await;
    let envelope = Envelope {
        request_bytes: call.request_bytes,
        reply_bytes_min: results.bytes_min(),
        op_count: usize::try_from(head.count).unwrap_or(usize::MAX),
        digest,
    };
    let operations = Operations::new(args, head.minorversion, head.count);
    match run(role, &mut c, &envelope, operations, &mut results).await {
        Ok(()) => finish(role, c, results).await,
        Err(Replay(reply)) => Answer::Results(vec![Segment::Bytes(reply)], Vec::new()),
    }
}

/// What is wrong with a request whatever its operations.
///
/// # Errors
/// INVAL, MINOR_VERS_MISMATCH.
fn check(head: &CompoundArgsHeader) -> Result<(), NfsStat> {
    // RFC 8881 §16.2.3: the tag is UTF-8.
    if std::str::from_utf8(&head.tag.0).is_err() {
        return Err(NfsStat::INVAL);
    }
    if (1..=2).contains(&head.minorversion) { Ok(()) } else { Err(NfsStat::MINOR_VERS_MISMATCH) }
}

/// A COMPOUND none of whose operations was executed yet.
async fn begin<R: Role>(
    role: &R,
    conn: Arc<Conn>,
    caller: Caller,
    minorversion: u32,
) -> Compound<R> {
    let view = role.view(&conn, &caller);
    Compound {
        now: role.core().clock.now(),
        view,
        conn,
        caller: role.caller(view, caller).await,
        minorversion,
        session: None,
        current: None,
        saved: None,
        current_stateid: None,
        saved_stateid: None,
        opened: false,
        committed_writes: false,
        next: None,
        deps: R::Deps::default(),
        reply_budget: Vec::new(),
    }
}

/// The request is a retry: this is its reply.
struct Replay(Bytes);

/// Executes operations up to the first that fails.
async fn run<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    envelope: &Envelope,
    mut operations: Operations,
    results: &mut Results,
) -> Result<(), Replay> {
    let count = operations.count();
    while let Some(operation) = operations.take() {
        let row = operation.row;
        c.next = operations.next();
        let at = Standing { index: operation.index, count, reply_bytes: results.len() };
        let admitted =
            operation.args.and_then(|args| gate::admit(c, row, &args, at).map(|()| args));
        let result = match admitted {
            Ok(args) => execute(role, c, envelope, row, args).await?,
            Err(status) => Err(status.into()),
        };
        role.core().counters.operation(row.op);
        if !results.add(c, row, result) {
            break;
        }
    }
    Ok(())
}

/// Executes one operation that may stand where it does.
async fn execute<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    envelope: &Envelope,
    row: &'static Row,
    args: OpArgs,
) -> Result<OpResult, Replay> {
    let OpArgs::Sequence(a) = args else {
        return Ok(session_ops::execute(role, c, row, args).await);
    };
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

/// The answer, once what it depends on is durable; the slot keeps it for a retry.
async fn finish<R: Role>(role: &R, c: Compound<R>, results: Results) -> Answer {
    if let Err(status) = role.durable(&c).await {
        tracing::error!(%status, "the store is broken: no reply can be given");
        if let Some(session) = &c.session {
            role.core().complete(session, None);
        }
        return Answer::Close;
    }
    let reply = results.finish();
    if let Some(session) = &c.session {
        role.core().complete(session, reply::cacheable(session, &reply));
    }
    Answer::Results(reply, c.reply_budget)
}
