//! What has to be found, and what every byte of the files is now: worked out from the objects as
//! they were and are, and from what the model says of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::acts::{Damage, Stray};
use super::model::{FileNo, Model};
use super::volume::{Layout, Object};

/// What is wrong with an object of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Lost,
    Fenced,
    TooLong,
}

/// What a byte of a file reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    Right,
    Lost,
    /// Another one took its place, in an object that is as long as ever or longer.
    Changed,
}

#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// By inode and data server.
    pub faults: BTreeMap<(u64, u32), Fault>,
    /// The same as servers that run can tell.
    online: BTreeMap<(u64, u32), Fault>,
    pub strays: BTreeSet<Stray>,
    /// The names that each file may be told by.
    pub names: BTreeMap<u64, Vec<String>>,
    /// Of files some of whose bytes are not as they were.
    pub bytes: BTreeMap<FileNo, Vec<Byte>>,
    /// Files some of whose handles are refused.
    pub fenced: BTreeSet<FileNo>,
}

impl Expected {
    pub fn of(layout: &Layout, model: &Model, damage: &Damage) -> Self {
        let mut expected = Expected::default();
        for (file, names) in model.named() {
            expected.names.insert(layout.numbers[&file], names);
        }
        expected.strays = damage.strays.union(&damage.misplaced).copied().collect();
        for object in &layout.objects {
            expected.object(object, &model.files[object.file], damage);
        }
        expected
    }

    fn object(&mut self, object: &Object, file: &[u8], damage: &Damage) {
        let (before, after) = (damage.before(object), fs::read(object.path()).unwrap_or_default());
        let is_fenced = damage.fenced.contains(&(object.data_server, object.number));
        let is_lost = (after.len() as u64) < object.bound;
        let is_long = object.end(after.len() as u64) > object.size;
        let faults =
            [(is_lost, Fault::Lost), (is_fenced, Fault::Fenced), (is_long, Fault::TooLong)];
        let name = (object.number, object.data_server);
        let mut found = faults.into_iter().filter(|(is, _)| *is).map(|(_, fault)| fault);
        // One is told of each object, the first.
        self.faults.extend(found.clone().next().map(|fault| (name, fault)));
        let online = found.find(|fault| *fault != Fault::Fenced);
        self.online.extend(online.map(|fault| (name, fault)));
        if is_fenced {
            self.fenced.insert(object.file);
        }
        if after == before {
            return;
        }
        let all_right = || vec![Byte::Right; file.len()];
        let bytes = self.bytes.entry(object.file).or_insert_with(all_right);
        let kept = after.len().min(file.len());
        for part in object.parts(0..kept as u64) {
            for at in part {
                if after[at] != file[at] {
                    bytes[at] = Byte::Changed;
                }
            }
        }
        for part in object.parts(after.len() as u64..object.bound) {
            bytes[part].fill(Byte::Lost);
        }
    }

    /// What servers that run can tell: neither epochs, nor what is in no data server's way.
    pub fn online(&self, damage: &Damage) -> Self {
        let mut online = self.clone();
        online.faults.clone_from(&self.online);
        online.strays.clone_from(&damage.strays);
        online
    }
}
