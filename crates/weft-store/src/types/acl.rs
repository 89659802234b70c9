//! Access control lists: RFC 8881 §6. What an entry says, who it is about, and how a list and the
//! nine low bits of a mode are kept in step. Pure.

use std::sync::Arc;

/// Bits of an entry's mask, as they are on the wire (§6.2.1.3).
pub mod right {
    /// Read data, or list a directory.
    pub const READ_DATA: u32 = 0x1;
    /// Write data, or add anything but a directory.
    pub const WRITE_DATA: u32 = 0x2;
    /// Append data, or add a subdirectory.
    pub const APPEND_DATA: u32 = 0x4;
    /// Read extended attributes.
    pub const READ_NAMED_ATTRS: u32 = 0x8;
    /// Change extended attributes.
    pub const WRITE_NAMED_ATTRS: u32 = 0x10;
    /// Execute, or search.
    pub const EXECUTE: u32 = 0x20;
    /// Remove what is in a directory.
    pub const DELETE_CHILD: u32 = 0x40;
    /// Read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x80;
    /// Set times.
    pub const WRITE_ATTRIBUTES: u32 = 0x100;
    /// Remove the object itself.
    pub const DELETE: u32 = 0x1_0000;
    /// Read the list.
    pub const READ_ACL: u32 = 0x2_0000;
    /// Change the list and the mode.
    pub const WRITE_ACL: u32 = 0x4_0000;
    /// Change owner and group.
    pub const WRITE_OWNER: u32 = 0x8_0000;
    /// Nothing that is known here.
    pub const SYNCHRONIZE: u32 = 0x10_0000;
    /// Every bit that an entry may have here.
    pub const ALL: u32 = 0x1f_01ff;

    /// What nobody can be denied: no client gets along without.
    pub const ALWAYS: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
    /// What a mode speaks about.
    pub(super) const OF_MODE: u32 = READ_DATA | WRITE | EXECUTE;
    /// Changing what is there and adding to it are one bit of a mode.
    pub(super) const WRITE: u32 = WRITE_DATA | APPEND_DATA;
}

/// Bits of an entry's flags, as they are on the wire (§6.2.1.4).
pub mod entry_flag {
    /// What is made in the directory and is no directory gets the entry.
    pub const FILE_INHERIT: u8 = 0x1;
    /// Directories that are made in the directory get it.
    pub const DIRECTORY_INHERIT: u8 = 0x2;
    /// And do not hand it on.
    pub const NO_PROPAGATE: u8 = 0x4;
    /// It says nothing about the directory itself.
    pub const INHERIT_ONLY: u8 = 0x8;
    /// Whom it is about is a group.
    pub const IDENTIFIER_GROUP: u8 = 0x40;
    /// Everything about inheritance.
    pub const INHERITANCE: u8 = FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE | INHERIT_ONLY;
    /// Every flag that an entry may have here.
    pub const ALL: u8 = INHERITANCE | IDENTIFIER_GROUP;

    pub(super) const INHERITABLE: u8 = FILE_INHERIT | DIRECTORY_INHERIT;
}

use entry_flag::{
    DIRECTORY_INHERIT, FILE_INHERIT, INHERIT_ONLY, INHERITABLE, INHERITANCE, NO_PROPAGATE,
};
use right::{
    ALWAYS, APPEND_DATA, DELETE_CHILD, EXECUTE, OF_MODE, READ_DATA, WRITE, WRITE_ACL,
    WRITE_ATTRIBUTES, WRITE_DATA,
};

/// Most entries of a list, also after a mode was set: who is named and what is inherited are apart
/// then, and six entries speak of owner, group and everyone (RFC 8881 §6.4.1.1).
pub const ACL_ENTRIES_MAX: usize = 1006;

/// Entries of owner, group and everyone after a mode was set.
const OF_CLASSES_MAX: usize = 6;

/// Whom an entry is about (§6.2.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// `OWNER@`
    Owner,
    /// `GROUP@`: members of the file's group.
    Group,
    /// `EVERYONE@`, owner and group included.
    Everyone,
    /// The user of this id.
    User(u32),
    /// Members of the group of this id.
    Members(u32),
}

