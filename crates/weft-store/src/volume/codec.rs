//! Values of the volume store: a version byte, hand-made big-endian fixed fields, then the optional
//! parts the flags announce (`docs/formats.md`, "Volume store"). Decoding is total: bytes that
//! cannot be right are [`StoreError::Corrupt`], never a panic and never a guess.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use weft_stripe::CyclicList;

use crate::types::{
    ACL_ENTRIES_MAX, Acl, AclEntry, Bounds, DataServerId, Deal, Device, DeviceId, HandlesOut,
    Inode, InodeNo, Intent, IntentId, IntentKind, Kind, LayoutChoice, LengthBounds, Lsn, Placement,
    Run, Spread, StoreError, Timestamp, Who, entry_flag, right,
};
use crate::volume::run::VolumeRun;

/// Version of every value but those below; each kind of record may advance by itself.
pub(super) const VERSION: u8 = 1;
/// Version of an intent, and of a reserved place.
const PLACE_VERSION: u8 = 2;
/// Version of an inode.
const INODE_VERSION: u8 = 5;
/// Version of an inode with a flag beyond the first sixteen: it has 32 of them.
const INODE_WIDE_VERSION: u8 = 6;
/// Bit of the stripe count of a place: how units are dealt out follows.
const SPREAD_FOLLOWS: u16 = 1 << 15;
/// Bytes of an entry of an access control list.
const ACL_ENTRY_BYTES: usize = 11;

/// Optional parts of an inode record.
mod flag {
    pub(super) const UNSETTLED: u32 = 1 << 0;
    pub(super) const PLACEMENT: u32 = 1 << 1;
    pub(super) const VERIFIER: u32 = 1 << 2;
    pub(super) const RDEV: u32 = 1 << 3;
    pub(super) const DIRECTORY: u32 = 1 << 4;
    pub(super) const TARGET: u32 = 1 << 5;
    pub(super) const XATTRS: u32 = 1 << 6;
    pub(super) const STUFFED: u32 = 1 << 7;
    pub(super) const DENSE: u32 = 1 << 8;
    pub(super) const BOUNDS: u32 = 1 << 9;
    pub(super) const HANDLES_READ: u32 = 1 << 10;
    pub(super) const HANDLES_WRITE: u32 = 1 << 11;
    pub(super) const HANDLES_EARLIER: u32 = 1 << 12;
    pub(super) const HANDLES_OWED: u32 = 1 << 13;
    pub(super) const ACL: u32 = 1 << 14;
    pub(super) const OCCUPIED: u32 = 1 << 15;
    /// Of version 6.
    pub(super) const LAYOUT: u32 = 1 << 16;
}

/// What a name points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dirent {
    pub(super) ino: InodeNo,
    pub(super) cookie: u64,
    pub(super) kind: Kind,
}

/// What a cookie points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) ino: InodeNo,
    pub(super) kind: Kind,
    pub(super) name: Bytes,
}

/// One extended attribute of an inode; the value is a record of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct XattrName {
    pub(super) cookie: u64,
    pub(super) value_bytes: u32,
    pub(super) name: Bytes,
}

/// What the volume is, written when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the whole layout of keys.
    pub format: u32,
    /// Number of the volume in the names of its objects and in filehandles; not 0.
    pub number: u32,
    /// Unique name of the volume.
    pub uuid: [u8; 16],
    /// File system id: major and minor.
    pub fsid: (u64, u64),
}

/// Where the volume is, as of the last mutation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) lsn: Lsn,
    pub(super) next_ino: u64,
    pub(super) inodes: u64,
}

