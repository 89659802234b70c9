//! Setting attributes: the rules of chmod, chown, utimes and truncate.

use super::inode_changes::touch;
use super::placement::owe_end;
use super::{intents, stuffed};
use crate::types::{
    Acl, Credential, Inode, InodeNo, Intent, IntentKind, Kind, MODE_BITS, MODE_SETGID, Rights, Rwx,
    SetIdLoss, StoreError, Timestamp,
};
use crate::volume::check;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

/// What to set; absent: leave as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Mode bits to set; absent: unchanged.
    pub mode: Option<SetMode>,
    /// List to set, after the mode, whose nine low bits follow it; absent: it follows the mode.
    pub acl: Option<Acl>,
    /// User id of the new owner; absent: unchanged.
    pub uid: Option<u32>,
    /// Id of the new group; absent: unchanged.
    pub gid: Option<u32>,
    /// Size in bytes of a regular file.
    pub size: Option<u64>,
    /// Access time to set; absent: unchanged.
    pub atime: Option<SetTime>,
    /// Modification time to set; absent: unchanged.
    pub mtime: Option<SetTime>,
}

impl SetAttr {
    /// Whether it is about who may do what.
    pub fn changes_protection(&self) -> bool {
        let SetAttr { mode, acl, uid, gid, .. } = self;
        mode.is_some() || acl.is_some() || uid.is_some() || gid.is_some()
    }
}

/// Which bits of a mode to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMode {
    /// Their values; bits outside the mask do not count.
    pub bits: u16,
    /// Which bits (of 12).
    pub mask: u16,
}

impl SetMode {
    /// The whole mode.
    pub const fn all(mode: u16) -> Self {
        Self { bits: mode, mask: MODE_BITS }
    }

    /// The mode that `before` becomes.
    pub fn apply(self, before: u16) -> u16 {
        before & !self.mask | self.bits & self.mask
    }
}

/// Which time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's time: whoever may write may set it.
    Server,
    /// A time of the client's choice: only the owner may set it.
    Client(Timestamp),
}

/// Why a change of size is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The mode must allow writing.
    ByPermission,
    /// The file is open for writing, whatever its mode says now.
    ByOpenForWrite,
}

/// Attributes were set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrSet {
    /// The inode as it is now.
    pub inode: Inode,
    /// Handles of its data servers are to end before this is acknowledged: somebody may do less
    /// with its bytes than before, or did so by a change that may not have been acknowledged.
    pub ends_handles: bool,
    /// Objects to cut, once this is durable; the reply waits for that too.
    pub truncate: Option<Intent>,
}

impl Volume {
    /// Sets attributes, all or none.
    ///
    /// **Errors.** Invalid (mode beyond 12 bits, a time with too many nanoseconds, size of a
    /// special file, inheritance where nothing is made), NoAcl (a list of a symlink), TooBig,
    /// IsDirectory (size of a directory); Stale; Access (size or server time without write
    /// permission); Permission (what the owner, the superuser, or whom a list allows it may);
    /// Moving (size, other than 0, of a file whose bytes are on their way to data servers).
    pub fn setattr(
        &self,
        ino: InodeNo,
        set: &SetAttr,
        authority: Authority,
        cred: &Credential,
        now: Timestamp,
    ) -> Seen<Result<AttrSet, StoreError>> {
        self.run(|tx| {
            validate(set)?;
            let inode = tx.inode(ino)?;
            permit(&inode, set, authority, cred)?;
            apply(tx, inode, set, cred, now)
        })
    }
}

fn validate(set: &SetAttr) -> Result<(), StoreError> {
    if set.mode.is_some_and(|mode| (mode.bits | mode.mask) & !MODE_BITS != 0) {
        return Err(StoreError::Invalid);
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        if let SetTime::Client(time) = time {
            check::time(time)?;
        }
    }
    check::size(set.size.unwrap_or(0))
}

fn permit(
    inode: &Inode,
    set: &SetAttr,
    authority: Authority,
    cred: &Credential,
) -> Result<(), StoreError> {
    if set.size.is_some() {
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(StoreError::IsDirectory),
            _ => return Err(StoreError::Invalid),
        }
        if authority == Authority::ByPermission {
            check::require(inode, cred, Rwx::WRITE)?;
        }
    }
    if let Some(acl) = &set.acl {
        check::acl(acl, inode.kind)?;
    }
    let rights = inode.rights(cred);
    if !cred.is_superuser() && set.changes_protection() {
        may_protect(inode, set, rights, cred)?;
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        match time {
            _ if rights.may_set_times() => {}
            SetTime::Server => check::require(inode, cred, Rwx::WRITE)?,
            SetTime::Client(_) => return Err(StoreError::Permission),
        }
    }
    if set.size.is_some_and(|size| size > 0) && inode.is_moving() {
        return Err(StoreError::Moving);
    }
    Ok(())
}

