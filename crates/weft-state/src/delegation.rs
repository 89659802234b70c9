//! Delegations: RFC 8881 §8.2.1, §10.2, §10.4, §18.6. A client that holds one to read may open the
//! file for reading and trust what it cached until it is asked to give it back; one that holds it
//! to write is alone with the file, and may keep what it writes to itself for as long. One of a
//! directory (§10.9) is like one to read: its holder trusts what it knows of the names.
//!
//! A delegation of a file is as good as an open: it may have been granted in place of one (RFC
//! 9754 §4), and the file stays until it is back.

mod in_vain;
mod recent;
mod unreturned;

use std::collections::BTreeMap;

use weft_nfs::{ClientId, Seqid, Stateid, share};

use crate::host::Host;
use crate::ids::{FileKey, Millis};
use crate::limits::{CONTENDED_MS, LATE_HOST_MS, REVOKED_MAX};
use crate::memory::{Want, map_entry};
use crate::open::IoAccess;
use crate::refusal::Refusal;
use crate::state::State;
use crate::stateid::{Kind, StateNo};

pub use self::in_vain::{FileAsked, SmallFile};
use self::{in_vain::InVain, recent::Recent};

/// What the holder of a delegation may do by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationKind {
    /// Trust the names in a directory. No client can reclaim it.
    Directory,
    /// Open the file for reading.
    Read,
    /// Open the file, and keep what is written.
    Write,
}

/// A delegation.
#[derive(Debug)]
pub(crate) struct Delegation {
    pub(crate) client: ClientId,
    pub(crate) file: FileKey,
    pub(crate) seqid: Seqid,
    pub(crate) kind: DelegationKind,
    /// The access of the opens that it was granted with: what the caller was found to be allowed.
    opened: u32,
    /// The file's change attribute when it was granted: what the holder says as long as it has no
    /// changes of its own (§10.4.3; Linux `nfs4_callback_getattr`).
    change: u64,
    /// A number that was taken when this was granted, or last became more: states with greater
    /// ones were made later.
    granted_at: StateNo,
    /// The client has opened the file by itself since, and changed its size.
    used_alone: bool,
    /// Layouts that the client asked for in vain.
    in_vain: InVain,
    /// The client has begun to give it back.
    returning: bool,
    /// Whether the client's last answer to the recall was that it has no such delegation.
    disowned: bool,
}

/// A recall that is out.
#[derive(Debug)]
struct Recalled {
    since: Millis,
    /// When the client was last seen to be kept from writing what it has to before it returns it.
    kept_at: Option<Millis>,
    /// True once the client has answered the recall, whatever it said.
    answered: bool,
}

impl Recalled {
    /// Whether the client is late: after `limit_ms`; one that was kept from writing as long after
    /// the last time that it was, or after `kept_ms_max` in all.
    fn is_overdue(&self, now: Millis, limit_ms: u64, kept_ms_max: u64) -> bool {
        let is_kept = self.kept_at.is_some_and(|at| now.since(at) < limit_ms);
        now.since(self.since) >= if is_kept { kept_ms_max } else { limit_ms }
    }
}

impl Delegation {
    /// Whether an open of another client conflicts with it (§10.4.1).
    fn conflicts(&self, share_access: u32, share_deny: u32) -> bool {
        let excludes =
            share_access & share::ACCESS_WRITE != 0 || share_deny & share::DENY_READ != 0;
        self.kind == DelegationKind::Write || excludes
    }

    /// Whether I/O by it is allowed; and if so, whether an open was, so that the caller need not
    /// be looked at again.
    pub(crate) fn allows(&self, access: IoAccess) -> Option<bool> {
        let (possible, bit) = match access {
            IoAccess::Read => (self.kind != DelegationKind::Directory, share::ACCESS_READ),
            // Whoever writes by it was found to be allowed to when it was granted.
            IoAccess::Write => {
                let opened = self.opened & share::ACCESS_WRITE != 0;
                (opened && self.kind == DelegationKind::Write, share::ACCESS_WRITE)
            }
        };
        possible.then_some(self.opened & bit != 0)
    }
}

