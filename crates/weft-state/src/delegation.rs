//! Read delegations: RFC 8881 §8.2.1, §10.2, §10.4, §18.6. A client that holds one may open the
//! file for reading and trust what it cached until it is asked to give it back. One of a directory
//! (§10.9) is the same: its holder trusts what it knows of the names. There are no write
//! delegations (design D9).

mod contended;

use std::collections::BTreeMap;

use weft_nfs::{ClientId, Seqid, Stateid, share};

use crate::ids::{FileKey, Millis};
use crate::limits::REVOKED_MAX;
use crate::memory::{Want, map_entry};
use crate::refusal::Refusal;
use crate::state::State;
use crate::stateid::{Kind, StateNo};

use self::contended::Contended;

/// A read delegation, or one of a directory.
#[derive(Debug)]
pub(crate) struct Delegation {
    pub(crate) client: ClientId,
    pub(crate) file: FileKey,
    pub(crate) seqid: Seqid,
    /// Of a directory: no client can reclaim it.
    of_directory: bool,
    /// Since when it is being recalled.
    recalled_at: Option<Millis>,
    /// Whether the client's last answer to the recall was that it has no such delegation.
    disowned: bool,
}

/// All delegations, at most one of a client on a file, and what decides whether to grant one.
#[derive(Debug, Default)]
pub(crate) struct Delegations {
    by_no: BTreeMap<StateNo, Delegation>,
    by_holder: BTreeMap<(FileKey, ClientId), StateNo>,
    /// Files being changed, and by how many requests.
    changing: BTreeMap<FileKey, usize>,
    /// Files of which one was wanted back lately.
    contended: Contended,
}

/// Bytes that a delegation takes.
pub(crate) const DELEGATION_BYTES: usize = map_entry::<StateNo, Delegation>()
    + map_entry::<(FileKey, ClientId), StateNo>()
    + map_entry::<StateNo, ()>();
/// Bytes that a revoked one takes; less than it did before.
pub(crate) const REVOKED_BYTES: usize = map_entry::<StateNo, ()>();

impl Delegations {
    /// None, and so much memory for files of which one was wanted back.
    pub(crate) fn with_memory(contended_bytes: usize) -> Self {
        let contended = Contended::with_memory(contended_bytes);
        Delegations { contended, ..Delegations::default() }
    }

    pub(crate) fn get(&self, no: StateNo) -> Option<&Delegation> {
        self.by_no.get(&no)
    }

    /// Whether the client holds a delegation on the file.
    pub(crate) fn holds(&self, client: ClientId, file: FileKey) -> bool {
        self.by_holder.contains_key(&(file, client))
    }

    fn no_of(&self, client: ClientId, file: FileKey) -> Option<StateNo> {
        self.by_holder.get(&(file, client)).copied()
    }

    /// Those on a file, by their holders.
    fn on(&self, file: FileKey) -> impl Iterator<Item = (ClientId, StateNo)> {
        let holders = self.by_holder.range((file, ClientId(0))..);
        let on_file = holders.take_while(move |((f, _), _)| *f == file);
        on_file.map(|((_, client), no)| (*client, *no))
    }

    fn insert(&mut self, no: StateNo, delegation: Delegation) {
        self.by_holder.insert((delegation.file, delegation.client), no);
        self.by_no.insert(no, delegation);
    }

    fn remove(&mut self, no: StateNo) -> Option<Delegation> {
        let delegation = self.by_no.remove(&no)?;
        self.by_holder.remove(&(delegation.file, delegation.client));
        Some(delegation)
    }

    fn begin_change(&mut self, file: FileKey) {
        *self.changing.entry(file).or_default() += 1;
    }

    fn end_change(&mut self, file: FileKey) {
        if let Some(changes) = self.changing.get_mut(&file) {
            *changes -= 1;
            if *changes == 0 {
                self.changing.remove(&file);
            }
        }
    }
}

/// What an OPEN says about delegations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: the server decides by the access pattern.
    NoPreference,
    /// A read delegation, or any.
    Read,
    /// A write delegation.
    Write,
    /// No delegation.
    Nothing,
    /// An earlier want is taken back.
    Cancel,
    /// The read delegation held before a restart (CLAIM_PREVIOUS).
    Reclaim,
    /// One of a directory (GET_DIR_DELEGATION).
    Directory,
}

impl Wanted {
    /// From the bits of `share_access`; unknown ones are no preference (Linux gives up CLAIM_FH
    /// for good on INVAL).
    ///
    /// Source: RFC 8881 §18.16.3.
    pub fn of(share_access: u32) -> Wanted {
        match share_access & share::WANT_MASK {
            share::WANT_READ_DELEG | share::WANT_ANY_DELEG => Wanted::Read,
            share::WANT_WRITE_DELEG => Wanted::Write,
            share::WANT_NO_DELEG => Wanted::Nothing,
            share::WANT_CANCEL => Wanted::Cancel,
            _ => Wanted::NoPreference,
        }
    }
}

