//! What this client was delegated (RFC 8881 §10.2, §10.4): as long as it holds a delegation of a
//! file, no other client changes that file, and what is known of it stays true. A table of what is
//! held, without I/O, clock or lock: whoever uses it sends what it says is to be sent.
//!
//! | event | unknown | held | returning |
//! | --- | --- | --- | --- |
//! | `granted` | held; gone, if it was recalled before | held | returning |
//! | `recalled` | to be returned | returning | returning |
//! | `surplus`, `all_but` | – | returning, the longest unused first | – |
//! | `returned` | – | – | unknown |
//! | the server has forgotten us | – | unknown, when it is next looked at | – |
//!
//! - **A recall may overtake the grant** (§2.10.6.3), or an answer that makes more of one that is
//!   held: what is recalled is given back at once, known or not (who asked for it may have given
//!   up), and remembered until all OPENs that are under way then are answered: what they grant of
//!   it is gone.
//! - **A return may meet such an answer**: the server has made more of it by then, and does not
//!   take the older stateid (OLD_STATEID, §8.2.2). It is returned by the newer one once that is
//!   here; if the answer comes after that, it is a grant like any other.
//! - **Opens that no server knows of** (§10.4.1) are counted as long as they live: they rely on the
//!   delegation, so that it is not given back unasked. A user may have such an open once the server
//!   has let him open the file to read it, and as long as nobody here changes who may.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_nfs::{FileHandle, Stateid};

use crate::limits;

/// What a delegation says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No other client writes the file.
    Read,
    /// No other client has it open.
    Write,
}

/// A delegation as an OPEN gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) stateid: Stateid,
    pub(crate) kind: Kind,
    /// It is being recalled already.
    pub(crate) is_recalled: bool,
    /// Which OPEN it was ([`Delegations::asks`]).
    pub(crate) ask: Ask,
    /// How often the server had forgotten us before the OPEN was sent.
    pub(crate) losses: u64,
    /// When it is noted, by the clock of whoever does.
    pub(crate) since: u64,
    /// The file's change attribute then.
    pub(crate) change: u64,
}

/// A change of a file's attributes by this client, while it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeNo(u64);

/// An OPEN under way, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask(u64);

/// What became of a grant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It is held from now on.
    New,
    /// It was held before, and may be more now.
    Held,
    /// It is to be returned.
    Returns(Return),
    /// Somebody else returns it, or has.
    Gone,
}

/// A delegation that the caller has to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) fh: FileHandle,
    pub(crate) stateid: Stateid,
    /// Whether this client may have changes of the file that no server knows of.
    pub(crate) is_to_write: bool,
}

/// What a recall concerns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recalled {
    /// It is to be returned.
    Returns(Return),
    /// Somebody returns it, or has.
    Returning,
}

/// The delegations of a client. `C` is a user, `T` what the server told of a file with an open.
#[derive(Debug)]
pub(crate) struct Delegations<C, T> {
    known: HashMap<FileHandle, Known<C, T>>,
    /// Those that are held, by when they were last used: to read, and to write.
    to_read: BTreeMap<u64, FileHandle>,
    to_write: BTreeMap<u64, FileHandle>,
    uses: u64,
    changes: u64,
    /// OPENs under way, and how many there ever were.
    asking: BTreeSet<Ask>,
    asked: u64,
    /// Recalled while OPENs were under way, of which that was the last one.
    recalled: Vec<([u8; 12], Ask)>,
    /// More were recalled than are remembered while these were under way: what they grant goes
    /// back.
    distrusted: Ask,
}

#[derive(Debug)]
struct Known<C, T> {
    stateid: Stateid,
    kind: Kind,
    losses: u64,
    since: u64,
    /// What the change attribute was when it was granted, whatever became of it since.
    change: u64,
    /// When it was last used; none while it is being returned.
    used: Option<u64>,
    /// What was asked for before this is of before the grant, or of before a change of attributes.
    believed_from: u64,
    told: Option<T>,
    /// Changes of attributes by this client that are under way, and the one that is alone since it
    /// began.
    changing: Vec<ChangeNo>,
    alone: Option<ChangeNo>,
    /// Who may open the file for reading.
    readers: Vec<C>,
    /// Opens that the server does not know of.
    local_opens: usize,
}

