//! One operation's view of the volume: {its own writes} over {what the engine may not say yet, or
//! did not when it was read} over {what was read of the engine}, and what it has seen.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::codec::{self, Dirent};
use super::fetched::{Fetched, Missing};
use super::keys;
use crate::engine::{Engine, EngineError, KeyRange, Visit};
use crate::types::{Inode, InodeNo, Lsn, StoreError};

/// Bytes a cached record costs beyond its key and value (map slot, two reference counts).
const RECORD_OVERHEAD_BYTES: u64 = 96;
/// Expected bytes of a cached record; only sizes the cache's tables at the start.
const RECORD_BYTES_TYPICAL: u64 = 256;

/// A key with its new value; `None` removes.
pub(super) type Write = (Bytes, Option<Bytes>);

/// A write that is not durable yet, or was not when somebody began to read who still reads.
pub(super) struct Pending {
    pub(super) value: Option<Bytes>,
    pub(super) lsn: Lsn,
}

/// Every such write, newest of each key.
#[derive(Default)]
pub(super) struct Overlay {
    entries: BTreeMap<Bytes, Pending>,
}

impl Overlay {
    pub(super) fn insert(&mut self, key: Bytes, value: Option<Bytes>, lsn: Lsn) {
        self.entries.insert(key, Pending { value, lsn });
    }

    /// Forgets `key` if its newest write is no newer than `durable`; whether it did.
    pub(super) fn retire(&mut self, key: &[u8], durable: Lsn) -> bool {
        let retired = self.entries.get(key).is_some_and(|pending| pending.lsn <= durable);
        if retired {
            self.entries.remove(key);
        }
        retired
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Pending> {
        self.entries.get(key)
    }

    fn range<'a>(&'a self, range: KeyRange<'_>) -> impl Iterator<Item = (&'a Bytes, &'a Pending)> {
        let until = range.until.map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(range.from), until);
        let found = (!range.is_empty()).then(|| self.entries.range::<[u8], _>(bounds));
        found.into_iter().flatten()
    }
}

/// Bytes-bounded cache of what the engine holds, absence included. Keys in the overlay may be
/// outdated here: the overlay is asked first, and refreshes the cache when it lets go of a key.
pub(super) struct RecordCache {
    records: quick_cache::unsync::Cache<Bytes, Option<Bytes>, RecordWeight>,
}

#[derive(Clone)]
struct RecordWeight;

impl quick_cache::Weighter<Bytes, Option<Bytes>> for RecordWeight {
    fn weight(&self, key: &Bytes, value: &Option<Bytes>) -> u64 {
        let bytes = key.len() + value.as_ref().map_or(0, Bytes::len);
        RECORD_OVERHEAD_BYTES + bytes as u64
    }
}

impl RecordCache {
    pub(super) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / RECORD_BYTES_TYPICAL).unwrap_or(usize::MAX);
        Self { records: quick_cache::unsync::Cache::with_weighter(items, bytes, RecordWeight) }
    }

    pub(super) fn refresh(&mut self, key: Bytes, value: Option<Bytes>) {
        // Removing first keeps an older value from surviving an insert that is refused by weight.
        self.records.remove(&key);
        if keys::is_point(&key) {
            self.records.insert(key, value);
        }
    }
}

/// Numbers that advance with mutations; durable with the batch that advanced them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) lsn: Lsn,
    pub(super) next_ino: u64,
    pub(super) inodes: u64,
    /// No inode has a lower fence epoch; has a record of its own.
    pub(super) epoch_floor: u32,
}

/// What an operation leaves behind.
pub(super) struct Effect {
    pub(super) seen: Lsn,
    pub(super) writes: Vec<Write>,
    pub(super) counters: Counters,
    /// It could not be done without this, whatever it answered.
    pub(super) missing: Option<Missing>,
}

