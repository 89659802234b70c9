//! What the metadata server remembers of files beside the volume, behind one lock: truncations,
//! indirect writes and new write layouts exclude each other; handles that must stop working are
//! known until they have; and conclusions from what data servers said hold only if nothing
//! happened meanwhile.
//!
//! Nothing here is durable. After a restart the volume's `unsettled` tells which files may have
//! been given out for writing: their handles are suspect from the first time they are met.

mod indirect_writes;
mod record;
mod size_authority;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod size_model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard},
};

use weft_nfs::{ClientId, Verifier};
use weft_state::FILE_RECORD_BYTES;
use weft_store::{
    types::{Inode, InodeNo, Timestamp},
    volume::Settle,
};

use crate::data_servers::DataServerAttrs;
pub(crate) use indirect_writes::Committing;
use record::FileRecord;
pub(crate) use record::{FenceCause, Marks, Stale};
pub(crate) use size_authority::SizeAuthority;

/// Files remembered before idle ones are forgotten: when there are so many, and again when there
/// are twice as many as were not idle then. What that takes is counted with their layouts.
const FILES_REMEMBERED: usize = 65_536;
// A hash map is at least 7/16 full while it grows; and who was given handles is in a node of 160
// bytes, where there is one client.
const _: () = assert!(size_of::<(InodeNo, FileRecord)>() * 16 / 7 + 160 <= FILE_RECORD_BYTES);

/// The files met since the start. Methods that take an inode meet it.
#[derive(Debug)]
pub(crate) struct Table {
    records: HashMap<InodeNo, FileRecord>,
    /// Those whose older handles may still work.
    stale: BTreeSet<InodeNo>,
    now: u64,
    /// Marks of every file without a record.
    floor: u64,
    purge_at: usize,
}