/// `nfsace4`: §6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// Whether it allows what is in the mask, or denies it.
    pub allows: bool,
    /// Bits of [`entry_flag`].
    pub flags: u8,
    /// Bits of [`right`].
    pub mask: u32,
    /// Whom it is about.
    pub who: Who,
}

impl AclEntry {
    fn of(allows: bool, who: Who, mask: u32) -> Self {
        AclEntry { allows, flags: 0, mask, who }
    }

    /// Whether it says something about the object that has it.
    pub fn is_effective(&self) -> bool {
        self.flags & INHERIT_ONLY == 0
    }

    fn is_inheritable(&self) -> bool {
        self.flags & INHERITABLE != 0
    }

    fn is_named(&self) -> bool {
        matches!(self.who, Who::User(_) | Who::Members(_))
    }

    /// As it is kept to by what has no entries: whoever may only append, or only change what is
    /// there, may not write (§6.2.1.3.1).
    fn of_file(&self) -> Self {
        let half = self.allows && self.mask & WRITE != WRITE;
        AclEntry { mask: if half { self.mask & !WRITE } else { self.mask }, ..*self }
    }

    /// What is left of it when a mode is set: entries.
    fn kept_by_modes(&self) -> usize {
        usize::from(self.is_named() && self.is_effective()) + usize::from(self.is_inheritable())
    }
}

/// What a list says to somebody: rights that are in neither were not spoken about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Bits of [`right`].
    pub allowed: u32,
    /// Bits of [`right`].
    pub denied: u32,
}

/// Why entries are no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAcl {
    /// There are more than [`ACL_ENTRIES_MAX`]: now, after a mode was set, or in a directory that
    /// is made with a mode in one that has them.
    TooLong,
    /// Bits are set that mean nothing here.
    UnknownBits,
}

/// An access control list: at most [`ACL_ENTRIES_MAX`] entries. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Arc<[AclEntry]>);

impl Acl {
    /// These entries.
    ///
    /// # Errors
    /// [`BadAcl`].
    pub fn new(entries: Vec<AclEntry>) -> Result<Self, BadAcl> {
        let handed_on: Vec<_> = entries.iter().filter_map(|e| inherited(e, true)).collect();
        let longest = entries.len().max(after_mode(&entries)).max(after_mode(&handed_on));
        if longest > ACL_ENTRIES_MAX {
            return Err(BadAcl::TooLong);
        }
        let known = |e: &AclEntry| e.mask & !right::ALL == 0 && e.flags & !entry_flag::ALL == 0;
        if entries.iter().all(known) { Ok(Acl(entries.into())) } else { Err(BadAcl::UnknownBits) }
    }

    /// These entries, which were a list before.
    pub(crate) fn kept(entries: Vec<AclEntry>) -> Self {
        Acl(entries.into())
    }

    /// Its entries, in order.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Whether an entry is about what will be made in a directory.
    pub fn speaks_of_inheritance(&self) -> bool {
        self.0.iter().any(|entry| entry.flags & INHERITANCE != 0)
    }

    /// Whether somebody is allowed to execute.
    pub(super) fn is_executable(&self) -> bool {
        let executes = |e: &AclEntry| e.allows && e.is_effective() && e.mask & EXECUTE != 0;
        self.0.iter().any(executes)
    }

    /// What the list says to whom entries about all of `is` are about (§6.2.1): entries in order,
    /// the first word about a right counts.
    pub fn judge(&self, is: impl Fn(Who) -> bool) -> Judgement {
        let mut said = Judgement::default();
        for entry in self.0.iter().filter(|entry| entry.is_effective() && is(entry.who)) {
            let open = entry.mask & !(said.allowed | said.denied);
            match entry.allows {
                true => said.allowed |= open,
                false => said.denied |= open,
            }
        }
        said
    }

    /// What it says to one class of a mode, of whom nothing else is known (§6.3.2).
    fn judge_class(&self, class: Who) -> Judgement {
        self.judge(|who| who == class || who == Who::Everyone)
    }

    /// The nine low bits of the mode (§6.3.2).
    pub fn mode(&self) -> u16 {
        let bits = |class| u16::from(mode_bits(self.judge_class(class).allowed));
        bits(Who::Owner) << 6 | bits(Who::Group) << 3 | bits(Who::Everyone)
    }

    /// What it says to owner, group and everyone.
    fn judge_classes(&self) -> [Judgement; 3] {
        [Who::Owner, Who::Group, Who::Everyone].map(|class| self.judge_class(class))
    }

