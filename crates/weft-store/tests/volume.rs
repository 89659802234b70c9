//! What a volume promises beyond the right answers: durability before acknowledgement, stopping
//! after a failed commit, stable cookies, bounded listings, and the records it keeps for others.

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use weft_store::engine::{Batch, Engine, EngineError, KeyRange, MemoryEngine, Snapshot, Visit};
use weft_store::types::fence_epoch::ROW;
use weft_store::types::{
    Credential, DataServerId, Device, DeviceId, InodeNo, IntentKind, Kind, Lsn, Placement,
    SetIdLoss, Spread, StoreError, Timestamp,
};
use weft_store::volume::{
    Authority, CommitPolicy, DEPTH_MAX, Exclusivity, Expect, New, Remove, Rename, Seen, SetAttr,
    Settle, SettleSize, Volume, VolumeConfig, XATTR_NAME_BYTES_MAX, XATTR_NAMES_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX, XATTR_VALUES_BYTES_MAX, XattrHow,
};

const ROOT: InodeNo = InodeNo::ROOT;

fn root() -> Credential {
    Credential::superuser()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

fn over(engine: &Arc<MemoryEngine>, config: &VolumeConfig) -> Volume {
    Volume::with_engine(Arc::clone(engine) as Arc<dyn Engine>, config).unwrap()
}

/// A volume whose engine the test holds.
fn held() -> (Arc<MemoryEngine>, Volume) {
    let engine = Arc::new(MemoryEngine::new());
    let volume = over(&engine, &VolumeConfig::default());
    (engine, volume)
}

fn create(volume: &Volume, name: &str) -> Seen<Result<InodeNo, StoreError>> {
    let seen = volume.create(ROOT, name.as_bytes(), &New::file(0o644), &root(), at(1));
    Seen { value: seen.value.map(|made| made.inode.no), lsn: seen.lsn }
}

fn remove(volume: &Volume, name: &str) -> Seen<Result<(), StoreError>> {
    let what = Remove { dir: ROOT, name: name.as_bytes(), expect: None, keep_orphan: false };
    let seen = volume.remove(&what, &root(), at(1));
    Seen { value: seen.value.map(|_| ()), lsn: seen.lsn }
}

fn rename(volume: &Volume, from: &str, to: &str) -> Seen<Result<(), StoreError>> {
    let (from_name, to_name) = (from.as_bytes(), to.as_bytes());
    let (from_dir, to_dir, expect) = (ROOT, ROOT, None);
    let what = Rename { from_dir, from_name, to_dir, to_name, expect, keep_orphan: false };
    let seen = volume.rename(&what, &root(), at(1));
    Seen { value: seen.value.map(|_| ()), lsn: seen.lsn }
}

fn placement() -> Placement {
    let device = DeviceId([1; 16]);
    Placement {
        device,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 4,
        first_stripe_index: 2,
        reach: 1,
        spread: Spread::InTurn,
    }
}

fn now_or_pending<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Everything so far is durable.
async fn settle(volume: &Volume) {
    let last = volume.stats().value.unwrap().lsn;
    volume.durable(last).await.unwrap();
}

#[tokio::test]
async fn an_answer_waits_for_exactly_what_it_saw() {
    // With the disk held back: what touches undurable changes waits, refusals and absences too;
    // what does not is free at once. When the disk goes on, every waiter is served.
    let (engine, volume) = held();
    let quiet = volume.create(ROOT, b"quiet", &New::directory(0o755), &root(), at(1));
    let quiet = volume.confirm(quiet).await.unwrap().inode.no;
    let old = create(&volume, "old");
    volume.confirm(old).await.unwrap();
    engine.hold();
    let made = create(&volume, "new");
    let gone = remove(&volume, "old");
    assert!(Lsn(0) < made.lsn && made.lsn < gone.lsn);

    let found = volume.lookup(ROOT, b"new", &root());
    assert!(found.value.is_ok());
    let exclusive = New { how: Exclusivity::Guarded, ..New::file(0o600) };
    let refused = volume.create(ROOT, b"new", &exclusive, &root(), at(2));
    assert_eq!(refused.value.map(|_| ()), Err(StoreError::Exists));
    let absent = volume.lookup(ROOT, b"old", &root());
    assert_eq!(absent.value.map(|_| ()), Err(StoreError::NotFound));
    let listed = volume.readdir(ROOT, 0, &root(), |_| ControlFlow::Continue(()));
    for seen in [found.lsn, refused.lsn, absent.lsn, listed.lsn] {
        assert!(seen >= made.lsn, "{seen:?}");
        assert!(now_or_pending(volume.durable(seen)).is_pending());
    }
    let free = volume.inode(quiet);
    assert_eq!(free.lsn, Lsn(0));
    assert_eq!(now_or_pending(volume.durable(free.lsn)), Poll::Ready(Ok(())));

    let waiter = tokio::spawn({
        let volume = volume.clone();
        async move { volume.durable(gone.lsn).await }
    });
    engine.release();
    assert_eq!(waiter.await.unwrap(), Ok(()));
    assert_eq!(volume.lookup(ROOT, b"old", &root()).lsn, Lsn(0), "nothing left to wait for");
}

#[tokio::test]
async fn a_removal_alone_makes_an_absence_wait() {
    // The tombstone itself is noted, not only the directory: `get` of a removed inode waits.
    let (engine, volume) = held();
    let ino = volume.confirm(create(&volume, "a")).await.unwrap();
    engine.hold();
    let gone = remove(&volume, "a");
    let stale = volume.inode(ino);
    assert_eq!((stale.value, stale.lsn), (Err(StoreError::Stale), gone.lsn));
    engine.release();
    volume.durable(gone.lsn).await.unwrap();
}

#[tokio::test]
async fn a_failed_commit_stops_the_volume_for_good() {
    // Waiters and every later call get the reason, reads included; what was durable before stays
    // confirmed, and nothing is tried again.
    let (engine, volume) = held();
    let before = create(&volume, "before");
    volume.durable(before.lsn).await.unwrap();
    let commits = engine.commits();
    engine.fail("disk on fire");
    let lost = create(&volume, "lost");
    let later = create(&volume, "later");
    for seen in [lost, later] {
        let answer = volume.confirm(seen).await;
        assert!(matches!(&answer, Err(StoreError::Poisoned(why)) if why.contains("on fire")));
    }
    let stopped = |error: Option<StoreError>| matches!(error, Some(StoreError::Poisoned(_)));
    assert!(stopped(volume.inode(ROOT).value.err()));
    assert!(stopped(create(&volume, "never").value.err()));
    assert_eq!(volume.durable(before.lsn).await, Ok(()));
    volume.admit().await;
    assert_eq!(engine.commits(), commits);
}

/// A volume without a disk, whose engine the test holds.
fn unwaiting() -> (Arc<MemoryEngine>, Volume) {
    let engine = Arc::new(MemoryEngine::new());
    engine.commit_now_if(true);
    let volume = over(&engine, &VolumeConfig::default());
    (engine, volume)
}

/// Without a disk to wait for, who waits commits, and all who wait on his thread share it.
#[tokio::test]
async fn who_waits_commits_where_nothing_is_waited_for() {
    let (engine, volume) = unwaiting();
    for n in 0..20 {
        volume.confirm(create(&volume, &n.to_string())).await.unwrap();
    }
    // The commit thread may have been first once: it slept, and was woken.
    assert!(engine.commits_now_so_far() >= 19, "{}", engine.commits_now_so_far());
    let before = engine.commits();
    let create = |n: u64| {
        let volume = volume.clone();
        async move { volume.confirm(create(&volume, &n.to_string())).await.unwrap() }
    };
    let creates: tokio::task::JoinSet<_> = (20..40).map(create).collect();
    creates.join_all().await;
    assert_eq!(engine.commits() - before, 1);
}

/// What nobody waits for becomes durable as well, soon, whether somebody commits for himself at
/// that time or nobody has for long.
#[tokio::test]
async fn what_nobody_waits_for_becomes_durable() {
    let (_engine, volume) = unwaiting();
    for name in ["after a silence", "after a commit", "given up"] {
        let made = create(&volume, name);
        if name == "given up" {
            // Who waited is gone before it was his turn.
            let mut waiting = Box::pin(volume.durable(made.lsn));
            let mut noop = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut noop).is_pending());
        }
        let asked = std::time::Instant::now();
        while volume.durable_lsn() < made.lsn {
            assert!(asked.elapsed() < Duration::from_secs(10), "{name}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        volume.confirm(create(&volume, &format!("{name}, awaited"))).await.unwrap();
    }
}

/// What cannot be committed at once is left to the commit thread, in the order in which it was
/// taken, however many threads wait; nothing is lost, and all of it is counted.
#[test]
fn what_has_to_wait_is_left_to_the_commit_thread() {
    const THREADS: usize = 6;
    const FILES: usize = 300;
    let (engine, volume) = unwaiting();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, done) = (&volume, &done);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for n in 0..FILES {
                    let made = create(volume, &format!("{thread}-{n}"));
                    let lsn = made.lsn;
                    runtime.block_on(volume.confirm(made)).unwrap();
                    // It never goes back, either.
                    assert!(volume.durable_lsn() >= lsn);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut now = true;
        while done.load(Ordering::Relaxed) < THREADS as u64 {
            now = !now;
            engine.commit_now_if(now);
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    let by_waiters = engine.commits_now_so_far();
    assert!(by_waiters > 0 && by_waiters < engine.commits(), "{by_waiters}");
    let files = (THREADS * FILES) as u64;
    let stats = volume.stats().value.unwrap();
    assert_eq!((stats.mutations, stats.pending_bytes), (files, 0));
    drop(volume);
    let again = over(&engine, &VolumeConfig::default()).stats().value.unwrap();
    assert_eq!((again.inodes, again.lsn), (files + 1, stats.lsn));
}

/// What is large is left to the commit thread, at once; and where batches are to linger, or each
/// change is to have its own, they are its all the same.
#[tokio::test]
async fn some_is_the_commit_threads_without_a_disk_too() {
    let (engine, volume) = unwaiting();
    volume.confirm(create(&volume, "small")).await.unwrap();
    let before = engine.commits_now_so_far();
    let last = (0..2000).fold(Lsn(0), |_, n| create(&volume, &format!("{n:0>200}")).lsn);
    assert!(volume.stats().value.unwrap().pending_bytes > 256 << 10);
    volume.durable(last).await.unwrap();
    assert_eq!(engine.commits_now_so_far(), before);
    let linger = CommitPolicy { linger: Duration::from_micros(1), ..CommitPolicy::default() };
    let alone = CommitPolicy { coalesce: false, ..CommitPolicy::default() };
    for commit in [linger, alone] {
        let engine = Arc::new(MemoryEngine::new());
        engine.commit_now_if(true);
        let volume = over(&engine, &VolumeConfig { commit, ..VolumeConfig::default() });
        for n in 0..10 {
            volume.confirm(create(&volume, &n.to_string())).await.unwrap();
        }
        assert_eq!(engine.commits_now_so_far(), 0);
    }
}

/// A failure of the engine under who commits for himself stops the volume, for him and for all
/// others; nothing is tried again, not even at the end.
#[tokio::test]
async fn a_failure_under_who_waits_stops_the_volume() {
    let (engine, volume) = unwaiting();
    volume.confirm(create(&volume, "before")).await.unwrap();
    let commits = engine.commits();
    engine.fail("memory on fire");
    let behind = create(&volume, "behind");
    let lost = volume.confirm(create(&volume, "lost")).await;
    assert!(matches!(&lost, Err(StoreError::Poisoned(why)) if why.contains("on fire")));
    assert!(matches!(volume.confirm(behind).await, Err(StoreError::Poisoned(_))));
    assert!(matches!(volume.stopped().await, StoreError::Poisoned(_)));
    drop(volume);
    assert_eq!(engine.commits(), commits);
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Who waits for the end of a volume, as its server does all the time, is not woken by commits.
#[tokio::test]
async fn only_the_end_wakes_who_waits_for_it() {
    let (engine, volume) = held();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut stopped = pin!(volume.stopped());
    assert!(stopped.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    for n in 0..10 {
        volume.confirm(create(&volume, &n.to_string())).await.unwrap();
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    engine.fail("disk on fire");
    volume.confirm(create(&volume, "lost")).await.unwrap_err();
    assert!(matches!(stopped.await, StoreError::Poisoned(why) if why.contains("on fire")));
}

#[tokio::test]
async fn a_fenced_volume_stops() {
    // When another owner acquires the engine the next commit fails and the old owner stops; the
    // new one does not see the lost mutation.
    let (engine, volume) = held();
    settle(&volume).await;
    let other = over(&engine, &VolumeConfig::default());
    let late = create(&volume, "late");
    assert!(matches!(volume.durable(late.lsn).await, Err(StoreError::Poisoned(_))));
    assert_eq!(other.lookup(ROOT, b"late", &root()).value.err(), Some(StoreError::NotFound));
    volume_works(&other).await;
}

async fn volume_works(volume: &Volume) {
    volume.confirm(create(volume, "works")).await.unwrap();
}

#[tokio::test]
async fn mutations_of_a_busy_volume_share_syncs() {
    // While one commit is held 100 mutations collect and then need one commit; without coalescing
    // each that is waited for needs its own, and the others go with these.
    for (coalesce, each, syncs) in
        [(true, true, 1), (false, true, 100), (true, false, 1), (false, false, 1)]
    {
        let engine = Arc::new(MemoryEngine::new());
        let commit = CommitPolicy { coalesce, ..CommitPolicy::default() };
        let volume = over(&engine, &VolumeConfig { commit, ..VolumeConfig::default() });
        engine.hold();
        let wait = |lsn: &Lsn| {
            let (volume, lsn) = (volume.clone(), *lsn);
            tokio::spawn(async move { volume.durable(lsn).await.unwrap() })
        };
        let first = wait(&create(&volume, "first").lsn);
        tokio::task::yield_now().await;
        engine.wait_for_held_commit();
        let before = engine.commits();
        let made: Vec<_> = (0..100).map(|n| create(&volume, &n.to_string()).lsn).collect();
        let awaited = if each { &made[..] } else { &made[99..] };
        let waiting: Vec<_> = std::iter::once(first).chain(awaited.iter().map(wait)).collect();
        // On this one thread all of them wait before the next line runs.
        tokio::task::yield_now().await;
        engine.release();
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert_eq!(engine.commits() - before, 1 + syncs, "{coalesce} {each}");
    }
}

#[tokio::test]
async fn a_lingering_batch_ends_when_it_is_full() {
    // Between the watermarks a batch waits to grow (here for an hour), and goes as soon as it has
    // reached the high one; below the low one it does not wait at all.
    let engine = Arc::new(MemoryEngine::new());
    let linger = Duration::from_secs(3600);
    let commit = CommitPolicy { low: 2, high: 4, linger, ..CommitPolicy::default() };
    let volume = over(&engine, &VolumeConfig { commit, ..VolumeConfig::default() });
    engine.hold();
    let first = create(&volume, "first");
    engine.wait_for_held_commit();
    let _ = (create(&volume, "a"), create(&volume, "b"));
    engine.release();
    volume.durable(first.lsn).await.unwrap();
    let before = engine.commits();
    let _ = create(&volume, "c");
    assert_eq!(engine.commits(), before, "two or three of four: still waiting");
    let last = create(&volume, "d");
    volume.durable(last.lsn).await.unwrap();
    assert_eq!(engine.commits(), before + 1);
}

#[tokio::test]
async fn admission_waits_for_the_disk() {
    // Above the limit of pending bytes new work is held back, and let in when the disk caught up.
    let engine = Arc::new(MemoryEngine::new());
    let commit = CommitPolicy { pending_bytes_max: 2000, ..CommitPolicy::default() };
    let volume = over(&engine, &VolumeConfig { commit, ..VolumeConfig::default() });
    engine.hold();
    assert!(now_or_pending(volume.admit()).is_ready());
    let mut last = Lsn(0);
    while volume.stats().value.unwrap().pending_bytes <= 2000 {
        assert!(now_or_pending(volume.admit()).is_ready());
        last = create(&volume, &last.0.to_string()).lsn;
    }
    assert!(now_or_pending(volume.admit()).is_pending());
    engine.release();
    volume.admit().await;
    volume.durable(last).await.unwrap();
    assert_eq!(volume.stats().value.unwrap().pending_bytes, 0);
}

#[tokio::test]
async fn dropping_the_last_handle_commits_what_is_queued() {
    // Closing is orderly: an unconfirmed mutation is there after opening again.
    let (engine, volume) = held();
    assert!(create(&volume, "a").value.is_ok());
    drop(volume);
    let again = over(&engine, &VolumeConfig::default());
    assert!(again.lookup(ROOT, b"a", &root()).value.is_ok());
}

/// Names and cookies in listing order, from after a cookie.
fn list(volume: &Volume, after: u64) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let collect = |entry: weft_store::volume::DirEntry<'_>| {
        found.push((entry.cookie, String::from_utf8(entry.name.to_vec()).unwrap()));
        ControlFlow::Continue(())
    };
    assert_eq!(volume.readdir(ROOT, after, &root(), collect).value, Ok(true));
    found
}

#[test]
fn cookies_stand_while_entries_go() {
    // Removing everything one lists, as `rm -r` does, loses nothing and repeats nothing; cookies
    // are never handed out twice, also after reopening.
    let engine = Arc::new(MemoryEngine::new());
    let volume = over(&engine, &VolumeConfig::default());
    for n in 0..500 {
        assert!(create(&volume, &format!("f{n}")).value.is_ok());
    }
    let before = list(&volume, 0);
    assert_eq!(before.first().unwrap().0, 3);
    let (mut after, mut removed) = (0, Vec::new());
    loop {
        let page: Vec<_> = list(&volume, after).into_iter().take(7).collect();
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (_, name) in &page {
            assert!(remove(&volume, name).value.is_ok());
        }
        removed.extend(page);
    }
    assert_eq!(removed, before);
    drop(volume);
    let volume = over(&engine, &VolumeConfig::default());
    assert!(create(&volume, "again").value.is_ok());
    assert!(list(&volume, 0)[0].0 > before.last().unwrap().0);
    assert!(list(&volume, u64::MAX).is_empty());
}

/// Whoever lists a directory, and renames what he finds, finds each entry once.
#[test]
fn a_listing_ends_though_what_it_finds_is_renamed() {
    let (_engine, volume) = held();
    for n in 0..20 {
        assert!(create(&volume, &format!("old{n}")).value.is_ok());
    }
    let (mut after, mut found) = (0, Vec::new());
    while let Some((cookie, name)) = list(&volume, after).first() {
        assert_eq!(rename(&volume, name, &name.replace("old", "new")).value, Ok(()));
        found.push(name.clone());
        after = *cookie;
    }
    assert_eq!(found, (0..20).map(|n| format!("old{n}")).collect::<Vec<_>>());
}

#[test]
fn a_name_keeps_its_place_if_it_is_replaced_and_an_entry_if_it_is_renamed() {
    // rename over an existing name keeps that name's cookie, so a listing under way shows it once.
    let (_engine, volume) = held();
    for name in ["a", "b", "c"] {
        assert!(create(&volume, name).value.is_ok());
    }
    assert_eq!(rename(&volume, "c", "a").value, Ok(()));
    assert_eq!(list(&volume, 0), [(3, "a".into()), (4, "b".into())]);
    assert_eq!(rename(&volume, "a", "z").value, Ok(()));
    assert_eq!(list(&volume, 0), [(3, "z".into()), (4, "b".into())]);
}

/// Counts reads of the engine below a volume.
struct Counting {
    inner: MemoryEngine,
    reads: AtomicU64,
}

impl Engine for Counting {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key)
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.inner.scan(range, &mut |key, value| {
            self.reads.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
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

#[tokio::test]
async fn a_huge_directory_is_read_in_small_pieces() {
    // 200,000 entries: one entry costs a bounded number of reads wherever it is, and a whole
    // listing shows every name once, in order.
    let engine = Arc::new(Counting { inner: MemoryEngine::new(), reads: AtomicU64::new(0) });
    let config = VolumeConfig { cache_bytes: 1 << 16, ..VolumeConfig::default() };
    let volume = Volume::with_engine(Arc::clone(&engine) as Arc<dyn Engine>, &config).unwrap();
    let entries = 200_000u64;
    for n in 0..entries {
        volume.admit().await;
        assert!(create(&volume, &format!("entry-{n}")).value.is_ok());
    }
    settle(&volume).await;
    for after in [0, entries / 2, entries - 10] {
        let before = engine.reads.load(Ordering::Relaxed);
        let seen = volume.readdir(ROOT, after, &root(), |_| ControlFlow::Break(()));
        assert_eq!(seen.value, Ok(false));
        let reads = engine.reads.load(Ordering::Relaxed) - before;
        assert!(reads < 200, "{reads} reads for one entry after {after}");
    }
    let (mut count, mut last) = (0, 0);
    let visit = |entry: weft_store::volume::DirEntry<'_>| {
        assert_eq!(entry.name, format!("entry-{count}").as_bytes());
        assert!(entry.cookie > last);
        (count, last) = (count + 1, entry.cookie);
        ControlFlow::Continue(())
    };
    assert_eq!(volume.readdir(ROOT, 0, &root(), visit).value, Ok(true));
    assert_eq!(count, entries);
}

#[test]
fn sizes_settle_and_the_change_attribute_tells() {
    // AtLeast never shrinks, Exactly does; nothing learned changes nothing; a touch without a
    // visible change still advances the change attribute; settling ends unsettled.
    let (_engine, volume) = held();
    let ino = create(&volume, "f").value.unwrap();
    let marked = volume.mark_unsettled(ino).value.unwrap();
    assert!(marked.unsettled);
    let learned = Settle {
        size: SettleSize::AtLeast(100),
        mtime: Some(at(5)),
        settled: false,
        touched: false,
        occupied: None,
        set_id_loss: SetIdLoss::Nothing,
    };
    let grown = volume.settle(ino, &learned, at(6)).value.unwrap();
    assert_eq!((grown.size, grown.mtime, grown.ctime), (100, at(5), at(6)));
    assert_eq!((grown.change, grown.unsettled), (marked.change + 1, true));
    let same = Settle { size: SettleSize::AtLeast(50), ..learned };
    assert_eq!(volume.settle(ino, &same, at(7)).value.unwrap(), grown);
    let touched = Settle { touched: true, ..same };
    assert_eq!(volume.settle(ino, &touched, at(8)).value.unwrap().change, grown.change + 1);
    let last = Settle { size: SettleSize::Exactly(7), settled: true, ..learned };
    let settled = volume.settle(ino, &last, at(9)).value.unwrap();
    assert_eq!((settled.size, settled.unsettled), (7, false));
    let beyond = Settle { size: SettleSize::AtLeast(1 << 63), ..learned };
    assert_eq!(volume.settle(ino, &beyond, at(9)).value, Err(StoreError::TooBig));
}

#[test]
fn truncations_and_deletions_leave_intents_until_completed() {
    // Only a shrinking placed file owes a truncation, an unsettled one always; removing it owes a
    // deletion; completing removes exactly that intent, and doing so twice is harmless.
    let (_engine, volume) = held();
    let ino = create(&volume, "f").value.unwrap();
    let cut = |size| {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        volume.setattr(ino, &set, Authority::ByPermission, &root(), at(2)).value.unwrap().truncate
    };
    assert_eq!((cut(100), cut(50)), (None, None), "not placed yet");
    assert_eq!(volume.place(ino, placement()).value.unwrap().placement, Some(placement()));
    assert_eq!((cut(50), cut(60)), (None, None), "not shorter");
    assert_eq!(volume.bump_epoch(ino).value, Ok(ROW));
    let first = cut(10).unwrap();
    assert_eq!((first.kind, first.fence_epoch), (IntentKind::Truncate { size: 10 }, ROW));
    assert!(volume.mark_unsettled(ino).value.is_ok());
    let second = cut(10).unwrap();
    let what = Remove { dir: ROOT, name: b"f", expect: None, keep_orphan: false };
    let removed = volume.remove(&what, &root(), at(3)).value.unwrap();
    let third = removed.delete.unwrap();
    assert_eq!((third.kind, third.placement), (IntentKind::Delete, placement()));
    let all = volume.intents(None, 10).value.unwrap();
    assert_eq!(all, [first.clone(), second.clone(), third.clone()]);
    assert_eq!(volume.intents(Some(first.id), 1).value.unwrap()[0].id, second.id);
    assert_eq!(volume.intents(Some(first.id), 1).value.unwrap().len(), 1);
    for _ in 0..2 {
        assert_eq!(volume.complete_intent(second.id).value, Ok(()));
    }
    assert_eq!(volume.intents(None, 10).value.unwrap(), [first, third]);
    assert_eq!(volume.intents(None, 0).value.unwrap(), []);
}

#[test]
fn an_open_file_outlives_its_last_name() {
    // Kept as an orphan it can be used, but not linked; released, it is gone and its objects owed.
    let (_engine, volume) = held();
    let ino = create(&volume, "f").value.unwrap();
    assert!(volume.place(ino, placement()).value.is_ok());
    let what = Remove { dir: ROOT, name: b"f", expect: None, keep_orphan: true };
    let removed = volume.remove(&what, &root(), at(2)).value.unwrap();
    assert!(removed.last_link && removed.delete.is_none());
    assert_eq!(volume.inode(ino).value.unwrap().nlink, 0);
    let linked = volume.link(ino, ROOT, b"back", &root(), at(2)).value;
    assert_eq!(linked, Err(StoreError::Stale));
    assert_eq!(volume.orphans(None, 9).value.unwrap(), [ino]);
    assert_eq!(volume.orphans(Some(ino), 9).value.unwrap(), []);
    let owed = volume.release_orphan(ino, at(3)).value.unwrap().unwrap();
    assert_eq!((owed.kind, owed.ino), (IntentKind::Delete, ino));
    assert_eq!(volume.inode(ino).value, Err(StoreError::Stale));
    assert_eq!(volume.exists(ino).value, Err(StoreError::Stale));
    assert_eq!(volume.exists(InodeNo::ROOT).value, Ok(()));
    assert_eq!(volume.release_orphan(ino, at(3)).value, Ok(None));
    assert_eq!(volume.orphans(None, 9).value.unwrap(), []);
}

#[test]
fn extended_attributes_have_limits() {
    // A value of 64 KiB is the longest; all values of an inode together take 1 MiB at most, and
    // its names what a Linux program can list. What is replaced or removed makes room.
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let ino = create(&volume, "f").value.unwrap();
    let set = |name: &str, bytes: usize| {
        let value = vec![1; bytes];
        let named = (name.as_bytes(), &value[..]);
        volume.xattr_set(ino, named, XattrHow::Either, &root(), at(1)).value.map(|_| ())
    };
    let too_big = Err(StoreError::XattrTooBig);
    assert_eq!(set("a", XATTR_VALUE_BYTES_MAX + 1), too_big);
    for n in 0..XATTR_VALUES_BYTES_MAX / XATTR_VALUE_BYTES_MAX {
        assert_eq!(set(&format!("v{n}"), XATTR_VALUE_BYTES_MAX), Ok(()));
    }
    assert_eq!(set("v", 1), too_big);
    assert_eq!(set("v0", 0), Ok(()));
    assert_eq!(set("v", XATTR_VALUE_BYTES_MAX), Ok(()));
    let longest = |n: usize| format!("{n:0>XATTR_NAME_BYTES_MAX$}");
    let fitting = (0..).find(|n| set(&longest(*n), 0) == too_big).unwrap();
    // v0 to v9, v10 to v15 and v are there already, each with six bytes more than its name.
    let taken = 10 * 8 + 6 * 9 + 7;
    assert_eq!(fitting, (XATTR_NAMES_BYTES_MAX - taken) / (XATTR_NAME_BYTES_MAX + 6));
    let remove = volume.xattr_remove(ino, longest(0).as_bytes(), &root(), at(2)).value;
    assert!(remove.is_ok());
    assert_eq!(set(&longest(fitting), 0), Ok(()));
}

#[test]
fn a_placement_is_given_once() {
    // The second placement loses; directories and empty placements are refused.
    let (_engine, volume) = held();
    let ino = create(&volume, "f").value.unwrap();
    assert!(volume.place(ino, placement()).value.is_ok());
    let other = Placement { stripe_count: 9, ..placement() };
    assert_eq!(volume.place(ino, other).value.unwrap().placement, Some(placement()));
    assert_eq!(volume.place(ROOT, other).value, Err(StoreError::Invalid));
    let empty = Placement { stripe_count: 0, ..placement() };
    assert_eq!(volume.place(ino, empty).value, Err(StoreError::Invalid));
}

#[test]
fn records_of_others_survive_reopening() {
    // Clients come and go, data servers are replaced, devices are for ever.
    let engine = Arc::new(MemoryEngine::new());
    let volume = over(&engine, &VolumeConfig::default());
    let device = Device { id: DeviceId([4; 16]), data_servers: vec![DataServerId(1)], list: None };
    for id in [u64::MAX, 5, 6] {
        assert_eq!(volume.client_put(id, &id.to_be_bytes()).value, Ok(()));
    }
    assert_eq!(volume.client_remove(5).value, Ok(()));
    assert_eq!(volume.client_remove(5).value, Ok(()));
    for record in [&b"old"[..], b"new"] {
        assert_eq!(volume.data_server_put(DataServerId(1), record, 0).value, Ok(()));
    }
    for _ in 0..2 {
        assert_eq!(volume.device_put(&device).value, Ok(()));
    }
    let other = Device { data_servers: vec![DataServerId(2)], ..device.clone() };
    assert_eq!(volume.device_put(&other).value, Err(StoreError::Exists));
    let none = Device { data_servers: vec![], ..device.clone() };
    assert_eq!(volume.device_put(&none).value, Err(StoreError::Invalid));
    drop(volume);
    let volume = over(&engine, &VolumeConfig::default());
    let clients: BTreeSet<u64> = volume.clients().value.unwrap().iter().map(|c| c.0).collect();
    assert_eq!(clients, BTreeSet::from([6, u64::MAX]));
    let servers = volume.data_servers().value.unwrap();
    assert_eq!(servers, [(DataServerId(1), Bytes::from_static(b"new"))]);
    assert_eq!(volume.devices().value.unwrap(), [device]);
}

#[test]
fn a_volume_keeps_the_identity_it_was_made_with() {
    // Opening with other format values changes nothing.
    let engine = Arc::new(MemoryEngine::new());
    let mut config = VolumeConfig::default();
    config.format.uuid = [7; 16];
    let made = over(&engine, &config).identity();
    assert_eq!(made.uuid, [7; 16]);
    assert_eq!(over(&engine, &VolumeConfig::default()).identity(), made);
}

#[test]
fn what_was_found_is_what_is_changed() {
    // A caller that says what it found under a name changes that, or nothing.
    let (_engine, volume) = held();
    let [a, b, c] = ["a", "b", "c"].map(|name| create(&volume, name).value.unwrap());
    let remove = |expect| {
        let what = Remove { dir: ROOT, name: b"a", expect: Some(expect), keep_orphan: false };
        volume.remove(&what, &root(), at(2)).value.map(|removed| removed.inode.no)
    };
    let rename = |expect| {
        let (from_dir, from_name, to_dir, to_name) = (ROOT, b"b", ROOT, b"c");
        let expect = Some(expect);
        let what = Rename { from_dir, from_name, to_dir, to_name, expect, keep_orphan: false };
        volume.rename(&what, &root(), at(2)).value.map(|renamed| renamed.moved)
    };
    assert_eq!(remove(Expect::Inode(b)), Err(StoreError::Replaced));
    for others in [(a, Some(c)), (b, Some(a)), (b, None)] {
        assert_eq!(rename(others), Err(StoreError::Replaced));
    }
    assert_eq!(remove(Expect::Inode(a)), Ok(a));
    assert_eq!(rename((b, Some(c))), Ok(b));
}

/// Moving a directory looks at all above its new place; that is bounded, so that nobody holds up
/// the others with a deep one. Moves that cannot make a cycle go on, however deep they are.
#[test]
fn a_directory_is_not_moved_too_deep() {
    let (_engine, volume) = held();
    let make = |dir, name: &str| {
        let new = New::of(Kind::Directory, 0o755, Exclusivity::Guarded);
        volume.create(dir, name.as_bytes(), &new, &root(), at(1)).value.unwrap().inode.no
    };
    let (mut dirs, mut deepest) = (Vec::new(), ROOT);
    for _ in 0..=DEPTH_MAX {
        deepest = make(deepest, "d");
        dirs.push(deepest);
    }
    make(ROOT, "moved");
    assert!(create(&volume, "file").value.is_ok());
    let within = |from_name: &str, to_dir| {
        let from_name = from_name.as_bytes();
        let (from_dir, to_name, expect) = (ROOT, from_name, None);
        let what = Rename { from_dir, from_name, to_dir, to_name, expect, keep_orphan: false };
        volume.rename(&what, &root(), at(2)).value.map(drop)
    };
    assert_eq!(within("moved", deepest), Err(StoreError::Invalid));
    assert_eq!(within("file", deepest), Ok(()));
    assert_eq!(within("d", deepest), Err(StoreError::Invalid));
    assert_eq!(within("moved", dirs[DEPTH_MAX - 2]), Ok(()));
}