/// Where an operation finds what is in the engine.
#[derive(Clone, Copy)]
pub(super) enum Below<'a> {
    /// In what was read for it; it is done again when more has been read.
    Fetched(&'a Fetched),
    /// In the engine itself, however long that takes.
    Engine(&'a dyn Engine),
}

/// One operation at work. Nothing it writes reaches the volume unless it succeeds.
pub(super) struct Tx<'a> {
    below: Below<'a>,
    overlay: &'a Overlay,
    cache: &'a mut RecordCache,
    counters: Counters,
    seen: Lsn,
    writes: Vec<Write>,
    missing: Option<Missing>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(
        below: Below<'a>,
        overlay: &'a Overlay,
        cache: &'a mut RecordCache,
        mut counters: Counters,
    ) -> Self {
        counters.lsn.0 += 1;
        let (seen, writes, missing) = (Lsn(0), Vec::new(), None);
        Self { below, overlay, cache, counters, seen, writes, missing }
    }

    pub(super) fn finish(self) -> Effect {
        let Self { seen, writes, counters, missing, .. } = self;
        Effect { seen, writes, counters, missing }
    }

    /// The LSN this operation gets if it writes anything.
    pub(super) fn lsn(&self) -> Lsn {
        self.counters.lsn
    }

    pub(super) fn inodes(&self) -> u64 {
        self.counters.inodes
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        self.writes.push((key, Some(value)));
    }

    pub(super) fn delete(&mut self, key: Bytes) {
        self.writes.push((key, None));
    }

    /// The number of the next inode; none above was ever handed out.
    pub(super) fn next_inode_no(&self) -> InodeNo {
        InodeNo(self.counters.next_ino)
    }

    /// Hands out no number below this one any more.
    pub(super) fn skip_inode_numbers(&mut self, below: u64) {
        self.counters.next_ino = self.counters.next_ino.max(below);
    }

    /// A number no inode ever had.
    pub(super) fn new_inode_no(&mut self) -> InodeNo {
        let no = InodeNo(self.counters.next_ino);
        self.counters.next_ino += 1;
        no
    }

    /// No inode is read with a lower fence epoch any more.
    pub(super) fn raise_epoch_floor(&mut self, floor: u32) {
        let floor = self.counters.epoch_floor.max(floor);
        self.counters.epoch_floor = floor;
        self.put(Bytes::from_static(keys::EPOCH_FLOOR), codec::encode_epoch_floor(floor));
    }

    /// The lowest fence epoch that an inode may have: a volume in an older state than its data
    /// servers saw does not know what they were told since.
    pub(super) fn epoch_floor(&self) -> u32 {
        self.counters.epoch_floor
    }

    /// An inode that was not there before.
    pub(super) fn add_inode(&mut self, inode: &Inode) {
        self.counters.inodes += 1;
        self.put_inode(inode);
    }

    pub(super) fn put_inode(&mut self, inode: &Inode) {
        self.put(keys::inode(inode.no), codec::encode_inode(inode));
    }

    pub(super) fn delete_inode(&mut self, ino: InodeNo) {
        self.counters.inodes = self.counters.inodes.saturating_sub(1);
        self.delete(keys::inode(ino));
    }

    pub(super) fn put_entry(&mut self, dir: InodeNo, name: &[u8], entry: &Dirent) {
        let order = codec::encode_order(entry.ino, entry.kind, name);
        self.put(keys::dirent(dir, name), codec::encode_dirent(entry));
        self.put(keys::order(dir, entry.cookie), order);
    }

    pub(super) fn delete_entry(&mut self, dir: InodeNo, name: &[u8], entry: &Dirent) {
        self.delete(keys::dirent(dir, name));
        self.delete(keys::order(dir, entry.cookie));
    }

    /// The inode, or [`StoreError::Stale`] if it is gone.
    pub(super) fn inode(&mut self, ino: InodeNo) -> Result<Inode, StoreError> {
        let raw = self.get(keys::inode(ino))?;
        self.decoded(ino, raw)
    }

    /// The inode that a record says; without one it is gone.
    fn decoded(&self, ino: InodeNo, raw: Option<Bytes>) -> Result<Inode, StoreError> {
        let mut inode = codec::decode_inode(ino, &raw.ok_or(StoreError::Stale)?)?;
        inode.raise_to_floor(self.counters.epoch_floor);
        Ok(inode)
    }

    pub(super) fn exists(&mut self, ino: InodeNo) -> Result<(), StoreError> {
        self.get(keys::inode(ino))?.map(drop).ok_or(StoreError::Stale)
    }

    /// The inode, which must be a directory.
    pub(super) fn directory(&mut self, ino: InodeNo) -> Result<Inode, StoreError> {
        directory(self.inode(ino)?)
    }

    /// The inode an entry points to; an entry without one is corruption.
    pub(super) fn entry_inode(&mut self, ino: InodeNo) -> Result<Inode, StoreError> {
        self.inode(ino).map_err(|error| match error {
            StoreError::Stale => StoreError::Corrupt("directory entry without an inode"),
            other => other,
        })
    }

    pub(super) fn dirent(
        &mut self,
        dir: InodeNo,
        name: &[u8],
    ) -> Result<Option<Dirent>, StoreError> {
        self.get(keys::dirent(dir, name))?.map(|raw| codec::decode_dirent(&raw)).transpose()
    }

    /// The value of `key`, with what it depends on noted in `seen`.
    pub(super) fn get(&mut self, key: Bytes) -> Result<Option<Bytes>, StoreError> {
        self.known(&key)?.map_or_else(|| self.miss(Missing::Records(vec![key])), Ok)
    }

    /// The directory above whatever directory this is, when many are asked in turn up to the root.
    pub(super) fn parent(&mut self, ino: InodeNo) -> Result<InodeNo, StoreError> {
        let Some(raw) = self.known(&keys::inode(ino))? else {
            return self.miss(Missing::Ancestors(ino));
        };
        Ok(directory(self.decoded(ino, raw)?)?.parent)
    }

    /// What will be asked for: whatever is not in memory is read at once.
    pub(super) fn prepare(&mut self, keys: impl Iterator<Item = Bytes>) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        for key in keys {
            if self.known(&key)?.is_none() {
                missing.push(key);
            }
        }
        if missing.is_empty() { Ok(()) } else { self.miss(Missing::Records(missing)) }
    }

    /// The value of `key`; `None` if it has to be read first.
    fn known(&mut self, key: &Bytes) -> Result<Option<Option<Bytes>>, StoreError> {
        if let Some((_, value)) = self.writes.iter().rev().find(|(written, _)| written == key) {
            return Ok(Some(value.clone()));
        }
        if let Some(pending) = self.overlay.get(key) {
            self.seen = self.seen.max(pending.lsn);
            return Ok(Some(pending.value.clone()));
        }
        let cacheable = keys::is_point(key);
        if cacheable && let Some(value) = self.cache.records.get(key) {
            return Ok(Some(value.clone()));
        }
        let value = match self.below {
            Below::Fetched(fetched) => match fetched.record(key) {
                Some(value) => value.clone(),
                None => return Ok(None),
            },
            Below::Engine(engine) => engine.get(key)?,
        };
        if cacheable {
            self.cache.records.insert(key.clone(), value.clone());
        }
        Ok(Some(value))
    }

    /// The operation cannot go on: it is done again once this has been read, so that nobody is told
    /// this error.
    fn miss<T>(&mut self, missing: Missing) -> Result<T, StoreError> {
        self.missing = Some(missing);
        Err(StoreError::Io("not read yet".into()))
    }

    /// Visits the pairs in `range` ascending, until the visitor breaks or fails. Does not see this
    /// operation's own writes.
    pub(super) fn scan(
        &mut self,
        range: KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let (mut failure, mut stopped) = (None, false);
        let mut guarded = |key: &[u8], value: &[u8]| {
            let flow = visit(key, value).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            });
            stopped = flow.is_break();
            flow
        };
        let missing = || {
            let until = range.until.map(Bytes::copy_from_slice);
            Missing::Pairs { from: Bytes::copy_from_slice(range.from), until }
        };
        let (seen, known_until) = match self.below {
            Below::Engine(engine) => {
                let scan = |visit: &mut Visit<'_>| engine.scan(range, visit);
                (merge(scan, self.overlay, range, &mut guarded)?, None)
            }
            Below::Fetched(fetched) => {
                let Some(pairs) = fetched.pairs(range) else { return self.miss(missing()) };
                let known_until = pairs.known_until();
                let known =
                    KeyRange { from: range.from, until: known_until.as_deref().or(range.until) };
                let scan = |visit: &mut Visit<'_>| {
                    pairs.scan(visit);
                    Ok(())
                };
                (merge(scan, self.overlay, known, &mut guarded)?, known_until)
            }
        };
        self.seen = self.seen.max(seen);
        match failure {
            Some(failure) => Err(failure),
            None if !stopped && known_until.is_some() => self.miss(missing()),
            None => Ok(()),
        }
    }
}

