//! Group commit (design D14, P3.3): mutations queue in memory while one thread makes batches of
//! them durable; an idle volume commits at once, a busy one collects while the last batch syncs.
//!
//! Where there is no disk to wait for, who waits for a mutation commits what is queued himself
//! (ADR 25): the way to the commit thread and back costs more than the commit. The thread does what
//! has to be waited for all the same, and what nobody waits for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::codec::{self, Identity, Progress};
use super::keys;
use super::readers::{Readers, Reading};
use super::tx::{Counters, Effect, Overlay, RecordCache, Write};
use crate::engine::{AckedFile, Batch, DirectoryLock, Engine, EngineError};
use crate::reserve::Reserve;
use crate::types::{Lsn, StoreError};

/// What a queued write costs beyond its key and value.
const WRITE_OVERHEAD_BYTES: usize = 64;
/// Groups of mutations that are taken out of the overlay at once, at most: twice as many as one
/// commit brings.
const GROUPS_AT_ONCE: usize = 2;
/// Without coalescing: how long mutations that nobody waits for stay behind.
const UNAWAITED_MAX: Duration = Duration::from_secs(1);
/// While others commit for themselves, the commit thread looks this often for what nobody waits
/// for; after such a time without any commit it sleeps until it is woken.
const NAP: Duration = Duration::from_millis(50);
/// Groups that who waits commits, one after another: his own, and what came meanwhile. Beyond that
/// they are the commit thread's.
const GROUPS_HERE_MAX: usize = 4;
/// A larger group is left to the commit thread: others wait for this one.
const BYTES_HERE_MAX: usize = 256 << 10;

/// When the commit thread syncs what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitPolicy {
    /// With fewer mutations waiting than this a batch is committed at once; with more, it may
    /// linger to grow.
    pub low: usize,
    /// Most mutations in one batch; reaching it ends the lingering.
    pub high: usize,
    /// Longest a batch lingers between `low` and `high`; zero: never, a batch is then whatever
    /// collected during the last sync.
    pub linger: Duration,
    /// Most bytes of one batch (one mutation always fits).
    pub batch_bytes_max: usize,
    /// Bytes of changes kept apart above which [`super::Volume::admit`] holds new work back: see
    /// [`super::Stats::pending_bytes`].
    pub pending_bytes_max: usize,
    /// Whether operations share a sync at all; `false` is for measuring what coalescing brings:
    /// every mutation that is waited for has a sync of its own, as in a server without group
    /// commit. Those that nobody waits for (that a removal is completed, say) go with the next
    /// one: such a server would make no sync for them either.
    pub coalesce: bool,
}

impl Default for CommitPolicy {
    fn default() -> Self {
        Self {
            low: 8,
            high: 4096,
            linger: Duration::ZERO,
            batch_bytes_max: 4 << 20,
            pending_bytes_max: 32 << 20,
            coalesce: true,
        }
    }
}

/// One mutation on its way to the disk.
struct Mutation {
    counters: Counters,
    writes: Vec<Write>,
    bytes: usize,
}

/// Mutations that share a sync.
#[derive(Debug)]
pub(super) struct Group {
    batch: Batch,
    lsn: Lsn,
    bytes: usize,
    mutations: u64,
}

/// How far the disk is, as told to waiters.
#[derive(Clone, Debug)]
pub(super) struct Durable {
    pub(super) lsn: Lsn,
    pub(super) poisoned: Option<StoreError>,
}

/// What the executor and the commit thread share under one lock, held briefly and never across
/// an await or a sync.
pub(super) struct State {
    pub(super) overlay: Overlay,
    pub(super) cache: RecordCache,
    pub(super) counters: Counters,
    /// Operations that read the engine just now; what is durable stays in the overlay for them.
    pub(super) readers: Readers<Group>,
    queue: VecDeque<Mutation>,
    /// A group has been taken from the queue, and not retired.
    committing: bool,
    /// The group that was taken by who could not commit it without waiting.
    left: Option<Group>,
    /// Somebody waits for what is queued, and does not commit it himself.
    wanted: bool,
    /// Somebody else than the commit thread has taken a group since its last nap.
    committed_here: bool,
    /// The commit thread comes back by itself.
    napping: bool,
    /// Mutations not yet durable that somebody waits for; only kept without coalescing.
    awaited: BTreeSet<Lsn>,
    poisoned: Option<StoreError>,
    closing: bool,
}

