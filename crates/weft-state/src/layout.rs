//! Layouts: one stateid for every (client, file), whole-file layouts only. RFC 8881 §12.5,
//! §18.42-§18.44, §20.3.
//!
//! The `other` of a layout stateid is kept until everything is returned; its seqid grows with
//! every LAYOUTGET, LAYOUTRETURN and recall, since Linux orders those by it.
//!
//! All layouts are granted to be returned before the file is closed (`logr_return_on_close`): a
//! client that has a file neither open nor delegated holds no layout on it that is only for
//! reading.

use std::collections::BTreeMap;

use weft_nfs::{ClientId, IoMode, Seqid, Stateid};

use crate::ids::{FileKey, Millis};
use crate::limits::RETURNED_LAYOUTS_MAX;
use crate::memory::{Want, map_entry};
use crate::open::IoAccess;
use crate::refusal::{Reason, Refusal};
use crate::state::State;
use crate::stateid::{Kind, StateNo, is_after};

/// What a client holds on a file.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) client: ClientId,
    pub(crate) file: FileKey,
    pub(crate) seqid: Seqid,
    /// The seqid of the last grant.
    granted: Seqid,
    read: bool,
    pub(crate) rw: bool,
    /// Whether it ever was read-write, so that a LAYOUTCOMMIT can be outstanding.
    was_rw: bool,
    /// The last byte that the client said it had written, when that was news.
    written_to: Option<u64>,
}

/// All layouts, at most one of a client on a file, and which of them are being recalled.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    by_no: BTreeMap<StateNo, Layout>,
    by_holder: BTreeMap<(FileKey, ClientId), StateNo>,
    /// Layouts being recalled, and since when.
    recalls: BTreeMap<StateNo, Millis>,
}

/// Bytes that a metadata server remembers at most of a file that has a layout out, beside this.
pub const FILE_RECORD_BYTES: usize = 720;
/// Bytes that a layout takes, as if it were the only one of its file; of which as much again may be
/// remembered for one without.
pub(crate) const LAYOUT_BYTES: usize = 2 * FILE_RECORD_BYTES
    + map_entry::<StateNo, Layout>()
    + map_entry::<(FileKey, ClientId), StateNo>()
    + map_entry::<StateNo, Millis>()
    + map_entry::<StateNo, ()>();

impl Layouts {
    pub(crate) fn get(&self, no: StateNo) -> Option<&Layout> {
        self.by_no.get(&no)
    }

    fn no_of(&self, client: ClientId, file: FileKey) -> Option<StateNo> {
        self.by_holder.get(&(file, client)).copied()
    }

    /// Every layout on a file.
    fn on(&self, file: FileKey) -> impl Iterator<Item = StateNo> {
        let from = (file, ClientId(0));
        self.by_holder.range(from..).take_while(move |((f, _), _)| *f == file).map(|(_, no)| *no)
    }

    fn insert(&mut self, no: StateNo, layout: Layout) {
        self.by_holder.insert((layout.file, layout.client), no);
        self.by_no.insert(no, layout);
    }

    fn remove(&mut self, no: StateNo) -> Option<Layout> {
        let layout = self.by_no.remove(&no)?;
        self.recalls.remove(&no);
        self.by_holder.remove(&(layout.file, layout.client));
        Some(layout)
    }

    fn is_recalled(&self, no: StateNo) -> bool {
        self.recalls.contains_key(&no)
    }
}

/// Proof that a LAYOUTGET may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutHolder {
    client: ClientId,
    file: FileKey,
    /// Whether an open to read (or a delegation) stands behind it; otherwise what the layout leads
    /// to is to be read only if file permissions allow it.
    pub reads: bool,
}

/// What a LAYOUTRETURN, or the end of a recall, has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutReturned {
    /// The stateid of what is left, if anything is.
    pub remaining: Option<Stateid>,
    /// Whether a read-write layout was given back by this.
    pub had_rw: bool,
    /// Whether a recall that was out is answered by this.
    pub finished_recall: bool,
}

