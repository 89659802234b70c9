//! Moving a name, over another if need be, in one step.

use super::inode_changes::{forget_entry, is_below, take_cookie, touch, touch_entries, untouched};
use super::remove;
use crate::types::{ChangeInfo, Credential, Inode, InodeNo, Intent, Rwx, StoreError, Timestamp};
use crate::volume::check;
use crate::volume::codec::Dirent;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

/// From where to where.
#[derive(Clone, Copy, Debug)]
pub struct Rename<'a> {
    /// Directory of the old name.
    pub from_dir: InodeNo,
    /// The old name.
    pub from_name: &'a [u8],
    /// Directory of the new name.
    pub to_dir: InodeNo,
    /// The new name.
    pub to_name: &'a [u8],
    /// Refuse unless this is what is moved, and what it replaces; absent: whatever it is.
    pub expect: Option<(InodeNo, Option<InodeNo>)>,
    /// The file under the new name is open: keep its inode as an orphan.
    pub keep_orphan: bool,
}

/// A rename that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// What was renamed.
    pub moved: InodeNo,
    /// Change attribute of the old name's directory.
    pub from_change: ChangeInfo,
    /// Change attribute of the new name's directory.
    pub to_change: ChangeInfo,
    /// What had the new name, as it was left (link count 0: that was its last name).
    pub replaced: Option<Inode>,
    /// Objects to delete, if what was replaced is gone and had any.
    pub delete: Option<Intent>,
}

impl Volume {
    /// Renames; when both names are the same inode nothing happens, as POSIX wants it. A replaced
    /// name keeps its cookie, so that a listing under way shows it once.
    ///
    /// **Errors.** NameTooLong, BadName; Stale, NotDirectory (either directory); Access; NotFound;
    /// Permission (sticky); NotDirectory or IsDirectory (a directory replaces only a directory, and
    /// nothing else does); NotEmpty; Invalid (a directory into itself); TooManyLinks; Replaced
    /// (against `expect`).
    pub fn rename(
        &self,
        what: &Rename<'_>,
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<Renamed, StoreError>> {
        self.run(|tx| {
            let plan = find(tx, what, cred)?;
            if plan.replaced.as_ref().is_some_and(|(entry, _)| entry.ino == plan.moved.no) {
                let (from_change, to_change) = (untouched(&plan.from), untouched(&plan.to));
                let (moved, replaced, delete) = (plan.moved.no, None, None);
                return Ok(Renamed { moved, from_change, to_change, replaced, delete });
            }
            permit(&plan, cred)?;
            refuse_impossible(tx, &plan)?;
            let found = (plan.moved.no, plan.replaced.as_ref().map(|(_, inode)| inode.no));
            if what.expect.is_some_and(|expected| expected != found) {
                return Err(StoreError::Replaced);
            }
            apply(tx, what, plan, now)
        })
    }
}

/// Everything a rename touches, as it is before.
struct Plan {
    from: Inode,
    to: Inode,
    entry: Dirent,
    moved: Inode,
    replaced: Option<(Dirent, Inode)>,
}

impl Plan {
    fn changes_directory(&self) -> bool {
        self.from.no != self.to.no
    }
}

fn find(tx: &mut Tx<'_>, what: &Rename<'_>, cred: &Credential) -> Result<Plan, StoreError> {
    check::name(what.from_name)?;
    check::name(what.to_name)?;
    let from = tx.directory(what.from_dir)?;
    let to = tx.directory(what.to_dir)?;
    check::require(&from, cred, Rwx::EXECUTE)?;
    check::require(&to, cred, Rwx::EXECUTE)?;
    let entry = tx.dirent(what.from_dir, what.from_name)?.ok_or(StoreError::NotFound)?;
    let moved = tx.entry_inode(entry.ino)?;
    let replaced = match tx.dirent(what.to_dir, what.to_name)? {
        Some(entry) => Some((entry, tx.entry_inode(entry.ino)?)),
        None => None,
    };
    Ok(Plan { from, to, entry, moved, replaced })
}

fn permit(plan: &Plan, cred: &Credential) -> Result<(), StoreError> {
    check::may_remove(&plan.from, &plan.moved, cred)?;
    if let Some((_, inode)) = &plan.replaced {
        check::may_remove(&plan.to, inode, cred)?;
    }
    check::may_add(&plan.to, plan.moved.kind, cred)?;
    if plan.moved.is_directory() && plan.changes_directory() {
        // Its ".." is rewritten.
        check::require(&plan.moved, cred, Rwx::WRITE)?;
    }
    Ok(())
}

fn refuse_impossible(tx: &mut Tx<'_>, plan: &Plan) -> Result<(), StoreError> {
    let directory = plan.moved.is_directory();
    if let Some((_, replaced)) = &plan.replaced {
        match (directory, replaced.is_directory()) {
            (true, false) => return Err(StoreError::NotDirectory),
            (false, true) => return Err(StoreError::IsDirectory),
            (true, true) | (false, false) => {}
        }
    }
    if directory && plan.changes_directory() {
        if is_below(tx, &plan.to, plan.moved.no)? {
            return Err(StoreError::Invalid);
        }
        if plan.replaced.is_none() {
            check::linkable(&plan.to)?;
        }
    }
    match &plan.replaced {
        Some((_, replaced)) if replaced.entries > 0 => Err(StoreError::NotEmpty),
        Some(_) | None => Ok(()),
    }
}

fn apply(
    tx: &mut Tx<'_>,
    what: &Rename<'_>,
    plan: Plan,
    now: Timestamp,
) -> Result<Renamed, StoreError> {
    let changes_directory = plan.changes_directory();
    let Plan { mut from, entry, mut moved, replaced, .. } = plan;
    let directory = moved.is_directory();
    forget_entry(&mut from, directory)?;
    let from_change = touch_entries(&mut from, now);
    tx.delete_entry(from.no, what.from_name, &entry);
    tx.put_inode(&from);

    // Read again: it may be the directory just written.
    let mut to = tx.directory(what.to_dir)?;
    let to_change = if changes_directory { touch_entries(&mut to, now) } else { from_change };
    let (cookie, replaced, delete) = match replaced {
        None if changes_directory => (take_cookie(&mut to), None, None),
        // Where it was: whoever lists the directory and renames what he finds finds it once.
        None => (entry.cookie, None, None),
        Some((old, mut inode)) => {
            forget_entry(&mut to, inode.is_directory())?;
            let delete = remove::drop_link(tx, &mut inode, what.keep_orphan, now)?;
            (old.cookie, Some(inode), delete)
        }
    };
    to.entries += 1;
    to.nlink += u32::from(directory);
    tx.put_entry(to.no, what.to_name, &Dirent { cookie, ..entry });
    tx.put_inode(&to);
    if directory {
        moved.parent = to.no;
    }
    touch(&mut moved, now);
    tx.put_inode(&moved);
    Ok(Renamed { moved: moved.no, from_change, to_change, replaced, delete })
}
