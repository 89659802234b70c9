//! The words the volume store speaks: numbers, times, inodes, placements, and its errors.

mod acl;
mod bounds;
pub mod fence_epoch;
mod layout_choice;
mod placement;
mod rights;

use std::sync::Arc;

use bytes::Bytes;

use self::fence_epoch::fence_of;
use crate::engine::EngineError;

pub use self::acl::{
    ACL_ENTRIES_MAX, Acl, AclEntry, BadAcl, Judgement, Who, acl_of_mode, entry_flag, right,
};
pub(crate) use self::bounds::Bounds;
pub use self::bounds::{LengthBounds, ShortObject};
pub use self::layout_choice::{
    BadLayoutChoice, Deal, LAYOUT_XATTR, LayoutChoice, STRIPE_UNIT_BYTES_MAX,
    STRIPE_UNIT_STEP_BYTES,
};
pub use self::placement::{DataServerId, Device, DeviceId, Placement, Spread};
pub use self::rights::Rights;

/// Number of an inode within its volume; never reused, so it needs no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The root directory of every volume.
    pub const ROOT: InodeNo = InodeNo(1);
}

/// Log sequence number: the place of a mutation in the one order of a volume; 0 is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// One start of a server on its data, until it ends: its number, ascending from 1, and a random
/// name by which two copies of the data that were both started can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// How many starts there were up to this one.
    pub number: u64,
    /// Random.
    pub id: [u8; 16],
}

/// A point in time: seconds since 1970 and nanoseconds (0..1_000_000_000) past them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC, negative before.
    pub seconds: i64,
    /// Nanoseconds past `seconds`.
    pub nanos: u32,
}

impl Timestamp {
    /// Whether the nanoseconds are below one second.
    pub fn is_valid(self) -> bool {
        self.nanos < 1_000_000_000
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
}

/// The user that asks. User 0 is the superuser; squashing happens above this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups; the caller bounds their number.
    pub gids: Vec<u32>,
}

impl Credential {
    /// The credential of the superuser, who may do everything.
    pub fn superuser() -> Self {
        Self::default()
    }

    /// Whether this is the superuser.
    pub fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is the primary or a supplementary group.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.gids.contains(&gid)
    }
}

/// A set of the three permissions, in the bits of one octal digit of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rwx(pub u8);

impl Rwx {
    /// Read a file, list a directory.
    pub const READ: Rwx = Rwx(4);
    /// Write a file, change a directory.
    pub const WRITE: Rwx = Rwx(2);
    /// Execute a file, search a directory.
    pub const EXECUTE: Rwx = Rwx(1);

    /// Both sets together.
    pub const fn and(self, other: Rwx) -> Rwx {
        Rwx(self.0 | other.0)
    }

    /// Whether every permission of `wanted` is in this set.
    pub const fn contains(self, wanted: Rwx) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// An inode number that no file has yet, and where the bytes of the one that gets it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Inode number that the file will have.
    pub ino: InodeNo,
    /// Data servers that its objects will be on.
    pub placement: Placement,
}

/// Set-user-id bit of a mode.
pub const MODE_SETUID: u16 = 0o4000;
/// Set-group-id bit of a mode.
pub const MODE_SETGID: u16 = 0o2000;
/// Sticky bit of a mode: in such a directory only owners remove.
pub const MODE_STICKY: u16 = 0o1000;
/// Every bit of a mode.
pub const MODE_BITS: u16 = 0o7777;

/// Everything a volume knows about one file, directory or special file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Inode number, never used again.
    pub no: InodeNo,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, set-id bits and sticky bit (12 bits).
    pub mode: u16,
    /// What decides who may do what; the nine low bits of the mode follow from it. Absent: the mode
    /// decides.
    pub acl: Option<Acl>,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Names it has; a directory also counts itself and its subdirectories. 0: an orphan.
    pub nlink: u32,
    /// Bytes. Of a file with `unsettled` a lower bound or outdated; of a symlink the target's.
    pub size: u64,
    /// Change attribute: advances with every change of data or metadata, never goes back.
    pub change: u64,
    /// Time of the last access.
    pub atime: Timestamp,
    /// Last change of the data or of a directory's entries.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Time of creation.
    pub btime: Timestamp,
    /// Major and minor number of a device file.
    pub rdev: (u32, u32),
    /// Parent of a directory (the root is its own); [`InodeNo`] 0 for everything else.
    pub parent: InodeNo,
    /// Where a file's bytes live; absent until it was placed.
    pub placement: Option<Placement>,
    /// Data-server handles with a lower epoch write no more, and those from before its fence do
    /// nothing ([`self::fence_epoch`]).
    pub fence_epoch: u32,
    /// Which handles were given out and may still work.
    pub handles: HandlesOut,
    /// Verifier of the exclusive create that made it.
    pub create_verifier: Option<[u8; 8]>,
    /// Target of a symlink.
    pub target: Bytes,
    /// Entries of a directory.
    pub entries: u64,
    /// Next cookie a directory hands out.
    pub next_cookie: u64,
    /// A write layout is or was out: the truth about size and mtime is on the data servers.
    pub unsettled: bool,
    /// Bytes that its objects on data servers occupied when they were asked, if nobody has written
    /// to it since.
    pub occupied: Option<u64>,
    /// It has extended attributes.
    pub has_xattrs: bool,
    /// How long its objects on data servers are at least.
    pub bounds: LengthBounds,
    /// The bytes of a file are in the volume itself, not on data servers. With a placement besides,
    /// they are being moved there, and nobody changes them meanwhile.
    pub stuffed: bool,
    /// How the files that are made in a directory are to be spread; and how a file is, until it has
    /// its place. Absent: as the volume has it.
    pub layout: Option<Arc<LayoutChoice>>,
}

