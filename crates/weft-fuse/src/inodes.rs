//! Which handle the kernel means by an inode number, for as long as it remembers the number.
//!
//! The number is the file's own (`fileid`), so that it is the same after a new mount; only the
//! root, which FUSE calls 1, changes places with the file that is.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use fuser::Errno;
use weft_client::{io::FileIo, node::Node};
use weft_nfs::{Component, FileHandle, FileType, Fsid};

/// FUSE's number of the root.
pub const ROOT: u64 = 1;

/// `S_ISUID` and `S_ISGID`, `include/uapi/linux/stat.h`.
const SET_ID: u16 = 0o6000;

/// Time within which the kernel takes up an answer, however busy the machine is.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// The inodes that the kernel remembers.
pub struct Inodes {
    root_fileid: u64,
    fsid: Option<Fsid>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_number: HashMap<u64, Inode>,
    numbers: HashMap<FileHandle, u64>,
    /// By a hash of directory and name: enough for a hint.
    by_name: HashMap<u64, u64>,
    hasher: RandomState,
}

struct Inode {
    fh: FileHandle,
    is_dir: bool,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
    /// Change attribute of the bytes in the kernel's page cache, and when an open first had it.
    cached: Option<(u64, Instant)>,
    /// Change attribute as a server told it last, and when it was asked.
    seen: Option<(u64, Instant)>,
    opens: Vec<Weak<FileIo>>,
    /// Those of them for reading and writing: through others the kernel maps no page that a program
    /// writes to.
    mappable: Vec<Weak<FileIo>>,
    /// When it was last written through this mount.
    written: Option<Instant>,
    /// The name that it was last told by, as a hash.
    name: Option<u64>,
    /// The directory of that name.
    parent: Option<u64>,
    /// True if the kernel was told of set-id bits.
    has_set_id: bool,
    /// When the kernel was told of it by a list, whose names it believes for a while.
    listed: Option<Instant>,
    /// True once a program of this mount has removed or replaced a name of it.
    is_removed: bool,
}

impl Inode {
    /// One that the kernel was not told of yet.
    fn new(node: &Node) -> Inode {
        Inode {
            fh: node.fh.clone(),
            is_dir: node.attrs.file_type == Some(FileType::DIR),
            lookups: 0,
            cached: None,
            seen: None,
            opens: Vec::new(),
            mappable: Vec::new(),
            written: None,
            name: None,
            parent: None,
            has_set_id: false,
            listed: None,
            is_removed: false,
        }
    }
}

impl Known {
    /// A number is not known by a name any more.
    fn forget_name(&mut self, name: Option<u64>, number: u64) {
        if let Some(name) = name
            && self.by_name.get(&name) == Some(&number)
        {
            self.by_name.remove(&name);
        }
    }
}

impl Inodes {
    /// With the root alone, which is never forgotten.
    pub fn new(root: &Node) -> Inodes {
        let inode = Inode { lookups: 1, ..Inode::new(root) };
        Inodes {
            root_fileid: root.attrs.fileid.unwrap_or(ROOT),
            fsid: root.attrs.fsid,
            known: Mutex::new(Known {
                by_number: HashMap::from([(ROOT, inode)]),
                numbers: HashMap::from([(root.fh.clone(), ROOT)]),
                ..Known::default()
            }),
        }
    }

    /// The number of a file.
    pub fn number_of(&self, fileid: u64) -> u64 {
        match fileid {
            id if id == self.root_fileid => ROOT,
            ROOT => self.root_fileid,
            id => id,
        }
    }

    /// A node's number, if it is of this file system.
    ///
    /// # Errors
    /// EXDEV for what belongs to another one, whose numbers may be the same; EIO if the server
    /// does not say.
    pub fn number(&self, node: &Node) -> Result<u64, Errno> {
        if node.attrs.fsid != self.fsid {
            return Err(Errno::EXDEV);
        }
        node.attrs.fileid.map(|id| self.number_of(id)).ok_or(Errno::EIO)
    }

    /// The kernel is told of a node: its number from now on until it is forgotten.
    ///
    /// # Errors
    /// As [`Inodes::number`].
    pub fn remember(&self, node: &Node) -> Result<u64, Errno> {
        let number = self.number(node)?;
        let mut known = self.lock();
        let Known { by_number, numbers, .. } = &mut *known;
        let inode = by_number.entry(number).or_insert_with(|| {
            numbers.insert(node.fh.clone(), number);
            Inode::new(node)
        });
        inode.lookups += 1;
        Ok(number)
    }

    /// The kernel was told of a number by this name.
    pub fn named(&self, number: u64, place: (u64, &Component)) {
        let mut known = self.lock();
        let hash = known.hasher.hash_one(place);
        let Some(inode) = known.by_number.get_mut(&number) else { return };
        inode.parent = Some(place.0);
        let before = inode.name.replace(hash);
        if before != Some(hash) {
            known.forget_name(before, number);
            known.by_name.insert(hash, number);
        }
    }

