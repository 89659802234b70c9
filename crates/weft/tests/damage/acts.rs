//! What happens to the objects of data servers that are down, by chance.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use weft_dev::SeededRng;
use weft_store::objects::{ObjectId, ObjectStore, ObjectStoreOptions};

use super::support::pattern;
use super::volume::{Layout, Object, path_of};

/// An object that has no reason to be there: data server, volume, number.
pub type Stray = (u32, u32, u64);

/// What was done, and how to undo it.
pub struct Damage {
    /// Each act in words.
    pub told: Vec<String>,
    /// Objects that were added.
    pub strays: BTreeSet<Stray>,
    /// Those that are in the wrong directory of their data server.
    pub misplaced: BTreeSet<Stray>,
    /// Objects whose fence is of an epoch that the volume does not know.
    pub fenced: BTreeSet<(u32, u64)>,
    /// Files as they were; none where there was none.
    before: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Damage {
    /// Damages some objects of a layout.
    pub fn new(layout: &Layout, random: &mut SeededRng) -> Self {
        let mut damage = Damage {
            told: Vec::new(),
            strays: BTreeSet::new(),
            misplaced: BTreeSet::new(),
            fenced: BTreeSet::new(),
            before: BTreeMap::new(),
        };
        let there = |object: &&Object| object.len() > 0;
        let objects: Vec<Object> = layout.objects.iter().filter(there).cloned().collect();
        for _ in 0..2 + random.below(6) {
            match random.choose(&objects) {
                Some(object) => damage.one(layout, &objects, &object, random),
                None => damage.add(layout, random),
            }
        }
        damage
    }

    /// What an object was before.
    pub fn before(&self, object: &Object) -> Vec<u8> {
        match self.before.get(&object.path()) {
            Some(was) => was.clone().unwrap_or_default(),
            None => fs::read(object.path()).unwrap_or_default(),
        }
    }

    /// Puts everything back.
    pub fn undo(self) {
        for (path, was) in self.before {
            match was {
                Some(bytes) => fs::write(&path, bytes).expect("to put it back"),
                None => drop(fs::remove_file(&path)),
            }
        }
    }

    fn one(&mut self, layout: &Layout, all: &[Object], object: &Object, random: &mut SeededRng) {
        let path = object.path();
        self.keep(&path);
        // It may have been removed by an act before.
        let bytes = fs::read(&path).unwrap_or_default();
        let act = random.below(13);
        let what = match act {
            0 => self.replace(&path, None),
            1 => self.replace(&path, Some(&bytes[..random.index(bytes.len() + 1)])),
            2 => self.replace(&path, Some(&bytes[..bytes.len().saturating_sub(1)])),
            3 => self.replace(&path, Some(&[])),
            4 => self.lengthen(object, bytes, random),
            5 | 6 => {
                let other = random.choose(all).expect("objects");
                let bytes = fs::read(other.path()).unwrap_or_default();
                self.replace(&path, Some(&bytes));
                format!("has the bytes of {} of data server {}", other.number, other.data_server)
            }
            7 => self.misplace(object, &bytes, random),
            8 => self.move_over(layout, object, &bytes, random),
            9 => self.give_away(object, &bytes, random),
            10 => self.fence(object),
            11 => self.directory(all, object),
            _ => return self.add(layout, random),
        };
        let Object { number, data_server, .. } = object;
        self.told.push(format!("object {number} of data server {data_server} {what}"));
    }

    /// Remembers a file as it was.
    fn keep(&mut self, path: &Path) {
        let was = fs::read(path).ok();
        self.before.entry(path.to_owned()).or_insert(was);
    }

    fn replace(&mut self, path: &Path, bytes: Option<&[u8]>) -> String {
        self.keep(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        match bytes {
            Some(bytes) => fs::write(path, bytes).expect("damage"),
            None => drop(fs::remove_file(path)),
        }
        format!("has {:?} bytes", bytes.map(<[u8]>::len))
    }

    /// Zeros up to the end of the file, and anything behind it: an object may have been longer than
    /// the volume knows, so that bytes of one in the middle of a file are as good as changed ones.
    fn lengthen(&mut self, object: &Object, mut bytes: Vec<u8>, random: &mut SeededRng) -> String {
        let more = 1 + random.index(3 << 20);
        let zeros = (object.size as usize).saturating_sub(bytes.len()).min(more);
        bytes.resize(bytes.len() + zeros, 0);
        bytes.extend(pattern(random.draw(), more - zeros));
        self.replace(&object.path(), Some(&bytes))
    }

    /// To a directory of the same data server where it does not belong; once, so that it is told
    /// from others.
    fn misplace(&mut self, object: &Object, bytes: &[u8], random: &mut SeededRng) -> String {
        if !self.misplaced.insert((object.data_server, object.volume, object.number)) {
            return "stays".into();
        }
        let like = object.number ^ (1 + random.below(0xffff)) << 8;
        let to = path_of(&object.dir, (object.volume, object.number), like);
        self.replace(&object.path(), None);
        self.replace(&to, Some(bytes));
        format!("is in {}", to.display())
    }

    /// To the same place of another data server.
    fn move_over(
        &mut self,
        layout: &Layout,
        object: &Object,
        bytes: &[u8],
        random: &mut SeededRng,
    ) -> String {
        let others = layout.dirs.keys().copied().filter(|id| *id != object.data_server);
        let id = random.choose(&others.collect::<Vec<_>>()).expect("data servers");
        let to = path_of(&layout.dirs[&id], (object.volume, object.number), object.number);
        self.replace(&object.path(), None);
        self.replace(&to, Some(bytes));
        let of_file = |o: &Object| (o.data_server, o.number) == (id, object.number);
        if !layout.objects.iter().any(of_file) {
            self.strays.insert((id, object.volume, object.number));
        }
        format!("is on data server {id}")
    }

    /// Under the name of another volume, which it had or not.
    fn give_away(&mut self, object: &Object, bytes: &[u8], random: &mut SeededRng) -> String {
        let volume = object.volume ^ (1 + random.below(0xffff) as u32);
        let to = path_of(&object.dir, (volume, object.number), object.number);
        if random.one_in(2) {
            self.replace(&object.path(), None);
        }
        self.replace(&to, Some(bytes));
        self.strays.insert((object.data_server, volume, object.number));
        format!("is of volume {volume:08x}")
    }

    /// With all others of its directory it is gone.
    fn directory(&mut self, all: &[Object], object: &Object) -> String {
        let of = |object: &Object| object.path().parent().map(Path::to_owned);
        for other in all.iter().filter(|other| of(other) == of(object)) {
            self.replace(&other.path(), None);
        }
        "is gone with its directory".into()
    }

    /// As if the volume were older than its data servers.
    fn fence(&mut self, object: &Object) -> String {
        self.keep(&object.dir.join("fences.log"));
        let store = ObjectStore::open(&object.dir, &ObjectStoreOptions::default());
        let id = ObjectId { volume: object.volume, object: object.number };
        let epoch = object.epoch + 1;
        store.expect("a data server").fence(id, epoch).expect("a fence");
        self.fenced.insert((object.data_server, object.number));
        format!("is fenced at {epoch}")
    }

    /// An object of no file.
    fn add(&mut self, layout: &Layout, random: &mut SeededRng) {
        let id = 1 + random.below(layout.dirs.len() as u64) as u32;
        let number = (1 << 40) + random.below(1 << 20);
        let path = path_of(&layout.dirs[&id], (layout.volume, number), number);
        let bytes = pattern(number, random.index(5000));
        self.replace(&path, Some(&bytes));
        self.strays.insert((id, layout.volume, number));
        self.told.push(format!("object {number} of data server {id} is nobody's"));
    }
}
