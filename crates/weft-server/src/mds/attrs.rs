//! Attributes: which are supported, their values, and which can be set (RFC 8881 §5).

use weft_nfs::{
    AttrNo, Attrs, Bitmap, Failure, FileHandle, Fsid, NfsStat, NfsTime, SpecData,
    attr::{LayoutTypes, SetTime, numeric_owner, parse_numeric_owner},
};
use weft_store::{
    types::{Inode, Kind},
    volume::{SetAttr, SetTime as StoreSetTime},
};

use super::translate::{file_type, from_nfs_time, to_nfs_time};

/// NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR (RFC 7862 §12.2.3): writes to data servers are not counted
/// one by one, so it is no version counter.
const CHANGE_IS_MONOTONIC: u32 = 0;
/// Largest file: offsets must stay clear of the signed range's end in every client.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Longest name, bytes.
pub const MAX_NAME_BYTES: u32 = 255;
/// Most hard links announced.
const MAX_LINKS: u32 = 65_000;
/// Largest READ and WRITE announced: the most Linux uses, below the session's request size.
pub const MAX_IO_BYTES: u64 = 1 << 20;
/// Preferred block announced for layouts, bytes.
const LAYOUT_BLOCK_BYTES: u32 = 1 << 20;

/// Attributes that can be read here, in 4.1.
const SUPPORTED_41: Bitmap = Bitmap::of(&[
    AttrNo::SUPPORTED_ATTRS,
    AttrNo::TYPE,
    AttrNo::FH_EXPIRE_TYPE,
    AttrNo::CHANGE,
    AttrNo::SIZE,
    AttrNo::LINK_SUPPORT,
    AttrNo::SYMLINK_SUPPORT,
    AttrNo::NAMED_ATTR,
    AttrNo::FSID,
    AttrNo::UNIQUE_HANDLES,
    AttrNo::LEASE_TIME,
    AttrNo::RDATTR_ERROR,
    AttrNo::ACLSUPPORT,
    AttrNo::CANSETTIME,
    AttrNo::CASE_INSENSITIVE,
    AttrNo::CASE_PRESERVING,
    AttrNo::CHOWN_RESTRICTED,
    AttrNo::FILEHANDLE,
    AttrNo::FILEID,
    AttrNo::FILES_AVAIL,
    AttrNo::FILES_FREE,
    AttrNo::FILES_TOTAL,
    AttrNo::HOMOGENEOUS,
    AttrNo::MAXFILESIZE,
    AttrNo::MAXLINK,
    AttrNo::MAXNAME,
    AttrNo::MAXREAD,
    AttrNo::MAXWRITE,
    AttrNo::MODE,
    AttrNo::NO_TRUNC,
    AttrNo::NUMLINKS,
    AttrNo::OWNER,
    AttrNo::OWNER_GROUP,
    AttrNo::RAWDEV,
    AttrNo::SPACE_AVAIL,
    AttrNo::SPACE_FREE,
    AttrNo::SPACE_TOTAL,
    AttrNo::SPACE_USED,
    AttrNo::TIME_ACCESS,
    AttrNo::TIME_ACCESS_SET,
    AttrNo::TIME_CREATE,
    AttrNo::TIME_DELTA,
    AttrNo::TIME_METADATA,
    AttrNo::TIME_MODIFY,
    AttrNo::TIME_MODIFY_SET,
    AttrNo::MOUNTED_ON_FILEID,
    AttrNo::FS_LAYOUT_TYPES,
    AttrNo::LAYOUT_TYPES,
    AttrNo::LAYOUT_BLKSIZE,
    AttrNo::SUPPATTR_EXCLCREAT,
    AttrNo::FS_CHARSET_CAP,
]);
/// And those that 4.2 adds.
const SUPPORTED_42: Bitmap = Bitmap::of(&[AttrNo::CHANGE_ATTR_TYPE, AttrNo::MODE_UMASK]);
/// Attributes that can be set.
const SETTABLE: Bitmap = Bitmap::of(&[
    AttrNo::SIZE,
    AttrNo::MODE,
    AttrNo::OWNER,
    AttrNo::OWNER_GROUP,
    AttrNo::TIME_ACCESS_SET,
    AttrNo::TIME_MODIFY_SET,
    AttrNo::MODE_UMASK,
]);
/// Attributes that can be set but not read (RFC 8881 §5.5, RFC 8275 §5).
pub const SET_ONLY: Bitmap =
    Bitmap::of(&[AttrNo::TIME_ACCESS_SET, AttrNo::TIME_MODIFY_SET, AttrNo::MODE_UMASK]);
