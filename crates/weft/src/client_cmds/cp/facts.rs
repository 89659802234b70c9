//! What a copy has to know of a file, wherever it is.

use std::{
    fs::Metadata,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use nix::unistd::{Group, User};
use weft_nfs::{Attrs, FileType, NfsTime, Opaque, attr::SetTime};

/// Bits of a mode that are kept with `-p`, and without.
const MODE: u32 = 0o7777;
const PERMISSIONS: u32 = 0o777;
/// Those that are kept with `-p` of a file that gets another owner.
const WITHOUT_SET_ID: u32 = 0o1777;

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Dir,
    Link,
    /// Nothing that is copied; what, in words.
    Special(&'static str),
}

/// A file's attributes, as far as copies keep them.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    pub(super) size: u64,
    mode: u32,
    pub(super) accessed: NfsTime,
    pub(super) modified: NfsTime,
    /// As servers spell them.
    owner: Option<Opaque>,
    group: Option<Opaque>,
    /// What the servers say of it, which tells it from others.
    pub(super) there: Option<Box<Attrs>>,
}

impl Facts {
    /// Of a local file.
    pub(super) fn of_local(m: &Metadata) -> Facts {
        let kind = m.file_type();
        let id = |id: u32| Some(Opaque(id.to_string().into_bytes().into()));
        let time = |seconds, nseconds: i64| NfsTime {
            seconds,
            nseconds: u32::try_from(nseconds).unwrap_or(0),
        };
        Facts {
            kind: match kind {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Dir,
                kind if kind.is_symlink() => Kind::Link,
                kind if kind.is_fifo() => Kind::Special("a fifo"),
                kind if kind.is_socket() => Kind::Special("a socket"),
                _ => Kind::Special("a device"),
            },
            size: m.len(),
            mode: m.mode(),
            accessed: time(m.atime(), m.atime_nsec()),
            modified: time(m.mtime(), m.mtime_nsec()),
            owner: id(m.uid()),
            group: id(m.gid()),
            there: None,
        }
    }

    /// Of what a server has.
    pub(super) fn of_remote(attrs: Attrs) -> Facts {
        let zero = NfsTime { seconds: 0, nseconds: 0 };
        Facts {
            kind: match attrs.file_type {
                Some(FileType::REG) => Kind::File,
                Some(FileType::DIR) => Kind::Dir,
                Some(FileType::LNK) => Kind::Link,
                Some(FileType::FIFO) => Kind::Special("a fifo"),
                Some(FileType::SOCK) => Kind::Special("a socket"),
                Some(FileType::BLK | FileType::CHR) => Kind::Special("a device"),
                _ => Kind::Special("something that the server tells nothing of now"),
            },
            size: attrs.size.unwrap_or(0),
            mode: attrs.mode.unwrap_or(0o644),
            accessed: attrs.time_access.unwrap_or(zero),
            modified: attrs.time_modify.unwrap_or(zero),
            owner: attrs.owner.clone(),
            group: attrs.owner_group.clone(),
            there: Some(Box::new(attrs)),
        }
    }

    /// The mode of a copy.
    pub(super) fn mode(&self, preserve: bool) -> u32 {
        match preserve {
            true if self.keeps_owner() => self.mode & MODE,
            true => self.mode & WITHOUT_SET_ID,
            false => self.mode & PERMISSIONS,
        }
    }

    /// Whether a copy of ours has the same owner: set-id bits are for that one alone.
    fn keeps_owner(&self) -> bool {
        let we = rustix::process::geteuid();
        we.is_root() || self.ids().0 == Some(we.as_raw())
    }

    /// What a copy at a server gets when all of it is there.
    pub(super) fn to_set(&self, preserve: bool, times: bool) -> Option<Attrs> {
        if !times {
            return None;
        }
        let mut attrs =
            Attrs { time_modify_set: Some(SetTime::ToClient(self.modified)), ..Attrs::default() };
        if preserve {
            attrs.mode = Some(self.mode(true));
            attrs.time_access_set = Some(SetTime::ToClient(self.accessed));
            // Nobody else may give files away.
            if rustix::process::geteuid().is_root() {
                attrs.owner.clone_from(&self.owner);
                attrs.owner_group.clone_from(&self.group);
            }
        }
        Some(attrs)
    }

    /// Owner and group as numbers of this machine, if it knows them.
    pub(super) fn ids(&self) -> (Option<u32>, Option<u32>) {
        let user = |name: &str| User::from_name(name).ok().flatten().map(|u| u.uid.as_raw());
        let group = |name: &str| Group::from_name(name).ok().flatten().map(|g| g.gid.as_raw());
        (id_of(self.owner.as_ref(), user), id_of(self.group.as_ref(), group))
    }

    /// Whether a copy that was made earlier need not be made again.
    pub(super) fn is_as(&self, copy: &Facts) -> bool {
        copy.kind == Kind::File && (copy.size, copy.modified) == (self.size, self.modified)
    }
}

/// A number, or what this machine says of a name before its domain.
fn id_of(who: Option<&Opaque>, known: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    let text = std::str::from_utf8(&who?.0).ok()?;
    text.parse().ok().or_else(|| known(text.split('@').next()?))
}

/// Whether both are the same file of one cluster. Asked at two addresses, what changes with it is
/// compared too: it may be another cluster.
pub(super) fn is_same(a: &Attrs, b: &Attrs, one_address: bool) -> bool {
    let changing = |x: &Attrs| (x.change, x.time_metadata, x.numlinks, x.space_used);
    let same = a.fileid.is_some() && (a.fsid, a.fileid) == (b.fsid, b.fileid);
    same && (one_address || changing(a) == changing(b))
}