pub(super) fn encode_inode(inode: &Inode) -> Bytes {
    let acl_bytes = inode.acl.as_ref().map_or(0, |acl| 2 + ACL_ENTRY_BYTES * acl.entries().len());
    let mut out = BytesMut::with_capacity(160 + inode.target.len() + acl_bytes);
    let flags = inode_flags(inode);
    let narrow = u16::try_from(flags);
    out.put_u8(if narrow.is_ok() { INODE_VERSION } else { INODE_WIDE_VERSION });
    out.put_u8(kind_code(inode.kind));
    out.put_u16(inode.mode);
    out.put_u32(inode.uid);
    out.put_u32(inode.gid);
    out.put_u32(inode.nlink);
    out.put_u64(inode.size);
    out.put_u64(inode.change);
    for time in [inode.atime, inode.mtime, inode.ctime, inode.btime] {
        out.put_i64(time.seconds);
        out.put_u32(time.nanos);
    }
    out.put_u32(inode.fence_epoch);
    match narrow {
        Ok(flags) => out.put_u16(flags),
        Err(_) => out.put_u32(flags),
    }
    if let Some(placement) = &inode.placement {
        put_placement(&mut out, placement);
    }
    if let Some(verifier) = &inode.create_verifier {
        out.put_slice(verifier);
    }
    if flags & flag::RDEV != 0 {
        out.put_u32(inode.rdev.0);
        out.put_u32(inode.rdev.1);
    }
    if flags & flag::DIRECTORY != 0 {
        out.put_u64(inode.parent.0);
        out.put_u64(inode.entries);
        out.put_u64(inode.next_cookie);
    }
    if flags & flag::BOUNDS != 0 {
        put_bounds(&mut out, &inode.bounds);
    }
    if let Some(acl) = &inode.acl {
        put_acl(&mut out, acl);
    }
    if let Some(bytes) = inode.occupied {
        out.put_u64(bytes);
    }
    if let Some(layout) = &inode.layout {
        put_layout(&mut out, layout);
    }
    out.put_slice(&inode.target);
    out.freeze()
}

pub(super) fn decode_inode(no: InodeNo, raw: &Bytes) -> Result<Inode, StoreError> {
    let is_wide = raw.first() == Some(&INODE_WIDE_VERSION);
    let version = if is_wide { INODE_WIDE_VERSION } else { INODE_VERSION };
    let mut fields = Fields::of_version(version, raw, "inode")?;
    let kind = fields.kind()?;
    let mut inode = Inode {
        no,
        kind,
        mode: fields.u16()?,
        acl: None,
        uid: fields.u32()?,
        gid: fields.u32()?,
        nlink: fields.u32()?,
        size: fields.u64()?,
        change: fields.u64()?,
        atime: fields.timestamp()?,
        mtime: fields.timestamp()?,
        ctime: fields.timestamp()?,
        btime: fields.timestamp()?,
        rdev: (0, 0),
        parent: InodeNo(0),
        placement: None,
        fence_epoch: fields.u32()?,
        handles: HandlesOut::NONE,
        create_verifier: None,
        target: Bytes::new(),
        entries: 0,
        next_cookie: 0,
        unsettled: false,
        occupied: None,
        has_xattrs: false,
        bounds: LengthBounds::NONE,
        stuffed: false,
        layout: None,
    };
    let flags = if is_wide { fields.u32()? } else { fields.u16()?.into() };
    decode_inode_parts(&mut inode, flags, &mut fields, raw)?;
    fields.done()?;
    // The flags a record of this kind may have are exactly those it is written with.
    if flags != inode_flags(&inode) || is_wide != (flags > u16::MAX.into()) {
        return Err(fields.corrupt());
    }
    Ok(inode)
}