impl Table {
    fn new(purge_at: usize) -> Self {
        Table { records: HashMap::new(), stale: BTreeSet::new(), now: 0, floor: 0, purge_at }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// The record of a file whose inode was read just now. A file met for the first time that is
    /// unsettled was given out for writing before the start, or before its record was forgotten;
    /// one that is on its way from the volume to its data servers was being copied then, and some
    /// of that may still be carried out.
    fn meet(&mut self, inode: &Inode) -> &mut FileRecord {
        if !self.records.contains_key(&inode.no) {
            if inode.unsettled {
                self.suspect_revoked(inode.no);
            } else if inode.is_moving() {
                let now = self.tick();
                self.record(inode.no).suspect(FenceCause::LateWrite, now);
                self.stale.insert(inode.no);
            }
        }
        self.record(inode.no)
    }

    /// A file that is to be moved from the volume to its data servers, as it was before it got its
    /// place there.
    pub(crate) fn begin_move(&mut self, inode: &Inode) {
        self.meet(inode);
    }

    fn record(&mut self, ino: InodeNo) -> &mut FileRecord {
        let floor = Marks::all(self.floor);
        let fresh = || FileRecord { marks: floor, ..FileRecord::default() };
        self.records.entry(ino).or_insert_with(fresh)
    }

    /// The file's marks now.
    pub(crate) fn marks(&mut self, inode: &Inode) -> Marks {
        self.meet(inode).marks
    }

    /// Closes the file to writers; `false` if a truncation is under way already.
    pub(crate) fn try_begin_truncation(&mut self, inode: &Inode) -> bool {
        let now = self.tick();
        let record = self.meet(inode);
        let free = record.truncations == 0;
        if free {
            record.begin_truncation(now);
        }
        free
    }

    /// Closes a file for one more truncation that a crash left over. `inode` is `None` if the file
    /// was removed since.
    pub(crate) fn begin_left_over(&mut self, ino: InodeNo, inode: Option<&Inode>) {
        let now = self.tick();
        let record = match inode {
            Some(inode) => self.meet(inode),
            None => self.record(ino),
        };
        record.begin_truncation(now);
    }

    /// Ends a truncation.
    pub(crate) fn end_truncation(&mut self, ino: InodeNo) {
        let now = self.tick();
        self.record(ino).end_truncation(now);
    }

    /// Who knows the size and the times of the file.
    pub(crate) fn size_authority(&mut self, inode: &Inode) -> SizeAuthority {
        self.meet(inode).size.size_authority(inode)
    }

    /// A file that was settled, as `inode` has it, is marked unsettled because an indirect write
    /// may now reach behind its end.
    pub(crate) fn mark_extending(&mut self, inode: &Inode) {
        self.meet(inode).size.marked_extending();
    }

    /// A change of our own is in the volume.
    pub(crate) fn changed(&mut self, inode: &Inode) {
        self.meet(inode).size.changed(inode);
    }

    /// A change of our own failed.
    pub(crate) fn change_failed(&mut self, ino: InodeNo) {
        self.record(ino).size.change_failed();
    }

    /// The file is open no more; whether that takes the volume's mark away. How long its objects
    /// are at least is to be taken from [`Table::take_written`] before.
    pub(crate) fn closed(&mut self, ino: InodeNo) -> bool {
        let record = self.records.get_mut(&ino);
        record.is_some_and(|r| r.writers == 0 && r.truncations == 0 && r.size.closed())
    }

    /// A write through here has made the objects of the file so long, by stripe index; with a
    /// verifier unless it is durable. Whoever calls still holds its [`Writing`].
    pub(crate) fn wrote(&mut self, ino: InodeNo, ends: &[u64], unstable: Option<Verifier>) {
        let writes = &mut self.record(ino).indirect;
        writes.get_or_insert_default().wrote(ends, unstable);
    }

    /// A COMMIT of all objects of the file begins; `None` if nothing was written through here.
    pub(crate) fn committing(&self, ino: InodeNo) -> Option<Committing> {
        Some(self.records.get(&ino)?.indirect.as_ref()?.committing())
    }

    /// It succeeded.
    pub(crate) fn committed(&mut self, ino: InodeNo, began: &Committing, told: Verifier) {
        let record = self.records.get_mut(&ino);
        if let Some(writes) = record.and_then(|r| r.indirect.as_mut()) {
            writes.committed(began, told);
        }
    }

    /// How long the objects are at least by what was written through here, durably, which is
    /// forgotten with this. If some of it is not durable, the data servers are to be asked later.
    /// Nothing while somebody writes.
    pub(crate) fn take_written(&mut self, ino: InodeNo) -> Vec<u64> {
        let Some(record) = self.records.get_mut(&ino).filter(|r| r.writers == 0) else {
            return Vec::new();
        };
        let Some(writes) = record.indirect.take() else { return Vec::new() };
        let (durable, is_all) = writes.into_durable();
        if !is_all {
            record.size.change_failed();
        }
        durable
    }

    /// Whether the objects of the file were whole when there were as many connections.
    pub(crate) fn is_whole(&self, ino: InodeNo, connections: u64) -> bool {
        self.records.get(&ino).is_some_and(|r| r.whole == Some(connections))
    }

    /// They were found to be whole, after so many connections were made.
    pub(crate) fn found_whole(&mut self, ino: InodeNo, connections: u64) {
        self.record(ino).whole = Some(connections);
    }

    /// The data servers were asked after a change of our own.
    pub(crate) fn fetched_own(&mut self, inode: &Inode, truth: DataServerAttrs) {
        self.meet(inode).size.fetched_own(truth);
    }

    /// The data servers were asked when the file had these marks; whether nobody had a right to
    /// write then and now. What to conclude, if that holds after what happened since.
    pub(crate) fn answered(
        &mut self,
        inode: &Inode,
        (asked, quiet): (Marks, bool),
        truth: DataServerAttrs,
        now: Timestamp,
    ) -> Option<Settle> {
        let record = self.meet(inode);
        if record.marks.truncated != asked.truncated || record.truncations > 0 {
            // The sizes may be from before the cut; the truncation itself set the right one.
            return None;
        }
        let is_all = quiet && record.marks == asked;
        record.size.answered(inode, truth, is_all, now)
    }

    /// Whether a truncation is under way, or waits for a data server.
    pub(crate) fn is_being_cut(&self, ino: InodeNo) -> bool {
        self.records.get(&ino).is_some_and(|r| r.truncations > 0)
    }

    /// Whether indirect writes are under way.
    pub(crate) fn has_writers(&self, ino: InodeNo) -> bool {
        self.records.get(&ino).is_some_and(|r| r.writers > 0)
    }

    /// Whether a truncation of the file is under way, or was not finished.
    pub(crate) fn truncates(&mut self, inode: &Inode) -> bool {
        self.meet(inode).truncations > 0
    }

    /// Whether a layout must wait for the end of a truncation, or for handles that were taken
    /// from somebody and may still work.
    pub(crate) fn refuses_grants(&mut self, inode: &Inode) -> bool {
        let record = self.meet(inode);
        record.truncations > 0 || record.stale.is_some_and(|s| s.blocks_grants)
    }

    /// Writable handles of the inode's epoch go to a client, by which the data servers tell this
    /// verifier.
    pub(crate) fn grant(&mut self, client: ClientId, inode: &Inode, verifier: Option<Verifier>) {
        let now = self.tick();
        self.meet(inode).grant(client, (inode.fence_epoch, verifier), now);
    }

    /// Takes all handles of the file for suspect if data servers tell another verifier by them than
    /// this one, the file's: one may have lost bytes, and each COMMIT would tell their holders to
    /// write again. True if it is so.
    pub(crate) fn suspect_outdated(&mut self, inode: &Inode, verifier: Verifier) -> bool {
        let given = self.records.get(&inode.no).and_then(|record| record.verifier);
        let is_outdated = given.is_some_and(|given| given != verifier);
        if is_outdated {
            self.suspect_late_writes(inode);
            self.record(inode.no).verifier = None;
        }
        is_outdated
    }

    /// Whether something that the client sent to data servers itself may still be carried out
    /// there: it was given handles to write with that have not been outranked since.
    pub(crate) fn may_write_late(&mut self, client: ClientId, inode: &Inode) -> bool {
        self.meet(inode).given.get(&client) == Some(&inode.fence_epoch)
    }

    /// Writes with any of the handles given out so far may still be carried out late.
    pub(crate) fn suspect_late_writes(&mut self, inode: &Inode) {
        let now = self.tick();
        self.meet(inode).suspect(FenceCause::LateWrite, now);
        self.stale.insert(inode.no);
    }

    /// Takes the file's handles of earlier epochs for suspect: the volume outranks them already.
    pub(crate) fn suspect_outranked(&mut self, inode: &Inode) {
        let now = self.tick();
        self.meet(inode).suspect_outranked(FenceCause::LateWrite, now);
        self.stale.insert(inode.no);
    }

    /// Takes all handles given out so far for worthless: a holder of some is gone.
    pub(crate) fn suspect_revoked(&mut self, ino: InodeNo) {
        let now = self.tick();
        self.record(ino).suspect(FenceCause::Revoked, now);
        self.stale.insert(ino);
    }

    /// Takes the handles of one client for suspect, with those of everybody of its epoch.
    pub(crate) fn suspect_handles_of(&mut self, client: ClientId, inode: &Inode, why: FenceCause) {
        let now = self.tick();
        self.meet(inode).suspect_handles_of(client, inode.fence_epoch, why, now);
        self.stale.insert(inode.no);
    }

    /// What is left to do before the file's older handles are worthless; `None` if they are.
    pub(crate) fn stale(&self, ino: InodeNo) -> Option<Stale> {
        self.records.get(&ino)?.stale
    }

    /// The volume has raised the file's epoch, under the same lock as the look at
    /// [`Table::stale`].
    pub(crate) fn raised(&mut self, ino: InodeNo) {
        self.record(ino).raised();
    }

    /// All data servers of the file refuse what is older than this epoch.
    pub(crate) fn told(&mut self, ino: InodeNo, stale: Stale, epoch: u32) {
        let record = self.record(ino);
        record.told(stale.since, epoch);
        if record.stale.is_none() {
            self.stale.remove(&ino);
        }
    }

    /// Whether an epoch of the file is known to be durable.
    pub(crate) fn is_durable(&self, ino: InodeNo, epoch: u32) -> bool {
        epoch == 0 || self.records.get(&ino).is_some_and(|r| r.durable_epoch >= epoch)
    }

    /// The epochs of the file up to this one are durable.
    pub(crate) fn durable(&mut self, ino: InodeNo, epoch: u32) {
        if let Some(record) = self.records.get_mut(&ino) {
            record.durable_epoch = record.durable_epoch.max(epoch);
        }
    }

    /// Files whose older handles may still work.
    pub(crate) fn all_stale(&self) -> Vec<InodeNo> {
        self.stale.iter().copied().collect()
    }

    /// The file is gone, and its objects refuse everything.
    pub(crate) fn forget(&mut self, ino: InodeNo) {
        self.stale.remove(&ino);
        if let Some(record) = self.records.get_mut(&ino) {
            record.stale = None;
            record.given.clear();
        }
    }

    /// A client is gone and was given nothing any more.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        for record in self.records.values_mut() {
            record.given.remove(&client);
        }
    }

    /// Forgets idle files when there are many. What they say if they are met again: something may
    /// have happened. `is_out` tells whether a write layout is out.
    pub(crate) fn purge(&mut self, is_out: impl Fn(InodeNo) -> bool) {
        if self.records.len() < self.purge_at {
            return;
        }
        self.floor = self.tick();
        self.records.retain(|ino, record| !record.is_idle() || is_out(*ino));
        self.purge_at = FILES_REMEMBERED.max(2 * self.records.len());
    }
}

