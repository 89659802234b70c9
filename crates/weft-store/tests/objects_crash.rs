//! A process that is killed at any moment: everything it acknowledged is there afterwards.
//!
//! A program of its own: until a child runs its own program it shares the locks of its parent,
//! where other tests may open a store again at that moment.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::tempdir;
use weft_store::{
    objects::{
        BindRequest, ObjectError, ObjectId, ObjectStore, ObjectStoreOptions, REMOVED, Restoration,
    },
    types::Run,
};

const DIR_VARIABLE: &str = "WEFT_OBJECTS_CRASH_DIR";
const BASE_VARIABLE: &str = "WEFT_OBJECTS_CRASH_BASE";

/// Rounds, and acknowledgements awaited before the kill in each: the moment differs.
const KILL_AFTER: [usize; 8] = [1, 2, 5, 9, 20, 33, 60, 100];

/// Object numbers of different rounds are this far apart.
const ROUND_OBJECTS: u64 = 100_000;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

fn open(dir: &Path) -> ObjectStore {
    let options = ObjectStoreOptions { open_objects_max: 4, ..ObjectStoreOptions::default() };
    let store = ObjectStore::open(dir, &options).unwrap();
    let run = Run { number: 1, id: [1; 16] };
    let request = BindRequest {
        number: 1,
        uuid: [1; 16],
        run,
        common: None,
        lsn: 1,
        restored: Restoration::default(),
    };
    store.bind(&request, false).unwrap().unwrap();
    store
}

/// All bytes of an object, as a reader gets them.
fn contents(store: &ObjectStore, id: ObjectId) -> Vec<u8> {
    let plan = store.read(id, 0, 1 << 20).unwrap();
    plan.range.map_or(Vec::new(), |r| {
        let mut bytes = vec![0; r.len];
        r.file.read_exact_at(&mut bytes, r.offset).unwrap();
        bytes
    })
}

fn start_child(dir: &Path, base: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .env(BASE_VARIABLE, base.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test by itself: the process that `acknowledged_calls_survive_kills` kills. It does work
/// for ever and says what is done.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    let base: u64 = std::env::var(BASE_VARIABLE).unwrap().parse().unwrap();
    let store = open(Path::new(&dir));
    let mut out = std::io::stdout().lock();
    for n in base.. {
        store.write(id(n), 0, 3, &n.to_be_bytes()).unwrap();
        store.commit(id(n)).unwrap();
        writeln!(out, "\nack {n} write").unwrap();
        if n % 3 == 0 {
            store.fence(id(n), 7).unwrap();
            writeln!(out, "\nack {n} fence").unwrap();
        }
        if n % 5 == 0 {
            store.remove(id(n)).unwrap();
            writeln!(out, "\nack {n} remove").unwrap();
        }
        if n % 7 == 0 {
            store.truncate(id(n), 4).unwrap();
            writeln!(out, "\nack {n} truncate").unwrap();
        }
        out.flush().unwrap();
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Acked {
    write: bool,
    fence: bool,
    remove: bool,
    truncate: bool,
}

/// Notes an acknowledgement; false for a line that is none.
fn note(acked: &mut HashMap<u64, Acked>, line: &str) -> bool {
    let mut words = line.split(' ');
    if words.next() != Some("ack") {
        return false;
    }
    let entry = acked.entry(words.next().unwrap().parse().unwrap()).or_default();
    match words.next().unwrap() {
        "write" => entry.write = true,
        "fence" => entry.fence = true,
        "remove" => entry.remove = true,
        "truncate" => entry.truncate = true,
        other => panic!("{other}"),
    }
    true
}

fn verify(store: &ObjectStore, n: u64, acked: Acked) {
    let bytes = contents(store, id(n));
    let whole = [&[0; 3][..], &n.to_be_bytes()].concat();
    let removed = store.epoch(id(n)) == REMOVED;
    if acked.fence {
        assert!(store.epoch(id(n)) >= 7);
    }
    if acked.remove {
        assert!(removed && bytes.is_empty());
    }
    // What follows in the child's order may have happened without being acknowledged.
    let maybe_removed = n.is_multiple_of(5);
    let maybe_short = n.is_multiple_of(7);
    if acked.truncate && !maybe_removed {
        assert_eq!(bytes, whole[..4]);
    } else if acked.write && !acked.remove {
        let kept = bytes == whole || (maybe_short && bytes == whole[..4]);
        assert!(kept || (maybe_removed && bytes.is_empty()), "{n}: {bytes:?} {acked:?}");
    }
}

/// Killed after some number of acknowledgements, again and again in one directory, the store
/// reopens and holds every acknowledged write, truncation, fence and removal of all rounds.
#[test]
fn acknowledged_calls_survive_kills() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    let mut acked = HashMap::new();
    for (round, kill_after) in (0..).zip(KILL_AFTER) {
        let mut child = start_child(dir.path(), round * ROUND_OBJECTS);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < kill_after {
            let line = lines.next().expect("the child died early").unwrap();
            seen += usize::from(note(&mut acked, &line));
        }
        let rival = ObjectStore::open(dir.path(), &ObjectStoreOptions::default());
        assert_eq!(rival.map(drop), Err(ObjectError::InUse));
        child.kill().unwrap();
        // Said before it died, so done; the last line may be cut.
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        for line in &rest[..rest.len().saturating_sub(1)] {
            note(&mut acked, line);
        }
        child.wait().unwrap();
        let store = open(dir.path());
        for (n, a) in &acked {
            verify(&store, *n, *a);
        }
    }
    assert!(acked.len() > 50, "{} objects", acked.len());
}