fn decode_inode_parts(
    inode: &mut Inode,
    flags: u32,
    fields: &mut Fields<'_>,
    raw: &Bytes,
) -> Result<(), StoreError> {
    inode.unsettled = flags & flag::UNSETTLED != 0;
    inode.has_xattrs = flags & flag::XATTRS != 0;
    inode.handles = HandlesOut {
        read: flags & flag::HANDLES_READ != 0,
        write: flags & flag::HANDLES_WRITE != 0,
        earlier: flags & flag::HANDLES_EARLIER != 0,
        owed: flags & flag::HANDLES_OWED != 0,
    };
    inode.stuffed = inode.kind == Kind::File && flags & flag::STUFFED != 0;
    if flags & flag::PLACEMENT != 0 {
        inode.placement = Some(fields.placement()?);
    }
    if flags & flag::VERIFIER != 0 {
        inode.create_verifier = Some(fields.take()?);
    }
    if flags & flag::RDEV != 0 {
        inode.rdev = (fields.u32()?, fields.u32()?);
    }
    if flags & flag::DIRECTORY != 0 {
        inode.parent = InodeNo(fields.u64()?);
        inode.entries = fields.u64()?;
        inode.next_cookie = fields.u64()?;
    }
    inode.bounds = fields.bounds(flags, inode)?;
    if flags & flag::ACL != 0 {
        inode.acl = Some(fields.acl()?);
    }
    if flags & flag::OCCUPIED != 0 {
        inode.occupied = Some(fields.u64()?);
    }
    if flags & flag::LAYOUT != 0 {
        inode.layout = Some(Arc::new(fields.layout()?));
    }
    if flags & flag::TARGET != 0 {
        inode.target = raw.slice_ref(fields.rest());
    }
    Ok(())
}

/// The flags that describe `inode`; a directory, symlink or device always has its own part.
fn inode_flags(inode: &Inode) -> u32 {
    let mut flags = match inode.kind {
        Kind::Directory => flag::DIRECTORY,
        Kind::Symlink => flag::TARGET,
        Kind::CharDevice | Kind::BlockDevice => flag::RDEV,
        Kind::File | Kind::Fifo | Kind::Socket => 0,
    };
    let optional = [
        (inode.unsettled, flag::UNSETTLED),
        (inode.has_xattrs, flag::XATTRS),
        (inode.stuffed, flag::STUFFED),
        (inode.acl.is_some(), flag::ACL),
        (inode.occupied.is_some(), flag::OCCUPIED),
        (inode.layout.is_some(), flag::LAYOUT),
        (inode.placement.is_some(), flag::PLACEMENT),
        (inode.create_verifier.is_some(), flag::VERIFIER),
        (inode.handles.read, flag::HANDLES_READ),
        (inode.handles.write, flag::HANDLES_WRITE),
        (inode.handles.earlier, flag::HANDLES_EARLIER),
        (inode.handles.owed, flag::HANDLES_OWED),
    ];
    for (present, bit) in optional {
        if present {
            flags |= bit;
        }
    }
    flags | bounds_flags(inode)
}

/// A file whose objects are as long as its size demands has no part for that.
fn bounds_flags(inode: &Inode) -> u32 {
    match &inode.bounds.0 {
        Bounds::Nothing => 0,
        Bounds::Dense(size) if *size == inode.size => flag::DENSE,
        Bounds::Dense(_) => flag::DENSE | flag::BOUNDS,
        Bounds::Each(_) => flag::BOUNDS,
    }
}

pub(super) fn encode_dirent(entry: &Dirent) -> Bytes {
    let mut out = BytesMut::with_capacity(18);
    out.put_u8(VERSION);
    out.put_u64(entry.ino.0);
    out.put_u64(entry.cookie);
    out.put_u8(kind_code(entry.kind));
    out.freeze()
}

pub(super) fn decode_dirent(raw: &[u8]) -> Result<Dirent, StoreError> {
    let mut fields = Fields::versioned(raw, "directory entry")?;
    let entry = Dirent { ino: InodeNo(fields.u64()?), cookie: fields.u64()?, kind: fields.kind()? };
    fields.done()?;
    Ok(entry)
}

pub(super) fn encode_order(ino: InodeNo, kind: Kind, name: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(10 + name.len());
    out.put_u8(VERSION);
    out.put_u64(ino.0);
    out.put_u8(kind_code(kind));
    out.put_slice(name);
    out.freeze()
}

pub(super) fn decode_order(raw: &[u8]) -> Result<Ordered, StoreError> {
    let mut fields = Fields::versioned(raw, "directory order")?;
    let (ino, kind) = (InodeNo(fields.u64()?), fields.kind()?);
    Ok(Ordered { ino, kind, name: Bytes::copy_from_slice(fields.rest()) })
}