impl<C, T> Default for Delegations<C, T> {
    fn default() -> Self {
        let (to_read, to_write) = (BTreeMap::new(), BTreeMap::new());
        let (asking, recalled) = (BTreeSet::new(), Vec::new());
        let (uses, changes, asked, distrusted) = (0, 0, 0, Ask(0));
        let known = HashMap::new();
        Delegations { known, to_read, to_write, uses, changes, asking, asked, recalled, distrusted }
    }
}

impl<C: PartialEq, T: Clone> Delegations<C, T> {
    /// An OPEN that may be given a delegation leaves.
    pub(crate) fn asks(&mut self) -> Ask {
        self.asked += 1;
        self.asking.insert(Ask(self.asked));
        Ask(self.asked)
    }

    /// Such an OPEN was answered, and its grant told, or never will be.
    pub(crate) fn answered(&mut self, ask: Ask) {
        self.asking.remove(&ask);
        match self.asking.first() {
            Some(first) => self.recalled.retain(|(_, last)| last >= first),
            None => self.recalled.clear(),
        }
    }

    /// An OPEN of this file gave a delegation.
    pub(crate) fn granted(&mut self, fh: &FileHandle, grant: &Grant) -> Granted {
        if self.recalled.iter().any(|(other, _)| *other == grant.stateid.other) {
            return Granted::Gone;
        }
        let used = self.next_use();
        let mut held = Granted::Held;
        match self.known.get_mut(fh) {
            Some(known) if known.stateid.other == grant.stateid.other => {
                known.stateid = grant.stateid;
                let Some(before) = known.used.replace(used) else {
                    known.used = None;
                    return Granted::Gone;
                };
                let kind = std::mem::replace(&mut known.kind, grant.kind);
                self.held_of(kind).remove(&before);
                self.held_of(grant.kind).insert(used, fh.clone());
            }
            // One that was given back, or is on its way, gives way to the new one.
            _ => {
                held = Granted::New;
                self.remove(fh);
                let known = Known {
                    stateid: grant.stateid,
                    kind: grant.kind,
                    losses: grant.losses,
                    since: grant.since,
                    change: grant.change,
                    used: Some(used),
                    believed_from: grant.since,
                    told: None,
                    changing: Vec::new(),
                    alone: None,
                    readers: Vec::new(),
                    local_opens: 0,
                };
                self.known.insert(fh.clone(), known);
                self.held_of(grant.kind).insert(used, fh.clone());
            }
        }
        let goes_back = grant.is_recalled || grant.ask <= self.distrusted;
        match goes_back.then(|| self.begin_return(fh)).flatten() {
            Some(returns) => Granted::Returns(returns),
            None => held,
        }
    }

    /// The server wants one back (§20.2).
    pub(crate) fn recalled(&mut self, fh: &FileHandle, stateid: &Stateid) -> Recalled {
        let other = stateid.other;
        let is_again = self.recalled.iter().any(|(known, _)| *known == other);
        self.remember_recall(other);
        match self.known.get_mut(fh).filter(|known| known.stateid.other == other) {
            Some(known) => {
                // As the server has it now.
                known.stateid = *stateid;
                self.begin_return(fh).map_or(Recalled::Returning, Recalled::Returns)
            }
            None if is_again => Recalled::Returning,
            None => {
                let returned = Return { fh: fh.clone(), stateid: *stateid, is_to_write: true };
                Recalled::Returns(returned)
            }
        }
    }

    /// For as long as the OPENs that are under way now.
    fn remember_recall(&mut self, other: [u8; 12]) {
        let Some(last) = self.asking.last().copied() else { return };
        if self.recalled.len() < limits::RECALLS_REMEMBERED {
            self.recalled.push((other, last));
        } else {
            self.distrusted = last;
        }
    }

