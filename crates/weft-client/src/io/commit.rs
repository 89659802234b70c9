//! COMMIT of what was written and is not durable yet: RFC 8881 §18.3, §13.7.

use std::{collections::HashMap, sync::Arc};

use tokio::task::JoinSet;
use weft_nfs::OpNum;

use super::{
    data_path::DataPath, guards::Round, held::Held, mark::Mark, open::Open, server_queues::Target,
};
use crate::{error::ClientError, joined};

impl DataPath {
    /// One COMMIT for each target with something that is not durable, all at once. Tells whether
    /// something was lost, or its server cannot be asked: that is dirty again. What data servers
    /// fail to do is noted with the layout, if one is held.
    pub(super) async fn commit_round(
        &self,
        _: &Round<'_>,
        held: Option<&Held>,
    ) -> Result<bool, ClientError> {
        let begun = self.file.cache(|cache| {
            // Whoever wrote there may commit there.
            let sent = cache.ranges.sent();
            let marked = sent.flat_map(|sent| sent.mark.iter().map(move |m| (m, &sent.by.0)));
            let targets: HashMap<Target, Arc<Open>> =
                marked.map(|(m, by)| (m.target.clone(), by.clone())).collect();
            (!targets.is_empty()).then(|| (cache.ranges.begin_round(), targets))
        });
        let Some((round, targets)) = begun else { return Ok(false) };
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
        let is_confirmed = |m: &Mark| confirmed.get(&m.target) == Some(&m.verifier);
        let has_lost = self.file.cache(|cache| {
            cache.ranges.settle(round, |marks| marks.iter().all(is_confirmed));
            cache.size.settled(self.file.now());
            // What could not be asked for stays as it is, to be asked for again.
            failed.is_ok() && cache.ranges.lost_again(round)
        });
        self.file.has_ended();
        failed.map(|()| has_lost)
    }
}
