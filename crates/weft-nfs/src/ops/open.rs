//! OPEN, CLOSE and what goes with them: RFC 8881 §18.2, §18.16-§18.18.

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::acl::Ace;
use crate::attr::{Attrs, Bitmap};
use crate::basic::{
    ChangeInfo, Component, Seqid, StateOwner, Stateid, Verifier, delegate, why_no_delegation,
};

xdr_struct! {
    /// CLOSE (4), §18.2.
    pub struct CloseArgs {
        /// Ignored in 4.1.
        pub seqid: Seqid,
        /// Stateid of the open.
        pub open_stateid: Stateid,
    }
}

/// `createhow4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateHow {
    /// Existing files are fine.
    Unchecked(Box<Attrs>),
    /// Existing files are an error.
    Guarded(Box<Attrs>),
    /// Exclusive, 4.0 form.
    Exclusive(Verifier),
    /// Exclusive with attributes.
    Exclusive41(Verifier, Box<Attrs>),
}
impl Decode for CreateHow {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("createhow4");
        match r.u32()? {
            0 => Ok(CreateHow::Unchecked(Decode::decode(r)?)),
            1 => Ok(CreateHow::Guarded(Decode::decode(r)?)),
            2 => Ok(CreateHow::Exclusive(Verifier::decode(r)?)),
            3 => Ok(CreateHow::Exclusive41(Verifier::decode(r)?, Decode::decode(r)?)),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for CreateHow {
    fn encode(&self, w: &mut Writer) {
        match self {
            CreateHow::Unchecked(a) => {
                w.u32(0);
                a.encode(w);
            }
            CreateHow::Guarded(a) => {
                w.u32(1);
                a.encode(w);
            }
            CreateHow::Exclusive(v) => {
                w.u32(2);
                v.encode(w);
            }
            CreateHow::Exclusive41(v, a) => {
                w.u32(3);
                v.encode(w);
                a.encode(w);
            }
        }
    }
}

/// `open_claim4`: what the open is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenClaim {
    /// A name in the current directory.
    Null(Component),
    /// Reclaim of an open held before the server restarted; the delegation held then.
    Previous(u32),
    /// A name, under a delegation.
    DelegateCur(Stateid, Component),
    /// Reclaim of a delegation by name.
    DelegatePrev(Component),
    /// The current filehandle.
    Fh,
    /// The current filehandle, under a delegation.
    DelegCurFh(Stateid),
    /// Reclaim of a delegation by filehandle.
    DelegPrevFh,
}
impl Decode for OpenClaim {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("open_claim4");
        match r.u32()? {
            0 => Ok(OpenClaim::Null(Component::decode(r)?)),
            1 => Ok(OpenClaim::Previous(r.u32()?)),
            2 => Ok(OpenClaim::DelegateCur(Stateid::decode(r)?, Component::decode(r)?)),
            3 => Ok(OpenClaim::DelegatePrev(Component::decode(r)?)),
            4 => Ok(OpenClaim::Fh),
            5 => Ok(OpenClaim::DelegCurFh(Stateid::decode(r)?)),
            6 => Ok(OpenClaim::DelegPrevFh),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for OpenClaim {
    fn encode(&self, w: &mut Writer) {
        match self {
            OpenClaim::Null(name) => {
                w.u32(0);
                name.encode(w);
            }
            OpenClaim::Previous(delegation) => {
                w.u32(1);
                w.u32(*delegation);
            }
            OpenClaim::DelegateCur(stateid, name) => {
                w.u32(2);
                stateid.encode(w);
                name.encode(w);
            }
            OpenClaim::DelegatePrev(name) => {
                w.u32(3);
                name.encode(w);
            }
            OpenClaim::Fh => w.u32(4),
            OpenClaim::DelegCurFh(stateid) => {
                w.u32(5);
                stateid.encode(w);
            }
            OpenClaim::DelegPrevFh => w.u32(6),
        }
    }
}

xdr_struct! {
    /// OPEN (18), §18.16.
    pub struct OpenArgs {
        /// Ignored in 4.1.
        pub seqid: Seqid,
        /// Access wanted, with delegation wants in the high bits.
        pub share_access: u32,
        /// Access denied to others.
        pub share_deny: u32,
        /// Open owner.
        pub owner: StateOwner,
        /// Create or not, and how.
        pub openhow: Option<CreateHow>,
        /// What it is based on.
        pub claim: OpenClaim,
    }
}

/// `open_delegation4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenDelegation {
    /// No delegation, without a reason.
    None,
    /// None, with the reason (`why_no_delegation4`) and, where the reason has one, its boolean.
    NoneExt(u32, Option<bool>),
    /// Read delegation.
    Read {
        /// Stateid of the delegation.
        stateid: Stateid,
        /// Whether it is being recalled already.
        recall: bool,
        /// Users that may open the file without asking the server.
        permissions: Ace,
    },
    /// Write delegation.
    Write {
        /// Stateid of the delegation.
        stateid: Stateid,
        /// Whether it is being recalled already.
        recall: bool,
        /// How large the file may become before the client must flush it at close, bytes
        /// (`nfs_space_limit4`; a limit in blocks is read as their bytes).
        size_limit: u64,
        /// Users that may open the file without asking the server.
        permissions: Ace,
    },
}
/// `NFS_LIMIT_SIZE` and `NFS_LIMIT_BLOCKS` of `limit_by4`.
const LIMIT_SIZE: u32 = 1;
const LIMIT_BLOCKS: u32 = 2;
/// The reasons that carry a boolean.
const WND4_WITH_BOOL: [u32; 2] = [why_no_delegation::CONTENTION, why_no_delegation::RESOURCE];
impl Decode for OpenDelegation {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("open_delegation4");
        match r.u32()? {
            delegate::NONE => Ok(OpenDelegation::None),
            delegate::READ => Ok(OpenDelegation::Read {
                stateid: Stateid::decode(r)?,
                recall: r.bool()?,
                permissions: Ace::decode(r)?,
            }),
            delegate::WRITE => Ok(OpenDelegation::Write {
                stateid: Stateid::decode(r)?,
                recall: r.bool()?,
                size_limit: match r.u32()? {
                    LIMIT_SIZE => r.u64()?,
                    LIMIT_BLOCKS => u64::from(r.u32()?) * u64::from(r.u32()?),
                    _ => return Err(r.error(DecodeErrorKind::Value)),
                },
                permissions: Ace::decode(r)?,
            }),
            delegate::NONE_EXT => {
                let why = r.u32()?;
                let more = if WND4_WITH_BOOL.contains(&why) { Some(r.bool()?) } else { None };
                Ok(OpenDelegation::NoneExt(why, more))
            }
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for OpenDelegation {
    fn encode(&self, w: &mut Writer) {
        match self {
            OpenDelegation::None => w.u32(delegate::NONE),
            OpenDelegation::Read { stateid, recall, permissions } => {
                w.u32(delegate::READ);
                stateid.encode(w);
                w.bool(*recall);
                permissions.encode(w);
            }
            OpenDelegation::Write { stateid, recall, size_limit, permissions } => {
                w.u32(delegate::WRITE);
                stateid.encode(w);
                w.bool(*recall);
                w.u32(LIMIT_SIZE);
                w.u64(*size_limit);
                permissions.encode(w);
            }
            OpenDelegation::NoneExt(why, more) => {
                w.u32(delegate::NONE_EXT);
                w.u32(*why);
                if WND4_WITH_BOOL.contains(why) {
                    w.bool(more.unwrap_or(false));
                }
            }
        }
    }
}

xdr_struct! {
    /// What OPEN returns when it succeeds.
    pub struct OpenOk {
        /// Stateid of the open, new or upgraded.
        pub stateid: Stateid,
        /// The directory's change.
        pub cinfo: ChangeInfo,
        /// See [`crate::open_result`].
        pub rflags: u32,
        /// Attributes set at creation.
        pub attrset: Bitmap,
        /// Delegation granted.
        pub delegation: OpenDelegation,
    }
}
xdr_struct! {
    /// OPEN_DOWNGRADE (21), §18.18.
    pub struct OpenDowngradeArgs {
        /// Stateid of the open.
        pub open_stateid: Stateid,
        /// Ignored in 4.1.
        pub seqid: Seqid,
        /// Access that remains: bits of [`crate::share`].
        pub share_access: u32,
        /// Denial that remains: bits of [`crate::share`].
        pub share_deny: u32,
    }
}
xdr_struct! {
    /// Result of CLOSE, OPEN_DOWNGRADE, LOCK and LOCKU: the state's new stateid.
    pub struct StateidOk {
        /// Stateid of the state, its seqid raised.
        pub stateid: Stateid,
    }
}
xdr_struct! {
    /// DELEGRETURN (8), §18.6.
    pub struct DelegreturnArgs {
        /// Stateid of the delegation that is returned.
        pub deleg_stateid: Stateid,
    }
}