    /// The server did not take that stateid, since it has made more of the delegation: the newer
    /// one, if it is here.
    pub(crate) fn newer(&self, old: &Return) -> Option<Return> {
        let known = self.known.get(&old.fh)?;
        let Stateid { other, seqid } = known.stateid;
        let is_newer = other == old.stateid.other && seqid != old.stateid.seqid;
        (is_newer && known.used.is_none()).then(|| Return { stateid: known.stateid, ..old.clone() })
    }

    /// Whether nobody else changes this file now: one is held since the server forgot us so often,
    /// and not wanted back. Of what kind it is, and since when it is known.
    pub(crate) fn held(&mut self, fh: &FileHandle, losses: u64) -> Option<(Kind, u64)> {
        let known = self.known.get(fh)?;
        let used = known.used?;
        if known.losses != losses {
            self.remove(fh);
            return None;
        }
        let now = self.next_use();
        let known = self.known.get_mut(fh)?;
        known.used = Some(now);
        let held = (known.kind, known.since);
        let order = self.held_of(held.0);
        if let Some(fh) = order.remove(&used) {
            order.insert(now, fh);
        }
        Some(held)
    }

    /// What the change attribute of a file was when it was delegated to write: what the holder says
    /// as long as it has nothing that servers do not know (§10.4.3).
    pub(crate) fn writers_change(&self, fh: &FileHandle) -> Option<u64> {
        let known = self.known.get(fh).filter(|known| known.used.is_some())?;
        (known.kind == Kind::Write).then_some(known.change)
    }

    /// The server let a user open a file that is delegated, to read it or not, and told this of it:
    /// asked then, or with the grant.
    pub(crate) fn opened(
        &mut self,
        fh: &FileHandle,
        asked_at: u64,
        (reader, told): (Option<C>, T),
    ) {
        let known = self.known.get_mut(fh).filter(|known| asked_at >= known.believed_from);
        let Some(known) = known else { return };
        known.told = Some(told);
        let Some(reader) = reader.filter(|reader| !known.readers.contains(reader)) else { return };
        if known.readers.len() >= limits::DELEGATION_READERS_MAX {
            known.readers.remove(0);
        }
        known.readers.push(reader);
    }

    /// What a user may open a file by that wants to read it, without asking: the delegation, since
    /// when it is known, and what was told of the file last.
    pub(crate) fn opens(
        &mut self,
        fh: &FileHandle,
        losses: u64,
        reader: &C,
    ) -> Option<(Stateid, u64, T)> {
        let (_, since) = self.held(fh, losses)?;
        let known = self.known.get(fh).filter(|known| known.readers.contains(reader))?;
        Some((known.stateid, since, known.told.clone()?))
    }

    /// What was told last of a file that nobody else changes now.
    pub(crate) fn told(&mut self, fh: &FileHandle, losses: u64) -> Option<T> {
        self.held(fh, losses)?;
        self.known.get(fh)?.told.clone()
    }

    /// Such an open is there now; false if the delegation is not held any more.
    pub(crate) fn join(&mut self, fh: &FileHandle, stateid: &Stateid) -> bool {
        let is_it =
            |known: &&mut Known<C, T>| known.used.is_some() && known.stateid.other == stateid.other;
        let Some(known) = self.known.get_mut(fh).filter(is_it) else { return false };
        known.local_opens += 1;
        true
    }

    /// It is gone, or the server knows of it.
    pub(crate) fn leave(&mut self, fh: &FileHandle) {
        if let Some(known) = self.known.get_mut(fh) {
            known.local_opens = known.local_opens.saturating_sub(1);
        }
    }

    /// This client begins to change attributes of a file.
    pub(crate) fn changes_attributes(&mut self, fh: &FileHandle) -> ChangeNo {
        self.changes += 1;
        let number = ChangeNo(self.changes);
        if let Some(known) = self.known.get_mut(fh) {
            known.alone = known.changing.is_empty().then_some(number);
            known.changing.push(number);
        }
        number
    }

