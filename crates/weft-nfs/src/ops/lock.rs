//! Byte-range locks: RFC 8881 §18.10-§18.12.

use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

use crate::basic::{LockType, Seqid, StateOwner, Stateid};

/// `locker4`: who locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locker {
    /// First lock of this owner on the file: based on an open.
    New {
        /// The open.
        open_stateid: Stateid,
        /// The owner.
        lock_owner: StateOwner,
    },
    /// A further lock.
    Existing {
        /// The lock state.
        lock_stateid: Stateid,
    },
}
impl Decode for Locker {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("locker4");
        if r.bool()? {
            let _open_seqid = r.u32()?;
            let open_stateid = Stateid::decode(r)?;
            let _lock_seqid = r.u32()?;
            Ok(Locker::New { open_stateid, lock_owner: StateOwner::decode(r)? })
        } else {
            let lock_stateid = Stateid::decode(r)?;
            let _lock_seqid = r.u32()?;
            Ok(Locker::Existing { lock_stateid })
        }
    }
}
impl Encode for Locker {
    fn encode(&self, w: &mut Writer) {
        match self {
            Locker::New { open_stateid, lock_owner } => {
                w.bool(true);
                w.u32(0);
                open_stateid.encode(w);
                w.u32(0);
                lock_owner.encode(w);
            }
            Locker::Existing { lock_stateid } => {
                w.bool(false);
                lock_stateid.encode(w);
                w.u32(0);
            }
        }
    }
}

xdr_struct! {
    /// LOCK (12), §18.10.
    pub struct LockArgs {
        /// Kind.
        pub locktype: LockType,
        /// Reclaim after a server restart.
        pub reclaim: bool,
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones means to the end.
        pub length: u64,
        /// Who.
        pub locker: Locker,
    }
}
xdr_struct! {
    /// `LOCK4denied`: the lock in the way.
    pub struct LockDenied {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// Kind.
        pub locktype: LockType,
        /// Holder.
        pub owner: StateOwner,
    }
}
xdr_struct! {
    /// LOCKT (13), §18.11.
    pub struct LocktArgs {
        /// Kind.
        pub locktype: LockType,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// Who asks.
        pub owner: StateOwner,
    }
}
xdr_struct! {
    /// LOCKU (14), §18.12.
    pub struct LockuArgs {
        /// Kind; without effect.
        pub locktype: LockType,
        /// Ignored in 4.1.
        pub seqid: Seqid,
        /// The lock state.
        pub lock_stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }
}
