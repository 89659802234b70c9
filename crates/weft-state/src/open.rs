//! Opens and their share reservations, and the check of stateids in I/O: RFC 8881 §8.2, §9.1.2,
//! §9.7-§9.9, §18.2, §18.16, §18.18.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weft_nfs::{ClientId, Seqid, StateOwner, Stateid, share};

use crate::ids::{FileKey, detached};
use crate::memory::{Want, map_entry, name_bytes};
use crate::refusal::{Reason, Refusal};
use crate::state::{FileState, OwnerKey, State};
use crate::stateid::{Kind, StateNo};

/// What I/O does to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IoAccess {
    /// Reads data: READ, SEEK.
    Read,
    /// WRITE, SETATTR of the size, ALLOCATE.
    Write,
}

/// Proof that a stateid allows an access: the client, and what the stateid stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoHolder {
    /// Client that does the I/O.
    pub client: ClientId,
    /// Whether an open for this access (or a lock under one, or a delegation) stands behind it.
    /// Otherwise a special stateid does, or an open for writing that is to read, and file
    /// permissions are to be checked at every I/O.
    pub open: bool,
}

/// A closed open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The stateid to answer: the invalid one (§18.2.4).
    pub stateid: Stateid,
    /// Whether nobody has the file open now.
    pub last_open_of_file: bool,
}

/// One open: an owner's, on a file.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) client: ClientId,
    owner: Bytes,
    pub(crate) file: FileKey,
    pub(crate) seqid: Seqid,
    pub(crate) share: Share,
    /// Every share of an OPEN that this open is the union of: bit `deny * 4 + access`.
    seen: u16,
    /// Lock states based on it.
    locks: BTreeSet<StateNo>,
}

/// All opens, at most one of an owner on a file.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    by_no: BTreeMap<StateNo, Open>,
    by_owner: BTreeMap<OwnerKey, StateNo>,
    /// The shares of all opens of a file by one client, added up, so that no check walks through
    /// the opens: there may be hundreds of thousands.
    client_shares: BTreeMap<(FileKey, ClientId), Shares>,
    /// Clients that wait to be notified of locks on a file, for as long as they have it open.
    expecting: BTreeSet<(FileKey, ClientId)>,
}

/// Bytes that an open takes beside the name of its owner, as if it were the only one of its file.
const OPEN_BYTES: usize = map_entry::<StateNo, Open>()
    + map_entry::<OwnerKey, StateNo>()
    + map_entry::<(FileKey, ClientId), Shares>()
    + map_entry::<(FileKey, ClientId), ()>()
    + map_entry::<FileKey, FileState>()
    + map_entry::<StateNo, ()>();

/// Bytes that an open of this owner takes.
fn open_bytes(owner: &Bytes) -> usize {
    OPEN_BYTES + name_bytes(owner.len())
}

impl Open {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        open_bytes(&self.owner)
    }
}

impl Opens {
    pub(crate) fn get(&self, no: StateNo) -> Option<&Open> {
        self.by_no.get(&no)
    }

    /// Notes that a lock state is based on an open, whose CLOSE frees it.
    pub(crate) fn base(&mut self, open: StateNo, lock: StateNo) {
        if let Some(open) = self.by_no.get_mut(&open) {
            open.locks.insert(lock);
        }
    }

    /// The lock state is gone.
    pub(crate) fn unbase(&mut self, open: StateNo, lock: StateNo) {
        if let Some(open) = self.by_no.get_mut(&open) {
            open.locks.remove(&lock);
        }
    }

    fn insert(&mut self, no: StateNo, open: Open) {
        self.by_owner.insert((open.file, open.client, open.owner.clone()), no);
        self.by_no.insert(no, open);
    }

    fn remove(&mut self, no: StateNo) -> Option<Open> {
        let open = self.by_no.remove(&no)?;
        self.by_owner.remove(&(open.file, open.client, open.owner.clone()));
        Some(open)
    }