    /// That has ended, or it is not known how, and the server told this with it: that counts unless
    /// another change was under way meanwhile, or had ended when it was asked for, which it may
    /// lack. Who may open the file has to be asked again, after that.
    pub(crate) fn attributes_changed(
        &mut self,
        fh: &FileHandle,
        now: u64,
        (number, told): (ChangeNo, Option<(u64, T)>),
    ) {
        let Some(known) = self.known.get_mut(fh) else { return };
        known.changing.retain(|other| *other != number);
        let before = known.believed_from;
        known.believed_from = before.max(now);
        let told = told.filter(|(asked_at, _)| *asked_at >= before);
        known.told = told.filter(|_| known.alone == Some(number)).map(|(_, told)| told);
        known.readers.clear();
    }

    /// If there are more than may be: a part of them, those that were not used for longest, to be
    /// returned.
    pub(crate) fn surplus(&mut self) -> Vec<Return> {
        let unused = |known: &Known<C, T>| known.local_opens == 0;
        let is_unused = |fh: &&FileHandle| self.known.get(*fh).is_some_and(unused);
        let mut oldest = Vec::new();
        for (held, most) in [
            (&self.to_read, limits::DELEGATIONS_MAX),
            (&self.to_write, limits::WRITE_DELEGATIONS_MAX),
        ] {
            if held.len() > most {
                oldest.extend(
                    held.values()
                        .filter(is_unused)
                        .take(most / limits::DELEGATIONS_RETURNED_SHARE)
                        .cloned(),
                );
            }
        }
        oldest.iter().filter_map(|fh| self.begin_return(fh)).collect()
    }

    /// All but so many, those that were not used for longest first, to be returned.
    pub(crate) fn all_but(&mut self, kept: usize) -> Vec<Return> {
        let many = self.count().saturating_sub(kept);
        let mut oldest: Vec<_> = self.to_read.iter().chain(&self.to_write).collect();
        oldest.sort_unstable_by_key(|(used, _)| **used);
        let oldest: Vec<_> = oldest.into_iter().take(many).map(|(_, fh)| fh.clone()).collect();
        oldest.iter().filter_map(|fh| self.begin_return(fh)).collect()
    }

    /// That of a file that nobody has open here, to be returned: its last name goes, as far as is
    /// known. None if one is held that others may still have use of.
    pub(crate) fn of_last_name(
        &mut self,
        fh: &FileHandle,
        is_last: impl FnOnce(&T) -> bool,
    ) -> Option<Return> {
        let known = self.known.get(fh).filter(|known| known.local_opens == 0)?;
        if known.told.as_ref().is_some_and(is_last) { self.begin_return(fh) } else { None }
    }

    /// That of a file, to be returned.
    pub(crate) fn of_file(&mut self, fh: &FileHandle) -> Option<Return> {
        self.begin_return(fh)
    }

    /// One was returned, or the server does not know it.
    pub(crate) fn returned(&mut self, returned: &Return) {
        let known = self.known.get(&returned.fh);
        if known.is_some_and(|known| known.stateid.other == returned.stateid.other) {
            self.remove(&returned.fh);
        }
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.to_read.len() + self.to_write.len()
    }

    fn begin_return(&mut self, fh: &FileHandle) -> Option<Return> {
        let known = self.known.get_mut(fh)?;
        let (used, kind, stateid) = (known.used.take()?, known.kind, known.stateid);
        self.held_of(kind).remove(&used);
        Some(Return { fh: fh.clone(), stateid, is_to_write: kind == Kind::Write })
    }

    fn remove(&mut self, fh: &FileHandle) {
        let Some(known) = self.known.remove(fh) else { return };
        if let Some(used) = known.used {
            self.held_of(known.kind).remove(&used);
        }
    }

    fn held_of(&mut self, kind: Kind) -> &mut BTreeMap<u64, FileHandle> {
        match kind {
            Kind::Read => &mut self.to_read,
            Kind::Write => &mut self.to_write,
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests;
