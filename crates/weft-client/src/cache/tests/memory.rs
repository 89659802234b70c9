//! Many files and one budget.

use bytes::Bytes;

use crate::cache::*;
use crate::limits;

type Cache = FileCache<u8, u8>;

/// Files, and what a client does with them.
struct Files {
    budget: Budget,
    files: Vec<(FileId, Cache)>,
}

impl Files {
    fn new(bytes: u64, count: usize) -> Files {
        let mut budget = Budget::new(bytes);
        let new = |_| (budget.register(), FileCache::new(limits::CACHE_BLOCK_BYTES));
        let files = (0..count).map(new).collect();
        Files { budget, files }
    }

    /// Tells the budget of a file, and evicts.
    fn tell(&mut self, n: usize) {
        let (id, file) = &self.files[n];
        self.budget.update(*id, file.report());
        while let Some(victim) = self.budget.victim() {
            let at = self.files.iter().position(|(id, _)| *id == victim.file).expect("it is one");
            let file = &mut self.files[at].1;
            let oldest = file.report();
            let freed = file.evict(victim.queue, victim.until, victim.bytes);
            assert!(freed > 0 || oldest != *self.budget_view(victim.file), "no progress");
            let report = self.files[at].1.report();
            self.budget.update(victim.file, report);
        }
    }

    fn budget_view(&self, file: FileId) -> &Report {
        self.budget.told(file).expect("it is registered")
    }

    /// A read of `len` bytes: fetched if missing. Whether it was there.
    fn read(&mut self, n: usize, offset: u64, len: u64) -> bool {
        let now = self.budget.now();
        let file = &mut self.files[n].1;
        file.set_now(now);
        let is_missing = |part: &Part<Bytes>| matches!(part, Part::Missing { .. });
        if !file.read(offset, len).iter().any(is_missing) {
            return true;
        }
        let fetch = file.begin_fetch(offset, len);
        file.fetched(fetch, offset, &Bytes::from(vec![n as u8; len as usize]));
        file.end_fetch(fetch);
        file.read(offset, len);
        self.tell(n);
        false
    }

    /// A recount of everything.
    fn used(&self) -> u64 {
        let all: u64 = self.files.iter().map(|(_, file)| file.usage().total()).sum();
        all + self.files.len() as u64 * limits::CACHED_FILE_OVERHEAD_BYTES
    }
}

const MIB: u64 = 1 << 20;

/// A stream through a file eight times as large as the budget leaves what is used again and again:
/// all of it is still there, while what was read once before is gone.
#[test]
fn a_stream_does_not_evict_what_is_used_again() {
    let mut files = Files::new(64 * MIB, 3);
    for _ in 0..3 {
        for n in 0..2048 {
            files.read(0, n * 16384, 16384);
        }
    }
    for n in 0..16 {
        files.read(2, n * MIB, MIB);
    }
    for n in 0..512 {
        files.read(1, n * MIB, MIB);
        assert!(files.budget.used() <= 64 * MIB);
    }
    assert_eq!(files.budget.used(), files.used());
    let hits = (0..2048).filter(|n| files.read(0, n * 16384, 16384)).count();
    assert_eq!(hits, 2048, "of the 32 MiB that were used again");
    assert!(!files.read(2, 0, MIB), "what was read once went first");
}

/// A stream in small reads, slightly out of order, is a stream too; what was used again, and is not
/// any more, makes room for what is.
#[test]
fn what_is_used_now_takes_the_place_of_what_was() {
    let mut files = Files::new(32 * MIB, 2);
    for n in 0..24 * 4 {
        files.read(0, n * MIB / 4, MIB / 4);
        files.read(0, n * MIB / 4, MIB / 4);
    }
    assert!(files.budget.usage().again.bytes >= 23 * MIB);
    for _ in 0..4 {
        for n in 0..24 * 4 {
            for _ in 0..2 {
                files.read(1, n * MIB / 4, MIB / 4);
            }
        }
    }
    let hits = (0..24 * 4).filter(|n| files.read(1, n * MIB / 4, MIB / 4)).count();
    assert_eq!(hits, 24 * 4);
}

/// Reads of a stream, whatever their size and order, count as one use.
#[test]
fn one_pass_over_a_range_is_one_use() {
    let mut cache: Cache = FileCache::new(limits::CACHE_BLOCK_BYTES);
    let fetch = cache.begin_fetch(0, MIB);
    cache.fetched(fetch, 0, &Bytes::from(vec![1; MIB as usize]));
    cache.end_fetch(fetch);
    for n in (0..8_u64).map(|n| n ^ 1) {
        cache.read(n * (MIB / 8), MIB / 8);
    }
    assert_eq!((cache.usage().once.ranges, cache.usage().again.ranges), (1, 0));
    for n in 0..256 {
        cache.read(n * 4096, 4096);
    }
    assert_eq!((cache.usage().once.ranges, cache.usage().again.ranges), (0, 1));
}

/// Of two ranges the one goes first that was not used for longer, also if they are of two files,
/// and though the file did not tell of its reads.
#[test]
fn the_least_recently_used_goes_first() {
    let mut files = Files::new(2 * MIB, 2);
    for (n, file) in [(0, 0), (1, 1), (2, 0)] {
        files.read(file, n * MIB / 2, MIB / 2);
    }
    // The oldest is used, without a word to the budget.
    files.read(0, 0, MIB / 2);
    let queue = |f: &Files| f.files[0].1.report();
    assert!(queue(&files).oldest_again.is_some());
    files.read(0, 8 * MIB, MIB / 2);
    files.read(0, 9 * MIB, MIB / 2);
    let missing = |f: &mut Files, n: usize, at| {
        matches!(f.files[n].1.read(at, 1)[..], [Part::Missing { .. }])
    };
    assert!(missing(&mut files, 1, MIB / 2), "used once, for longest");
    assert!(!missing(&mut files, 0, 0), "used again");
}

