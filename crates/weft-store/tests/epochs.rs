//! What a volume says of a file's handles and what its data servers make of that, together: whose
//! handle has ended does nothing, and whose has not goes on, whoever was told and whoever not
//! (ADR 5, ADR 24).

use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use weft_store::{
    engine::{Engine, MemoryEngine},
    objects::{BindRequest, ObjectId, ObjectStore, ObjectStoreOptions, Restoration},
    types::{
        Credential, InodeNo, Run, Timestamp,
        fence_epoch::{ROW, fence_of},
    },
    volume::{New, Volume, VolumeConfig},
};

const SERVERS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A layout is granted.
    Give { writes: bool },
    /// All write layouts are back, and these data servers are told.
    AllBack([bool; SERVERS]),
    /// The metadata server writes itself to one of them, if nobody else may.
    Indirect(usize),
    /// A right is taken away, and these data servers are told.
    Fence([bool; SERVERS]),
    /// The handle of this number, from the latest, is used.
    Use { back: usize, server: usize, to_write: bool },
    /// A data server starts again.
    Restart(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<bool>().prop_map(|writes| Event::Give { writes }),
        3 => any::<[bool; SERVERS]>().prop_map(Event::AllBack),
        2 => (0..SERVERS).prop_map(Event::Indirect),
        1 => any::<[bool; SERVERS]>().prop_map(Event::Fence),
        8 => (0..8usize, 0..SERVERS, any::<bool>())
            .prop_map(|(back, server, to_write)| Event::Use { back, server, to_write }),
        1 => (0..SERVERS).prop_map(Event::Restart),
    ]
}

/// A handle, and when it was given out.
#[derive(Debug, Clone, Copy)]
struct Given {
    epoch: u32,
    writes: bool,
    /// Fences before it.
    fences: usize,
    /// Times that all write layouts were back before its epoch.
    writers: usize,
}

/// What a data server has to know: from which fence on handles work, and of which writers on.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    fences: usize,
    /// The same for writing, which a seal tells too.
    writing_fences: usize,
    writers: usize,
}

struct World {
    volume: Volume,
    ino: InodeNo,
    dirs: [TempDir; SERVERS],
    stores: [Option<ObjectStore>; SERVERS],
    told: [Told; SERVERS],
    given: Vec<Given>,
    /// Somebody has a write layout.
    write_layouts: bool,
    fences: usize,
    writers: usize,
    /// The present epoch, and the times that all write layouts were back before it.
    epoch: (u32, usize),
}

fn open(dir: &TempDir) -> ObjectStore {
    let options = ObjectStoreOptions { open_objects_max: 1, ..ObjectStoreOptions::default() };
    let store = ObjectStore::open(dir.path(), &options).unwrap();
    let request = BindRequest {
        number: 1,
        uuid: [1; 16],
        run: Run { number: 1, id: [1; 16] },
        common: None,
        lsn: 1,
        restored: Restoration::default(),
    };
    store.bind(&request, false).unwrap().unwrap();
    store
}