/// A volume as both its handles and its commit thread know it.
pub(super) struct Shared {
    // Constant.
    pub(super) engine: Arc<dyn Engine>,
    pub(super) identity: Identity,
    pub(super) policy: CommitPolicy,
    /// Whether who waits for a mutation commits it, as a rule.
    pub(super) commits_here: bool,
    epoch: u64,
    acked: Option<AckedFile>,
    _lock: Option<DirectoryLock>,
    /// Room on the volume's disk; absent in memory.
    pub(super) reserve: Option<Arc<Reserve>>,
    // Locks and counters.
    state: Mutex<State>,
    /// Signalled when the queue is empty no more, or long enough, and at closing.
    work: Condvar,
    /// Follows the commits, for waiters. It never goes back.
    pub(super) durable: watch::Sender<Durable>,
    /// Why the volume has stopped. Who waits for that alone is not woken by each commit.
    pub(super) stopped: watch::Sender<Option<StoreError>>,
    pub(super) pending_bytes: AtomicUsize,
    pub(super) batches: AtomicU64,
    pub(super) mutations: AtomicU64,
}

/// What an opened engine has to be told apart from its data.
pub(super) struct Opened {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) epoch: u64,
    pub(super) identity: Identity,
    pub(super) counters: Counters,
    pub(super) acked: Option<AckedFile>,
    pub(super) lock: Option<DirectoryLock>,
    pub(super) reserve: Option<Arc<Reserve>>,
}

impl Shared {
    pub(super) fn new(opened: Opened, policy: CommitPolicy, cache_bytes: u64) -> Self {
        let state = State {
            overlay: Overlay::default(),
            cache: RecordCache::new(cache_bytes),
            counters: opened.counters,
            readers: Readers::default(),
            queue: VecDeque::new(),
            committing: false,
            left: None,
            wanted: false,
            committed_here: false,
            napping: false,
            awaited: BTreeSet::new(),
            poisoned: None,
            closing: false,
        };
        let durable = Durable { lsn: opened.counters.lsn, poisoned: None };
        let at_once = policy.coalesce && policy.linger.is_zero();
        Self {
            commits_here: at_once && opened.engine.commits_now(),
            engine: opened.engine,
            identity: opened.identity,
            policy,
            epoch: opened.epoch,
            acked: opened.acked,
            _lock: opened.lock,
            reserve: opened.reserve,
            state: Mutex::new(state),
            work: Condvar::new(),
            durable: watch::Sender::new(durable),
            stopped: watch::Sender::new(None),
            pending_bytes: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            mutations: AtomicU64::new(0),
        }
    }

