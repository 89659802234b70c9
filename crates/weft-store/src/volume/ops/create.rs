//! Making files, directories, symlinks and special files.

use std::iter;

use bytes::Bytes;

use super::inode_changes::{take_cookie, touch_entries, untouched};
use super::reserved;
use crate::types::{
    Acl, ChangeInfo, Credential, HandlesOut, Inode, InodeNo, Kind, LengthBounds, MODE_BITS,
    MODE_SETGID, Placement, Reserved, Rwx, StoreError, Timestamp,
};
use crate::volume::check::{self, TARGET_BYTES_MAX};
use crate::volume::codec::Dirent;
use crate::volume::handle::Volume;
use crate::volume::keys;
use crate::volume::open::COOKIE_FIRST;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

/// What to make.
#[derive(Clone, Debug)]
pub struct New {
    /// What it is.
    pub kind: Kind,
    /// Its mode (12 bits). If it inherits a list, that gets this mode.
    pub mode: u16,
    /// Bits that are taken from the mode unless a list is inherited that gives them (RFC 8275).
    pub umask: u16,
    /// The caller said nothing of the mode: a list that is inherited stays as it is.
    pub is_mode_default: bool,
    /// Its list, instead of what it would inherit; the mode follows.
    pub acl: Option<Acl>,
    /// User id of the owner; absent: that of the caller. Only the superuser gives files away.
    pub uid: Option<u32>,
    /// Group; absent: the directory's if that is set-group-id, else the asker's.
    pub gid: Option<u32>,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// Target of a symlink: 1..=4096 bytes without NUL.
    pub target: Bytes,
    /// Size of a regular file, absent: 0.
    pub size: Option<u64>,
    /// Where the bytes of a regular file are.
    pub data: NewFileData,
    /// Access time; absent: now.
    pub atime: Option<Timestamp>,
    /// Modification time; absent: now.
    pub mtime: Option<Timestamp>,
    /// What if the name exists.
    pub how: Exclusivity,
}

impl New {
    /// A regular file; an existing name is returned as it is.
    pub fn file(mode: u16) -> Self {
        Self::of(Kind::File, mode, Exclusivity::Unchecked)
    }

    /// A directory that must not exist.
    pub fn directory(mode: u16) -> Self {
        Self::of(Kind::Directory, mode, Exclusivity::Guarded)
    }

    /// A symlink that must not exist.
    pub fn symlink(target: impl Into<Bytes>) -> Self {
        let target = target.into();
        Self { target, ..Self::of(Kind::Symlink, 0o777, Exclusivity::Guarded) }
    }

    /// Any kind, everything else by default.
    pub fn of(kind: Kind, mode: u16, how: Exclusivity) -> Self {
        Self {
            kind,
            mode,
            umask: 0,
            is_mode_default: false,
            acl: None,
            uid: None,
            gid: None,
            rdev: (0, 0),
            target: Bytes::new(),
            size: None,
            data: NewFileData::Later,
            atime: None,
            mtime: None,
            how,
        }
    }
}

/// Where the bytes of a new file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFileData {
    /// Nowhere yet: its data servers are chosen at the first write ([`Volume::place`]).
    Later,
    /// In the volume while there are few.
    Stuffed,
    /// On these data servers.
    On(Placement),
    /// There, and the file gets this number.
    Reserved(Reserved),
}

impl NewFileData {
    /// The data servers, if they are known.
    fn placement(&self) -> Option<Placement> {
        match self {
            NewFileData::Later | NewFileData::Stuffed => None,
            NewFileData::On(placement) | NewFileData::Reserved(Reserved { placement, .. }) => {
                Some(*placement)
            }
        }
    }
}

/// What to do when the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusivity {
    /// Return what is there.
    Unchecked,
    /// Refuse with [`StoreError::Exists`].
    Guarded,
    /// Refuse, unless it was made with this very verifier: then this is the same request again.
    Exclusive([u8; 8]),
}

/// A create that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// What the name points to now.
    pub inode: Inode,
    /// Whether this request made it (a repeated exclusive create: yes).
    pub created: bool,
    /// The directory's change attribute.
    pub dir_change: ChangeInfo,
}