/// The inode, which must be a directory.
fn directory(inode: Inode) -> Result<Inode, StoreError> {
    if inode.is_directory() { Ok(inode) } else { Err(StoreError::NotDirectory) }
}

/// Visits the overlay and what `scan` visits of the range as one ascending sequence, the overlay
/// hiding the other; returns the greatest LSN among the overlay's entries on the way, removals
/// included.
fn merge(
    scan: impl FnOnce(&mut Visit<'_>) -> Result<(), EngineError>,
    overlay: &Overlay,
    range: KeyRange<'_>,
    visit: &mut Visit<'_>,
) -> Result<Lsn, StoreError> {
    let mut pending = overlay.range(range).peekable();
    let mut seen = Lsn(0);
    let mut stopped = false;
    let mut emit = |(key, entry): (&Bytes, &Pending), visit: &mut Visit<'_>| {
        seen = seen.max(entry.lsn);
        entry.value.as_ref().map_or(ControlFlow::Continue(()), |value| visit(key, value))
    };
    scan(&mut |key, value| {
        let mut hidden = false;
        while let Some(entry) = pending.next_if(|(pending_key, _)| pending_key[..] <= *key) {
            hidden |= entry.0[..] == *key;
            if emit(entry, visit).is_break() {
                stopped = true;
                return ControlFlow::Break(());
            }
        }
        let flow = if hidden { ControlFlow::Continue(()) } else { visit(key, value) };
        stopped = flow.is_break();
        flow
    })?;
    while !stopped && let Some(entry) = pending.next() {
        stopped = emit(entry, visit).is_break();
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Batch, MemoryEngine};

    proptest! {
        #[test]
        fn a_merged_scan_is_the_overlaid_map(
            durable in prop::collection::btree_map(0u8..40, any::<u8>(), 0..30),
            pending in prop::collection::btree_map(0u8..40, any::<Option<u8>>(), 0..30),
            bounds in (0u8..42, 0u8..42),
            stop_after in 1usize..50,
        ) {
            // Overlay over engine reads like one map with the overlay applied, also when the
            // visitor stops early; what was seen is the newest overlay entry up to there.
            let engine = MemoryEngine::new();
            let mut batch = Batch::new();
            for (key, value) in &durable {
                batch.put(vec![*key], vec![*value]);
            }
            engine.commit(&batch, 0).unwrap();
            let mut expected = durable;
            let mut overlay = Overlay::default();
            for (key, value) in &pending {
                let bytes = value.map(|v| Bytes::from(vec![v]));
                overlay.insert(vec![*key].into(), bytes, Lsn(100 + u64::from(*key)));
                match value {
                    Some(value) => expected.insert(*key, *value),
                    None => expected.remove(key),
                };
            }
            let (from, until) = ([bounds.0], [bounds.1]);
            let mut found = Vec::new();
            let range = KeyRange { from: &from, until: Some(&until) };
            let scan = |visit: &mut Visit<'_>| engine.scan(range, visit);
            let seen = merge(scan, &overlay, range, &mut |key, value| {
                found.push((key[0], value[0]));
                if found.len() < stop_after {
                    return ControlFlow::Continue(());
                }
                ControlFlow::Break(())
            }).unwrap();
            let within = |key: &u8| *key >= bounds.0 && *key < bounds.1;
            let all: Vec<_> = expected.into_iter().filter(|(key, _)| within(key)).collect();
            let wanted: Vec<_> = all.iter().copied().take(stop_after).collect();
            prop_assert_eq!(&found, &wanted);
            let last = if all.len() >= stop_after { wanted.last().unwrap().0 } else { u8::MAX };
            let newest = pending.keys().filter(|key| within(key) && **key <= last).max();
            prop_assert_eq!(seen.0, newest.map_or(0, |key| 100 + u64::from(*key)));
        }

        #[test]
        fn what_is_read_in_parts_is_the_overlaid_map(
            durable in prop::collection::btree_set(0u16..700, 0..600),
            pending in prop::collection::btree_map(0u16..700, any::<bool>(), 0..60),
            bounds in (0u16..701, 0u16..701),
            stop_after in 1usize..700,
        ) {
            // An operation that reads a part of the range each time it is done ends with the same
            // as one that reads the engine itself.
            let engine = MemoryEngine::new();
            let mut batch = Batch::new();
            for key in &durable {
                batch.put(key.to_be_bytes().to_vec(), vec![0]);
            }
            engine.commit(&batch, 0).unwrap();
            let mut overlay = Overlay::default();
            for (key, stays) in &pending {
                let value = stays.then(|| Bytes::from_static(&[1]));
                overlay.insert(key.to_be_bytes().to_vec().into(), value, Lsn(u64::from(*key)));
            }
            let (from, until) = (bounds.0.to_be_bytes(), bounds.1.to_be_bytes());
            let range = KeyRange { from: &from, until: Some(&until) };
            let done = |below: Below<'_>| {
                let counters =
                    Counters { lsn: Lsn(0), next_ino: 2, inodes: 1, epoch_floor: 0 };
                let mut cache = RecordCache::new(0);
                let mut tx = Tx::new(below, &overlay, &mut cache, counters);
                let mut found = Vec::new();
                let scanned = tx.scan(range, |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    let enough = found.len() == stop_after;
                    Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                });
                let effect = tx.finish();
                assert_eq!(scanned.is_err(), effect.missing.is_some());
                (found, effect.seen, effect.missing)
            };
            let (wanted, seen, _) = done(Below::Engine(&engine));
            let mut fetched = Fetched::default();
            let (mut found, mut found_seen, mut missing) = done(Below::Fetched(&fetched));
            let mut reads = 0;
            while let Some(what) = missing {
                fetched.read(&engine, what).unwrap();
                (found, found_seen, missing) = done(Below::Fetched(&fetched));
                reads += 1;
            }
            prop_assert_eq!((found, found_seen), (wanted, seen));
            prop_assert!(reads <= 4, "{} reads", reads);
        }
    }
}