    /// The number of the directory above another one, as the kernel follows `..`; of the root, its
    /// own, as in any file system.
    pub fn parent_of(&self, number: u64) -> u64 {
        let known = self.lock();
        known.by_number.get(&number).and_then(|inode| inode.parent).unwrap_or(ROOT)
    }

    /// The kernel was told of a number by a list.
    pub fn listed(&self, number: u64, now: Instant) {
        if let Some(inode) = self.lock().by_number.get_mut(&number) {
            inode.listed = Some(now);
        }
    }

    /// True if the kernel may have got to a number by a name from a list that it still believes, as
    /// it does for `valid` from when it reads the list. Also of a number that was looked up since:
    /// the kernel may read the list after that answer.
    pub fn is_from_list(&self, number: u64, valid: Duration) -> bool {
        let listed = self.lock().by_number.get(&number).and_then(|inode| inode.listed);
        !valid.is_zero() && listed.is_some_and(|at| at.elapsed() <= valid + READ_WITHIN)
    }

    /// What had one name has another one now.
    pub fn renamed(&self, from: (u64, &Component), to: (u64, &Component)) {
        let number = {
            let known = self.lock();
            known.by_name.get(&known.hasher.hash_one(from)).copied()
        };
        if let Some(number) = number {
            self.named(number, to);
        }
    }

    /// Records that a name was removed, or given to another file: its file may have no other name.
    pub fn name_removed(&self, place: (u64, &Component)) {
        let mut known = self.lock();
        let Known { by_number, by_name, hasher, .. } = &mut *known;
        let number = by_name.get(&hasher.hash_one(place));
        if let Some(inode) = number.and_then(|number| by_number.get_mut(number)) {
            inode.is_removed = true;
        }
    }

    /// True if a name of this file was removed through this mount.
    pub fn is_removed(&self, fh: &FileHandle) -> bool {
        let known = self.lock();
        let inode = known.numbers.get(fh).and_then(|number| known.by_number.get(number));
        inode.is_some_and(|inode| inode.is_removed)
    }

    /// What probably has a name, if the kernel was told of it. Whoever relies on that is not to do
    /// more than waste time if it is something else.
    pub fn probably(&self, place: (u64, &Component)) -> Option<FileHandle> {
        let known = self.lock();
        let number = known.by_name.get(&known.hasher.hash_one(place))?;
        known.by_number.get(number).map(|inode| inode.fh.clone())
    }

    /// True if a name is probably a directory's, in the sense of [`Inodes::probably`].
    pub fn is_probably_dir(&self, place: (u64, &Component)) -> bool {
        let known = self.lock();
        let number = known.by_name.get(&known.hasher.hash_one(place));
        number.and_then(|number| known.by_number.get(number)).is_some_and(|inode| inode.is_dir)
    }

    /// The kernel has forgotten this many of the times that it was told of a number; whether it
    /// does not remember it any more.
    pub fn forget(&self, number: u64, times: u64) -> bool {
        if number == ROOT {
            return false;
        }
        let mut known = self.lock();
        let Some(inode) = known.by_number.get_mut(&number) else { return true };
        inode.lookups = inode.lookups.saturating_sub(times);
        let is_forgotten = inode.lookups == 0;
        if is_forgotten && let Some(inode) = known.by_number.remove(&number) {
            known.numbers.remove(&inode.fh);
            known.forget_name(inode.name, number);
        }
        is_forgotten
    }

    /// The handle of a number.
    ///
    /// # Errors
    /// ESTALE for one that the kernel was not told of.
    pub fn handle(&self, number: u64) -> Result<FileHandle, Errno> {
        self.lock().by_number.get(&number).map(|inode| inode.fh.clone()).ok_or(Errno::ESTALE)
    }

    /// Notes an open of a file, and whether it is for reading and writing.
    pub fn opened(&self, number: u64, io: &Arc<FileIo>, is_mappable: bool) {
        let mut known = self.lock();
        let Some(inode) = known.by_number.get_mut(&number) else { return };
        for opens in [&mut inode.opens, &mut inode.mappable] {
            opens.retain(|open| open.strong_count() > 0);
        }
        inode.opens.push(Arc::downgrade(io));
        if is_mappable {
            inode.mappable.push(Arc::downgrade(io));
        }
    }

    /// True if the kernel may have pages of a file that were written through a mapping and that it
    /// has not told us of.
    pub fn may_have_mapped_writes(&self, number: u64) -> bool {
        let known = self.lock();
        let inode = known.by_number.get(&number);
        inode.is_some_and(|inode| inode.mappable.iter().any(|open| open.strong_count() > 0))
    }