/// A record whose key says everything.
pub(super) fn encode_presence() -> Bytes {
    Bytes::from_static(&[VERSION])
}

pub(super) fn encode_intent(intent: &Intent) -> Bytes {
    let mut out = BytesMut::with_capacity(48);
    out.put_u8(PLACE_VERSION);
    let (code, size) = match intent.kind {
        IntentKind::Delete => (1, 0),
        IntentKind::Truncate { size } => (2, size),
    };
    out.put_u8(code);
    out.put_u64(intent.ino.0);
    out.put_u64(size);
    out.put_u32(intent.fence_epoch);
    put_placement(&mut out, &intent.placement);
    out.freeze()
}

pub(super) fn decode_intent(id: IntentId, raw: &[u8]) -> Result<Intent, StoreError> {
    let mut fields = Fields::of_version(PLACE_VERSION, raw, "intent")?;
    let code = fields.u8()?;
    let ino = InodeNo(fields.u64()?);
    let size = fields.u64()?;
    let kind = match code {
        1 => IntentKind::Delete,
        2 => IntentKind::Truncate { size },
        _ => return Err(fields.corrupt()),
    };
    let fence_epoch = fields.u32()?;
    let placement = fields.placement()?;
    fields.done()?;
    Ok(Intent { id, kind, ino, placement, fence_epoch })
}

/// Where the file of a reserved number will be.
pub(super) fn encode_reserved(placement: &Placement) -> Bytes {
    let mut out = BytesMut::with_capacity(27);
    out.put_u8(PLACE_VERSION);
    put_placement(&mut out, placement);
    out.freeze()
}

pub(super) fn decode_reserved(raw: &[u8]) -> Result<Placement, StoreError> {
    let mut fields = Fields::of_version(PLACE_VERSION, raw, "reserved inode number")?;
    let placement = fields.placement()?;
    fields.done()?;
    Ok(placement)
}

pub(super) fn encode_device(device: &Device) -> Bytes {
    let stripes = device.stripes();
    let mut out = BytesMut::with_capacity(1 + 4 * stripes.len());
    out.put_u8(VERSION);
    for id in stripes {
        out.put_u32(id.0);
    }
    out.freeze()
}

pub(super) fn decode_device(id: DeviceId, raw: &[u8]) -> Result<Device, StoreError> {
    let mut fields = Fields::versioned(raw, "device")?;
    let mut stripes = Vec::new();
    while !fields.rest.is_empty() {
        stripes.push(DataServerId(fields.u32()?));
    }
    Device::of_stripes(id, &stripes).ok_or_else(|| fields.corrupt())
}

/// Wraps bytes that belong to the caller.
pub(super) fn encode_opaque(body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + body.len());
    out.put_u8(VERSION);
    out.put_slice(body);
    out.freeze()
}

pub(super) fn decode_opaque(what: &'static str, raw: &[u8]) -> Result<Bytes, StoreError> {
    let mut fields = Fields::versioned(raw, what)?;
    Ok(Bytes::copy_from_slice(fields.rest()))
}

/// The bytes of a block of a file, as [`encode_opaque`] wrapped them.
pub(super) fn decode_block(raw: &Bytes) -> Result<Bytes, StoreError> {
    let mut fields = Fields::versioned(raw, "block of a file")?;
    Ok(raw.slice_ref(fields.rest()))
}

pub(super) fn encode_xattr_names(names: &[XattrName]) -> Bytes {
    let bytes: usize = names.iter().map(|name| 13 + name.name.len()).sum();
    let mut out = BytesMut::with_capacity(1 + bytes);
    out.put_u8(VERSION);
    for name in names {
        out.put_u64(name.cookie);
        out.put_u32(name.value_bytes);
        out.put_u8(u8::try_from(name.name.len()).expect("names were checked: at most 255 bytes"));
        out.put_slice(&name.name);
    }
    out.freeze()
}