/// 10,000 open files with a little in each, clean and dirty: what they really take, by the sizes of
/// what there is, is within the budget and a tenth; and all is counted.
#[test]
fn ten_thousand_small_files_stay_within_the_budget() {
    let bytes = 64 * MIB;
    let mut files = Files::new(bytes, 0);
    for n in 0..10_000 {
        let id = files.budget.register();
        files.files.push((id, FileCache::new(limits::CACHE_BLOCK_BYTES)));
        let file = &mut files.files[n].1;
        file.set_now(files.budget.now());
        let fetch = file.begin_fetch(0, 3000);
        file.fetched(fetch, 0, &Bytes::from(vec![1; 3000]));
        file.end_fetch(fetch);
        if n % 4 == 0 {
            file.write(&1, 5000, &[2; 100]).expect("it is in range");
        }
        let report = file.report();
        files.budget.update(id, report);
        while let Some(victim) = files.budget.victim() {
            // Ids are dealt out in the order of the files.
            let at = files.files.binary_search_by_key(&victim.file, |(id, _)| *id).expect("one");
            let file = &mut files.files[at].1;
            file.evict(victim.queue, victim.until, victim.bytes);
            let report = file.report();
            files.budget.update(victim.file, report);
        }
    }
    assert_eq!(files.budget.used(), files.used());
    assert!(files.used() <= bytes + bytes / 10, "{}", files.used());
    assert!(files.budget.usage().once.ranges > 3000, "what there is room for is kept");
    let dirty = files.files.iter().filter(|(_, f)| f.usage().dirty.ranges == 1).count();
    assert_eq!(dirty, 2500, "nothing dirty is evicted");
}

/// What a range and a file are said to cost is at least what their records take, with a map's nodes
/// two thirds full.
#[test]
fn overheads_cover_the_sizes() {
    // With a writer and a mark that are a pointer each, and a payload of the largest kind.
    type Range = extent::Extent<std::sync::Arc<u8>, std::sync::Arc<[u8]>, (Bytes, u64)>;
    let entry = size_of::<Range>() + size_of::<u64>() + size_of::<(Tick, u64)>();
    let real = entry * 3 / 2;
    assert!(real as u64 <= limits::RANGE_OVERHEAD_BYTES, "{real}");
    let file = size_of::<Cache>() + size_of::<Report>() + 4 * size_of::<(Tick, FileId)>();
    assert!(file as u64 * 3 / 2 <= limits::CACHED_FILE_OVERHEAD_BYTES, "{file}");
}

/// Dirty data call for write-back before writers wait, at both limits, and whoever waits always
/// waits for something: what must be written back or committed, or is on its way.
#[test]
fn who_waits_waits_for_something() {
    let mut files = Files::new(64 * MIB, 8);
    let limit = |share: u64| 64 * MIB / share;
    let (id, file) = &mut files.files[0];
    let id = *id;
    let below = limit(limits::FILE_DIRTY_SHARE) - limits::RANGE_OVERHEAD_BYTES * 4;
    file.write(&1, 0, &vec![1; below as usize]).expect("it is in range");
    files.budget.update(id, files.files[0].1.report());
    assert!(!files.budget.must_write_back(id));
    files.files[0].1.write(&1, below, &[1; 1]).expect("it is in range");
    files.budget.update(id, files.files[0].1.report());
    assert!(files.budget.must_write_back(id) && !files.budget.must_wait(id));
    let (mut waited, mut n) = (0, 0);
    // Every file writes until it has to wait; then what must be done is done, and it goes on.
    for turn in 0..2000_u64 {
        n = (n + 1) % files.files.len();
        let id = files.files[n].0;
        if files.budget.must_wait(id) {
            waited += 1;
            assert!(work(&mut files), "a writer waits for nothing");
            continue;
        }
        files.files[n].1.write(&1, turn * MIB, &vec![1; MIB as usize]).expect("it is in range");
        let report = files.files[n].1.report();
        files.budget.update(id, report);
        let unsettled = files.budget.usage().unsettled();
        assert!(unsettled <= limit(limits::UNSETTLED_SHARE) + MIB + 4096, "{unsettled}");
    }
    assert!(waited > 100);
}

/// One step of what the budget asks for; whether it asked for anything.
fn work(files: &mut Files) -> bool {
    let of = |files: &Files, id| files.files.iter().position(|(f, _)| *f == id).expect("one");
    let to_send = files.budget.dirtiest().filter(|id| files.budget.must_write_back(*id));
    if let Some(id) = to_send {
        let n = of(files, id);
        let file = &mut files.files[n].1;
        let sending = file.take_dirty(&Take::all(4 * MIB, 16)).expect("it is dirty");
        file.arrived(sending.no, 0, u64::MAX, &Arrived::Unstable(1));
        files.tell(n);
    }
    let to_commit = files.budget.most_sent().filter(|id| files.budget.must_commit(*id));
    if let Some(id) = to_commit {
        let n = of(files, id);
        let file = &mut files.files[n].1;
        let round = file.begin_round();
        file.settle(round, |_| true);
        files.tell(n);
    }
    to_send.is_some() || to_commit.is_some()
}

/// A file that goes takes its numbers with it, and is not noted any more.
#[test]
fn a_file_that_goes_is_not_counted() {
    let mut files = Files::new(8 * MIB, 2);
    files.read(0, 0, MIB);
    files.read(1, 0, MIB);
    let (id, report) = (files.files[0].0, files.files[0].1.report());
    files.budget.leave(id);
    files.budget.update(id, report);
    files.files.remove(0);
    assert_eq!(files.budget.used(), files.used());
}
