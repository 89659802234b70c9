//! Attributes: which are supported, their values, and which can be set (RFC 8881 §5, RFC 7862 §12,
//! RFC 8275, RFC 8276 §8.2).

use weft_nfs::{
    Acl, Acl41, AttrNo, Attrs, Bitmap, Failure, FileHandle, Fsid, NfsStat, NfsTime, SpecData,
    acl_support,
    attr::{LayoutTypes, MdsThreshold, ModeMasked, OpenArguments, SetTime, ThresholdItem},
};
use weft_store::{
    types::{Inode, Kind},
    volume::{LINKS_MAX, SetAttr, SetMode, SetTime as StoreSetTime},
};

use crate::{
    admin::Threshold,
    export::{
        acl::{self, Form},
        names::{Names, Owners},
    },
    files::LayoutKind,
    translate::{file_type, from_nfs_time, to_nfs_time},
};

/// NFS4_CHANGE_TYPE_IS_UNDEFINED (RFC 7862 §12.2.3). It never goes back; but a client to whom more
/// is promised takes the reply with the higher value for the newer one, and drops what it knows of
/// its own writes to data servers that were done since that reply was put together.
const CHANGE_IS_UNDEFINED: u32 = 4;
/// Largest file: offsets must stay clear of the signed range's end in every client.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Longest name, bytes.
pub const MAX_NAME_BYTES: u32 = 255;
/// Largest READ and WRITE announced: the most Linux uses, below the session's request size.
pub const MAX_IO_BYTES: u64 = 1 << 20;
/// Preferred block announced for layouts, bytes.
const LAYOUT_BLOCK_BYTES: u32 = 1 << 20;
/// FSCHARSET_CAP4_CONTAINS_NON_UTF8 (RFC 8881 §14.4): names are any bytes.
const NAMES_MAY_BE_NO_UTF8: u32 = 1;