pub(super) fn decode_xattr_names(raw: &Bytes) -> Result<Vec<XattrName>, StoreError> {
    let mut fields = Fields::versioned(raw, "extended attribute names")?;
    let mut names = Vec::new();
    while !fields.rest.is_empty() {
        let (cookie, value_bytes) = (fields.u64()?, fields.u32()?);
        let len = fields.u8()?;
        let name = raw.slice_ref(fields.slice(len.into())?);
        names.push(XattrName { cookie, value_bytes, name });
    }
    Ok(names)
}

pub(super) fn encode_identity(identity: &Identity) -> Bytes {
    let mut out = BytesMut::with_capacity(41);
    out.put_u8(VERSION);
    out.put_u32(identity.format);
    out.put_u32(identity.number);
    out.put_slice(&identity.uuid);
    out.put_u64(identity.fsid.0);
    out.put_u64(identity.fsid.1);
    out.freeze()
}

/// The version of the whole layout of keys: read first, since all else may depend on it.
pub(super) fn decode_format(raw: &[u8]) -> Result<u32, StoreError> {
    Fields::versioned(raw, "volume identity")?.u32()
}

pub(super) fn decode_identity(raw: &[u8]) -> Result<Identity, StoreError> {
    let mut fields = Fields::versioned(raw, "volume identity")?;
    let identity = Identity {
        format: fields.u32()?,
        number: fields.u32()?,
        uuid: fields.take()?,
        fsid: (fields.u64()?, fields.u64()?),
    };
    fields.done()?;
    if identity.number == 0 { Err(fields.corrupt()) } else { Ok(identity) }
}

pub(super) fn encode_run(run: &VolumeRun) -> Bytes {
    let mut out = BytesMut::with_capacity(33);
    out.put_u8(VERSION);
    out.put_slice(&run.run.id);
    out.put_u64(run.found_lsn.0);
    out.put_u64(run.found_next);
    out.freeze()
}

pub(super) fn decode_run(number: u64, raw: &[u8]) -> Result<VolumeRun, StoreError> {
    let mut fields = Fields::versioned(raw, "run")?;
    let run = VolumeRun {
        run: Run { number, id: fields.take()? },
        found_lsn: Lsn(fields.u64()?),
        found_next: fields.u64()?,
    };
    fields.done()?;
    Ok(run)
}

pub(super) fn encode_progress(progress: &Progress) -> Bytes {
    let mut out = BytesMut::with_capacity(25);
    out.put_u8(VERSION);
    out.put_u64(progress.lsn.0);
    out.put_u64(progress.next_ino);
    out.put_u64(progress.inodes);
    out.freeze()
}

pub(super) fn decode_progress(raw: &[u8]) -> Result<Progress, StoreError> {
    let mut fields = Fields::versioned(raw, "volume progress")?;
    let progress =
        Progress { lsn: Lsn(fields.u64()?), next_ino: fields.u64()?, inodes: fields.u64()? };
    fields.done()?;
    Ok(progress)
}

/// The lowest fence epoch that an inode is read with.
pub(super) fn encode_epoch_floor(floor: u32) -> Bytes {
    let mut out = BytesMut::with_capacity(5);
    out.put_u8(VERSION);
    out.put_u32(floor);
    out.freeze()
}

pub(super) fn decode_epoch_floor(raw: &[u8]) -> Result<u32, StoreError> {
    let mut fields = Fields::versioned(raw, "fence epoch floor")?;
    let floor = fields.u32()?;
    fields.done()?;
    Ok(floor)
}

fn put_placement(out: &mut BytesMut, placement: &Placement) {
    out.put_slice(&placement.device.0);
    out.put_u32(placement.stripe_unit_bytes);
    let follows = if placement.spread == Spread::InTurn { 0 } else { SPREAD_FOLLOWS };
    out.put_u16(placement.stripe_count | follows);
    out.put_u16(placement.first_stripe_index);
    out.put_u16(placement.reach);
    match placement.spread {
        Spread::InTurn => {}
        Spread::List(list) => {
            out.put_u8(1);
            // At most 16.
            out.put_u8(list.turns() as u8);
            out.put_slice(list.entries());
        }
        Spread::Growing { rounds, later_unit_bytes } => {
            out.put_u8(2);
            out.put_u16(rounds);
            out.put_u32(later_unit_bytes);
        }
        Spread::Copies { alike } => {
            out.put_u8(3);
            out.put_u8(alike.into());
        }
    }
}

