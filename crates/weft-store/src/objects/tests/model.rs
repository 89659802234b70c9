//! Random calls against a model in memory, through a tiny cache and restarts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::types::fence_epoch::{ROW, fence_of};

#[derive(Debug, Clone)]
enum Call {
    Write {
        object: u64,
        epoch: u32,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        object: u64,
        size: u64,
    },
    Create {
        object: u64,
        epoch: u32,
    },
    Commit(u64),
    Fence {
        object: u64,
        epoch: u32,
    },
    Seal {
        object: u64,
        epoch: u32,
    },
    /// A handle of the epoch is used.
    Learn {
        object: u64,
        epoch: u32,
    },
    Remove(u64),
    Read(u64),
    Reopen,
}

fn any_call() -> impl Strategy<Value = Call> {
    let object = 0..6u64;
    // Two fences with what may come between.
    let epoch = || prop_oneof![0..4u32, ROW - 1..ROW + 3];
    prop_oneof![
        6 => (object.clone(), epoch(), 0..40u64, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(object, epoch, offset, data)| Call::Write { object, epoch, offset, data }),
        2 => (object.clone(), 0..50u64).prop_map(|(object, size)| Call::Truncate { object, size }),
        2 => (object.clone(), epoch()).prop_map(|(object, epoch)| Call::Create { object, epoch }),
        2 => object.clone().prop_map(Call::Commit),
        2 => (object.clone(), epoch()).prop_map(|(object, epoch)| Call::Fence { object, epoch }),
        2 => (object.clone(), epoch()).prop_map(|(object, epoch)| Call::Seal { object, epoch }),
        3 => (object.clone(), epoch()).prop_map(|(object, epoch)| Call::Learn { object, epoch }),
        1 => object.clone().prop_map(Call::Remove),
        3 => object.prop_map(Call::Read),
        1 => Just(Call::Reopen),
    ]
}

#[derive(Debug, Default, Clone)]
struct Model {
    epoch: u32,
    /// From which epoch on is written.
    floor: u32,
    exists: bool,
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, epoch: u32, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        for current in [self.epoch, self.floor] {
            if epoch < current {
                return Err(ObjectError::Stale { current });
            }
        }
        if !data.is_empty() {
            self.exists = true;
            let (from, to) = (offset as usize, offset as usize + data.len());
            self.bytes.resize(self.bytes.len().max(to), 0);
            self.bytes[from..to].copy_from_slice(data);
        }
        Ok(())
    }

    fn learn(&mut self, epoch: u32) {
        self.epoch = self.epoch.max(fence_of(epoch));
        if epoch > self.epoch {
            self.floor = self.floor.max(epoch);
        }
    }
}

fn apply(store: &mut Option<ObjectStore>, dir: &Path, model: &mut HashMap<u64, Model>, call: Call) {
    let s = store.as_ref().unwrap();
    match call {
        Call::Write { object, epoch, offset, data } => {
            let want = model.entry(object).or_default().write(epoch, offset, &data);
            assert_eq!(s.write(id(object), epoch, offset, &data).map(drop), want);
        }
        Call::Truncate { object, size } => {
            let m = model.entry(object).or_default();
            if m.exists {
                m.bytes.resize(size as usize, 0);
            }
            s.truncate(id(object), size).unwrap();
        }
        Call::Create { object, epoch } => {
            let m = model.entry(object).or_default();
            m.learn(epoch);
            let stale = ObjectError::Stale { current: m.epoch };
            let want = if epoch < m.epoch { Err(stale) } else { Ok(()) };
            m.exists |= want.is_ok();
            assert_eq!(s.create_many(&[(id(object), epoch)]), [want]);
        }
        Call::Commit(object) => assert_eq!(s.commit(id(object)), Ok(s.write_verifier())),
        Call::Fence { object, epoch } => {
            let m = model.entry(object).or_default();
            m.epoch = m.epoch.max(epoch);
            s.fence(id(object), epoch).unwrap();
        }
        Call::Seal { object, epoch } => {
            let m = model.entry(object).or_default();
            m.floor = m.floor.max(epoch + 1);
            s.seal(id(object), epoch).unwrap();
        }
        Call::Learn { object, epoch } => {
            let m = model.entry(object).or_default();
            let learns = fence_of(epoch) > m.epoch || epoch > m.epoch.max(m.floor);
            assert!(!(learns && s.knows_epoch(id(object), epoch) == Ok(true)));
            m.learn(epoch);
            let refused = m.epoch > epoch;
            assert_eq!(s.learn_epoch(id(object), epoch).is_err(), refused);
            let stale = ObjectError::Stale { current: m.epoch };
            let known = if refused { Err(stale) } else { Ok(true) };
            assert_eq!(s.knows_epoch(id(object), epoch), known, "from now on, without the disk");
            assert_eq!(s.check(id(object), epoch).is_err(), refused);
        }
        Call::Remove(object) => {
            model.insert(object, Model { epoch: REMOVED, ..Model::default() });
            s.remove(id(object)).unwrap();
        }
        Call::Read(object) => {
            let want = model.get(&object).cloned().unwrap_or_default();
            assert_eq!(contents(s, id(object)), want.bytes);
            assert_eq!(s.epoch(id(object)), want.epoch);
            assert_eq!(s.stat(id(object)).unwrap().size, want.bytes.len() as u64);
        }
        Call::Reopen => {
            drop(store.take());
            *store = Some(open_with(dir, 2));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the calls, the store answers as the model does.
    #[test]
    fn the_store_matches_the_model(calls in prop::collection::vec(any_call(), 1..60)) {
        let dir = tempdir().unwrap();
        let mut store = Some(open_with(dir.path(), 2));
        let mut model = HashMap::new();
        for call in calls {
            apply(&mut store, dir.path(), &mut model, call);
        }
        for object in 0..6 {
            apply(&mut store, dir.path(), &mut model, Call::Read(object));
        }
    }
}