    /// The state, unless the volume has stopped.
    pub(super) fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let panicked = |_| StoreError::Poisoned("an operation panicked".into());
        let state = self.state.lock().map_err(panicked)?;
        match &state.poisoned {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// Makes the writes of a successful operation visible and queues them; the operation's LSN,
    /// and whether [`Self::wake`] is to be called once the state is unlocked.
    pub(super) fn enqueue(&self, state: &mut State, effect: Effect) -> (Lsn, bool) {
        let lsn = effect.counters.lsn;
        let mut bytes = 0;
        for (key, value) in &effect.writes {
            bytes += key.len() + value.as_ref().map_or(0, |v| v.len()) + WRITE_OVERHEAD_BYTES;
            state.overlay.insert(key.clone(), value.clone(), lsn);
        }
        state.counters = effect.counters;
        let mutation = Mutation { counters: effect.counters, writes: effect.writes, bytes };
        state.queue.push_back(mutation);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The commit thread waits for the first mutation, or lingers for the last of a batch.
        let waiting = state.queue.len();
        (lsn, waiting == 1 && !state.napping || waiting >= self.policy.high)
    }

    /// Commits what is queued, on the thread of who waits for it, unless somebody else is
    /// committing, who then goes on with it. What cannot be committed without waiting is left to
    /// the commit thread.
    pub(super) fn commit_here(&self) {
        for _ in 0..GROUPS_HERE_MAX {
            let Ok(mut state) = self.state() else { return };
            if state.queue.is_empty() {
                return;
            }
            if state.committing {
                state.wanted = true;
                return;
            }
            let guard = StopOnPanic(self);
            state.committed_here = true;
            let group = state.take_group(&self.policy);
            drop(state);
            let committed = self.commit_now(group);
            std::mem::forget(guard);
            if let Err(error) = committed {
                return self.stop(&error.to_string());
            }
        }
        if let Ok(mut state) = self.state()
            && !state.queue.is_empty()
        {
            state.wanted = true;
            drop(state);
            self.wake();
        }
    }

    /// Commits a group that was just taken, or leaves it to the commit thread.
    fn commit_now(&self, group: Group) -> Result<(), EngineError> {
        let is_small = group.bytes <= BYTES_HERE_MAX;
        if is_small && self.engine.commit_now(&group.batch, self.epoch)? {
            return self.committed(group);
        }
        if let Ok(mut state) = self.state() {
            state.left = Some(group);
        }
        self.wake();
        Ok(())
    }

    /// Somebody waits for this mutation to be durable.
    pub(super) fn wants(&self, lsn: Lsn) {
        if self.policy.coalesce {
            return;
        }
        if let Ok(mut state) = self.state()
            && state.queue.back().is_some_and(|last| lsn <= last.counters.lsn)
        {
            state.awaited.insert(lsn);
            drop(state);
            self.wake();
        }
    }

    /// Wakes the commit thread. Not under the lock, which is the first thing it needs.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// Lets the commit thread finish what is queued and end.
    pub(super) fn close(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.closing = true;
        }
        // What is queued and finds no room is not durable, and nobody was told that it is.
        if let Some(reserve) = &self.reserve {
            reserve.close();
        }
        self.work.notify_all();
    }

    /// The commit thread: until closing, or the first failure, after which nothing is tried again.
    pub(super) fn run(&self) {
        let guard = StopOnPanic(self);
        while let Some(group) = self.next_group() {
            if let Err(error) = self.commit(group) {
                self.stop(&error.to_string());
                break;
            }
        }
        std::mem::forget(guard);
    }

    fn commit(&self, group: Group) -> Result<(), EngineError> {
        self.engine.commit(&group.batch, self.epoch)?;
        self.committed(group)
    }

    /// The engine has the group.
    fn committed(&self, group: Group) -> Result<(), EngineError> {
        if let Some(acked) = &self.acked {
            acked.record(group.lsn.0)?;
        }
        self.retire(group)
    }

    /// Waits for work and takes as much of it as the policy lets share one sync; none once the
    /// volume has stopped or closed.
    fn next_group(&self) -> Option<Group> {
        let mut state = self.state.lock().ok()?;
        let mut napped = false;
        loop {
            if state.poisoned.is_some() {
                return None;
            }
            if let Some(left) = state.left.take() {
                return Some(left);
            }
            if !state.committing {
                let is_due = !self.commits_here || napped || state.is_pressing(&self.policy);
                match state.queue.is_empty() {
                    false if is_due => break,
                    true if state.closing => return None,
                    _ => {}
                }
            }
            (state, napped) = self.rest(state)?;
        }
        state = if self.policy.coalesce { self.linger(state)? } else { self.until_wanted(state)? };
        Some(state.take_group(&self.policy))
    }

    /// Waits to be woken; or no longer than a nap, while others commit for themselves. Whether all
    /// of a nap has passed.
    fn rest<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Option<(MutexGuard<'a, State>, bool)> {
        let is_idle = state.queue.is_empty() && !std::mem::take(&mut state.committed_here);
        if is_idle || !self.commits_here {
            state = self.work.wait(state).ok()?;
        }
        let is_due = state.left.is_some() || !state.committing && state.is_pressing(&self.policy);
        if is_due || !self.commits_here {
            return Some((state, false));
        }
        // Whoever made what is queued has this long to commit it; or it is being committed.
        state.napping = true;
        let (mut state, nap) = self.work.wait_timeout(state, NAP).ok()?;
        state.napping = false;
        Some((state, nap.timed_out()))
    }

