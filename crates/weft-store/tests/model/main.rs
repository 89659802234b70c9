//! Random operations on a volume and on a reference model: every answer and every refusal must be
//! the same, and so must the whole tree, also after reopening.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;
use weft_store::engine::{Engine, KeyRange, MemoryEngine};
use weft_store::types::{
    Content, Credential, DeviceId, Inode, InodeNo, Kind, Placement, Reserved, SetIdLoss, Spread,
    StoreError, Timestamp,
};
use weft_store::volume::{
    Authority, Exclusivity, Expect, Format, New, NewFileData, Remove, Rename, SetAttr, SetMode,
    SetTime, Settle, SettleSize, StuffedExtent, StuffedWrite, Volume, VolumeConfig, XattrHow,
};

mod reference;
use reference::{Attributes, FIRST_OBJECT, Lengths, Make, Node, OBJECTS, Reference, UNIT_BYTES};

/// One request; inodes are picked among all that ever were, so that stale ones are tried too.
#[derive(Clone, Debug)]
enum Step {
    Create { dir: usize, name: usize, kind: usize, mode: u16, who: usize, how: usize },
    Link { ino: usize, dir: usize, name: usize, who: usize },
    Remove { dir: usize, name: usize, expect: usize, keep: bool, who: usize },
    Rename { from: (usize, usize), to: (usize, usize), keep: bool, who: usize },
    SetAttr { ino: usize, set: Picks, who: usize },
    Lookup { dir: usize, name: usize, who: usize },
    List { dir: usize, after: usize, who: usize },
    Place { ino: usize },
    Write { ino: usize, offset: u64, len: usize, value: u8 },
    Unstuff { ino: usize, lengths: Lengths },
    MarkUnsettled { ino: usize },
    Settle { ino: usize, size: u64, lengths: Option<Lengths>, settled: bool },
    Release { ino: usize },
    GiveUp,
    SetXattr { ino: usize, name: usize, value: u8, how: usize, who: usize },
    RemoveXattr { ino: usize, name: usize, who: usize },
    ReadXattrs { ino: usize, name: usize, who: usize },
    Reopen,
}

/// What a SetAttr sets.
#[derive(Clone, Debug)]
struct Picks {
    mode: Option<u16>,
    mask: u16,
    uid: Option<usize>,
    gid: Option<usize>,
    size: Option<u64>,
    touch: Option<bool>,
    by_open: bool,
}

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"dd", b"\xffz"];
const KINDS: [Kind; 6] =
    [Kind::File, Kind::File, Kind::Directory, Kind::Directory, Kind::Symlink, Kind::BlockDevice];
const UIDS: [u32; 4] = [0, 1000, 1001, 1002];
const GIDS: [u32; 4] = [0, 100, 200, 300];

fn credentials() -> [Credential; 4] {
    [
        Credential::superuser(),
        Credential { uid: 1000, gid: 100, gids: vec![200] },
        Credential { uid: 1001, gid: 200, gids: vec![] },
        Credential { uid: 1002, gid: 300, gids: vec![] },
    ]
}

