//! Where the bytes of files are, as the volume of servers that are down has it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use weft_store::engine;
use weft_store::types::{Credential, Inode, InodeNo, Placement};
use weft_store::volume::{Volume, VolumeConfig};

use super::model::{FileNo, Model};

/// An object that a file may have.
#[derive(Clone, Debug)]
pub struct Object {
    pub file: FileNo,
    /// The file's inode.
    pub number: u64,
    /// Bytes of the file.
    pub size: u64,
    pub data_server: u32,
    pub stripe_index: u64,
    pub place: Placement,
    pub epoch: u32,
    /// How long it is at least, by the volume.
    pub bound: u64,
    /// Of the data server.
    pub dir: PathBuf,
    pub volume: u32,
}

impl Object {
    /// Its file on the data server.
    pub fn path(&self) -> PathBuf {
        path_of(&self.dir, (self.volume, self.number), self.number)
    }

    pub fn len(&self) -> u64 {
        self.path().metadata().map_or(0, |facts| facts.len())
    }

    /// Whether a byte of the file is in it: round robin, with the file's own offsets.
    pub fn owns(&self, offset: u64) -> bool {
        let Placement { stripe_unit_bytes, stripe_count, first_stripe_index, .. } = self.place;
        let unit = offset / u64::from(stripe_unit_bytes);
        (u64::from(first_stripe_index) + unit) % u64::from(stripe_count) == self.stripe_index
    }

    /// It is as long as the volume says, and what lies behind that is a hole.
    fn is_known(&self, file: &[u8], name: &str) {
        let Object { bound, data_server, .. } = self;
        assert!(*bound <= self.len(), "{name} at {data_server}: {bound} of {}", self.len());
        let behind = self.parts(*bound..file.len() as u64).into_iter();
        let data = behind.flatten().find(|at| file[*at] != 0);
        assert_eq!(data, None, "{name} has bytes behind {bound} at {data_server}");
    }

    /// The parts of a range that are in it.
    pub fn parts(&self, range: Range<u64>) -> Vec<Range<usize>> {
        let unit = u64::from(self.place.stripe_unit_bytes);
        let (mut at, mut parts) = (range.start, Vec::new());
        while at < range.end {
            let until = range.end.min((at / unit + 1) * unit);
            if self.owns(at) {
                parts.push(at as usize..until as usize);
            }
            at = until;
        }
        parts
    }

    /// The end of the last byte of the file in an object of this length.
    pub fn end(&self, len: u64) -> u64 {
        let unit = u64::from(self.place.stripe_unit_bytes);
        let mut end = len;
        while end > 0 && !self.owns(end - 1) {
            end = (end - 1) / unit * unit;
        }
        end
    }
}

/// The file of an object in the directory where `like` belongs.
pub fn path_of(dir: &Path, (volume, number): (u32, u64), like: u64) -> PathBuf {
    let (outer, inner) = (like >> 16 & 0xff, like >> 8 & 0xff);
    dir.join(format!("objects/{outer:02x}/{inner:02x}/{volume:08x}-{number:016x}"))
}

/// All files of the model.
pub struct Layout {
    pub volume: u32,
    pub dirs: BTreeMap<u32, PathBuf>,
    /// Of all files on data servers; some may not have been made.
    pub objects: Vec<Object>,
    /// The inode of each file that has a name.
    pub numbers: BTreeMap<FileNo, u64>,
}

impl Layout {
    pub fn of(data: &Path, model: &Model) -> Self {
        let dir = data.join("mds/volume");
        let engine = engine::kind_of(&dir).expect("a volume");
        let config = VolumeConfig { engine, ..VolumeConfig::default() };
        let volume = Volume::open(&dir, &config).expect("a volume");
        let devices = volume.devices().unconfirmed().expect("devices");
        let number = volume.identity().number;
        let mut layout = Layout {
            volume: number,
            dirs: (1..=3).map(|id| (id, data.join(format!("ds-{id}")))).collect(),
            objects: Vec::new(),
            numbers: BTreeMap::new(),
        };
        for (file, names) in model.named() {
            let inode = find(&volume, &names[0]);
            assert!(!inode.unsettled, "{names:?} did not settle");
            assert_eq!(inode.size, model.files[file].len() as u64, "{names:?}");
            layout.numbers.insert(file, inode.no.0);
            let Some(place) = inode.placement else { continue };
            let device = devices.iter().find(|device| device.id == place.device);
            for (index, id) in (0..).zip(&device.expect("its device").data_servers) {
                let object = Object {
                    file,
                    number: inode.no.0,
                    size: inode.size,
                    data_server: id.0,
                    stripe_index: index,
                    place,
                    epoch: inode.fence_epoch,
                    bound: inode.bounds.of(&place, index as usize),
                    dir: layout.dirs[&id.0].clone(),
                    volume: number,
                };
                object.is_known(&model.files[file], &names[0]);
                layout.objects.push(object);
            }
        }
        layout
    }
}

fn find(volume: &Volume, path: &str) -> Inode {
    let root = Credential::superuser();
    let mut at = volume.inode(InodeNo::ROOT).unconfirmed().expect("a root");
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = volume.lookup(at.no, name.as_bytes(), &root).unconfirmed().expect("a name");
    }
    at
}