/// The table behind its lock. Lock order: this one, then opens and layouts, or grace, then the
/// volume.
#[derive(Debug)]
pub(crate) struct Records(Mutex<Table>);

impl Default for Records {
    fn default() -> Self {
        Records(Mutex::new(Table::new(FILES_REMEMBERED)))
    }
}

impl Records {
    /// Held while a conclusion is drawn and acted on, never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("file records lock")
    }

    /// A change of our own was given up in the middle: some of it may be behind the end that the
    /// volume knows, and some may still be carried out. Asked where a panic goes on, so that a
    /// poisoned lock is no reason for another.
    pub(crate) fn gave_up(&self, inode: &Inode) {
        let Ok(mut table) = self.0.lock() else { return };
        table.change_failed(inode.no);
        table.suspect_late_writes(inode);
    }

    /// Begins an indirect write; `None` while the file is being truncated.
    pub(crate) fn begin_write(&self, inode: &Inode) -> Option<Writing<'_>> {
        let mut table = self.lock();
        let now = table.tick();
        let record = table.meet(inode);
        if record.truncations > 0 {
            return None;
        }
        record.writers += 1;
        record.marks.written = now;
        Some(Writing { records: self, ino: inode.no })
    }

    /// Blocks all writes of the file, for what must be alone with it; `None` if they are blocked
    /// already. Writes that have begun go on: they are to be waited for.
    pub(crate) fn block_writes(&self, inode: &Inode) -> Option<WritesBlocked<'_>> {
        let free = self.lock().try_begin_truncation(inode);
        free.then(|| WritesBlocked { records: self, ino: inode.no, stays: false })
    }
}

/// Nobody begins to write to the file, and nobody gets a layout to, until this is dropped: also by
/// a panic.
#[derive(Debug)]
pub(crate) struct WritesBlocked<'a> {
    records: &'a Records,
    ino: InodeNo,
    stays: bool,
}

impl WritesBlocked<'_> {
    /// The file.
    pub(crate) fn ino(&self) -> InodeNo {
        self.ino
    }

    /// The block outlives this value: whoever finishes what was begun ends it.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }
}

impl Drop for WritesBlocked<'_> {
    fn drop(&mut self) {
        // A panic may have poisoned the lock, and with it all files: there is nothing to free then.
        let Ok(mut table) = self.records.0.lock() else { return };
        if !self.stays {
            table.end_truncation(self.ino);
        }
    }
}

/// An indirect write under way; ends when dropped.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    records: &'a Records,
    ino: InodeNo,
}

impl Writing<'_> {
    /// The file.
    pub(crate) fn ino(&self) -> InodeNo {
        self.ino
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Ok(mut table) = self.records.0.lock() else { return };
        let now = table.tick();
        let record = table.record(self.ino);
        record.writers = record.writers.saturating_sub(1);
        record.marks.written = now;
    }
}
