//! Byte-range locks: RFC 8881 §18.10-§18.12.

use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

use crate::basic::{LockType, Seqid, StateOwner, Stateid};

/// `locker4`: the lock owner, by the stateid it already has or by the open it begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locker {
    /// First lock of this owner on the file: based on an open.
    New {
        /// Stateid of the open that the first lock of this owner is based on.
        open_stateid: Stateid,
        /// Lock owner that has no lock stateid on the file yet.
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
        /// Whether the lock is shared or exclusive, and whether its owner waits for it.
        pub locktype: LockType,
        /// Reclaim after a server restart.
        pub reclaim: bool,
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Bytes; all ones means to the end.
        pub length: u64,
        /// The open or the lock that the lock is based on, and with the first its owner.
        pub locker: Locker,
    }
}
xdr_struct! {
    /// `LOCK4denied`: the lock in the way.
    pub struct LockDenied {
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        pub length: u64,
        /// Whether the lock is shared or exclusive, and whether its owner waits for it.
        pub locktype: LockType,
        /// Owner of the lock that is in the way.
        pub owner: StateOwner,
    }
}
xdr_struct! {
    /// LOCKT (13), §18.11.
    pub struct LocktArgs {
        /// Whether the lock is shared or exclusive, and whether its owner waits for it.
        pub locktype: LockType,
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        pub length: u64,
        /// Lock owner whose own locks are not in the way.
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
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        pub length: u64,
    }
}