/// Attributes of 4.1 that are supported here.
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
    AttrNo::ACL,
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
    AttrNo::DACL,
    AttrNo::FS_LAYOUT_TYPES,
    AttrNo::LAYOUT_TYPES,
    AttrNo::LAYOUT_BLKSIZE,
    AttrNo::MDSTHRESHOLD,
    AttrNo::MODE_SET_MASKED,
    AttrNo::SUPPATTR_EXCLCREAT,
    AttrNo::FS_CHARSET_CAP,
]);
/// And those that 4.2 adds.
const SUPPORTED_42: Bitmap = Bitmap::of(&[
    AttrNo::SPACE_FREED,
    AttrNo::CHANGE_ATTR_TYPE,
    AttrNo::MODE_UMASK,
    AttrNo::XATTR_SUPPORT,
    AttrNo::OPEN_ARGUMENTS,
]);
/// Attributes that can be set, some only where something is made, others only later.
const SETTABLE: Bitmap = Bitmap::of(&[
    AttrNo::SIZE,
    AttrNo::ACL,
    AttrNo::MODE,
    AttrNo::OWNER,
    AttrNo::OWNER_GROUP,
    AttrNo::TIME_ACCESS_SET,
    AttrNo::TIME_MODIFY_SET,
    AttrNo::DACL,
    AttrNo::MODE_SET_MASKED,
    AttrNo::MODE_UMASK,
]);
/// Attributes that can be set but not read (RFC 8881 §5.5, RFC 8275 §5).
pub const SET_ONLY: Bitmap = Bitmap::of(&[
    AttrNo::TIME_ACCESS_SET,
    AttrNo::TIME_MODIFY_SET,
    AttrNo::MODE_SET_MASKED,
    AttrNo::MODE_UMASK,
]);
/// Not for OPEN and CREATE (RFC 8881 §6.2.5).
const LATER_ONLY: Bitmap = Bitmap::of(&[AttrNo::MODE_SET_MASKED]);
/// For OPEN and CREATE alone (RFC 8275 §5).
const CREATE_ONLY: Bitmap = Bitmap::of(&[AttrNo::MODE_UMASK]);
/// Attributes whose truth may be on the data servers while a write layout is out (design D8).
const ON_DATA_SERVERS: Bitmap = Bitmap::of(&[
    AttrNo::SIZE,
    AttrNo::CHANGE,
    AttrNo::SPACE_USED,
    AttrNo::SPACE_FREED,
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

/// Whether an answer has the access control list in it.
pub fn lists(wanted: &Bitmap) -> bool {
    wanted.contains(AttrNo::ACL) || wanted.contains(AttrNo::DACL)
}

/// Attributes supported in a minor version.
pub fn supported(minorversion: u32) -> Bitmap {
    if minorversion >= 2 { SUPPORTED_41.or(&SUPPORTED_42) } else { SUPPORTED_41 }
}

/// Whether an answer needs the data servers' word while the file is unsettled.
pub fn needs_server_attrs(wanted: &Bitmap) -> bool {
    !wanted.and(&ON_DATA_SERVERS).is_empty()
}

/// Whether an answer tells what a file occupies.
pub fn tells_occupied(wanted: &Bitmap) -> bool {
    wanted.contains(AttrNo::SPACE_USED) || wanted.contains(AttrNo::SPACE_FREED)
}

/// Whether an answer needs the file system's space.
pub fn needs_space(wanted: &Bitmap) -> bool {
    !wanted.and(&ABOUT_SPACE).is_empty()
}

/// What attributes depend on beside the inode.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
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
    /// Below which size files are read and written through the metadata server.
    pub threshold: &'a Threshold,
    /// How clients are told where files are.
    pub layout: LayoutKind,
    /// How owners are called.
    pub names: &'a Names,
    /// Whether delegations take the place of opens, for who wants that.
    pub instead_of_opens: bool,
}

/// Inodes are limited by space alone; this many are announced.
const FILES_TOTAL: u64 = 1 << 40;

/// The wanted attributes of an inode, as far as they are supported.
pub fn values(inode: &Inode, fh: FileHandle, wanted: &Bitmap, facts: &Facts<'_>) -> Attrs {
    let mut a = Attrs::default();
    own_values(&mut a, inode, fh);
    permission_values(&mut a, inode, wanted, facts.names);
    layout_values(&mut a, inode, wanted, (facts.layout, facts.threshold.told(inode)));
    server_values(&mut a, facts);
    if wanted.contains(AttrNo::OPEN_ARGUMENTS) {
        a.open_arguments = Some(Box::new(open_arguments(facts.instead_of_opens)));
    }
    if needs_space(wanted) {
        space_values(&mut a, facts);
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
    a.numlinks = Some(inode.nlink);
    a.rawdev = Some(SpecData { major: inode.rdev.0, minor: inode.rdev.1 });
    let used = inode.space_used();
    a.space_used = Some(used);
    // RFC 7862 §12.2.2: what goes with the last name.
    a.space_freed = Some(if inode.nlink > 1 && !inode.is_directory() { 0 } else { used });
    a.time_access = Some(to_nfs_time(inode.atime));
    a.time_create = Some(to_nfs_time(inode.btime));
    a.time_metadata = Some(to_nfs_time(inode.ctime));
    a.time_modify = Some(to_nfs_time(inode.mtime));
    a.rdattr_error = Some(NfsStat::OK);
}

fn permission_values(a: &mut Attrs, inode: &Inode, wanted: &Bitmap, names: &Names) {
    a.mode = Some(inode.mode.into());
    if wanted.contains(AttrNo::OWNER) {
        a.owner = Some(names.user(inode.uid));
    }
    if wanted.contains(AttrNo::OWNER_GROUP) {
        a.owner_group = Some(names.group(inode.gid));
    }
    if lists(wanted) {
        let aces = Acl(acl::to_wire(&inode.acl_entries(), names));
        a.dacl = Some(Acl41 { flag: 0, aces: aces.clone() });
        a.acl = Some(aces);
    }
}

/// Lists, which cost an allocation each: only made when wanted.
fn layout_values(
    a: &mut Attrs,
    inode: &Inode,
    wanted: &Bitmap,
    (layout, below): (LayoutKind, Option<u64>),
) {
    let layout_types = || LayoutTypes(vec![layout.wire().0]);
    let striped = inode.kind == Kind::File;
    if wanted.contains(AttrNo::MDSTHRESHOLD) {
        a.mdsthreshold = below.filter(|_| striped).map(|below| threshold(layout, below));
    }
    if wanted.contains(AttrNo::LAYOUT_TYPES) {
        a.layout_types = Some(if striped { layout_types() } else { LayoutTypes::default() });
    }
    if wanted.contains(AttrNo::FS_LAYOUT_TYPES) {
        a.fs_layout_types = Some(layout_types());
    }
}

/// Exactly one item (Linux has room for one), with sizes alone: its other hints are understood
/// differently by the RFC and by Linux (RFC 8881 §5.12.4).
fn threshold(layout: LayoutKind, below: u64) -> MdsThreshold {
    MdsThreshold(vec![ThresholdItem {
        layout_type: layout.wire().0,
        read_size: Some(below),
        write_size: Some(below),
    }])
}

fn server_values(a: &mut Attrs, facts: &Facts<'_>) {
    let supported = supported(facts.minorversion);
    a.supported_attrs = Some(supported);
    a.suppattr_exclcreat = Some(SETTABLE.and(&supported).without(&LATER_ONLY));
    a.fh_expire_type = Some(0);
    a.link_support = Some(true);
    a.symlink_support = Some(true);
    a.named_attr = Some(false);
    a.fsid = Some(facts.fsid);
    a.unique_handles = Some(true);
    a.lease_time = Some(facts.lease_s);
    a.aclsupport = Some(acl_support::ALLOW | acl_support::DENY);
    a.cansettime = Some(true);
    a.case_insensitive = Some(false);
    a.case_preserving = Some(true);
    a.chown_restricted = Some(true);
    a.homogeneous = Some(true);
    a.maxfilesize = Some(MAX_FILE_BYTES);
    a.maxlink = Some(LINKS_MAX);
    a.maxname = Some(MAX_NAME_BYTES);
    a.maxread = Some(MAX_IO_BYTES);
    a.maxwrite = Some(MAX_IO_BYTES);
    a.no_trunc = Some(true);
    a.time_delta = Some(NfsTime { seconds: 0, nseconds: 1 });
    a.layout_blksize = Some(LAYOUT_BLOCK_BYTES);
    a.fs_charset_cap = Some(NAMES_MAY_BE_NO_UTF8);
    a.change_attr_type = Some(CHANGE_IS_UNDEFINED);
    a.xattr_support = Some(true);
}

/// What OPEN takes: RFC 9754 §3. Each is named by its number in the RFC's enumerations; the wants
/// are ANY_DELEG, NO_DELEG, CANCEL, and OPEN_XOR_DELEGATION where delegations take the place of
/// opens.
fn open_arguments(instead_of_opens: bool) -> OpenArguments {
    let numbers = |numbers: &[u32]| {
        let mut set = Bitmap::EMPTY;
        numbers.iter().for_each(|number| set.insert(AttrNo(*number)));
        set
    };
    OpenArguments {
        share_access: numbers(&[1, 2, 3]),
        share_deny: numbers(&[0, 1, 2, 3]),
        share_access_want: numbers(if instead_of_opens { &[3, 4, 5, 21] } else { &[3, 4, 5] }),
        open_claim: numbers(&[0, 1, 2, 4, 5]),
        create_mode: numbers(&[0, 1, 2, 3]),
    }
}

fn space_values(a: &mut Attrs, facts: &Facts<'_>) {
    let (total, free, avail) = facts.space;
    a.space_total = Some(total);
    a.space_free = Some(free);
    a.space_avail = Some(avail);
    a.files_total = Some(FILES_TOTAL);
    a.files_free = Some(FILES_TOTAL.saturating_sub(facts.files_used));
    a.files_avail = a.files_free;
}

/// What attributes are set on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Something that is being made.
    Creation,
    /// Something that is there.
    Existing,
}

/// Attributes to be set, checked: RFC 8881 §5.5 (set-only and get-only), §18.30.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// For the store.
    pub set: SetAttr,
    /// Of something that is being made: bits that are taken from its mode unless it inherits a
    /// list (RFC 8275 §5).
    pub umask: u16,
    /// What will have been set.
    pub mask: Bitmap,
}

