//! Filehandles, names, attributes and data: RFC 8881 §18.1-§18.15, §18.19-§18.34.

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Payload, Reader, Writer, xdr_struct};

use crate::attr::{Attrs, Bitmap};
use crate::basic::{
    ChangeInfo, Component, FileHandle, FileType, IO_BYTES_MAX, LINK_BYTES_MAX, SpecData, StableHow,
    Stateid, Verifier,
};

xdr_struct! {
    /// ACCESS (3), §18.1.
    pub struct AccessArgs {
        /// Rights asked about.
        pub access: u32,
    }
}
xdr_struct! {
    /// What ACCESS returns when it succeeds.
    pub struct AccessOk {
        /// Rights the server can tell about.
        pub supported: u32,
        /// Rights the caller has.
        pub access: u32,
    }
}
xdr_struct! {
    /// COMMIT (5), §18.3.
    pub struct CommitArgs {
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Bytes; 0 means to the end of the file.
        pub count: u32,
    }
}
xdr_struct! {
    /// What COMMIT returns when it succeeds.
    pub struct CommitOk {
        /// Changes when uncommitted data may have been lost.
        pub verifier: Verifier,
    }
}

/// `createtype4` of CREATE (6), §18.4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateType {
    /// Symbolic link with its target.
    Link(bytes::Bytes),
    /// Block device.
    Block(SpecData),
    /// Character device.
    Char(SpecData),
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
    /// Directory.
    Directory,
    /// A type CREATE cannot make (regular file: OPEN does that).
    Other(FileType),
}
impl Decode for CreateType {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("createtype4");
        Ok(match FileType::decode(r)? {
            FileType::LNK => CreateType::Link(r.opaque(LINK_BYTES_MAX)?),
            FileType::BLK => CreateType::Block(SpecData::decode(r)?),
            FileType::CHR => CreateType::Char(SpecData::decode(r)?),
            FileType::SOCK => CreateType::Socket,
            FileType::FIFO => CreateType::Fifo,
            FileType::DIR => CreateType::Directory,
            other => CreateType::Other(other),
        })
    }
}
impl Encode for CreateType {
    fn encode(&self, w: &mut Writer) {
        match self {
            CreateType::Link(target) => {
                FileType::LNK.encode(w);
                w.opaque(target);
            }
            CreateType::Block(d) => {
                FileType::BLK.encode(w);
                d.encode(w);
            }
            CreateType::Char(d) => {
                FileType::CHR.encode(w);
                d.encode(w);
            }
            CreateType::Socket => FileType::SOCK.encode(w),
            CreateType::Fifo => FileType::FIFO.encode(w),
            CreateType::Directory => FileType::DIR.encode(w),
            CreateType::Other(t) => t.encode(w),
        }
    }
}

xdr_struct! {
    /// CREATE (6), §18.4.
    pub struct CreateArgs {
        /// What to make.
        pub objtype: CreateType,
        /// Name of the new object in the directory.
        pub name: Component,
        /// Attributes that the new object is to have.
        pub attrs: Box<Attrs>,
    }
}
xdr_struct! {
    /// What CREATE returns when it succeeds.
    pub struct CreateOk {
        /// The directory's change.
        pub change: ChangeInfo,
        /// Attributes that were set.
        pub attrset: Bitmap,
    }
}
xdr_struct! {
    /// GETATTR (9), §18.7.
    pub struct GetattrArgs {
        /// Numbers of the attributes that are wanted.
        pub request: Bitmap,
    }
}
xdr_struct! {
    /// What GETATTR returns when it succeeds.
    pub struct GetattrOk {
        /// Those of the wanted attributes that are supported.
        pub attrs: Box<Attrs>,
    }
}
xdr_struct! {
    /// GETFH (10) result, §18.8.
    pub struct GetfhOk {
        /// The filehandle that is current.
        pub object: FileHandle,
    }
}
xdr_struct! {
    /// LINK (11), §18.9.
    pub struct LinkArgs {
        /// New name in the current directory.
        pub newname: Component,
    }
}
xdr_struct! {
    /// What LINK returns when it succeeds.
    pub struct LinkOk {
        /// The directory's change.
        pub change: ChangeInfo,
    }
}
xdr_struct! {
    /// LOOKUP (15), §18.13.
    pub struct LookupArgs {
        /// Name in the current directory.
        pub name: Component,
    }
}
xdr_struct! {
    /// NVERIFY (17) and VERIFY (37), §18.15, §18.30. The list is compared as bytes.
    pub struct VerifyArgs {
        /// Attributes to compare.
        pub attrs: Box<Attrs>,
    }
}
xdr_struct! {
    /// PUTFH (22), §18.19.
    pub struct PutfhArgs {
        /// New current filehandle.
        pub object: FileHandle,
    }
}
xdr_struct! {
    /// READ (25), §18.22.
    pub struct ReadArgs {
        /// Open, lock, delegation or special stateid.
        pub stateid: Stateid,
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Most bytes to read.
        pub count: u32,
    }
}

/// READ result, §18.22.
#[derive(Debug, Clone)]
pub struct ReadOk {
    /// Whether the data reaches the end of the file.
    pub eof: bool,
    /// Bytes from the offset on.
    pub data: Payload,
}
impl Decode for ReadOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("READ4resok");
        Ok(ReadOk { eof: r.bool()?, data: Payload::Bytes(r.opaque(IO_BYTES_MAX)?) })
    }
}
impl Encode for ReadOk {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.eof);
        w.payload(&self.data);
    }
}