    /// Changes the count of the shares that one client has of a file.
    fn count_shares(&mut self, file: FileKey, client: ClientId, change: impl Fn(&mut Shares)) {
        let own = self.client_shares.entry((file, client)).or_default();
        change(own);
        if own.opens == 0 {
            self.client_shares.remove(&(file, client));
            self.expecting.remove(&(file, client));
        }
    }
}

/// Access and deny bits, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) access: u32,
    pub(crate) deny: u32,
}

impl Share {
    /// Wants in the access bits are ignored: Linux gives up CLAIM_FH for good on INVAL.
    fn checked(access: u32, deny: u32) -> Result<Self, Reason> {
        let access = access & share::ACCESS_MASK;
        if access == 0 || deny > share::DENY_BOTH {
            return Err(Reason::ShareInvalid);
        }
        Ok(Share { access, deny })
    }

    fn union(self, other: Share) -> Share {
        Share { access: self.access | other.access, deny: self.deny | other.deny }
    }

    fn contains(self, part: Share) -> bool {
        self.union(part) == self
    }

    fn bit(self) -> u16 {
        1 << (self.deny * 4 + self.access)
    }

    /// Every share there is.
    fn all() -> impl Iterator<Item = Share> {
        (0..4).flat_map(|deny| (1..4).map(move |access| Share { access, deny }))
    }

    pub(crate) fn allows(self, access: IoAccess) -> bool {
        // A write-only open may read, if its user may: clients fill the rest of a page (§18.22.3).
        access == IoAccess::Read || self.is_for(access)
    }

    /// Whether this is what was opened for.
    fn is_for(self, access: IoAccess) -> bool {
        let bit = match access {
            IoAccess::Read => share::ACCESS_READ,
            IoAccess::Write => share::ACCESS_WRITE,
        };
        self.access & bit != 0
    }
}

/// The shares of all opens of a file, counted by bit, so that a conflict is found at once however
/// many have the file open.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    opens: usize,
    access: [usize; 2],
    deny: [usize; 2],
}

impl Shares {
    fn add(&mut self, s: Share) {
        self.opens += 1;
        self.count(s, |n| *n += 1);
    }

    fn remove(&mut self, s: Share) {
        self.opens -= 1;
        self.count(s, |n| *n -= 1);
    }

    fn replace(&mut self, before: Share, after: Share) {
        self.remove(before);
        self.add(after);
    }

    fn count(&mut self, s: Share, change: impl Fn(&mut usize)) {
        let counts = self.access.iter_mut().zip(&mut self.deny);
        for (bit, (access, deny)) in [1, 2].into_iter().zip(counts) {
            if s.access & bit != 0 {
                change(access);
            }
            if s.deny & bit != 0 {
                change(deny);
            }
        }
    }

    /// Whether a share conflicts with that of another open than `own` (§9.7).
    fn conflicts(&self, own: Option<Share>, s: Share) -> bool {
        let own_has = |bits: fn(Share) -> u32, bit| own.is_some_and(|o| bits(o) & bit != 0);
        let counts = self.access.iter().zip(&self.deny);
        [1, 2].into_iter().zip(counts).any(|(bit, (access, deny))| {
            let others_access = *access > usize::from(own_has(|o| o.access, bit));
            let others_deny = *deny > usize::from(own_has(|o| o.deny, bit));
            (s.access & bit != 0 && others_deny) || (s.deny & bit != 0 && others_access)
        })
    }

    /// Whether one of the opens allows this, as [`Share::allows`].
    fn allow(&self, access: IoAccess) -> bool {
        self.is_any_for(access) || access == IoAccess::Read && self.opens > 0
    }

    /// As [`Share::is_for`], of any.
    fn is_any_for(&self, access: IoAccess) -> bool {
        let [readers, writers] = self.access;
        match access {
            IoAccess::Read => readers > 0,
            IoAccess::Write => writers > 0,
        }
    }

    /// Whether somebody writes, or keeps readers out: no time for a read delegation.
    pub(crate) fn excludes_reading_alone(&self) -> bool {
        let ([_, writers], [no_readers, _]) = (self.access, self.deny);
        writers > 0 || no_readers > 0
    }