/// All delegations, at most one of a client on a file, and what decides whether to grant one.
#[derive(Debug, Default)]
pub(crate) struct Delegations {
    by_no: BTreeMap<StateNo, Delegation>,
    by_holder: BTreeMap<(FileKey, ClientId), StateNo>,
    /// Those that are wanted back.
    recalls: BTreeMap<StateNo, Recalled>,
    /// Files being changed, and by how many requests.
    changing: BTreeMap<FileKey, usize>,
    /// Files of which one was wanted back lately by who changes them.
    contended: Recent<FileKey>,
    /// Files of which one to write was wanted back lately by who reads them.
    shared: Recent<FileKey>,
    /// Hosts of clients that lately did not return one that was recalled: once, and more often.
    late_once: Recent<Host>,
    late_hosts: Recent<Host>,
}

/// Bytes that a delegation takes.
pub(crate) const DELEGATION_BYTES: usize = map_entry::<StateNo, Delegation>()
    + map_entry::<(FileKey, ClientId), StateNo>()
    + map_entry::<StateNo, Recalled>()
    + map_entry::<StateNo, ()>();
/// Bytes that a revoked one takes; less than it did before.
pub(crate) const REVOKED_BYTES: usize = map_entry::<StateNo, ()>();

impl Delegations {
    /// None, and so much memory for what happened lately.
    pub(crate) fn with_memory(recent_bytes: usize) -> Self {
        let part = recent_bytes / 4;
        let files = || Recent::with_memory(part, CONTENDED_MS);
        let hosts = || Recent::with_memory(part, LATE_HOST_MS);
        Delegations {
            contended: files(),
            shared: files(),
            late_once: hosts(),
            late_hosts: hosts(),
            ..Delegations::default()
        }
    }

    pub(crate) fn get(&self, no: StateNo) -> Option<&Delegation> {
        self.by_no.get(&no)
    }

    /// The delegation of a client on a file.
    fn of(&self, client: ClientId, file: FileKey) -> Option<&Delegation> {
        self.numbered(client, file).map(|(_, held)| held)
    }

    /// The same, to change it.
    fn of_mut(&mut self, client: ClientId, file: FileKey) -> Option<&mut Delegation> {
        let no = self.no_of(client, file)?;
        self.by_no.get_mut(&no)
    }

    /// The delegation of a client on a file, with its number.
    fn numbered(&self, client: ClientId, file: FileKey) -> Option<(StateNo, &Delegation)> {
        let no = self.no_of(client, file)?;
        Some((no, self.get(no)?))
    }

    /// Those that are wanted back, with their recalls.
    fn recalled(&self) -> impl Iterator<Item = (&Recalled, &Delegation)> {
        self.recalls.iter().filter_map(|(no, recalled)| Some((recalled, self.get(*no)?)))
    }

    /// Whether somebody does.
    pub(crate) fn any_on(&self, file: FileKey) -> bool {
        self.on(file).next().is_some()
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
        self.recalls.remove(&no);
        Some(delegation)
    }

    /// Whether it is wanted back.
    fn is_recalled(&self, no: StateNo) -> bool {
        self.recalls.contains_key(&no)
    }

    fn begin_change(&mut self, file: FileKey) {
        *self.changing.entry(file).or_default() += 1;
    }