impl Volume {
    /// Makes `name` in `dir`.
    ///
    /// **Errors.** NameTooLong, BadName, Invalid (arguments that do not fit the kind, a number that
    /// is not reserved), TooBig;
    /// Stale, NotDirectory; Access (search, and write if something is made); Exists; Permission
    /// (devices, foreign owner or group); TooManyLinks.
    pub fn create(
        &self,
        dir: InodeNo,
        name: &[u8],
        new: &New,
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<Created, StoreError>> {
        self.run(|tx| create(tx, dir, name, new, &Maker { cred, now }))
    }
}

/// The caller that makes it, and when.
struct Maker<'a> {
    cred: &'a Credential,
    now: Timestamp,
}

fn create(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    name: &[u8],
    new: &New,
    maker: &Maker<'_>,
) -> Result<Created, StoreError> {
    check::name(name)?;
    validate(new)?;
    // What a new name needs is never in memory: it is asked for before anything else is done.
    let number = match &new.data {
        NewFileData::Reserved(reserved) => Some(keys::reserved(reserved.ino)),
        NewFileData::Later | NewFileData::Stuffed | NewFileData::On(_) => None,
    };
    tx.prepare(iter::once(keys::dirent(dir, name)).chain(number))?;
    let mut parent = tx.directory(dir)?;
    check::require(&parent, maker.cred, Rwx::EXECUTE)?;
    if let Some(entry) = tx.dirent(dir, name)? {
        let inode = tx.entry_inode(entry.ino)?;
        return existing(&parent, inode, new);
    }
    check::may_add(&parent, new.kind, maker.cred)?;
    let (uid, gid) = ownership(&parent, new, maker.cred)?;
    let directory = new.kind == Kind::Directory;
    if directory {
        check::linkable(&parent)?;
    }

    let mut inode = build(numbered(tx, new)?, new, maker.now);
    (inode.uid, inode.gid) = (uid, gid);
    protect(&mut inode, &parent, new);
    inode.mode = entitled_mode(&parent, &inode, maker.cred);
    inode.parent = if directory { dir } else { InodeNo(0) };
    // What is to be is of no use to what has its place.
    if directory || new.kind == Kind::File && inode.placement.is_none() {
        inode.layout = parent.layout.clone();
    }
    inode.fence_epoch = tx.epoch_floor();
    let entry = Dirent { ino: inode.no, cookie: take_cookie(&mut parent), kind: new.kind };
    parent.entries += 1;
    parent.nlink += u32::from(directory);
    let dir_change = touch_entries(&mut parent, maker.now);
    tx.add_inode(&inode);
    tx.put_entry(dir, name, &entry);
    tx.put_inode(&parent);
    Ok(Created { inode, created: true, dir_change })
}

/// The number of the new inode.
fn numbered(tx: &mut Tx<'_>, new: &New) -> Result<InodeNo, StoreError> {
    match &new.data {
        NewFileData::Reserved(reserved) => reserved::take(tx, reserved).map(|()| reserved.ino),
        NewFileData::Later | NewFileData::Stuffed | NewFileData::On(_) => Ok(tx.new_inode_no()),
    }
}

/// Arguments that fit the kind.
fn validate(new: &New) -> Result<(), StoreError> {
    let symlink = new.kind == Kind::Symlink;
    if new.target.len() > TARGET_BYTES_MAX {
        return Err(StoreError::NameTooLong);
    }
    let target_fits = symlink != new.target.is_empty() && !new.target.contains(&0);
    let size_fits = new.size.is_none() || new.kind == Kind::File;
    let data_fits = match new.data.placement() {
        Some(placement) => new.kind == Kind::File && placement.is_sound(),
        None => new.data == NewFileData::Later || new.kind == Kind::File,
    };
    if new.mode & !MODE_BITS != 0 || !target_fits || !size_fits || !data_fits {
        return Err(StoreError::Invalid);
    }
    for time in [new.atime, new.mtime].into_iter().flatten() {
        check::time(time)?;
    }
    if let Some(acl) = &new.acl {
        check::acl(acl, new.kind)?;
    }
    check::size(new.size.unwrap_or(0))
}

