//! Callbacks: RFC 8881 §20. The server is the caller; the client answers.

use weft_xdr::{
    Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_named, xdr_struct,
};

use crate::attr::{AttrNo, Attrs, Bitmap};
use crate::basic::{
    FileHandle, Fsid, IoMode, LayoutType, Opaque, SequenceId, SessionId, SlotId, StateOwner,
    Stateid,
};
use crate::op_args::op_args;
use crate::ops::WriteResponse;
use crate::program::TAG_BYTES_MAX;
use crate::status::NfsStat;

/// Callback program version.
pub const CB_VERSION: u32 = 1;
/// Procedure CB_NULL.
pub const CB_PROC_NULL: u32 = 0;
/// Procedure CB_COMPOUND.
pub const CB_PROC_COMPOUND: u32 = 1;
/// Most operations in a callback.
pub const CB_OPS_MAX: usize = 8;

xdr_named! {
    /// Callback operation numbers.
    pub struct CbOpNum {
        CB_GETATTR = 3,
        CB_RECALL = 4,
        CB_LAYOUTRECALL = 5,
        CB_NOTIFY = 6,
        CB_PUSH_DELEG = 7,
        CB_RECALL_ANY = 8,
        CB_RECALLABLE_OBJ_AVAIL = 9,
        CB_RECALL_SLOT = 10,
        CB_SEQUENCE = 11,
        CB_WANTS_CANCELLED = 12,
        CB_NOTIFY_LOCK = 13,
        CB_NOTIFY_DEVICEID = 14,
        CB_OFFLOAD = 15,
        CB_ILLEGAL = 10044,
    }
}

xdr_struct! {
    /// CB_SEQUENCE (11), §20.9. No referring calls are sent.
    #[derive(Copy)]
    pub struct CbSequenceArgs {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// Sequence id of the request in its slot.
        pub sequenceid: SequenceId,
        /// Slot of the back channel.
        pub slotid: SlotId,
        /// Highest slot in use.
        pub highest_slotid: SlotId,
        /// Must be false for Linux.
        pub cachethis: bool,
        /// Referring call lists: always none.
        pub referring_call_lists: NoReferringCalls,
    }
}

/// An empty list of referring calls; incoming lists are read and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoReferringCalls;
impl Decode for NoReferringCalls {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        for _ in 0..r.length(64)? {
            SessionId::decode(r)?;
            for _ in 0..r.length(64)? {
                let _sequence_and_slot = (r.u32()?, r.u32()?);
            }
        }
        Ok(NoReferringCalls)
    }
}
impl Encode for NoReferringCalls {
    fn encode(&self, w: &mut Writer) {
        w.count(0);
    }
}

xdr_struct! {
    /// What CB_SEQUENCE returns when it succeeds.
    pub struct CbSequenceOk {
        /// Session of the request, echoed.
        pub sessionid: SessionId,
        /// Sequence id of the request, echoed.
        pub sequenceid: SequenceId,
        /// Slot of the request, echoed.
        pub slotid: SlotId,
        /// Highest slot the client accepts.
        pub highest_slotid: SlotId,
        /// Highest slot the client would like used.
        pub target_highest_slotid: SlotId,
    }
}

