//! Objects that clients make by writing (ADR 21). A file begins with one data server that may have
//! an object, and a client that was given its layout may make that one. A data server that is
//! written to beyond asks here first; so whatever concerns all objects of a file goes to those only
//! that may be there, however many data servers it could be striped over.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use weft_control::codec::{Birth, BirthAnswer};
use weft_store::types::{DataServerId, Inode, InodeNo, Lsn};

use super::{records::Table, shared::Shared};

/// Pause before a data server that cannot be asked is asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// How often new data servers are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Says which objects may be made.
pub(crate) struct BirthJudge {
    shared: Arc<Shared>,
}

impl BirthJudge {
    /// Of these files.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        BirthJudge { shared }
    }

    /// Asks all data servers for what they want to make, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let (mut tasks, mut asked) = (JoinSet::new(), HashMap::new());
        loop {
            // None ends but by a panic: another one takes its place.
            while let Some(Err(ended)) = tasks.try_join_next() {
                asked.retain(|_, task| *task != ended.id());
            }
            for id in self.shared.data_servers.ids() {
                asked.entry(id).or_insert_with(|| tasks.spawn(self.clone().ask(id)).id());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn ask(self: Arc<Self>, id: DataServerId) {
        let mut answers = Vec::new();
        loop {
            let asked = self.shared.data_servers.births(id, std::mem::take(&mut answers)).await;
            match asked {
                Ok(births) => answers = self.judge(births).await,
                Err(error) => {
                    tracing::debug!(id = id.0, %error, "not asked for what it wants to make");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// The answers, once it is durable that there may be such objects.
    async fn judge(&self, births: Vec<Birth>) -> Vec<BirthAnswer> {
        let found: BTreeMap<_, _> = births.into_iter().map(|b| (b, self.allows(&b))).collect();
        let last = found.values().filter_map(|lsn| *lsn).max();
        let durable = match last {
            Some(lsn) => self.shared.volume.durable(lsn).await.is_ok(),
            None => true,
        };
        let answer = |(birth, lsn): (Birth, Option<Lsn>)| {
            let allowed = durable && lsn.is_some();
            BirthAnswer { birth, allowed }
        };
        found.into_iter().map(answer).collect()
    }

    /// Lets a file reach as far, if the handle counts: what is durable then.
    fn allows(&self, birth: &Birth) -> Option<Lsn> {
        let Birth { object, epoch, slot } = *birth;
        let ino = InodeNo(object);
        // Under the lock no layout is granted, no epoch raised, and nobody finds that all writers
        // are gone.
        let mut files = self.shared.records.lock();
        let inode = self.shared.inode_now(ino).ok()?;
        let place = inode.placement?;
        let counts = inode.handles.write && inode.fence_epoch == epoch && !inode.stuffed;
        if !counts || slot >= u32::from(place.turns()) || !self.may_write(&mut files, &inode) {
            return None;
        }
        let end = (u64::from(slot) + 1) * u64::from(place.stripe_unit_bytes);
        let reach = || self.shared.volume.reach(ino, place.reach_to(end));
        let seen = self.shared.placement_lsn.give(reach);
        let lsn = seen.lsn;
        seen.unconfirmed().ok().map(|_| lsn)
    }

    /// Whether anybody may write to the file with handles of its present epoch.
    fn may_write(&self, files: &mut Table, inode: &Inode) -> bool {
        let in_grace = self.shared.protocol.grace().is_on();
        if in_grace {
            // Clients still finish what they began with handles of before the restart. Those of a
            // file whose writers had all given theirs back are over: it was settled then.
            return inode.unsettled && !files.truncates(inode);
        }
        let key = self.shared.key(inode.no);
        !files.refuses_grants(inode) && self.shared.protocol.state().rw_layouts(key)
    }
}