/// The answer when the name is taken.
fn existing(parent: &Inode, inode: Inode, new: &New) -> Result<Created, StoreError> {
    let created = match new.how {
        Exclusivity::Unchecked => false,
        Exclusivity::Guarded => return Err(StoreError::Exists),
        Exclusivity::Exclusive(verifier) => {
            if inode.kind != new.kind || inode.create_verifier != Some(verifier) {
                return Err(StoreError::Exists);
            }
            true
        }
    };
    Ok(Created { inode, created, dir_change: untouched(parent) })
}

/// Owner and group of the new inode, if `cred` may make it at all.
fn ownership(parent: &Inode, new: &New, cred: &Credential) -> Result<(u32, u32), StoreError> {
    let device = matches!(new.kind, Kind::CharDevice | Kind::BlockDevice);
    let inherited = if parent.mode & MODE_SETGID != 0 { parent.gid } else { cred.gid };
    let (uid, gid) = (new.uid.unwrap_or(cred.uid), new.gid.unwrap_or(inherited));
    let own_group = gid == inherited || cred.in_group(gid);
    if !cred.is_superuser() && (device || uid != cred.uid || !own_group) {
        return Err(StoreError::Permission);
    }
    Ok((uid, gid))
}

/// Directories pass set-group-id on; nobody gets a set-group-id program of a group he is not in.
fn entitled_mode(parent: &Inode, made: &Inode, cred: &Credential) -> u16 {
    let mode = made.mode;
    if made.is_directory() {
        return mode | parent.mode & MODE_SETGID;
    }
    let privileged = mode & MODE_SETGID != 0 && mode & 0o010 != 0;
    let entitled = cred.is_superuser() || cred.in_group(made.gid);
    if privileged && !entitled { mode & !MODE_SETGID } else { mode }
}

/// The list: that of the caller, else what is inherited, with the mode that was asked for (RFC 8881
/// §6.4.3). Without one the mode is all there is.
fn protect(inode: &mut Inode, parent: &Inode, new: &New) {
    if let Some(acl) = &new.acl {
        return inode.set_acl(acl.clone());
    }
    let inherited = match (&parent.acl, new.kind) {
        (None, _) | (_, Kind::Symlink) => None,
        (Some(acl), kind) => acl.inherited(kind == Kind::Directory),
    };
    match inherited {
        None => inode.mode &= !new.umask,
        Some(acl) if new.is_mode_default => inode.set_acl(acl),
        Some(acl) => inode.set_acl(acl.of_new(inode.mode, new.umask, inode.is_directory())),
    }
}

fn build(no: InodeNo, new: &New, now: Timestamp) -> Inode {
    let device = matches!(new.kind, Kind::CharDevice | Kind::BlockDevice);
    let directory = new.kind == Kind::Directory;
    let verifier = match new.how {
        Exclusivity::Exclusive(verifier) => Some(verifier),
        Exclusivity::Unchecked | Exclusivity::Guarded => None,
    };
    Inode {
        no,
        kind: new.kind,
        mode: new.mode,
        acl: None,
        uid: 0,
        gid: 0,
        nlink: if directory { 2 } else { 1 },
        size: new.size.unwrap_or(new.target.len() as u64),
        change: 1,
        atime: new.atime.unwrap_or(now),
        mtime: new.mtime.unwrap_or(now),
        ctime: now,
        btime: now,
        rdev: if device { new.rdev } else { (0, 0) },
        parent: InodeNo(0),
        placement: new.data.placement(),
        fence_epoch: 0,
        handles: HandlesOut::NONE,
        create_verifier: verifier,
        target: new.target.clone(),
        entries: 0,
        next_cookie: if directory { COOKIE_FIRST } else { 0 },
        unsettled: false,
        occupied: None,
        has_xattrs: false,
        bounds: LengthBounds::NONE,
        stuffed: new.data == NewFileData::Stuffed,
        layout: None,
    }
}