fn put_layout(out: &mut BytesMut, layout: &LayoutChoice) {
    // What is absent is 0, which neither can be.
    out.put_u32(layout.stripe_unit_bytes.unwrap_or(0));
    out.put_u16(layout.stripe_count.unwrap_or(0));
    match &layout.deal {
        Deal::RoundRobin => out.put_u8(0),
        Deal::Cyclic(servers) => {
            out.put_u8(1);
            out.put_u8(u8::try_from(servers.len()).expect("lists are bounded"));
            servers.iter().for_each(|id| out.put_u32(id.0));
        }
        Deal::Variable { rounds, later_unit_bytes } => {
            out.put_u8(2);
            out.put_u16(*rounds);
            out.put_u32(*later_unit_bytes);
        }
        Deal::Replicated(copies) => {
            out.put_u8(3);
            out.put_u16(*copies);
        }
    }
}

fn put_bounds(out: &mut BytesMut, bounds: &LengthBounds) {
    match &bounds.0 {
        Bounds::Nothing => {}
        Bounds::Dense(size) => out.put_u64(*size),
        Bounds::Each(lengths) => lengths.iter().for_each(|length| out.put_u64(*length)),
    }
}

fn put_acl(out: &mut BytesMut, acl: &Acl) {
    out.put_u16(u16::try_from(acl.entries().len()).expect("lists are bounded"));
    for entry in acl.entries() {
        let (code, id) = match entry.who {
            Who::Owner => (1, 0),
            Who::Group => (2, 0),
            Who::Everyone => (3, 0),
            Who::User(uid) => (4, uid),
            Who::Members(gid) => (5, gid),
        };
        out.put_slice(&[u8::from(entry.allows), entry.flags, code]);
        out.put_u32(id);
        out.put_u32(entry.mask);
    }
}

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::Symlink => 3,
        Kind::Fifo => 4,
        Kind::Socket => 5,
        Kind::CharDevice => 6,
        Kind::BlockDevice => 7,
    }
}

