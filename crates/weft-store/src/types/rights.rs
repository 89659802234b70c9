//! Who may do what with an inode: by its list if it has one, else by its mode. Every operation asks
//! here, by the name of a right (RFC 8881 §6.2.1.3).

use super::acl::{Acl, AclEntry, Judgement, Who, acl_of_mode, mask_of, mode_bits, right};
use super::{Credential, Inode, MODE_STICKY, Rwx, StoreError};

/// What somebody may do with an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    said: Judgement,
    /// He is the owner, or the superuser.
    owns: bool,
    /// Only owners remove from this directory.
    sticky: bool,
}

impl Rights {
    fn allows(self, right: u32) -> bool {
        self.said.allowed & right == right
    }

    fn denies(self, right: u32) -> bool {
        self.said.denied & right != 0
    }

    /// What is never denied to the owner unless a list does, and allowed to others only by one.
    fn own_or_allowed(self, right: u32) -> bool {
        if self.owns { !self.denies(right) } else { self.allows(right) }
    }

    /// Read, write, execute. Who may not both change and append does not write.
    pub fn rwx(self) -> Rwx {
        Rwx(mode_bits(self.said.allowed))
    }

    /// Read the bytes of this file: also who may execute it, since clients read programs to run
    /// them (§6.2.1.3.1), unless he is denied to read.
    pub fn may_read_bytes(self) -> bool {
        let runs = self.allows(right::EXECUTE) && !self.denies(right::READ_DATA);
        self.allows(right::READ_DATA) || runs
    }

    /// Add an entry to this directory: one for a directory or for anything else.
    pub fn may_add(self, directory: bool) -> bool {
        let add = if directory { right::APPEND_DATA } else { right::WRITE_DATA };
        self.allows(add | right::EXECUTE)
    }

    /// Remove entries of this directory, of which nothing else is known (§6.2.1.3.2): who may add
    /// may, if nothing is said about it.
    pub fn may_remove(self) -> bool {
        let unsaid = !self.denies(right::DELETE_CHILD) && self.allows(right::WRITE_DATA);
        self.allows(right::DELETE_CHILD) || unsaid
    }

    /// Set times to anything.
    pub fn may_set_times(self) -> bool {
        self.own_or_allowed(right::WRITE_ATTRIBUTES)
    }

    /// Set mode and list. The owner always may.
    pub fn may_set_acl(self) -> bool {
        self.owns || self.allows(right::WRITE_ACL)
    }

    /// Set the group, to one of his own.
    pub fn may_set_group(self) -> bool {
        self.own_or_allowed(right::WRITE_OWNER)
    }

    /// Become the owner.
    pub fn may_take(self) -> bool {
        self.allows(right::WRITE_OWNER)
    }

    /// Read extended attributes and their names: who may read the object, unless he is denied it.
    pub fn may_read_xattrs(self) -> bool {
        self.rwx().contains(Rwx::READ) && !self.denies(right::READ_NAMED_ATTRS)
    }

    /// Change extended attributes: who may write to the object, unless he is denied it.
    ///
    /// # Errors
    /// Access; Permission (a sticky directory of somebody else).
    pub fn change_xattrs(self) -> Result<(), StoreError> {
        if !self.rwx().contains(Rwx::WRITE) || self.denies(right::WRITE_NAMED_ATTRS) {
            return Err(StoreError::Access);
        }
        if self.sticky && !self.owns { Err(StoreError::Permission) } else { Ok(()) }
    }

    /// Remove an entry of this directory that leads to `victim`, of which he has those rights. The
    /// victim's list may allow that to whoever only searches the directory (§6.2.1.3.2).
    ///
    /// # Errors
    /// Access; Permission (a sticky directory, where neither is his).
    pub fn remove(self, victim: Rights) -> Result<(), StoreError> {
        if !self.allows(right::EXECUTE) {
            return Err(StoreError::Access);
        }
        if victim.allows(right::DELETE) {
            return Ok(());
        }
        let refused = victim.denies(right::DELETE) && !self.allows(right::DELETE_CHILD);
        if refused || !self.may_remove() {
            return Err(StoreError::Access);
        }
        let owner = self.owns || victim.owns;
        if self.sticky && !owner { Err(StoreError::Permission) } else { Ok(()) }
    }
}

impl Inode {
    /// What `cred` may do.
    pub fn rights(&self, cred: &Credential) -> Rights {
        let (superuser, is_owner) = (cred.is_superuser(), cred.uid == self.uid);
        let said = match &self.acl {
            _ if superuser => self.superuser_rights(),
            Some(acl) => acl.judge(|who| match who {
                Who::Owner => is_owner,
                Who::Group => cred.in_group(self.gid),
                Who::Everyone => true,
                Who::User(uid) => cred.uid == uid,
                Who::Members(gid) => cred.in_group(gid),
            }),
            None => self.by_mode(cred),
        };
        let sticky = self.is_directory() && self.mode & MODE_STICKY != 0;
        Rights { said, owns: superuser || is_owner, sticky }
    }

