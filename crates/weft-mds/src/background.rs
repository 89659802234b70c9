//! What goes on beside requests.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use weft_nfs::ClientId;
use weft_state::{FileKey, Millis};

use super::{
    clients::Clients,
    server::{Mds, Task},
};

/// How often leases, grace and recalls are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Work that goes on beside requests: lease expiry, end of grace, overdue recalls, intents. Runs
/// for ever.
pub fn run_background(mds: Arc<Mds>) -> Task<()> {
    Box::pin(async move {
        tokio::join!(
            timers(&mds),
            mds.files.run_background(),
            mds.clients.sweep.run(),
            mds.admin.threshold.watch(&mds.core.counters)
        );
    })
}

/// Leases, grace, and recalls that nobody answered. Nothing here waits for a data server.
async fn timers(mds: &Mds) {
    let clients = &mds.clients;
    let mut tick = tokio::time::interval(TICK);
    let mut orphans_checked = false;
    let mut revocations = Revocations::default();
    let mut expired = HashSet::new();
    loop {
        tick.tick().await;
        let now = mds.core.clock.now();
        clients.end_grace(now);
        if !orphans_checked && !mds.protocol.grace().is_on() {
            orphans_checked = mds.files.release_unclaimed();
        }
        clients.end_courtesies(now);
        clients.delegations.revoke_overdue(now);
        clients.clear_way_of_waiters(now, &mut expired);
        clients.notify_lock_waiters();
        clients.drop_strays();
        clients.sweep_records(now);
        revocations.begin(mds, now);
        mds.files.purge();
    }
}

/// Layouts being revoked, each by a task of its own: one whose data server hangs delays no other.
#[derive(Debug, Default)]
struct Revocations {
    under_way: HashSet<(ClientId, FileKey)>,
    tasks: JoinSet<(ClientId, FileKey)>,
}

impl Revocations {
    fn begin(&mut self, mds: &Mds, now: Millis) {
        while let Some(Ok(done)) = self.tasks.try_join_next() {
            self.under_way.remove(&done);
        }
        let limit_ms = u64::from(mds.core.lease_s) * 1000;
        let mut overdue = mds.protocol.state().recalls_overdue(now, limit_ms);
        overdue.extend(mds.clients.layouts_of_expired(now));
        for layout in overdue {
            let which = (layout.client, layout.file);
            if self.under_way.insert(which) {
                let clients: Arc<Clients> = mds.clients.clone();
                self.tasks.spawn(async move {
                    clients.layouts.revoke(layout).await;
                    which
                });
            }
        }
    }
}