/// A cursor that can only take what is there.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// Starts past the version byte, which must be the one written today.
    pub(super) fn versioned(raw: &'a [u8], what: &'static str) -> Result<Self, StoreError> {
        Self::of_version(VERSION, raw, what)
    }

    fn of_version(version: u8, raw: &'a [u8], what: &'static str) -> Result<Self, StoreError> {
        let mut fields = Self { rest: raw, what };
        if fields.u8()? == version { Ok(fields) } else { Err(fields.corrupt()) }
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.corrupt());
        };
        self.rest = rest;
        Ok(*taken)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8], StoreError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.corrupt());
        };
        self.rest = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, StoreError> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, StoreError> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, StoreError> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, StoreError> {
        self.take().map(u64::from_be_bytes)
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, StoreError> {
        let seconds = self.take().map(i64::from_be_bytes)?;
        let time = Timestamp { seconds, nanos: self.u32()? };
        if time.is_valid() { Ok(time) } else { Err(self.corrupt()) }
    }

    fn kind(&mut self) -> Result<Kind, StoreError> {
        Ok(match self.u8()? {
            1 => Kind::File,
            2 => Kind::Directory,
            3 => Kind::Symlink,
            4 => Kind::Fifo,
            5 => Kind::Socket,
            6 => Kind::CharDevice,
            7 => Kind::BlockDevice,
            _ => return Err(self.corrupt()),
        })
    }

    fn placement(&mut self) -> Result<Placement, StoreError> {
        let mut placement = Placement {
            device: DeviceId(self.take()?),
            stripe_unit_bytes: self.u32()?,
            stripe_count: self.u16()?,
            first_stripe_index: self.u16()?,
            reach: self.u16()?,
            spread: Spread::InTurn,
        };
        if placement.stripe_count & SPREAD_FOLLOWS != 0 {
            placement.stripe_count &= !SPREAD_FOLLOWS;
            placement.spread = self.spread()?;
        }
        Ok(placement)
    }

    fn spread(&mut self) -> Result<Spread, StoreError> {
        match self.u8()? {
            1 => {
                let len = self.u8()?;
                let list = CyclicList::new(self.slice(len.into())?);
                list.map(Spread::List).map_err(|_| self.corrupt())
            }
            2 => Ok(Spread::Growing { rounds: self.u16()?, later_unit_bytes: self.u32()? }),
            3 => match self.u8()? {
                alike @ (0 | 1) => Ok(Spread::Copies { alike: alike == 1 }),
                _ => Err(self.corrupt()),
            },
            _ => Err(self.corrupt()),
        }
    }

    fn layout(&mut self) -> Result<LayoutChoice, StoreError> {
        let (unit, count) = (self.u32()?, self.u16()?);
        let deal = match self.u8()? {
            0 => Deal::RoundRobin,
            1 => {
                let len = self.u8()?;
                let servers = (0..len).map(|_| self.u32().map(DataServerId));
                Deal::Cyclic(servers.collect::<Result<_, _>>()?)
            }
            2 => Deal::Variable { rounds: self.u16()?, later_unit_bytes: self.u32()? },
            3 => Deal::Replicated(self.u16()?),
            _ => return Err(self.corrupt()),
        };
        let layout = LayoutChoice {
            stripe_unit_bytes: (unit > 0).then_some(unit),
            stripe_count: (count > 0).then_some(count),
            deal,
        };
        layout.check().map(|()| layout).map_err(|_| self.corrupt())
    }

    /// The bounds that the flags of an inode announce: one for each of its objects.
    fn bounds(&mut self, flags: u32, inode: &Inode) -> Result<LengthBounds, StoreError> {
        let bounds = match (flags & flag::DENSE != 0, flags & flag::BOUNDS != 0) {
            (false, false) => return Ok(LengthBounds::NONE),
            (true, false) => Bounds::Dense(inode.size),
            (true, true) => Bounds::Dense(self.u64()?),
            (false, true) => {
                let count = inode.placement.map_or(0, |placement| placement.stripe_count);
                Bounds::Each((0..count).map(|_| self.u64()).collect::<Result<_, _>>()?)
            }
        };
        let is_something = match &bounds {
            Bounds::Nothing | Bounds::Dense(0) => false,
            Bounds::Dense(_) => true,
            Bounds::Each(lengths) => lengths.iter().any(|length| *length > 0),
        };
        let has_objects = inode.kind == Kind::File && inode.placement.is_some();
        if is_something && has_objects { Ok(LengthBounds(bounds)) } else { Err(self.corrupt()) }
    }

    fn acl(&mut self) -> Result<Acl, StoreError> {
        let count = usize::from(self.u16()?);
        if count > ACL_ENTRIES_MAX {
            return Err(self.corrupt());
        }
        let entries = (0..count).map(|_| self.acl_entry()).collect::<Result<_, _>>()?;
        Ok(Acl::kept(entries))
    }

    fn acl_entry(&mut self) -> Result<AclEntry, StoreError> {
        let [allows, flags, code] = self.take()?;
        let (id, mask) = (self.u32()?, self.u32()?);
        let who = match (code, id) {
            (1, 0) => Who::Owner,
            (2, 0) => Who::Group,
            (3, 0) => Who::Everyone,
            (4, uid) => Who::User(uid),
            (5, gid) => Who::Members(gid),
            _ => return Err(self.corrupt()),
        };
        let known = allows <= 1 && flags & !entry_flag::ALL == 0 && mask & !right::ALL == 0;
        let entry = AclEntry { allows: allows == 1, flags, mask, who };
        if known { Ok(entry) } else { Err(self.corrupt()) }
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn done(&self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.corrupt()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn corrupt(&self) -> StoreError {
        StoreError::Corrupt(self.what)
    }
}

#[cfg(test)]
mod tests;