    /// Without coalescing: waits until somebody waits for one of the mutations.
    fn until_wanted<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Option<MutexGuard<'a, State>> {
        let until = Instant::now() + UNAWAITED_MAX;
        loop {
            let first = state.queue.front().map(|m| m.counters.lsn);
            state.awaited = state.awaited.split_off(&first.unwrap_or_default());
            let left = until.checked_duration_since(Instant::now());
            let (None, Some(left), false) = (state.awaited.first(), left, state.closing) else {
                return Some(state);
            };
            state = self.work.wait_timeout(state, left).ok()?.0;
        }
    }

    fn linger<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        let policy = &self.policy;
        if policy.linger.is_zero() || state.queue.len() < policy.low {
            return Some(state);
        }
        let until = Instant::now() + policy.linger;
        while state.queue.len() < policy.high && !state.closing {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            state = self.work.wait_timeout(state, left).ok()?.0;
        }
        Some(state)
    }

    /// The group is durable: waiters go on, and the overlay lets go of it.
    fn retire(&self, group: Group) -> Result<(), EngineError> {
        let panicked = |_| EngineError::Io("an operation panicked".into());
        let (lsn, mutations) = (group.lsn, group.mutations);
        let mut state = self.state.lock().map_err(panicked)?;
        state.committing = false;
        state.readers.became_durable(group);
        let freed = Self::let_go(&mut state);
        drop(state);
        self.pending_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.mutations.fetch_add(mutations, Ordering::Relaxed);
        // Who took the group behind this one may have been here before.
        self.durable.send_modify(|durable| durable.lsn = durable.lsn.max(lsn));
        Ok(())
    }

    /// An operation has ended that had read the engine.
    pub(super) fn has_read(&self, reading: Reading) {
        // A volume that has stopped needs nothing any more.
        let Ok(mut state) = self.state() else { return };
        state.readers.end(reading);
        loop {
            let freed = Self::let_go(&mut state);
            drop(state);
            if freed == 0 {
                return;
            }
            self.pending_bytes.fetch_sub(freed, Ordering::Relaxed);
            // For those who wait to be admitted.
            self.durable.send_modify(|_| {});
            state = match self.state() {
                Ok(state) => state,
                Err(_) => return,
            };
        }
    }

    /// Takes some of what is durable, and what no reader needs, out of the overlay; its bytes. Not
    /// all at once: after a long read it may be much, and everybody waits.
    fn let_go(state: &mut State) -> usize {
        let mut freed = 0;
        for group in std::iter::from_fn(|| state.readers.let_go()).take(GROUPS_AT_ONCE) {
            freed += group.bytes;
            for (key, value) in group.batch {
                if state.overlay.retire(&key, group.lsn) {
                    state.cache.refresh(key, value);
                }
            }
        }
        freed
    }

    /// Nothing is served or promised any more; every waiter learns why.
    pub(super) fn stop(&self, why: &str) {
        tracing::error!(why, "commit failed: the volume stops until it is reopened");
        let error = StoreError::Poisoned(why.to_owned());
        match self.state.lock() {
            Ok(mut state) => state.poisoned = Some(error.clone()),
            Err(mut broken) => broken.get_mut().poisoned = Some(error.clone()),
        }
        self.durable.send_modify(|durable| durable.poisoned = Some(error.clone()));
        self.stopped.send_replace(Some(error));
        self.work.notify_all();
    }
}

impl State {
    /// The head of the queue, of which whoever calls this makes one commit.
    fn take_group(&mut self, policy: &CommitPolicy) -> Group {
        let until = self.awaited.pop_first();
        let group = take_group(&mut self.queue, policy, until);
        self.committing = true;
        self.wanted &= !self.queue.is_empty();
        group
    }

    /// Whether what is queued is not for who waits for it to commit.
    fn is_pressing(&self, policy: &CommitPolicy) -> bool {
        self.wanted || self.closing || self.queue.len() >= policy.high
    }
}

