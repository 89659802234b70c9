//! What is not in memory is read while everything else goes on, and what changes meanwhile is seen.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use weft_dev::SeededRng;
use weft_store::engine::{Batch, Engine, EngineError, KeyRange, MemoryEngine, Snapshot, Visit};
use weft_store::types::{Credential, InodeNo, StoreError, Timestamp};
use weft_store::volume::{New, Remove, Rename, Volume, VolumeConfig};

const ROOT: InodeNo = InodeNo::ROOT;
const NOW: Timestamp = Timestamp { seconds: 1, nanos: 0 };
/// Longer than anything takes that does not wait for the disk.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory for all records of a test; for a few of them.
const MUCH: u64 = 1 << 20;
const LITTLE: u64 = 1024;

/// A disk where a read stands still, at the test's wish, when it has found what it was to read: the
/// longest time for that to become outdated.
#[derive(Default)]
struct SlowDisk {
    inner: MemoryEngine,
    gate: Mutex<Gate>,
    changed: Condvar,
    /// Reads take turns with other threads.
    yields: AtomicBool,
}

#[derive(Default)]
struct Gate {
    /// The next read of a key that holds these bytes stands still.
    of: Option<Vec<u8>>,
    standing: bool,
    /// Going on, it panics.
    panics: bool,
}

impl SlowDisk {
    fn stop_one(&self, of: &[u8]) {
        self.gate.lock().unwrap().of = Some(of.to_vec());
    }

    fn go_on(&self) {
        self.gate.lock().unwrap().standing = false;
        self.changed.notify_all();
    }

    fn until_one_stands(&self) {
        let gate = self.gate.lock().unwrap();
        let waited = self.changed.wait_timeout_while(gate, PATIENCE, |gate| !gate.standing);
        assert!(!waited.unwrap().1.timed_out(), "nobody reads what is cold");
    }

    fn pass(&self, key: &[u8]) {
        if self.yields.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut gate = self.gate.lock().unwrap();
        if gate.of.take_if(|of| key.windows(of.len()).any(|part| part == of)).is_some() {
            gate.standing = true;
            self.changed.notify_all();
            let gate = self.changed.wait_while(gate, |gate| gate.standing).unwrap();
            let panics = gate.panics;
            drop(gate);
            assert!(!panics, "an engine with a mistake");
        }
    }
}

impl Engine for SlowDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let found = self.inner.get(key);
        self.pass(key);
        found
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        let mut found = Vec::new();
        self.inner.scan(range, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        self.pass(range.from);
        let _ = found.iter().try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: &Batch, fence_epoch: u64) -> Result<(), EngineError> {
        self.inner.commit(batch, fence_epoch)
    }

    fn epoch(&self) -> Result<u64, EngineError> {
        self.inner.epoch()
    }

    fn acquire(&self) -> Result<u64, EngineError> {
        self.inner.acquire()
    }
}

fn over(disk: &Arc<SlowDisk>, config: &VolumeConfig) -> Volume {
    Volume::with_engine(Arc::clone(disk) as Arc<dyn Engine>, config).unwrap()
}

/// A volume with these files, none of which is in memory, and this much memory.
fn cold(names: &[&str], cache_bytes: u64) -> (Arc<SlowDisk>, Volume) {
    let disk = Arc::new(SlowDisk::default());
    let warm = over(&disk, &VolumeConfig::default());
    for name in names {
        create(&warm, name).unwrap();
    }
    // The last handle commits what is open.
    drop(warm);
    let volume = over(&disk, &VolumeConfig { cache_bytes, ..VolumeConfig::default() });
    (disk, volume)
}

fn durable<T>(
    volume: &Volume,
    seen: weft_store::volume::Seen<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(volume.confirm(seen))
}

fn create(volume: &Volume, name: &str) -> Result<InodeNo, StoreError> {
    let new = New::file(0o644);
    let made = volume.create(ROOT, name.as_bytes(), &new, &Credential::superuser(), NOW);
    durable(volume, made).map(|made| made.inode.no)
}

fn remove(volume: &Volume, name: &str) -> Result<(), StoreError> {
    let what = Remove { dir: ROOT, name: name.as_bytes(), expect: None, keep_orphan: false };
    durable(volume, volume.remove(&what, &Credential::superuser(), NOW)).map(drop)
}

fn rename(volume: &Volume, from: &str, to: &str) -> Result<(), StoreError> {
    let (from_name, to_name) = (from.as_bytes(), to.as_bytes());
    let (from_dir, to_dir, expect) = (ROOT, ROOT, None);
    let what = Rename { from_dir, from_name, to_dir, to_name, expect, keep_orphan: false };
    durable(volume, volume.rename(&what, &Credential::superuser(), NOW)).map(drop)
}

fn lookup(volume: &Volume, name: &str) -> Result<InodeNo, StoreError> {
    let found = volume.lookup(ROOT, name.as_bytes(), &Credential::superuser());
    durable(volume, found).map(|inode| inode.no)
}

fn list(volume: &Volume) -> Vec<String> {
    let mut names = Vec::new();
    let listed = volume.readdir(ROOT, 0, &Credential::superuser(), |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    });
    durable(volume, listed).unwrap();
    names
}

/// Runs something on a thread of its own; its answer, if there is one in time.
fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    answer
}

/// Reads something that is cold, of which a key holds these bytes: the read stands still when this
/// returns.
fn reading<T: Send + 'static>(
    (disk, volume): (&SlowDisk, &Volume),
    of: &[u8],
    read: impl FnOnce(&Volume) -> T + Send + 'static,
) -> mpsc::Receiver<T> {
    disk.stop_one(of);
    let reader = volume.clone();
    let reads = apart(move || read(&reader));
    disk.until_one_stands();
    reads
}

