//! What goes on beside requests.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use weft_store::{
    types::{Intent, IntentId, IntentKind, StoreError},
    volume::Volume,
};

use super::Mds;

/// How often leases, grace and recalls are looked at.
const TICK: Duration = Duration::from_millis(500);
/// Intents carried out together.
const REAP_BATCH: usize = 512;
/// Pause after a data server failed an intent.
const REAP_PAUSE: Duration = Duration::from_secs(1);

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
                mds.truncation_begins(intent.ino);
                mds.abandon_truncation(intent);
            }
        }
    }
}

pub(super) async fn run(mds: Arc<Mds>) {
    tokio::join!(timers(mds.clone()), reaper(mds));
}

async fn timers(mds: Arc<Mds>) {
    let mut tick = tokio::time::interval(TICK);
    let mut orphans_checked = false;
    loop {
        tick.tick().await;
        let now = mds.core.clock.now();
        let ended = mds.grace().tick(now);
        if let Some(ended) = ended {
            tracing::info!(gone = ended.never_came.len(), "grace has ended");
            for id in ended.never_came {
                if let Err(e) = mds.volume.client_remove(id).value {
                    tracing::error!(error = %e, "cannot remove a client record");
                }
            }
        }
        if !orphans_checked && !mds.grace().is_on(now) {
            orphans_checked = release_unclaimed_orphans(&mds).await;
        }
        let expired = mds.core.sessions().expired(now);
        for client in expired {
            tracing::info!(clientid = client.0, "lease expired: client dropped");
            mds.core.sessions().drop_client(client);
            mds.drop_client_state(client).await;
        }
        drop_strays(&mds).await;
        mds.fence_again().await;
        let limit_ms = u64::from(mds.core.lease_s) * 1000;
        let overdue = mds.state().recalls_overdue(now, limit_ms);
        for (client, file, rw) in overdue {
            mds.revoke(client, file, rw).await;
        }
    }
}

/// A request that was under way while its client was dropped may have left state behind.
async fn drop_strays(mds: &Mds) {
    let holders: Vec<_> = mds.state().clients().collect();
    for client in holders {
        if mds.core.sessions().client(client).is_none() {
            mds.drop_client_state(client).await;
        }
    }
}

/// Files that were unlinked while open, and that nobody reclaimed in grace.
async fn release_unclaimed_orphans(mds: &Mds) -> bool {
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
                mds.last_close(ino).await;
            }
        }
    }
}

/// Carries out intents (design D18): each is idempotent, and forgotten only when done.
async fn reaper(mds: Arc<Mds>) {
    loop {
        match reap_once(&mds).await {
            Ok(0) => mds.reap.notified().await,
            Ok(_) => {}
            Err(e) => {
                tracing::warn!(error = %e, "cleaning up waits");
                tokio::time::sleep(REAP_PAUSE).await;
            }
        }
    }
}

/// Carries out everything there is to do now; how much that was.
async fn reap_once(mds: &Mds) -> Result<usize, String> {
    let mut done = finish_truncations(mds).await?;
    let mut after: Option<IntentId> = None;
    loop {
        let seen = mds.volume.intents(after, REAP_BATCH);
        let mut intents = seen.value.map_err(|e| e.to_string())?;
        mds.volume.durable(seen.lsn).await.map_err(|e| e.to_string())?;
        let Some(last) = intents.last() else { return Ok(done) };
        after = Some(last.id);
        // A truncation belongs to its request until that gives it up: done later than its reply,
        // it would cut what was written since.
        intents.retain(|i| i.kind == IntentKind::Delete);
        done += reap_deletes(mds, intents).await?;
    }
}

async fn reap_deletes(mds: &Mds, deletes: Vec<Intent>) -> Result<usize, String> {
    let files: Vec<_> =
        deletes.iter().filter_map(|i| mds.striped_at(i.ino, &i.placement, i.fence_epoch)).collect();
    if !files.is_empty() {
        mds.data_servers.remove(&files).await.map_err(|e| e.to_string())?;
    }
    complete(mds, &deletes)?;
    Ok(deletes.len())
}

/// Truncations that their requests gave up, or that a crash cut short. Their files take no
/// writes until this is done.
async fn finish_truncations(mds: &Mds) -> Result<usize, String> {
    let mut done = 0;
    while let Some(intent) = mds.abandoned_truncation() {
        let IntentKind::Truncate { size } = intent.kind else { continue };
        let file = mds.striped_at(intent.ino, &intent.placement, intent.fence_epoch);
        if let Some(file) = file
            && let Err(e) = mds.data_servers.truncate(&file, size).await
        {
            mds.abandon_truncation(intent);
            return Err(e.to_string());
        }
        complete(mds, std::slice::from_ref(&intent))?;
        mds.truncation_ends(intent.ino);
        done += 1;
    }
    Ok(done)
}

fn complete(mds: &Mds, intents: &[Intent]) -> Result<(), String> {
    intents
        .iter()
        .try_for_each(|i| mds.volume.complete_intent(i.id).value.map_err(|e| e.to_string()))
}