    /// How many requests change the file.
    fn changes(&self, file: FileKey) -> usize {
        self.changing.get(&file).copied().unwrap_or(0)
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
    /// A read delegation.
    Read,
    /// A write delegation.
    Write,
    /// Either, by what the file is opened for.
    Any,
    /// No delegation.
    Nothing,
    /// An earlier want is taken back.
    Cancel,
    /// The delegation held before a restart (CLAIM_PREVIOUS).
    Reclaim(DelegationKind),
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
            share::WANT_READ_DELEG => Wanted::Read,
            share::WANT_WRITE_DELEG => Wanted::Write,
            share::WANT_ANY_DELEG => Wanted::Any,
            share::WANT_NO_DELEG => Wanted::Nothing,
            share::WANT_CANCEL => Wanted::Cancel,
            _ => Wanted::NoPreference,
        }
    }

    /// Which kind would do, of a file that is opened for this access; or why none does.
    fn kind(self, access: u32) -> Result<DelegationKind, NoDelegation> {
        let writes = access & share::ACCESS_WRITE != 0;
        match self {
            Wanted::Nothing => Err(NoDelegation::NotWanted),
            Wanted::Cancel => Err(NoDelegation::Cancelled),
            // §10.4: it says what opens the client may do by itself, and this caller was not found
            // to be allowed to write.
            Wanted::Write if !writes => Err(NoDelegation::WriteUnsupported),
            Wanted::Write => Ok(DelegationKind::Write),
            Wanted::NoPreference | Wanted::Any if writes => Ok(DelegationKind::Write),
            Wanted::NoPreference | Wanted::Any | Wanted::Read => Ok(DelegationKind::Read),
            Wanted::Reclaim(DelegationKind::Write) if !writes => Err(NoDelegation::NotAsked),
            Wanted::Reclaim(kind) => Ok(kind),
            Wanted::Directory => Ok(DelegationKind::Directory),
        }
    }
}

/// Who asks for a delegation, of what, and how things stand there as far as others know.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Who.
    pub client: ClientId,
    /// Of which file or directory.
    pub file: FileKey,
    /// What was said of it.
    pub wanted: Wanted,
    /// The access of the open that goes before it, which is recorded already.
    pub access: u32,
    /// The file's change attribute.
    pub change: u64,
    /// How often the request that asks has called [`State::begin_change`] itself.
    pub own_changes: usize,
    /// Whether the client can be called back and the file is quiet.
    pub possible: bool,
    /// Whether write delegations are granted at all.
    pub to_write: bool,
}

/// A delegation that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Its stateid: that of the one to read which the client had, if it is now one to write.
    pub stateid: Stateid,
    /// What it allows.
    pub kind: DelegationKind,
}

/// What a delegation is wanted back for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecallFor {
    /// Another changes the file.
    Change,
    /// Another reads it: it may have one to read, as the holder may after that.
    Reading,
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
    /// No write delegation is granted for this open, or for none.
    WriteUnsupported,
    /// The want was taken back.
    Cancelled,
}

impl State {
    /// Grants a delegation to a client that has just opened the file, or one of a directory, or
    /// says why not. Who opens to write gets one to write, if nobody else has the file open; the
    /// one to read that it has becomes that, and one to write that it asks for again is granted
    /// again, so that the open is not younger than it ([`State::small_file`]). None is granted for
    /// what happened lately (`refuse_lately`), but for a reclaim.
    ///
    /// Source: RFC 8881 §10.4, §18.16.3.
    pub fn delegate(&mut self, now: Millis, asking: &Asking) -> Result<Granted, NoDelegation> {
        let Asking { client, file, wanted, access, .. } = *asking;
        let kind = wanted.kind(access)?;
        let lately = match wanted {
            Wanted::Reclaim(_) => None,
            _ => self.refuse_lately(now, kind, (client, file)),
        };
        if let Some(why) = lately.or_else(|| self.refuse_delegation(kind, asking)) {
            let is_told = !matches!(wanted, Wanted::NoPreference | Wanted::Reclaim(_));
            return Err(if is_told { why } else { NoDelegation::NotAsked });
        }
        let granted = |stateid| Granted { stateid, kind };
        let granted_at = self.next_no();
        if let Some(no) = self.delegations.no_of(client, file)
            && let Some(held) = self.delegations.by_no.get_mut(&no)
        {
            (held.kind, held.opened, held.returning) = (kind, held.opened | access, false);
            held.granted_at = granted_at;
            held.seqid = held.seqid.next();
            let seqid = held.seqid;
            return Ok(granted(self.stateid(Kind::Delegation, no, seqid)));
        }
        let (no, seqid, opened) = (granted_at, Seqid(1), access);
        let delegation = Delegation {
            client,
            file,
            seqid,
            kind,
            opened,
            change: asking.change,
            granted_at,
            used_alone: false,
            in_vain: InVain::default(),
            returning: false,
            disowned: false,
        };
        self.budget.take(client, DELEGATION_BYTES);
        self.delegations.insert(no, delegation);
        self.held(client).delegations.insert(no);
        Ok(granted(self.stateid(Kind::Delegation, no, seqid)))
    }