fn modes() -> impl Strategy<Value = u16> {
    // Mostly permissive, else nothing would ever be allowed.
    prop_oneof![
        4 => Just(0o777u16),
        2 => prop::sample::select(vec![0o755, 0o1777, 0o2775, 0o6755, 0o4711]),
        2 => 0u16..0o10000,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let (ino, name, who) = (0usize..40, 0..NAMES.len(), 0usize..4);
    let picks = (
        (prop::option::of(modes()), prop::sample::select(vec![0o7777, 0o7777, 0o777, 0o6000, 0])),
        prop::option::of(0usize..4),
        prop::option::of(0usize..4),
        prop::option::of(0u64..10_000),
        any::<(Option<bool>, bool)>(),
    );
    let picks = picks.prop_map(|((mode, mask), uid, gid, size, (touch, by_open))| Picks {
        mode,
        mask,
        uid,
        gid,
        size,
        touch,
        by_open,
    });
    let place = (ino.clone(), name.clone());
    prop_oneof![
        8 => (ino.clone(), name.clone(), 0..KINDS.len(), modes(), who.clone(), 0usize..4).prop_map(
            |(dir, name, kind, mode, who, how)| Step::Create { dir, name, kind, mode, who, how }
        ),
        2 => (ino.clone(), place.clone(), who.clone())
            .prop_map(|(ino, (dir, name), who)| Step::Link { ino, dir, name, who }),
        4 => (place.clone(), 0usize..3, any::<bool>(), who.clone()).prop_map(
            |((dir, name), expect, keep, who)| Step::Remove { dir, name, expect, keep, who }
        ),
        6 => (place.clone(), place.clone(), any::<bool>(), who.clone())
            .prop_map(|(from, to, keep, who)| Step::Rename { from, to, keep, who }),
        4 => (ino.clone(), picks, who.clone())
            .prop_map(|(ino, set, who)| Step::SetAttr { ino, set, who }),
        2 => (place, who.clone())
            .prop_map(|((dir, name), who)| Step::Lookup { dir, name, who }),
        2 => (ino.clone(), 0usize..6, who.clone())
            .prop_map(|(dir, after, who)| Step::List { dir, after, who }),
        3 => (ino.clone(), name.clone(), 0u8..3, 0usize..3, who.clone()).prop_map(
            |(ino, name, value, how, who)| Step::SetXattr { ino, name, value, how, who }
        ),
        1 => (ino.clone(), name.clone(), who.clone())
            .prop_map(|(ino, name, who)| Step::RemoveXattr { ino, name, who }),
        1 => (ino.clone(), name, who)
            .prop_map(|(ino, name, who)| Step::ReadXattrs { ino, name, who }),
        1 => ino.clone().prop_map(|ino| Step::Place { ino }),
        6 => (ino.clone(), offsets(), lengths(), 1u8..9)
            .prop_map(|(ino, offset, len, value)| Step::Write { ino, offset, len, value }),
        1 => (ino.clone(), object_lengths())
            .prop_map(|(ino, lengths)| Step::Unstuff { ino, lengths }),
        1 => ino.clone().prop_map(|ino| Step::MarkUnsettled { ino }),
        3 => (ino.clone(), 0u64..10_000, prop::option::of(object_lengths()), any::<bool>())
            .prop_map(|(ino, size, lengths, settled)| {
                Step::Settle { ino, size, lengths, settled }
            }),
        1 => ino.prop_map(|ino| Step::Release { ino }),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Reopen),
    ]
}

/// Offsets in the first blocks of a small file, often at their edges.
fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), prop::sample::select(vec![8191, 8192, 16_383]), 0u64..STUFFED_LIMIT]
}

/// Lengths up to more than a block.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..10, Just(8192), 0usize..20_000]
}

/// How long the objects of a file are found to be, often at the edges of stripe units.
fn object_lengths() -> impl Strategy<Value = Lengths> {
    let edges = prop::sample::select(vec![0, UNIT_BYTES - 1, UNIT_BYTES, 3 * UNIT_BYTES]);
    prop::array::uniform3(prop_oneof![edges, 0u64..STUFFED_LIMIT])
}

/// How long a file may be that stays in the volume.
const STUFFED_LIMIT: u64 = 20_000;

/// How a file that is not kept in the volume begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creation {
    /// Without a place.
    Implicit,
    /// With one.
    Eager,
    /// With a number and a place that were reserved before.
    Precreate,
}

/// Numbers reserved at once.
const RESERVED_AT_ONCE: usize = 3;

/// Volume and model side by side; `pairs` maps every inode ever made to its node.
struct Pair {
    engine: Arc<dyn Engine>,
    volume: Option<Volume>,
    model: Reference,
    pairs: Vec<(InodeNo, u64)>,
    changes: BTreeMap<InodeNo, u64>,
    clock: i64,
    creation: Creation,
    stuffing: bool,
    /// Reserved and not used yet, in order.
    pool: Vec<Reserved>,
}

impl Pair {
    fn new(creation: Creation, stuffing: bool) -> Self {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let volume = Some(open(&engine));
        let pairs = vec![(InodeNo::ROOT, 1)];
        let (model, changes) = (Reference::new(), BTreeMap::new());
        let pool = Vec::new();
        Self { engine, volume, model, pairs, changes, clock: 0, creation, stuffing, pool }
    }

    fn pick(&self, index: usize) -> (InodeNo, u64) {
        // Recent inodes are the interesting ones; the root comes often too.
        self.pairs[index % self.pairs.len()]
    }