/// A panic of who commits must not leave waiters hanging.
struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop("a commit panicked");
    }
}

/// The head of the queue as one batch, at most to the mutation `until`; it always records how far
/// it goes.
fn take_group(queue: &mut VecDeque<Mutation>, policy: &CommitPolicy, until: Option<Lsn>) -> Group {
    let limit = policy.high.max(1) as u64;
    let mut group = Group { batch: Batch::new(), lsn: Lsn(0), bytes: 0, mutations: 0 };
    let mut last = None;
    while let Some(next) = queue.front() {
        let full = group.bytes + next.bytes > policy.batch_bytes_max;
        let beyond = until.is_some_and(|until| next.counters.lsn > until);
        if group.mutations == limit || ((full || beyond) && group.mutations > 0) {
            break;
        }
        let Some(mutation) = queue.pop_front() else { break };
        for (key, value) in mutation.writes {
            group.batch.write(key, value);
        }
        group.bytes += mutation.bytes;
        group.mutations += 1;
        last = Some(mutation.counters);
    }
    if let Some(counters) = last {
        group.lsn = counters.lsn;
        group.batch.put(keys::PROGRESS, codec::encode_progress(&counters.into()));
    }
    group
}

impl From<Counters> for Progress {
    fn from(counters: Counters) -> Self {
        let Counters { lsn, next_ino, inodes, .. } = counters;
        Progress { lsn, next_ino, inodes }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn queue(sizes: &[usize]) -> VecDeque<Mutation> {
        let mutation = |(index, bytes): (usize, &usize)| Mutation {
            counters: Counters {
                lsn: Lsn(index as u64 + 1),
                next_ino: 2,
                inodes: 1,
                epoch_floor: 0,
            },
            writes: vec![(Bytes::from(vec![index as u8]), None)],
            bytes: *bytes,
        };
        sizes.iter().enumerate().map(mutation).collect()
    }

    fn groups(sizes: &[usize], policy: CommitPolicy, until: &[u64]) -> Vec<(u64, u64)> {
        let mut queue = queue(sizes);
        let mut until = until.iter().map(|lsn| Lsn(*lsn));
        let mut found = Vec::new();
        while !queue.is_empty() {
            let group = take_group(&mut queue, &policy, until.next());
            assert_eq!(group.batch.len() as u64, group.mutations + 1, "one key each, and progress");
            found.push((group.lsn.0, group.mutations));
        }
        found
    }

    #[test]
    fn a_group_ends_at_the_count_at_the_bytes_or_at_what_is_awaited() {
        // Both sides of the count and byte limits; an oversized mutation goes alone; a mutation
        // that is waited for on its own is the last of its group.
        let policy = CommitPolicy { high: 3, batch_bytes_max: 100, ..CommitPolicy::default() };
        assert_eq!(groups(&[1, 1, 1, 1], policy, &[]), [(3, 3), (4, 1)]);
        assert_eq!(groups(&[50, 50, 1], policy, &[]), [(2, 2), (3, 1)]);
        assert_eq!(groups(&[50, 51, 1], policy, &[]), [(1, 1), (3, 2)]);
        assert_eq!(groups(&[500, 1], policy, &[]), [(1, 1), (2, 1)]);
        assert_eq!(groups(&[1, 1], policy, &[1, 2]), [(1, 1), (2, 1)]);
        assert_eq!(groups(&[1, 1, 1], policy, &[2]), [(2, 2), (3, 1)]);
    }

    /// The group behind is durable before this one is said to be: it stays so.
    #[test]
    fn what_is_durable_never_goes_back() {
        let engine = std::sync::Arc::new(crate::engine::MemoryEngine::new());
        let opened = super::super::open::engine(engine, &Default::default()).unwrap();
        let shared = Shared::new(opened, CommitPolicy::default(), 1 << 20);
        for lsn in [3, 2] {
            let group = Group { batch: Batch::new(), lsn: Lsn(lsn), bytes: 0, mutations: 1 };
            shared.retire(group).unwrap();
            assert_eq!(shared.durable.borrow().lsn, Lsn(3));
        }
    }
}