    fn refuse_delegation(&self, kind: DelegationKind, asking: &Asking) -> Option<NoDelegation> {
        let Asking { client, file, .. } = *asking;
        let writes = kind == DelegationKind::Write;
        if writes && !asking.to_write {
            return Some(NoDelegation::WriteUnsupported);
        }
        let is_used = if writes { self.others_use(client, file) } else { self.is_written(file) };
        if is_used || self.delegations.changes(file) > asking.own_changes {
            return Some(NoDelegation::Contention);
        }
        let has_room = match self.delegations.numbered(client, file) {
            // It becomes one to write; or is granted again, with an open of who has it already and
            // says that it opens the file here all the same (Linux never says so).
            Some((no, held)) => {
                let becomes = held.kind == DelegationKind::Read || asking.wanted == Wanted::Write;
                writes && becomes && !self.delegations.is_recalled(no)
            }
            None => self.budget.has_room(client, DELEGATION_BYTES, Want::Extra),
        };
        (!has_room || !asking.possible).then_some(NoDelegation::Resource)
    }

    /// Whether somebody writes the file, or keeps readers out.
    fn is_written(&self, file: FileKey) -> bool {
        let excluded = self.files.get(&file).is_some_and(|f| f.shares.excludes_reading_alone());
        excluded || self.rw_layouts(file)
    }