    /// A file is written: its size may be another one from now on.
    pub fn note_written(&self, number: u64, now: Instant) {
        if let Some(inode) = self.lock().by_number.get_mut(&number) {
            inode.written = Some(now);
        }
    }

    /// Whether a file was not written through this mount since.
    pub fn is_unwritten_since(&self, number: u64, then: Instant) -> bool {
        let known = self.lock();
        known.by_number.get(&number).is_some_and(|inode| inode.written.is_none_or(|at| at < then))
    }

    /// Notes the permissions that the kernel is told of.
    pub fn note_mode(&self, number: u64, mode: u16) {
        if let Some(inode) = self.lock().by_number.get_mut(&number) {
            inode.has_set_id = mode & SET_ID != 0;
        }
    }

    /// True, once, if the kernel was told of set-id bits, which it may have to ask for again.
    pub fn take_set_id(&self, number: u64) -> bool {
        let mut known = self.lock();
        known.by_number.get_mut(&number).is_some_and(|inode| std::mem::take(&mut inode.has_set_id))
    }

    /// The opens of a file.
    pub fn opens(&self, number: u64) -> Vec<Arc<FileIo>> {
        let known = self.lock();
        let opens = known.by_number.get(&number).map(|inode| &inode.opens);
        opens.into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// True if the kernel may keep its pages of a file at an open: their change attribute is this
    /// one.
    ///
    /// At the first open with another one the kernel drops its pages, once it takes up the answer.
    /// Until then other opens have it drop them, too.
    pub fn is_cached(&self, number: u64, change: Option<u64>, now: Instant) -> bool {
        let mut known = self.lock();
        let Some(inode) = known.by_number.get_mut(&number) else { return false };
        let since = inode.cached.filter(|(cached, _)| Some(*cached) == change).map(|(_, at)| at);
        inode.cached = change.map(|change| (change, since.unwrap_or(now)));
        since.is_some_and(|at| now.duration_since(at) > READ_WITHIN)
    }

    /// True if a file has another change attribute than the one that was told last.
    pub fn is_news(&self, number: u64, change: Option<u64>) -> bool {
        let known = self.lock();
        let seen = known.by_number.get(&number).and_then(|inode| inode.seen);
        seen.is_none_or(|(before, _)| Some(before) != change)
    }

    /// A server told the change attribute of a file, asked then: whether others have changed it
    /// since the last time. What was written through this mount in between hides that.
    pub fn has_changed(&self, number: u64, change: Option<u64>, asked_at: Instant) -> bool {
        let mut known = self.lock();
        let Some(inode) = known.by_number.get_mut(&number) else { return false };
        let Some(change) = change else { return false };
        let seen = inode.seen.replace((change, asked_at));
        seen.is_some_and(|(before, then)| {
            before != change && inode.written.is_none_or(|at| at < then)
        })
    }

    /// The number of a handle that the kernel remembers.
    pub fn number_of_handle(&self, fh: &FileHandle) -> Option<u64> {
        self.lock().numbers.get(fh).copied()
    }

    /// All numbers that it remembers.
    pub fn numbers(&self) -> Vec<u64> {
        self.lock().by_number.keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_nfs::Attrs;

    use super::*;

    fn node(fileid: u64) -> Node {
        let attrs = Attrs { fileid: Some(fileid), ..Attrs::default() };
        Node { fh: FileHandle(Bytes::from(fileid.to_be_bytes().to_vec())), attrs }
    }

    /// The root is 1, and the file that has this number is the root's; all others are themselves.
    #[test]
    fn the_root_changes_places() {
        let inodes = Inodes::new(&node(64));
        let numbers: Vec<u64> =
            [64, 1, 2].iter().map(|id| inodes.remember(&node(*id)).unwrap()).collect();
        assert_eq!(numbers, [1, 64, 2]);
        assert_eq!(inodes.handle(64).unwrap(), node(1).fh);
        assert_eq!(inodes.handle(ROOT).unwrap(), node(64).fh);
    }

    /// A number is known as often as the kernel was told of it; the root always.
    #[test]
    fn forgetting() {
        let inodes = Inodes::new(&node(1));
        for _ in 0..3 {
            inodes.remember(&node(7)).unwrap();
        }
        assert!(!inodes.forget(7, 2));
        inodes.handle(7).unwrap();
        assert!(inodes.forget(7, 1));
        assert!(inodes.handle(7).is_err());
        assert!(!inodes.forget(ROOT, 99));
        inodes.handle(ROOT).unwrap();
    }

    /// What belongs to another file system is refused: its numbers are not ours.
    #[test]
    fn other_file_systems() {
        let inodes = Inodes::new(&node(1));
        let mut other = node(7);
        other.attrs.fsid = Some(Fsid { major: 1, minor: 2 });
        assert_eq!(inodes.remember(&other).unwrap_err().code(), Errno::EXDEV.code());
    }

    /// A file that was not written here and has another change attribute was changed by others.
    #[test]
    fn changes_of_others() {
        let inodes = Inodes::new(&node(1));
        inodes.remember(&node(7)).unwrap();
        let start = Instant::now();
        let at = |ms| start + std::time::Duration::from_millis(ms);
        let seen = [(1, 0), (1, 1), (2, 2)].map(|(c, ms)| inodes.has_changed(7, Some(c), at(ms)));
        assert_eq!(seen, [false, false, true]);
        inodes.note_written(7, at(3));
        assert!(!inodes.has_changed(7, Some(3), at(4)), "that was us");
        assert!(inodes.has_changed(7, Some(4), at(5)) && !inodes.has_changed(8, Some(4), at(5)));
    }

    /// A handle has its number for as long as the kernel remembers it.
    #[test]
    fn numbers_of_handles() {
        let inodes = Inodes::new(&node(1));
        inodes.remember(&node(7)).unwrap();
        let known = [1, 7, 8].map(|id| inodes.number_of_handle(&node(id).fh));
        assert_eq!(known, [Some(ROOT), Some(7), None]);
        inodes.forget(7, 1);
        assert_eq!((inodes.number_of_handle(&node(7).fh), inodes.numbers()), (None, vec![ROOT]));
    }

    /// A file is found by the name that it was told by last, until the kernel forgets it or
    /// something else has the name.
    #[test]
    fn names_of_files() {
        let inodes = Inodes::new(&node(1));
        let name = |name: &'static str| Component(Bytes::from_static(name.as_bytes()));
        for number in [7, 8] {
            inodes.remember(&node(number)).unwrap();
        }
        let found = |dir, n| inodes.probably((dir, &name(n)));
        inodes.named(7, (ROOT, &name("a")));
        assert_eq!(found(ROOT, "a"), Some(node(7).fh));
        assert_eq!((found(7, "a"), found(ROOT, "b")), (None, None));
        inodes.named(7, (ROOT, &name("b")));
        assert_eq!((found(ROOT, "a"), found(ROOT, "b")), (None, Some(node(7).fh)));
        inodes.named(8, (ROOT, &name("b")));
        inodes.forget(7, 1);
        assert_eq!(found(ROOT, "b"), Some(node(8).fh), "it was replaced");
        inodes.renamed((ROOT, &name("b")), (9, &name("c")));
        assert_eq!((found(ROOT, "b"), found(9, "c")), (None, Some(node(8).fh)));
        inodes.forget(8, 1);
        assert_eq!((found(9, "c"), inodes.lock().by_name.len()), (None, 0));
    }

    /// A file whose name goes is marked, and no other one.
    #[test]
    fn removed_names() {
        let inodes = Inodes::new(&node(1));
        let name = |name: &'static str| Component(Bytes::from_static(name.as_bytes()));
        for (number, word) in [(7, "a"), (8, "b")] {
            inodes.remember(&node(number)).unwrap();
            inodes.named(number, (ROOT, &name(word)));
        }
        inodes.name_removed((ROOT, &name("a")));
        inodes.name_removed((ROOT, &name("c")));
        assert_eq!([7, 8, 9].map(|n| inodes.is_removed(&node(n).fh)), [true, false, false]);
    }

    /// The directory above is the one of the last name; the root is above itself.
    #[test]
    fn directories_above() {
        let inodes = Inodes::new(&node(1));
        let name = Component(Bytes::from_static(b"d"));
        for number in [7, 8] {
            inodes.remember(&node(number)).unwrap();
            inodes.named(number, (ROOT, &name));
        }
        assert_eq!([7, ROOT].map(|number| inodes.parent_of(number)), [ROOT; 2]);
        inodes.renamed((ROOT, &name), (7, &name));
        assert_eq!(inodes.parent_of(8), 7);
    }

    /// Pages are good for the change attribute that they were read under, and no other; and not yet
    /// while the kernel may still have those of before.
    #[test]
    fn cached_bytes() {
        let inodes = Inodes::new(&node(1));
        inodes.remember(&node(7)).unwrap();
        let start = Instant::now();
        let opens =
            [(Some(1), 0), (Some(1), 900), (Some(1), 1100), (Some(2), 2000), (Some(2), 2001)];
        let keeps = |(change, ms)| inodes.is_cached(7, change, start + Duration::from_millis(ms));
        assert_eq!(opens.map(keeps), [false, false, true, false, false]);
        assert_eq!([(None, 9000), (None, 9999)].map(keeps), [false; 2]);
    }
}
