//! The memory of all files of a client: whose clean data go next, and who has to wait.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    extent::Tick,
    file_cache::Report,
    span::wide,
    usage::{Queue, Usage},
};
use crate::limits::{
    CACHE_AGES, CACHED_FILE_OVERHEAD_BYTES, DIRTY_SHARE, FILE_DIRTY_SHARE, FILE_SENT_SHARE,
    FILE_UNSETTLED_SHARE, ONCE_SHARE, SENT_SHARE, UNSETTLED_SHARE,
};

/// A file of which something is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(u64);

/// Whose data are evicted, and which: the arguments of [`super::FileCache::evict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) file: FileId,
    pub(crate) queue: Queue,
    pub(crate) until: Tick,
    pub(crate) bytes: u64,
}

/// The memory of all files of a client, in numbers: files tell them after whatever changed them,
/// and it never sees the files themselves.
///
/// **Two queues.** Clean data come into the queue of what was used once, and go to the other one
/// when they were read twice. What was used once goes first while it has more than its share
/// ([`ONCE_SHARE`]), else what was not used for longest of the other: a stream drives out streams.
///
/// **Ages.** The order is that of [`Tick`]s, which advance as clean data come in. What a file has
/// told is at least as old as the truth, because reads make data younger and tell nobody: whoever
/// evicts tells the file's numbers again, and the next victim is found with them.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    files: BTreeMap<FileId, Report>,
    last_id: u64,
    total: Usage,
    /// Files by the age of their oldest range, of each queue.
    once: BTreeSet<(Tick, FileId)>,
    again: BTreeSet<(Tick, FileId)>,
    /// Files by what they have to be written back, and to be committed.
    dirty: BTreeSet<(u64, FileId)>,
    sent: BTreeSet<(u64, FileId)>,
    now: Tick,
    /// Clean bytes that came in since the last age began.
    came_in: u64,
}

impl Budget {
    /// For that many bytes.
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget {
            bytes,
            files: BTreeMap::new(),
            last_id: 0,
            total: Usage::default(),
            once: BTreeSet::new(),
            again: BTreeSet::new(),
            dirty: BTreeSet::new(),
            sent: BTreeSet::new(),
            now: Tick::default(),
            came_in: 0,
        }
    }

    /// A file comes, with nothing in it.
    pub(crate) fn register(&mut self) -> FileId {
        self.last_id += 1;
        let file = FileId(self.last_id);
        self.files.insert(file, Report::default());
        file
    }

    /// A file goes, with everything in it.
    pub(crate) fn leave(&mut self, file: FileId) {
        self.update(file, Report::default());
        self.files.remove(&file);
    }

    /// What a file has now. Of one that is gone nothing is noted.
    pub(crate) fn update(&mut self, file: FileId, new: Report) {
        let Some(account) = self.files.get_mut(&file) else { return };
        let old = std::mem::replace(account, new);
        self.total.replace(&old.usage, &new.usage);
        relist(&mut self.once, file, old.oldest_once, new.oldest_once);
        relist(&mut self.again, file, old.oldest_again, new.oldest_again);
        let some = |bytes: u64| (bytes > 0).then_some(bytes);
        let [old_dirty, new_dirty] = [&old, &new].map(|r| some(r.usage.dirty.total()));
        relist(&mut self.dirty, file, old_dirty, new_dirty);
        let [old_sent, new_sent] = [&old, &new].map(|r| some(r.usage.sent.total()));
        relist(&mut self.sent, file, old_sent, new_sent);
        self.came_in += new.usage.clean().saturating_sub(old.usage.clean());
        let age = (self.bytes / CACHE_AGES).max(1);
        self.now.0 += self.came_in / age;
        self.came_in %= age;
    }

    /// The age of what comes in, or is used, now.
    pub(crate) fn now(&self) -> Tick {
        self.now
    }

    /// All memory that files have told of, with what they take themselves.
    pub(crate) fn used(&self) -> u64 {
        let files = wide(self.files.len());
        self.total.total() + files * CACHED_FILE_OVERHEAD_BYTES
    }

    /// What of all files is what.
    #[cfg(test)]
    pub(crate) fn usage(&self) -> &Usage {
        &self.total
    }

    /// What is to be evicted next, while there is more than the budget and something to evict. The
    /// caller evicts it, and tells of the file; then it asks again.
    pub(crate) fn victim(&self) -> Option<Victim> {
        let excess = self.used().checked_sub(self.bytes).filter(|excess| *excess > 0)?;
        let once_over = self.total.of(Queue::Once).saturating_sub(self.bytes / ONCE_SHARE);
        let (queue, bytes) = match (once_over > 0, self.again.is_empty(), self.once.is_empty()) {
            (true, false, _) => (Queue::Once, excess.min(once_over)),
            (true, true, _) | (false, true, false) => (Queue::Once, excess),
            (false, false, _) => (Queue::Again, excess),
            (false, true, true) => return None,
        };
        let mut oldest = match queue {
            Queue::Once => self.once.iter(),
            Queue::Again => self.again.iter(),
        };
        let (_, file) = *oldest.next()?;
        // Nothing that is younger than what another file has goes before that.
        let until = oldest.next().map_or(Tick(u64::MAX), |(next, _)| *next);
        Some(Victim { file, queue, until, bytes })
    }

    /// Whether dirty data of a file should leave now.
    pub(crate) fn must_write_back(&self, file: FileId) -> bool {
        let own = self.usage_of(file).dirty.total();
        self.is_over(own, FILE_DIRTY_SHARE)
            || (own > 0 && self.is_over(self.total.dirty.total(), DIRTY_SHARE))
    }

    /// Whether what servers have of a file and may lose should be committed now.
    pub(crate) fn must_commit(&self, file: FileId) -> bool {
        let own = self.usage_of(file).sent.total();
        self.is_over(own, FILE_SENT_SHARE)
            || (own > 0 && self.is_over(self.total.sent.total(), SENT_SHARE))
    }

    /// Whether whoever writes to a file has to wait until less is not durable. Something is being
    /// sent then, or [`Self::dirtiest`] must be written back, or [`Self::most_sent`] committed.
    pub(crate) fn must_wait(&self, file: FileId) -> bool {
        self.is_over(self.usage_of(file).unsettled(), FILE_UNSETTLED_SHARE)
            || self.is_over(self.total.unsettled(), UNSETTLED_SHARE)
    }

    /// The file that has most to be written back.
    pub(crate) fn dirtiest(&self) -> Option<FileId> {
        self.dirty.last().map(|(_, file)| *file)
    }

    /// The file that has most to be committed.
    pub(crate) fn most_sent(&self) -> Option<FileId> {
        self.sent.last().map(|(_, file)| *file)
    }

    fn usage_of(&self, file: FileId) -> Usage {
        self.files.get(&file).map(|report| report.usage).unwrap_or_default()
    }

    /// Whether that is more than one part in `share` of the budget.
    fn is_over(&self, bytes: u64, share: u64) -> bool {
        bytes > self.bytes / share
    }
}

/// Moves a file to its new place in a list.
fn relist<K: Ord>(list: &mut BTreeSet<(K, FileId)>, file: FileId, old: Option<K>, new: Option<K>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        list.remove(&(old, file));
    }
    if let Some(new) = new {
        list.insert((new, file));
    }
}

#[cfg(test)]
impl Budget {
    /// What a file has told last.
    pub(super) fn told(&self, file: FileId) -> Option<&Report> {
        self.files.get(&file)
    }
}