    /// Whether others than the client have the file open, delegated or laid out.
    fn others_use(&self, client: ClientId, file: FileKey) -> bool {
        self.is_open_by_others(client, file)
            || !self.delegation_holders(file, client).is_empty()
            || self.layouts_on(file).iter().any(|layout| layout.client != client)
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
        let reclaimable = |held: &Delegation| held.kind != DelegationKind::Directory;
        held.any(|no| self.delegations.get(*no).is_some_and(reclaimable))
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

    /// The other client that may have changes of the file which nobody else knows: the holder of a
    /// write delegation.
    pub fn delegated_writer(&self, file: FileKey, except: ClientId) -> Option<ClientId> {
        self.delegation_to_write(file, except).map(|(_, held)| held.client)
    }

    /// The change attribute that the holder of another client's write delegation says if it has
    /// nothing that is not here; `None` if there is none, or it is being taken back.
    pub fn unchanged_by_writer(&self, file: FileKey, except: ClientId) -> Option<u64> {
        let (no, held) = self.delegation_to_write(file, except)?;
        (!self.delegations.is_recalled(no)).then_some(held.change)
    }

    fn delegation_to_write(
        &self,
        file: FileKey,
        except: ClientId,
    ) -> Option<(StateNo, &Delegation)> {
        let others = self.delegations.on(file).filter(|(client, _)| *client != except);
        let mut held = others.filter_map(|(_, no)| Some((no, self.delegations.get(no)?)));
        held.find(|(_, held)| held.kind == DelegationKind::Write)
    }

    /// Whether the client holds a delegation to write on the file.
    pub fn is_delegated_to_write(&self, client: ClientId, file: FileKey) -> bool {
        let held = self.delegations.of(client, file);
        held.is_some_and(|held| held.kind == DelegationKind::Write)
    }

    /// Whether the client knows the size of a file better than anybody, and goes by what it knows
    /// itself (Linux `nfs_update_inode`): it is alone with the file, and not about to give it back.
    /// Not if it has opens beside the delegation: another mount of the same client does not know of
    /// that one, or the client claims its opens, to give it back.
    pub(crate) fn knows_size_best(&self, client: ClientId, file: FileKey) -> bool {
        let Some((no, held)) = self.delegations.numbered(client, file) else { return false };
        let alone = held.kind == DelegationKind::Write && !self.has_opens(client, file);
        alone && !self.delegations.is_recalled(no) && !held.returning && !held.disowned
    }

    /// The client begins to give its delegation back, if it has one.
    pub fn delegation_returning(&mut self, client: ClientId, file: FileKey) {
        if let Some(held) = self.delegations.of_mut(client, file) {
            held.returning = true;
        }
    }

    /// The client has changed the size of a file by this stateid. If it is that of a delegation, it
    /// has opened the file by itself: an OPEN that is to cut it does so.
    pub fn note_resized_by(&mut self, client: ClientId, stateid: &Stateid) {
        if let Ok((Kind::Delegation, no)) = self.find(client, stateid)
            && let Some(held) = self.delegations.by_no.get_mut(&no)
        {
            held.used_alone = true;
        }
    }

    /// What a client is told that asks with this stateid for a layout to write a small file with.
    ///
    /// As the holder of a delegation to write, it opened the file by itself, so that it was not
    /// told from where on a layout is worth it: it gets none. Not so of an empty file that it has
    /// opened only once, as far as is known: with that open it was told. Who asks with an open that
    /// is younger than the delegation recovers it, or claims it to give the file back, and gets
    /// none either; so with a lock. (An open of the same owner from before keeps its number, and
    /// what is reclaimed after a restart has a new one.)
    pub fn small_file(
        &mut self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
        asked: FileAsked,
    ) -> SmallFile {
        let Ok((kind, no)) = self.find(client, stateid) else { return SmallFile::Leaves };
        let held = self.delegations.of_mut(client, file);
        let Some(held) = held.filter(|held| held.kind == DelegationKind::Write) else {
            return SmallFile::Leaves;
        };
        let leaves = match kind {
            Kind::Delegation => asked.size == 0 && !held.used_alone,
            Kind::Open | Kind::Lock => no < held.granted_at,
            Kind::Layout => true,
        };
        if leaves { SmallFile::Leaves } else { held.in_vain.asked(asked) }
    }

    /// Whether the client may do such I/O by a delegation on the file.
    pub(crate) fn delegation_allows(
        &self,
        client: ClientId,
        file: FileKey,
        access: IoAccess,
    ) -> bool {
        self.delegations.of(client, file).is_some_and(|held| held.allows(access).is_some())
    }

    /// Whether it was granted with an open for that.
    pub(crate) fn delegation_opened(
        &self,
        client: ClientId,
        file: FileKey,
        access: IoAccess,
    ) -> bool {
        self.delegations.of(client, file).is_some_and(|held| held.allows(access) == Some(true))
    }

    /// Whether an open with these bits conflicts with others' delegations (§10.4.1).
    pub(crate) fn conflicts_with_delegation(
        &self,
        client: ClientId,
        file: FileKey,
        share_access: u32,
        share_deny: u32,
    ) -> bool {
        let mut others = self.delegations.on(file).filter(|(holder, _)| *holder != client);
        others.any(|(_, no)| {
            self.delegations.get(no).is_some_and(|held| held.conflicts(share_access, share_deny))
        })
    }

    /// Begins the recall of a delegation: its stateid for CB_RECALL. None if there is none or it
    /// is being recalled already.
    pub fn delegation_recall(
        &mut self,
        now: Millis,
        client: ClientId,
        file: FileKey,
        wish: RecallFor,
    ) -> Option<Stateid> {
        let (no, held) = self.delegations.numbered(client, file)?;
        let seqid = held.seqid;
        if self.delegations.is_recalled(no) {
            return None;
        }
        self.delegations
            .recalls
            .insert(no, Recalled { since: now, kept_at: None, answered: false });
        match wish {
            RecallFor::Change => self.delegations.contended.note(now, file),
            RecallFor::Reading => self.delegations.shared.note(now, file),
        }
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
        self.recall_answered(client, stateid);
    }

    /// Whether this delegation is still out.
    pub fn is_delegated(&self, client: ClientId, stateid: &Stateid) -> bool {
        matches!(self.find(client, stateid), Ok((Kind::Delegation, _)))
    }

    /// Delegations whose recall has been out for `limit_ms` or longer; but of who was kept from
    /// writing, since the last time that he was, or for `kept_ms_max` in all.
    pub fn delegations_overdue(
        &self,
        now: Millis,
        limit_ms: u64,
        kept_ms_max: u64,
    ) -> Vec<(ClientId, FileKey)> {
        let late = |recalled: &Recalled| recalled.is_overdue(now, limit_ms, kept_ms_max);
        let overdue = self.delegations.recalled().filter(|(recalled, _)| late(recalled));
        overdue.map(|(_, held)| (held.client, held.file)).collect()
    }

    /// Delegations to write that are being recalled.
    pub fn delegations_wanted_back(&self) -> Vec<(ClientId, FileKey)> {
        let held = self.delegations.recalled().map(|(_, held)| held);
        let to_write = held.filter(|held| held.kind == DelegationKind::Write);
        to_write.map(|held| (held.client, held.file)).collect()
    }

    /// The client is kept from writing what it has to before it returns its delegation, by no fault
    /// of its own; whether that is new.
    pub fn delegation_kept(&mut self, now: Millis, client: ClientId, file: FileKey) -> bool {
        let no = self.delegations.no_of(client, file);
        let recalled = no.and_then(|no| self.delegations.recalls.get_mut(&no));
        recalled.is_some_and(|recalled| recalled.kept_at.replace(now).is_none())
    }

    /// Takes a delegation away from a client that did not return it. It is remembered as revoked
    /// until FREE_STATEID (§8.2.4, §10.4.5), unless the client does not know it. The next one waits
    /// from now on: the recall may be long past. Whether nobody has the file open now, because it
    /// was the last.
    pub fn delegation_revoke(&mut self, now: Millis, client: ClientId, file: FileKey) -> bool {
        let Some(no) = self.delegations.no_of(client, file) else { return false };
        self.delegations.contended.note(now, file);
        self.note_late_host(now, client, no);
        let Some((delegation, last)) = self.remove_delegation(no) else { return false };
        if delegation.disowned {
            // It frees nothing: the next one that it keeps counts anew.
            let held = self.held(client);
            held.late &= !held.revoked.is_empty();
            return last;
        }
        let revoked = &mut self.held(client).revoked;
        let forgotten = revoked.len() >= REVOKED_MAX && revoked.pop_first().is_some();
        revoked.insert(no);
        if !forgotten {
            self.budget.take(client, REVOKED_BYTES);
        }
        last
    }

    /// The directory is gone: nobody can return a delegation on it any more.
    pub fn delegations_forget(&mut self, file: FileKey) {
        for (_, no) in self.delegations.on(file).collect::<Vec<_>>() {
            self.remove_delegation(no);
        }
    }

    /// A revoked delegation is freed.
    pub(crate) fn forget_revoked(&mut self, client: ClientId, no: StateNo) {
        let held = self.held(client);
        if held.revoked.remove(&no) {
            held.late &= !held.revoked.is_empty();
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

    /// DELEGRETURN. Whether nobody has the file open now.
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
    ) -> Result<bool, Refusal> {
        let no = self.find_kind(Kind::Delegation, client, stateid, file)?;
        if self.delegations.is_recalled(no) {
            self.callback_answered(client);
        }
        Ok(self.remove_delegation(no).is_some_and(|(_, last)| last))
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

    /// Removes a delegation, and a read layout that is not used any more; and whether nobody has
    /// the file open now.
    pub(crate) fn remove_delegation(&mut self, no: StateNo) -> Option<(Delegation, bool)> {
        let delegation = self.delegations.remove(no)?;
        let (client, file) = (delegation.client, delegation.file);
        self.budget.give_back(client, DELEGATION_BYTES);
        let held = self.held(client);
        held.delegations.remove(&no);
        held.silent &= !held.delegations.is_empty();
        self.return_on_close(client, file);
        let last = delegation.kind != DelegationKind::Directory && !self.is_open(file);
        Some((delegation, last))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