/// Whether these attributes can be set at all, whatever their values.
///
/// # Errors
/// ATTRNOTSUPP for attributes not supported; INVAL for read-only ones, and for those that are not
/// for `on`.
fn settable(a: &Attrs, on: On, minorversion: u32) -> Result<(), Failure> {
    let mask = a.mask();
    let unsupported = mask.without(&supported(minorversion));
    if !unsupported.is_empty() || !a.undecoded.is_empty() {
        return Err(NfsStat::ATTRNOTSUPP.into());
    }
    let misplaced = match on {
        On::Creation => LATER_ONLY,
        On::Existing => CREATE_ONLY,
    };
    if mask.without(&SETTABLE).or(&mask.and(&misplaced)).is_empty() {
        Ok(())
    } else {
        Err(NfsStat::INVAL.into())
    }
}

/// Checks a `fattr4` that is to be set.
///
/// # Errors
/// Those of [`settable`], [`Names::owners`], [`acl::from_wire`] and [`checked`].
pub async fn settings(
    names: &Names,
    a: &Attrs,
    on: On,
    minorversion: u32,
) -> Result<Settings, Failure> {
    settable(a, on, minorversion)?;
    // Rare and large: not a part of every request's memory.
    let owners = match a.owner.is_some() || a.owner_group.is_some() {
        true => Box::pin(names.owners(a)).await?,
        false => Owners::default(),
    };
    let mut settings = checked(a, owners)?;
    if a.acl.is_some() || a.dacl.is_some() {
        settings.set.acl = Box::pin(set_acl(a, names)).await?;
    }
    Ok(settings)
}