    fn denies(&self, access: IoAccess) -> bool {
        let [read, write] = self.deny;
        match access {
            IoAccess::Read => read > 0,
            IoAccess::Write => write > 0,
        }
    }
}

impl State {
    /// Whether [`State::open`] would be refused, and why; asked before the namespace is changed.
    ///
    /// # Errors
    /// As [`State::open`].
    pub fn open_check(
        &self,
        client: ClientId,
        owner: &StateOwner,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> Result<(), Refusal> {
        let share = Share::checked(share_access, share_deny)?;
        let key = (file, client, owner.owner.0.clone());
        let existing = self.opens.by_owner.get(&key);
        let own = existing.and_then(|no| self.opens.get(*no)).map(|o| o.share);
        if self.files.get(&file).is_some_and(|f| f.shares.conflicts(own, share)) {
            return Err(Reason::ShareDenied.into());
        }
        if self.conflicts_with_delegation(client, file, share.access, share.deny) {
            return Err(Reason::Delegated.into());
        }
        if own.is_none() { self.check_room_for_open(client, owner) } else { Ok(()) }
    }

    /// Whether there is room for one more open of an owner; asked before a file is made for it.
    ///
    /// # Errors
    /// DELAY beyond a limit.
    pub fn check_room_for_open(&self, client: ClientId, owner: &StateOwner) -> Result<(), Refusal> {
        let has_room = self.budget.has_room(client, open_bytes(&owner.owner.0), Want::Need);
        if has_room { Ok(()) } else { Err(Reason::TooManyOpens.into()) }
    }

    /// Other clients whose opens of the file conflict with a share.
    ///
    /// Source: RFC 8881 §9.7.
    pub fn share_holders(
        &self,
        client: ClientId,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> Vec<ClientId> {
        let wanted = Share { access: share_access & share::ACCESS_MASK, deny: share_deny };
        let from = (file, ClientId(0));
        let of_file = self.opens.client_shares.range(from..).take_while(|(k, _)| k.0 == file);
        let holders = of_file.filter(|(k, s)| k.1 != client && s.conflicts(None, wanted));
        holders.map(|(k, _)| k.1).collect()
    }

    /// Changes the counts of shares of a file and of one client's part in them.
    fn count_shares(&mut self, file: FileKey, client: ClientId, change: impl Fn(&mut Shares)) {
        change(&mut self.files.entry(file).or_default().shares);
        self.opens.count_shares(file, client, change);
    }

    /// OPEN: a new open with seqid 1, or the upgrade of the one the same owner has on the file.
    /// `share_access` may carry wants; they are ignored. The owner's client id is ignored.
    ///
    /// # Errors
    /// INVAL for shares out of range, SHARE_DENIED, DELAY beyond a limit and while others hold
    /// delegations that exclude it.
    ///
    /// Source: RFC 8881 §18.16.3, §9.7.
    pub fn open(
        &mut self,
        client: ClientId,
        owner: &StateOwner,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> Result<Stateid, Refusal> {
        self.open_check(client, owner, file, share_access, share_deny)?;
        let share = Share::checked(share_access, share_deny)?;
        let key = (file, client, detached(&owner.owner.0));
        let existing = self.opens.by_owner.get(&key).copied();
        if let Some(no) = existing
            && let Some(open) = self.opens.by_no.get_mut(&no)
        {
            let before = open.share;
            let after = before.union(share);
            open.share = after;
            open.seen |= share.bit();
            open.seqid = open.seqid.next();
            let seqid = open.seqid;
            self.count_shares(file, client, |shares| shares.replace(before, after));
            return Ok(self.stateid(Kind::Open, no, seqid));
        }
        self.count_shares(file, client, |shares| shares.add(share));
        let no = self.next_no();
        let (_, _, owner) = key;
        let (seqid, seen, locks) = (Seqid(1), share.bit(), BTreeSet::new());
        let open = Open { client, owner, file, seqid, share, seen, locks };
        self.budget.take(client, open.bytes());
        self.opens.insert(no, open);
        self.held(client).opens.insert(no);
        Ok(self.stateid(Kind::Open, no, seqid))
    }

    /// OPEN_DOWNGRADE: what remains must be the union of some of the shares that were opened.
    ///
    /// # Errors
    /// INVAL, BAD_STATEID, OLD_STATEID.
    ///
    /// Source: RFC 8881 §18.18.3.
    pub fn open_downgrade(
        &mut self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> Result<Stateid, Refusal> {
        let to = Share::checked(share_access, share_deny)?;
        let no = self.find_kind(Kind::Open, client, stateid, file)?;
        let open = self.opens.by_no.get_mut(&no).ok_or(Reason::StateidUnknown)?;
        let seen = open.seen;
        let parts = || Share::all().filter(|s| seen & s.bit() != 0 && to.contains(*s));
        if parts().reduce(Share::union) != Some(to) {
            return Err(Reason::DowngradeInvalid.into());
        }
        let before = open.share;
        open.share = to;
        open.seen = parts().fold(0, |bits, s| bits | s.bit());
        open.seqid = open.seqid.next();
        let seqid = open.seqid;
        self.count_shares(file, client, |shares| shares.replace(before, to));
        Ok(self.stateid(Kind::Open, no, seqid))
    }

    /// CLOSE: also frees the locks based on the open alone, and with the client's last open its
    /// read layout.
    ///
    /// # Errors
    /// BAD_STATEID, OLD_STATEID.
    ///
    /// Source: RFC 8881 §18.2.3.
    pub fn close(
        &mut self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
    ) -> Result<Closed, Refusal> {
        let no = self.find_kind(Kind::Open, client, stateid, file)?;
        let last = self.remove_open(no).is_some_and(|(_, last)| last);
        Ok(Closed { stateid: Stateid::INVALID, last_open_of_file: last })
    }

    /// Checks the stateid of I/O. Special stateids are subject to share reservations, except the
    /// one that bypasses them in READ. Whether the caller may do this is for the server to check,
    /// unless [`IoHolder::open`] says that OPEN did.
    ///
    /// # Errors
    /// OPENMODE, LOCKED (special stateids), BAD_STATEID, OLD_STATEID.
    ///
    /// Source: RFC 8881 §8.2.3, §9.1.2, §18.22.3, §18.32.3.
    pub fn check_io(
        &self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
        access: IoAccess,
    ) -> Result<IoHolder, Refusal> {
        let bypass = *stateid == Stateid::READ_BYPASS;
        if *stateid == Stateid::ANONYMOUS || bypass {
            let denied = self.files.get(&file).is_some_and(|f| f.shares.denies(access));
            if denied && !(bypass && access == IoAccess::Read) {
                return Err(Reason::IoDenied.into());
            }
            return Ok(IoHolder { client, open: false });
        }
        let (kind, no) = self.find_on(client, stateid, file)?;
        Ok(IoHolder { client, open: self.check_open_mode(kind, no, access)? })
    }

    /// Checks that the open or delegation that is, or stands behind, a state allows an access;
    /// whether it is for this access.
    pub(crate) fn check_open_mode(
        &self,
        kind: Kind,
        no: StateNo,
        access: IoAccess,
    ) -> Result<bool, Reason> {
        let opens = match kind {
            Kind::Open => [Some(no), None],
            Kind::Lock => self.locks.get(no).map(|l| l.opens).unwrap_or_default(),
            Kind::Delegation => {
                let held = self.delegations.get(no).ok_or(Reason::StateidUnknown)?;
                return held.allows(access).ok_or(Reason::OpenMode);
            }
            Kind::Layout => return Err(Reason::StateidKind),
        };
        let mut opens = opens.into_iter().flatten().filter_map(|no| self.opens.get(no)).peekable();
        opens.peek().ok_or(Reason::StateidUnknown)?;
        let allowing = opens.find(|open| open.share.allows(access)).ok_or(Reason::OpenMode)?;
        Ok(allowing.share.is_for(access))
    }

    /// Whether anybody has the file open, or delegated: a delegation may stand for an open.
    pub fn is_open(&self, file: FileKey) -> bool {
        self.opens_of(file) > 0 || self.delegations.any_on(file)
    }

    /// Whether anybody has the file open to write; a delegation to write is none.
    pub fn is_open_to_write(&self, file: FileKey) -> bool {
        self.files.get(&file).is_some_and(|f| f.shares.access[1] > 0)
    }

    /// True if others than the client have the file open to write.
    pub fn is_open_to_write_by_others(&self, client: ClientId, file: FileKey) -> bool {
        let own = self.opens.client_shares.get(&(file, client));
        let own = own.map_or(0, |shares| shares.access[1]);
        self.files.get(&file).is_some_and(|f| f.shares.access[1] > own)
    }

    fn opens_of(&self, file: FileKey) -> usize {
        self.files.get(&file).map_or(0, |f| f.shares.opens)
    }

    /// How many opens the client has of the file.
    pub(crate) fn opens_of_client(&self, client: ClientId, file: FileKey) -> usize {
        self.opens.client_shares.get(&(file, client)).map_or(0, |shares| shares.opens)
    }

    /// Whether others than the client have the file open.
    pub(crate) fn is_open_by_others(&self, client: ClientId, file: FileKey) -> bool {
        self.opens_of(file) > self.opens_of_client(client, file)
    }

    /// Whether the client has the file open, a delegation aside.
    pub fn has_opens(&self, client: ClientId, file: FileKey) -> bool {
        self.opens_of_client(client, file) > 0
    }

    /// Whether an OPEN that was granted may say that the client will be notified when it can have a
    /// lock (OPEN4_RESULT_MAY_NOTIFY_LOCK), which the client goes by while it has the file open.
    ///
    /// Not with a delegation: the client locks by itself then, and nobody here hears of it. Of
    /// several processes that want the same lock Linux (7.2 and before) lets one lose in a race
    /// (`_nfs4_proc_setlk` looks again without waiting), and that one waits for a notification, 30
    /// seconds long; if it expects none it asks again after one. So no delegation to write is
    /// granted either while the client expects notifications.
    pub fn notifies_of_locks(&mut self, client: ClientId, file: FileKey) -> bool {
        let notifies = !self.has_delegation(client, file);
        if notifies && self.has_opens(client, file) {
            self.opens.expecting.insert((file, client));
        }
        notifies
    }

    /// Whether the client expects to be notified of locks on the file.
    pub(crate) fn expects_notices(&self, client: ClientId, file: FileKey) -> bool {
        self.opens.expecting.contains(&(file, client))
    }

    /// Whether the client has the file open for this access, or may open it so by itself.
    pub(crate) fn has_open(&self, client: ClientId, file: FileKey, access: IoAccess) -> bool {
        let own = self.opens.client_shares.get(&(file, client));
        own.is_some_and(|shares| shares.allow(access))
            || self.delegation_allows(client, file, access)
    }

    /// Whether the client has the file open to read it, or was delegated it when it opened it so.
    pub(crate) fn reads(&self, client: ClientId, file: FileKey) -> bool {
        let own = self.opens.client_shares.get(&(file, client));
        let has_open = own.is_some_and(|shares| shares.is_any_for(IoAccess::Read));
        has_open || self.delegation_opened(client, file, IoAccess::Read)
    }

    /// Removes an open, the locks based on it alone, and a read layout that is not used any more.
    /// Says on which file it was, and whether nobody has that open now.
    pub(crate) fn remove_open(&mut self, no: StateNo) -> Option<(FileKey, bool)> {
        let locks = self.opens.get(no)?.locks.clone();
        locks.into_iter().for_each(|lock| self.unbase_lock(lock, no));
        let open = self.opens.remove(no)?;
        self.budget.give_back(open.client, open.bytes());
        self.held(open.client).opens.remove(&no);
        self.count_shares(open.file, open.client, |shares| shares.remove(open.share));
        if self.opens_of(open.file) == 0 {
            self.files.remove(&open.file);
        }
        self.return_on_close(open.client, open.file);
        Some((open.file, !self.is_open(open.file)))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