/// Handles of a file for its data servers that were given out, to anybody, and may still work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlesOut {
    /// From after the last fence, to read.
    pub read: bool,
    /// Of the present epoch, to write.
    pub write: bool,
    /// From before the last fence: not all data servers were told of it.
    pub earlier: bool,
    /// And they are to be: a right was taken away that those handles stand for.
    pub owed: bool,
}

impl HandlesOut {
    /// Nobody was given any.
    pub const NONE: HandlesOut =
        HandlesOut { read: false, write: false, earlier: false, owed: false };

    /// Whether any are from after the last fence: what writes reads too.
    pub fn are_new(self) -> bool {
        self.read || self.write
    }

    /// Whether there are any.
    pub fn any(self) -> bool {
        self.are_new() || self.earlier
    }
}

impl Inode {
    /// What it occupies, bytes, with all copies: of a file on data servers of which that is not
    /// known as much as if it had no holes. What file systems there reserve behind the end of an
    /// object for a while, as XFS does, is not the file's.
    pub fn space_used(&self) -> u64 {
        let copies = self.placement.map_or(1, |place| place.copies().into());
        let whole =
            |block: u64| self.size.div_ceil(block).saturating_mul(block).saturating_mul(copies);
        self.occupied.map_or(whole(512), |bytes| bytes.min(whole(4096)))
    }

    /// Whether only its data servers know what it occupies, and nobody has the right to change
    /// that now.
    pub fn occupies_unknown(&self) -> bool {
        self.is_settled_in_objects() && self.size > 0 && self.occupied.is_none()
    }

    /// Whether its bytes are on data servers, and no write layout is or was out since it was asked
    /// there what it is.
    pub(crate) fn is_settled_in_objects(&self) -> bool {
        self.placement.is_some() && !self.stuffed && !self.unsettled
    }

    /// The last epoch whose handles may write where that was not ended yet: the present one if such
    /// were given out, or the one before. `None` if there was none.
    pub fn last_writing_epoch(&self) -> Option<u32> {
        match self.handles.write {
            true => Some(self.fence_epoch),
            false => self.fence_epoch.checked_sub(1),
        }
    }

    /// From here on handles are of this epoch, if it is above that of those given out, which write
    /// no more; and if there is a fence between, they do nothing more.
    pub(crate) fn raise_epoch(&mut self, epoch: u32) {
        if epoch <= self.fence_epoch {
            return;
        }
        if fence_of(epoch) > self.fence_epoch {
            let HandlesOut { owed, .. } = self.handles;
            self.handles = HandlesOut { earlier: self.handles.any(), owed, ..HandlesOut::NONE };
        }
        self.handles.write = false;
        self.fence_epoch = epoch;
    }