/// The values of a `fattr4` that is [`settable`].
///
/// # Errors
/// FBIG; INVAL for bad values and for two ways of saying the mode.
fn checked(a: &Attrs, owners: Owners) -> Result<Settings, Failure> {
    if a.size.is_some_and(|s| s > MAX_FILE_BYTES) {
        return Err(NfsStat::FBIG.into());
    }
    let (mode, umask) = set_mode(a)?;
    let set = SetAttr {
        mode,
        acl: None,
        uid: owners.uid,
        gid: owners.gid,
        size: a.size,
        atime: a.time_access_set.map(set_time).transpose()?,
        mtime: a.time_modify_set.map(set_time).transpose()?,
    };
    Ok(Settings { set, umask, mask: a.mask() })
}

/// The mode that is set (§6.2.4, §6.2.5), and the umask of whoever makes something (RFC 8275 §5).
fn set_mode(a: &Attrs) -> Result<(Option<SetMode>, u16), NfsStat> {
    match (a.mode, a.mode_set_masked, a.mode_umask) {
        (None, None, None) => Ok((None, 0)),
        (Some(mode), None, None) => Ok((Some(SetMode::all(mode_bits(mode)?)), 0)),
        (None, Some(ModeMasked { value, mask }), None) => {
            Ok((Some(SetMode { bits: mode_bits(value)?, mask: mode_bits(mask)? }), 0))
        }
        (None, None, Some(mu)) => {
            // Linux: of a umask only the low bits count (`current_umask`).
            let umask = mode_bits(mu.umask & 0o777)?;
            Ok((Some(SetMode::all(mode_bits(mu.mode)?)), umask))
        }
        _ => Err(NfsStat::INVAL),
    }
}

/// The list that is set; there is one, by either name.
async fn set_acl(a: &Attrs, names: &Names) -> Result<Option<weft_store::types::Acl>, Failure> {
    let (aces, form) = match (&a.acl, &a.dacl) {
        (None, None) => return Ok(None),
        (Some(acl), None) => (acl, Form::Plain),
        // §6.4.3.2: there is no automatic inheritance here, so there is nothing to flag.
        (None, Some(Acl41 { flag: 0, aces })) => (aces, Form::Discretionary),
        (None, Some(_)) => return Err(NfsStat::ATTRNOTSUPP.into()),
        (Some(_), Some(_)) => return Err(NfsStat::INVAL.into()),
    };
    acl::from_wire(&aces.0, form, names).await.map(Some)
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