impl World {
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new()) as Arc<dyn Engine>;
        let volume = Volume::with_engine(engine, &VolumeConfig::default()).unwrap();
        let (root, new, now) = (Credential::superuser(), New::file(0o644), Timestamp::default());
        let made = volume.create(InodeNo::ROOT, b"f", &new, &root, now).value.unwrap();
        let dirs = [(); SERVERS].map(|()| tempfile::tempdir().unwrap());
        World {
            volume,
            ino: made.inode.no,
            stores: dirs.each_ref().map(|dir| Some(open(dir))),
            dirs,
            told: [Told::default(); SERVERS],
            given: Vec::new(),
            write_layouts: false,
            fences: 0,
            writers: 0,
            epoch: (0, 0),
        }
    }

    /// A handle of the file's present epoch.
    fn handle(&mut self, writes: bool) -> Given {
        let epoch = self.volume.inode(self.ino).value.unwrap().fence_epoch;
        if epoch > self.epoch.0 {
            self.epoch = (epoch, self.writers);
        }
        Given { epoch, writes, fences: self.fences, writers: self.epoch.1 }
    }

    fn id(&self) -> ObjectId {
        ObjectId { volume: 1, object: self.ino.0 }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Give { writes } => {
                let renewed = !self.write_layouts;
                self.volume.give_handles(self.ino, writes, renewed).value.unwrap();
                self.write_layouts |= writes;
                let given = self.handle(writes);
                self.given.push(given);
            }
            Event::AllBack(told) => self.all_back(told),
            Event::Indirect(server) => self.indirect(server),
            Event::Fence(told) => self.fence(told),
            Event::Use { back, server, to_write } => {
                if let Some(at) = self.given.len().checked_sub(back + 1) {
                    self.used(self.given[at], server, to_write);
                }
            }
            Event::Restart(server) => {
                self.stores[server] = None;
                self.stores[server] = Some(open(&self.dirs[server]));
            }
        }
    }

    fn all_back(&mut self, told: [bool; SERVERS]) {
        let inode = self.volume.inode(self.ino).value.unwrap();
        let Some(epoch) = inode.last_writing_epoch() else { return };
        self.writers += usize::from(self.write_layouts);
        self.write_layouts = false;
        for server in (0..SERVERS).filter(|s| told[*s]) {
            self.stores[server].as_ref().unwrap().seal(self.id(), epoch).unwrap();
            self.told[server].writers = self.writers;
            self.told[server].writing_fences = self.fences;
        }
    }

    fn indirect(&mut self, server: usize) {
        if self.write_layouts {
            return;
        }
        if self.volume.inode(self.ino).value.unwrap().handles.write {
            self.volume.renew_epoch(self.ino).value.unwrap();
        }
        let handle = self.handle(true);
        self.used(handle, server, true);
    }

    fn fence(&mut self, told: [bool; SERVERS]) {
        self.fences += 1;
        self.write_layouts = false;
        let epoch = self.volume.bump_epoch(self.ino).value.unwrap();
        self.handle(false);
        for server in (0..SERVERS).filter(|s| told[*s]) {
            self.stores[server].as_ref().unwrap().fence(self.id(), epoch).unwrap();
            self.told[server].fences = self.fences;
        }
    }

    fn used(&mut self, handle: Given, server: usize, to_write: bool) {
        if to_write && !handle.writes {
            return;
        }
        let (store, id) = (self.stores[server].as_ref().unwrap(), self.id());
        // As a data server admits it.
        let admitted = match store.knows_epoch(id, handle.epoch) {
            Ok(false) => store.learn_epoch(id, handle.epoch),
            known => known.map(drop),
        };
        let told = &mut self.told[server];
        told.fences = told.fences.max(handle.fences);
        let ended = handle.fences < told.fences;
        if !ended {
            told.writers = told.writers.max(handle.writers);
        }
        assert_eq!(admitted.is_err(), ended, "{handle:?} {told:?}");
        assert_eq!(store.check(id, handle.epoch).is_err(), ended, "{handle:?} {told:?}");
        if to_write {
            let is_sealed = handle.fences < told.writing_fences || handle.writers < told.writers;
            let ended = ended || is_sealed;
            let written = store.write(id, handle.epoch, 0, b"x");
            assert_eq!(written.is_err(), ended, "{handle:?} {told:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn handles_end_when_they_should(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::new();
        for event in events {
            world.step(event);
        }
    }
}

/// The writer after the last of a row ends all handles of that row, and nothing is given twice.
#[test]
fn a_full_row_is_followed_by_the_next() {
    let mut world = World::new();
    let mut last = None;
    for _ in 0..3 * ROW {
        world.step(Event::Give { writes: true });
        world.step(Event::AllBack([true, false]));
        let epoch = world.given.last().map(|given| given.epoch);
        assert!(epoch > last, "{epoch:?} after {last:?}");
        last = epoch;
    }
    let rows: Vec<_> = world.given.iter().map(|given| fence_of(given.epoch)).collect();
    let store = world.stores[1].as_ref().unwrap();
    store.learn_epoch(world.id(), last.unwrap()).unwrap();
    for (given, row) in world.given.iter().zip(&rows) {
        let ended = row < rows.last().unwrap();
        assert_eq!(store.check(world.id(), given.epoch).is_err(), ended, "{given:?}");
    }
    assert!(rows.first() < rows.last());
}