    fn run(&mut self, step: &Step) {
        self.clock += 1;
        match step.clone() {
            Step::Create { dir, name, kind, mode, who, how } => {
                self.create(dir, NAMES[name], KINDS[kind], mode, (who, how));
            }
            Step::Reopen => {
                self.volume = None;
                self.volume = Some(open(&self.engine));
                let reserved = self.volume().reserved(None, usize::MAX).value;
                assert_eq!(reserved, Ok(self.pool.clone()));
            }
            Step::GiveUp => self.give_up(),
            Step::List { dir, after, who } => self.list(dir, after, who),
            Step::Rename { from, to, keep, who } => self.rename(from, to, keep, who),
            Step::SetAttr { ino, set, who } => self.setattr(ino, &set, who),
            Step::SetXattr { ino, name, value, how, who } => {
                let how = [XattrHow::Either, XattrHow::Create, XattrHow::Replace][how];
                self.set_xattr(ino, (NAMES[name], &vec![value; value.into()]), how, who);
            }
            Step::RemoveXattr { ino, name, who } => self.remove_xattr(ino, NAMES[name], who),
            Step::ReadXattrs { ino, name, who } => self.read_xattrs(ino, NAMES[name], who),
            other => self.simple(other),
        }
    }

    fn simple(&mut self, step: Step) {
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let volume = self.volume.clone().unwrap();
        let creds = credentials();
        match step {
            Step::Link { ino, dir, name, who } => {
                let ((v_ino, m_ino), (v_dir, m_dir)) = (self.pick(ino), self.pick(dir));
                let found = volume.link(v_ino, v_dir, NAMES[name], &creds[who], now).value;
                let wanted = self.model.link(m_ino, m_dir, NAMES[name], &creds[who]);
                self.same(found.map(|linked| linked.inode), wanted);
            }
            Step::Remove { dir, name, expect, keep, who } => {
                let ((v_dir, m_dir), name) = (self.pick(dir), NAMES[name]);
                let expect = [None, Some(Expect::Directory), Some(Expect::NonDirectory)][expect];
                let what = Remove { dir: v_dir, name, expect, keep_orphan: keep };
                let found = volume.remove(&what, &creds[who], now).value;
                let wanted = self.model.remove(m_dir, name, expect, keep, &creds[who]);
                assert_eq!(found.as_ref().err(), wanted.as_ref().err());
            }
            Step::Lookup { dir, name, who } => {
                let (v_dir, m_dir) = self.pick(dir);
                let found = volume.lookup(v_dir, NAMES[name], &creds[who]).value;
                let wanted = self.model.lookup(m_dir, NAMES[name], &creds[who]);
                self.same(found, wanted);
            }
            Step::Place { ino } => {
                let (v_ino, m_ino) = self.pick(ino);
                let wanted = self.model.place(m_ino);
                self.same(volume.place(v_ino, placement()).value, wanted);
            }
            Step::Write { ino, offset, len, value } => {
                let (v_ino, m_ino) = self.pick(ino);
                let data = vec![value; len];
                let limit = STUFFED_LIMIT;
                let write =
                    StuffedWrite { offset, data: &data, limit, set_id_loss: SetIdLoss::All };
                let found = volume.write_stuffed(v_ino, &write, now).value;
                let wanted = self.model.write(m_ino, offset, &data, limit);
                assert_eq!(found.as_ref().map(Option::is_some), wanted.as_ref().copied());
                if let Ok(Some(inode)) = found {
                    self.same(Ok(inode), Ok(m_ino));
                    self.same_data(v_ino, m_ino);
                }
            }
            Step::Unstuff { ino, lengths } => {
                let (v_ino, m_ino) = self.pick(ino);
                let wanted = self.model.unstuff(m_ino, &lengths);
                if wanted.is_ok() {
                    assert!(volume.unstuff(v_ino, &lengths).value.is_ok());
                    assert_eq!(volume.read_stuffed(v_ino, 0, 1).value, Ok(None));
                    assert_eq!(volume.seek_stuffed(v_ino, Content::Data, 0).value, Ok(None));
                    assert_eq!(volume.extent_stuffed(v_ino, 0, 1).value, Ok(None));
                }
                self.same(volume.unstuff(v_ino, &[]).value, wanted);
            }
            Step::MarkUnsettled { ino } => {
                let (v_ino, m_ino) = self.pick(ino);
                let wanted = self.model.mark_unsettled(m_ino);
                self.same(volume.mark_unsettled(v_ino).value, wanted);
            }
            Step::Settle { ino, size, lengths, settled } => {
                let (v_ino, m_ino) = self.pick(ino);
                let size_known = SettleSize::AtLeast(size);
                let learned = Settle {
                    size: size_known,
                    mtime: None,
                    settled,
                    touched: false,
                    occupied: settled.then_some(size),
                    set_id_loss: SetIdLoss::Nothing,
                };
                let wanted = self.model.settle(m_ino, size, &lengths.unwrap_or_default(), settled);
                let found = match lengths {
                    Some(lengths) => volume.settle_lengths(v_ino, &learned, &lengths, now),
                    None => volume.settle(v_ino, &learned, now),
                };
                self.same(found.value, wanted);
            }
            Step::Release { ino } => {
                let (v_ino, m_ino) = self.pick(ino);
                let found = volume.release_orphan(v_ino, now).value.map(|_| ());
                assert_eq!(found, self.model.release(m_ino));
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn create(
        &mut self,
        dir: usize,
        name: &[u8],
        kind: Kind,
        mode: u16,
        (who, how): (usize, usize),
    ) {
        let cred = &credentials()[who];
        let (v_dir, m_dir) = self.pick(dir);
        let how = [
            Exclusivity::Unchecked,
            Exclusivity::Guarded,
            Exclusivity::Exclusive([1; 8]),
            Exclusivity::Exclusive([2; 8]),
        ][how];
        let target = if kind == Kind::Symlink { "target".into() } else { "".into() };
        // With stuffing most files are small ones, but not all.
        let stuffed = self.stuffing && kind == Kind::File && !name.starts_with(b"a");
        let data = match kind {
            Kind::File if stuffed => NewFileData::Stuffed,
            Kind::File => self.data_elsewhere(),
            _ => NewFileData::Later,
        };
        let new = New { target, data, ..New::of(kind, mode, how) };
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let found = self.volume().create(v_dir, name, &new, cred, now).value;
        let (guarded, verifier) = match how {
            Exclusivity::Unchecked => (false, None),
            Exclusivity::Guarded => (true, None),
            Exclusivity::Exclusive(verifier) => (true, Some(verifier)),
        };
        let placed = matches!(data, NewFileData::On(_) | NewFileData::Reserved(_));
        let make = Make { kind, mode, cred, guarded, placed, stuffed, verifier };
        let before = self.model.next;
        let wanted = self.model.create(m_dir, name, &make);
        if let (Ok(found), Ok((no, created))) = (&found, &wanted) {
            assert_eq!(found.created, *created);
            let changed = found.dir_change.before != found.dir_change.after;
            assert_eq!(changed, self.model.next > before);
            if self.model.next > before {
                self.pairs.push((found.inode.no, *no));
                if let NewFileData::Reserved(reserved) = data {
                    assert_eq!(found.inode.no, reserved.ino);
                    assert_eq!(self.pool.remove(0), reserved);
                }
            }
        }
        self.same(found.map(|made| made.inode), wanted.map(|(no, _)| no));
    }

    /// Where a file begins that is not kept in the volume.
    fn data_elsewhere(&mut self) -> NewFileData {
        match self.creation {
            Creation::Implicit => NewFileData::Later,
            Creation::Eager => NewFileData::On(placement()),
            Creation::Precreate => {
                if self.pool.is_empty() {
                    let places = [placement(); RESERVED_AT_ONCE];
                    self.pool = self.volume().reserve(&places).value.unwrap();
                }
                NewFileData::Reserved(self.pool[0])
            }
        }
    }

    /// A reserved number is given up, once: no file gets it any more.
    fn give_up(&mut self) {
        let Some(last) = self.pool.pop() else { return };
        let owed = self.volume().give_up_reserved(last.ino).value.unwrap().unwrap();
        assert_eq!((owed.ino, owed.placement, owed.fence_epoch), (last.ino, placement(), 0));
        self.model.owed += 1;
        assert_eq!(self.volume().give_up_reserved(last.ino).value, Ok(None));
        let late = NewFileData::Reserved(last);
        let new = New { data: late, ..New::of(Kind::File, 0, Exclusivity::Guarded) };
        let (root, now) = (Credential::superuser(), Timestamp::default());
        let refused = self.volume().create(InodeNo::ROOT, b"late", &new, &root, now).value;
        assert_eq!(refused, Err(StoreError::Invalid));
    }

    fn rename(&mut self, from: (usize, usize), to: (usize, usize), keep: bool, who: usize) {
        let cred = &credentials()[who];
        let ((v_from, m_from), (v_to, m_to)) = (self.pick(from.0), self.pick(to.0));
        let (from_name, to_name) = (NAMES[from.1], NAMES[to.1]);
        let (from_dir, to_dir, expect) = (v_from, v_to, None);
        let what = Rename { from_dir, from_name, to_dir, to_name, expect, keep_orphan: keep };
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let found = self.volume().rename(&what, cred, now).value;
        let wanted = self.model.rename((m_from, from_name), (m_to, to_name), keep, cred);
        assert_eq!(found.as_ref().err(), wanted.as_ref().err());
        if let Ok(no) = wanted {
            let moved = self.pairs.iter().find(|(_, model)| *model == no).unwrap().0;
            let inode = self.volume().inode(moved).value;
            self.same(inode, Ok(no));
        }
    }

    fn setattr(&mut self, ino: usize, picks: &Picks, who: usize) {
        let cred = &credentials()[who];
        let (v_ino, m_ino) = self.pick(ino);
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let mode = picks.mode.map(|bits| SetMode { bits, mask: picks.mask });
        let (uid, gid) = (picks.uid.map(|uid| UIDS[uid]), picks.gid.map(|gid| GIDS[gid]));
        let touch = picks.touch.map(|own| if own { SetTime::Client(now) } else { SetTime::Server });
        let set =
            SetAttr { mode, acl: None, uid, gid, size: picks.size, atime: None, mtime: touch };
        let by = if picks.by_open { Authority::ByOpenForWrite } else { Authority::ByPermission };
        let found = self.volume().setattr(v_ino, &set, by, cred, now).value;
        let attributes = Attributes {
            mode: picks.mode,
            mask: picks.mask,
            uid,
            gid,
            size: picks.size,
            touch: picks.touch,
            by_open: picks.by_open,
        };
        let wanted = self.model.setattr(m_ino, &attributes, cred);
        self.same(found.map(|set| set.inode), wanted);
    }

    fn set_xattr(&mut self, ino: usize, named: (&[u8], &[u8]), how: XattrHow, who: usize) {
        let cred = &credentials()[who];
        let (v_ino, m_ino) = self.pick(ino);
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let found = self.volume().xattr_set(v_ino, named, how, cred, now).value;
        let wanted = self.model.xattr_set(m_ino, named, how, cred);
        assert_eq!(found.map(|change| assert!(change.after > change.before)), wanted);
    }

    fn remove_xattr(&mut self, ino: usize, name: &[u8], who: usize) {
        let cred = &credentials()[who];
        let (v_ino, m_ino) = self.pick(ino);
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let found = self.volume().xattr_remove(v_ino, name, cred, now).value;
        let wanted = self.model.xattr_remove(m_ino, name, cred);
        assert_eq!(found.map(|change| assert!(change.after > change.before)), wanted);
    }

    /// One value, and the list both whole and from the middle.
    fn read_xattrs(&mut self, ino: usize, name: &[u8], who: usize) {
        let cred = &credentials()[who];
        let (v_ino, m_ino) = self.pick(ino);
        let found = self.volume().xattr_get(v_ino, name, cred).value;
        assert_eq!(found.map(|value| value.to_vec()), self.model.xattr_get(m_ino, name, cred));
        let found = self.volume().xattr_list(v_ino, 0, cred).value;
        let names = found.clone().map(|all| all.iter().map(|e| e.name.to_vec()).collect());
        assert_eq!(names, self.model.xattr_list(m_ino, cred));
        if let Some(first) = found.ok().as_ref().and_then(|all| all.first()) {
            let rest = self.volume().xattr_list(v_ino, first.cookie, cred).value.unwrap();
            let wanted = self.model.xattr_list(m_ino, cred).unwrap();
            assert_eq!(rest.len() + 1, wanted.len());
        }
    }

    /// Lists from the cookie of the entry at `after`, and compares the rest.
    fn list(&mut self, dir: usize, after: usize, who: usize) {
        let cred = &credentials()[who];
        let (v_dir, m_dir) = self.pick(dir);
        let volume = self.volume();
        let mut cookie = 0;
        let mut left = after;
        let stop = |entry: weft_store::volume::DirEntry<'_>| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            cookie = entry.cookie;
            ControlFlow::Continue(())
        };
        let first = volume.readdir(v_dir, 0, cred, stop).value;
        let mut names = Vec::new();
        let collect = |entry: weft_store::volume::DirEntry<'_>| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        };
        let rest = volume.readdir(v_dir, cookie, cred, collect).value;
        let wanted = self.model.list(m_dir, cred);
        assert_eq!(rest.as_ref().err(), wanted.as_ref().err());
        if let Ok(wanted) = wanted {
            assert_eq!(first, Ok(wanted.len() <= after));
            let wanted: Vec<_> = wanted.into_iter().skip(after).map(|(name, _)| name).collect();
            assert_eq!((rest, names), (Ok(true), wanted));
        }
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().unwrap()
    }

    /// Both refused alike, or both have the same inode; its change attribute never went back.
    fn same(&mut self, found: Result<Inode, StoreError>, wanted: Result<u64, StoreError>) {
        match (found, wanted) {
            (Ok(inode), Ok(no)) => {
                assert!(self.pairs.contains(&(inode.no, no)), "another inode");
                self.same_inode(&inode, no);
            }
            (found, wanted) => assert_eq!(found.err(), wanted.err()),
        }
    }

    fn same_inode(&mut self, inode: &Inode, no: u64) {
        let node = &self.model.nodes[&no];
        let parent = self.pairs.iter().find(|(found, _)| *found == inode.parent);
        let found = Node {
            kind: inode.kind,
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            nlink: inode.nlink,
            size: inode.size,
            parent: parent.map_or(0, |(_, model)| *model),
            entries: node.entries.clone(),
            orphan: inode.nlink == 0,
            placed: inode.placement.is_some(),
            unsettled: inode.unsettled,
            occupied: inode.occupied,
            lengths_min: bounds(inode),
            stuffed: inode.stuffed,
            data: node.data.clone(),
            blocks: node.blocks.clone(),
            verifier: inode.create_verifier,
            xattrs: node.xattrs.clone(),
        };
        assert_eq!(&found, node);
        assert_eq!(inode.has_xattrs, !node.xattrs.is_empty());
        assert_eq!(inode.entries, node.entries.len() as u64);
        let before = self.changes.insert(inode.no, inode.change);
        assert!(before.is_none_or(|before| before <= inode.change), "change went back");
    }

    /// The bytes of a small file, whole and in part, and where its data and holes are told.
    fn same_data(&mut self, ino: InodeNo, no: u64) {
        let volume = self.volume().clone();
        let node = &self.model.nodes[&no];
        let mut wanted = node.data.clone();
        wanted.resize(usize::try_from(node.size).unwrap(), 0);
        for (offset, len) in [(0, u64::MAX), (8000, 9000), (node.size, 1)] {
            let (inode, found) = volume.read_stuffed(ino, offset, len).value.unwrap().unwrap();
            assert_eq!(inode.size, node.size);
            let from = wanted.len().min(usize::try_from(offset).unwrap());
            let until = from + usize::try_from(len).unwrap().min(wanted.len() - from);
            assert!(found == wanted[from..until], "bytes from {offset}");
        }
        // What is told to be a hole reads as zeros, and everything else is told to be data.
        let mut at = 0;
        while at < node.size {
            let data = volume.seek_stuffed(ino, Content::Data, at).value.unwrap().unwrap().found;
            let until = data.unwrap_or(node.size);
            let hole = &wanted[usize::try_from(at).unwrap()..usize::try_from(until).unwrap()];
            assert!(hole.iter().all(|byte| *byte == 0), "a hole with data from {at}");
            let Some(data) = data else { break };
            let hole = volume.seek_stuffed(ino, Content::Hole, data).value.unwrap().unwrap().found;
            at = hole.unwrap_or(node.size);
            assert!(at > data);
        }
        // Put together, its extents are the file, and behind it there is a hole.
        let (mut glued, end) = (Vec::new(), node.size + 100);
        while (glued.len() as u64) < end {
            let at = glued.len() as u64;
            match volume.extent_stuffed(ino, at, end - at).value.unwrap().unwrap() {
                StuffedExtent::Data(bytes) => glued.extend_from_slice(&bytes),
                StuffedExtent::Hole(len) => {
                    assert!(len > 0);
                    glued.resize(glued.len() + usize::try_from(len).unwrap(), 0);
                }
            }
        }
        wanted.resize(glued.len(), 0);
        assert!(glued == wanted && glued.len() as u64 == end, "extents");
    }

    /// Blocks of small files are exactly those of the inodes there are: `weft fsck` finds nothing.
    fn no_stray_blocks(&mut self) {
        let found = self.volume().fsck().unwrap();
        // The device of these placements was never recorded.
        let findings: Vec<_> =
            found.findings.iter().filter(|f| !f.contains("device is unknown")).collect();
        assert_eq!(findings, Vec::<&String>::new());
    }

    /// Records of extended attributes are exactly those of the inodes there are.
    fn no_stray_xattrs(&mut self) {
        const XATTR_NAMES: u8 = 0x09;
        const BEYOND: u8 = 0x0b;
        // Once the volume is closed everything is in the engine.
        self.volume = None;
        let (mut lists, mut values) = (0, 0);
        let range = KeyRange { from: &[XATTR_NAMES], until: Some(&[BEYOND]) };
        let count = &mut |key: &[u8], _: &[u8]| {
            *(if key[0] == XATTR_NAMES { &mut lists } else { &mut values }) += 1;
            ControlFlow::Continue(())
        };
        self.engine.scan(range, count).unwrap();
        self.volume = Some(open(&self.engine));
        let nodes = self.model.nodes.values();
        let counts: Vec<_> = nodes.map(|node| node.xattrs.len()).filter(|n| *n > 0).collect();
        assert_eq!((lists, values), (counts.len(), counts.iter().sum()));
    }

    /// The whole of both: every node, every listing, orphans, intents and counts.
    fn same_tree(&mut self) {
        let volume = self.volume().clone();
        for (ino, no) in self.pairs.clone() {
            let found = volume.inode(ino).value;
            let wanted =
                if self.model.nodes.contains_key(&no) { Ok(no) } else { Err(StoreError::Stale) };
            self.same(found, wanted);
            if self.model.nodes.get(&no).is_some_and(|node| node.stuffed) {
                self.same_data(ino, no);
            }
        }
        for index in 0..self.pairs.len() {
            self.list(index, 0, 0);
            NAMES.iter().for_each(|name| self.read_xattrs(index, name, 0));
        }
        let orphans = self.model.nodes.values().filter(|node| node.orphan).count();
        assert_eq!(volume.orphans(None, usize::MAX).value.unwrap().len(), orphans);
        assert_eq!(volume.intents(None, usize::MAX).value.unwrap().len(), self.model.owed);
        let stats = volume.stats().value.unwrap();
        assert_eq!(stats.inodes, self.model.nodes.len() as u64);
    }
}

fn open(engine: &Arc<dyn Engine>) -> Volume {
    let format = Format { root_mode: 0o1777, ..Format::default() };
    // A small cache, so that eviction happens.
    let config = VolumeConfig { format, cache_bytes: 8192, ..VolumeConfig::default() };
    Volume::with_engine(Arc::clone(engine), &config).unwrap()
}

fn placement() -> Placement {
    Placement {
        device: DeviceId([3; 16]),
        stripe_unit_bytes: u32::try_from(UNIT_BYTES).unwrap(),
        stripe_count: u16::try_from(OBJECTS).unwrap(),
        first_stripe_index: u16::try_from(FIRST_OBJECT).unwrap(),
        reach: u16::try_from(OBJECTS).unwrap(),
        spread: Spread::InTurn,
    }
}

/// How long each object of a file is at least, as far as the volume knows.
fn bounds(inode: &Inode) -> Lengths {
    let Some(place) = &inode.placement else {
        assert!(inode.bounds.is_none(), "bounds of objects that are nowhere");
        return Lengths::default();
    };
    std::array::from_fn(|index| inode.bounds.of(place, index))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_volume_answers_like_the_model(history in prop::collection::vec(steps(), 1..120)) {
        // Every answer, refusals included, equals the model's; so does the whole tree at the end,
        // before and after reopening, however files begin. The commit thread runs meanwhile, so
        // that reads hit the overlay, the cache and the engine in every mixture.
        for creation in [Creation::Implicit, Creation::Eager, Creation::Precreate] {
            for stuffing in [true, false] {
                let mut pair = Pair::new(creation, stuffing);
                for step in &history {
                    pair.run(step);
                }
                pair.same_tree();
                pair.run(&Step::Reopen);
                pair.same_tree();
                pair.no_stray_xattrs();
                pair.no_stray_blocks();
            }
        }
    }
}
