//! Basic data types: RFC 8881 §3.

use bytes::Bytes;
use weft_xdr::{
    Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_named, xdr_struct,
};

/// Longest filehandle, RFC 8881 §3.1 (NFS4_FHSIZE).
pub const FH_BYTES_MAX: usize = 128;
/// Longest opaque owner or identity, RFC 8881 §3.1 (NFS4_OPAQUE_LIMIT).
pub const OPAQUE_BYTES_MAX: usize = 1024;
/// Longest component name accepted from the wire: as long as a message allows, since it is a slice
/// of it. The server's own limit (255) is checked later, so that it can answer NAMETOOLONG.
pub const COMPONENT_BYTES_MAX: usize = IO_BYTES_MAX;
/// Longest symbolic link target accepted from the wire, for the same reason.
pub const LINK_BYTES_MAX: usize = IO_BYTES_MAX;
/// Longest READ or WRITE payload accepted from the wire.
pub const IO_BYTES_MAX: usize = 4 << 20;

macro_rules! opaque_id {
    ($(#[$m:meta])* $name:ident, $n:expr) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub [u8; $n]);
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}(", stringify!($name))?;
                for b in self.0 {
                    write!(f, "{b:02x}")?;
                }
                f.write_str(")")
            }
        }
        impl Decode for $name {
            fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
                Ok($name(r.fixed()?))
            }
        }
        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.fixed(&self.0);
            }
        }
    };
}

macro_rules! integer_id {
    ($(#[$m:meta])* $name:ident, $t:ty, $f:ident) => {
        $(#[$m])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $t);
        impl Decode for $name {
            fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
                Ok($name(r.$f()?))
            }
        }
        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.$f(self.0);
            }
        }
    };
}

opaque_id! {
    /// `verifier4`: compared for equality only.
    Verifier, 8
}
opaque_id! {
    /// `sessionid4`: names a session; chosen by the server.
    SessionId, 16
}
opaque_id! {
    /// `deviceid4`: names a data-server address list, RFC 8881 §12.2.10.
    DeviceId, 16
}
integer_id! {
    /// `clientid4`: names a client; chosen by the server.
    ClientId, u64, u64
}
integer_id! {
    /// `sequenceid4` of a slot.
    SequenceId, u32, u32
}
integer_id! {
    /// `slotid4`: a slot of a session, counted from 0.
    SlotId, u32, u32
}
integer_id! {
    /// `seqid4` inside a stateid.
    Seqid, u32, u32
}

impl Seqid {
    /// The next seqid: zero is skipped on wrap-around (RFC 8881 §8.2.2).
    #[must_use]
    pub fn next(self) -> Seqid {
        Seqid(self.0.checked_add(1).unwrap_or(1))
    }
}

impl SequenceId {
    /// The next sequence id of a slot: wraps to zero (RFC 8881 §2.10.6.1).
    #[must_use]
    pub fn next(self) -> SequenceId {
        SequenceId(self.0.wrapping_add(1))
    }
}

xdr_struct! {
    /// `stateid4`: RFC 8881 §3.3.12, §8.2.
    #[derive(Copy, Hash)]
    pub struct Stateid {
        /// Generation of the state.
        pub seqid: Seqid,
        /// Names the state; chosen by the server.
        pub other: [u8; 12],
    }
}

impl Stateid {
    /// All zeros: no state (§8.2.3).
    pub const ANONYMOUS: Stateid = Stateid { seqid: Seqid(0), other: [0; 12] };
    /// All ones: READ that bypasses locks (§8.2.3).
    pub const READ_BYPASS: Stateid = Stateid { seqid: Seqid(u32::MAX), other: [0xff; 12] };
    /// The stateid an earlier operation of the COMPOUND left behind (§8.2.3).
    pub const CURRENT: Stateid = Stateid { seqid: Seqid(1), other: [0; 12] };
    /// Never valid (§8.2.3).
    pub const INVALID: Stateid = Stateid { seqid: Seqid(u32::MAX), other: [0; 12] };