/// Attributes whose truth may be on the data servers while a write layout is out (D8).
const ON_DATA_SERVERS: Bitmap = Bitmap::of(&[
    AttrNo::SIZE,
    AttrNo::CHANGE,
    AttrNo::SPACE_USED,
    AttrNo::TIME_MODIFY,
    AttrNo::TIME_METADATA,
]);
/// Attributes about the file system's space.
const ABOUT_SPACE: Bitmap = Bitmap::of(&[
    AttrNo::SPACE_AVAIL,
    AttrNo::SPACE_FREE,
    AttrNo::SPACE_TOTAL,
    AttrNo::FILES_AVAIL,
    AttrNo::FILES_FREE,
    AttrNo::FILES_TOTAL,
]);

/// Attributes supported in a minor version.
pub fn supported(minorversion: u32) -> Bitmap {
    if minorversion >= 2 { SUPPORTED_41.or(&SUPPORTED_42) } else { SUPPORTED_41 }
}

/// Whether an answer needs the data servers' word while the file is unsettled.
pub fn needs_truth(wanted: &Bitmap) -> bool {
    !wanted.and(&ON_DATA_SERVERS).is_empty()
}

/// Whether an answer needs the file system's space.
pub fn needs_space(wanted: &Bitmap) -> bool {
    !wanted.and(&ABOUT_SPACE).is_empty()
}

/// What attributes depend on beside the inode.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// File system id.
    pub fsid: Fsid,
    /// Lease, seconds.
    pub lease_s: u32,
    /// 1 or 2.
    pub minorversion: u32,
    /// Bytes: total, free, available; only filled when asked for.
    pub space: (u64, u64, u64),
    /// Inodes in use; only filled when asked for.
    pub files_used: u64,
}

/// Inodes are limited by space alone; this many are announced.
const FILES_TOTAL: u64 = 1 << 40;

/// The wanted attributes of an inode, as far as they are supported.
pub fn values(inode: &Inode, fh: FileHandle, wanted: &Bitmap, facts: &Facts) -> Attrs {
    let mut a = Attrs::default();
    own_values(&mut a, inode, fh);
    server_values(&mut a, facts);
    if needs_space(wanted) {
        space_values(&mut a, facts);
    }
    if inode.kind == Kind::File {
        a.layout_types = Some(LayoutTypes(vec![weft_nfs::LayoutType::NFSV4_1_FILES.0]));
    }
    a.only(&wanted.and(&supported(facts.minorversion)))
}

fn own_values(a: &mut Attrs, inode: &Inode, fh: FileHandle) {
    a.file_type = Some(file_type(inode.kind));
    a.change = Some(inode.change);
    a.size = Some(inode.size);
    a.filehandle = Some(fh);
    a.fileid = Some(inode.no.0);
    a.mounted_on_fileid = Some(inode.no.0);
    a.mode = Some(inode.mode.into());
    a.numlinks = Some(inode.nlink);
    a.owner = Some(numeric_owner(inode.uid));
    a.owner_group = Some(numeric_owner(inode.gid));
    a.rawdev = Some(SpecData { major: inode.rdev.0, minor: inode.rdev.1 });
    a.space_used = Some(inode.size.div_ceil(512).saturating_mul(512));
    a.time_access = Some(to_nfs_time(inode.atime));
    a.time_create = Some(to_nfs_time(inode.btime));
    a.time_metadata = Some(to_nfs_time(inode.ctime));
    a.time_modify = Some(to_nfs_time(inode.mtime));
    a.rdattr_error = Some(NfsStat::OK);
}