/// A layout that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutInfo {
    /// The client that holds it.
    pub client: ClientId,
    /// Its current stateid.
    pub stateid: Stateid,
    /// Whether it is read-write.
    pub rw: bool,
    /// When its recall began, if it is being recalled.
    pub recalled_at: Option<Millis>,
}

/// A layout that is to be taken away. The stateid says which: its holder may return it meanwhile,
/// and be granted another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    /// The client that holds it.
    pub client: ClientId,
    /// On which file.
    pub file: FileKey,
    /// Stateid of the layout.
    pub stateid: Stateid,
    /// Whether it is read-write: then it is to be fenced before [`State::layout_revoke`].
    pub rw: bool,
}

impl State {
    /// Checks a LAYOUTGET. The stateid is that of an open, a lock, a delegation, or the layout
    /// itself with any seqid given out so far (several LAYOUTGETs run in parallel, §12.5.3). While
    /// a recall is out nothing is granted, else clients and server chase each other.
    ///
    /// [`State::layout_granted`] must follow in the same critical section, or not at all.
    ///
    /// # Errors
    /// BADIOMODE, OPENMODE, RECALLCONFLICT, LAYOUTUNAVAILABLE beyond a limit, BAD_STATEID,
    /// OLD_STATEID.
    ///
    /// Source: RFC 8881 §18.43.3, §12.5.2, §12.5.3.
    pub fn layout_check(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
        iomode: IoMode,
    ) -> Result<LayoutHolder, Refusal> {
        let access = match iomode {
            IoMode::READ => IoAccess::Read,
            IoMode::RW => IoAccess::Write,
            _ => return Err(Reason::IoModeInvalid.into()),
        };
        let reads = match self.parse(stateid)? {
            (Kind::Layout, _) => {
                let layout = self.find_layout(client, file, stateid)?;
                if stateid.seqid == Seqid(0) {
                    return Err(Reason::StateidZeroSeqid.into());
                }
                let has_rw = layout.rw || self.has_open(client, file, IoAccess::Write);
                if access == IoAccess::Write && !has_rw {
                    return Err(Reason::OpenMode.into());
                }
                self.reads(client, file)
            }
            (Kind::Open | Kind::Lock | Kind::Delegation, _) => {
                let (kind, no) = self.find_on(client, stateid, file)?;
                self.check_open_mode(kind, no, access)?;
                self.check_open_mode(kind, no, IoAccess::Read)?
            }
        };
        let existing = self.layouts.no_of(client, file);
        if existing.is_some_and(|no| self.layouts.is_recalled(no)) {
            return Err(Reason::RecallOut.into());
        }
        let has_room = || self.budget.has_room(client, LAYOUT_BYTES, Want::Extra);
        if existing.is_none() && !has_room() {
            return Err(Reason::TooManyLayouts.into());
        }
        Ok(LayoutHolder { client, file, reads })
    }

    /// Records a granted layout and gives its stateid.
    pub fn layout_granted(&mut self, holder: &LayoutHolder, iomode: IoMode) -> Stateid {
        let existing = self.layouts.no_of(holder.client, holder.file);
        let no = existing.unwrap_or_else(|| self.add_layout(holder));
        let layout = self.layouts.by_no.get_mut(&no);
        let seqid = layout.map_or(Seqid(1), |l| {
            l.seqid = l.seqid.next();
            l.granted = l.seqid;
            l.read |= iomode == IoMode::READ;
            l.rw |= iomode == IoMode::RW;
            l.was_rw |= l.rw;
            l.seqid
        });
        self.stateid(Kind::Layout, no, seqid)
    }

    fn add_layout(&mut self, holder: &LayoutHolder) -> StateNo {
        let no = self.next_no();
        let layout = Layout {
            client: holder.client,
            file: holder.file,
            seqid: Seqid(0),
            granted: Seqid(0),
            read: false,
            rw: false,
            was_rw: false,
            written_to: None,
        };
        self.budget.take(holder.client, LAYOUT_BYTES);
        self.layouts.insert(no, layout);
        self.held(holder.client).layouts.insert(no);
        no
    }

