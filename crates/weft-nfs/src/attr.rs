//! File attributes: RFC 8881 §5, RFC 7862 §12.2, RFC 8276 §8.2, RFC 8275 §4.

use bytes::Bytes;
use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::acl::{Acl, Acl41};
use crate::basic::{FileHandle, FileType, Fsid, NfsTime, Opaque, SpecData};
use crate::status::NfsStat;

/// Most words of an attribute bitmap accepted; attribute 86 needs three.
pub const BITMAP_WORDS_MAX: usize = 8;
/// Longest attribute list accepted from the wire.
pub const ATTR_BYTES_MAX: usize = 64 << 10;

/// A set of attribute (or operation) numbers: `bitmap4`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap([u32; BITMAP_WORDS_MAX]);

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Bitmap = Bitmap([0; BITMAP_WORDS_MAX]);

    /// The set of these attributes.
    pub const fn of(attrs: &[AttrNo]) -> Bitmap {
        let mut words = [0; BITMAP_WORDS_MAX];
        let mut i = 0;
        while i < attrs.len() {
            words[(attrs[i].0 / 32) as usize] |= 1 << (attrs[i].0 % 32);
            i += 1;
        }
        Bitmap(words)
    }

    /// A set given by its words.
    pub fn from_words(words: &[u32]) -> Bitmap {
        let mut out = Bitmap::EMPTY;
        for (to, from) in out.0.iter_mut().zip(words) {
            *to = *from;
        }
        out
    }

    /// Whether the number is in the set.
    pub fn contains(&self, attr: AttrNo) -> bool {
        self.0.get(attr.0 as usize / 32).is_some_and(|w| w & (1 << (attr.0 % 32)) != 0)
    }

    /// Adds a number below 256.
    pub fn insert(&mut self, attr: AttrNo) {
        self.0[attr.0 as usize / 32] |= 1 << (attr.0 % 32);
    }

    /// Takes a number out.
    pub fn remove(&mut self, attr: AttrNo) {
        self.0[attr.0 as usize / 32] &= !(1 << (attr.0 % 32));
    }

    /// Numbers in both.
    #[must_use]
    pub fn and(&self, other: &Bitmap) -> Bitmap {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        out
    }

    /// Numbers in either.
    #[must_use]
    pub fn or(&self, other: &Bitmap) -> Bitmap {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        out
    }

    /// Numbers in `self` but not in `other`.
    #[must_use]
    pub fn without(&self, other: &Bitmap) -> Bitmap {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        out
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; BITMAP_WORDS_MAX]
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = AttrNo> + '_ {
        (0..BITMAP_WORDS_MAX as u32 * 32).map(AttrNo).filter(|a| self.contains(*a))
    }
}

impl std::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
impl Decode for Bitmap {
    /// Words beyond [`BITMAP_WORDS_MAX`] must be zero: no such attribute exists.
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("bitmap4");
        let n = r.length(64)?;
        let mut out = Bitmap::EMPTY;
        for i in 0..n {
            let word = r.u32()?;
            match out.0.get_mut(i) {
                Some(w) => *w = word,
                None if word == 0 => {}
                None => return Err(r.error(DecodeErrorKind::Limit)),
            }
        }
        Ok(out)
    }
}
impl Encode for Bitmap {
    fn encode(&self, w: &mut Writer) {
        let n = self.0.iter().rposition(|w| *w != 0).map_or(0, |i| i + 1);
        w.count(n);
        self.0.iter().take(n).for_each(|word| w.u32(*word));
    }
}

xdr_struct! {
    /// `open_arguments4`: which values of each argument OPEN takes, as sets of their numbers (RFC
    /// 9754 §3).
    pub struct OpenArguments {
        /// `share_access`.
        pub share_access: Bitmap,
        /// `share_deny`.
        pub share_deny: Bitmap,
        /// Wants in `share_access`, by the number of their bit or, of those that exclude each
        /// other, by their value.
        pub share_access_want: Bitmap,
        /// `open_claim4`.
        pub open_claim: Bitmap,
        /// `createmode4`.
        pub create_mode: Bitmap,
    }
}