    /// The epoch is to be at least this one, whose volume was restored: what was given out since it
    /// was saved is not known, nor what was written.
    pub(crate) fn raise_to_floor(&mut self, floor: u32) {
        if floor > self.fence_epoch {
            self.raise_epoch(floor);
            self.handles.earlier = self.placement.is_some();
            if let Some(Placement { spread: Spread::Copies { alike }, .. }) = &mut self.placement {
                *alike = false;
            }
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Whether the bytes of a file are on their way from the volume to its data servers.
    pub fn is_moving(&self) -> bool {
        self.stuffed && self.placement.is_some()
    }

    /// Whether a write by somebody takes set-id bits away.
    pub fn is_privileged(&self) -> bool {
        self.kind == Kind::File && SetIdLoss::All.of(self.mode) != self.mode
    }

    /// Which set-id bits a change of its data by `cred` takes away.
    pub fn set_id_loss(&self, cred: &Credential) -> SetIdLoss {
        match () {
            () if cred.is_superuser() => SetIdLoss::Nothing,
            () if cred.in_group(self.gid) => SetIdLoss::Privileges,
            () => SetIdLoss::All,
        }
    }

    /// Whether a write by `cred` takes set-id bits away.
    pub fn loses_set_ids(&self, cred: &Credential) -> bool {
        self.kind == Kind::File && self.set_id_loss(cred).of(self.mode) != self.mode
    }
}

/// Permission of the group to execute.
const MODE_GROUP_EXECUTE: u16 = 0o0010;

/// Which set-id bits of a file a change takes away, by whose it is (Linux since 6.2:
/// `setattr_should_drop_suidgid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetIdLoss {
    /// None: the superuser changes data.
    Nothing,
    /// Those that are a privilege, of which a set-group-id bit without group-execute is none:
    /// a member of the file's group changes data, or the superuser the owner.
    Privileges,
    /// All: it is anybody else.
    All,
}

impl SetIdLoss {
    /// What is left of a mode.
    pub(crate) fn of(self, mode: u16) -> u16 {
        let group = match self {
            SetIdLoss::Nothing => return mode,
            SetIdLoss::Privileges if mode & MODE_GROUP_EXECUTE == 0 => 0,
            SetIdLoss::Privileges | SetIdLoss::All => MODE_SETGID,
        };
        mode & !(MODE_SETUID | group)
    }
}

/// What to look for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes that were written.
    Data,
    /// Bytes that read as zeros because nothing is there.
    Hole,
}

/// A directory's change attribute around an operation (atomic: nothing came between).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeInfo {
    /// Before the operation.
    pub before: u64,
    /// After it; the same if nothing changed.
    pub after: u64,
}

/// Identifier of an intent: unique within its volume, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentId(pub u64);

/// Work on data servers that an acknowledged operation still owes (design D18).
///
/// Carrying it out twice is harmless as long as the reply to the operation, and so every later
/// write, waited for [`crate::volume::Volume::complete_intent`] of a truncation to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Identifier of the intent.
    pub id: IntentId,
    /// What is to be done.
    pub kind: IntentKind,
    /// The file; its inode is gone for a delete.
    pub ino: InodeNo,
    /// Where its objects are.
    pub placement: Placement,
    /// The file's fence epoch when the intent was recorded.
    pub fence_epoch: u32,
}

/// What an [`Intent`] wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentKind {
    /// Remove every object of the file.
    Delete,
    /// Cut every object to what a file of `size` bytes needs.
    Truncate {
        /// File size in bytes.
        size: u64,
    },
}

/// Why the volume refused, or could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No entry of that name.
    #[error("no such entry")]
    NotFound,
    /// The inode is gone.
    #[error("inode is gone")]
    Stale,
    /// The name is taken.
    #[error("name exists")]
    Exists,
    /// A directory is needed.
    #[error("not a directory")]
    NotDirectory,
    /// A directory cannot be used here.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// Mode or list forbid it (EACCES).
    #[error("permission denied")]
    Access,
    /// Only the owner or the superuser may (EPERM).
    #[error("operation not permitted")]
    Permission,
    /// A name beyond 255 bytes, or a symlink target beyond 4096.
    #[error("name too long")]
    NameTooLong,
    /// Empty, ".", "..", or with a slash or NUL.
    #[error("bad name")]
    BadName,
    /// The arguments make no sense together.
    #[error("invalid argument")]
    Invalid,
    /// The inode has as many names as can be counted.
    #[error("too many links")]
    TooManyLinks,
    /// Beyond the largest file size.
    #[error("file too big")]
    TooBig,
    /// No space left.
    #[error("no space left")]
    NoSpace,
    /// No extended attribute of that name.
    #[error("no such extended attribute")]
    NoXattr,
    /// An extended attribute beyond 64 KiB, or one more than an inode may have.
    #[error("extended attribute too big")]
    XattrTooBig,
    /// Objects of this kind have no access control list.
    #[error("no access control list here")]
    NoAcl,
    /// Objects of this kind do not have that.
    #[error("wrong type of object")]
    WrongType,
    /// In use in a way that forbids it.
    #[error("busy")]
    Busy,
    /// A name leads to another inode than the caller found there.
    #[error("the name leads elsewhere by now")]
    Replaced,
    /// The bytes of the file are on their way to its data servers.
    #[error("being moved to data servers")]
    Moving,
    /// A stored record cannot be right; the word names its kind.
    #[error("corrupt {0}")]
    Corrupt(&'static str),
    /// An earlier commit failed: nothing is served until the volume was reopened.
    #[error("volume stopped after a failed commit: {0}")]
    Poisoned(String),
    /// The engine failed to read.
    #[error("engine: {0}")]
    Io(String),
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        StoreError::Io(error.to_string())
    }
}