    /// Checks a LAYOUTCOMMIT. Any seqid given out so far is accepted: Linux before 7.2 repeats an
    /// OLD_STATEID for ever. So is the stateid of a read-write layout that was returned a little
    /// while ago, because a LAYOUTCOMMIT can be overtaken by its LAYOUTRETURN.
    ///
    /// # Errors
    /// BADIOMODE if the layout never was read-write, BAD_STATEID.
    ///
    /// Source: RFC 8881 §18.42.3; Linux `nfs4_layoutcommit_done`.
    pub fn layout_commit_check(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<(), Refusal> {
        match self.find_reported(client, file, stateid)? {
            Some(layout) if !layout.was_rw => Err(Reason::IoModeInvalid.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// A client that may write by a layout says up to which byte it did. Whether that is news: not
    /// what it said the last time that it was.
    pub fn note_written(&mut self, client: ClientId, file: FileKey, last: u64) -> bool {
        let Some(no) = self.layouts.no_of(client, file) else { return false };
        let layout = self.layouts.by_no.get_mut(&no).filter(|layout| layout.rw);
        layout.is_some_and(|layout| {
            let is_news = layout.written_to.take() != Some(last);
            layout.written_to = is_news.then_some(last);
            is_news
        })
    }

    /// Checks a LAYOUTERROR or LAYOUTSTATS: the layout is held, whatever for, or was returned a
    /// little while ago.
    ///
    /// # Errors
    /// BAD_STATEID.
    ///
    /// Source: RFC 7862 §15.6.3, §15.7.3.
    pub fn layout_report_check(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<(), Refusal> {
        self.find_reported(client, file, stateid)?;
        Ok(())
    }

    /// LAYOUTRETURN of a whole file. (A server asked to take back part of a range returns nothing
    /// here: its layouts have no parts.) Something granted after the seqid the client knew of is
    /// not returned by it: OLD_STATEID. A layout that is returned already is so again. Once the
    /// client has closed the file, the read part goes with the read-write one.
    ///
    /// # Errors
    /// BADIOMODE, OLD_STATEID, BAD_STATEID.
    ///
    /// Source: RFC 8881 §18.44.3, §12.5.3.
    pub fn layout_return(
        &mut self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
        iomode: IoMode,
    ) -> Result<LayoutReturned, Refusal> {
        if ![IoMode::READ, IoMode::RW, IoMode::ANY].contains(&iomode) {
            return Err(Reason::IoModeInvalid.into());
        }
        if self.was_returned(client, file, stateid) {
            return Ok(LayoutReturned { remaining: None, had_rw: false, finished_recall: false });
        }
        let layout = self.find_layout(client, file, stateid)?;
        if stateid.seqid == Seqid(0) {
            return Err(Reason::StateidZeroSeqid.into());
        }
        if is_after(layout.granted, stateid.seqid) {
            return Err(Reason::StateidOld.into());
        }
        let (_, no) = self.parse(stateid)?;
        let is_used = self.is_used(client, file);
        let layout = self.layouts.by_no.get_mut(&no).ok_or(Reason::StateidUnknown)?;
        let had_rw = layout.rw && iomode != IoMode::READ;
        layout.rw &= !had_rw;
        layout.read &= iomode == IoMode::RW && is_used;
        layout.seqid = layout.seqid.next();
        if layout.read || layout.rw {
            let seqid = layout.seqid;
            let remaining = Some(self.stateid(Kind::Layout, no, seqid));
            return Ok(LayoutReturned { remaining, had_rw, finished_recall: false });
        }
        let finished_recall = self.layouts.is_recalled(no);
        self.give_back(no);
        Ok(LayoutReturned { remaining: None, had_rw, finished_recall })
    }

    /// LAYOUTRETURN of everything in a volume, or of everything: the files, and whether each was
    /// held read-write.
    pub fn layout_return_all(
        &mut self,
        client: ClientId,
        volume: Option<u32>,
    ) -> Vec<(FileKey, bool)> {
        let held = self.held_by_client.get(&client);
        let all: Vec<StateNo> = held.into_iter().flat_map(|h| &h.layouts).copied().collect();
        let in_volume = |no: &StateNo| {
            let file = self.layouts.get(*no).map(|l| l.file);
            volume.is_none() || file.map(|f| f.volume) == volume
        };
        let returned: Vec<StateNo> = all.into_iter().filter(in_volume).collect();
        returned
            .into_iter()
            .filter_map(|no| self.give_back(no))
            .map(|layout| (layout.file, layout.rw))
            .collect()
    }

    /// An open or delegation of the client on the file is gone. With the last of them its layout
    /// counts as returned if it is only for reading: Linux may leave that behind (`pnfs_roc` passes
    /// over what reads still use), and takes BAD_STATEID for returned when it brings it later.
    /// That does no harm: a handle to read works on the data servers until the file is fenced,
    /// layout or not. A read-write one stays until it is returned or taken away, because its holder
    /// may still write.
    ///
    /// Source: RFC 8881 §18.43.3.
    pub(crate) fn return_on_close(&mut self, client: ClientId, file: FileKey) {
        let Some(no) = self.layouts.no_of(client, file) else { return };
        let is_read_only = self.layouts.get(no).is_some_and(|l| !l.rw);
        if is_read_only && !self.is_used(client, file) {
            self.give_back(no);
        }
    }

    /// Whether the client has the file open, or may open it by itself.
    fn is_used(&self, client: ClientId, file: FileKey) -> bool {
        self.has_open(client, file, IoAccess::Read)
    }

    /// Forgets all layouts on a file that is gone, and with them their recalls.
    pub fn layouts_forget(&mut self, file: FileKey) {
        let gone: Vec<StateNo> = self.layouts.on(file).collect();
        for no in gone {
            self.remove_layout(no);
        }
    }

    /// The layouts of a client whose lease has passed, all to be taken away. Until they are, it is
    /// granted nothing on their files, as in a recall: it may be back any time.
    pub fn layouts_expire(&mut self, now: Millis, client: ClientId) -> Vec<Overdue> {
        let held: Vec<StateNo> = self
            .held_by_client
            .get(&client)
            .into_iter()
            .flat_map(|h| &h.layouts)
            .copied()
            .collect();
        for no in &held {
            self.layouts.recalls.entry(*no).or_insert(now);
        }
        held.into_iter().filter_map(|no| self.overdue(no)).collect()
    }

    fn overdue(&self, no: StateNo) -> Option<Overdue> {
        let l = self.layouts.get(no)?;
        let stateid = self.stateid(Kind::Layout, no, l.seqid);
        Some(Overdue { client: l.client, file: l.file, stateid, rw: l.rw })
    }

    /// Every layout on a file.
    pub fn layouts_on(&self, file: FileKey) -> Vec<LayoutInfo> {
        let info = |no: StateNo| {
            let l = self.layouts.get(no)?;
            Some(LayoutInfo {
                client: l.client,
                stateid: self.stateid(Kind::Layout, no, l.seqid),
                rw: l.rw,
                recalled_at: self.layouts.recalls.get(&no).copied(),
            })
        };
        self.layouts.on(file).filter_map(info).collect()
    }

    /// Whether the client holds a layout on a file.
    pub(crate) fn has_layout(&self, client: ClientId, file: FileKey) -> bool {
        self.layouts.no_of(client, file).is_some()
    }

    /// Whether the client holds a read-write layout on a file.
    pub(crate) fn has_rw_layout(&self, client: ClientId, file: FileKey) -> bool {
        let held = self.layouts.no_of(client, file).and_then(|no| self.layouts.get(no));
        held.is_some_and(|held| held.rw)
    }

    /// Whether any client holds a read-write layout on a file.
    pub fn rw_layouts(&self, file: FileKey) -> bool {
        self.layouts_on(file).iter().any(|l| l.rw)
    }

    /// Begins the recall of a client's layout on a file: the stateid for CB_LAYOUTRECALL, its
    /// seqid one above the last. None if it holds none or it is being recalled already (see
    /// [`State::recall_stateid`] to send that recall again).
    ///
    /// Source: RFC 8881 §12.5.5.2, §20.3.3.
    pub fn recall_begin(
        &mut self,
        now: Millis,
        client: ClientId,
        file: FileKey,
    ) -> Option<Stateid> {
        let no = self.layouts.no_of(client, file)?;
        if self.layouts.is_recalled(no) {
            return None;
        }
        let layout = self.layouts.by_no.get_mut(&no)?;
        layout.seqid = layout.seqid.next();
        let seqid = layout.seqid;
        self.layouts.recalls.insert(no, now);
        Some(self.stateid(Kind::Layout, no, seqid))
    }

    /// The stateid to send a recall that is out again: that of the layout now.
    pub fn recall_stateid(&self, client: ClientId, file: FileKey) -> Option<Stateid> {
        let no = self.layouts.no_of(client, file)?;
        let layout = self.layouts.get(no).filter(|_| self.layouts.is_recalled(no))?;
        Some(self.stateid(Kind::Layout, no, layout.seqid))
    }

    /// The client answered a recall with NOMATCHING_LAYOUT: everything is returned, no
    /// LAYOUTRETURN follows. Says whether it was held read-write.
    pub fn recall_done(&mut self, client: ClientId, file: FileKey) -> bool {
        let no = self.layouts.no_of(client, file);
        no.and_then(|no| self.give_back(no)).is_some_and(|l| l.rw)
    }

    /// Layouts whose recall has been out for `limit_ms` or longer.
    pub fn recalls_overdue(&self, now: Millis, limit_ms: u64) -> Vec<Overdue> {
        let overdue = self.layouts.recalls.iter().filter(|(_, at)| now.since(**at) >= limit_ms);
        overdue.filter_map(|(no, _)| self.overdue(*no)).collect()
    }

    /// Takes a layout away, unless its holder has returned it since; whether it did. Its stateid is
    /// unknown from now on, to LAYOUTCOMMIT too.
    pub fn layout_revoke(&mut self, overdue: &Overdue) -> bool {
        let Ok((Kind::Layout, no)) = self.parse(&overdue.stateid) else { return false };
        self.remove_layout(no).is_some()
    }

    /// Finds a layout; any seqid given out so far will do, and 0.
    fn find_layout(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<&Layout, Reason> {
        let (kind, no) = self.parse(stateid)?;
        if kind != Kind::Layout {
            return Err(Reason::StateidKind);
        }
        let layout = self.layouts.get(no).ok_or(Reason::StateidUnknown)?;
        if layout.client != client {
            return Err(Reason::StateidForeign);
        }
        if layout.file != file {
            return Err(Reason::StateidOfOtherFile);
        }
        if stateid.seqid != Seqid(0) && is_after(stateid.seqid, layout.seqid) {
            return Err(Reason::StateidFuture);
        }
        Ok(layout)
    }

    /// Finds the layout that a client reports about; none if it was returned a little while ago.
    fn find_reported(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<Option<&Layout>, Reason> {
        if self.was_returned(client, file, stateid) {
            return Ok(None);
        }
        self.find_layout(client, file, stateid).map(Some)
    }

    fn was_returned(&self, client: ClientId, file: FileKey, stateid: &Stateid) -> bool {
        let Ok((Kind::Layout, no)) = self.parse(stateid) else { return false };
        self.held_by_client.get(&client).is_some_and(|h| h.returned.contains(&(no, file)))
    }

    /// Removes a layout that its client gave back, and remembers it if it ever was read-write.
    fn give_back(&mut self, no: StateNo) -> Option<Layout> {
        let layout = self.remove_layout(no)?;
        if layout.was_rw {
            let returned = &mut self.held(layout.client).returned;
            if returned.len() >= RETURNED_LAYOUTS_MAX {
                returned.pop_front();
            }
            returned.push_back((no, layout.file));
        }
        Some(layout)
    }

    pub(crate) fn remove_layout(&mut self, no: StateNo) -> Option<Layout> {
        let layout = self.layouts.remove(no)?;
        self.budget.give_back(layout.client, LAYOUT_BYTES);
        self.held(layout.client).layouts.remove(&no);
        Some(layout)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
