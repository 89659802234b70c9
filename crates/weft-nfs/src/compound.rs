//! COMPOUND: RFC 8881 §16.2. Operations are decoded one at a time, since everything after the
//! first failing one is ignored, whatever it is.

use weft_xdr::{
    Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_named, xdr_struct,
};

use crate::attr::Bitmap;
use crate::basic::Opaque;
use crate::ops::*;
use crate::status::NfsStat;

/// Most operations accepted in one COMPOUND; Linux sends at most 8 at a time.
pub const COMPOUND_OPS_MAX: usize = 64;

xdr_named! {
    /// Operation numbers.
    pub struct OpNum {
        ACCESS = 3,
        CLOSE = 4,
        COMMIT = 5,
        CREATE = 6,
        DELEGPURGE = 7,
        DELEGRETURN = 8,
        GETATTR = 9,
        GETFH = 10,
        LINK = 11,
        LOCK = 12,
        LOCKT = 13,
        LOCKU = 14,
        LOOKUP = 15,
        LOOKUPP = 16,
        NVERIFY = 17,
        OPEN = 18,
        OPENATTR = 19,
        OPEN_CONFIRM = 20,
        OPEN_DOWNGRADE = 21,
        PUTFH = 22,
        PUTPUBFH = 23,
        PUTROOTFH = 24,
        READ = 25,
        READDIR = 26,
        READLINK = 27,
        REMOVE = 28,
        RENAME = 29,
        RENEW = 30,
        RESTOREFH = 31,
        SAVEFH = 32,
        SECINFO = 33,
        SETATTR = 34,
        SETCLIENTID = 35,
        SETCLIENTID_CONFIRM = 36,
        VERIFY = 37,
        WRITE = 38,
        RELEASE_LOCKOWNER = 39,
        BACKCHANNEL_CTL = 40,
        BIND_CONN_TO_SESSION = 41,
        EXCHANGE_ID = 42,
        CREATE_SESSION = 43,
        DESTROY_SESSION = 44,
        FREE_STATEID = 45,
        GET_DIR_DELEGATION = 46,
        GETDEVICEINFO = 47,
        GETDEVICELIST = 48,
        LAYOUTCOMMIT = 49,
        LAYOUTGET = 50,
        LAYOUTRETURN = 51,
        SECINFO_NO_NAME = 52,
        SEQUENCE = 53,
        SET_SSV = 54,
        TEST_STATEID = 55,
        WANT_DELEGATION = 56,
        DESTROY_CLIENTID = 57,
        RECLAIM_COMPLETE = 58,
        ALLOCATE = 59,
        COPY = 60,
        COPY_NOTIFY = 61,
        DEALLOCATE = 62,
        IO_ADVISE = 63,
        LAYOUTERROR = 64,
        LAYOUTSTATS = 65,
        OFFLOAD_CANCEL = 66,
        OFFLOAD_STATUS = 67,
        READ_PLUS = 68,
        SEEK = 69,
        WRITE_SAME = 70,
        CLONE = 71,
        GETXATTR = 72,
        SETXATTR = 73,
        LISTXATTRS = 74,
        REMOVEXATTR = 75,
        ILLEGAL = 10044,
    }
}

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

macro_rules! operations {
    ($($(#[$m:meta])* $NUM:ident $Name:ident $(($args:ty))? => $(($ok:ty))?;)*) => {
        /// Arguments of one operation.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "one variant an operation, under the RFC's name")]
        pub enum OpArgs {
            $($Name $(($args))?,)*
            /// An operation whose arguments are not read: it is refused by its number.
            Unread(OpNum),
        }

        /// Successful result of one operation.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "one variant an operation, under the RFC's name")]
        #[allow(
            clippy::large_enum_variant,
            reason = "GETATTR is the commonest result: a box for each would cost more than the \
                      bytes, of which one result at a time is in memory"
        )]
        pub enum OpOk {
            $($Name $(($ok))?,)*
        }

        impl OpArgs {
            /// The operation's number.
            pub fn op(&self) -> OpNum {
                match self {
                    $(operations!(@pat OpArgs, $Name $(, $args)?) => OpNum::$NUM,)*
                    OpArgs::Unread(op) => *op,
                }
            }
        }

        /// Reads one operation: its number and, if it is one whose arguments are known, those.
        ///
        /// # Errors
        /// The peer's bytes are not that operation's arguments: BADXDR.
        pub fn decode_op(r: &mut Reader) -> Result<OpArgs, DecodeError> {
            r.label("nfs_argop4");
            let op = OpNum::decode(r)?;
            Ok(match op {
                $(OpNum::$NUM => operations!(@decode r, $Name $(, $args)?),)*
                other => OpArgs::Unread(other),
            })
        }

        /// Writes one operation: its number and arguments.
        pub fn encode_op_args(args: &OpArgs, w: &mut Writer) {
            args.op().encode(w);
            match args {
                $(operations!(@bind OpArgs, v, $Name $(, $args)?) => {
                    operations!(@encode v, w $(, $args)?)
                })*
                OpArgs::Unread(_) => {}
            }
        }

        impl OpOk {
            /// The operation's number.
            pub fn op(&self) -> OpNum {
                match self { $(operations!(@pat OpOk, $Name $(, $ok)?) => OpNum::$NUM,)* }
            }

            fn encode_body(&self, w: &mut Writer) {
                match self {
                    $(operations!(@bind OpOk, v, $Name $(, $ok)?) => {
                        operations!(@encode v, w $(, $ok)?)
                    })*
                }
            }

            fn decode_body(op: OpNum, r: &mut Reader) -> Result<OpOk, DecodeError> {
                Ok(match op {
                    $(OpNum::$NUM => operations!(@decode_ok r, $Name $(, $ok)?),)*
                    _ => return Err(r.error(DecodeErrorKind::Value)),
                })
            }
        }
    };
    (@pat $E:ident, $Name:ident) => { $E::$Name };
    (@pat $E:ident, $Name:ident, $t:ty) => { $E::$Name(_) };
    (@bind $E:ident, $v:ident, $Name:ident) => { $E::$Name };
    (@bind $E:ident, $v:ident, $Name:ident, $t:ty) => { $E::$Name($v) };
    (@encode $v:ident, $w:ident) => { () };
    (@encode $v:ident, $w:ident, $t:ty) => { $v.encode($w) };
    (@decode $r:ident, $Name:ident) => { OpArgs::$Name };
    (@decode $r:ident, $Name:ident, $t:ty) => { OpArgs::$Name(<$t>::decode($r)?) };
    (@decode_ok $r:ident, $Name:ident) => { OpOk::$Name };
    (@decode_ok $r:ident, $Name:ident, $t:ty) => { OpOk::$Name(<$t>::decode($r)?) };
}

