//! What a copy has to know of a file, wherever it is.

use nix::unistd::{Group, User};
use rustix::{
    fs::{FileType as LocalType, Stat},
    process::Uid,
};
use weft_nfs::{Attrs, FileType, NfsTime, Opaque, attr::SetTime};

use crate::client_cmds::umask::umask;

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
    pub(super) fn of_local(found: &Stat) -> Facts {
        let id = |id: u32| Some(Opaque(id.to_string().into_bytes().into()));
        let time = |seconds, nseconds: u64| NfsTime {
            seconds,
            nseconds: u32::try_from(nseconds).unwrap_or(0),
        };
        Facts {
            kind: match LocalType::from_raw_mode(found.st_mode) {
                LocalType::RegularFile => Kind::File,
                LocalType::Directory => Kind::Dir,
                LocalType::Symlink => Kind::Link,
                LocalType::Fifo => Kind::Special("a fifo"),
                LocalType::Socket => Kind::Special("a socket"),
                _ => Kind::Special("a device"),
            },
            size: found.st_size.cast_unsigned(),
            mode: found.st_mode,
            accessed: time(found.st_atime, found.st_atime_nsec),
            modified: time(found.st_mtime, found.st_mtime_nsec),
            owner: id(found.st_uid),
            group: id(found.st_gid),
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
        self.mode_by(&Copier::of_process(), preserve)
    }

    /// The same, of a copy that somebody makes.
    fn mode_by(&self, copier: &Copier, preserve: bool) -> u32 {
        match preserve {
            true if self.keeps_owner(copier) => self.mode & MODE,
            true => self.mode & WITHOUT_SET_ID,
            false => self.mode & PERMISSIONS & !copier.umask,
        }
    }

    /// Whether a copy of his has the same owner and group: set-id bits are for those alone.
    fn keeps_owner(&self, copier: &Copier) -> bool {
        let (owner, group) = self.ids();
        copier.user.is_root()
            || owner == Some(copier.user.as_raw()) && group.is_some_and(|g| copier.is_in(g))
    }

    /// The group that this user gives a copy beside root, who gives it the owner too: one that he
    /// is in. Nobody else may give files away.
    pub(super) fn group_to_give(&self) -> Option<u32> {
        self.ids().1.filter(|group| Copier::of_process().is_in(*group))
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
            } else if self.group_to_give().is_some() {
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

/// Who copies.
struct Copier {
    user: Uid,
    /// That he is in.
    groups: Vec<u32>,
    /// What his new files lose.
    umask: u32,
}

impl Copier {
    fn of_process() -> Copier {
        let mut groups = vec![rustix::process::getegid().as_raw()];
        let others = rustix::process::getgroups().unwrap_or_default();
        groups.extend(others.into_iter().map(|group| group.as_raw()));
        Copier { user: rustix::process::geteuid(), groups, umask: umask() }
    }

    fn is_in(&self, group: u32) -> bool {
        self.groups.contains(&group)
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

#[cfg(test)]
mod tests {
    use weft_nfs::attr::numeric_owner;

    use super::*;

    /// Set-id bits stay where owner and group do: with root's copies, and those of who owns the
    /// source and is in its group.
    #[test]
    fn set_id_bits_stay_with_the_owner() {
        let of = |owner, group| {
            let attrs = Attrs { mode: Some(0o7755), owner, ..Attrs::default() };
            Facts::of_remote(Attrs { owner_group: Some(numeric_owner(group)), ..attrs })
        };
        let by = |user| Copier { user: Uid::from_raw(user), groups: vec![50, 60], umask: 0o022 };
        for (owner, group, user, kept) in [
            (Some(numeric_owner(1234)), 70, 0, 0o7755),
            (Some(numeric_owner(1234)), 60, 1234, 0o7755),
            (Some(numeric_owner(1234)), 70, 1234, 0o1755),
            (Some(numeric_owner(1234)), 60, 1235, 0o1755),
            (Some(numeric_owner(0)), 60, 1235, 0o1755),
            (Some(Opaque(b"no-such-user-here@domain"[..].into())), 60, 1235, 0o1755),
            (None, 60, 1235, 0o1755),
        ] {
            let mode = of(owner.clone(), group).mode_by(&by(user), true);
            assert_eq!(mode, kept, "{owner:?}:{group}, {user}");
        }
        assert_eq!(of(None, 60).mode_by(&by(0), false), 0o755);
        let careful = Copier { umask: 0o077, ..by(0) };
        assert_eq!(of(None, 60).mode_by(&careful, false), 0o700);
        assert_eq!(of(None, 60).mode_by(&careful, true), 0o7755);
    }

    /// A directory that changes while it is looked at is still itself; what has its number on what
    /// may be another cluster is it only if nothing else differs.
    #[test]
    fn what_is_the_same() {
        let known = Attrs { fileid: Some(7), change: Some(1), ..Attrs::default() };
        let changed = Attrs { change: Some(2), ..known.clone() };
        assert!(is_same(&known, &changed, true));
        assert!(!is_same(&known, &changed, false));
        assert!(is_same(&known, &known.clone(), false));
        assert!(!is_same(&known, &Attrs { fileid: Some(8), ..known.clone() }, true));
        assert!(!is_same(&Attrs::default(), &Attrs::default(), true), "nothing was told");
    }
}