    /// Whether `other` is one of the reserved values.
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

/// `nfs_fh4`: names a file; opaque to clients.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileHandle(pub Bytes);

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("fh:")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl Decode for FileHandle {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("nfs_fh4");
        Ok(FileHandle(r.opaque(FH_BYTES_MAX)?))
    }
}
impl Encode for FileHandle {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

/// `component4`: one name in a path, unchecked bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component(pub Bytes);

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}
impl From<&str> for Component {
    fn from(s: &str) -> Self {
        Component(Bytes::copy_from_slice(s.as_bytes()))
    }
}
impl Decode for Component {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("component4");
        Ok(Component(r.opaque(COMPONENT_BYTES_MAX)?))
    }
}
impl Encode for Component {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

/// Opaque bytes with the protocol's general limit ([`OPAQUE_BYTES_MAX`]).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Opaque(pub Bytes);

impl std::fmt::Debug for Opaque {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}
impl Decode for Opaque {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Opaque(r.opaque(OPAQUE_BYTES_MAX)?))
    }
}
impl Encode for Opaque {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

xdr_struct! {
    /// `nfstime4`: seconds and nanoseconds since 1970.
    #[derive(Copy, PartialOrd, Ord, Default, Hash)]
    pub struct NfsTime {
        /// Seconds since 1970.
        pub seconds: i64,
        /// Nanoseconds, below 10^9.
        pub nseconds: u32,
    }
}

xdr_struct! {
    /// `fsid4`: names a file system within a server.
    #[derive(Copy, Hash)]
    pub struct Fsid {
        /// First half of the file system identifier.
        pub major: u64,
        /// Second half of the file system identifier.
        pub minor: u64,
    }
}

xdr_struct! {
    /// `specdata4`: device numbers of a special file.
    #[derive(Copy, Hash)]
    pub struct SpecData {
        /// Major number of the device.
        pub major: u32,
        /// Minor number of the device.
        pub minor: u32,
    }
}

xdr_struct! {
    /// `change_info4`: a directory's change attribute around an operation.
    #[derive(Copy)]
    pub struct ChangeInfo {
        /// Whether the two are known to enclose nothing else.
        pub atomic: bool,
        /// Change attribute before the operation.
        pub before: u64,
        /// Change attribute after the operation.
        pub after: u64,
    }
}

xdr_struct! {
    /// `netaddr4`: a universal address (RFC 5665).
    #[derive(Hash)]
    pub struct NetAddr {
        /// "tcp", "tcp6", …
        pub netid: Opaque,
        /// "192.0.2.7.8.1"
        pub uaddr: Opaque,
    }
}

xdr_struct! {
    /// `state_owner4`: an open owner or a lock owner of a client.
    #[derive(Hash)]
    pub struct StateOwner {
        /// Ignored by sessions servers: the session's client counts (RFC 8881 §18.16.3).
        pub clientid: ClientId,
        /// Name of the owner, which the client chose; opaque.
        pub owner: Opaque,
    }
}

xdr_named! {
    /// `nfs_ftype4`.
    pub struct FileType {
        REG = 1,
        DIR = 2,
        BLK = 3,
        CHR = 4,
        LNK = 5,
        SOCK = 6,
        FIFO = 7,
        ATTRDIR = 8,
        NAMEDATTR = 9,
    }
}

xdr_named! {
    /// `layoutiomode4`.
    pub struct IoMode {
        READ = 1,
        RW = 2,
        ANY = 3,
    }
}

xdr_named! {
    /// `layouttype4`.
    pub struct LayoutType {
        NFSV4_1_FILES = 1,
        OSD2_OBJECTS = 2,
        BLOCK_VOLUME = 3,
        FLEX_FILES = 4,
        SCSI = 5,
    }
}

xdr_named! {
    /// `stable_how4`: how durable a WRITE is when answered.
    pub struct StableHow {
        UNSTABLE = 0,
        DATA_SYNC = 1,
        FILE_SYNC = 2,
    }
}

/// `nfs_lock_type4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockType {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Shared, and the client is willing to wait.
    ReadBlocking,
    /// Exclusive, and the client is willing to wait.
    WriteBlocking,
}

impl LockType {
    /// Whether it excludes readers.
    pub fn is_write(self) -> bool {
        matches!(self, LockType::Write | LockType::WriteBlocking)
    }