operations! {
    ACCESS Access(AccessArgs) => (AccessOk);
    CLOSE Close(CloseArgs) => (StateidOk);
    COMMIT Commit(CommitArgs) => (CommitOk);
    CREATE Create(CreateArgs) => (CreateOk);
    DELEGRETURN Delegreturn(DelegreturnArgs) => ;
    GETATTR Getattr(GetattrArgs) => (GetattrOk);
    GETFH Getfh => (GetfhOk);
    LINK Link(LinkArgs) => (LinkOk);
    LOCK Lock(LockArgs) => (StateidOk);
    LOCKT Lockt(LocktArgs) => ;
    LOCKU Locku(LockuArgs) => (StateidOk);
    LOOKUP Lookup(LookupArgs) => ;
    LOOKUPP Lookupp => ;
    NVERIFY Nverify(VerifyArgs) => ;
    OPEN Open(OpenArgs) => (OpenOk);
    OPEN_DOWNGRADE OpenDowngrade(OpenDowngradeArgs) => (StateidOk);
    PUTFH Putfh(PutfhArgs) => ;
    PUTPUBFH Putpubfh => ;
    PUTROOTFH Putrootfh => ;
    READ Read(ReadArgs) => (ReadOk);
    READDIR Readdir(ReaddirArgs) => (ReaddirOk);
    READLINK Readlink => (ReadlinkOk);
    REMOVE Remove(RemoveArgs) => (RemoveOk);
    RENAME Rename(RenameArgs) => (RenameOk);
    RESTOREFH Restorefh => ;
    SAVEFH Savefh => ;
    SECINFO Secinfo(SecinfoArgs) => (SecinfoOk);
    SETATTR Setattr(SetattrArgs) => (SetattrOk);
    VERIFY Verify(VerifyArgs) => ;
    WRITE Write(WriteArgs) => (WriteOk);
    BACKCHANNEL_CTL BackchannelCtl(BackchannelCtlArgs) => ;
    BIND_CONN_TO_SESSION BindConnToSession(BindConnToSessionArgs) => (BindConnToSessionOk);
    EXCHANGE_ID ExchangeId(ExchangeIdArgs) => (ExchangeIdOk);
    CREATE_SESSION CreateSession(CreateSessionArgs) => (CreateSessionOk);
    DESTROY_SESSION DestroySession(DestroySessionArgs) => ;
    FREE_STATEID FreeStateid(FreeStateidArgs) => ;
    GETDEVICEINFO Getdeviceinfo(GetdeviceinfoArgs) => (GetdeviceinfoOk);
    LAYOUTCOMMIT Layoutcommit(LayoutcommitArgs) => (LayoutcommitOk);
    LAYOUTGET Layoutget(LayoutgetArgs) => (LayoutgetOk);
    LAYOUTRETURN Layoutreturn(LayoutreturnArgs) => (LayoutreturnOk);
    SECINFO_NO_NAME SecinfoNoName(SecinfoNoNameArgs) => (SecinfoOk);
    SEQUENCE Sequence(SequenceArgs) => (SequenceOk);
    TEST_STATEID TestStateid(TestStateidArgs) => (TestStateidOk);
    DESTROY_CLIENTID DestroyClientid(DestroyClientidArgs) => ;
    RECLAIM_COMPLETE ReclaimComplete(ReclaimCompleteArgs) => ;
    ALLOCATE Allocate(AllocateArgs) => ;
    COPY Copy(CopyArgs) => (CopyOk);
    DEALLOCATE Deallocate(DeallocateArgs) => ;
    IO_ADVISE IoAdvise(IoAdviseArgs) => (IoAdviseOk);
    LAYOUTERROR Layouterror(LayouterrorArgs) => ;
    LAYOUTSTATS Layoutstats(LayoutstatsArgs) => ;
    OFFLOAD_CANCEL OffloadCancel(OffloadCancelArgs) => ;
    OFFLOAD_STATUS OffloadStatus(OffloadStatusArgs) => (OffloadStatusOk);
    SEEK Seek(SeekArgs) => (SeekOk);
    CLONE Clone(CloneArgs) => ;
    GETXATTR Getxattr(GetxattrArgs) => (GetxattrOk);
    SETXATTR Setxattr(SetxattrArgs) => (XattrChanged);
    LISTXATTRS Listxattrs(ListxattrsArgs) => (ListxattrsOk);
    REMOVEXATTR Removexattr(RemovexattrArgs) => (XattrChanged);
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