fn server_values(a: &mut Attrs, facts: &Facts) {
    let supported = supported(facts.minorversion);
    a.supported_attrs = Some(supported);
    a.suppattr_exclcreat = Some(SETTABLE.and(&supported));
    a.fh_expire_type = Some(0);
    a.link_support = Some(true);
    a.symlink_support = Some(true);
    a.named_attr = Some(false);
    a.fsid = Some(facts.fsid);
    a.unique_handles = Some(true);
    a.lease_time = Some(facts.lease_s);
    a.aclsupport = Some(0);
    a.cansettime = Some(true);
    a.case_insensitive = Some(false);
    a.case_preserving = Some(true);
    a.chown_restricted = Some(true);
    a.homogeneous = Some(true);
    a.maxfilesize = Some(MAX_FILE_BYTES);
    a.maxlink = Some(MAX_LINKS);
    a.maxname = Some(MAX_NAME_BYTES);
    a.maxread = Some(MAX_IO_BYTES);
    a.maxwrite = Some(MAX_IO_BYTES);
    a.no_trunc = Some(true);
    a.time_delta = Some(NfsTime { seconds: 0, nseconds: 1 });
    a.fs_layout_types = Some(LayoutTypes(vec![weft_nfs::LayoutType::NFSV4_1_FILES.0]));
    a.layout_blksize = Some(LAYOUT_BLOCK_BYTES);
    a.fs_charset_cap = Some(0);
    a.change_attr_type = Some(CHANGE_IS_MONOTONIC);
}

fn space_values(a: &mut Attrs, facts: &Facts) {
    let (total, free, avail) = facts.space;
    a.space_total = Some(total);
    a.space_free = Some(free);
    a.space_avail = Some(avail);
    a.files_total = Some(FILES_TOTAL);
    a.files_free = Some(FILES_TOTAL.saturating_sub(facts.files_used));
    a.files_avail = a.files_free;
}

/// Attributes to be set, checked: RFC 8881 §5.5 (set-only and get-only), §18.30.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// For the store.
    pub set: SetAttr,
    /// What will have been set.
    pub mask: Bitmap,
}

/// Checks a `fattr4` that is to be set.
///
/// # Errors
/// ATTRNOTSUPP for attributes not supported, INVAL for read-only ones and bad values, BADOWNER
/// for owners that are no numbers.
pub fn settings(a: &Attrs, minorversion: u32) -> Result<Settings, Failure> {
    let mask = a.mask();
    let unsupported = mask.without(&supported(minorversion));
    if !unsupported.is_empty() || !a.undecoded.is_empty() {
        return Err(NfsStat::ATTRNOTSUPP.into());
    }
    if !mask.without(&SETTABLE).is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    let mut set = SetAttr::default();
    if a.size.is_some_and(|s| s > MAX_FILE_BYTES) {
        return Err(NfsStat::FBIG.into());
    }
    set.size = a.size;
    // RFC 8275 §5: never both.
    set.mode = match (a.mode, &a.mode_umask) {
        (Some(_), Some(_)) => return Err(NfsStat::INVAL.into()),
        (Some(m), None) => Some(mode_bits(m)?),
        (None, Some(mu)) => Some(mode_bits(mu.mode & !mu.umask)?),
        (None, None) => None,
    };
    set.uid =
        a.owner.as_ref().map(|o| parse_numeric_owner(o).ok_or(NfsStat::BADOWNER)).transpose()?;
    set.gid = a
        .owner_group
        .as_ref()
        .map(|o| parse_numeric_owner(o).ok_or(NfsStat::BADOWNER))
        .transpose()?;
    set.atime = a.time_access_set.map(set_time).transpose()?;
    set.mtime = a.time_modify_set.map(set_time).transpose()?;
    Ok(Settings { set, mask })
}

fn mode_bits(mode: u32) -> Result<u16, NfsStat> {
    u16::try_from(mode).ok().filter(|m| m & !0o7777 == 0).ok_or(NfsStat::INVAL)
}

fn set_time(t: SetTime) -> Result<StoreSetTime, NfsStat> {
    match t {
        SetTime::ToServer => Ok(StoreSetTime::Server),
        SetTime::ToClient(t) => Ok(StoreSetTime::Client(from_nfs_time(t)?)),
    }
}