/// `layoutrecall4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutRecall {
    /// One file.
    File {
        /// Filehandle of the file.
        fh: FileHandle,
        /// Where the range begins: an offset in the file, in bytes.
        offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        length: u64,
        /// The layout, seqid one above the last the client saw.
        stateid: Stateid,
    },
    /// A file system.
    Fsid(Fsid),
    /// Every layout of the client.
    All,
}
impl Decode for LayoutRecall {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("layoutrecall4");
        match r.u32()? {
            1 => Ok(LayoutRecall::File {
                fh: FileHandle::decode(r)?,
                offset: r.u64()?,
                length: r.u64()?,
                stateid: Stateid::decode(r)?,
            }),
            2 => Ok(LayoutRecall::Fsid(Fsid::decode(r)?)),
            3 => Ok(LayoutRecall::All),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for LayoutRecall {
    fn encode(&self, w: &mut Writer) {
        match self {
            LayoutRecall::File { fh, offset, length, stateid } => {
                w.u32(1);
                fh.encode(w);
                w.u64(*offset);
                w.u64(*length);
                stateid.encode(w);
            }
            LayoutRecall::Fsid(fsid) => {
                w.u32(2);
                fsid.encode(w);
            }
            LayoutRecall::All => w.u32(3),
        }
    }
}

xdr_struct! {
    /// CB_LAYOUTRECALL (5), §20.3.
    pub struct CbLayoutrecallArgs {
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Layouts of which mode are recalled.
        pub iomode: IoMode,
        /// Whether new layouts will differ (clients then drain).
        pub changed: bool,
        /// One file, one file system, or everything.
        pub recall: LayoutRecall,
    }
}
xdr_struct! {
    /// CB_GETATTR (3), §20.1.
    pub struct CbGetattrArgs {
        /// Filehandle of the file.
        pub fh: FileHandle,
        /// Which attributes: `change` and `size`, of which the holder of a write delegation may
        /// know more than the server.
        pub request: Bitmap,
    }
}
xdr_struct! {
    /// CB_RECALL (4), §20.2.
    pub struct CbRecallArgs {
        /// Stateid of the delegation that is recalled.
        pub stateid: Stateid,
        /// Whether the file will be truncated.
        pub truncate: bool,
        /// Filehandle of the file.
        pub fh: FileHandle,
    }
}
xdr_struct! {
    /// CB_RECALL_ANY (8), §20.6.
    pub struct CbRecallAnyArgs {
        /// `craa_objects_to_keep`: how many may be kept.
        pub objects_to_keep: u32,
        /// `craa_type_mask`: of which sorts.
        pub type_mask: Bitmap,
    }
}
impl CbRecallAnyArgs {
    /// Whether delegations of files are meant: bits 0 and 1 (§20.6.3), those to read and to write.
    pub fn wants_delegations(&self) -> bool {
        [0, 1].into_iter().any(|bit| self.type_mask.contains(AttrNo(bit)))
    }
}
xdr_struct! {
    /// CB_NOTIFY_LOCK (13), §20.11.
    pub struct CbNotifyLockArgs {
        /// Filehandle of the file.
        pub fh: FileHandle,
        /// Lock owner that waits for the lock.
        pub lock_owner: StateOwner,
    }
}

/// `offload_info4`: how an offloaded operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadInfo {
    /// It is complete; `callback_id` is never there.
    Done(WriteResponse),
    /// The copy ended early.
    Failed {
        /// `coa_status`: never OK.
        status: NfsStat,
        /// `coa_bytes_copied`: bytes done before.
        bytes_copied: u64,
    },
}
impl Decode for OffloadInfo {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("offload_info4");
        Ok(match NfsStat::decode(r)? {
            NfsStat::OK => OffloadInfo::Done(WriteResponse::decode(r)?),
            status => OffloadInfo::Failed { status, bytes_copied: r.u64()? },
        })
    }
}
impl Encode for OffloadInfo {
    fn encode(&self, w: &mut Writer) {
        match self {
            OffloadInfo::Done(response) => {
                NfsStat::OK.encode(w);
                response.encode(w);
            }
            OffloadInfo::Failed { status, bytes_copied } => {
                status.encode(w);
                w.u64(*bytes_copied);
            }
        }
    }
}
xdr_struct! {
    /// CB_OFFLOAD (15), RFC 7862 §16.1.
    pub struct CbOffloadArgs {
        /// `coa_fh`: the destination.
        pub fh: FileHandle,
        /// `coa_stateid`: which operation.
        pub stateid: Stateid,
        /// `coa_offload_info`.
        pub info: OffloadInfo,
    }
}

op_args! {
    /// A callback operation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum CbOp, "nfs_cb_argop4" {
        CbOpNum::CB_SEQUENCE => Sequence(CbSequenceArgs),
        CbOpNum::CB_GETATTR => Getattr(CbGetattrArgs),
        CbOpNum::CB_LAYOUTRECALL => Layoutrecall(CbLayoutrecallArgs),
        CbOpNum::CB_RECALL => Recall(CbRecallArgs),
        CbOpNum::CB_RECALL_ANY => RecallAny(CbRecallAnyArgs),
        CbOpNum::CB_OFFLOAD => Offload(CbOffloadArgs),
        CbOpNum::CB_NOTIFY_LOCK => NotifyLock(CbNotifyLockArgs),
        /// One whose arguments are not read, so that it ends the COMPOUND: our client answers
        /// NOTSUPP.
        else Other(CbOpNum),
    }
}

xdr_struct! {
    /// Head of `CB_COMPOUND4args`.
    pub struct CbCompoundHeader {
        /// Tag of the request, which the reply echoes.
        pub tag: Opaque,
        /// Minor version of the session that the callback belongs to.
        pub minorversion: u32,
        /// Used by NFSv4.0 only; 0.
        pub callback_ident: u32,
        /// Number of operations that follow.
        pub count: u32,
    }
}

/// What a callback operation returned beside its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CbBody {
    /// Nothing: it failed, or has nothing to return.
    Empty,
    /// CB_SEQUENCE.
    Sequence(CbSequenceOk),
    /// CB_GETATTR.
    Getattr(Box<Attrs>),
}

/// The answer to a CB_COMPOUND: overall status, and each operation's number, status and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CbReply {
    /// Status of the last operation executed.
    pub status: NfsStat,
    /// Operations that were executed, each with its status.
    pub results: Vec<(CbOpNum, NfsStat, CbBody)>,
}
impl Decode for CbReply {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("CB_COMPOUND4res");
        let status = NfsStat::decode(r)?;
        let _tag = r.opaque(TAG_BYTES_MAX)?;
        let mut results = Vec::new();
        for _ in 0..r.length(CB_OPS_MAX)? {
            let (op, stat) = (CbOpNum::decode(r)?, NfsStat::decode(r)?);
            let body = match (op, stat) {
                (CbOpNum::CB_SEQUENCE, NfsStat::OK) => CbBody::Sequence(CbSequenceOk::decode(r)?),
                (CbOpNum::CB_GETATTR, NfsStat::OK) => CbBody::Getattr(Decode::decode(r)?),
                _ => CbBody::Empty,
            };
            results.push((op, stat, body));
        }
        Ok(CbReply { status, results })
    }
}
impl Encode for CbReply {
    fn encode(&self, w: &mut Writer) {
        self.status.encode(w);
        w.opaque(b"");
        w.count(self.results.len());
        for (op, stat, body) in &self.results {
            op.encode(w);
            stat.encode(w);
            match body {
                CbBody::Empty => {}
                CbBody::Sequence(ok) => ok.encode(w),
                CbBody::Getattr(attrs) => attrs.encode(w),
            }
        }
    }
}