    /// By the mode bits alone (POSIX order: owner, else group, else others).
    fn by_mode(&self, cred: &Credential) -> Judgement {
        let shift = match () {
            () if cred.uid == self.uid => 6,
            () if cred.in_group(self.gid) => 3,
            () => 0,
        };
        Judgement { allowed: mask_of(self.mode >> shift, self.is_directory()), denied: 0 }
    }

    /// The superuser executes only what somebody may execute, and searches every directory.
    fn superuser_rights(&self) -> Judgement {
        let by_list = self.acl.as_ref().is_some_and(Acl::is_executable);
        let executable = self.is_directory() || self.mode & 0o111 != 0 || by_list;
        let not = if executable { 0 } else { right::EXECUTE };
        Judgement { allowed: right::ALL & !not, denied: 0 }
    }

    /// Read, write, execute.
    pub fn allowed(&self, cred: &Credential) -> Rwx {
        self.rights(cred).rwx()
    }

    /// Its list: that which says the same as the mode, if there is no other.
    pub fn acl_entries(&self) -> Vec<AclEntry> {
        match &self.acl {
            Some(acl) => acl.entries().to_vec(),
            None => acl_of_mode(self.mode, self.is_directory()),
        }
    }

    /// The list decides from now on, and the mode follows (§6.4.1.2). One that says no more than
    /// the mode is not kept.
    pub(crate) fn set_acl(&mut self, acl: Acl) {
        let acl = if self.is_directory() { acl } else { acl.of_file() };
        self.mode = self.mode & !LOW_BITS | acl.mode();
        let is_mode = acl.entries() == acl_of_mode(self.mode, self.is_directory());
        self.acl = if is_mode { None } else { Some(acl) };
    }

    /// The whole mode; the list follows, if what it speaks about is `subject` to change (§6.4.1.1).
    pub(crate) fn set_mode(&mut self, mode: u16, subject: u16) {
        self.mode = mode;
        if subject & LOW_BITS != 0
            && let Some(acl) = self.acl.take()
        {
            self.set_acl(acl.with_mode(mode & LOW_BITS, self.is_directory()));
        }
    }

    /// What of it decides who may do what.
    fn protection(&self) -> (u16, u32, u32, Option<&Acl>) {
        (self.mode & LOW_BITS, self.uid, self.gid, self.acl.as_ref())
    }

    /// Whether the change from `before` to this takes away from anybody what a data server's handle
    /// allows, or makes it matter who writes: a set-id bit is to be taken away by that. Of lists
    /// with many names that is not worked out: each change of theirs does.
    pub fn restricts(&self, before: &Inode) -> bool {
        if self.is_privileged() {
            return true;
        }
        if self.protection() == before.protection() {
            return false;
        }
        let Some(users) = self.told_apart(before) else { return true };
        users.iter().any(|user| {
            let (had, has) = (before.io_allowed(user), self.io_allowed(user));
            had.0 && !has.0 || had.1 && !has.1
        })
    }

    /// One user of each sort that these two may tell apart: by owner, name, and any of the groups.
    fn told_apart(&self, before: &Inode) -> Option<Vec<Credential>> {
        let (mut uids, mut gids) = (vec![before.uid, self.uid], vec![before.gid, self.gid]);
        let lists = [before, self].into_iter().filter_map(|inode| inode.acl.as_ref());
        let mut entries = 1;
        for entry in lists.flat_map(Acl::entries) {
            entries += 1;
            match entry.who {
                Who::User(uid) => uids.push(uid),
                Who::Members(gid) => gids.push(gid),
                Who::Owner | Who::Group | Who::Everyone => {}
            }
        }
        for ids in [&mut uids, &mut gids] {
            ids.sort_unstable();
            ids.dedup();
        }
        uids.push(other_than(&uids));
        let sets = 1usize.checked_shl(u32::try_from(gids.len()).ok()?)?;
        let steps = uids.len().checked_mul(sets)?.checked_mul(entries)?;
        if steps > STEPS_MAX {
            return None;
        }
        let members = |set: usize| -> Vec<u32> {
            let of_set = gids.iter().enumerate().filter(|(at, _)| set >> at & 1 != 0);
            of_set.map(|(_, gid)| *gid).collect()
        };
        let gid = other_than(&gids);
        let with = |uid| (0..sets).map(move |set| (uid, set));
        let users = uids.iter().flat_map(|uid| with(*uid));
        Some(users.map(|(uid, set)| Credential { uid, gid, gids: members(set) }).collect())
    }

    /// Whether somebody may read and write bytes.
    fn io_allowed(&self, cred: &Credential) -> (bool, bool) {
        let rights = self.rights(cred);
        (rights.may_read_bytes(), rights.rwx().contains(Rwx::WRITE))
    }
}

/// The bits of a mode that a list speaks about too.
const LOW_BITS: u16 = 0o777;

/// Entries looked at to find out whether a change takes something away: less than a millisecond.
const STEPS_MAX: usize = 1 << 15;

/// A number that is none of these, nor 0.
fn other_than(ids: &[u32]) -> u32 {
    (1..).find(|n| !ids.contains(n)).unwrap_or(1)
}