/// Why no delegation is granted: `why_no_delegation4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDelegation {
    /// The client expressed no want, so that no reason is given.
    NotAsked,
    /// It wants none.
    NotWanted,
    /// The file is open for writing, denied to readers, or being changed.
    Contention,
    /// A limit, a back channel that does not work, or the client has one.
    Resource,
    /// Only read delegations are granted.
    WriteUnsupported,
    /// The want was taken back.
    Cancelled,
}

impl State {
    /// Grants a read delegation to a client that has just opened the file for reading, or one of a
    /// directory, or says why not. Without a want none is granted on a file of which one had to be
    /// recalled lately; nor is one of such a directory, nor to who did not give one back.
    /// `possible` says whether the client can be called back and the file is quiet as far as others
    /// know.
    ///
    /// Source: RFC 8881 §10.4, §18.16.3.
    pub fn delegate(
        &mut self,
        now: Millis,
        client: ClientId,
        file: FileKey,
        wanted: Wanted,
        possible: bool,
    ) -> Result<Stateid, NoDelegation> {
        match wanted {
            Wanted::Nothing => return Err(NoDelegation::NotWanted),
            Wanted::Cancel => return Err(NoDelegation::Cancelled),
            Wanted::Write => return Err(NoDelegation::WriteUnsupported),
            Wanted::NoPreference if self.delegations.contended.contains(now, file) => {
                return Err(NoDelegation::NotAsked);
            }
            Wanted::Directory if self.delegations.contended.contains(now, file) => {
                return Err(NoDelegation::Contention);
            }
            Wanted::Directory if self.has_revoked(client) => return Err(NoDelegation::Resource),
            Wanted::NoPreference | Wanted::Read | Wanted::Reclaim | Wanted::Directory => {}
        }
        let refusal = self.refuse_delegation(client, file, possible);
        let told = |why| if wanted == Wanted::Read { why } else { NoDelegation::NotAsked };
        if let Some(why) = refusal {
            return Err(told(why));
        }
        let (no, seqid) = (self.next_no(), Seqid(1));
        let of_directory = wanted == Wanted::Directory;
        let (recalled_at, disowned) = (None, false);
        let delegation = Delegation { client, file, seqid, of_directory, recalled_at, disowned };
        self.budget.take(client, DELEGATION_BYTES);
        self.delegations.insert(no, delegation);
        self.held(client).delegations.insert(no);
        Ok(self.stateid(Kind::Delegation, no, seqid))
    }

    fn refuse_delegation(
        &self,
        client: ClientId,
        file: FileKey,
        possible: bool,
    ) -> Option<NoDelegation> {
        let contended = self.files.get(&file).is_some_and(|f| f.shares.excludes_reading_alone());
        if contended || self.delegations.changing.contains_key(&file) || self.rw_layouts(file) {
            return Some(NoDelegation::Contention);
        }
        let full = !self.budget.has_room(client, DELEGATION_BYTES, Want::Extra);
        let has_one = self.delegations.holds(client, file);
        (full || has_one || !possible).then_some(NoDelegation::Resource)
    }

    /// From here on nobody gets a delegation on the file, until [`State::end_change`] has been
    /// called as often.
    pub fn begin_change(&mut self, file: FileKey) {
        self.delegations.begin_change(file);
    }

    /// The change is done, or given up.
    pub fn end_change(&mut self, file: FileKey) {
        self.delegations.end_change(file);
    }

    /// Whether the client could reclaim one of its delegations after a restart.
    pub(crate) fn could_reclaim(&self, client: ClientId) -> bool {
        let held = self.held_by_client.get(&client);
        let mut held = held.into_iter().flat_map(|held| &held.delegations);
        held.any(|no| self.delegations.get(*no).is_some_and(|held| !held.of_directory))
    }

    /// Whether the client holds a delegation on a file.
    pub(crate) fn has_delegation(&self, client: ClientId, file: FileKey) -> bool {
        self.delegations.by_holder.contains_key(&(file, client))
    }

    /// Other clients that hold a delegation on the file.
    pub fn delegation_holders(&self, file: FileKey, except: ClientId) -> Vec<ClientId> {
        let holders = self.delegations.on(file).map(|(client, _)| client);
        holders.filter(|client| *client != except).collect()
    }