    /// Whether the client is going to wait for it.
    pub fn is_blocking(self) -> bool {
        matches!(self, LockType::ReadBlocking | LockType::WriteBlocking)
    }
}
impl Decode for LockType {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("nfs_lock_type4");
        match r.u32()? {
            1 => Ok(LockType::Read),
            2 => Ok(LockType::Write),
            3 => Ok(LockType::ReadBlocking),
            4 => Ok(LockType::WriteBlocking),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for LockType {
    fn encode(&self, w: &mut Writer) {
        w.u32(match self {
            LockType::Read => 1,
            LockType::Write => 2,
            LockType::ReadBlocking => 3,
            LockType::WriteBlocking => 4,
        });
    }
}

/// Bits of `ACCESS4_*`, RFC 8881 §18.1 and RFC 8276 §8.4.
pub mod access {
    /// Read data or directory.
    pub const READ: u32 = 0x01;
    /// Look up names in a directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite data or change entries.
    pub const MODIFY: u32 = 0x04;
    /// Write new data or add entries.
    pub const EXTEND: u32 = 0x08;
    /// Delete entries.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
    /// Read extended attributes.
    pub const XAREAD: u32 = 0x40;
    /// Write extended attributes.
    pub const XAWRITE: u32 = 0x80;
    /// List extended attributes.
    pub const XALIST: u32 = 0x100;
}

/// Bits of EXCHANGE_ID flags, RFC 8881 §18.35.
pub mod exchgid {
    /// Client can follow a referral.
    pub const SUPP_MOVED_REFER: u32 = 0x1;
    /// Client can follow a migration.
    pub const SUPP_MOVED_MIGR: u32 = 0x2;
    /// NFSv4.2: fencing operations.
    pub const SUPP_FENCE_OPS: u32 = 0x4;
    /// Stateids are bound to the principal.
    pub const BIND_PRINC_STATEID: u32 = 0x100;
    /// The server is an ordinary one, without pNFS.
    pub const USE_NON_PNFS: u32 = 0x1_0000;
    /// The server is a metadata server of pNFS.
    pub const USE_PNFS_MDS: u32 = 0x2_0000;
    /// The server is a data server of pNFS.
    pub const USE_PNFS_DS: u32 = 0x4_0000;
    /// All role bits.
    pub const MASK_PNFS: u32 = 0x7_0000;
    /// Update of a confirmed record.
    pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    /// Reply: the record is confirmed.
    pub const CONFIRMED_R: u32 = 0x8000_0000;
    /// Bits a client may set in the request.
    pub const MASK_A: u32 = SUPP_MOVED_REFER
        | SUPP_MOVED_MIGR
        | SUPP_FENCE_OPS
        | BIND_PRINC_STATEID
        | MASK_PNFS
        | UPD_CONFIRMED_REC_A;
}

/// Bits of CREATE_SESSION flags, RFC 8881 §18.36.
pub mod create_session_flags {
    /// The reply cache survives a restart.
    pub const PERSIST: u32 = 1;
    /// Use this connection as the back channel too.
    pub const CONN_BACK_CHAN: u32 = 2;
    /// RDMA step-up.
    pub const CONN_RDMA: u32 = 4;
}

/// Bits of `sr_status_flags`, RFC 8881 §18.46.
pub mod seq4_status {
    /// No back channel for the client at all.
    pub const CB_PATH_DOWN: u32 = 0x1;
    /// All state was revoked on lease expiry.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
    /// Some state was revoked on lease expiry.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x10;
    /// State revoked by an administrator.
    pub const ADMIN_STATE_REVOKED: u32 = 0x20;
    /// A recallable state was revoked.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x40;
    /// Leases moved.
    pub const LEASE_MOVED: u32 = 0x80;
    /// Reclaim needed after a restart.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x100;
    /// No back channel for this session.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x200;
    /// The back channel misbehaves.
    pub const BACKCHANNEL_FAULT: u32 = 0x400;
}

/// Bits of OPEN share_access and its wants, RFC 8881 §18.16.
pub mod share {
    /// Open for reading.
    pub const ACCESS_READ: u32 = 1;
    /// Open for writing.
    pub const ACCESS_WRITE: u32 = 2;
    /// Read and write.
    pub const ACCESS_BOTH: u32 = 3;
    /// The access bits without the wants.
    pub const ACCESS_MASK: u32 = 3;
    /// The bits that say which delegation the client would like.
    pub const WANT_MASK: u32 = 0xff00;
    /// Wants a read delegation.
    pub const WANT_READ_DELEG: u32 = 0x100;
    /// Wants a write delegation.
    pub const WANT_WRITE_DELEG: u32 = 0x200;
    /// Wants any delegation.
    pub const WANT_ANY_DELEG: u32 = 0x300;
    /// The client wants no delegation.
    pub const WANT_NO_DELEG: u32 = 0x400;
    /// Takes back an earlier want.
    pub const WANT_CANCEL: u32 = 0x500;
    /// A delegation may be granted in place of an open stateid (RFC 9754 §4).
    pub const WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;
    /// Deny nothing.
    pub const DENY_NONE: u32 = 0;
    /// Deny readers.
    pub const DENY_READ: u32 = 1;
    /// Deny writers.
    pub const DENY_WRITE: u32 = 2;
    /// Deny both.
    pub const DENY_BOTH: u32 = 3;
}

/// `open_delegation_type4`, RFC 8881 §18.16.
pub mod delegate {
    /// None.
    pub const NONE: u32 = 0;
    /// Read delegation.
    pub const READ: u32 = 1;
    /// Write delegation.
    pub const WRITE: u32 = 2;
    /// None, with a reason.
    pub const NONE_EXT: u32 = 3;
}

/// `why_no_delegation4`, RFC 8881 §18.16.
pub mod why_no_delegation {
    /// The client asked for none.
    pub const NOT_WANTED: u32 = 0;
    /// Others use the file in ways that exclude it.
    pub const CONTENTION: u32 = 1;
    /// The server cannot keep more, or cannot recall it.
    pub const RESOURCE: u32 = 2;
    /// No write delegation for this.
    pub const WRITE_DELEG_NOT_SUPP_FTYPE: u32 = 4;
    /// A want was taken back.
    pub const CANCELLED: u32 = 7;
}

/// Bits of OPEN result flags, RFC 8881 §18.16.
pub mod open_result {
    /// POSIX byte-range lock semantics.
    pub const LOCKTYPE_POSIX: u32 = 4;
    /// The file is kept while open, even when unlinked.
    pub const PRESERVE_UNLINKED: u32 = 8;
    /// The delegation is all that was granted: there is no open stateid (RFC 9754 §4).
    pub const NO_OPEN_STATEID: u32 = 16;
    /// CB_NOTIFY_LOCK may come.
    pub const MAY_NOTIFY_LOCK: u32 = 32;
}