    /// The list after its mode was set (§6.4.1.1): the mode that it says is this one; whom it names
    /// is not allowed what the group is not, and nobody more than before but by the mode. Whom it
    /// names keeps what he is denied, and what is inherited stays: in entries that do nothing else.
    pub(crate) fn with_mode(&self, mode: u16, directory: bool) -> Self {
        self.limited(mode, mode >> 3, directory)
    }

    /// The list, which was inherited, of what is made with this mode and umask (§6.4.3.1, RFC 8275
    /// §5). The mode limits it; where it says nothing to a class the umask counts, and what it
    /// denies is not given. It limits names without the umask.
    pub(crate) fn of_new(&self, mode: u16, umask: u16, directory: bool) -> Self {
        let bits = |said: Judgement, shift: u16| {
            let (asked, unmasked) = (mode >> shift & 7, mode >> shift & !(umask >> shift) & 7);
            let allowed = u16::from(mode_bits(said.allowed));
            // Who is denied half of the right to write has none.
            let denied = 7 & !u16::from(mode_bits(!said.denied));
            (asked & allowed | unmasked) & !denied
        };
        let [user, group, other] = self.judge_classes();
        let classes = bits(user, 6) << 6 | bits(group, 3) << 3 | bits(other, 0);
        self.limited(classes, mode >> 3, directory)
    }

    /// The mode is this one, and names have no more than these three bits of a mode.
    fn limited(&self, mode: u16, names: u16, directory: bool) -> Self {
        let said = self.judge_classes();
        let [user, group, other] = [6, 3, 0].map(|shift| mask_of(mode >> shift, directory));
        let own = ALWAYS | WRITE_ACL | WRITE_ATTRIBUTES & !said[0].denied;
        let user_allowed = kept_with(user, said[0].allowed) | own;
        let group_allowed = kept_with(group, said[1].allowed) | ALWAYS;
        let other_allowed = kept_with(other, said[2].allowed) | ALWAYS;
        // What a wider class has by the mode and this one has not, and what it was denied before;
        // what everybody is denied too, so that the same mode again finds the same.
        let denied = |class: usize, wider: u32, allowed: u32| {
            // Whoever may execute reads, unless it is denied: that stays said.
            let before = (said[class].denied | said[2].denied) & !(WRITE | EXECUTE);
            (wider & (OF_MODE | OF_WRITERS) | before) & !allowed
        };
        let names = mask_of(names, directory);
        // An owner has no more by a name than as the owner.
        let wider = group_allowed | other_allowed | names;
        let mut entries = vec![
            AclEntry::of(true, Who::Owner, user_allowed),
            AclEntry::of(false, Who::Owner, denied(0, wider, user_allowed)),
        ];
        entries.extend(self.named_with(names));
        entries.extend([
            AclEntry::of(true, Who::Group, group_allowed),
            AclEntry::of(false, Who::Group, denied(1, other_allowed, group_allowed)),
            AclEntry::of(true, Who::Everyone, other_allowed),
            AclEntry::of(false, Who::Everyone, denied(2, 0, other_allowed)),
        ]);
        if !directory {
            entries = entries.iter().map(AclEntry::of_file).collect();
        }
        entries.retain(|entry| entry.mask != 0);
        let inheritable = self.0.iter().filter(|entry| entry.is_inheritable());
        entries.extend(inheritable.map(|e| AclEntry { flags: e.flags | INHERIT_ONLY, ..*e }));
        Acl(entries.into())
    }

    /// As it is kept to by what has no entries.
    pub(super) fn of_file(self) -> Self {
        let whole: Vec<_> = self.0.iter().map(AclEntry::of_file).collect();
        if whole[..] == self.0[..] { self } else { Acl(whole.into()) }
    }

    /// What entries about users and groups by name say when the group has these rights of a mode.
    /// They come before what is said to everybody: what that took from them is theirs no more.
    fn named_with(&self, group: u32) -> Vec<AclEntry> {
        let mut withheld = 0;
        let mut out = Vec::new();
        for entry in self.0.iter().filter(|entry| entry.is_effective()) {
            let flags = entry.flags & !INHERITANCE;
            match (entry.is_named(), entry.allows) {
                (true, true) => {
                    let mask = entry.mask & within(group) & !withheld;
                    out.push(AclEntry { flags, mask, ..*entry });
                }
                (true, false) => out.push(AclEntry { flags, ..*entry }),
                (false, false) if entry.who != Who::Owner => withheld |= entry.mask,
                (false, _) => {}
            }
        }
        out
    }