    /// Whether an open with these bits conflicts with others' delegations (§10.4.1).
    pub(crate) fn conflicts_with_delegation(
        &self,
        client: ClientId,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> bool {
        let excludes =
            share_access & share::ACCESS_WRITE != 0 || share_deny & share::DENY_READ != 0;
        excludes && !self.delegation_holders(file, client).is_empty()
    }

    /// Begins the recall of a delegation: its stateid for CB_RECALL. None if there is none or it
    /// is being recalled already.
    pub fn delegation_recall(
        &mut self,
        now: Millis,
        client: ClientId,
        file: FileKey,
    ) -> Option<Stateid> {
        let no = self.delegations.no_of(client, file)?;
        let delegation = self.delegations.by_no.get_mut(&no).filter(|d| d.recalled_at.is_none())?;
        delegation.recalled_at = Some(now);
        let seqid = delegation.seqid;
        self.delegations.contended.note(now, file);
        Some(self.stateid(Kind::Delegation, no, seqid))
    }

    /// The client has answered a recall. One that does not know the delegation may have been asked
    /// before the reply that grants it arrived; if it stays unknown, nobody will ever free its
    /// stateid.
    pub fn delegation_answered(&mut self, client: ClientId, stateid: &Stateid, known: bool) {
        let Ok((Kind::Delegation, no)) = self.find(client, stateid) else { return };
        if let Some(delegation) = self.delegations.by_no.get_mut(&no) {
            delegation.disowned = !known;
        }
    }

    /// Whether this delegation is still out.
    pub fn is_delegated(&self, client: ClientId, stateid: &Stateid) -> bool {
        matches!(self.find(client, stateid), Ok((Kind::Delegation, _)))
    }

    /// Delegations whose recall has been out for `limit_ms` or longer.
    pub fn delegations_overdue(&self, now: Millis, limit_ms: u64) -> Vec<(ClientId, FileKey)> {
        let overdue = |d: &&Delegation| d.recalled_at.is_some_and(|at| now.since(at) >= limit_ms);
        self.delegations.by_no.values().filter(overdue).map(|d| (d.client, d.file)).collect()
    }

    /// Takes a delegation away from a client that did not return it. It is remembered as revoked
    /// until FREE_STATEID (§8.2.4, §10.4.5), unless the client does not know it. The next one waits
    /// from now on: the recall may be long past.
    pub fn delegation_revoke(&mut self, now: Millis, client: ClientId, file: FileKey) {
        let Some(no) = self.delegations.no_of(client, file) else { return };
        self.delegations.contended.note(now, file);
        let Some(delegation) = self.remove_delegation(no) else { return };
        if delegation.disowned {
            return;
        }
        let revoked = &mut self.held(client).revoked;
        let forgotten = revoked.len() >= REVOKED_MAX && revoked.pop_first().is_some();
        revoked.insert(no);
        if !forgotten {
            self.budget.take(client, REVOKED_BYTES);
        }
    }

    /// The directory is gone: nobody can return a delegation on it any more.
    pub fn delegations_forget(&mut self, file: FileKey) {
        for (_, no) in self.delegations.on(file).collect::<Vec<_>>() {
            self.remove_delegation(no);
        }
    }

    /// A revoked delegation is freed.
    pub(crate) fn forget_revoked(&mut self, client: ClientId, no: StateNo) {
        if self.held(client).revoked.remove(&no) {
            self.budget.give_back(client, REVOKED_BYTES);
        }
    }

    /// The client is gone.
    pub(crate) fn forget_all_revoked(&mut self, client: ClientId) {
        let revoked = std::mem::take(&mut self.held(client).revoked);
        self.budget.give_back(client, revoked.len() * REVOKED_BYTES);
    }

    /// Whether the client has yet to free delegations that were revoked:
    /// SEQ4_STATUS_RECALLABLE_STATE_REVOKED.
    pub fn has_revoked(&self, client: ClientId) -> bool {
        self.held_by_client.get(&client).is_some_and(|h| !h.revoked.is_empty())
    }

    /// DELEGRETURN.
    ///
    /// # Errors
    /// BAD_STATEID, OLD_STATEID, DELEG_REVOKED.
    ///
    /// Source: RFC 8881 §18.6.3.
    pub fn delegation_return(
        &mut self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
    ) -> Result<(), Refusal> {
        let no = self.find_kind(Kind::Delegation, client, stateid, file)?;
        self.remove_delegation(no);
        Ok(())
    }

    /// Checks the delegation that an open is claimed under (CLAIM_DELEGATE_CUR,
    /// CLAIM_DELEG_CUR_FH); it may be one that is being recalled (§10.4.4).
    ///
    /// # Errors
    /// BAD_STATEID, OLD_STATEID, DELEG_REVOKED.
    pub fn delegation_check(
        &self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
    ) -> Result<(), Refusal> {
        self.find_kind(Kind::Delegation, client, stateid, file)?;
        Ok(())
    }

    pub(crate) fn remove_delegation(&mut self, no: StateNo) -> Option<Delegation> {
        let delegation = self.delegations.remove(no)?;
        self.budget.give_back(delegation.client, DELEGATION_BYTES);
        self.held(delegation.client).delegations.remove(&no);
        self.return_on_close(delegation.client, delegation.file);
        Some(delegation)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