/// `settime4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The server's clock.
    ToServer,
    /// The time that the client gives.
    ToClient(NfsTime),
}
impl Decode for SetTime {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("settime4");
        match r.u32()? {
            0 => Ok(SetTime::ToServer),
            1 => Ok(SetTime::ToClient(NfsTime::decode(r)?)),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for SetTime {
    fn encode(&self, w: &mut Writer) {
        match self {
            SetTime::ToServer => w.u32(0),
            SetTime::ToClient(t) => {
                w.u32(1);
                t.encode(w);
            }
        }
    }
}

xdr_struct! {
    /// `mode_masked4`: mode bits under a mask (RFC 8881 §6.2.5).
    #[derive(Copy)]
    pub struct ModeMasked {
        /// Values of the mode bits that the mask selects.
        pub value: u32,
        /// Which bits to change.
        pub mask: u32,
    }
}

xdr_struct! {
    /// `mode_umask4`: RFC 8275 §4.
    #[derive(Copy)]
    pub struct ModeUmask {
        /// Mode asked for.
        pub mode: u32,
        /// The creator's umask.
        pub umask: u32,
    }
}

/// A list of layout types (attribute 62).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayoutTypes(pub Vec<u32>);
impl Decode for LayoutTypes {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(LayoutTypes(r.array(16)?))
    }
}
impl Encode for LayoutTypes {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

/// One hint of `mdsthreshold` (attribute 68, RFC 8881 §5.12.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThresholdItem {
    /// For which layout type.
    pub layout_type: u32,
    /// Files smaller than this are read through the metadata server.
    pub read_size: Option<u64>,
    /// Files smaller than this are written through the metadata server.
    pub write_size: Option<u64>,
}

/// `mdsthreshold4`. Linux wants exactly one item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MdsThreshold(pub Vec<ThresholdItem>);

impl Decode for ThresholdItem {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let layout_type = r.u32()?;
        let set = Bitmap::decode(r)?;
        let mut body = Reader::new(r.opaque(64)?);
        let mut item = ThresholdItem { layout_type, read_size: None, write_size: None };
        for bit in set.iter() {
            match bit.0 {
                0 => item.read_size = Some(body.u64()?),
                1 => item.write_size = Some(body.u64()?),
                _ => drop(body.u64()?),
            }
        }
        body.finish()?;
        Ok(item)
    }
}
impl Encode for ThresholdItem {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.layout_type);
        let word = u32::from(self.read_size.is_some()) | u32::from(self.write_size.is_some()) << 1;
        Bitmap::from_words(&[word]).encode(w);
        let sizes: Vec<u64> = self.read_size.iter().chain(&self.write_size).copied().collect();
        w.count(sizes.len() * 8);
        sizes.iter().for_each(|s| w.u64(*s));
    }
}
impl Decode for MdsThreshold {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(MdsThreshold(r.array(16)?))
    }
}
impl Encode for MdsThreshold {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

/// Number of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttrNo(pub u32);

macro_rules! attributes {
    ($($(#[$m:meta])* $no:literal $NAME:ident $field:ident : $t:ty),* $(,)?) => {
        #[allow(missing_docs, reason = "the names are the RFC's own")]
        impl AttrNo {
            $(pub const $NAME: AttrNo = AttrNo($no);)*
            /// The RFC's name of the attribute.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($no => Some(stringify!($field)),)* _ => None }
            }
        }

        /// Attribute values: what a `fattr4` carries. Absent fields are not on the wire.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Attrs {
            $($(#[$m])* pub $field: Option<$t>,)*
            /// Attributes that were on the wire but are not known here (their values and those of
            /// all higher-numbered ones could not be read). Never encoded.
            pub undecoded: Bitmap,
        }

        impl Attrs {
            /// Every attribute whose wire form is known here.
            pub const KNOWN: Bitmap = Bitmap::of(&[$(AttrNo($no)),*]);

            /// Which attributes have values.
            pub fn mask(&self) -> Bitmap {
                let mut out = Bitmap::EMPTY;
                $(if self.$field.is_some() { out.insert(AttrNo($no)); })*
                out
            }

            /// Drops values outside `wanted`.
            #[must_use]
            pub fn only(mut self, wanted: &Bitmap) -> Attrs {
                $(if !wanted.contains(AttrNo($no)) { self.$field = None; })*
                self
            }

            fn encode_values(&self, w: &mut Writer) {
                $(if let Some(v) = &self.$field { v.encode(w); })*
            }

            fn decode_value(&mut self, attr: AttrNo, r: &mut Reader) -> Result<bool, DecodeError> {
                match attr.0 {
                    $($no => self.$field = Some(Decode::decode(r)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

attributes! {
    /// Attributes this file system supports.
    0 SUPPORTED_ATTRS supported_attrs: Bitmap,
    /// File type.
    1 TYPE file_type: FileType,
    /// How filehandles expire: 0 never.
    2 FH_EXPIRE_TYPE fh_expire_type: u32,
    /// Changes whenever the object does.
    3 CHANGE change: u64,
    /// Size in bytes.
    4 SIZE size: u64,
    /// Whether there are hard links.
    5 LINK_SUPPORT link_support: bool,
    /// Whether there are symbolic links.
    6 SYMLINK_SUPPORT symlink_support: bool,
    /// Has named attributes.
    7 NAMED_ATTR named_attr: bool,
    /// File system that the object is in.
    8 FSID fsid: Fsid,
    /// Distinct handles mean distinct objects.
    9 UNIQUE_HANDLES unique_handles: bool,
    /// Length of a lease in seconds.
    10 LEASE_TIME lease_time: u32,
    /// Why an entry's attributes are missing (READDIR).
    11 RDATTR_ERROR rdattr_error: NfsStat,
    /// Access control list.
    12 ACL acl: Acl,
    /// Kinds of ACE supported.
    13 ACLSUPPORT aclsupport: u32,
    /// Whether the file was archived since it was changed.
    14 ARCHIVE archive: bool,
    /// Times can be set.
    15 CANSETTIME cansettime: bool,
    /// Names differing in case are one.
    16 CASE_INSENSITIVE case_insensitive: bool,
    /// Case is kept.
    17 CASE_PRESERVING case_preserving: bool,
    /// Only the superuser may change owners.
    18 CHOWN_RESTRICTED chown_restricted: bool,
    /// Filehandle (READDIR).
    19 FILEHANDLE filehandle: FileHandle,
    /// Number unique in the file system.
    20 FILEID fileid: u64,
    /// Files a user may still create.
    21 FILES_AVAIL files_avail: u64,
    /// Free file slots.
    22 FILES_FREE files_free: u64,
    /// All file slots.
    23 FILES_TOTAL files_total: u64,
    /// All objects here share their per-file-system attributes.
    26 HOMOGENEOUS homogeneous: bool,
    /// Most bytes of a file.
    27 MAXFILESIZE maxfilesize: u64,
    /// Most hard links of a file.
    28 MAXLINK maxlink: u32,
    /// Most bytes of a name.
    29 MAXNAME maxname: u32,
    /// Most bytes of one READ.
    30 MAXREAD maxread: u64,
    /// Most bytes of one WRITE.
    31 MAXWRITE maxwrite: u64,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    33 MODE mode: u32,
    /// Long names are refused, not cut.
    34 NO_TRUNC no_trunc: bool,
    /// Hard links to it.
    35 NUMLINKS numlinks: u32,
    /// Owner, decimal under AUTH_SYS.
    36 OWNER owner: Opaque,
    /// Group, decimal under AUTH_SYS.
    37 OWNER_GROUP owner_group: Opaque,
    /// Major and minor number of a device.
    41 RAWDEV rawdev: SpecData,
    /// Bytes a user may still write.
    42 SPACE_AVAIL space_avail: u64,
    /// Bytes of the file system that are not in use.
    43 SPACE_FREE space_free: u64,
    /// Size of the file system in bytes.
    44 SPACE_TOTAL space_total: u64,
    /// Bytes this object occupies.
    45 SPACE_USED space_used: u64,
    /// When the data were last read.
    47 TIME_ACCESS time_access: NfsTime,
    /// Set-only form of the above.
    48 TIME_ACCESS_SET time_access_set: SetTime,
    /// When the object was made.
    50 TIME_CREATE time_create: NfsTime,
    /// Granularity of times.
    51 TIME_DELTA time_delta: NfsTime,
    /// Last metadata change.
    52 TIME_METADATA time_metadata: NfsTime,
    /// Last data change.
    53 TIME_MODIFY time_modify: NfsTime,
    /// Set-only form of the above.
    54 TIME_MODIFY_SET time_modify_set: SetTime,
    /// File id of the mount point below this root.
    55 MOUNTED_ON_FILEID mounted_on_fileid: u64,
    /// Access control list without audit and alarm entries.
    58 DACL dacl: Acl41,
    /// Layout types of this file system.
    62 FS_LAYOUT_TYPES fs_layout_types: LayoutTypes,
    /// Layout types of this file.
    64 LAYOUT_TYPES layout_types: LayoutTypes,
    /// Preferred size of I/O through a layout, in bytes.
    65 LAYOUT_BLKSIZE layout_blksize: u32,
    /// Preferred alignment of I/O through a layout, in bytes.
    66 LAYOUT_ALIGNMENT layout_alignment: u32,
    /// Below these sizes, I/O goes through the metadata server.
    68 MDSTHRESHOLD mdsthreshold: MdsThreshold,
    /// Mode change under a mask.
    74 MODE_SET_MASKED mode_set_masked: ModeMasked,
    /// Attributes that an exclusive create may carry.
    75 SUPPATTR_EXCLCREAT suppattr_exclcreat: Bitmap,
    /// UTF-8 handling of names.
    76 FS_CHARSET_CAP fs_charset_cap: u32,
    /// Alignment of CLONE.
    77 CLONE_BLKSIZE clone_blksize: u32,
    /// Bytes its removal would free.
    78 SPACE_FREED space_freed: u64,
    /// How `change` moves (RFC 7862 §12.2.3).
    79 CHANGE_ATTR_TYPE change_attr_type: u32,
    /// Mode and umask of a creation.
    81 MODE_UMASK mode_umask: ModeUmask,
    /// Whether there are extended attributes.
    82 XATTR_SUPPORT xattr_support: bool,
    /// Which arguments OPEN takes (RFC 9754 §3).
    86 OPEN_ARGUMENTS open_arguments: Box<OpenArguments>,
}

impl std::fmt::Debug for AttrNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(n) => f.write_str(n),
            None => write!(f, "attr{}", self.0),
        }
    }
}

impl Decode for Attrs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let mask = Bitmap::decode(r)?;
        r.label("fattr4");
        let mut values = Reader::new(r.opaque(ATTR_BYTES_MAX)?);
        values.label("attrlist4");
        let mut out = Attrs::default();
        let mut rest = mask;
        for attr in mask.iter() {
            if !out.decode_value(attr, &mut values)? {
                out.undecoded = rest;
                return Ok(out);
            }
            rest.remove(attr);
        }
        values.finish()?;
        Ok(out)
    }
}
impl Encode for Attrs {
    fn encode(&self, w: &mut Writer) {
        self.mask().encode(w);
        let at = w.len();
        w.u32(0);
        self.encode_values(w);
        let len = w.len() - at - 4;
        w.patch_u32(at, u32::try_from(len).expect("attributes are bounded"));
    }
}

/// An owner or group as the decimal string AUTH_SYS clients expect (linux-nfs idmapping off).
pub fn numeric_owner(id: u32) -> Opaque {
    Opaque(Bytes::from(id.to_string()))
}