xdr_struct! {
    /// READDIR (26), §18.23.
    pub struct ReaddirArgs {
        /// Where to go on: 0, or the cookie of the last entry seen.
        pub cookie: u64,
        /// Verifier that came with that cookie.
        pub cookieverf: Verifier,
        /// Hint: bytes of names and cookies.
        pub dircount: u32,
        /// Limit: bytes of the whole result.
        pub maxcount: u32,
        /// Attributes of each entry.
        pub attr_request: Bitmap,
    }
}
xdr_struct! {
    /// One READDIR entry.
    pub struct DirEntry {
        /// Place in the directory.
        pub cookie: u64,
        /// Name of the entry in the directory.
        pub name: Component,
        /// Those of the wanted attributes that are supported.
        pub attrs: Attrs,
    }
}

/// READDIR result, §18.23.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirOk {
    /// To be sent back with the cookies.
    pub cookieverf: Verifier,
    /// Entries in cookie order.
    pub entries: Vec<DirEntry>,
    /// Whether the directory ends here.
    pub eof: bool,
}
/// Most entries accepted in one READDIR reply (a client's limit; 1 MiB replies hold fewer).
const ENTRIES_MAX: usize = 1 << 16;
impl Decode for ReaddirOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("READDIR4resok");
        let cookieverf = Verifier::decode(r)?;
        let mut entries = Vec::new();
        while r.bool()? {
            if entries.len() == ENTRIES_MAX {
                return Err(r.error(DecodeErrorKind::Limit));
            }
            entries.push(DirEntry::decode(r)?);
        }
        Ok(ReaddirOk { cookieverf, entries, eof: r.bool()? })
    }
}
impl Encode for ReaddirOk {
    fn encode(&self, w: &mut Writer) {
        self.cookieverf.encode(w);
        for e in &self.entries {
            w.bool(true);
            e.encode(w);
        }
        w.bool(false);
        w.bool(self.eof);
    }
}

/// READLINK (27) result, §18.24.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadlinkOk {
    /// Target of the symbolic link, as it was given.
    pub link: bytes::Bytes,
}
impl Decode for ReadlinkOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ReadlinkOk { link: r.opaque(LINK_BYTES_MAX)? })
    }
}
impl Encode for ReadlinkOk {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.link);
    }
}

xdr_struct! {
    /// REMOVE (28), §18.25.
    pub struct RemoveArgs {
        /// Name in the current directory.
        pub target: Component,
    }
}
xdr_struct! {
    /// What REMOVE returns when it succeeds.
    pub struct RemoveOk {
        /// The directory's change.
        pub change: ChangeInfo,
    }
}
xdr_struct! {
    /// RENAME (29), §18.26: from the saved to the current directory.
    pub struct RenameArgs {
        /// Name in the saved directory.
        pub oldname: Component,
        /// Name in the current directory.
        pub newname: Component,
    }
}
xdr_struct! {
    /// What RENAME returns when it succeeds.
    pub struct RenameOk {
        /// Change of the directory it left.
        pub source: ChangeInfo,
        /// Change of the directory it came to.
        pub target: ChangeInfo,
    }
}
xdr_struct! {
    /// SECINFO (33), §18.29.
    pub struct SecinfoArgs {
        /// Name in the current directory.
        pub name: Component,
    }
}
xdr_struct! {
    /// SECINFO and SECINFO_NO_NAME result: flavors, preferred first. RPCSEC_GSS is not offered.
    pub struct SecinfoOk {
        /// Security flavors that are accepted, the preferred one first.
        pub flavors: Flavors,
    }
}

/// A list of flavors without GSS information.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flavors(pub Vec<u32>);
impl Decode for Flavors {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Flavors(r.array(32)?))
    }
}
impl Encode for Flavors {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

xdr_struct! {
    /// SETATTR (34), §18.30.
    pub struct SetattrArgs {
        /// State that authorises a change of size.
        pub stateid: Stateid,
        /// Attributes to set, and their values.
        pub attrs: Box<Attrs>,
    }
}
xdr_struct! {
    /// SETATTR result, also sent with errors.
    pub struct SetattrOk {
        /// Attributes that were set.
        pub attrsset: Bitmap,
    }
}

/// WRITE (38), §18.32.
#[derive(Debug, Clone)]
pub struct WriteArgs {
    /// Open, lock, delegation or special stateid.
    pub stateid: Stateid,
    /// Where the range begins: an offset in the file, in bytes.
    pub offset: u64,
    /// How durable before the answer.
    pub stable: StableHow,
    /// Bytes from the offset on.
    pub data: Payload,
}
impl Decode for WriteArgs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("WRITE4args");
        Ok(WriteArgs {
            stateid: Stateid::decode(r)?,
            offset: r.u64()?,
            stable: StableHow::decode(r)?,
            data: Payload::Bytes(r.opaque(IO_BYTES_MAX)?),
        })
    }
}
impl Encode for WriteArgs {
    fn encode(&self, w: &mut Writer) {
        self.stateid.encode(w);
        w.u64(self.offset);
        self.stable.encode(w);
        w.payload(&self.data);
    }
}
xdr_struct! {
    /// What WRITE returns when it succeeds.
    pub struct WriteOk {
        /// Bytes of the data that were written, from the first.
        pub count: u32,
        /// How durable they are.
        pub committed: StableHow,
        /// Compared with COMMIT's.
        pub writeverf: Verifier,
    }
}