/// Whether somebody who is not the superuser may change who may do what. Whoever may but is not the
/// owner becomes it, makes nobody else so, and sets no set-id bit: programs would run as the owner.
fn may_protect(
    inode: &Inode,
    set: &SetAttr,
    rights: Rights,
    cred: &Credential,
) -> Result<(), StoreError> {
    let mode = set.mode.map_or(inode.mode, |mode| mode.apply(inode.mode));
    let is_owner = cred.uid == inode.uid;
    let adds_bits = mode & !inode.mode & !0o777 != 0;
    let mode =
        set.mode.is_none() && set.acl.is_none() || rights.may_set_acl() && (is_owner || !adds_bits);
    let owner = set.uid.is_none_or(|uid| match uid == inode.uid {
        true => is_owner || rights.may_set_group(),
        false => uid == cred.uid && rights.may_take(),
    });
    let to_own = |gid| gid == inode.gid || cred.in_group(gid);
    let group = set.gid.is_none_or(|gid| to_own(gid) && rights.may_set_group());
    if mode && owner && group { Ok(()) } else { Err(StoreError::Permission) }
}

fn apply(
    tx: &mut Tx<'_>,
    mut inode: Inode,
    set: &SetAttr,
    cred: &Credential,
    now: Timestamp,
) -> Result<AttrSet, StoreError> {
    if *set == SetAttr::default() {
        return Ok(AttrSet { inode, ends_handles: false, truncate: None });
    }
    let before = inode.clone();
    // While unsettled the objects may be longer than the inode knows.
    let shrinks = |size| size < inode.size || inode.unsettled;
    let cut = set.size.filter(|size| shrinks(*size));
    if let Some(size) = set.size {
        if inode.is_moving() {
            // Nothing is left to be moved; what has arrived is cut there.
            stuffed::forget(tx, &inode);
            inode.stuffed = false;
        } else if inode.stuffed {
            stuffed::cut(tx, &inode, size)?;
        }
        inode.size = size;
        inode.occupied = None;
        if let (Some(_), Some(placement)) = (cut, &inode.placement) {
            // In the commit of the intent: before, while and after it is carried out they hold.
            inode.bounds = inode.bounds.cut(placement, size);
        }
        inode.mtime = now;
        inode.mode = inode.set_id_loss(cred).of(inode.mode);
    }
    set_ownership(&mut inode, set, cred);
    let pick = |time| match time {
        SetTime::Server => now,
        SetTime::Client(time) => time,
    };
    inode.atime = set.atime.map_or(inode.atime, pick);
    inode.mtime = set.mtime.map_or(inode.mtime, pick);
    touch(&mut inode, now);
    let ends_handles = end_handles(&mut inode, &before, set)?;
    tx.put_inode(&inode);
    let truncate = cut.and_then(|size| intents::record(tx, &inode, IntentKind::Truncate { size }));
    Ok(AttrSet { inode, ends_handles, truncate })
}

/// Handles of before are of an earlier epoch from now on if rights are taken away, and whether
/// data servers are to be told. A change that a crash kept from that is asked for again, and is
/// none any more then.
fn end_handles(inode: &mut Inode, before: &Inode, set: &SetAttr) -> Result<bool, StoreError> {
    if !set.changes_protection() {
        return Ok(false);
    }
    if inode.handles.any() && inode.restricts(before) {
        owe_end(inode)?;
    }
    Ok(inode.handles.owed)
}

/// Mode, list, owner and group. A change of owner or group, and one of mode or list by whom a list
/// allows that, takes set-id bits away, even those set by the same request; a mode set by somebody
/// outside the group gets no set-group-id bit.
fn set_ownership(inode: &mut Inode, set: &SetAttr, cred: &Credential) {
    let loss = match inode.set_id_loss(cred) {
        SetIdLoss::Nothing => SetIdLoss::Privileges,
        loss => loss,
    };
    let owns = cred.is_superuser() || cred.uid == inode.uid;
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    let entitled = cred.is_superuser() || cred.in_group(inode.gid);
    let unearned = if entitled { 0 } else { MODE_SETGID };
    if let Some(mode) = set.mode {
        inode.set_mode(mode.apply(inode.mode) & !unearned, mode.mask);
    }
    if let Some(acl) = &set.acl {
        // It may let the group execute.
        inode.set_acl(acl.clone());
        inode.mode &= !unearned;
    }
    let changes_hands = set.uid.is_some() || set.gid.is_some();
    let by_another = !owns && (set.mode.is_some() || set.acl.is_some());
    if (changes_hands || by_another) && !inode.is_directory() {
        inode.mode = if by_another { SetIdLoss::All } else { loss }.of(inode.mode);
    }
}
