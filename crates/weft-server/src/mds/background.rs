//! What goes on beside requests.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::task::JoinSet;
use weft_nfs::ClientId;
use weft_state::{FileKey, Millis};
use weft_store::{
    types::{IntentKind, StoreError},
    volume::Volume,
};

use super::{Mds, reaper::Reaper};

/// How often leases, grace and recalls are looked at.
const TICK: Duration = Duration::from_millis(500);
/// Intents and orphans looked at together.
const REAP_BATCH: usize = 512;

/// The clients that may reclaim after this start.
pub(super) fn known_clients(volume: &Volume) -> Result<Vec<(u64, Bytes)>, StoreError> {
    let records = volume.clients().value?;
    let known = records.into_iter().map(|(id, record)| match record.split_first() {
        Some((&super::CLIENT_RECORD_VERSION, _)) => Ok((id, record.slice(1..))),
        _ => Err(StoreError::Corrupt("client record")),
    });
    known.collect()
}

/// Truncations that a crash interrupted come before any new write to their files.
pub(super) fn take_up_truncations(mds: &Mds) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let intents = mds.volume.intents(after, REAP_BATCH).value?;
        let Some(last) = intents.last() else { return Ok(()) };
        after = Some(last.id);
        for intent in intents {
            if matches!(intent.kind, IntentKind::Truncate { .. }) {
                let inode = match mds.volume.inode(intent.ino).value {
                    Ok(inode) => Some(inode),
                    Err(StoreError::Stale) => None,
                    Err(e) => return Err(e),
                };
                mds.files.lock().begin_left_over(intent.ino, inode.as_ref());
                mds.abandon_truncation(intent);
            }
        }
    }
}

pub(super) async fn run(mds: Arc<Mds>) {
    tokio::join!(
        timers(mds.clone()),
        mds.clone().run_fences(),
        mds.clone().watch_load(),
        Reaper::default().run(&mds),
        mds.run_pool()
    );
}

/// Leases, grace, and recalls that nobody answered. Nothing here waits for a data server.
async fn timers(mds: Arc<Mds>) {
    let mut tick = tokio::time::interval(TICK);
    let mut orphans_checked = false;
    let mut revocations = Revocations::default();
    let mut expired = HashSet::new();
    loop {
        tick.tick().await;
        let now = mds.core.clock.now();
        end_grace(&mds, now);
        if !orphans_checked && !mds.grace().is_on() {
            orphans_checked = release_unclaimed_orphans(&mds);
        }
        mds.end_courtesies(now);
        mds.revoke_overdue_delegations(now);
        mds.clear_way_of_waiters(now, &mut expired);
        mds.notify_lock_waiters();
        drop_strays(&mds);
        revocations.begin(&mds, now);
        let mut files = mds.files.lock();
        let state = mds.state();
        files.purge(|ino| state.rw_layouts(mds.handle(ino).key()));
    }
}

/// Layouts being revoked, each by a task of its own: one whose data server hangs delays no other.
#[derive(Debug, Default)]
struct Revocations {
    under_way: HashSet<(ClientId, FileKey)>,
    tasks: JoinSet<(ClientId, FileKey)>,
}

impl Revocations {
    fn begin(&mut self, mds: &Arc<Mds>, now: Millis) {
        while let Some(Ok(done)) = self.tasks.try_join_next() {
            self.under_way.remove(&done);
        }
        let limit_ms = u64::from(mds.core.lease_s) * 1000;
        let mut overdue = mds.state().recalls_overdue(now, limit_ms);
        overdue.extend(mds.layouts_of_expired(now));
        for layout in overdue {
            let which = (layout.client, layout.file);
            if self.under_way.insert(which) {
                let mds = mds.clone();
                self.tasks.spawn(async move {
                    mds.revoke(layout).await;
                    which
                });
            }
        }
    }
}

/// The records of clients that did not complete their reclaim go before anybody is given anything
/// that they had.
fn end_grace(mds: &Mds, now: Millis) {
    let mut grace = mds.grace();
    if let Some(ended) = grace.tick(now) {
        tracing::info!(gone = ended.incomplete.len(), "grace has ended");
        ended.incomplete.into_iter().for_each(|id| mds.remove_client_record(id));
    }
}

/// A request that was under way while its client was dropped may have left state behind.
fn drop_strays(mds: &Mds) {
    let holders: Vec<_> = mds.state().clients().collect();
    for client in holders {
        if mds.core.sessions().client(client).is_none() {
            mds.drop_client_state(client);
        }
    }
}

/// Files that were unlinked while open, and that nobody reclaimed in grace.
fn release_unclaimed_orphans(mds: &Mds) -> bool {
    let mut after = None;
    loop {
        let orphans = match mds.volume.orphans(after, REAP_BATCH).value {
            Ok(orphans) => orphans,
            Err(e) => {
                tracing::error!(error = %e, "cannot list unlinked files");
                return false;
            }
        };
        let Some(last) = orphans.last() else { return true };
        after = Some(*last);
        for ino in orphans {
            if !mds.state().is_open(mds.handle(ino).key()) {
                mds.last_close(ino);
            }
        }
    }
}