/// One operation waits for the disk; all others that need nothing of it do not.
#[test]
fn nobody_waits_for_what_another_reads() {
    let (disk, volume) = cold(&["cold", "warm"], MUCH);
    let warm = lookup(&volume, "warm").unwrap();
    let reads = reading((&disk, &volume), b"cold", |volume| lookup(volume, "cold"));
    let other = volume.clone();
    let works = apart(move || (lookup(&other, "warm"), create(&other, "new"), list(&other)));
    let works = works.recv_timeout(PATIENCE);
    let early = reads.try_recv();
    disk.go_on();
    let (found, made, listed) = works.expect("others wait for the disk");
    assert_eq!(found, Ok(warm));
    assert!(made.is_ok());
    assert_eq!(listed, ["cold", "warm", "new"]);
    assert!(early.is_err(), "the disk was not asked");
    assert!(reads.recv_timeout(PATIENCE).unwrap().is_ok());
}

/// A record that was read before it changed, durably, is not what is answered.
#[test]
fn what_changes_while_it_is_read_is_seen() {
    let (disk, volume) = cold(&["name", "other"], LITTLE);
    let other = lookup(&volume, "other").unwrap();
    let reads = reading((&disk, &volume), b"name", |volume| lookup(volume, "name"));
    let writer = volume.clone();
    let writes = apart(move || rename(&writer, "other", "name"));
    let written = writes.recv_timeout(PATIENCE);
    disk.go_on();
    assert_eq!(written, Ok(Ok(())));
    assert_eq!(reads.recv_timeout(PATIENCE).unwrap(), Ok(other));
    assert_eq!(lookup(&volume, "name"), Ok(other));
}

/// The same of a listing: what went and what came while its names were read.
#[test]
fn a_listing_shows_what_changed_while_it_was_read() {
    let (disk, volume) = cold(&["a", "b", "c"], MUCH);
    for name in ["a", "b", "c"] {
        lookup(&volume, name).unwrap();
    }
    let reads = reading((&disk, &volume), &ROOT.0.to_be_bytes(), list);
    let writer = volume.clone();
    let writes = apart(move || (remove(&writer, "b"), rename(&writer, "c", "d")));
    let written = writes.recv_timeout(PATIENCE);
    disk.go_on();
    assert_eq!(written, Ok((Ok(()), Ok(()))));
    assert_eq!(reads.recv_timeout(PATIENCE).unwrap(), ["a", "d"]);
}

/// A mistake of the engine that shows when it is read stops the volume, and says so: nobody waits
/// for ever for a reader that is no more.
#[test]
fn a_panic_in_the_engine_stops_the_volume() {
    let (disk, volume) = cold(&["cold", "warm"], MUCH);
    let warm = lookup(&volume, "warm").unwrap();
    let reads = reading((&disk, &volume), b"cold", |volume| lookup(volume, "cold"));
    assert_eq!(lookup(&volume, "warm"), Ok(warm));
    disk.gate.lock().unwrap().panics = true;
    disk.go_on();
    assert_eq!(reads.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(matches!(lookup(&volume, "warm"), Err(StoreError::Poisoned(_))));
    assert!(matches!(create(&volume, "new"), Err(StoreError::Poisoned(_))));
}

/// Threads that make, rename, look up and remove their own names in one directory, with next to no
/// memory: each finds what it did, and every record agrees with the others in the end.
#[test]
fn everybody_finds_what_he_did() {
    const THREADS: u64 = 4;
    const STEPS: u32 = 1500;
    const NAMES: u64 = 12;
    let disk = Arc::new(SlowDisk::default());
    disk.yields.store(true, Ordering::Relaxed);
    let volume = over(&disk, &VolumeConfig { cache_bytes: LITTLE, ..VolumeConfig::default() });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let volume = &volume;
            scope.spawn(move || works(volume, thread, STEPS, NAMES));
        }
    });
    let checked = volume.fsck().unwrap();
    assert_eq!(checked.findings, Vec::<String>::new());
    assert_eq!(checked.entries, list(&volume).len() as u64);
}

fn works(volume: &Volume, thread: u64, steps: u32, names: u64) {
    let mut rng = SeededRng::new(7 + thread);
    let mut there = std::collections::BTreeMap::new();
    let root = Credential::superuser();
    for _ in 0..steps {
        let name = format!("{thread}-{}", rng.below(names));
        let to = format!("{thread}-{}", rng.below(names));
        match rng.below(4) {
            0 => {
                let new = New::file(0o644);
                let made = volume.create(ROOT, name.as_bytes(), &new, &root, NOW).unconfirmed();
                let no = made.unwrap().inode.no;
                assert_eq!(*there.entry(name).or_insert(no), no);
            }
            1 => {
                let what =
                    Remove { dir: ROOT, name: name.as_bytes(), expect: None, keep_orphan: false };
                let gone = volume.remove(&what, &root, NOW).unconfirmed();
                assert_eq!(gone.is_ok(), there.remove(&name).is_some(), "{name}: {gone:?}");
            }
            2 => {
                let done = rename(volume, &name, &to);
                assert_eq!(done.is_ok(), there.contains_key(&name), "{name}: {done:?}");
                if let Some(no) = there.remove(&name) {
                    there.insert(to, no);
                }
            }
            _ => {
                let found = volume.lookup(ROOT, name.as_bytes(), &root).unconfirmed();
                let found = found.map(|inode| inode.no).ok();
                assert_eq!(found, there.get(&name).copied(), "{name}");
            }
        }
    }
    let mine = format!("{thread}-");
    let listed: std::collections::BTreeSet<_> =
        list(volume).into_iter().filter(|name| name.starts_with(&mine)).collect();
    assert_eq!(listed, there.into_keys().collect());
}