    /// What is made in a directory that has this list gets of it; `None` if nothing (§6.4.3.1).
    pub(crate) fn inherited(&self, directory: bool) -> Option<Self> {
        let entries: Vec<_> = self.0.iter().filter_map(|e| inherited(e, directory)).collect();
        if entries.is_empty() {
            return None;
        }
        let list = Acl(entries.into());
        // Before a mode counts: half of a right shields nobody from a denial of the whole.
        Some(if directory { list } else { list.of_file() })
    }
}

/// The most entries that are left of these after a mode was set.
fn after_mode(entries: &[AclEntry]) -> usize {
    OF_CLASSES_MAX + entries.iter().map(AclEntry::kept_by_modes).sum::<usize>()
}

fn inherited(entry: &AclEntry, directory: bool) -> Option<AclEntry> {
    let has = |flag| entry.flags & flag != 0;
    let plain = entry.flags & !INHERITANCE;
    let handed_on = entry.flags & INHERITABLE;
    let flags = match (directory, has(DIRECTORY_INHERIT), has(NO_PROPAGATE)) {
        (false, ..) if has(FILE_INHERIT) => plain,
        (true, true, true) => plain,
        (true, true, false) => plain | handed_on,
        // It is for files further down.
        (true, false, false) if has(FILE_INHERIT) => plain | handed_on | INHERIT_ONLY,
        _ => return None,
    };
    Some(AclEntry { flags, ..*entry })
}

/// The rights of one class of a mode: its three low bits.
pub(super) fn mask_of(rwx: u16, directory: bool) -> u32 {
    let write = WRITE | if directory { DELETE_CHILD } else { 0 };
    [(4, READ_DATA), (2, write), (1, EXECUTE)]
        .iter()
        .filter(|(bit, _)| rwx & bit != 0)
        .fold(0, |mask, (_, right)| mask | right)
}

/// The three bits of one class of a mode (§6.3.2): who may only append, or only change what is
/// there, may not write.
pub(super) fn mode_bits(allowed: u32) -> u8 {
    let has = |right: u32| u8::from(allowed & right == right);
    has(READ_DATA) << 2 | has(WRITE_DATA | APPEND_DATA) << 1 | has(EXECUTE)
}

/// What modes do not speak about, but whoever may not write has no more when one is set: else he
/// would give himself the rest again.
const OF_WRITERS: u32 = DELETE_CHILD
    | right::DELETE
    | WRITE_ACL
    | right::WRITE_OWNER
    | WRITE_ATTRIBUTES
    | right::WRITE_NAMED_ATTRS;

/// The most that somebody in a class with these rights of a mode is left.
fn within(class: u32) -> u32 {
    let writers = if class & WRITE == WRITE { OF_WRITERS } else { 0 };
    class & OF_MODE | !(OF_MODE | OF_WRITERS) | writers
}

/// What a class is allowed by a list whose mode gets these rights, when it was allowed that before.
fn kept_with(class: u32, allowed: u32) -> u32 {
    class | allowed & within(class) & !OF_MODE
}

/// The list that says the same as a mode. A class is denied what a wider one is allowed: other
/// than in a list, the first class that fits is the only one that counts in a mode.
pub fn acl_of_mode(mode: u16, directory: bool) -> Vec<AclEntry> {
    let of = |shift: u16| mask_of(mode >> shift, directory);
    let (user, group, other) = (of(6), of(3), of(0));
    let all = [
        AclEntry::of(true, Who::Owner, user | ALWAYS | WRITE_ATTRIBUTES | WRITE_ACL),
        AclEntry::of(false, Who::Owner, (group | other) & !user),
        AclEntry::of(true, Who::Group, group | ALWAYS),
        AclEntry::of(false, Who::Group, other & !group),
        AclEntry::of(true, Who::Everyone, other | ALWAYS),
    ];
    all.into_iter().filter(|entry| entry.mask != 0).collect()
}

#[cfg(test)]
mod tests;
