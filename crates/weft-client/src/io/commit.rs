//! COMMIT of what was written and is not durable yet: RFC 8881 §18.3, §13.7.

use std::{collections::HashMap, sync::Arc};

use tokio::task::JoinSet;
use weft_nfs::OpNum;

use super::{
    data_path::DataPath,
    dirty::{Mark, RoundNo},
    guards::Round,
    held::Held,
    open::Open,
    server_queues::Target,
};
use crate::{error::ClientError, joined};

impl DataPath {
    /// One COMMIT for each target with dirty pieces, all at once. Tells the round if pieces were
    /// lost by it, or their server cannot be asked. What data servers fail to do is noted with the
    /// layout, if one is held.
    pub(super) async fn commit_round(
        &self,
        _: &Round<'_>,
        held: Option<&Held>,
    ) -> Result<Option<RoundNo>, ClientError> {
        let (round, targets) = {
            let mut dirty = self.file.lock_dirty();
            // Whoever wrote there may commit there.
            let marked = dirty.pieces().flat_map(|p| p.marks.iter().map(move |m| (m, &p.by)));
            let targets: HashMap<Target, Arc<Open>> =
                marked.map(|(m, by)| (m.target.clone(), by.clone())).collect();
            if targets.is_empty() {
                return Ok(None);
            }
            (dirty.begin_round(), targets)
        };
        let mut commits = JoinSet::new();
        for (target, by) in targets {
            let cluster = self.cluster.clone();
            commits.spawn(async move {
                let verifier = match cluster.session(&target, &by.opened.caller).await {
                    Ok(session) => session.commit(target.fh()).await,
                    Err(e) => Err(e),
                };
                (target, verifier)
            });
        }
        let mut confirmed = HashMap::new();
        let mut failed = Ok(());
        while let Some(told) = joined::next(&mut commits).await {
            match told {
                Ok((target, Ok(v))) => drop(confirmed.insert(target, v)),
                Ok((target, Err(e))) if self.cluster.can_go_around(&target, &e) => {
                    tracing::warn!("COMMIT failed on a data server: {e}");
                    if let Some(held) = held {
                        held.failures().note(&target, OpNum::COMMIT, (0, u64::MAX), &e);
                    }
                }
                Ok((_, Err(e))) | Err(e) => failed = Err(e),
            }
        }
        let mut dirty = self.file.lock_dirty();
        let is_confirmed = |m: &Mark| confirmed.get(&m.target) == Some(&m.verifier);
        dirty.settle(round, |p| p.is_durable(is_confirmed));
        failed.map(|()| dirty.next_lost(round, 0).map(|_| round))
    }
}
