//! The file, across restarts, tears and damage.

use std::fs;

use tempfile::tempdir;

use super::super::binding::Restoration;
use super::*;

const STORE: [u8; 16] = [9; 16];

fn request(number: u64, common: Option<Run>) -> BindRequest {
    let run = |number| Run { number, id: [1; 16] };
    let common = common.map(|run| binding::CommonRun { run, end_lsn: 10, end_next: 2 });
    BindRequest {
        number: 7,
        uuid: [7; 16],
        run: run(number),
        common,
        lsn: 10,
        restored: Restoration::default(),
    }
}

fn id(volume: u32, object: u64) -> ObjectId {
    ObjectId { volume, object }
}

/// What is bound, told and raised is there after a restart; the mark is above every object that
/// may be made, and one sync raises it for many.
#[test]
fn what_was_learnt_stays() {
    let dir = tempdir().unwrap();
    Volumes::create(dir.path(), STORE).unwrap();
    let volumes = Volumes::open(dir.path(), STORE).unwrap();
    assert_eq!(volumes.admit_new(STORE, id(7, 1)), Err(ObjectError::UnknownVolume));
    assert!(!volumes.serves(id(7, 1)));
    let (accepted, _) = volumes.bind(STORE, &request(1, None), false).unwrap().unwrap();
    assert_eq!(accepted, Accepted::New);
    assert!(volumes.serves(id(7, 1)) && !volumes.serves(id(8, 1)));
    assert_eq!(volumes.grow(STORE, 7, 50), Ok(50));
    assert_eq!(volumes.grow(STORE, 7, 40), Ok(50), "it does not go back");
    assert_eq!(volumes.grow(STORE, 8, 1), Err(ObjectError::UnknownVolume));
    for object in [5, 6, 5 + MARK_STEP - 1] {
        volumes.admit_new(STORE, id(7, object)).unwrap();
    }
    assert_eq!(volumes.all()[0].mark, 5 + MARK_STEP, "raised once");
    volumes.admit_new(STORE, id(7, 5 + MARK_STEP)).unwrap();
    volumes.admit_new(STORE, id(7, u64::MAX)).unwrap();
    volumes.adopt(STORE, [3; 16]).unwrap();
    let all = volumes.all();
    drop(volumes);
    let volumes = Volumes::open(dir.path(), STORE).unwrap();
    assert_eq!((volumes.all(), volumes.adopts()), (all, Some([3; 16])));
    // Leave to adopt is used up by the volume it is for.
    volumes.adopt(STORE, [7; 16]).unwrap();
    let next = request(2, Some(Run { number: 9, id: [9; 16] }));
    let (accepted, _) = volumes.bind(STORE, &next, false).unwrap().unwrap();
    assert_eq!((accepted, volumes.adopts()), (Accepted::Adopted, None));
}

/// A start that no metadata server heard of is not one; the others are remembered, the latest.
#[test]
fn runs_of_the_store() {
    let dir = tempdir().unwrap();
    Volumes::create(dir.path(), STORE).unwrap();
    let open = || Volumes::open(dir.path(), STORE).unwrap();
    let first = open().run();
    let second = open().run();
    assert_eq!((first.number, second.number), (1, 1));
    assert_ne!(first.id, second.id);
    let mut runs = Vec::new();
    for n in 1..=70 {
        let volumes = open();
        let common = (n > 1).then_some(Run { number: n - 1, id: [1; 16] });
        volumes.bind(STORE, &request(n, common), false).unwrap().unwrap();
        runs.push(volumes.run());
    }
    let volumes = open();
    assert_eq!(volumes.run().number, 71);
    assert_eq!(volumes.remembered(70), Remembered::Run(runs[69]));
    assert_eq!(volumes.remembered(8), Remembered::Run(runs[7]));
    assert_eq!(volumes.remembered(7), Remembered::Forgotten);
    assert_eq!(volumes.remembered(72), Remembered::Never);
}

/// A crash while a slot was written leaves the other; without a whole one, the file is refused, as
/// is that of another store.
#[test]
fn a_torn_slot_is_the_state_before() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(VOLUMES_FILE);
    Volumes::create(dir.path(), STORE).unwrap();
    let volumes = Volumes::open(dir.path(), STORE).unwrap();
    volumes.bind(STORE, &request(1, None), false).unwrap().unwrap();
    let before = volumes.all();
    volumes.grow(STORE, 7, 99).unwrap();
    let newest = read(&volumes.contents).sequence % 2;
    drop(volumes);
    let whole = fs::read(&path).unwrap();
    for at in [0, 30, 200, SLOT_BYTES - 1] {
        let mut torn = whole.clone();
        torn[usize::try_from(newest).unwrap() * SLOT_BYTES + at] ^= 1;
        fs::write(&path, &torn).unwrap();
        assert_eq!(Volumes::open(dir.path(), STORE).unwrap().all(), before, "byte {at}");
    }
    let foreign = Volumes::open(dir.path(), [8; 16]).map(drop);
    assert_eq!(foreign, Err(ObjectError::Corrupt(WHAT)));
    fs::write(&path, vec![0; 2 * SLOT_BYTES]).unwrap();
    assert!(Volumes::open(dir.path(), STORE).is_err());
}

/// As much as there may be fits.
#[test]
fn everything_fits() {
    let run = |number| Run { number, id: [1; 16] };
    let volume = |number| ServedVolume {
        number,
        uuid: [1; 16],
        runs: (1..=RUNS_MAX as u64).map(run).collect(),
        age: u64::MAX,
        mark: u64::MAX,
        closed: vec![(1, 2); 9],
        restored: [3; 16],
    };
    let contents = Contents {
        sequence: 1,
        adopt: [1; 16],
        run_known: true,
        runs: (1..=STORE_RUNS_MAX as u64).map(run).collect(),
        volumes: (1..=binding::VOLUMES_MAX as u32).map(volume).collect(),
    };
    let slot = encode(&contents, STORE).unwrap();
    assert_eq!(slot.len(), SLOT_BYTES);
    assert_eq!(decode(&slot, STORE), Some(contents));
}
