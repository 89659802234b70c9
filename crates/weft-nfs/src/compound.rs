//! COMPOUND: RFC 8881 §16.2. Operations are decoded one at a time, since everything after the
//! first failing one is ignored, whatever it is.

use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

use crate::attr::Bitmap;
use crate::basic::Opaque;
use crate::op_num::OpNum;
use crate::operations::OpOk;
use crate::ops::{CopyRequirements, LockDenied};
use crate::status::NfsStat;

/// Most operations accepted in one COMPOUND; Linux sends at most 8 at a time.
pub const COMPOUND_OPS_MAX: usize = 64;

xdr_struct! {
    /// Head of `COMPOUND4args`; `count` operations follow.
    pub struct CompoundArgsHeader {
        /// Echoed in the reply.
        pub tag: Opaque,
        /// 1 or 2.
        pub minorversion: u32,
        /// Operations that follow.
        pub count: u32,
    }
}

/// A refused operation: its status and, where the RFC gives that status a body, the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Why the operation failed; never OK.
    pub status: NfsStat,
    /// What the reply carries beside the status.
    pub body: FailureBody,
}

/// What goes with some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureBody {
    /// The status says all.
    None,
    /// LOCK, LOCKT with DENIED: the lock in the way.
    Denied(LockDenied),
    /// LAYOUTGET with LAYOUTTRYLATER: whether the server will signal.
    WillSignal(bool),
    /// GETDEVICEINFO with TOOSMALL: bytes needed.
    Mincount(u32),
    /// COPY with OFFLOAD_NO_REQS: which requirement can be met.
    Requirements(CopyRequirements),
}

impl From<NfsStat> for Failure {
    fn from(status: NfsStat) -> Self {
        Failure { status, body: FailureBody::None }
    }
}

/// One element of the result array.
#[derive(Debug, Clone)]
pub struct OpReply {
    /// Which operation was executed.
    pub op: OpNum,
    /// How it went.
    pub result: Result<OpOk, Failure>,
}

impl OpReply {
    /// The operation's status.
    pub fn status(&self) -> NfsStat {
        match &self.result {
            Ok(_) => NfsStat::OK,
            Err(f) => f.status,
        }
    }
}

impl Encode for OpReply {
    fn encode(&self, w: &mut Writer) {
        self.op.encode(w);
        self.status().encode(w);
        match &self.result {
            Ok(ok) => ok.encode_body(w),
            Err(f) => encode_failure(self.op, f, w),
        }
    }
}

fn encode_failure(op: OpNum, f: &Failure, w: &mut Writer) {
    match (op, f.status) {
        // SETATTR4res has its bitmap whatever the status (§18.30.2).
        (OpNum::SETATTR, _) => Bitmap::EMPTY.encode(w),
        (OpNum::LAYOUTGET, NfsStat::LAYOUTTRYLATER) => {
            w.bool(f.body == FailureBody::WillSignal(true));
        }
        (OpNum::GETDEVICEINFO, NfsStat::TOOSMALL) => {
            w.u32(if let FailureBody::Mincount(n) = f.body { n } else { 0 });
        }
        (OpNum::COPY, NfsStat::OFFLOAD_NO_REQS) => match &f.body {
            FailureBody::Requirements(r) => r.encode(w),
            _ => unreachable!("OFFLOAD_NO_REQS always says what can be had"),
        },
        (OpNum::LOCK | OpNum::LOCKT, NfsStat::DENIED) => match &f.body {
            FailureBody::Denied(d) => d.encode(w),
            _ => unreachable!("DENIED always names the lock in the way"),
        },
        _ => {}
    }
}

impl Decode for OpReply {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("nfs_resop4");
        let op = OpNum::decode(r)?;
        let status = NfsStat::decode(r)?;
        if status == NfsStat::OK {
            return Ok(OpReply { op, result: Ok(OpOk::decode_body(op, r)?) });
        }
        let body = match (op, status) {
            (OpNum::SETATTR, _) => {
                Bitmap::decode(r)?;
                FailureBody::None
            }
            (OpNum::LAYOUTGET, NfsStat::LAYOUTTRYLATER) => FailureBody::WillSignal(r.bool()?),
            (OpNum::GETDEVICEINFO, NfsStat::TOOSMALL) => FailureBody::Mincount(r.u32()?),
            (OpNum::COPY, NfsStat::OFFLOAD_NO_REQS) => {
                FailureBody::Requirements(CopyRequirements::decode(r)?)
            }
            (OpNum::LOCK | OpNum::LOCKT, NfsStat::DENIED) => {
                FailureBody::Denied(LockDenied::decode(r)?)
            }
            _ => FailureBody::None,
        };
        Ok(OpReply { op, result: Err(Failure { status, body }) })
    }
}

/// `COMPOUND4res` as a client reads it.
#[derive(Debug, Clone)]
pub struct CompoundReply {
    /// Status of the last operation executed.
    pub status: NfsStat,
    /// Tag of the request, echoed.
    pub tag: Opaque,
    /// Results, one for every operation executed.
    pub results: Vec<OpReply>,
}
impl Decode for CompoundReply {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("COMPOUND4res");
        Ok(CompoundReply {
            status: NfsStat::decode(r)?,
            tag: Opaque::decode(r)?,
            results: r.array(COMPOUND_OPS_MAX)?,
        })
    }
}
impl Encode for CompoundReply {
    fn encode(&self, w: &mut Writer) {
        self.status.encode(w);
        self.tag.encode(w);
        w.array(&self.results);
    }
}

/// Writes the head of a COMPOUND; the operations are encoded after it.
pub fn encode_compound_header(w: &mut Writer, tag: &str, minorversion: u32, count: usize) {
    w.opaque(tag.as_bytes());
    w.u32(minorversion);
    w.count(count);
}
